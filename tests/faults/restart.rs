//! DataNodes that announce a restart with an out-of-band ack: all nodes of `minidfs` are on this
//! host, so each is waited for.
use crate::rig::{FLUSH, Rig, is_timeout, ms, timed, wait_for};
use dfs_testkit::minidfs::{Fault, Rule, Site};
use std::time::Duration;

const RESTART: &str = "dfs.client.datanode-restart.timeout";
const POLICY: &str = "dfs.client.block.write.replace-datanode-on-failure.policy";

#[test]
fn a_restarting_node_keeps_its_place() {
    for position in 0..3 {
        // The client sleeps as long as this before its first try.
        let rig = Rig::with(3, &[(POLICY, "NEVER"), (RESTART, "1500ms")]);
        let mut log = rig.create();
        log.record(1000).unwrap();
        let before = log.file.pipeline();
        let node = rig.index_of(&log, position);
        let down = Duration::from_millis(100);
        rig.mini
            .faults()
            .add(Rule::new(Site::PacketReceived, Fault::RestartNode { down }).on(node));
        for _ in 0..3 {
            log.record(1000).unwrap();
        }
        assert_eq!(log.file.pipeline(), before, "position {position}");
        rig.check_acked(&log);
        rig.finish(log, 3);
    }
}

#[test]
fn an_announcement_without_a_restart_costs_nothing() {
    for position in 0..3 {
        let rig = Rig::with(3, &[(POLICY, "NEVER"), (RESTART, "300ms")]);
        let mut log = rig.create();
        log.record(1000).unwrap();
        let node = rig.index_of(&log, position);
        rig.mini.faults().add(Rule::new(Site::Ack, Fault::OobRestart).on(node));
        for _ in 0..3 {
            log.record(1000).unwrap();
        }
        assert_eq!(log.file.pipeline().len(), 3);
        rig.check_acked(&log);
        rig.finish(log, 3);
    }
}

#[test]
fn a_node_that_does_not_come_back_is_dropped_after_the_limit() {
    for position in 0..3 {
        let rig = Rig::with(3, &[(POLICY, "NEVER"), (RESTART, "300ms")]);
        let mut log = rig.create();
        log.record(1000).unwrap();
        let node = rig.index_of(&log, position);
        let down = Duration::from_secs(3);
        rig.mini
            .faults()
            .add(Rule::new(Site::PacketReceived, Fault::RestartNode { down }).on(node));
        wait_for("the node to leave", || {
            log.record(1000).unwrap();
            log.file.pipeline().len() == 2
        });
        assert!(!log.file.pipeline().contains(&rig.name(node)));
        rig.check_acked(&log);
        wait_for("the node to be back", || rig.node(node).is_running());
        rig.finish(log, 2);
    }
}

#[test]
fn another_node_that_dies_meanwhile_is_not_waited_for() {
    let rig = Rig::with(3, &[(POLICY, "NEVER"), (RESTART, "1500ms")]);
    let mut log = rig.create();
    log.record(1000).unwrap();
    let (restarting, dying) = (rig.index_of(&log, 1), rig.index_of(&log, 0));
    let down = Duration::from_millis(100);
    let rule = Rule::new(Site::PacketReceived, Fault::RestartNode { down }).on(restarting);
    let rule = rig.mini.faults().add(rule);
    // The announcement arrives, the wait begins.
    wait_for("the announcement", || {
        log.write(1000).unwrap();
        is_timeout(&timed(700, |d| log.file.flush(FLUSH, d)))
    });
    assert_eq!(rule.fired(), 1);
    rig.node(dying).kill();
    wait_for("the node to be back", || rig.node(restarting).is_running());
    // Another wait as long as the first would exceed this.
    timed(3500, |d| log.file.flush(FLUSH, d)).expect("two nodes are left");
    assert!(log.file.pipeline().contains(&rig.name(restarting)));
    assert_eq!(log.file.pipeline().len(), 2);
    rig.check_acked(&log);
    rig.finish(log, 2);
}

#[test]
fn a_deadline_interrupts_the_wait() {
    let rig = Rig::with(3, &[(POLICY, "NEVER"), (RESTART, "2s")]);
    let mut log = rig.create();
    log.record(1000).unwrap();
    let node = rig.index_of(&log, 2);
    let down = Duration::from_millis(100);
    rig.mini.faults().add(Rule::new(Site::PacketReceived, Fault::RestartNode { down }).on(node));
    log.write(1000).unwrap();
    for _ in 0..8 {
        // More calls than recoveries are allowed for one packet.
        let result = timed(100, |d| log.file.flush(FLUSH, d));
        assert!(result.is_ok() || is_timeout(&result), "{result:?}");
    }
    log.file.flush(FLUSH, ms(15_000)).unwrap();
    rig.check_acked(&log);
    rig.finish(log, 2);
}
