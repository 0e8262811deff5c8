//! What one stream learns serves the others of its file system, for a time.
use super::scripted::{Fault, Rig, limit};
use crate::proto::hdfs::Status as DnStatus;
use crate::read::located::tests::located;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

const BLOCK: usize = 262_144;

#[test]
fn a_silent_node_costs_one_stream_its_time_and_no_other() {
    let rig = Rig::with(
        1000,
        BLOCK,
        2,
        |_| {},
        |c| {
            c.socket_timeout_ms = 100;
            c.dead_node_ms = 300;
        },
    );
    rig.nodes[0].fail(Fault::StallAt(0), 1);
    let mut buf = [0; 1000];
    let begin = Instant::now();
    rig.open().pread(0, &mut buf, limit()).unwrap();
    assert_eq!((rig.nodes[0].requests(), rig.nodes[1].requests()), (1, 1));
    // Another handle asks the good node at once.
    for _ in 0..3 {
        rig.open().pread(0, &mut buf, limit()).unwrap();
    }
    let early = begin.elapsed() < Duration::from_millis(380);
    assert!(!early || rig.nodes[0].requests() == 1, "a dead node is tried last by all");
    // Its time passes, and it is used again.
    std::thread::sleep(Duration::from_millis(450));
    rig.open().pread(0, &mut buf, limit()).unwrap();
    assert_eq!(rig.nodes[0].requests(), 2);
    rig.open().pread(0, &mut buf, limit()).unwrap();
    assert!(buf[..] == rig.data);
    assert_eq!(rig.nodes[0].requests(), 3, "it works, so nobody avoids it any more");
}

#[test]
fn a_refused_connection_is_remembered_by_all() {
    let rig = Rig::new(1000, BLOCK, 1);
    let two = located(1, 0, 1000, &["127.0.0.1:1", &rig.nodes[0].addr]);
    {
        let mut answer = rig.names.answer.lock().unwrap();
        let answer = answer.as_mut().unwrap();
        (answer.blocks, answer.last_block) = (vec![two.clone()], Some(two));
    }
    let mut buf = [0; 1000];
    for _ in 0..5 {
        rig.open().pread(0, &mut buf, limit()).unwrap();
        assert!(buf[..] == rig.data);
    }
    assert_eq!(rig.ctx.stats.failovers.load(Ordering::Relaxed), 1);
}

#[test]
fn a_bad_replica_does_not_discredit_its_node() {
    let rig = Rig::new(2 * BLOCK, BLOCK, 2);
    rig.nodes[0].fail(Fault::Refuse(DnStatus::Error), 1);
    let stream = rig.open();
    let mut buf = [0; 1000];
    stream.pread(0, &mut buf, limit()).unwrap();
    assert_eq!((rig.nodes[0].requests(), rig.nodes[1].requests()), (1, 1));
    stream.pread(100, &mut buf, limit()).unwrap();
    assert_eq!((rig.nodes[0].requests(), rig.nodes[1].requests()), (1, 2), "not this replica");
    stream.pread(BLOCK as u64, &mut buf, limit()).unwrap();
    assert_eq!((rig.nodes[0].requests(), rig.nodes[1].requests()), (2, 2), "but another one");
}

#[test]
fn a_slow_node_makes_way_for_its_equals() {
    let rig = Rig::with(1000, BLOCK, 3, |_| {}, |config| config.order_by_latency = true);
    rig.nodes[0].script.lock().unwrap().delay = Duration::from_millis(120);
    let mut buf = [0; 1000];
    for _ in 0..10 {
        rig.open().pread(0, &mut buf, limit()).unwrap();
    }
    assert_eq!(rig.nodes[0].requests(), 1);
}

#[test]
fn the_next_block_is_asked_for_early() {
    for fault in [
        Fault::None,
        Fault::CloseAtOnce,
        Fault::StallAt(0),
        Fault::BadChunk(0),
        Fault::Refuse(DnStatus::Error),
        Fault::Refuse(DnStatus::ErrorAccessToken),
    ] {
        let rig = Rig::with(10 * BLOCK, BLOCK, 2, |_| {}, |c| c.socket_timeout_ms = 200);
        let stream = rig.open();
        let mut buf = vec![0; 4 * BLOCK];
        assert_eq!(stream.read(&mut buf, limit()).unwrap(), 4 * BLOCK);
        let early = || rig.ctx.stats.early_requests.load(Ordering::Relaxed);
        assert!(early() >= 2, "{}", early());
        rig.nodes[0].fail(fault, 2);
        let rest = rig.read_all(&stream, 10_000).unwrap();
        assert!(rest == rig.data[4 * BLOCK..], "{fault:?}");
        if fault == Fault::None {
            assert_eq!(rig.nodes[0].requests(), 10, "each block once");
            assert_eq!(rig.nodes[0].connections(), 2);
            assert_eq!(early(), 7);
        }
        assert_eq!(rig.ctx.pool.stats().in_use_bytes, 0);
    }
}

#[test]
fn readers_that_jump_ask_for_nothing_early() {
    let rig = Rig::new(10 * BLOCK, BLOCK, 1);
    let stream = rig.open();
    let mut buf = vec![0; 1000];
    for at in [5 * BLOCK, 100, 9 * BLOCK - 2000, 3 * BLOCK] {
        stream.seek(at as u64).unwrap();
        stream.read(&mut buf, limit()).unwrap();
        assert!(buf == rig.data[at..at + 1000]);
    }
    assert_eq!(rig.ctx.stats.early_requests.load(Ordering::Relaxed), 0);
    // A jump away drops what was asked for.
    stream.seek(0).unwrap();
    let mut long = vec![0; 3 * BLOCK + 1000];
    stream.read(&mut long, limit()).unwrap();
    stream.seek(7 * BLOCK as u64).unwrap();
    stream.read(&mut buf, limit()).unwrap();
    assert!(buf == rig.data[7 * BLOCK..7 * BLOCK + 1000]);
    stream.unbuffer();
    assert_eq!(rig.ctx.pool.stats().in_use_bytes, 0);
}
