//! Options by which a log rather rolls than waits, and files that are given up.
use crate::rig::{Rig, ample, wait_for};
use dfs::client::file_system::CreateOptions;
use dfs::error::Status;
use dfs_testkit::minidfs::{Fault, Rule, Site};

#[test]
fn fail_fast_breaks_at_the_first_fault() {
    for position in 0..3 {
        let rig = Rig::new(4);
        let mut log = rig.create_with(&CreateOptions { fail_fast: true, ..Default::default() });
        log.record(1000).unwrap();
        let node = rig.index_of(&log, position);
        rig.mini.faults().add(Rule::new(Site::PacketReceived, Fault::Close).on(node));
        log.write(1000).unwrap();
        let error = log.flush().unwrap_err();
        assert_eq!((error.status(), error.stage()), (Status::Pipeline, Some("streaming")));
        assert_eq!(error.durable_bytes(), Some(1000));
        assert!(error.server().is_some());
        assert_eq!(rig.mini.call_count("updateBlockForPipeline"), 0);
        log.check_broken(&error);
        rig.recover(&log);
        drop(log);
        rig.check_leaks();
    }
}

#[test]
fn fail_fast_still_appends() {
    let rig = Rig::new(3);
    let mut log = rig.create();
    log.record(1000).unwrap();
    log.file.close(ample()).unwrap();
    rig.wait_reported(&log, 3);
    let options = CreateOptions { fail_fast: true, ..Default::default() };
    let file = rig.fs.append(log.file.path(), false, &options, ample()).unwrap();
    log.file = file;
    log.record(1000).unwrap();
    rig.check_acked(&log);
    rig.finish(log, 3);
}

#[test]
fn a_flush_below_the_floor_of_replicas_fails_but_the_bytes_are_safe() {
    let rig = Rig::new(3);
    let mut log = rig.create_with(&CreateOptions { min_replicas: 3, ..Default::default() });
    log.record(1000).unwrap();
    let node = rig.index_of(&log, 1);
    rig.mini.faults().add(Rule::new(Site::PacketReceived, Fault::Close).on(node));
    for _ in 0..2 {
        log.write(1000).unwrap();
        let error = log.flush().unwrap_err();
        assert_eq!(error.status(), Status::Pipeline);
        assert!(error.message().contains("2 live replicas"), "{error}");
        assert!(!error.is_fatal());
        assert_eq!(error.durable_bytes(), Some(log.len));
        rig.check_acked(&log);
    }
    rig.finish(log, 2);
}

#[test]
fn an_abandoned_writer_holds_nothing() {
    // Idle, in the middle of a packet, with unacknowledged packets, and with a fault.
    for case in 0..4 {
        let rig = Rig::new(3);
        let mut log = rig.create();
        log.record(1000).unwrap();
        match case {
            0 => {}
            1 => log.write(100).unwrap(),
            2 => {
                let first = rig.index_of(&log, 0);
                rig.mini.faults().add(Rule::new(Site::Ack, Fault::LoseAck).on(first).always());
                log.write(500_000).unwrap();
            }
            _ => {
                for node in rig.mini.datanodes() {
                    node.drop_connections();
                }
                log.write(200_000).unwrap();
            }
        }
        let (path, durable, len) = (log.file.path().to_owned(), log.file.durable(), log.len);
        assert!(durable >= 1000);
        drop(log);
        wait_for("connections to end", || {
            rig.mini.datanodes().iter().all(|d| d.open_connections() == 0)
        });
        assert_eq!(rig.fs.stats().pool.in_use_bytes, 0);
        let meta = rig.fs.metadata().unwrap();
        wait_for("lease recovery", || meta.recover_lease(&path, ample()).unwrap_or(false));
        let read = rig.read(&path);
        assert!(read.len() as u64 >= durable && read.len() as u64 <= len);
        rig.check_leaks();
    }
}
