//! Flush tickets, partial writes, prepared pipelines and background closes: they never wait, and
//! lose nothing when something fails meanwhile.
use crate::rig::{FLUSH, HSYNC, Log, Rig, ample, cluster, ms, wait_for};
use dfs::client::file_system::CreateOptions;
use dfs::error::Status;
use dfs_testkit::minidfs::{Fault, Op, Rule, Site};
use std::time::{Duration, Instant};

/// Longer than any of these tests may take, so that a call that waits for it is found out.
const STUCK: Duration = Duration::from_secs(20);

/// Runs a call that must not wait for anybody.
fn at_once<T>(call: impl FnOnce() -> T) -> T {
    let started = Instant::now();
    let result = call();
    let took = started.elapsed();
    assert!(took < Duration::from_secs(5), "a call that never waits took {took:?}");
    result
}

/// Polls until `count` more flushes have completed; returns the position.
fn poll_for(log: &Log, count: u64) -> u64 {
    let (mut seen, mut position) = (0, 0);
    wait_for("begun flushes", || {
        let progress = at_once(|| log.file.flush_poll()).expect("poll");
        assert!(progress.position >= position, "positions rise");
        (seen, position) = (seen + progress.completed, progress.position);
        seen >= count
    });
    assert_eq!(seen, count, "each flush is told once");
    position
}

#[test]
fn many_flushes_are_under_way_and_complete_in_order() {
    let rig = Rig::new(3);
    let mut log = rig.create();
    log.record(100).unwrap();
    let slow = Rule::new(Site::Ack, Fault::Delay(Duration::from_millis(100))).on(0).times(5);
    rig.mini.faults().add(slow);
    let mut positions = Vec::new();
    for _ in 0..20 {
        log.write(300).unwrap();
        positions.push(at_once(|| log.file.flush_begin(FLUSH)).unwrap());
    }
    assert_eq!(positions[19], log.len);
    assert!(positions.is_sorted());
    log.file.flush_wait(positions[7], ample()).unwrap();
    assert!(log.file.durable() >= positions[7]);
    log.file.flush_wait(positions[19], ample()).unwrap();
    assert_eq!(log.file.durable(), log.len);
    // The waits completed them all; polls tell of them now.
    assert_eq!(poll_for(&log, 20), log.len);
    assert_eq!(at_once(|| log.file.flush_poll()).unwrap().completed, 0);
    rig.check_acked(&log);
    rig.finish(log, 3);
}

#[test]
fn the_first_flush_of_a_file_completes_by_polls_alone() {
    let rig = Rig::new(3);
    let mut log = rig.create();
    log.write(5000).unwrap();
    let position = at_once(|| log.file.flush_begin(HSYNC)).unwrap();
    assert_eq!(poll_for(&log, 1), position);
    // What a completed flush promises: the NameNode knows the block, readers see the bytes.
    assert_eq!(rig.mini.call_count("fsync"), 1);
    assert_eq!(rig.read(log.file.path()).len() as u64, position);
    rig.check_acked(&log);
    rig.finish(log, 3);
}

#[test]
fn a_position_that_no_flush_reaches_is_refused() {
    let rig = Rig::new(1);
    let mut log = rig.create();
    log.write(100).unwrap();
    let error = log.file.flush_wait(100, ample()).unwrap_err();
    assert_eq!(error.status(), Status::InvalidArgument);
    assert!(error.message().contains("position 100"), "{error}");
    assert_eq!(log.file.flush_begin(FLUSH).unwrap(), 100);
    log.file.flush_wait(100, ample()).unwrap();
    log.file.flush_wait(40, ample()).unwrap();
    log.file.flush_wait(101, ample()).unwrap_err();
    rig.finish(log, 1);
}

#[test]
fn a_fault_under_begun_flushes_is_repaired_by_whoever_comes() {
    for by_polls in [false, true] {
        for position in 0..3 {
            let rig = Rig::new(4);
            let mut log = rig.create();
            log.record(100).unwrap();
            let node = rig.index_of(&log, position);
            rig.mini
                .faults()
                .add(Rule::new(Site::PacketReceived, Fault::KillNode).on(node).skip(2));
            let mut last = 0;
            for _ in 0..10 {
                log.write(200).unwrap();
                last = at_once(|| log.file.flush_begin(FLUSH)).unwrap();
            }
            if by_polls {
                poll_for(&log, 10);
            } else {
                log.file.flush_wait(last, ample()).unwrap();
            }
            assert_eq!(log.file.durable(), last);
            assert_eq!(log.file.pipeline().len(), 2);
            rig.check_acked(&log);
            rig.finish(log, 2);
        }
    }
}

#[test]
fn a_broken_file_says_what_is_durable_and_keeps_what_completed() {
    let rig = Rig::new(1);
    let mut log = rig.create();
    log.write(700).unwrap();
    let first = log.file.flush_begin(FLUSH).unwrap();
    log.file.flush_wait(first, ample()).unwrap();
    rig.mini.faults().add(Rule::new(Site::PacketReceived, Fault::KillNode).on(0));
    log.write(300).unwrap();
    let second = log.file.flush_begin(FLUSH).unwrap();
    let error = log.file.flush_wait(second, ample()).unwrap_err();
    assert!(error.is_fatal());
    assert_eq!(error.durable_bytes(), Some(700));
    log.file.flush_wait(first, ample()).unwrap();
    // The flush that completed is told before the error.
    assert_eq!(log.file.flush_poll().unwrap().completed, 1);
    assert_eq!(log.file.flush_poll().unwrap_err().durable_bytes(), Some(700));
    log.file.flush_begin(FLUSH).unwrap_err();
    log.file.write_at_once(b"x").unwrap_err();
    wait_for("the node to be dead", || !rig.node(0).is_running());
    rig.node(0).restart().unwrap();
    rig.recover(&log);
}

#[test]
fn a_flush_below_the_floor_of_replicas_does_not_complete() {
    let rig = Rig::new(3);
    let mut log = rig.create_with(&CreateOptions { min_replicas: 3, ..Default::default() });
    log.record(100).unwrap();
    let node = rig.index_of(&log, 1);
    rig.mini.faults().add(Rule::new(Site::PacketReceived, Fault::KillNode).on(node));
    log.write(200).unwrap();
    let position = log.file.flush_begin(FLUSH).unwrap();
    let error = log.file.flush_wait(position, ample()).unwrap_err();
    assert_eq!(error.status(), Status::Pipeline);
    assert!(error.message().contains("2 live replicas"), "{error}");
    assert!(!error.is_fatal());
    assert_eq!(log.file.flush_poll().unwrap_err().status(), Status::Pipeline);
    rig.finish(log, 2);
}

#[test]
fn waits_end_with_their_deadline_and_the_flush_goes_on() {
    let rig = Rig::patient(3);
    let mut log = rig.create();
    log.record(100).unwrap();
    let node = rig.index_of(&log, 2);
    rig.node(node).pause();
    log.write(200).unwrap();
    let position = at_once(|| log.file.flush_begin(FLUSH)).unwrap();
    let error = log.file.flush_wait(position, ms(100)).unwrap_err();
    assert_eq!(error.status(), Status::TimedOut);
    assert_eq!(error.durable_bytes(), Some(100));
    assert_eq!(at_once(|| log.file.flush_poll()).unwrap().completed, 0);
    rig.node(node).resume();
    log.file.flush_wait(position, ample()).unwrap();
    rig.check_acked(&log);
    rig.finish(log, 3);
}

#[test]
fn nothing_waits_for_a_writer_that_is_stuck() {
    let rig = Rig::patient(3);
    let mut log = rig.create();
    log.record(100).unwrap();
    // The node at the head reads no more; window and socket buffers fill up.
    let node = rig.index_of(&log, 0);
    rig.node(node).pause();
    let bytes = log.next(64 << 20);
    let mut at = 0;
    loop {
        let end = (at + 100_000).min(bytes.len());
        let taken = at_once(|| log.file.write_at_once(&bytes[at..end])).unwrap();
        at += taken;
        if taken == 0 {
            break;
        }
    }
    assert!(at > 1 << 20 && at < 64 << 20, "{at} bytes were taken");
    log.len = log.file.pos();
    assert_eq!(log.len, 100 + at as u64);
    let position = at_once(|| log.file.flush_begin(FLUSH)).unwrap();
    assert_eq!(position, log.len);
    assert_eq!(at_once(|| log.file.flush_poll()).unwrap().completed, 0);
    std::thread::scope(|scope| {
        let stuck = scope.spawn(|| log.file.write(&bytes[at..at + 1000], ample()));
        std::thread::sleep(Duration::from_millis(100));
        // Also while another thread holds the file.
        assert_eq!(at_once(|| log.file.write_at_once(&bytes[at + 1000..])).unwrap(), 0);
        at_once(|| log.file.flush_begin(FLUSH)).unwrap();
        at_once(|| log.file.flush_poll()).unwrap();
        rig.node(node).resume();
        stuck.join().unwrap().unwrap();
    });
    log.len = log.file.pos();
    log.file.flush_wait(position, ample()).unwrap();
    rig.check_acked(&log);
    rig.finish(log, 3);
}

#[test]
fn partial_writes_alone_make_a_file_of_many_blocks() {
    let rig = Rig::new(3);
    let options = CreateOptions { block_size: Some(200 * 1024), ..Default::default() };
    let mut log = rig.create_with(&options);
    let bytes = log.next(1_500_000);
    let mut at = 0;
    wait_for("partial writes", || {
        at += at_once(|| log.file.write_at_once(&bytes[at..])).unwrap();
        at == bytes.len()
    });
    log.len = log.file.pos();
    let position = at_once(|| log.file.flush_begin(FLUSH)).unwrap();
    assert_eq!(poll_for(&log, 1), position);
    rig.check_acked(&log);
    rig.finish(log, 3);
}

#[test]
fn threads_share_tickets() {
    let rig = Rig::new(3);
    let options = CreateOptions {
        create_parents: true,
        block_size: Some(64 * 1024),
        ..CreateOptions::default()
    };
    let file = rig.fs.create("/tickets", &options, ample()).unwrap();
    for node in 0..3 {
        let rule =
            Rule::new(Site::PacketReceived, Fault::Close).on(node).skip(40 + 90 * node as u64);
        if node < 2 {
            rig.mini.faults().add(rule);
        }
    }
    std::thread::scope(|scope| {
        for t in 1..=6_u8 {
            let file = &file;
            scope.spawn(move || {
                for i in 0..60 {
                    file.write(&[t; 100], ample()).unwrap();
                    let pos = file.pos();
                    let mode = if i % 8 == 0 { HSYNC } else { FLUSH };
                    let position = at_once(|| file.flush_begin(mode)).unwrap();
                    assert!(position >= pos);
                    if i % 3 == 0 {
                        file.flush_wait(position, ample()).unwrap();
                        assert!(file.durable() >= pos);
                    }
                }
            });
        }
    });
    file.flush_wait(file.pos(), ample()).unwrap();
    let told = file.flush_poll().unwrap();
    assert_eq!(told.completed, 360, "each flush is told once");
    file.close(ample()).unwrap();
    let all = rig.read("/tickets");
    assert_eq!(all.len(), 36_000);
    for t in 1..=6_u8 {
        let whole = all.chunks(100).filter(|r| r.iter().all(|b| *b == t)).count();
        assert_eq!(whole, 60, "records of thread {t}");
    }
    drop(file);
    rig.check_leaks();
}

#[test]
fn a_prepared_file_has_its_pipeline_at_the_first_flush() {
    let rig = Rig::new(3);
    let mut log = rig.create();
    log.file.prepare(ample()).unwrap();
    assert_eq!(log.file.pipeline().len(), 3);
    let calls = || ["addBlock", "fsync"].map(|name| rig.mini.call_count(name));
    assert_eq!(calls(), [1, 0]);
    log.record(700).unwrap();
    log.record(700).unwrap();
    assert_eq!(calls(), [1, 1]);
    rig.check_acked(&log);
    rig.finish(log, 3);
}

#[test]
fn a_prepared_block_without_bytes_is_given_back() {
    let rig = Rig::new(3);
    let log = rig.create();
    log.file.prepare(ample()).unwrap();
    log.file.flush(HSYNC, ample()).unwrap();
    rig.finish(log, 3);
    let rig = Rig::new(3);
    let log = rig.create();
    log.file.prepare(ample()).unwrap();
    log.file.close(ample()).unwrap();
    assert!(rig.mini.block_ids(log.file.path()).is_empty());
    assert_eq!(rig.mini.call_count("abandonBlock"), 1);
    drop(log);
    rig.check_leaks();
}

#[test]
fn a_bad_node_is_found_out_while_preparing() {
    let rig = Rig::new(4);
    rig.mini.faults().add(Rule::new(Site::Op(Op::Write), Fault::Close).on(0).always());
    let mut log = rig.create();
    log.file.prepare(ample()).unwrap();
    assert!(!log.file.pipeline().contains(&rig.name(0)));
    log.record(100).unwrap();
    rig.check_acked(&log);
    rig.finish(log, 3);
}

#[test]
fn a_close_in_the_background_ends_the_file_though_the_handle_is_gone() {
    let rig = Rig::new(3);
    let mut log = rig.create();
    log.write(100_000).unwrap();
    rig.mini.faults().add(Rule::rpc("complete", Fault::Delay(Duration::from_millis(300))));
    at_once(|| log.file.close_begin(0)).unwrap();
    at_once(|| log.file.close_begin(0)).unwrap();
    let path = log.file.path().to_owned();
    let len = log.len;
    drop(log);
    let meta = rig.fs.metadata().unwrap();
    wait_for("the close", || meta.is_file_closed(&path, ample()).unwrap());
    assert_eq!(meta.stat(&path, ample()).unwrap().length, len);
    wait_for("the lease to end", || rig.fs.stats().open_writers == 0);
    rig.check_leaks();
}

#[test]
fn a_close_in_the_background_is_polled() {
    let rig = Rig::new(3);
    let mut log = rig.create();
    let error = log.file.close_poll().unwrap_err();
    assert_eq!(error.status(), Status::InvalidArgument);
    log.write(100_000).unwrap();
    rig.mini.faults().add(Rule::rpc("complete", Fault::Delay(Duration::from_millis(300))));
    at_once(|| log.file.close_begin(0)).unwrap();
    assert!(!at_once(|| log.file.close_poll()).unwrap());
    wait_for("the close", || at_once(|| log.file.close_poll()).unwrap());
    assert!(log.file.close_poll().unwrap());
    assert_eq!(log.file.write(b"x", ample()).unwrap_err().status(), Status::Closed);
    log.file.close(ample()).unwrap();
    rig.check_closed(&log, 3);
    drop(log);
    rig.check_leaks();
}

#[test]
fn begun_flushes_are_complete_when_the_file_is() {
    let rig = Rig::new(3);
    let mut log = rig.create();
    log.write(1000).unwrap();
    let position = log.file.flush_begin(FLUSH).unwrap();
    log.file.close(ample()).unwrap();
    log.file.flush_wait(position, ample()).unwrap();
    assert_eq!(log.file.flush_poll().unwrap().completed, 1);
    rig.check_closed(&log, 3);
    drop(log);
    rig.check_leaks();
}

#[test]
fn a_close_in_the_background_that_fails_is_told_once_and_may_be_repeated() {
    let rig = Rig::new(3);
    let mut log = rig.create();
    log.write(1000).unwrap();
    rig.mini.faults().add(Rule::rpc("complete", Fault::Delay(STUCK)));
    log.file.close_begin(200).unwrap();
    let mut failure = None;
    wait_for("the time limit", || match log.file.close_poll() {
        Ok(done) => {
            assert!(!done);
            false
        }
        Err(error) => {
            failure = Some(error);
            true
        }
    });
    assert_eq!(failure.unwrap().status(), Status::TimedOut);
    assert_eq!(log.file.close_poll().unwrap_err().status(), Status::InvalidArgument);
    log.file.close_begin(0).unwrap();
    wait_for("the close", || log.file.close_poll().unwrap());
    rig.check_closed(&log, 3);
    drop(log);
    rig.check_leaks();
}

#[test]
fn many_closes_at_once_all_end() {
    let rig = Rig::of(cluster(3), &[]);
    let mut logs: Vec<_> = (0..20).map(|_| rig.create()).collect();
    for log in &mut logs {
        log.write(3000).unwrap();
        at_once(|| log.file.close_begin(0)).unwrap();
    }
    for log in logs {
        wait_for("a close", || log.file.close_poll().unwrap());
        rig.check_closed(&log, 3);
    }
    rig.check_leaks();
}

/// Connections that DataNodes accepted for writing.
fn accepted(rig: &Rig) -> usize {
    rig.mini.datanodes().iter().map(|d| d.open_connections()).sum()
}

#[test]
fn the_next_block_begins_on_a_connection_made_early() {
    // Each node is the writer's own, but only one leads: with one node it is always the same.
    let rig = Rig::new(1);
    let options =
        CreateOptions { block_size: Some(4 << 20), replication: Some(1), ..Default::default() };
    let mut log = rig.create_with(&options);
    log.record(3 << 20).unwrap();
    assert_eq!(accepted(&rig), 1);
    log.record(900 * 1024).unwrap();
    wait_for("the early connection", || accepted(&rig) == 2);
    // No further connection would come through.
    let dead = rig.mini.faults().add(Rule::new(Site::Accept, Fault::Close).on(0));
    log.record(200 * 1024).unwrap();
    wait_for("one connection", || accepted(&rig) == 1);
    assert_eq!((rig.fs.stats().pipeline_faults, dead.fired()), (0, 0));
    // Now the early one is closed at once, and found out.
    log.record(4000 * 1024).unwrap();
    wait_for("the early connection to die", || dead.fired() == 1);
    log.record(200 * 1024).unwrap();
    assert_eq!(rig.fs.stats().pipeline_faults, 0);
    rig.check_acked(&log);
    rig.finish(log, 1);
}

#[test]
fn files_that_hang_do_not_keep_others_from_being_closed() {
    let stuck = Rig::patient(1);
    let options = CreateOptions { replication: Some(1), ..Default::default() };
    let mut logs: Vec<_> = (0..6).map(|_| stuck.create_with(&options)).collect();
    stuck.node(0).pause();
    for log in &mut logs {
        log.write(100).unwrap();
        at_once(|| log.file.flush_begin(FLUSH)).unwrap();
    }
    let rig = Rig::new(3);
    let mut log = rig.create();
    log.write(1000).unwrap();
    at_once(|| log.file.close_begin(0)).unwrap();
    wait_for("the close", || log.file.close_poll().unwrap());
    rig.check_closed(&log, 3);
    drop(log);
    rig.check_leaks();
    stuck.node(0).resume();
    for log in logs {
        log.file.flush_wait(100, ample()).unwrap();
        log.file.close(ample()).unwrap();
        stuck.check_closed(&log, 1);
    }
    stuck.check_leaks();
}
