//! Faults while a block ends: PIPELINE_CLOSE_RECOVERY finalizes the replicas that are left.
use crate::rig::{FLUSH, Rig, ample, is_timeout, timed};
use dfs::client::file_system::CreateOptions;
use dfs::proto::hdfs::Status as Reply;
use dfs::write::SyncMode;
use dfs_testkit::minidfs::{Fault, Rule, Site};
use std::time::Duration;

const END_BLOCK: SyncMode = SyncMode { end_block: true, ..FLUSH };

/// The end packet of a file of one record has sequence number 1.
fn at_the_end(site: Site, fault: impl Fn() -> Fault, left: usize) {
    for position in 0..3 {
        let rig = Rig::new(3);
        let mut log = rig.create();
        log.record(1000).unwrap();
        let node = rig.index_of(&log, position);
        let rule = rig.mini.faults().add(Rule::new(site, fault()).on(node).seqno(1));
        let recoveries = rig.mini.call_count("updatePipeline");
        log.file.close(ample()).expect("close recovers");
        assert_eq!(rule.fired(), 1);
        if left < 3 {
            assert!(rig.mini.call_count("updatePipeline") > recoveries);
        }
        rig.check_closed(&log, left);
        drop(log);
        rig.check_leaks();
    }
}

#[test]
fn a_node_dies_at_the_end_packet() {
    at_the_end(Site::PacketReceived, || Fault::KillNode, 2);
}

#[test]
fn a_node_closes_at_the_end_packet() {
    at_the_end(Site::PacketReceived, || Fault::Close, 2);
}

#[test]
fn a_node_dies_before_the_ack_of_the_end() {
    at_the_end(Site::Ack, || Fault::KillNode, 2);
}

#[test]
fn the_ack_of_the_end_is_lost() {
    at_the_end(Site::Ack, || Fault::LoseAck, 2);
}

#[test]
fn a_node_hangs_at_the_end() {
    at_the_end(Site::PacketReceived, || Fault::PauseNode, 2);
}

#[test]
fn a_node_answers_the_end_with_an_error() {
    at_the_end(Site::Ack, || Fault::AckStatus { index: 0, status: Reply::Error }, 2);
}

#[test]
fn a_late_ack_of_the_end_is_no_fault() {
    at_the_end(Site::Ack, || Fault::Delay(Duration::from_millis(150)), 3);
}

#[test]
fn every_block_boundary_may_fail() {
    let rig = Rig::new(5);
    let options = CreateOptions { block_size: Some(4096), ..Default::default() };
    let mut log = rig.create_with(&options);
    for round in 0..6 {
        log.record(100).unwrap();
        let node = rig.index_of(&log, round % log.file.pipeline().len());
        // The next packet may be data or the end; over the rounds both are hit.
        let rule = Rule::new(Site::PacketReceived, Fault::Close).on(node).skip(round as u64 % 3);
        rig.mini.faults().add(rule);
        log.write(9000).unwrap();
        log.flush().unwrap();
        rig.mini.faults().clear();
        rig.check_acked(&log);
    }
    rig.finish(log, 1);
}

#[test]
fn a_write_after_a_close_that_timed_out_is_not_lost() {
    for bytes in [1, 700, 100_000] {
        let rig = Rig::new(3);
        let mut log = rig.create();
        log.record(1000).unwrap();
        let first = rig.index_of(&log, 0);
        let late = Fault::Delay(Duration::from_millis(300));
        rig.mini.faults().add(Rule::new(Site::Ack, late).on(first).seqno(1));
        assert!(is_timeout(&timed(100, |d| log.file.close(d))));
        log.write(bytes).expect("the file is still open");
        log.flush().unwrap();
        assert_eq!(log.file.durable(), log.len);
        rig.check_acked(&log);
        rig.finish(log, 3);
    }
}

#[test]
fn a_write_after_an_end_block_that_timed_out_is_not_lost() {
    let rig = Rig::new(3);
    let mut log = rig.create();
    log.record(1000).unwrap();
    let first = rig.index_of(&log, 0);
    let late = Fault::Delay(Duration::from_millis(300));
    rig.mini.faults().add(Rule::new(Site::Ack, late).on(first).seqno(1));
    assert!(is_timeout(&timed(100, |d| log.file.flush(END_BLOCK, d))));
    log.write(10).unwrap();
    log.file.flush(END_BLOCK, ample()).unwrap();
    log.record(2000).unwrap();
    assert_eq!(rig.mini.block_ids(log.file.path()).len(), 3);
    rig.check_acked(&log);
    rig.finish(log, 3);
}

#[test]
fn a_flush_after_a_close_that_ran_out_of_time_does_not_break_the_file() {
    let rig = Rig::new(3);
    let mut log = rig.create();
    log.write(1000).unwrap();
    // The NameNode completes the file, but says so too late.
    let late = Fault::DelayAfter(Duration::from_millis(1500));
    rig.mini.faults().add(Rule::rpc("complete", late));
    assert!(is_timeout(&timed(500, |d| log.file.close(d))));
    log.flush().expect("everything is acknowledged, and the NameNode knows it");
    log.file.close(ample()).expect("the file is complete");
    rig.check_closed(&log, 3);
    drop(log);
    rig.check_leaks();
}
