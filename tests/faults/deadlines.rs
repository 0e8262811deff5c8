//! Every call returns within its limit, and a call that ran out of time leaves the file usable.
use crate::rig::{FLUSH, HSYNC, Rig, ample, is_timeout, timed};
use dfs::error::Status;
use dfs_testkit::minidfs::{Fault, Rule, Site};
use std::time::Duration;

#[test]
fn calls_on_a_paused_pipeline_return_in_time() {
    for position in 0..3 {
        let rig = Rig::patient(3);
        let mut log = rig.create();
        log.record(1000).unwrap();
        let node = rig.index_of(&log, position);
        rig.node(node).pause();
        log.write(500).unwrap();
        for _ in 0..3 {
            let result = timed(50, |d| log.file.flush(FLUSH, d));
            assert!(is_timeout(&result), "{result:?}");
            assert_eq!(result.unwrap_err().durable_bytes(), Some(1000));
        }
        assert!(is_timeout(&timed(50, |d| log.file.flush(HSYNC, d))));
        assert!(is_timeout(&timed(50, |d| log.file.close(d))));
        if position == 0 {
            // A full window and a full socket.
            let bytes = log.next(900_000);
            let result = timed(200, |d| log.write_bytes(&bytes, d));
            assert!(result.is_ok() || is_timeout(&result), "{result:?}");
        }
        rig.node(node).resume();
        log.record(2000).unwrap();
        rig.check_acked(&log);
        rig.finish(log, 1);
    }
}

#[test]
fn without_a_deadline_the_socket_time_out_ends_a_pause() {
    let rig = Rig::new(3);
    let mut log = rig.create();
    log.record(1000).unwrap();
    let node = rig.index_of(&log, 1);
    rig.node(node).pause();
    log.write(500).unwrap();
    timed(8000, |_| log.file.flush(FLUSH, dfs::time::Deadline::NONE)).unwrap();
    assert_eq!(log.file.pipeline().len(), 2);
    rig.check_acked(&log);
    rig.node(node).resume();
    rig.finish(log, 2);
}

#[test]
fn short_deadlines_get_through_a_recovery_in_steps() {
    for position in 0..3 {
        let rig = Rig::new(3);
        let mut log = rig.create();
        log.record(1000).unwrap();
        let node = rig.index_of(&log, position);
        rig.node(node).pause();
        log.write(100_000).unwrap();
        let mut ended = None;
        for _ in 0..400 {
            match timed(30, |d| log.file.flush(FLUSH, d)) {
                Ok(()) => {
                    ended = Some(());
                    break;
                }
                Err(e) => assert!(e.status() == Status::TimedOut && !e.is_fatal(), "{e:?}"),
            }
        }
        assert!(ended.is_some(), "position {position}: no end in sight");
        assert!(!log.file.pipeline().contains(&rig.name(node)));
        assert_eq!(log.file.durable(), log.len);
        rig.check_acked(&log);
        rig.node(node).resume();
        rig.finish(log, 1);
    }
}

/// The survivors of a fault are slow to answer the set-up: deadlines must not drive them out.
#[test]
fn nodes_slower_than_the_deadline_are_not_blamed() {
    let rig = Rig::new(3);
    let mut log = rig.create();
    log.record(1000).unwrap();
    let node = rig.index_of(&log, 2);
    rig.mini.faults().add(Rule::new(Site::PacketReceived, Fault::Close).on(node));
    let slow = Fault::Delay(Duration::from_millis(120));
    let site = Site::Op(dfs_testkit::minidfs::Op::Write);
    rig.mini.faults().add(Rule::new(site, slow).times(6));
    log.write(700).unwrap();
    for _ in 0..6 {
        let result = timed(50, |d| log.file.flush(FLUSH, d));
        assert!(result.is_ok() || is_timeout(&result), "{result:?}");
    }
    log.flush().unwrap();
    assert_eq!(log.file.pipeline().len(), 2);
    rig.check_acked(&log);
    rig.finish(log, 2);
}

#[test]
fn a_half_sent_packet_is_finished_by_the_next_call() {
    let rig = Rig::patient(3);
    let options = dfs::client::file_system::CreateOptions {
        block_size: Some(64 << 20),
        packet_bytes: Some(4 << 20),
        ..Default::default()
    };
    let mut log = rig.create_with(&options);
    log.record(1000).unwrap();
    let first = rig.index_of(&log, 0);
    rig.node(first).pause();
    let bytes = log.next(24 << 20);
    let result = timed(300, |d| log.write_bytes(&bytes, d));
    assert!(is_timeout(&result), "{result:?}");
    for _ in 0..3 {
        assert!(is_timeout(&timed(30, |d| log.file.flush(FLUSH, d))));
    }
    rig.node(first).resume();
    log.file.flush(FLUSH, ample()).unwrap();
    assert_eq!(log.file.durable(), log.len);
    assert_eq!(log.file.pipeline().len(), 3);
    rig.check_acked(&log);
    rig.finish(log, 3);
}

#[test]
fn a_lock_held_by_another_call_counts_against_the_deadline() {
    let rig = Rig::patient(3);
    let mut log = rig.create();
    log.record(1000).unwrap();
    let first = rig.index_of(&log, 0);
    rig.node(first).pause();
    std::thread::scope(|scope| {
        let file = &log.file;
        // Holds the writer while it waits for the block's acks.
        scope.spawn(move || file.close(dfs::time::Deadline::after_ms(1500)));
        std::thread::sleep(Duration::from_millis(200));
        let result = timed(60, |d| file.write(&[0; 10], d));
        assert!(is_timeout(&result), "{result:?}");
        assert!(is_timeout(&timed(60, |d| file.flush(FLUSH, d))));
    });
    rig.node(first).resume();
    rig.finish(log, 3);
}
