//! What is measured.
use super::options::Options;
use crate::command::Command;

/// File that the reading scenarios read on the real cluster.
pub(super) const DATA_FILE: &str = "/bench/data";
/// Its counterpart on the sink.
const SINK_FILE: &str = "/virt/data";
/// Files that the Java client makes a round on real servers in `small`: each may take 400 ms.
const JAVA_SMALL_FILES: usize = 25;

/// Which servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Site {
    /// A Hadoop cluster: one NameNode, three DataNodes.
    Real,
    /// Acks without storing, zeros without reading.
    Sink,
}

/// The work of one command.
#[derive(Clone, Copy, Debug)]
pub(super) enum Work {
    Hflush {
        len: usize,
        n: usize,
        threads: usize,
        repl: u32,
    },
    Write {
        repl: u32,
    },
    Read,
    Pread {
        len: usize,
        n: usize,
        threads: usize,
    },
    /// See `ycsb.rs`; `cache` is the capacity of the connection cache, if not the default.
    Ycsb {
        n: usize,
        threads: usize,
        cache: Option<usize>,
    },
    Small {
        n: usize,
        repl: u32,
    },
    /// Threads append records to one log and wait until each is flushed.
    Commit {
        len: usize,
        n: usize,
        threads: usize,
        repl: u32,
    },
    /// One file of small blocks: the slowest flush of each block.
    Turn {
        blocks: usize,
        repl: u32,
    },
    /// A log that is replaced while it is written: the longest time without an ack at each change.
    Roll {
        n: usize,
        repl: u32,
    },
}

/// One scenario.
#[derive(Debug)]
pub(super) struct Scenario {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    pub(super) site: Site,
    /// Client and server share one CPU: on two, latencies depend on which the scheduler picks.
    pub(super) pinned: bool,
    pub(super) work: Work,
}

const fn real(name: &'static str, about: &'static str, work: Work) -> Scenario {
    Scenario { name, about, site: Site::Real, pinned: false, work }
}

const fn sink(name: &'static str, about: &'static str, pinned: bool, work: Work) -> Scenario {
    Scenario { name, about, site: Site::Sink, pinned, work }
}

const fn hflush(len: usize, threads: usize, repl: u32) -> Work {
    Work::Hflush { len, n: 10_000, threads, repl }
}

const fn pread(len: usize, n: usize, threads: usize) -> Work {
    Work::Pread { len, n, threads }
}

const fn ycsb(cache: Option<usize>) -> Work {
    Work::Ycsb { n: 20_000, threads: 40, cache }
}

/// Blocks of the file that the YCSB-like scenarios read, and their size, bytes.
const YCSB_BLOCKS: u64 = 1000;
const YCSB_BLOCK: u64 = 1 << 20;
/// That file.
const YCSB_FILE: &str = "/bench/ycsb";

const K4: usize = 4096;
const K64: usize = 65536;

/// Every scenario, in the order in which they run.
pub(super) static ALL: &[Scenario] = &[
    real("hflush-r1", "write 600 B + hflush, replication 1", hflush(600, 1, 1)),
    real("hflush-r1-8", "the same, 8 streams", hflush(600, 8, 1)),
    real("hflush-r3", "write 600 B + hflush, replication 3", hflush(600, 1, 3)),
    real("hflush-r3-8", "the same, 8 streams", hflush(600, 8, 3)),
    real(
        "write-r1",
        "1 GiB by 1 MiB writes, replication 1, close included",
        Work::Write { repl: 1 },
    ),
    real(
        "write-r3",
        "1 GiB by 1 MiB writes, replication 3, close included",
        Work::Write { repl: 3 },
    ),
    real("read", "1 GiB by 1 MiB reads", Work::Read),
    real("pread-4k-1", "random preads of 4 KiB, 1 thread", pread(K4, 5000, 1)),
    real("pread-4k-8", "random preads of 4 KiB, 8 threads", pread(K4, 10_000, 8)),
    real("pread-4k-40", "random preads of 4 KiB, 40 threads", pread(K4, 10_000, 40)),
    real("pread-64k-1", "random preads of 64 KiB, 1 thread", pread(K64, 3000, 1)),
    real("pread-64k-8", "random preads of 64 KiB, 8 threads", pread(K64, 6000, 8)),
    real("pread-64k-40", "random preads of 64 KiB, 40 threads", pread(K64, 6000, 40)),
    real(
        "ycsb",
        "40 threads, Zipf over 1,000 blocks, 90 % 64 KiB and 10 % 4 KiB, default caches",
        ycsb(None),
    ),
    real("ycsb-cache", "the same, room for 512 connections in every client", ycsb(Some(512))),
    real("ycsb-nocache", "the same, no connection is used twice", ycsb(Some(0))),
    real("small-r1", "create + 1 KiB + close, replication 1", Work::Small { n: 1000, repl: 1 }),
    real("small-r3", "create + 1 KiB + close, replication 3", Work::Small { n: 300, repl: 3 }),
    real(
        "commit-r1",
        "50 threads append 1 KiB to one log and wait for the flush, replication 1",
        Work::Commit { len: 1024, n: 50_000, threads: 50, repl: 1 },
    ),
    real(
        "commit-r3",
        "the same, replication 3",
        Work::Commit { len: 1024, n: 50_000, threads: 50, repl: 3 },
    ),
    real(
        "turn-r3",
        "slowest of the 30,000 B flushes of each 8 MiB block, replication 3",
        Work::Turn { blocks: 30, repl: 3 },
    ),
    real(
        "roll-r3",
        "longest gap between acks when a log of 700 B records is replaced, replication 3",
        Work::Roll { n: 50, repl: 3 },
    ),
    sink(
        "sink-hflush",
        "write 400 B + hflush, one CPU for client and sink",
        true,
        hflush(400, 1, 1),
    ),
    sink("sink-hflush-8", "write 400 B + hflush, 8 streams", false, hflush(400, 8, 1)),
    sink("sink-write", "1 GiB by 1 MiB writes", false, Work::Write { repl: 1 }),
    sink("sink-read", "1 GiB by 1 MiB reads", false, Work::Read),
    sink(
        "sink-pread-4k",
        "random preads of 4 KiB, one CPU for client and sink",
        true,
        pread(K4, 5000, 1),
    ),
    sink(
        "sink-pread-64k",
        "random preads of 64 KiB, one CPU for client and sink",
        true,
        pread(K64, 3000, 1),
    ),
    sink("sink-pread-4k-8", "random preads of 4 KiB, 8 threads", false, pread(K4, 20_000, 8)),
    sink("sink-small", "create + 1 KiB + close", false, Work::Small { n: 1000, repl: 1 }),
];

/// Writes the file that the YCSB-like scenarios read.
pub(super) fn write_ycsb() -> Command {
    Command::new("write")
        .with("path", YCSB_FILE)
        .with("length", YCSB_BLOCKS * YCSB_BLOCK)
        .with("buffer", 1 << 20)
        .with("replication", 1)
        .with("conf.dfs.blocksize", YCSB_BLOCK)
}

/// Writes a file of the size that is read and written sequentially.
pub(super) fn write(path: &str, options: &Options, replication: u32) -> Command {
    Command::new("write")
        .with("path", path)
        .with("length", options.file_bytes())
        .with("buffer", 1 << 20)
        .with("replication", replication)
}

impl Scenario {
    /// The command for a client in a round.
    pub(super) fn command(&self, options: &Options, client: &str, round: usize) -> Command {
        let path = format!("/bench/{client}/{}", self.name);
        let data = if self.site == Site::Sink { SINK_FILE } else { DATA_FILE };
        match self.work {
            Work::Hflush { len, n, threads, repl } => Command::new("hflush")
                .with("path", path)
                .with("count", options.count(n) / threads)
                .with("bytes", len)
                .with("streams", threads)
                .with("replication", repl),
            Work::Write { repl } => write(&path, options, repl),
            Work::Read => Command::new("read").with("path", data).with("buffer", 1 << 20),
            Work::Pread { len, n, threads } => Command::new("pread")
                .with("path", data)
                .with("count", options.count(n) / threads)
                .with("bytes", len)
                .with("threads", threads),
            Work::Commit { len, n, threads, repl } => Command::new("commit")
                .with("path", path)
                .with("count", (options.count(n) / threads).max(1))
                .with("bytes", len)
                .with("threads", threads)
                .with("replication", repl),
            Work::Turn { blocks, repl } => Command::new("turn")
                .with("path", path)
                .with("count", options.count(blocks).max(3))
                .with("bytes", 30_000)
                .with("blocksize", 8 << 20)
                .with("replication", repl),
            Work::Roll { n, repl } => Command::new("roll")
                .with("path", format!("{path}-{round}"))
                .with("count", options.count(n).max(3))
                .with("bytes", 700)
                .with("every", 500)
                .with("replication", repl),
            Work::Ycsb { n, threads, cache } => {
                let command = Command::new("ycsb")
                    .with("path", YCSB_FILE)
                    .with("count", options.count(n) / threads)
                    .with("threads", threads)
                    .with("blocks", YCSB_BLOCKS)
                    .with("block", YCSB_BLOCK);
                // Java's clients of one process share what belongs to a context, caches too.
                let command = command.with("conf.dfs.client.context", self.name);
                match cache {
                    Some(n) => command.with("conf.dfs.client.socketcache.capacity", n),
                    None => command,
                }
            }
            Work::Small { n, repl } => {
                let slow = self.site == Site::Real && client.starts_with("java");
                let n = if slow { n.min(JAVA_SMALL_FILES) } else { n };
                // New names each round: replacing a file costs more than making one.
                Command::new("create")
                    .with("path", format!("{path}-{round}"))
                    .with("count", options.count(n))
                    .with("bytes", 1024)
                    .with("replication", repl)
            }
        }
    }

    /// Whether a client can do this work.
    pub(super) fn suits(&self, client: &str) -> bool {
        let log = matches!(self.work, Work::Commit { .. } | Work::Turn { .. } | Work::Roll { .. });
        !(log && ["floor", "hdfs-native"].contains(&client))
    }

    /// Whether it reads the file of [`write_ycsb`].
    pub(super) fn is_ycsb(&self) -> bool {
        matches!(self.work, Work::Ycsb { .. })
    }

    /// Whether bytes per second matter, not operations.
    pub(super) fn is_bulk(&self) -> bool {
        matches!(self.work, Work::Write { .. } | Work::Read)
    }
}
