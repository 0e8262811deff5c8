//! Faults while the pipeline of a new block is set up: the block goes back, the node is left out,
//! another block is tried.
use crate::rig::{Rig, ample, is_timeout, ms, timed, wait_for};
use dfs::error::Status;
use dfs::proto::hdfs::Status as Reply;
use dfs_testkit::minidfs::{Fault, Op, Rule, Site};
use std::time::Duration;

/// Each fault at WRITE_BLOCK on each DataNode of four: every position is hit by some. At least
/// `left` nodes must remain.
fn every_node(left: usize, fault: impl Fn() -> Fault) {
    for node in 0..4 {
        let rig = Rig::new(4);
        let rule = rig.mini.faults().add(Rule::new(Site::Op(Op::Write), fault()).on(node).always());
        let mut log = rig.create();
        for _ in 0..3 {
            log.record(1000).expect("good nodes are left");
            rig.check_acked(&log);
        }
        let hit = rule.fired() > 0;
        assert_eq!(rig.mini.call_count("abandonBlock") > 0, hit, "node {node}");
        assert!(log.file.pipeline().len() >= left);
        assert!(!log.file.pipeline().contains(&rig.name(node)));
        rig.finish(log, left);
    }
}

#[test]
fn a_node_that_closes_the_connection_is_left_out() {
    every_node(3, || Fault::Close);
}

#[test]
fn a_node_that_dies_is_left_out() {
    every_node(3, || Fault::KillNode);
}

#[test]
fn a_node_that_refuses_is_left_out() {
    // The answer names no node: if it comes from further down, the first one takes the blame.
    every_node(1, || Fault::Refuse { status: Reply::Error, message: "no".to_owned() });
}

#[test]
fn a_node_that_refuses_the_token_is_left_out() {
    every_node(3, Fault::access_token);
}

#[test]
fn a_node_that_hangs_is_left_out() {
    every_node(3, || Fault::PauseNode);
}

#[test]
fn an_answer_cut_short_counts_against_the_node() {
    every_node(3, || Fault::CutAfter { received: None, sent: Some(2) });
}

#[test]
fn the_bad_link_is_blamed_not_the_first_node() {
    for index in 0..2 {
        let rig = Rig::new(4);
        let rules: Vec<_> = (0..4)
            .map(|n| Rule::new(Site::Op(Op::Write), Fault::BadLink(index)).on(n))
            .map(|rule| rig.mini.faults().add(rule))
            .collect();
        let mut log = rig.create();
        // Each of the four answers that once, if it comes first; the bad link is always another.
        log.record(500).expect("three retries");
        let fired: u64 = rules.iter().map(|r| r.fired()).sum();
        assert_eq!(rig.mini.call_count("abandonBlock"), rig.mini.call_count("addBlock") - 1);
        assert!(fired >= 1);
        rig.check_acked(&log);
        rig.finish(log, 1);
    }
}

#[test]
fn when_every_node_refuses_the_file_breaks_with_a_clear_error() {
    let rig = Rig::new(6);
    let refuse = Fault::Refuse { status: Reply::Error, message: "out of order".to_owned() };
    rig.mini.faults().add(Rule::new(Site::Op(Op::Write), refuse).always());
    let mut log = rig.create();
    log.write(1000).expect("nothing is sent yet");
    let error = log.flush().unwrap_err();
    assert_eq!(error.status(), Status::Pipeline);
    assert_eq!(error.stage(), Some("setting up a pipeline"));
    assert_eq!(error.durable_bytes(), Some(0));
    assert!(error.message().contains("Unable to create new block"), "{error}");
    assert!(error.message().contains("out of order"), "{error}");
    let server = error.server().expect("the DataNode is named").to_owned();
    assert!(rig.mini.datanodes().iter().any(|d| d.xfer_addr() == server), "{server}");
    // One try and three retries, each block given back.
    assert_eq!(rig.mini.call_count("addBlock"), 4);
    assert_eq!(rig.mini.call_count("abandonBlock"), 4);
    log.check_broken(&error);
    drop(log);
    rig.check_leaks();
}

/// `dfs.namenode.replication.min` is more than there are nodes.
#[test]
fn too_few_nodes_for_the_least_replication_break_the_file() {
    let rig = Rig::of(crate::rig::cluster(2).configure(|c| c.min_replication = 3), &[]);
    let mut log = rig.create();
    log.write(1000).expect("nothing is sent yet");
    let error = log.flush().unwrap_err();
    assert_eq!(error.status(), Status::NoDataNodes, "{error:?}");
    assert_eq!((error.stage(), error.durable_bytes()), (Some("allocating a block"), Some(0)));
    assert!(error.message().contains("2 of the 3 minReplication nodes"), "{error}");
    log.check_broken(&error);
    drop(log);
    rig.check_leaks();
}

/// In the middle of a block, and before the next one.
#[test]
fn full_disks_everywhere_break_the_file_and_keep_what_was_acknowledged() {
    for (len, left) in [(3000, 1500), (3000, 1096), (4096, 0)] {
        let rig = Rig::new(3);
        let options = dfs::client::file_system::CreateOptions {
            block_size: Some(4096),
            ..Default::default()
        };
        let mut log = rig.create_with(&options);
        log.record(len).unwrap();
        rig.check_acked(&log);
        let rule = Rule::new(Site::PacketReceived, Fault::DiskFull).always();
        let rule = rig.mini.faults().add(rule);
        let result = log.write(left + 500).and_then(|()| log.flush());
        let error = result.unwrap_err();
        assert!(rule.fired() >= 3, "{}", rule.fired());
        assert_eq!(error.status(), Status::Pipeline, "{error:?}");
        assert!(error.durable_bytes() >= Some(len as u64), "{error:?}");
        assert!(error.server().is_some(), "{error:?}");
        log.check_broken(&error);
        rule.disarm();
        rig.recover(&log);
        drop(log);
        rig.check_leaks();
    }
}

#[test]
fn a_deadline_in_the_set_up_leaves_the_file_usable() {
    let rig = Rig::new(3);
    for node in rig.mini.datanodes() {
        node.pause();
    }
    let mut log = rig.create();
    log.write(1000).unwrap();
    for _ in 0..6 {
        let result = timed(60, |d| log.file.flush(crate::rig::FLUSH, d));
        assert!(is_timeout(&result), "{result:?}");
    }
    for node in rig.mini.datanodes() {
        node.resume();
    }
    log.record(500).expect("the nodes were never at fault");
    assert_eq!(log.file.pipeline().len(), 3);
    rig.check_acked(&log);
    rig.finish(log, 3);
}

#[test]
fn a_block_not_given_back_in_time_is_given_back_before_complete() {
    let rig = Rig::new(3);
    let rule = Rule::new(Site::Op(Op::Write), Fault::Delay(Duration::from_millis(250))).times(1);
    rig.mini.faults().add(rule);
    let mut log = rig.create();
    log.write(1000).unwrap();
    assert!(is_timeout(&timed(80, |d| log.file.close(d))));
    log.file.close(ample()).expect("closing again");
    rig.check_closed(&log, 3);
    assert_eq!(rig.mini.block_ids(log.file.path()).len(), 1);
    drop(log);
    rig.check_leaks();
}

#[test]
fn nobody_answers_the_connect() {
    // A paused node accepts connections in its kernel but never answers.
    let rig = Rig::new(4);
    rig.node(0).pause();
    let mut log = rig.create();
    for _ in 0..2 {
        log.record(2000).expect("three nodes answer");
    }
    assert!(!log.file.pipeline().contains(&rig.name(0)));
    rig.node(0).resume();
    rig.finish(log, 3);
}

#[test]
fn excluded_nodes_come_back_after_their_time() {
    let key = "dfs.client.write.exclude.nodes.cache.expiry.interval.millis";
    let rig = Rig::with(3, &[(key, "1")]);
    let rule = Rule::new(Site::Op(Op::Write), Fault::Close).on(1);
    let rule = rig.mini.faults().add(rule);
    let mut log = rig.create();
    wait_for("a block with three nodes", || {
        log.record(100).unwrap();
        log.file
            .flush(dfs::write::SyncMode { end_block: true, ..crate::rig::FLUSH }, ms(20_000))
            .unwrap();
        log.record(100).unwrap();
        rule.fired() == 1 && log.file.pipeline().len() == 3
    });
    rig.finish(log, 1);
}
