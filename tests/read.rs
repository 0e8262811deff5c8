//! Reads from minidfs, over real sockets and through the whole client, while replicas misbehave.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]
use dfs::client::file_system::{CreateOptions, FileSystem};
use dfs::conf::Config;
use dfs::error::{Result, Status};
use dfs::proto::hdfs::Status as DnStatus;
use dfs::read::{InputStream, ReadOptions};
use dfs::time::Deadline;
use dfs::write::SyncMode;
use dfs_testkit::minidfs::{BadHeader, Fault, MiniDfs, Op, Rule, Site};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

const BLOCK: usize = 256 << 10;

fn limit() -> Deadline {
    Deadline::after_ms(30_000)
}

fn pattern(len: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64 ^ len as u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    (0..len).map(|_| next()).collect()
}

struct Rig {
    mini: MiniDfs,
    fs: FileSystem,
    data: Vec<u8>,
}

impl Rig {
    /// A cluster of three DataNodes with one file on all of them.
    fn new(len: usize) -> Rig {
        Rig::with(len, Duration::from_secs(4), &[])
    }

    fn with(len: usize, keepalive: Duration, settings: &[(&str, &str)]) -> Rig {
        let mini = MiniDfs::builder().keepalive(keepalive).start().unwrap();
        let mut config = Config::new();
        config.set("dfs.client.retry.window.base", "10");
        for (key, value) in settings {
            config.set(key, value);
        }
        let fs = FileSystem::connect(&config, Some(&mini.uri()), limit()).unwrap();
        let options = CreateOptions { block_size: Some(BLOCK as u64), ..CreateOptions::default() };
        let data = pattern(len);
        let file = fs.create("/f", &options, limit()).unwrap();
        file.write(&data, limit()).unwrap();
        file.close(limit()).unwrap();
        // A closed file needs one reported replica of each block; these tests count on all.
        let begin = Instant::now();
        let all = || {
            let blocks = fs.metadata().unwrap().block_locations("/f", 0, 1 << 40, limit());
            blocks.unwrap().iter().all(|block| block.replicas.len() == 3)
        };
        while !all() {
            assert!(begin.elapsed() < Duration::from_secs(20), "replicas are not reported");
            std::thread::sleep(Duration::from_millis(1));
        }
        Rig { mini, fs, data }
    }

    fn open(&self) -> InputStream {
        self.fs.open("/f", ReadOptions::default(), limit()).unwrap()
    }

    fn read_all(&self, step: usize) -> Result<Vec<u8>> {
        let stream = self.open();
        let (mut out, mut buf) = (Vec::new(), vec![0; step]);
        loop {
            match stream.read(&mut buf, limit())? {
                0 => return Ok(out),
                n => out.extend_from_slice(&buf[..n]),
            }
        }
    }

    fn pread_all(&self) -> Result<Vec<u8>> {
        let mut buf = vec![0; self.data.len()];
        let n = self.open().pread(0, &mut buf, limit())?;
        buf.truncate(n);
        Ok(buf)
    }

    fn check(&self, what: &str) {
        assert!(self.pread_all().unwrap() == self.data, "pread, {what}");
        assert!(self.read_all(5000).unwrap() == self.data, "read, {what}");
        assert!(self.read_all(1 << 20).unwrap() == self.data, "large read, {what}");
    }

    fn reports(&self) -> u64 {
        self.mini.call_count("reportBadBlocks")
    }
}

#[test]
fn faults_of_a_replica_never_reach_the_caller() {
    let mut rig = Rig::new(3 * BLOCK + 1000);
    let sent = |fault: Fault| Rule::new(Site::PacketSent, fault);
    let header = |bad: BadHeader| sent(Fault::ReadHeader(bad));
    let read = |fault: Fault| Rule::new(Site::Op(Op::Read), fault);
    let refuse = |status| Fault::Refuse { status, message: "scripted".into() };
    let cut = |sent| Fault::CutAfter { received: None, sent: Some(sent) };
    let rules = [
        sent(Fault::CorruptData(700)),
        sent(Fault::CorruptData(700)).skip(2),
        sent(Fault::CorruptChecksum).skip(1),
        sent(Fault::Close),
        sent(Fault::Close).skip(3),
        sent(Fault::EndEarly),
        sent(Fault::EndEarly).skip(2),
        header(BadHeader::Oversized),
        header(BadHeader::Negative),
        header(BadHeader::Garbage),
        header(BadHeader::Seqno).skip(1),
        header(BadHeader::Offset),
        header(BadHeader::Offset).skip(2),
        header(BadHeader::DataLen),
        read(Fault::Close),
        read(refuse(DnStatus::Error)),
        read(refuse(DnStatus::ErrorInvalid)),
        read(Fault::access_token()),
        read(cut(10)),
        read(cut(100)),
        read(cut(100_000)),
    ];
    let mut reports = 0;
    for rule in rules {
        for reader in 0..3 {
            let handle = rig.mini.faults().add(rule.clone().times(2));
            let got = match reader {
                0 => rig.pread_all(),
                1 => rig.read_all(5000),
                _ => rig.read_all(1 << 20),
            };
            assert!(got.unwrap() == rig.data, "{rule:?}");
            assert!(handle.fired() > 0, "{rule:?}");
            rig.mini.faults().clear();
            if rig.reports() > 0 {
                reports += rig.reports();
                // The NameNode hides reported replicas from now on.
                rig = Rig::new(3 * BLOCK + 1000);
            }
        }
    }
    assert!(reports >= 9, "three rules, three readers: {reports}");
}

#[test]
fn replicas_that_are_bad_on_disk() {
    let rig = Rig::new(BLOCK + 300);
    let ids = rig.mini.block_ids("/f");
    let nodes = rig.mini.datanodes();
    // Two of three replicas of each block: a flipped bit, in the partial last chunk too.
    for (id, offset) in [(ids[0], 70_000), (ids[1], 299)] {
        nodes[0].corrupt_data(id, offset).unwrap();
        nodes[1].corrupt_data(id, offset).unwrap();
    }
    rig.check("two corrupt replicas");
    let rig = Rig::new(2 * BLOCK);
    let ids = rig.mini.block_ids("/f");
    let nodes = rig.mini.datanodes();
    nodes[0].truncate_replica(ids[0], 100_000).unwrap();
    nodes[1].delete_replica(ids[0]).unwrap();
    nodes[2].set_generation_stamp(ids[1], 1).unwrap();
    nodes[1].corrupt_meta(ids[1], 300).unwrap();
    rig.check("short, missing, stale and corrupt replicas");
}

#[test]
fn when_every_replica_is_bad_the_error_says_what_was_tried() {
    let rig = Rig::new(BLOCK);
    let id = rig.mini.block_ids("/f")[0];
    for node in rig.mini.datanodes() {
        node.corrupt_data(id, 100_000).unwrap();
    }
    let error = rig.pread_all().unwrap_err();
    assert_eq!(error.status(), Status::BlockMissing);
    for node in rig.mini.datanodes() {
        assert!(error.message().contains(&node.xfer_addr()), "{error}");
    }
    assert!(error.message().contains(&format!("blk_{id}_")), "{error}");
    assert_eq!(rig.reports(), 0, "probably our own fault");
    // What is good is delivered up to the bad chunk's packet.
    let stream = rig.open();
    let mut buf = vec![0; BLOCK];
    let n = stream.read(&mut buf, limit()).unwrap();
    assert!((1..=100_000).contains(&n) && buf[..n] == rig.data[..n], "{n}");
    assert_eq!(stream.read(&mut buf, limit()).unwrap_err().status(), Status::BlockMissing);

    let rig = Rig::new(BLOCK);
    rig.mini.datanodes().iter().for_each(|node| {
        node.kill();
    });
    let error = rig.pread_all().unwrap_err();
    assert_eq!(error.status(), Status::BlockMissing);
    assert!(error.is_retriable() && error.message().contains("connecting"), "{error}");
    rig.mini.datanodes()[2].restart().unwrap();
    rig.check("one node came back");
}

#[test]
fn a_killed_and_a_silent_node() {
    let rig = Rig::with(4 * BLOCK, Duration::from_secs(4), &[("dfs.client.socket-timeout", "300")]);
    let kill = rig.mini.faults().add(Rule::new(Site::PacketSent, Fault::KillNode).skip(2));
    assert!(rig.read_all(5000).unwrap() == rig.data);
    assert_eq!(kill.fired(), 1);
    let pause = rig.mini.faults().add(Rule::new(Site::PacketSent, Fault::PauseNode).skip(2));
    let begin = Instant::now();
    assert!(rig.read_all(5000).unwrap() == rig.data);
    assert_eq!(pause.fired(), 1);
    assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", begin.elapsed());
    rig.mini.datanodes().iter().for_each(|node| node.resume());
}

#[test]
fn connections_are_reused_and_stale_ones_forgiven() {
    let rig = Rig::new(BLOCK);
    let accepted = || rig.mini.datanodes().iter().map(|n| n.accepted_connections()).sum::<u64>();
    let stream = rig.open();
    let mut buf = [0; 4096];
    stream.pread(0, &mut buf, limit()).unwrap();
    let before = accepted();
    for i in 0..200 {
        let at = i * 1000;
        stream.pread(at as u64, &mut buf, limit()).unwrap();
        assert!(buf[..] == rig.data[at..at + 4096]);
    }
    assert_eq!(accepted(), before);
    let verified: u64 = rig.mini.datanodes().iter().map(|n| n.verified_reads()).sum();
    assert!(verified >= 200, "CHECKSUM_OK was sent: {verified}");

    // DataNodes that close earlier than we expire: no failover, no error.
    let rig = Rig::with(BLOCK, Duration::from_millis(20), &[]);
    let stream = rig.open();
    for i in 0..10 {
        stream.pread(i * 100, &mut buf, limit()).unwrap();
        std::thread::sleep(Duration::from_millis(if i % 2 == 0 { 60 } else { 19 }));
    }
    let stats = &rig.fs.read_context().stats;
    assert_eq!(stats.failovers.load(Ordering::Relaxed), 0);
    let cache = rig.fs.read_context().peers.stats();
    assert!(cache.stale + stats.stale_peers.load(Ordering::Relaxed) >= 4, "{cache:?}");
    // And all connections cut at once, between two reads.
    for node in rig.mini.datanodes() {
        node.drop_connections();
    }
    stream.pread(0, &mut buf, limit()).unwrap();
    assert_eq!(stats.failovers.load(Ordering::Relaxed), 0);
}

#[test]
fn the_tail_of_a_file_that_is_written() {
    let rig = Rig::new(10);
    let options = CreateOptions { block_size: Some(BLOCK as u64), ..CreateOptions::default() };
    let data = pattern(3 * BLOCK);
    let writer = rig.fs.create("/tail", &options, limit()).unwrap();
    let reader = rig.fs.open("/tail", ReadOptions::default(), limit()).unwrap();
    assert_eq!(reader.len(), 0);
    let (mut at, mut got) = (0, Vec::new());
    let mut buf = vec![0; 50_000];
    for step in [1, 511, 1, 70_000, 100_000, 100_000, 3, 300_000, 65_536].iter().cycle().take(12) {
        let end = (at + step).min(data.len());
        writer.write(&data[at..end], limit()).unwrap();
        writer.flush(SyncMode::default(), limit()).unwrap();
        at = end;
        assert_eq!(reader.refresh(limit()).unwrap(), at as u64);
        loop {
            let n = reader.read(&mut buf, limit()).unwrap();
            if n == 0 {
                break;
            }
            got.extend_from_slice(&buf[..n]);
        }
        assert_eq!(got.len(), at);
        let fresh = rig.fs.open("/tail", ReadOptions::default(), limit()).unwrap();
        assert_eq!(fresh.len(), at as u64);
        let from = at.saturating_sub(1000);
        let n = fresh.pread(from as u64, &mut buf, limit()).unwrap();
        assert!(buf[..n] == data[from..at], "the last bytes at {at}");
    }
    assert!(got == data[..at]);
    writer.close(limit()).unwrap();
    assert_eq!(reader.refresh(limit()).unwrap(), at as u64);
    let mut all = vec![0; at];
    reader.pread(0, &mut all, limit()).unwrap();
    assert!(all == data[..at]);
}

#[test]
fn what_cannot_be_opened() {
    let rig = Rig::new(10);
    let open = |path: &str| rig.fs.open(path, ReadOptions::default(), limit()).err().unwrap();
    let error = open("/missing");
    assert_eq!(error.status(), Status::NotFound);
    assert!(error.message().contains("/missing"), "{error}");
    rig.fs.metadata().unwrap().mkdir("/dir", 0o755, true, limit()).unwrap();
    let error = open("/dir");
    assert_eq!(error.status(), Status::IsDirectory);
    assert!(error.message().contains("path is a directory"), "{error}");
    let stream = rig.open();
    rig.fs.metadata().unwrap().delete("/f", false, limit()).unwrap();
    rig.mini.datanodes().iter().for_each(|node| {
        node.kill();
    });
    let error = stream.pread(0, &mut [0; 10], limit()).unwrap_err();
    assert_eq!(error.status(), Status::NotFound, "{error}");
}

#[test]
fn many_threads_on_one_stream() {
    let rig = Rig::new(4 * BLOCK);
    let stream = rig.open();
    let sent = |fault| Rule::new(Site::PacketSent, fault).times(10);
    rig.mini.faults().add(sent(Fault::Close));
    // Of one node only: a block that is corrupt everywhere cannot be read.
    rig.mini.faults().add(sent(Fault::CorruptData(9)).on(0).skip(10));
    rig.mini.faults().add(sent(Fault::Delay(Duration::from_millis(5))).skip(80));
    std::thread::scope(|scope| {
        for t in 0..8_usize {
            let (rig, stream) = (&rig, &stream);
            scope.spawn(move || {
                let mut buf = vec![0; 20_000];
                for i in 0..60_usize {
                    let at = (t * 131_071 + i * 77_773) % (4 * BLOCK - 20_000);
                    let n = stream.pread(at as u64, &mut buf, limit()).unwrap();
                    assert!(n == 20_000 && buf == rig.data[at..at + n]);
                }
            });
        }
    });
}

/// A file of `len` bytes at `path`.
fn put(rig: &Rig, path: &str, data: &[u8]) {
    let options = CreateOptions {
        block_size: Some(BLOCK as u64),
        overwrite: true,
        ..CreateOptions::default()
    };
    let file = rig.fs.create(path, &options, limit()).unwrap();
    file.write(data, limit()).unwrap();
    file.close(limit()).unwrap();
}

/// All replicas of the file's blocks that the NameNode knows.
fn drop_replicas(rig: &Rig, path: &str) {
    for id in rig.mini.block_ids(path) {
        rig.mini.datanodes().iter().for_each(|node| {
            node.delete_replica(id).unwrap();
        });
    }
}

#[test]
fn a_file_that_is_replaced_deleted_or_truncated_while_it_is_open() {
    // Replaced: its blocks are gone, and others are at their place.
    let rig = Rig::new(2 * BLOCK);
    let stream = rig.open();
    let mut buf = vec![0; 2 * BLOCK];
    stream.pread(0, &mut buf, limit()).unwrap();
    drop_replicas(&rig, "/f");
    put(&rig, "/f", &pattern(3000));
    let error = stream.pread(0, &mut buf, limit()).unwrap_err();
    assert!(error.message().starts_with("Blocklist for /f has changed"), "{error}");
    let error = stream.refresh(limit()).unwrap_err();
    assert!(error.message().starts_with("Blocklist for /f has changed"), "{error}");
    let fresh = rig.fs.open("/f", ReadOptions::default(), limit()).unwrap();
    assert_eq!(fresh.pread(0, &mut buf, limit()).unwrap(), 3000);
    assert!(buf[..3000] == pattern(3000));

    // Deleted: readable while the replicas are there, as in HDFS; then the error says so.
    let rig = Rig::new(BLOCK);
    let stream = rig.open();
    let ids = rig.mini.block_ids("/f");
    stream.pread(0, &mut buf, limit()).unwrap();
    rig.fs.metadata().unwrap().delete("/f", false, limit()).unwrap();
    for node in rig.mini.datanodes() {
        let _gone_already = node.delete_replica(ids[0]);
    }
    let error = stream.pread(0, &mut buf, limit()).unwrap_err();
    assert_eq!(error.status(), Status::NotFound, "{error}");
    assert!(error.message().contains("/f"), "{error}");

    // Truncated at a block: the handle sees it when it asks, and reads what is left.
    let rig = Rig::new(2 * BLOCK);
    let stream = rig.open();
    assert!(rig.fs.metadata().unwrap().truncate("/f", BLOCK as u64, limit()).unwrap());
    assert_eq!(stream.refresh(limit()).unwrap(), BLOCK as u64);
    assert_eq!(stream.pread(0, &mut buf, limit()).unwrap(), BLOCK);
    assert!(buf[..BLOCK] == rig.data[..BLOCK]);
    assert_eq!(stream.pread(BLOCK as u64, &mut buf, limit()).unwrap(), 0);
}

#[test]
fn a_file_that_is_appended_to_while_it_is_open() {
    let rig = Rig::new(BLOCK + 1000);
    let stream = rig.open();
    let mut buf = vec![0; 3 * BLOCK];
    stream.pread(0, &mut buf, limit()).unwrap();
    let more = pattern(BLOCK + 77);
    let file = rig.fs.append("/f", false, &CreateOptions::default(), limit()).unwrap();
    file.write(&more, limit()).unwrap();
    file.flush(SyncMode::default(), limit()).unwrap();
    // The old bytes, of a block whose generation stamp has risen, and the new ones.
    assert_eq!(stream.pread(0, &mut buf, limit()).unwrap(), BLOCK + 1000);
    assert!(buf[..BLOCK + 1000] == rig.data);
    assert_eq!(stream.refresh(limit()).unwrap() as usize, rig.data.len() + more.len());
    let whole = [&rig.data[..], &more].concat();
    assert_eq!(stream.pread(0, &mut buf, limit()).unwrap(), whole.len());
    assert!(buf[..whole.len()] == whole);
    file.close(limit()).unwrap();
    assert_eq!(stream.pread(0, &mut buf, limit()).unwrap(), whole.len());
    assert!(buf[..whole.len()] == whole);
}

#[test]
fn a_file_whose_writer_is_gone_is_read_during_and_after_its_recovery() {
    let rig = Rig::new(10);
    let options = CreateOptions { block_size: Some(BLOCK as u64), ..CreateOptions::default() };
    let data = pattern(BLOCK + 5000);
    let writer = rig.fs.create("/lost", &options, limit()).unwrap();
    writer.write(&data, limit()).unwrap();
    writer.flush(SyncMode::default(), limit()).unwrap();
    drop(writer);
    let reader = rig.fs.open("/lost", ReadOptions::default(), limit()).unwrap();
    let mut buf = vec![0; data.len()];
    let meta = rig.fs.metadata().unwrap();
    let begin = Instant::now();
    loop {
        // Replicas under recovery may refuse for a moment, never lie.
        match reader.pread(0, &mut buf, limit()) {
            Ok(n) => assert!(n == data.len() && buf == data),
            Err(e) => assert_eq!(e.status(), Status::BlockMissing, "{e}"),
        }
        if meta.recover_lease("/lost", limit()).unwrap() {
            break;
        }
        assert!(begin.elapsed() < Duration::from_secs(20));
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(reader.refresh(limit()).unwrap(), data.len() as u64);
    assert_eq!(reader.pread(0, &mut buf, limit()).unwrap(), data.len());
    assert!(buf == data);
}

#[test]
fn hedged_reads_cut_the_tail() {
    let late = Duration::from_millis(200);
    let mut counts = Vec::new();
    for pool in ["0", "8"] {
        let rig = Rig::with(
            4 * BLOCK,
            Duration::from_secs(4),
            &[
                ("dfs.client.hedged.read.threadpool.size", pool),
                ("dfs.client.hedged.read.threshold.millis", "15"),
                ("libdfs.read.order.by.latency", "false"),
            ],
        );
        // Every DataNode is late now and then, so that nobody can be avoided.
        for node in 0..3 {
            for i in 0..4 {
                let rule = Rule::new(Site::Op(Op::Read), Fault::Delay(late)).on(node);
                rig.mini.faults().add(rule.skip(10 + 20 * i));
            }
        }
        let stream = rig.open();
        let mut buf = vec![0; 4096];
        let mut slow = 0;
        for i in 0..150_usize {
            let at = (i * 77_773) % (4 * BLOCK - 4096);
            let begin = Instant::now();
            stream.pread(at as u64, &mut buf, limit()).unwrap();
            slow += usize::from(begin.elapsed() >= late);
            assert!(buf[..] == rig.data[at..at + 4096]);
        }
        let stats = &rig.fs.read_context().stats;
        let hedges = stats.hedged_reads.load(Ordering::Relaxed);
        let wins = stats.hedged_wins.load(Ordering::Relaxed);
        if pool == "0" {
            assert_eq!((hedges, wins), (0, 0));
        } else {
            assert!(hedges >= 1 && wins >= 1, "{hedges} hedges, {wins} wins");
        }
        counts.push(slow);
    }
    // Two nodes may be late at once, but rarely are.
    assert!(counts[0] >= 4 && counts[1] * 2 <= counts[0], "{counts:?}");
}

#[test]
fn what_must_not_be_read_is_refused_by_name() {
    let hook = |_user: &str, method: &str, path: &str| {
        !(method == "getBlockLocations" && path == "/secret")
    };
    let builder = MiniDfs::builder();
    let mini = builder.configure(|c| c.permission_hook = Some(std::sync::Arc::new(hook)));
    let mini = mini.start().unwrap();
    let fs = FileSystem::connect(&Config::new(), Some(&mini.uri()), limit()).unwrap();
    let file = fs.create("/secret", &CreateOptions::default(), limit()).unwrap();
    file.write(b"x", limit()).unwrap();
    file.close(limit()).unwrap();
    let error = fs.open("/secret", ReadOptions::default(), limit()).err().unwrap();
    assert_eq!(error.status(), Status::Permission, "{error}");
    assert!(error.message().contains("/secret"), "{error}");
}
