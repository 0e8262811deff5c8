//! Append: faults while the last block is opened again and after it.
use crate::rig::{FLUSH, HSYNC, Log, Rig, ample, is_timeout, timed};
use dfs::client::file_system::CreateOptions;
use dfs_testkit::minidfs::{Fault, Op, Rule, Site};
use std::time::Duration;

fn closed(rig: &Rig, len: usize) -> Log {
    let mut log = rig.create();
    log.record(len).unwrap();
    log.file.close(ample()).unwrap();
    rig.wait_reported(&log, 3);
    log
}

#[test]
fn a_node_that_fails_the_set_up_leaves() {
    for node in 0..3 {
        for fault in [Fault::Close, Fault::KillNode, Fault::PauseNode] {
            let rig = Rig::new(3);
            let old = closed(&rig, 1300);
            rig.mini.faults().add(Rule::new(Site::Op(Op::Write), fault).on(node));
            let mut log = rig.reopen(&old);
            log.record(1000).unwrap();
            assert_eq!(log.file.pipeline().len(), 2);
            rig.check_acked(&log);
            log.record(3000).unwrap();
            rig.check_acked(&log);
            rig.node(node).resume();
            rig.finish(log, 2);
        }
    }
}

#[test]
fn a_node_that_fails_later_leaves() {
    for position in 0..3 {
        let rig = Rig::new(3);
        let old = closed(&rig, 1300);
        let mut log = rig.reopen(&old);
        log.record(100).unwrap();
        let node = rig.index_of(&log, position);
        rig.mini.faults().add(Rule::new(Site::PacketReceived, Fault::KillNode).on(node));
        // Crosses the end of the stored partial chunk.
        log.record(50).unwrap();
        log.record(3000).unwrap();
        assert_eq!(log.file.pipeline().len(), 2);
        rig.check_acked(&log);
        rig.finish(log, 2);
    }
}

#[test]
fn the_first_packet_of_an_append_fails() {
    for len in [1, 511, 512, 1000, 1024] {
        let rig = Rig::new(3);
        let old = closed(&rig, len);
        let mut log = rig.reopen(&old);
        rig.mini.faults().add(Rule::new(Site::PacketReceived, Fault::Close).on(1));
        log.record(2000).unwrap();
        assert_eq!(log.file.pipeline().len(), 2);
        rig.check_acked(&log);
        rig.finish(log, 2);
    }
}

#[test]
fn a_missing_node_is_replaced_at_once() {
    let rig = Rig::with(5, &[]);
    let old = closed(&rig, 1300);
    let holder = rig.mini.replicas(old.file.path())[0].datanode;
    rig.node(holder).kill();
    let mut log = rig.reopen(&old);
    log.record(1000).unwrap();
    assert_eq!(log.file.pipeline().len(), 3);
    assert!(!log.file.pipeline().contains(&rig.name(holder)));
    rig.check_acked(&log);
    rig.finish(log, 3);
}

#[test]
fn a_sync_is_the_first_call() {
    for len in [0, 1300] {
        let rig = Rig::new(3);
        let mut log = rig.create();
        if len > 0 {
            log.record(len).unwrap();
        }
        log.file.close(ample()).unwrap();
        rig.wait_reported(&log, 3);
        let mut log = rig.reopen(&log);
        timed(5000, |d| log.file.flush(FLUSH, d)).unwrap();
        timed(5000, |d| log.file.flush(HSYNC, d)).unwrap();
        log.record(10).unwrap();
        rig.check_acked(&log);
        rig.finish(log, 3);
    }
}

#[test]
fn deadlines_in_the_set_up_leave_the_file_usable() {
    for fail_fast in [false, true] {
        let rig = Rig::new(3);
        let mut log = closed(&rig, 1300);
        let options = CreateOptions { fail_fast, ..Default::default() };
        log.file = rig.fs.append(log.file.path(), false, &options, ample()).unwrap();
        let late = Fault::Delay(Duration::from_millis(100));
        rig.mini.faults().add(Rule::rpc("updatePipeline", late.clone()).times(7));
        rig.mini.faults().add(Rule::new(Site::Op(Op::Write), late).times(1));
        log.write(1000).unwrap();
        for _ in 0..10 {
            let result = timed(40, |d| log.file.flush(FLUSH, d));
            assert!(result.is_ok() || is_timeout(&result), "{result:?}");
        }
        log.flush().unwrap();
        assert_eq!(log.file.pipeline().len(), 3);
        rig.check_acked(&log);
        rig.finish(log, 3);
    }
}

#[test]
fn nothing_is_appended() {
    let rig = Rig::new(3);
    let old = closed(&rig, 1300);
    let log = rig.reopen(&old);
    rig.finish(log, 3);
}

#[test]
fn after_a_crash_the_file_is_recovered_and_goes_on() {
    let rig = Rig::new(3);
    let mut log = rig.create();
    log.record(1300).unwrap();
    log.write(300).unwrap();
    for node in rig.mini.datanodes() {
        node.kill();
        node.restart().unwrap();
    }
    let error = log.flush().unwrap_err();
    log.check_broken(&error);
    rig.recover(&log);
    let length = rig.read(log.file.path()).len() as u64;
    let mut log = rig.reopen_at(&log, length);
    log.record(500).unwrap();
    rig.check_acked(&log);
    rig.finish(log, 1);
}
