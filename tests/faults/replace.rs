//! Replacement of a failed DataNode: who asks, who is filled, and what happens when nobody can be.
use crate::rig::{Rig, ample};
use dfs::error::Status;
use dfs::proto::hdfs::Status as Reply;
use dfs_testkit::minidfs::{Fault, Op, Rule, Site};

const POLICY: &str = "dfs.client.block.write.replace-datanode-on-failure.policy";
const ENABLE: &str = "dfs.client.block.write.replace-datanode-on-failure.enable";
const BEST_EFFORT: &str = "dfs.client.block.write.replace-datanode-on-failure.best-effort";
const MIN: &str = "dfs.client.block.write.replace-datanode-on-failure.min-replication";

/// Length of the pipeline after a node failed at `position`, and the number of requests for
/// another.
fn lose_one(
    nodes: usize,
    settings: &[(&str, &str)],
    position: usize,
    flushed: bool,
) -> (usize, u64) {
    let rig = Rig::with(nodes, settings);
    let mut log = rig.create();
    if flushed {
        log.record(150_000).unwrap();
    } else {
        // More than a packet, so that a pipeline is there.
        log.write(150_000).unwrap();
    }
    let node = rig.index_of(&log, position);
    rig.mini.faults().add(Rule::new(Site::PacketReceived, Fault::KillNode).on(node));
    log.write(150_000).unwrap();
    log.flush().unwrap();
    assert!(!log.file.pipeline().contains(&rig.name(node)));
    rig.check_acked(&log);
    let result = (log.file.pipeline().len(), rig.mini.call_count("getAdditionalDatanode"));
    rig.finish(log, result.0);
    result
}

#[test]
fn the_default_policy_replaces_in_a_flushed_file_only() {
    for position in 0..3 {
        assert_eq!(lose_one(4, &[], position, true), (3, 1));
        assert_eq!(lose_one(5, &[], position, false), (2, 0));
    }
}

#[test]
fn always_and_never() {
    for position in 0..3 {
        assert_eq!(lose_one(5, &[(POLICY, "ALWAYS")], position, false), (3, 1));
        assert_eq!(lose_one(5, &[(POLICY, "NEVER")], position, true), (2, 0));
        assert_eq!(lose_one(5, &[(ENABLE, "false")], position, true), (2, 0));
    }
}

#[test]
fn the_default_policy_replaces_when_one_of_three_is_left() {
    let rig = Rig::with(5, &[]);
    let mut log = rig.create();
    log.write(150_000).unwrap();
    for position in [0, 1] {
        let node = rig.index_of(&log, position);
        rig.mini.faults().add(Rule::new(Site::PacketReceived, Fault::KillNode).on(node));
    }
    log.write(150_000).unwrap();
    log.flush().unwrap();
    // One more node was asked for; a pipeline of two is enough for a file that was not flushed.
    assert_eq!(log.file.pipeline().len(), 2);
    rig.check_acked(&log);
    rig.finish(log, 2);
}

#[test]
fn the_first_flush_counts_once_it_is_done() {
    // As in Java: a fault within the very first flush goes on with two nodes.
    let rig = Rig::with(3, &[]);
    let mut log = rig.create();
    rig.mini.faults().add(Rule::new(Site::PacketReceived, Fault::Close).on(1));
    log.record(1000).unwrap();
    assert_eq!(log.file.pipeline().len(), 2);
    rig.check_acked(&log);
    rig.finish(log, 2);
}

#[test]
fn nobody_is_left_to_replace() {
    let lose = |settings: &[(&str, &str)]| {
        let rig = Rig::with(3, settings);
        let mut log = rig.create();
        log.record(1000).unwrap();
        rig.mini.faults().add(Rule::new(Site::PacketReceived, Fault::KillNode).on(0));
        log.write(500).unwrap();
        (log.flush(), log, rig)
    };
    for settings in [&[][..], &[(MIN, "3")], &[(POLICY, "ALWAYS"), (MIN, "3")]] {
        let (result, mut log, rig) = lose(settings);
        let error = result.unwrap_err();
        assert_eq!(error.status(), Status::Pipeline);
        assert_eq!(error.durable_bytes(), Some(1000));
        assert!(error.message().contains("Failed to replace a bad datanode"), "{error}");
        log.check_broken(&error);
        rig.recover(&log);
    }
    for settings in [&[(BEST_EFFORT, "true")][..], &[(MIN, "2")], &[(POLICY, "ALWAYS"), (MIN, "1")]]
    {
        let (result, log, rig) = lose(settings);
        result.expect("two nodes will do");
        assert_eq!(log.file.pipeline().len(), 2);
        rig.check_acked(&log);
        rig.finish(log, 2);
    }
}

#[test]
fn a_transfer_that_fails_is_tried_with_others() {
    let refuse = || Fault::Refuse { status: Reply::Error, message: "no transfer".to_owned() };
    let rig = Rig::with(6, &[]);
    let mut log = rig.create();
    log.record(100_000).unwrap();
    let rule = rig.mini.faults().add(Rule::new(Site::Op(Op::Transfer), refuse()).times(2));
    let node = rig.index_of(&log, 0);
    rig.mini.faults().add(Rule::new(Site::PacketReceived, Fault::KillNode).on(node));
    log.record(1000).expect("the third transfer works");
    assert_eq!((rule.fired(), log.file.pipeline().len()), (2, 3));
    rig.check_acked(&log);
    rig.finish(log, 3);

    let rig = Rig::with(6, &[]);
    let mut log = rig.create();
    log.record(100_000).unwrap();
    rig.mini.faults().add(Rule::new(Site::Op(Op::Transfer), refuse()).always());
    let node = rig.index_of(&log, 0);
    rig.mini.faults().add(Rule::new(Site::PacketReceived, Fault::KillNode).on(node));
    log.write(1000).unwrap();
    let error = log.flush().unwrap_err();
    assert!(error.message().contains("no transfer"), "{error}");
    assert_eq!(error.durable_bytes(), Some(100_000));
    log.check_broken(&error);
    rig.recover(&log);
}

#[test]
fn a_transfer_that_fails_unnoticed_shows_at_the_set_up() {
    // Hadoop answers SUCCESS even if the copy failed: the new node then refuses the set-up.
    for fault in [Fault::Close, Fault::KillNode] {
        let rig = Rig::with(6, &[]);
        let mut log = rig.create();
        log.record(100_000).unwrap();
        let inside: Vec<usize> = (0..3).map(|p| rig.index_of(&log, p)).collect();
        for node in (0..6).filter(|n| !inside.contains(n)).take(1) {
            rig.mini.faults().add(Rule::new(Site::Op(Op::Write), fault.clone()).on(node));
        }
        rig.mini.faults().add(Rule::new(Site::PacketReceived, Fault::KillNode).on(inside[0]));
        log.record(1000).expect("other nodes are there");
        assert_eq!(log.file.pipeline().len(), 3);
        rig.check_acked(&log);
        rig.finish(log, 3);
    }
}

#[test]
fn a_replacement_in_a_block_that_ends() {
    for position in 0..3 {
        let rig = Rig::with(4, &[]);
        let mut log = rig.create();
        log.record(1000).unwrap();
        let node = rig.index_of(&log, position);
        rig.mini.faults().add(Rule::new(Site::PacketReceived, Fault::KillNode).on(node).seqno(1));
        log.file.close(ample()).expect("close");
        rig.check_closed(&log, 3);
        drop(log);
        rig.check_leaks();
    }
}
