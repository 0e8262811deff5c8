//! The same client against real Hadoop.
use crate::{client, create_request, fails, limit, metadata};
use dfs::client::status::FileKind;
use dfs::conf::Config;
use dfs::datanode::rpc::replica_visible_length;
use dfs::error::Status;
use dfs::namenode::NameNode;
use dfs::proto::hdfs::CreateRequestProto;
use dfs::time::Deadline;
use dfs_testkit::hadoop::{Cluster, ClusterConfig, WriteRequest};
use std::sync::Arc;
use std::time::{Duration, Instant};

fn connect(cluster: &Cluster, settings: &[(&str, &str)]) -> Arc<NameNode> {
    client(Config::new(), cluster.uri().trim_start_matches("hdfs://"), settings)
}

#[test]
fn metadata_is_what_java_sees() {
    let cluster = Cluster::shared().unwrap();
    let oracle = cluster.oracle().unwrap();
    let m = metadata(&connect(cluster, &[]));
    m.mkdir("/meta/dir", 0o775, true, limit()).unwrap();
    let request = WriteRequest { block_size: Some(1 << 20), ..WriteRequest::new(2_500_000, 7) };
    oracle.write("/meta/file", &request).unwrap();
    m.set_permission("/meta/file", 0o1604, limit()).unwrap();
    m.set_times("/meta/file", Some(1_000_000), Some(2_000_000), limit()).unwrap();
    m.set_replication("/meta/file", 2, limit()).unwrap();
    m.set_owner("/meta/file", Some("someone"), Some("some"), limit()).unwrap();
    m.rename("/meta/file", "/meta/ütf-8 ☃", false, limit()).unwrap();
    let mut ours = m.list("/meta", limit()).unwrap().collect(limit()).unwrap();
    ours.sort_by(|a, b| a.path.cmp(&b.path));
    let mut java = oracle.list("/meta").unwrap();
    java.sort_by(|a, b| a.path.cmp(&b.path));
    assert_eq!(ours.len(), 2);
    for (a, b) in ours.iter().zip(&java) {
        assert!(b.path.ends_with(&a.path), "{} {}", a.path, b.path);
        assert_eq!((a.length, a.mode), (b.length, u32::from(b.mode)));
        assert_eq!((a.replication, a.block_size), (u32::from(b.replication), b.block_size));
        let times = (a.mtime_ms as i64, a.atime_ms as i64);
        assert_eq!(times, (b.mtime_ms, b.atime_ms));
        assert_eq!((&a.owner, &a.group), (&b.owner, &b.group));
        assert_eq!(&m.stat(&a.path, limit()).unwrap().owner, &a.owner);
    }
    assert_eq!((ours[0].kind, ours[1].kind), (FileKind::Directory, FileKind::File));
    let blocks = m.block_locations("/meta/ütf-8 ☃", 0, u64::MAX, limit()).unwrap();
    let locations = oracle.locations("/meta/ütf-8 ☃").unwrap();
    assert_eq!(blocks.len(), 3);
    for (a, b) in blocks.iter().zip(&locations.blocks) {
        assert_eq!((a.offset, a.length), (b.offset, b.length));
        assert_eq!((a.block_id as i64, a.generation_stamp), (b.block_id, b.generation_stamp));
        let mut ours: Vec<_> = a.replicas.iter().map(|r| r.address.clone()).collect();
        let mut java = b.datanodes.clone();
        ours.sort();
        java.sort();
        assert_eq!(ours, java);
        assert!(a.replicas.iter().all(|r| r.topology.starts_with("/default-rack/")));
    }
    let (ours, java) =
        (m.content_summary("/meta", limit()).unwrap(), oracle.content_summary("/meta").unwrap());
    assert_eq!((ours.length, ours.file_count), (java.length, java.files));
    assert_eq!((ours.directory_count, ours.quota), (java.directories, java.quota));
    assert_eq!((ours.space_consumed, ours.space_quota), (java.space_consumed, java.space_quota));
    assert_eq!(m.fs_status(limit()).unwrap().capacity, oracle.fs_status().unwrap().capacity);
}

#[test]
fn refusals_have_their_statuses() {
    let cluster = Cluster::shared().unwrap();
    let nn = connect(cluster, &[]);
    let m = metadata(&nn);
    m.mkdir("/no/d/e", 0o755, true, limit()).unwrap();
    let id = nn.create(create_request("/no/f"), limit()).unwrap().file_id();
    let other = connect(cluster, &[]);
    fails(other.append("/no/f", 4, limit()), Status::LeaseHeld, "append /no/f");
    fails(
        other.add_block("/no/f", None, &[], id, &[], &[], limit()),
        Status::LeaseExpired,
        "/no/f",
    );
    assert!(nn.complete("/no/f", None, id, limit()).unwrap());
    fails(nn.create(create_request("/no/f"), limit()), Status::Exists, "/no/f");
    fails(nn.create(create_request("/no/d"), limit()), Status::Exists, "/no/d");
    fails(m.mkdir("/no/f/x", 0o755, true, limit()), Status::NotDirectory, "/no/f");
    assert!(!m.exists("/no/f/x", limit()).unwrap());
    fails(m.delete("/no/d", false, limit()), Status::NotEmpty, "/no/d");
    fails(m.rename("/no/f", "/no/d", false, limit()), Status::Exists, "/no/d");
    m.mkdir("/no/x/y", 0o755, true, limit()).unwrap();
    fails(m.rename("/no/x", "/no/d", true, limit()), Status::NotEmpty, "/no/d");
    fails(m.truncate("/no/f", 5, limit()), Status::InvalidArgument, "/no/f");
    fails(m.block_locations("/no/d", 0, 1, limit()), Status::IsDirectory, "/no/d");
    fails(m.block_locations("/no/where", 0, 1, limit()), Status::NotFound, "/no/where");
    fails(m.set_replication("/no/d", 1, limit()), Status::IsDirectory, "/no/d");
    fails(m.set_storage_policy("/no/f", "NOSUCH", limit()), Status::InvalidArgument, "NOSUCH");
    fails(m.mkdir(&format!("/no/{}", "x".repeat(300)), 0o755, true, limit()), Status::Limit, "");
    m.set_quota("/no/d", 2, -1, limit()).unwrap();
    fails(m.mkdir("/no/d/q", 0o755, true, limit()), Status::Quota, "quota");
    let stranger_nn = {
        let mut config = Config::new();
        config.set("hadoop.user.name", "stranger");
        let authority = cluster.uri();
        let authority = authority.trim_start_matches("hdfs://").to_owned();
        let mut frozen = config.freeze(Some(&authority)).unwrap();
        frozen.user = "stranger".into();
        let service = config.name_service(&authority).unwrap();
        Arc::new(NameNode::new(service, Arc::new(frozen), "stranger".into()).unwrap())
    };
    let stranger = metadata(&stranger_nn);
    fails(stranger_nn.create(create_request("/no/new"), limit()), Status::Permission, "/no");
    fails(stranger_nn.append("/no/f", 4, limit()), Status::Permission, "/no/f");
    let overwrite = CreateRequestProto { create_flag: 3, ..create_request("/no/f") };
    fails(stranger_nn.create(overwrite, limit()), Status::Permission, "/no/f");
    fails(stranger.truncate("/no/f", 0, limit()), Status::Permission, "/no/f");
    let e = fails(stranger.mkdir("/no/s", 0o755, true, limit()), Status::Permission, "stranger");
    assert!(!e.message().contains('\n'), "{e}");
    fails(stranger.set_owner("/no/f", Some("x"), None, limit()), Status::Permission, "/no/f");
}

#[test]
fn file_checksums_are_javas() {
    let cluster = Cluster::shared().unwrap();
    let oracle = cluster.oracle().unwrap();
    let composite = [("dfs.checksum.combine.mode", "COMPOSITE_CRC")];
    let modes = [
        (metadata(&connect(cluster, &[])), oracle.clone()),
        (metadata(&connect(cluster, &composite)), oracle.with_conf(composite[0].0, composite[0].1)),
    ];
    for (i, (length, checksum)) in [
        (0, "CRC32C"),
        (1, "CRC32C"),
        (1 << 20, "CRC32"),
        (2_100_001, "CRC32C"),
        (5 << 20, "CRC32C"),
    ]
    .into_iter()
    .enumerate()
    {
        let path = format!("/checksum/{i}");
        let request = WriteRequest {
            block_size: Some(1 << 20),
            checksum: Some(checksum),
            ..WriteRequest::new(length, i as u64)
        };
        oracle.write(&path, &request).unwrap();
        for prefix in [None, Some(length / 2), Some(length / 2 + 777)] {
            for (i, (m, java)) in modes.iter().enumerate() {
                let ours = m.checksum(&path, prefix, limit());
                let covered = length.min(prefix.unwrap_or(length));
                if i == 1 && cluster.version().starts_with("2.") && covered > 0 {
                    fails(ours, Status::Unsupported, "3.1.1");
                    continue;
                }
                let (ours, java) = (ours.unwrap(), java.checksum(&path, prefix).unwrap());
                let hex: String = ours.bytes.iter().map(|b| format!("{b:02x}")).collect();
                // Java's getBytes() has the rest of its buffer, zeroes, behind getLength() bytes.
                let java_hex = java.hex.get(..hex.len()).unwrap();
                assert_eq!((&*ours.algorithm, &*hex), (&*java.algorithm, java_hex), "{path}");
            }
        }
    }
    fails(modes[0].0.checksum("/checksum", None, limit()), Status::IsDirectory, "/checksum");
}

#[test]
fn datanodes_tell_visible_lengths() {
    let cluster = Cluster::shared().unwrap();
    let oracle = cluster.oracle().unwrap();
    let nn = connect(cluster, &[]);
    let handle = oracle.open("/visible", &WriteRequest::new(0, 3)).unwrap();
    oracle.put(handle, &WriteRequest::new(100_000, 3)).unwrap();
    oracle.hflush(handle).unwrap();
    let located = nn.get_block_locations("/visible", 0, 1 << 30, limit()).unwrap();
    assert!(located.under_construction && !located.is_last_block_complete);
    let last = located.last_block.unwrap();
    assert_eq!(last.locs.len(), 3);
    for node in &last.locs {
        let length = replica_visible_length(&node.id, &last.b, nn.config(), limit()).unwrap();
        assert_eq!(length, 100_000);
    }
    let mut other = last.b.clone();
    other.block_id += 1_000_000;
    let e = fails(
        replica_visible_length(&last.locs[0].id, &other, nn.config(), limit()),
        Status::NotFound,
        "getReplicaVisibleLength",
    );
    assert!(e.remote_class().unwrap().ends_with("ReplicaNotFoundException"));
    assert!(!metadata(&nn).is_file_closed("/visible", limit()).unwrap());
    oracle.close(handle).unwrap();
    assert!(metadata(&nn).is_file_closed("/visible", limit()).unwrap());
}

#[test]
fn ports_of_other_services_are_told_apart() {
    let cluster = Cluster::shared().unwrap();
    let begun = Instant::now();
    let transfer = cluster.datanode_address(0).unwrap();
    let nn = client(Config::new(), &transfer, &[]);
    fails(nn.get_file_info("/", limit()), Status::ConnectionLost, "is this an RPC port?");
    // A DataNode's RPC port speaks Hadoop RPC, but not this protocol.
    let ipc = cluster.datanode_ipc_address(0).unwrap();
    let nn = client(Config::new(), &ipc, &[]);
    fails(nn.get_file_info("/", limit()), Status::NotHdfs, "another kind");
    assert!(begun.elapsed() < Duration::from_secs(10));
}

#[test]
fn a_failover_of_real_namenodes_is_lived_through() {
    let cluster = Cluster::start(ClusterConfig::new().datanodes(1).high_availability()).unwrap();
    let mut config = Config::new();
    config.load_dir(cluster.conf_dir()).unwrap();
    let uri = cluster.uri();
    let service = uri.trim_start_matches("hdfs://");
    let nn = client(config, service, &[]);
    let m = metadata(&nn);
    m.mkdir("/before", 0o755, true, limit()).unwrap();
    cluster.transition_to_standby(0).unwrap();
    let begun = Instant::now();
    fails(m.mkdir("/x", 0o755, true, Deadline::after_ms(3000)), Status::Standby, "NameNodes");
    assert!(begun.elapsed() < Duration::from_secs(5));
    cluster.transition_to_active(1).unwrap();
    m.mkdir("/after", 0o755, true, limit()).unwrap();
    assert!(m.exists("/before", limit()).unwrap());
    // The active one vanishes with connections open.
    cluster.kill_namenode(1).unwrap();
    std::thread::scope(|scope| {
        let call = scope.spawn(|| m.mkdir("/killed", 0o755, true, Deadline::after_ms(120_000)));
        std::thread::sleep(Duration::from_millis(200));
        cluster.transition_to_active(0).unwrap();
        call.join().unwrap().unwrap();
    });
    assert!(m.exists("/killed", limit()).unwrap());
}
