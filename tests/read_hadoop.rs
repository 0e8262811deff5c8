//! Reads from real Hadoop of what Java's client wrote, while replicas are damaged and DataNodes
//! die.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]
use dfs::client::file_system::FileSystem;
use dfs::conf::Config;
use dfs::error::Status;
use dfs::read::{InputStream, ReadOptions};
use dfs::time::Deadline;
use dfs_testkit::data;
use dfs_testkit::hadoop::{Cluster, WriteRequest};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

const BLOCK: u64 = 1 << 20;
const LEN: u64 = 3 * BLOCK + 12_345;

fn limit() -> Deadline {
    Deadline::after_ms(60_000)
}

/// The process's cluster; the tests run one after another, since some kill DataNodes.
struct Rig {
    cluster: &'static Cluster,
    fs: FileSystem,
    _alone: MutexGuard<'static, ()>,
}

impl Rig {
    fn new(settings: &[(&str, &str)]) -> Rig {
        static ALONE: Mutex<()> = Mutex::new(());
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let cluster = Cluster::shared().unwrap();
        let mut config = Config::new();
        for (key, value) in settings {
            config.set(key, value);
        }
        let fs = FileSystem::connect(&config, Some(&cluster.uri()), limit()).unwrap();
        Rig { cluster, fs, _alone: alone }
    }

    /// A file written by Java; returns its path.
    fn write(&self, request: &WriteRequest) -> String {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let path = format!("/read/{}", NEXT.fetch_add(1, Ordering::Relaxed));
        self.cluster.oracle().unwrap().write(&path, request).unwrap();
        path
    }

    fn open(&self, path: &str) -> InputStream {
        self.fs.open(path, ReadOptions::default(), limit()).unwrap()
    }

    /// Ids of the file's blocks.
    fn blocks(&self, path: &str) -> Vec<i64> {
        let blocks = self.fs.metadata().unwrap().block_locations(path, 0, 1 << 40, limit());
        blocks.unwrap().iter().map(|b| b.block_id as i64).collect()
    }
}

fn request(seed: u64) -> WriteRequest {
    WriteRequest { length: LEN, seed, block_size: Some(BLOCK), ..WriteRequest::default() }
}

/// Reads the whole file in all ways and compares.
fn check(stream: &InputStream, seed: u64, len: u64) {
    assert_eq!(stream.len(), len);
    let mut all = vec![0; len as usize];
    assert_eq!(stream.pread(0, &mut all, limit()).unwrap() as u64, len);
    assert_eq!(data::mismatch(seed, 0, &all), None);
    for step in [1000, 65_536, 300_001] {
        stream.seek(0).unwrap();
        let (mut at, mut buf) = (0, vec![0; step]);
        loop {
            let n = stream.read(&mut buf, limit()).unwrap();
            if n == 0 {
                break;
            }
            assert_eq!(data::mismatch(seed, at, &buf[..n]), None, "by {step}");
            at += n as u64;
        }
        assert_eq!(at, len);
    }
}

#[test]
fn files_of_every_checksum_type_and_chunk_size() {
    let rig = Rig::new(&[]);
    for (seed, (checksum, chunk)) in
        [("CRC32C", 512), ("CRC32", 512), ("CRC32C", 4096), ("CRC32", 128), ("NULL", 512)]
            .into_iter()
            .enumerate()
    {
        let seed = seed as u64;
        let path = rig.write(&WriteRequest {
            checksum: Some(checksum),
            bytes_per_checksum: Some(chunk),
            ..request(seed)
        });
        let stream = rig.open(&path);
        check(&stream, seed, LEN);
        let ranges =
            [(0, 1), (511, 3), (100, 5000), (BLOCK - 1, 2), (LEN - 10, 10), (77_777, 65_536)];
        let mut memory: Vec<Vec<u8>> = ranges.iter().map(|(_, n)| vec![0; *n]).collect();
        for ((offset, n), buf) in ranges.iter().zip(&mut memory) {
            assert_eq!(stream.pread(*offset, buf, limit()).unwrap(), *n);
            assert_eq!(data::mismatch(seed, *offset, buf), None, "{checksum} {chunk} {offset}");
            buf.fill(0);
        }
        let mut scattered: Vec<(u64, &mut [u8])> =
            ranges.iter().zip(&mut memory).map(|((at, _), m)| (*at, &mut m[..])).collect();
        stream.preadv(&mut scattered, limit()).unwrap();
        for (offset, buf) in &scattered {
            assert_eq!(data::mismatch(seed, *offset, buf), None, "{checksum} {chunk} {offset}");
        }
    }
    let stats = &rig.fs.read_context().stats;
    assert_eq!(stats.failovers.load(Ordering::Relaxed), 0);
    assert_eq!(stats.checksum_failures.load(Ordering::Relaxed), 0);
}

#[test]
fn connections_are_reused_and_expire_before_the_datanode_closes_them() {
    let rig = Rig::new(&[]);
    let path = rig.write(&request(20));
    let stream = rig.open(&path);
    let mut buf = vec![0; 4096];
    let mut preads = || {
        for i in 0..100 {
            let at = i * 31_337;
            stream.pread(at, &mut buf, limit()).unwrap();
            assert_eq!(data::mismatch(20, at, &buf), None);
        }
    };
    preads();
    let stats = &rig.fs.read_context().stats;
    let connects = stats.connects.load(Ordering::Relaxed);
    // One connection to each DataNode that is nearest for some block.
    assert!(connects <= 3, "{connects}");
    std::thread::sleep(Duration::from_millis(4500));
    preads();
    assert_eq!(stats.stale_peers.load(Ordering::Relaxed), 0);
    assert_eq!(stats.failovers.load(Ordering::Relaxed), 0);
    assert!(stats.connects.load(Ordering::Relaxed) <= 2 * connects);
}

#[test]
fn damaged_replicas_are_passed_over_and_reported() {
    let rig = Rig::new(&[]);
    let path = rig.write(&request(30));
    let locate = |offset, length| {
        rig.fs.metadata().unwrap().block_locations(&path, offset, length, limit()).unwrap()
    };
    let blocks = locate(0, LEN);
    assert_eq!(blocks.len(), 4);
    // The two nearest replicas of each block: a byte in the middle, a cut file, a missing file, a
    // byte of the last partial chunk.
    for (i, block) in blocks.iter().enumerate() {
        for place in &block.replicas[..2] {
            let node = rig.cluster.datanode_index(&place.address).unwrap();
            let all = rig.cluster.replicas_of(block.block_id as i64).unwrap();
            let (_, replica) = all.iter().find(|(index, _)| *index == node).unwrap();
            match i {
                0 => replica.corrupt_data(500_000).unwrap(),
                1 => replica.cut_data(300_000).unwrap(),
                2 => replica.delete().unwrap(),
                _ => replica.corrupt_data(12_344).unwrap(),
            }
        }
    }
    check(&rig.open(&path), 30, LEN);
    // The NameNode was told about the corrupt ones and hides them from then on; a read sees only
    // those that it comes by.
    let begin = Instant::now();
    while locate(0, 1)[0].replicas.len() > 1 {
        assert!(begin.elapsed() < Duration::from_secs(60), "{:?}", locate(0, 1));
        rig.open(&path).pread(0, &mut vec![0; BLOCK as usize], limit()).unwrap();
    }
    assert!(rig.fs.read_context().stats.checksum_failures.load(Ordering::Relaxed) >= 2);
    check(&rig.open(&path), 30, LEN);
}

#[test]
fn when_all_replicas_are_corrupt_nothing_wrong_is_delivered() {
    let rig = Rig::new(&[("dfs.client.retry.window.base", "10")]);
    let path = rig.write(&WriteRequest { length: 1000, ..request(40) });
    let id = rig.blocks(&path)[0];
    for (_, replica) in rig.cluster.replicas_of(id).unwrap() {
        replica.corrupt_data(999).unwrap();
    }
    let stream = rig.open(&path);
    let mut buf = [0; 1000];
    for error in [
        stream.pread(0, &mut buf, limit()).unwrap_err(),
        stream.pread(990, &mut buf, limit()).unwrap_err(),
        stream.read(&mut buf, limit()).unwrap_err(),
    ] {
        assert_eq!(error.status(), Status::BlockMissing);
        assert!(error.message().contains(&format!("blk_{id}_")), "{error}");
    }
    // The first chunk is good, and can be read.
    assert_eq!(stream.pread(0, &mut buf[..512], limit()).unwrap(), 512);
    assert_eq!(data::mismatch(40, 0, &buf[..512]), None);
}

#[test]
fn datanodes_that_die_or_freeze_during_a_read() {
    let rig = Rig::new(&[("dfs.client.socket-timeout", "3000")]);
    let path = rig.write(&request(50));
    let stream = rig.open(&path);
    let mut buf = vec![0; 10_000];
    assert_eq!(stream.read(&mut buf, limit()).unwrap(), 10_000);
    for index in 0..2 {
        if index == 0 {
            rig.cluster.kill_datanode(index).unwrap();
        } else {
            rig.cluster.stop_datanode(index).unwrap();
        }
        let begin = Instant::now();
        check(&stream, 50, LEN);
        check(&rig.open(&path), 50, LEN);
        // Whatever the order: some seconds for a frozen node per stream, not minutes.
        assert!(begin.elapsed() < Duration::from_secs(40), "{:?}", begin.elapsed());
    }
    rig.cluster.continue_datanode(1).unwrap();
    rig.cluster.restart_datanode(0).unwrap();
    rig.cluster.wait_live_datanodes(3, Duration::from_secs(60)).unwrap();
    check(&stream, 50, LEN);
}

#[test]
fn the_tail_of_a_file_that_java_writes() {
    let rig = Rig::new(&[]);
    let oracle = rig.cluster.oracle().unwrap();
    let request = |length| WriteRequest { length, seed: 60, ..request(60) };
    let handle = oracle.open("/read/tail", &request(0)).unwrap();
    let stream = rig.open("/read/tail");
    assert_eq!(stream.len(), 0);
    let mut at = 0;
    for step in [1, 100, 411, 1, 70_000, 900_000, 500_000, 3] {
        oracle.put(handle, &request(step)).unwrap();
        oracle.hflush(handle).unwrap();
        at += step;
        assert_eq!(stream.refresh(limit()).unwrap(), at);
        let mut all = vec![0; at as usize];
        assert_eq!(stream.pread(0, &mut all, limit()).unwrap() as u64, at);
        assert_eq!(data::mismatch(60, 0, &all), None);
        let from = stream.tell();
        let n = stream.read(&mut all, limit()).unwrap() as u64;
        assert_eq!(from + n, at);
        assert_eq!(data::mismatch(60, from, &all[..n as usize]), None);
        assert_eq!(rig.open("/read/tail").len(), at);
    }
    oracle.close(handle).unwrap();
    assert_eq!(stream.refresh(limit()).unwrap(), at);
    check(&stream, 60, at);
}

#[test]
fn hedged_and_vectored_reads_while_a_datanode_freezes_and_one_dies() {
    let rig = Rig::new(&[
        ("dfs.client.socket-timeout", "10000"),
        ("dfs.client.hedged.read.threadpool.size", "8"),
        ("dfs.client.hedged.read.threshold.millis", "60"),
    ]);
    let path = rig.write(&request(70));
    let stream = rig.open(&path);
    let place = |block: usize| {
        let blocks = rig.fs.metadata().unwrap().block_locations(&path, 0, LEN, limit()).unwrap();
        rig.cluster.datanode_index(&blocks[block].replicas[0].address).unwrap()
    };
    let mut buf = vec![0; 50_000];
    let mut preads = |stream: &InputStream, count: u64| {
        let mut worst = Duration::ZERO;
        for i in 0..count {
            let at = i * 777_773 % (LEN - 50_000);
            let begin = Instant::now();
            assert_eq!(stream.pread(at, &mut buf, limit()).unwrap(), 50_000);
            worst = worst.max(begin.elapsed());
            assert_eq!(data::mismatch(70, at, &buf), None);
        }
        worst
    };
    preads(&stream, 40);
    let frozen = place(0);
    rig.cluster.stop_datanode(frozen).unwrap();
    let worst = preads(&stream, 40);
    let again = preads(&rig.open(&path), 40);
    let stats = &rig.fs.read_context().stats;
    let wins = stats.hedged_wins.load(Ordering::Relaxed);
    // The connections that were there do not tell that their node is frozen.
    assert!(wins >= 1, "the nearest node of the first block is frozen");
    assert!(worst < Duration::from_secs(5) && again < Duration::from_secs(5), "{worst:?}");
    rig.cluster.continue_datanode(frozen).unwrap();

    // Ranges all over the file, while the node that serves some of them dies.
    let ranges: Vec<u64> = (0..12).map(|i| i * 260_000 % (LEN - 9_000)).collect();
    let vectored = |stream: &InputStream| {
        let mut memory: Vec<Vec<u8>> = ranges.iter().map(|_| vec![0; 9_000]).collect();
        let mut pieces: Vec<(u64, &mut [u8])> =
            ranges.iter().zip(&mut memory).map(|(at, m)| (*at, &mut m[..])).collect();
        let counts = stream.preadv(&mut pieces, limit()).unwrap();
        assert!(counts.iter().all(|n| *n == 9_000));
        for (at, memory) in ranges.iter().zip(&memory) {
            assert_eq!(data::mismatch(70, *at, memory), None, "{at}");
        }
    };
    vectored(&stream);
    let dead = place(1);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| (0..60).for_each(|_| vectored(&stream)));
        rig.cluster.kill_datanode(dead).unwrap();
        reader.join().unwrap();
    });
    vectored(&rig.open(&path));
    assert_eq!(rig.fs.stats().pool.in_use_bytes, 0);
    rig.cluster.restart_datanode(dead).unwrap();
    rig.cluster.wait_live_datanodes(3, Duration::from_secs(60)).unwrap();
}

#[test]
fn damaged_checksums_on_disk_are_passed_over_in_all_ways_of_reading() {
    for hedged in ["0", "4"] {
        let rig = Rig::new(&[("dfs.client.hedged.read.threadpool.size", hedged)]);
        let path = rig.write(&request(80));
        let blocks = rig.fs.metadata().unwrap().block_locations(&path, 0, LEN, limit()).unwrap();
        for block in &blocks {
            let good = rig.cluster.datanode_index(&block.replicas[0].address).unwrap();
            for (index, replica) in rig.cluster.replicas_of(block.block_id as i64).unwrap() {
                if index != good {
                    // Behind the header of 7 bytes: the checksum of the third chunk.
                    replica.corrupt_meta(7 + 2 * 4).unwrap();
                }
            }
        }
        // The NameNode names equally near replicas in any order.
        let failures = &rig.fs.read_context().stats.checksum_failures;
        for _ in 0..20 {
            check(&rig.open(&path), 80, LEN);
            if failures.load(Ordering::Relaxed) > 0 {
                break;
            }
        }
        assert!(failures.load(Ordering::Relaxed) >= 1, "hedged {hedged}");
    }
}
