//! Hedged and vectored reads: several DataNodes at once.
use super::scripted::{Fault, Rig, limit};
use crate::conf::ClientConfig;
use crate::error::Status;
use crate::proto::hdfs::Status as DnStatus;
use crate::read::context::HedgePermit;
use crate::time::Deadline;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const BLOCK: usize = 262_144;

fn hedging(config: &mut ClientConfig) {
    config.hedged_read_pool_size = 4;
    config.hedged_read_threshold_ms = 60;
    config.order_by_latency = true;
}

fn rig(len: usize, replicas: usize) -> Rig {
    Rig::with(len, BLOCK, replicas, |_| {}, hedging)
}

fn get(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

/// (hedges, wins)
fn hedges(rig: &Rig) -> (u64, u64) {
    (get(&rig.ctx.stats.hedged_reads), get(&rig.ctx.stats.hedged_wins))
}

#[test]
fn a_late_replica_is_overtaken_by_another_one() {
    for fault in [Fault::StallAt(0), Fault::StallAt(1), Fault::StallAt(3)] {
        let rig = rig(BLOCK, 3);
        rig.nodes[0].fail(fault, usize::MAX);
        let stream = rig.open();
        let mut buf = vec![0; BLOCK];
        let begin = Instant::now();
        assert_eq!(stream.pread(0, &mut buf, limit()).unwrap(), BLOCK);
        assert!(buf == rig.data, "{fault:?}");
        assert!(begin.elapsed() < Duration::from_secs(3), "{:?}", begin.elapsed());
        assert_eq!(hedges(&rig), (1, 1), "{fault:?}");
        assert_eq!(rig.ctx.stats.failovers.load(Ordering::Relaxed), 0, "slow is no failure");
        assert_eq!(rig.nodes[2].requests(), 0);
        // The winner's connection is kept, the loser's closed; buffers came back.
        assert_eq!(rig.ctx.peers.stats().idle, 1);
        assert_eq!(rig.ctx.pool.stats().in_use_bytes, 0);
        // The late node is known as slow now.
        buf.fill(0);
        stream.pread(100, &mut buf[..5000], limit()).unwrap();
        assert!(buf[..5000] == rig.data[100..5100]);
        assert_eq!(rig.nodes[0].requests(), 1, "{fault:?}");
    }
}

#[test]
fn reads_that_are_not_late_are_not_hedged() {
    let rig = Rig::with(
        3 * BLOCK,
        BLOCK,
        2,
        |_| {},
        |config| {
            hedging(config);
            config.hedged_read_threshold_ms = 5_000;
        },
    );
    let stream = rig.open();
    let mut buf = vec![0; 3 * BLOCK];
    for _ in 0..3 {
        assert_eq!(stream.pread(0, &mut buf, limit()).unwrap(), 3 * BLOCK);
        assert!(buf == rig.data);
    }
    assert_eq!((hedges(&rig), rig.nodes[0].requests()), ((0, 0), 9));
    assert_eq!((rig.nodes[0].connections(), rig.nodes[1].connections()), (1, 0));
}

#[test]
fn the_first_replica_may_still_win() {
    let rig = rig(5000, 2);
    rig.nodes[0].script.lock().unwrap().delay = Duration::from_millis(150);
    rig.nodes[1].fail(Fault::StallAt(0), usize::MAX);
    let stream = rig.open();
    let mut buf = vec![0; 5000];
    stream.pread(0, &mut buf, limit()).unwrap();
    assert!(buf == rig.data);
    assert_eq!(hedges(&rig), (1, 0));
    assert_eq!(rig.ctx.peers.stats().idle, 1);
}

#[test]
fn a_hedge_that_fails_is_followed_by_another_one() {
    for fault in [Fault::Refuse(DnStatus::Error), Fault::BadChunk(0), Fault::CloseAtOnce] {
        let rig = rig(5000, 3);
        rig.nodes[0].fail(Fault::StallAt(0), usize::MAX);
        rig.nodes[1].fail(fault, usize::MAX);
        let stream = rig.open();
        let mut buf = vec![0; 5000];
        stream.pread(0, &mut buf, limit()).unwrap();
        assert!(buf == rig.data, "{fault:?}");
        assert_eq!(hedges(&rig), (2, 1), "{fault:?}");
        let reports = rig.names.reports.lock().unwrap().len();
        assert_eq!(reports, usize::from(fault == Fault::BadChunk(0)));
    }
}

#[test]
fn every_fault_of_a_replica_is_survived_while_hedging() {
    for fault in [
        Fault::BadChunk(1),
        Fault::BadSum(0),
        Fault::CloseAt(1),
        Fault::CloseInside(2),
        Fault::EarlyLast(1),
        Fault::WrongOffset(1),
        Fault::Repeat(1),
        Fault::Omit(1),
        Fault::LongData(1),
        Fault::Refuse(DnStatus::Error),
        Fault::ChunkSize(0),
        Fault::CloseAtOnce,
        Fault::Http,
        Fault::NoTrailer,
        Fault::Extra,
    ] {
        let rig = rig(BLOCK, 2);
        rig.nodes[0].fail(fault, usize::MAX);
        let mut buf = vec![0; BLOCK];
        assert_eq!(rig.open().pread(0, &mut buf, limit()).unwrap(), BLOCK, "{fault:?}");
        assert!(buf == rig.data, "{fault:?}");
    }
}

#[test]
fn when_all_fail_the_rounds_and_the_error_are_those_of_other_reads() {
    let rig = rig(1000, 2);
    for node in &rig.nodes {
        node.fail(Fault::Refuse(DnStatus::Error), 2);
    }
    let stream = rig.open();
    let mut buf = [0; 1000];
    stream.pread(0, &mut buf, limit()).unwrap();
    assert!(buf[..] == rig.data);
    for node in &rig.nodes {
        node.fail(Fault::Refuse(DnStatus::Error), usize::MAX);
    }
    let error = stream.pread(0, &mut buf, limit()).unwrap_err();
    assert_eq!(error.status(), Status::BlockMissing);
    assert!(rig.nodes.iter().all(|node| error.message().contains(&node.addr)), "{error}");
}

#[test]
fn the_callers_limit_names_a_node_that_was_waited_for() {
    let rig = rig(1000, 2);
    rig.nodes.iter().for_each(|node| node.fail(Fault::StallAt(0), usize::MAX));
    let stream = rig.open();
    let error = stream.pread(0, &mut [0; 1000], Deadline::after_ms(400)).unwrap_err();
    assert_eq!(error.status(), Status::TimedOut);
    assert!(error.server().is_some_and(|s| rig.nodes.iter().any(|n| n.addr == s)), "{error}");
    assert_eq!(error.stage(), Some("reading data"));
    assert_eq!(hedges(&rig), (1, 0));
}

#[test]
fn silence_is_bounded_without_another_replica() {
    let rig = Rig::with(
        1000,
        BLOCK,
        1,
        |_| {},
        |config| {
            hedging(config);
            config.socket_timeout_ms = 60;
        },
    );
    rig.nodes[0].fail(Fault::StallAt(0), 1);
    let mut buf = [0; 1000];
    rig.open().pread(0, &mut buf, limit()).unwrap();
    assert!(buf[..] == rig.data);
    assert_eq!((rig.nodes[0].requests(), hedges(&rig)), (2, (0, 0)));
}

#[test]
fn no_more_hedges_run_at_once_than_configured() {
    let rig = rig(1000, 1);
    let permits: Vec<_> = (0..4).map(|_| HedgePermit::take(&rig.ctx).unwrap()).collect();
    assert!(HedgePermit::take(&rig.ctx).is_none());
    drop(permits);
    assert!(HedgePermit::take(&rig.ctx).is_some());
}

#[test]
fn answers_in_any_pieces_are_put_together() {
    for (piece, packet, chunk) in
        [(1, 1024, 512), (7, 1000, 100), (100, 4096, 512), (1500, 65_536, 512), (333, 64, 1)]
    {
        let rig = rig(9_000, 2);
        for node in &rig.nodes {
            let mut script = node.script.lock().unwrap();
            (script.piece_bytes, script.packet_bytes, script.chunk) = (piece, packet, chunk);
        }
        let stream = rig.open();
        for (at, len) in [(0, 9_000), (1, 700), (511, 2), (4_000, 5_000), (8_999, 1)] {
            let mut buf = vec![0; len];
            assert_eq!(stream.pread(at as u64, &mut buf, limit()).unwrap(), len);
            assert!(buf == rig.data[at..at + len], "{piece} {packet} {at}+{len}");
        }
        let (mut a, mut b) = (vec![0; 3_000], vec![0; 100]);
        let mut ranges = [(5_000, &mut a[..]), (10, &mut b[..])];
        stream.preadv(&mut ranges, limit()).unwrap();
        assert!(a == rig.data[5_000..8_000] && b == rig.data[10..110], "{piece} {packet}");
    }
}

/// Ranges far from each other, in all blocks of a file.
fn scattered(len: usize) -> Vec<(u64, Vec<u8>)> {
    (0..len / 100_000).map(|i| ((i * 100_000 + 17) as u64, vec![0; 9_000])).collect()
}

fn read_scattered(rig: &Rig) {
    let stream = rig.open();
    let mut memory = scattered(rig.data.len());
    let mut ranges: Vec<(u64, &mut [u8])> =
        memory.iter_mut().map(|(at, buf)| (*at, &mut buf[..])).collect();
    let counts = stream.preadv(&mut ranges, limit()).unwrap();
    assert!(counts.iter().all(|n| *n == 9_000));
    for (at, buf) in &memory {
        assert!(*buf == rig.data[*at as usize..*at as usize + 9_000], "{at}");
    }
    assert_eq!(rig.ctx.pool.stats().in_use_bytes, 0);
}

#[test]
fn ranges_are_fetched_from_several_nodes_at_once() {
    for hedged in [false, true] {
        let rig = Rig::with(
            4 * BLOCK,
            BLOCK,
            2,
            |_| {},
            |config| {
                if hedged {
                    hedging(config);
                    config.hedged_read_threshold_ms = 5_000;
                }
            },
        );
        let wait = Duration::from_millis(80);
        rig.nodes.iter().for_each(|node| node.script.lock().unwrap().delay = wait);
        let begin = Instant::now();
        read_scattered(&rig);
        let (a, b) = (rig.nodes[0].requests(), rig.nodes[1].requests());
        assert_eq!(a + b, 10);
        assert!(a >= 3 && b >= 3, "{a} and {b}");
        // Ten requests of 80 ms each, eight at once.
        assert!(begin.elapsed() < 8 * wait, "{:?}", begin.elapsed());
        assert!(rig.ctx.peers.stats().idle >= 2);
    }
}

#[test]
fn ranges_survive_the_faults_of_a_node() {
    for fault in [
        Fault::StallAt(0),
        Fault::CloseAtOnce,
        Fault::BadChunk(0),
        Fault::Refuse(DnStatus::Error),
        Fault::Refuse(DnStatus::ErrorAccessToken),
        Fault::EarlyLast(0),
    ] {
        let rig = Rig::with(4 * BLOCK, BLOCK, 2, |_| {}, |c| c.socket_timeout_ms = 100);
        rig.nodes[0].fail(fault, usize::MAX);
        read_scattered(&rig);
        // And when no replica can be read for a while.
        let rig = Rig::with(4 * BLOCK, BLOCK, 2, |_| {}, |c| c.socket_timeout_ms = 100);
        rig.nodes.iter().for_each(|node| node.fail(fault, 3));
        if !matches!(fault, Fault::BadChunk(_)) {
            read_scattered(&rig);
        }
    }
}

#[test]
fn a_range_that_cannot_be_read_fails_the_call() {
    let rig = Rig::new(4 * BLOCK, BLOCK, 2);
    rig.nodes.iter().for_each(|node| {
        node.script.lock().unwrap().blocks.remove(&3);
    });
    let (mut a, mut b) = ([0; 100], [0; 100]);
    let mut ranges = [(0, &mut a[..]), (2 * BLOCK as u64, &mut b[..])];
    let error = rig.open().preadv(&mut ranges, limit()).unwrap_err();
    assert_eq!(error.status(), Status::BlockMissing);
    assert!(error.message().contains("blk_3_"), "{error}");
}
