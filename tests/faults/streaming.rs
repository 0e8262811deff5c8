//! Faults while packets flow, at each position of the pipeline: the node leaves, what was not
//! acknowledged is sent again, nothing is lost.
use crate::rig::{FLUSH, HSYNC, Rig, ample, timed, wait_for};
use dfs::error::Status;
use dfs::proto::hdfs::Status as Reply;
use dfs_testkit::minidfs::{Fault, Rule, Site};
use std::time::Duration;

/// The fault hits the node at each position once, in a WAL of three records and after it.
/// `left` is the number of nodes that the pipeline must still have.
fn every_position(site: Site, fault: impl Fn() -> Fault, left: usize) {
    for position in 0..3 {
        for skip in [0, 1] {
            let rig = Rig::new(3);
            let mut log = rig.create();
            log.record(1000).unwrap();
            let node = rig.index_of(&log, position);
            let rule = rig.mini.faults().add(Rule::new(site, fault()).on(node).skip(skip));
            for i in 0..4 {
                log.record(700 + 100 * i).expect("the rest of the pipeline goes on");
                rig.check_acked(&log);
            }
            assert_eq!(rule.fired(), 1, "position {position}");
            let now = log.file.pipeline();
            assert!(now.len() >= left, "position {position}: {now:?}");
            log.write(300_000).unwrap();
            log.flush().unwrap();
            rig.check_acked(&log);
            rig.finish(log, left);
        }
    }
}

#[test]
fn a_node_dies() {
    every_position(Site::PacketReceived, || Fault::KillNode, 2);
}

#[test]
fn a_node_dies_before_its_ack() {
    every_position(Site::Ack, || Fault::KillNode, 2);
}

#[test]
fn a_node_closes_before_reading() {
    every_position(Site::PacketReceived, || Fault::Close, 2);
}

#[test]
fn a_node_closes_before_its_ack() {
    every_position(Site::Ack, || Fault::Close, 2);
}

#[test]
fn a_node_hangs() {
    every_position(Site::PacketReceived, || Fault::PauseNode, 2);
}

#[test]
fn a_node_has_no_space() {
    every_position(Site::PacketReceived, || Fault::DiskFull, 2);
}

#[test]
fn an_ack_is_lost() {
    every_position(Site::Ack, || Fault::LoseAck, 2);
}

#[test]
fn an_ack_is_repeated() {
    every_position(Site::Ack, || Fault::RepeatAck, 2);
}

#[test]
fn an_ack_for_a_packet_never_sent() {
    every_position(Site::Ack, || Fault::AckSeqno(77), 2);
}

#[test]
fn an_ack_is_late() {
    every_position(Site::Ack, || Fault::Delay(Duration::from_millis(150)), 3);
}

#[test]
fn a_packet_is_slow() {
    every_position(Site::PacketReceived, || Fault::Delay(Duration::from_millis(150)), 3);
}

/// Hadoop 3.4 BlockReceiver: the last node finds it and its upstream neighbour takes the blame.
#[test]
fn a_packet_is_corrupted_on_the_way() {
    every_position(Site::PacketReceived, || Fault::CorruptData(100), 1);
}

#[test]
fn a_checksum_is_corrupted_on_the_way() {
    every_position(Site::PacketReceived, || Fault::CorruptChecksum, 1);
}

#[test]
fn a_connection_is_cut_inside_a_packet() {
    let cut = |received, sent| move || Fault::CutAfter { received, sent };
    every_position(Site::PacketReceived, cut(Some(13), None), 2);
    every_position(Site::PacketReceived, cut(Some(200), None), 2);
    every_position(Site::PacketReceived, cut(None, Some(0)), 2);
    every_position(Site::PacketReceived, cut(None, Some(7)), 2);
}

#[test]
fn the_node_whose_status_is_bad_leaves() {
    for status in [Reply::Error, Reply::ErrorChecksum, Reply::ErrorInvalid, Reply::OobReserved1] {
        for index in 0..3 {
            let rig = Rig::new(3);
            let mut log = rig.create();
            log.record(1000).unwrap();
            let (first, blamed) = (rig.index_of(&log, 0), rig.index_of(&log, index));
            let fault = Fault::AckStatus { index, status };
            rig.mini.faults().add(Rule::new(Site::Ack, fault).on(first));
            log.record(2000).unwrap();
            assert!(!log.file.pipeline().contains(&rig.name(blamed)), "{status:?} at {index}");
            assert_eq!(log.file.pipeline().len(), 2);
            rig.check_acked(&log);
            rig.finish(log, 2);
        }
    }
}

#[test]
fn with_several_bad_statuses_the_last_is_blamed() {
    let rig = Rig::new(3);
    let mut log = rig.create();
    log.record(1000).unwrap();
    let (first, second) = (rig.index_of(&log, 0), rig.index_of(&log, 1));
    let fault = |index| Fault::AckStatus { index, status: Reply::Error };
    rig.mini.faults().add(Rule::new(Site::Ack, fault(0)).on(first));
    rig.mini.faults().add(Rule::new(Site::Ack, fault(0)).on(second));
    log.record(2000).unwrap();
    assert_eq!(log.file.pipeline().len(), 2);
    assert!(log.file.pipeline().contains(&rig.name(first)));
    rig.check_acked(&log);
    rig.finish(log, 2);
}

#[test]
fn two_nodes_fail_one_after_the_other() {
    for (a, b) in [(0, 1), (0, 2), (1, 2), (2, 0)] {
        let rig = Rig::new(3);
        let mut log = rig.create();
        log.record(1000).unwrap();
        let (a, b) = (rig.index_of(&log, a), rig.index_of(&log, b));
        rig.mini.faults().add(Rule::new(Site::PacketReceived, Fault::KillNode).on(a));
        rig.mini.faults().add(Rule::new(Site::PacketReceived, Fault::KillNode).on(b).skip(2));
        for _ in 0..6 {
            log.record(3000).unwrap();
            rig.check_acked(&log);
        }
        assert_eq!(log.file.pipeline().len(), 1);
        rig.finish(log, 1);
    }
}

#[test]
fn two_nodes_fail_at_once() {
    let rig = Rig::new(3);
    let mut log = rig.create();
    log.record(1000).unwrap();
    for position in [1, 2] {
        let node = rig.index_of(&log, position);
        rig.mini.faults().add(Rule::new(Site::PacketReceived, Fault::KillNode).on(node));
    }
    log.record(200_000).unwrap();
    rig.check_acked(&log);
    assert_eq!(log.file.pipeline().len(), 1);
    rig.finish(log, 1);
}

#[test]
fn all_nodes_fail_and_the_error_says_everything() {
    let rig = Rig::new(3);
    let mut log = rig.create();
    for _ in 0..3 {
        log.record(1000).unwrap();
    }
    rig.mini.faults().add(Rule::new(Site::PacketReceived, Fault::KillNode).always());
    log.write(1000).unwrap();
    let error = log.flush().unwrap_err();
    assert_eq!(error.status(), Status::Pipeline);
    assert_eq!(error.stage(), Some("streaming"));
    assert_eq!(error.durable_bytes(), Some(3000));
    assert!(error.message().contains("are bad. Aborting"), "{error}");
    assert!(error.message().contains(log.file.path()), "{error}");
    let server = error.server().expect("the DataNode is named").to_owned();
    assert!(rig.mini.datanodes().iter().any(|d| d.xfer_addr() == server), "{server}");
    log.check_broken(&error);
    rig.mini.faults().clear();
    wait_for("the nodes to be dead", || rig.mini.datanodes().iter().all(|d| !d.is_running()));
    for node in rig.mini.datanodes() {
        node.restart().unwrap();
    }
    rig.recover(&log);
    drop(log);
    rig.check_leaks();
}

#[test]
fn a_file_of_many_blocks_survives_a_death_in_each() {
    let rig =
        Rig::with(5, &[("dfs.client.block.write.replace-datanode-on-failure.policy", "NEVER")]);
    let options =
        dfs::client::file_system::CreateOptions { block_size: Some(8192), ..Default::default() };
    let mut log = rig.create_with(&options);
    for i in 0..5 {
        log.record(5000).unwrap();
        let node = rig.index_of(&log, i % log.file.pipeline().len());
        rig.mini.faults().add(Rule::new(Site::PacketReceived, Fault::Close).on(node));
        log.write(11_000).unwrap();
        log.flush().unwrap();
        rig.check_acked(&log);
    }
    rig.finish(log, 1);
}

#[test]
fn hsync_survives_a_fault_with_nothing_else_to_send() {
    for position in 0..3 {
        let rig = Rig::new(3);
        let mut log = rig.create();
        log.record(1000).unwrap();
        let node = rig.index_of(&log, position);
        rig.mini.faults().add(Rule::new(Site::PacketReceived, Fault::Close).on(node));
        log.file.flush(HSYNC, ample()).unwrap();
        assert_eq!(log.file.pipeline().len(), 2);
        rig.check_acked(&log);
        rig.finish(log, 2);
    }
}

#[test]
fn the_generation_stamp_moved_on_a_node() {
    for position in 0..3 {
        let rig = Rig::new(3);
        let mut log = rig.create();
        log.record(1000).unwrap();
        let id = rig.mini.block_ids(log.file.path())[0];
        // The recovery that a fault of another node causes finds a replica of the wrong time.
        let odd = rig.index_of(&log, position);
        let broken = rig.index_of(&log, (position + 1) % 3);
        rig.node(odd).set_generation_stamp(id, 999_999).unwrap();
        rig.mini.faults().add(Rule::new(Site::PacketReceived, Fault::Close).on(broken));
        log.record(1000).unwrap();
        assert_eq!(log.file.pipeline().len(), 1);
        rig.check_acked(&log);
        rig.finish(log, 1);
    }
}

/// The socket is full and nobody reads: the silence of the acks counts, not the long limit of a
/// stalled send.
#[test]
fn a_full_socket_does_not_hide_a_silent_pipeline() {
    let rig = Rig::new(3);
    let options = dfs::client::file_system::CreateOptions {
        block_size: Some(64 << 20),
        ..Default::default()
    };
    let mut log = rig.create_with(&options);
    log.record(1000).unwrap();
    let first = rig.index_of(&log, 0);
    rig.node(first).pause();
    let bytes = log.next(12 << 20);
    timed(15_000, |d| {
        log.write_bytes(&bytes, d).expect("the first node is replaced by the others");
        log.file.flush(FLUSH, d).unwrap();
    });
    assert_eq!(log.file.pipeline().len(), 2);
    rig.node(first).resume();
    rig.check_acked(&log);
    rig.finish(log, 2);
}

#[test]
fn five_recoveries_for_the_same_packet_are_enough() {
    let policy = "dfs.client.block.write.replace-datanode-on-failure.policy";
    let rig = Rig::with(12, &[(policy, "ALWAYS")]);
    let mut log = rig.create();
    log.record(1000).unwrap();
    let rule = Rule::new(Site::Ack, Fault::Close).seqno(1).always();
    let rule = rig.mini.faults().add(rule);
    log.write(100).unwrap();
    let error = log.flush().unwrap_err();
    assert_eq!(error.status(), Status::Pipeline);
    assert!(error.message().contains("Tried pipeline recovery 5 times"), "{error}");
    assert_eq!(error.durable_bytes(), Some(1000));
    assert_eq!(rig.fs.stats().pipeline_recoveries, 5);
    rule.disarm();
    log.check_broken(&error);
    rig.recover(&log);
    drop(log);
    rig.check_leaks();
}

#[test]
fn progress_between_recoveries_starts_the_count_anew() {
    let policy = "dfs.client.block.write.replace-datanode-on-failure.policy";
    let rig = Rig::with(12, &[(policy, "ALWAYS")]);
    let mut log = rig.create();
    log.record(1000).unwrap();
    for _ in 0..8 {
        let node = rig.index_of(&log, 0);
        rig.mini.faults().add(Rule::new(Site::PacketReceived, Fault::Close).on(node));
        log.record(1000).unwrap();
    }
    assert_eq!(rig.fs.stats().pipeline_recoveries, 8);
    rig.check_acked(&log);
    rig.finish(log, 3);
}
