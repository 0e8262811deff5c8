//! Faults of the NameNode while a file is written: answers that get lost, slowness, fail-over.
use crate::rig::{FLUSH, Log, Rig, ample, cluster, is_passing, is_timeout, timed, wait_for};
use dfs::client::file_system::CreateOptions;
use dfs::error::Status;
use dfs::write::SyncMode;
use dfs_testkit::minidfs::{Fault, Rule, Site};
use std::time::Duration;

const HA: &[(&str, &str)] = &[("dfs.client.failover.sleep.base.millis", "10")];

pub(crate) fn small_blocks() -> CreateOptions {
    CreateOptions { block_size: Some(4096), ..Default::default() }
}

/// A file of three blocks with a recovery in the second, while something happens at each call of
/// one RPC method.
pub(crate) fn write_with(rig: &Rig) -> Log {
    let mut log = rig.create_with(&small_blocks());
    log.record(3000).unwrap();
    log.record(3000).unwrap();
    let node = rig.index_of(&log, 0);
    rig.mini.faults().add(Rule::new(Site::PacketReceived, Fault::Close).on(node));
    log.record(500).unwrap();
    log.record(3000).unwrap();
    rig.check_acked(&log);
    log
}

pub(crate) const METHODS: [&str; 6] =
    ["create", "addBlock", "updateBlockForPipeline", "updatePipeline", "fsync", "complete"];

#[test]
fn answers_that_get_lost_change_nothing() {
    for method in METHODS {
        for fault in [Fault::CloseAfter, Fault::Close] {
            let rig = ha_rig();
            let rule = rig.mini.faults().add(Rule::rpc(method, fault.clone()).times(2));
            let log = write_with(&rig);
            rig.finish(log, 2);
            assert!(rule.fired() > 0, "{method}");
        }
    }
}

/// A NameNode that takes over knows only what the edit log says: a block of length 0 that no
/// DataNode has reported to it yet would be dropped by a lease recovery.
#[test]
fn the_first_flush_of_a_pipeline_tells_the_length() {
    let rig = Rig::new(3);
    let mut log = rig.create();
    let told = |log: &Log| rig.mini.block_state(rig.mini.block_ids(log.file.path())[0]).unwrap().1;
    log.write(1000).unwrap();
    timed(20_000, |d| log.file.flush(FLUSH, d)).unwrap();
    assert_eq!(told(&log), 1000);
    log.record(1000).unwrap();
    assert_eq!(told(&log), 1000);
    // A new pipeline, and again.
    let node = rig.index_of(&log, 1);
    rig.mini.faults().add(Rule::new(Site::PacketReceived, Fault::Close).on(node));
    log.record(500).unwrap();
    assert_eq!(told(&log), 2500);
    rig.finish(log, 2);
}

#[test]
fn a_lost_answer_to_abandon_block() {
    let rig = Rig::new(4);
    rig.mini.faults().add(Rule::rpc("abandonBlock", Fault::CloseAfter));
    let refuse = Fault::Close;
    let site = Site::Op(dfs_testkit::minidfs::Op::Write);
    rig.mini.faults().add(Rule::new(site, refuse));
    let mut log = rig.create();
    log.record(1000).unwrap();
    rig.check_acked(&log);
    rig.finish(log, 3);
}

#[test]
fn a_lost_answer_to_get_additional_datanode() {
    for fault in [Fault::CloseAfter, Fault::Close] {
        let rig = Rig::with(5, &[]);
        let rule = rig.mini.faults().add(Rule::rpc("getAdditionalDatanode", fault));
        let mut log = rig.create();
        log.record(1000).unwrap();
        let node = rig.index_of(&log, 1);
        rig.mini.faults().add(Rule::new(Site::PacketReceived, Fault::KillNode).on(node));
        log.record(1000).unwrap();
        assert_eq!((rule.fired(), log.file.pipeline().len()), (1, 3));
        rig.check_acked(&log);
        rig.finish(log, 3);
    }
}

#[test]
fn a_slow_namenode_is_waited_for() {
    let rig = Rig::new(3);
    for method in METHODS {
        rig.mini.faults().add(Rule::rpc(method, Fault::DelayAfter(Duration::from_millis(80))));
    }
    let log = write_with(&rig);
    rig.finish(log, 2);
}

#[test]
fn a_namenode_slower_than_the_deadline_leaves_the_file_usable() {
    for method in METHODS.into_iter().filter(|m| *m != "create") {
        for fault in [Fault::Delay(Duration::from_millis(200)), Fault::CloseAfter] {
            let rig = Rig::new(3);
            let mut log = rig.create_with(&small_blocks());
            log.record(3000).unwrap();
            let node = rig.index_of(&log, 0);
            rig.mini.faults().add(Rule::new(Site::PacketReceived, Fault::Close).on(node));
            let rule = rig.mini.faults().add(Rule::rpc(method, fault.clone()).times(8));
            // More calls in a row than one packet's recoveries.
            for round in 0..24 {
                if round % 3 == 0 {
                    let result = timed(40, |d| log.write_within(700, d));
                    assert!(result.is_ok() || is_passing(&result), "{method}: {result:?}");
                }
                let result = timed(40, |d| log.file.flush(FLUSH, d));
                assert!(result.is_ok() || is_passing(&result), "{method}: {result:?}");
            }
            wait_for("a flush", || log.flush().is_ok());
            assert_eq!(log.file.durable(), log.len);
            rig.check_acked(&log);
            // On a busy machine the time is up before the method is reached: once more then.
            for _ in 0..100 {
                let result = timed(40, |d| log.file.close(d));
                assert!(result.is_ok() || is_passing(&result), "{method}: {result:?}");
                if result.is_ok() || rule.fired() > 0 {
                    break;
                }
            }
            rule.disarm();
            log.file.close(ample()).unwrap();
            rig.check_closed(&log, 1);
            assert!(rule.fired() > 0, "{method}");
            drop(log);
            rig.check_leaks();
        }
    }
}

#[test]
fn blocks_that_are_reported_late_are_polled_for() {
    let late = |ms| cluster(3).report_delay(Duration::from_millis(ms));
    let rig = Rig::of(late(60), &[]);
    let mut log = rig.create_with(&small_blocks());
    log.record(10_000).unwrap();
    rig.check_acked(&log);
    rig.finish(log, 3);
    // Longer than the client asks: an error that does not break the file.
    let short = [
        ("dfs.client.block.write.locateFollowingBlock.retries", "1"),
        ("dfs.client.block.write.locateFollowingBlock.initial.delay.ms", "50"),
    ];
    let rig = Rig::of(late(600), &short);
    let mut log = rig.create_with(&small_blocks());
    log.record(3000).unwrap();
    let error = log.file.close(ample()).unwrap_err();
    assert_eq!(error.status(), Status::NotReplicated);
    assert!(error.message().contains("does not have enough number of replicas"), "{error}");
    assert!(!error.is_fatal() && error.is_retriable());
    wait_for("the report", || log.file.close(ample()).is_ok());
    rig.check_closed(&log, 3);
}

#[test]
fn an_answer_of_not_replicated_yet_is_polled_too() {
    let class = "org.apache.hadoop.hdfs.server.namenode.NotReplicatedYetException";
    let rig = Rig::new(3);
    let rule = Rule::rpc("addBlock", Fault::throw(class, "Not replicated yet: x")).times(5);
    let rule = rig.mini.faults().add(rule);
    let mut log = rig.create();
    log.record(1000).unwrap();
    assert_eq!(rule.fired(), 5);
    rig.finish(log, 3);
}

#[test]
fn the_active_namenode_changes_at_every_call() {
    for method in METHODS {
        let rig = ha_rig();
        let rule = rig.mini.faults().add(Rule::rpc(method, Fault::Failover).times(3));
        let log = write_with(&rig);
        rig.finish(log, 2);
        assert!(rule.fired() > 0, "{method}");
    }
}

/// Two NameNodes, of which a client that knows both tries a call again.
pub(crate) fn ha_rig() -> Rig {
    let rig = Rig::of(cluster(3).ha(true), &[]);
    let address = |i| rig.mini.namenode_addr(i).unwrap().to_string();
    let mut config = dfs::conf::Config::new();
    for (key, value) in HA.iter().copied().chain([
        ("dfs.nameservices", "ns"),
        ("dfs.ha.namenodes.ns", "a,b"),
        ("dfs.namenode.rpc-address.ns.a", &address(0)),
        ("dfs.namenode.rpc-address.ns.b", &address(1)),
        (
            "dfs.client.failover.proxy.provider.ns",
            "org.apache.hadoop.hdfs.server.namenode.ha.ConfiguredFailoverProxyProvider",
        ),
        ("dfs.client.block.write.replace-datanode-on-failure.policy", "NEVER"),
    ]) {
        config.set(key, value);
    }
    let fs = dfs::client::file_system::FileSystem::connect(&config, Some("hdfs://ns"), ample());
    Rig { fs: fs.unwrap(), ..rig }
}

#[test]
fn a_namenode_that_stops_answering_is_left_at_the_deadline() {
    let rig = Rig::new(3);
    let mut log = rig.create_with(&small_blocks());
    log.record(3000).unwrap();
    rig.mini.pause_namenodes(true);
    // Acks need no NameNode, a new block does.
    log.write(500).unwrap();
    timed(2000, |d| log.file.flush(FLUSH, d)).unwrap();
    let result = timed(150, |d| log.write_within(10_000, d));
    assert!(is_timeout(&result), "{result:?}");
    let length = SyncMode { update_length: true, ..FLUSH };
    let result = timed(150, |d| log.file.flush(length, d));
    assert!(is_timeout(&result), "{result:?}");
    rig.mini.pause_namenodes(false);
    log.record(2000).unwrap();
    rig.check_acked(&log);
    rig.finish(log, 3);
}

#[test]
fn errors_that_a_repetition_does_not_cure_break_the_file() {
    let quota = "org.apache.hadoop.hdfs.protocol.DSQuotaExceededException";
    let class = "org.apache.hadoop.security.AccessControlException";
    let cases = [("addBlock", quota), ("addBlock", class), ("fsync", class), ("complete", class)];
    for (method, class) in cases {
        let rig = Rig::new(3);
        rig.mini.faults().add(Rule::rpc(method, Fault::throw(class, "no more")));
        let mut log = rig.create_with(&small_blocks());
        log.write(1000).unwrap();
        let error = match log.flush() {
            Ok(()) => log.file.close(ample()).unwrap_err(),
            Err(error) => error,
        };
        assert!(error.remote_class() == Some(class), "{method}: {error:?}");
        assert!(error.stage().is_some());
        log.check_broken(&error);
        rig.recover(&log);
        drop(log);
        rig.check_leaks();
    }
}
