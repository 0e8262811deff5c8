//! The same on real Hadoop: DataNodes killed, stopped and restarted under files of two and three
//! replicas, each of which has the node at another place of its pipeline. After every blow all
//! acknowledged bytes are on the disks of the pipeline, and the Java client reads them. In the end
//! every disk is full.
use dfs::client::file_system::{CreateOptions, FileSystem};
use dfs::conf::Config;
use dfs::error::Status;
use dfs::time::Deadline;
use dfs::write::{OutputStream, SyncMode};
use dfs_testkit::data;
use dfs_testkit::hadoop::{Cluster, ClusterConfig, ReadRequest, ReplicaState};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

const FLUSH: SyncMode = SyncMode { sync: false, update_length: false, end_block: false };
const FILES: u64 = 6;

fn limit() -> Deadline {
    Deadline::after(Duration::from_secs(60))
}

struct Log {
    file: OutputStream,
    seed: u64,
}

impl Log {
    /// Writes and flushes some records.
    fn append(&self, records: usize) {
        for i in 0..records {
            let len = 100 + 700 * (i % 3);
            let bytes = data::bytes(self.seed, self.file.pos(), len);
            self.file.write(&bytes, limit()).expect("write");
            let mode = SyncMode { sync: i % 2 == 1, ..FLUSH };
            self.file.flush(mode, limit()).expect("flush");
            assert_eq!(self.file.durable(), self.file.pos());
        }
    }
}

struct Rig {
    cluster: Cluster,
    fs: FileSystem,
    logs: Vec<Log>,
}

impl Rig {
    fn start() -> Rig {
        let config = ClusterConfig::new()
            .datanodes(4)
            .set("dfs.client.socket-timeout", "5000")
            .set("dfs.namenode.stale.datanode.interval", "3000")
            .set("dfs.namenode.avoid.write.stale.datanode", "true");
        let cluster = Cluster::start(config).expect("Hadoop starts");
        let mut config = Config::new();
        config.set("dfs.client.socket-timeout", "5000");
        config.set("dfs.client.datanode-restart.timeout", "40s");
        // A file of two replicas must not be down to one when the next node fails.
        config.set("dfs.client.block.write.replace-datanode-on-failure.policy", "ALWAYS");
        config.set("dfs.client.block.write.replace-datanode-on-failure.best-effort", "true");
        let fs = FileSystem::connect(&config, Some(&cluster.uri()), limit()).expect("connect");
        let logs = (0..FILES)
            .map(|seed| {
                let options = CreateOptions {
                    create_parents: true,
                    replication: Some(if seed % 3 == 2 { 2 } else { 3 }),
                    block_size: Some(1 << 20),
                    ..CreateOptions::default()
                };
                let file =
                    fs.create(&format!("/faults/{seed}"), &options, limit()).expect("create");
                Log { file, seed }
            })
            .collect();
        Rig { cluster, fs, logs }
    }

    /// All files at once.
    fn append(&self, records: usize) {
        std::thread::scope(|scope| {
            for log in &self.logs {
                scope.spawn(move || log.append(records));
            }
        });
    }

    /// The DataNode that stands at most places of the pipelines, among those that no file depends
    /// on alone: a replacement may have failed, and the last node of a pipeline can't be spared.
    fn busiest(&self) -> usize {
        let places = |name: &str| {
            let at = |log: &Log| log.file.pipeline().iter().position(|n| n == name);
            let all: Vec<usize> = self.logs.iter().filter_map(at).collect();
            (all.iter().collect::<BTreeSet<_>>().len(), all.len())
        };
        let name = |i: &usize| self.cluster.datanode_address(*i).unwrap();
        let alone: BTreeSet<String> = self
            .logs
            .iter()
            .map(|l| l.file.pipeline())
            .filter(|p| p.len() == 1)
            .flatten()
            .collect();
        (0..4)
            .filter(|i| !alone.contains(&name(i)))
            .max_by_key(|i| places(&name(i)))
            .expect("every DataNode is the last one of some file")
    }

    fn users_of(&self, node: usize) -> Vec<&Log> {
        let name = self.cluster.datanode_address(node).unwrap();
        self.logs.iter().filter(|l| l.file.pipeline().contains(&name)).collect()
    }

    /// Every acknowledged byte of the open files is on the disks of its pipeline.
    fn check_disks(&self) {
        for log in &self.logs {
            let durable = log.file.durable();
            assert!(durable < 1 << 20, "one block");
            let expected = data::bytes(log.seed, 0, durable as usize);
            let meta = self.fs.metadata().unwrap();
            let blocks = meta.block_locations(log.file.path(), 0, 1 << 30, limit()).unwrap();
            let id = blocks[0].block_id as i64;
            for name in log.file.pipeline() {
                let node = self.cluster.datanode_index(&name).unwrap();
                wait_for(&format!("{durable} bytes of {} on {name}", log.file.path()), || {
                    let all = self.cluster.replicas_of(id).unwrap();
                    all.iter().any(|(at, replica)| {
                        let bytes = std::fs::read(&replica.path).unwrap_or_default();
                        *at == node && bytes.get(..expected.len()) == Some(&expected[..])
                    })
                });
            }
        }
    }

    /// What Java reads of the open files.
    fn check_java(&self) {
        for log in &self.logs {
            let request = ReadRequest { seed: Some(log.seed), ..ReadRequest::default() };
            let got = self.cluster.oracle().unwrap().read(log.file.path(), &request).expect("Java");
            assert_eq!(got.length, log.file.durable(), "{}", log.file.path());
            assert_eq!(got.sha256, data::content_sha256(log.seed, 0, got.length));
        }
    }

    fn check(&self) {
        self.check_disks();
        self.check_java();
    }

    /// The disks of all nodes that run take nothing more: what was synced stays, and the files
    /// say for good that they are broken.
    fn fill_disks(&self, nodes: &[usize]) {
        const LEN: u64 = 5000;
        let options = CreateOptions { block_size: Some(1 << 20), ..CreateOptions::default() };
        let sync = SyncMode { sync: true, ..FLUSH };
        let open = self.fs.create("/faults/full", &options, limit()).expect("create");
        open.write(&data::bytes(77, 0, LEN as usize), limit()).expect("write");
        open.flush(sync, limit()).expect("hsync");
        for node in nodes {
            self.cluster.fail_disk(*node).unwrap();
        }
        let fresh = self.fs.create("/faults/none", &options, limit()).expect("create");
        for (file, durable) in [(&open, LEN), (&fresh, 0)] {
            let more = data::bytes(77, durable, 100_000);
            let result = file.write(&more, limit()).and_then(|()| file.flush(sync, limit()));
            let error = result.unwrap_err();
            println!("{error:?}");
            let statuses = [Status::Pipeline, Status::NoDataNodes];
            assert!(statuses.contains(&error.status()), "{error:?}");
            assert!(error.is_fatal() && !error.is_retriable(), "{error:?}");
            assert_eq!(error.durable_bytes(), Some(durable), "{error:?}");
            let again = [file.flush(sync, limit()), file.close(limit())].map(Result::unwrap_err);
            assert!(again.iter().all(|e| e.message() == error.message()), "{again:?}");
        }
        // What it could not write at all (an empty checksum file) a DataNode sorts out only when
        // it starts; until then it can't recover that block.
        std::thread::scope(|scope| {
            for node in nodes {
                scope.spawn(|| self.cluster.restart_datanode(*node).unwrap());
            }
        });
        let meta = self.fs.metadata().unwrap();
        for (path, least) in [("/faults/full", LEN), ("/faults/none", 0)] {
            if !meta.recover_lease(path, limit()).unwrap() {
                wait_for("lease recovery", || meta.is_file_closed(path, limit()).unwrap());
            }
            let request = ReadRequest { seed: Some(77), ..ReadRequest::default() };
            let got = self.cluster.oracle().unwrap().read(path, &request).expect("Java");
            assert!(got.length >= least && got.length <= least + 100_000, "{path}: {got:?}");
            assert_eq!(got.mismatch, None, "{path}");
        }
    }

    /// Closes every file and checks all replicas.
    fn close(&self) {
        for log in &self.logs {
            log.file.close(limit()).expect("close");
        }
        self.check_java();
        for log in &self.logs {
            let expected = data::bytes(log.seed, 0, log.file.pos() as usize);
            let meta = self.fs.metadata().unwrap();
            let block = &meta.block_locations(log.file.path(), 0, 1 << 30, limit()).unwrap()[0];
            let all = self.cluster.replicas_of(block.block_id as i64).unwrap();
            let good = all.iter().filter(|(_, r)| {
                r.state == ReplicaState::Finalized
                    && r.generation_stamp == Some(block.generation_stamp)
            });
            let mut count = 0;
            for (node, replica) in good {
                let bytes = std::fs::read(&replica.path).unwrap();
                assert!(bytes == expected, "{} on node {node}", log.file.path());
                count += 1;
            }
            assert!(count >= 1, "{}", log.file.path());
        }
    }
}

fn wait_for(what: &str, mut done: impl FnMut() -> bool) {
    let started = Instant::now();
    while !done() {
        assert!(started.elapsed() < Duration::from_secs(60), "still waiting for {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn datanodes_killed_stopped_and_restarted_lose_nothing() {
    let rig = Rig::start();
    rig.append(4);
    rig.check();
    let started = Instant::now();
    let phase = |name: &str| println!("{name} at {:?}", started.elapsed());

    // SIGKILL, while every file is being written.
    let killed = rig.busiest();
    let hit = rig.users_of(killed).len();
    assert!(hit > 0);
    std::thread::scope(|scope| {
        scope.spawn(|| rig.append(40));
        std::thread::sleep(Duration::from_millis(30));
        rig.cluster.kill_datanode(killed).unwrap();
    });
    rig.append(2);
    assert!(rig.users_of(killed).is_empty());
    assert!(rig.fs.stats().pipeline_recoveries >= hit as u64);
    rig.check();
    rig.cluster.restart_datanode(killed).unwrap();
    phase("killed");

    // A restart with a warning: the node keeps its place.
    let restarted = rig.busiest();
    let before: Vec<_> = rig.logs.iter().map(|l| l.file.pipeline()).collect();
    std::thread::scope(|scope| {
        let restart = scope.spawn(|| {
            rig.cluster.shut_datanode_for_upgrade(restarted).unwrap();
            rig.cluster.restart_datanode(restarted).unwrap();
        });
        while !restart.is_finished() {
            rig.append(1);
            std::thread::sleep(Duration::from_millis(5));
        }
    });
    rig.append(2);
    let kept = rig.logs.iter().zip(&before).filter(|(l, p)| l.file.pipeline() == **p).count();
    assert!(kept > 0, "no pipeline kept its restarting node");
    rig.check();

    phase("restarted");

    // SIGSTOP: connections stay and nothing answers.
    let stopped = rig.busiest();
    let hit = rig.users_of(stopped).len();
    assert!(hit > 0);
    rig.cluster.stop_datanode(stopped).unwrap();
    rig.append(2);
    assert!(rig.users_of(stopped).is_empty());
    rig.check_disks();
    rig.cluster.continue_datanode(stopped).unwrap();
    rig.append(2);
    rig.check();

    phase("stopped");

    // SIGKILL between the last record and the close.
    let killed = rig.busiest();
    rig.cluster.kill_datanode(killed).unwrap();
    rig.close();
    phase("closed");
    let left: Vec<usize> = (0..4).filter(|n| *n != killed).collect();
    rig.fill_disks(&left);
    phase("full disks");
    let stats = rig.fs.stats();
    assert_eq!((stats.pool.in_use_bytes, stats.open_writers), (0, 0));
}
