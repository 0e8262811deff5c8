//! The harness itself: a real cluster starts, Java writes and reads, nodes die and come back.
//!
//! `DFS_HADOOP` chooses the Hadoop version. A cluster that does not start fails the test.

use dfs_testkit::data;
use dfs_testkit::hadoop::{
    Cluster, ClusterConfig, Flush, Oracle, ReadRequest, ReplicaState, WriteRequest,
};
use std::time::{Duration, Instant};

fn shared() -> &'static Cluster {
    Cluster::shared().unwrap()
}

#[test]
fn java_writes_and_reads_back_the_same_content_as_rust() {
    let cluster = shared();
    let oracle = cluster.oracle().unwrap();
    let request = WriteRequest {
        block_size: Some(64 * 1024),
        chunk: Some(1000),
        flush: Flush::Hflush(7),
        ..WriteRequest::new(200_000, 42)
    };
    oracle.write("/smoke/content", &request).unwrap();
    let read = oracle.read("/smoke/content", &ReadRequest::compare(42)).unwrap();
    assert_eq!(read.length, 200_000);
    assert_eq!(read.mismatch, None);
    assert_eq!(read.sha256, data::content_sha256(42, 0, 200_000));
    let range = ReadRequest { offset: 65_530, length: Some(20), pread: true, ..Default::default() };
    let read = oracle.read("/smoke/content", &range).unwrap();
    assert_eq!(read.sha256, data::sha256(&data::bytes(42, 65_530, 20)));
    let other_seed = oracle.read("/smoke/content", &ReadRequest::compare(43)).unwrap();
    assert_eq!(other_seed.mismatch, Some(0));

    let status = oracle.stat("/smoke/content").unwrap();
    assert_eq!((status.length, status.replication, status.block_size), (200_000, 3, 65_536));
    assert_eq!((status.kind.as_str(), status.mode), ("file", 0o644));
    let locations = oracle.locations("/smoke/content").unwrap();
    assert_eq!(locations.blocks.len(), 4);
    for block in &locations.blocks {
        assert_eq!(block.datanodes.len(), 3);
        let replicas = cluster.replicas_of(block.block_id).unwrap();
        assert_eq!(replicas.len(), 3);
        for (index, replica) in replicas {
            assert_eq!(replica.length, block.length);
            assert_eq!(replica.generation_stamp, Some(block.generation_stamp));
            let address = cluster.datanode_address(index).unwrap();
            assert!(block.datanodes.contains(&address));
            assert_eq!(cluster.datanode_index(&address).unwrap(), index);
        }
    }
}

#[test]
fn checksums_depend_on_the_content_and_on_what_was_asked_for() {
    let oracle = shared().oracle().unwrap();
    let write = |path: &str, seed, checksum| {
        let request = WriteRequest { checksum: Some(checksum), ..WriteRequest::new(5000, seed) };
        oracle.write(path, &request).unwrap();
        oracle.checksum(path, None).unwrap()
    };
    let first = write("/sum/a", 1, "CRC32C");
    assert_eq!(first.algorithm, "MD5-of-0MD5-of-512CRC32C");
    assert_eq!(first, write("/sum/b", 1, "CRC32C"));
    assert_ne!(first, write("/sum/c", 2, "CRC32C"));
    assert_eq!(write("/sum/d", 1, "CRC32").algorithm, "MD5-of-0MD5-of-512CRC32");
    assert_ne!(first, oracle.checksum("/sum/a", Some(4000)).unwrap());
}

#[test]
fn namespace_calls_and_errors() {
    let cluster = shared();
    let oracle = cluster.oracle().unwrap();
    let odd = "/names/a b+ä%20,=";
    assert!(oracle.mkdir(odd).unwrap());
    assert_eq!(oracle.list("/names").unwrap()[0].path, odd);
    assert!(oracle.rename(odd, "/names/plain", false).unwrap());
    let missing = oracle.stat(odd).unwrap_err();
    assert!(missing.is("java.io.FileNotFoundException"), "{missing}");
    oracle.write("/names/plain/file", &WriteRequest::new(1000, 1)).unwrap();
    oracle.append("/names/plain/file", &WriteRequest::new(500, 1)).unwrap();
    let read = oracle.read("/names/plain/file", &ReadRequest::compare(1)).unwrap();
    assert_eq!((read.length, read.mismatch), (1500, None));
    assert!(oracle.set_replication("/names/plain/file", 2).unwrap());
    let summary = oracle.content_summary("/names").unwrap();
    assert_eq!((summary.length, summary.files, summary.directories), (1500, 1, 2));
    assert!(oracle.fs_status().unwrap().capacity > 0);

    oracle.set_permission("/names/plain", 0o700).unwrap();
    let denied = oracle.as_user("nobody").list("/names/plain").unwrap_err();
    assert!(denied.is("AccessControlException"), "{denied}");
    oracle.fs_shell(&["-setfacl", "-m", "user:nobody:r-x", "/names/plain"]).unwrap();
    assert_eq!(oracle.as_user("nobody").list("/names/plain").unwrap().len(), 1);
    assert!(oracle.fs_shell(&["-ls", "/none"]).is_err());
    assert!(oracle.delete("/names").unwrap());
    assert!(!oracle.delete("/names").unwrap());
}

#[test]
fn an_open_file_can_be_read_abandoned_and_recovered() {
    let cluster = shared();
    let oracle = cluster.oracle().unwrap();
    let handle = oracle.open("/open/wal", &WriteRequest::default()).unwrap();
    assert_eq!(oracle.put(handle, &WriteRequest::new(700, 9)).unwrap(), 700);
    oracle.hflush(handle).unwrap();
    let read = oracle.read("/open/wal", &ReadRequest::compare(9)).unwrap();
    assert_eq!((read.visible_length, read.length, read.mismatch), (700, 700, None));
    let locations = oracle.locations("/open/wal").unwrap();
    assert!(locations.under_construction);
    let block = locations.last.unwrap();
    let replicas = cluster.replicas_of(block.block_id).unwrap();
    assert_eq!(replicas.len(), 3);
    assert!(replicas.iter().all(|(_, r)| r.state == ReplicaState::Rbw && r.length == 700));

    assert!(!oracle.is_file_closed("/open/wal").unwrap());
    oracle.abandon(handle).unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    while !oracle.recover_lease("/open/wal").unwrap() {
        assert!(Instant::now() < deadline, "the lease was not recovered");
        std::thread::sleep(Duration::from_millis(200));
    }
    assert!(oracle.is_file_closed("/open/wal").unwrap());
    assert_eq!(oracle.stat("/open/wal").unwrap().length, 700);
    assert!(oracle.hflush(handle).is_err(), "the handle is gone");
}

/// Waits until the file's first block has `count` locations and returns them.
fn await_locations(oracle: &Oracle, path: &str, count: usize) -> Vec<String> {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let nodes = oracle.locations(path).unwrap().blocks.remove(0).datanodes;
        if nodes.len() == count {
            return nodes;
        }
        assert!(Instant::now() < deadline, "{path} is on {nodes:?}, not on {count} nodes");
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn datanodes_die_pause_and_come_back() {
    let cluster = Cluster::start(ClusterConfig::new().fast_dead_nodes()).unwrap();
    let oracle = cluster.oracle().unwrap();
    oracle.write("/f", &WriteRequest::new(100_000, 5)).unwrap();

    cluster.kill_datanode(0).unwrap();
    assert!(cluster.datanode_pid(0).is_err());
    cluster.stop_datanode(1).unwrap();
    let address = cluster.datanode_address(2).unwrap();
    // Only one node answers; a short timeout takes the reader past the paused one.
    let reader = oracle.with_conf("dfs.client.socket-timeout", "1500");
    let read = reader.read("/f", &ReadRequest::compare(5)).unwrap();
    assert_eq!((read.length, read.mismatch), (100_000, None));
    cluster.continue_datanode(1).unwrap();
    cluster.wait_live_datanodes(2, Duration::from_secs(40)).unwrap();
    // The NameNode forgets the dead node's replicas a moment after it has counted it out.
    let nodes = await_locations(oracle, "/f", 2);
    assert!(nodes.contains(&address));
    assert!(!nodes.contains(&cluster.datanode_address(0).unwrap()));

    cluster.restart_datanode(0).unwrap();
    assert_eq!(cluster.live_datanode_count().unwrap(), 3);
    await_locations(oracle, "/f", 3);

    cluster.restart_namenode().unwrap();
    await_locations(oracle, "/f", 3);
    let added = cluster.add_datanode().unwrap();
    assert_eq!((added, cluster.live_datanode_count().unwrap()), (3, 4));
    cluster.shut_datanode_for_upgrade(added).unwrap();
    cluster.terminate_datanode(2).unwrap();
}

#[test]
fn a_corrupted_replica_is_found_by_its_reader() {
    let cluster = shared();
    let oracle = cluster.oracle().unwrap();
    let request = WriteRequest { replication: Some(1), ..WriteRequest::new(10_000, 6) };
    oracle.write("/corrupt", &request).unwrap();
    let block = oracle.locations("/corrupt").unwrap().blocks.remove(0);
    let (_, replica) = cluster.replicas_of(block.block_id).unwrap().remove(0);
    assert_eq!(replica.state, ReplicaState::Finalized);
    replica.corrupt_data(5000).unwrap();
    let error = oracle
        .with_conf("dfs.client.retry.window.base", "10")
        .read("/corrupt", &ReadRequest::default())
        .unwrap_err();
    assert!(error.is("ChecksumException") || error.is("BlockMissingException"), "{error}");
}

#[test]
fn a_bad_version_is_an_error_that_names_it() {
    let error = Cluster::start(ClusterConfig::new().version("9.9.9")).err().unwrap();
    assert!(error.to_string().contains("9.9.9"), "{error}");
}

#[test]
fn the_bench_client_measures_every_kind_of_operation() {
    let bench = shared().bench_client().unwrap();
    for command in [
        "hflush path=/bench/wal bytes=400 count=20 streams=2 replication=1",
        "write path=/bench/big length=300000 buffer=4096 replication=1",
        "read path=/bench/big buffer=65536 passes=2",
        "pread path=/bench/big bytes=4096 count=10 threads=3",
        "create path=/bench/small count=3 replication=1",
    ] {
        let json = bench.run(command).unwrap();
        let operation = command.split(' ').next().unwrap();
        assert!(json.starts_with(&format!("{{\"op\":\"{operation}\"")), "{json}");
        assert!(json.contains("\"p99_us\":") && !json.contains("NaN"), "{json}");
    }
    assert!(bench.run("read path=/none").unwrap_err().to_string().contains("FileNotFound"));
    assert!(bench.run("nonsense").is_err());
}

#[test]
fn the_active_namenode_changes_and_may_die() {
    let config = ClusterConfig::new().datanodes(1).high_availability().set("dfs.replication", "1");
    let cluster = Cluster::start(config).unwrap();
    let oracle = cluster.oracle().unwrap();
    assert_eq!(cluster.uri(), "hdfs://libdfs");
    oracle.write("/f", &WriteRequest::new(3000, 1)).unwrap();
    let state = |index| cluster.namenode_state(index).unwrap();
    assert_eq!((state(0).as_str(), state(1).as_str()), ("active", "standby"));

    cluster.transition_to_standby(0).unwrap();
    cluster.transition_to_active(1).unwrap();
    assert_eq!((state(0).as_str(), state(1).as_str()), ("standby", "active"));
    let read = oracle.read("/f", &ReadRequest::compare(1)).unwrap();
    assert_eq!((read.length, read.mismatch), (3000, None));

    cluster.kill_namenode(1).unwrap();
    cluster.transition_to_active(0).unwrap();
    oracle.append("/f", &WriteRequest::new(100, 1)).unwrap();
    cluster.start_namenode(1).unwrap();
    assert_eq!((state(0).as_str(), state(1).as_str()), ("active", "standby"));
    assert_eq!(oracle.read("/f", &ReadRequest::compare(1)).unwrap().length, 3100);
}
