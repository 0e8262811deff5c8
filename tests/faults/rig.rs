//! A small cluster with short time limits, and files whose every byte is known.
use dfs::client::file_system::{CreateOptions, FileSystem};
use dfs::conf::Config;
use dfs::error::{Error, Result, Status};
use dfs::read::ReadOptions;
use dfs::time::Deadline;
use dfs::write::{OutputStream, SyncMode};
use dfs_testkit::data;
use dfs_testkit::minidfs::{Builder, DataNode, MiniDfs, ReplicaState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

pub(crate) const FLUSH: SyncMode = SyncMode { sync: false, update_length: false, end_block: false };
pub(crate) const HSYNC: SyncMode = SyncMode { sync: true, ..FLUSH };

/// `dfs.client.socket-timeout` of the tests, ms, on both sides, and what each hop adds.
pub(crate) const SOCKET_MS: u64 = 800;
pub(crate) const HOP_MS: u64 = 300;
/// What scheduling on a busy machine may add to a limit.
const SLACK: Duration = Duration::from_millis(1500);

/// The limit of calls that should need none.
pub(crate) fn ample() -> Deadline {
    Deadline::after(Duration::from_secs(30))
}

pub(crate) fn ms(ms: u64) -> Deadline {
    Deadline::after_ms(ms)
}

/// Runs a call and checks that it came back within `limit_ms`.
pub(crate) fn timed<T>(limit_ms: u64, call: impl FnOnce(Deadline) -> T) -> T {
    let started = Instant::now();
    let result = call(Deadline::after_ms(limit_ms));
    let took = started.elapsed();
    assert!(
        took <= Duration::from_millis(limit_ms) + SLACK,
        "a call of {limit_ms} ms took {took:?}"
    );
    result
}

/// A cluster with short limits, to be changed further. With `DFS_LOG` set, the client's log goes to
/// standard error.
pub(crate) fn cluster(nodes: usize) -> Builder {
    if std::env::var_os("DFS_LOG").is_some() {
        let sink = |level, line: &str| eprintln!("{level:?} {line}");
        dfs::log::set_sink(Some(Box::new(sink)), 4);
    }
    MiniDfs::builder().datanodes(nodes).replication(3).block_size(1 << 20).configure(|c| {
        c.socket_timeout = Duration::from_millis(SOCKET_MS);
        c.hop_timeout = Duration::from_millis(HOP_MS);
        c.idle_timeout = Some(Duration::from_secs(30));
        c.checksum_error_delay = Duration::from_millis(50);
        c.oob_close_delay = Duration::from_millis(50);
        c.command_delay = Duration::from_millis(1);
    })
}

pub(crate) struct Rig {
    pub(crate) mini: MiniDfs,
    pub(crate) fs: FileSystem,
}

/// A file of known bytes being written.
pub(crate) struct Log {
    pub(crate) file: OutputStream,
    seed: u64,
    /// Bytes that `write` accepted.
    pub(crate) len: u64,
}

impl Rig {
    /// Some DataNodes; a pipeline goes on with what is left.
    pub(crate) fn new(nodes: usize) -> Rig {
        Rig::with(nodes, &[("dfs.client.block.write.replace-datanode-on-failure.policy", "NEVER")])
    }

    pub(crate) fn with(nodes: usize, settings: &[(&str, &str)]) -> Rig {
        Rig::of(cluster(nodes), settings)
    }

    /// Limits inside that no test waits for: only the caller's count.
    pub(crate) fn patient(nodes: usize) -> Rig {
        let minute = Duration::from_secs(60);
        let settings = [
            ("dfs.client.socket-timeout", "60000"),
            ("dfs.client.block.write.replace-datanode-on-failure.policy", "NEVER"),
        ];
        Rig::of(cluster(nodes).configure(|c| c.socket_timeout = minute), &settings)
    }

    pub(crate) fn of(builder: Builder, settings: &[(&str, &str)]) -> Rig {
        let mini = builder.start().expect("minidfs starts");
        let fs = client(&mini, settings);
        Rig { mini, fs }
    }

    pub(crate) fn create(&self) -> Log {
        self.create_with(&CreateOptions::default())
    }

    pub(crate) fn create_with(&self, options: &CreateOptions) -> Log {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let seed = NEXT.fetch_add(1, Ordering::Relaxed);
        let options = CreateOptions { create_parents: true, overwrite: true, ..options.clone() };
        let file = self.fs.create(&format!("/faults/{seed}"), &options, ample()).expect("create");
        Log { file, seed, len: 0 }
    }

    /// Waits until the NameNode knows all replicas of a closed log: an append uses those only.
    pub(crate) fn wait_reported(&self, closed: &Log, replicas: usize) {
        let meta = self.fs.metadata().unwrap();
        wait_for("block reports", || {
            let blocks = meta.block_locations(closed.file.path(), 0, 1 << 40, ample()).unwrap();
            blocks.iter().all(|b| b.replicas.len() >= replicas)
        });
    }

    /// Opens a closed log for append.
    pub(crate) fn reopen(&self, closed: &Log) -> Log {
        self.reopen_at(closed, closed.len)
    }

    /// Opens for append a log that ends at `len`.
    pub(crate) fn reopen_at(&self, closed: &Log, len: u64) -> Log {
        let path = closed.file.path();
        let file = self.fs.append(path, false, &CreateOptions::default(), ample()).expect("append");
        assert_eq!(file.pos(), len);
        Log { file, seed: closed.seed, len }
    }

    /// Index in the cluster of the DataNode at a position of the pipeline.
    pub(crate) fn index_of(&self, log: &Log, position: usize) -> usize {
        let name = &log.file.pipeline()[position];
        let found = self.mini.datanodes().iter().find(|d| d.xfer_addr() == *name);
        found.expect("a node of the cluster").index()
    }

    pub(crate) fn node(&self, index: usize) -> &DataNode {
        self.mini.datanode(index).expect("a node")
    }

    /// `host:port` of a DataNode.
    pub(crate) fn name(&self, index: usize) -> String {
        self.node(index).xfer_addr()
    }

    /// Every DataNode of the pipeline holds every acknowledged byte, and a reader sees them.
    pub(crate) fn check_acked(&self, log: &Log) {
        let path = log.file.path();
        let durable = log.file.durable();
        assert!(durable <= log.len);
        let ids = self.mini.block_ids(path);
        let pipeline = log.file.pipeline();
        let mut at = 0;
        for (i, id) in ids.iter().enumerate() {
            let (_, len, complete) = self.mini.block_state(*id).expect("a known block");
            let last = i + 1 == ids.len();
            let want = if last && !complete { durable - at } else { len.min(durable - at) };
            let expected = data::bytes(log.seed, at, want as usize);
            if !complete && !pipeline.is_empty() {
                for name in &pipeline {
                    self.wait_replica(name, *id, &expected);
                }
            }
            at += want;
        }
        assert_eq!(at, durable, "blocks of {path} hold fewer bytes than acknowledged");
        let read = self.read(path);
        assert!(read.len() as u64 >= durable, "a reader sees {} of {durable} bytes", read.len());
        assert!(read.len() as u64 <= log.len, "a reader sees bytes that were never written");
        assert_eq!(data::mismatch(log.seed, 0, &read), None);
    }

    /// A DataNode may ack before its disk write.
    fn wait_replica(&self, name: &str, id: u64, expected: &[u8]) {
        let node = self.mini.datanodes().iter().find(|d| d.xfer_addr() == *name).unwrap();
        let has = || {
            node.replica(id).is_some_and(|r| {
                r.acked >= expected.len() as u64 && r.bytes.get(..expected.len()) == Some(expected)
            })
        };
        wait_for(&format!("{} acked bytes of block {id} on {name}", expected.len()), has);
    }

    /// A closed file: exactly the written bytes, in every replica that counts (at least `replicas`
    /// of each block), and for a reader.
    pub(crate) fn check_closed(&self, log: &Log, replicas: usize) {
        let path = log.file.path();
        let status = self.fs.metadata().unwrap().stat(path, ample()).expect("stat");
        assert_eq!(status.length, log.len, "length of {path}");
        let mut at = 0;
        for id in self.mini.block_ids(path) {
            let (stamp, len, complete) = self.mini.block_state(id).unwrap();
            assert!(complete, "block {id} of {path} is not complete");
            let expected = data::bytes(log.seed, at, len as usize);
            let found = || {
                let all = self.mini.datanodes().iter().filter_map(|d| d.replica(id));
                let all = all.map(|r| (r.datanode, r.generation_stamp, r.state, r.length, r.acked));
                format!("{replicas} replicas of block {id}_{stamp}: {:?}", all.collect::<Vec<_>>())
            };
            wait_until(found, || {
                let all = self.mini.datanodes().iter().filter_map(|d| d.replica(id));
                let good = all
                    .filter(|r| r.state == ReplicaState::Finalized && r.generation_stamp == stamp);
                let mut count = 0;
                for replica in good {
                    assert!(replica.bytes == expected, "a replica of block {id} differs");
                    count += 1;
                }
                count >= replicas
            });
            at += len;
        }
        assert_eq!(at, log.len, "blocks of {path}");
        let read = self.read(path);
        assert_eq!(read.len() as u64, log.len);
        assert_eq!(data::mismatch(log.seed, 0, &read), None);
    }

    pub(crate) fn read(&self, path: &str) -> Vec<u8> {
        read_all(&self.fs, path)
    }

    /// Has the NameNode close a file that its writer gave up; everything acknowledged is there.
    pub(crate) fn recover(&self, log: &Log) {
        let path = log.file.path();
        let meta = self.fs.metadata().unwrap();
        wait_for("lease recovery", || meta.recover_lease(path, ample()).unwrap_or(false));
        let read = self.read(path);
        let durable = log.file.durable();
        assert!(read.len() as u64 >= durable, "{} of {durable} acknowledged bytes", read.len());
        assert!(read.len() as u64 <= log.len, "bytes that were never written");
        assert_eq!(data::mismatch(log.seed, 0, &read), None);
    }

    /// The end of a test: no buffer is held, no connection to a DataNode stays open.
    pub(crate) fn check_leaks(&self) {
        assert_eq!(self.fs.stats().open_writers, 0, "leases that are still renewed");
        wait_for("buffers of the pool to come back", || self.fs.stats().pool.in_use_bytes == 0);
        self.fs.close();
        for node in self.mini.datanodes() {
            if node.is_running() {
                node.resume();
            }
        }
        let open = || {
            let all = self.mini.datanodes().iter().map(|d| (d.is_running(), d.open_connections()));
            format!("connections to end: {:?}", all.collect::<Vec<_>>())
        };
        wait_until(open, || {
            self.mini.datanodes().iter().all(|d| !d.is_running() || d.open_connections() == 0)
        });
    }

    /// Closes, checks everything, and that nothing leaks.
    pub(crate) fn finish(&self, log: Log, replicas: usize) {
        log.file.close(ample()).expect("close");
        self.check_closed(&log, replicas);
        drop(log);
        self.check_leaks();
    }
}

impl Log {
    /// Of its bytes, see [`data`].
    pub(crate) fn seed(&self) -> u64 {
        self.seed
    }

    pub(crate) fn write(&mut self, len: usize) -> Result<()> {
        self.write_within(len, ample())
    }

    /// Writes the next bytes; after an error counts what was accepted.
    pub(crate) fn write_within(&mut self, len: usize, deadline: Deadline) -> Result<()> {
        let bytes = self.next(len);
        self.write_bytes(&bytes, deadline)
    }

    /// The bytes to write next.
    pub(crate) fn next(&self, len: usize) -> Vec<u8> {
        data::bytes(self.seed, self.len, len)
    }

    /// Writes what [`Log::next`] gave.
    pub(crate) fn write_bytes(&mut self, bytes: &[u8], deadline: Deadline) -> Result<()> {
        let result = self.file.write(bytes, deadline);
        self.len = self.file.pos();
        result
    }

    pub(crate) fn flush(&self) -> Result<()> {
        self.file.flush(FLUSH, ample())
    }

    /// Writes and flushes; everything is then acknowledged.
    pub(crate) fn record(&mut self, len: usize) -> Result<()> {
        self.write(len)?;
        self.flush()?;
        assert_eq!(self.file.durable(), self.len);
        Ok(())
    }

    /// Checks that the file is broken for good, in the same way for every call.
    pub(crate) fn check_broken(&mut self, error: &Error) {
        assert!(error.is_fatal() && !error.is_retriable(), "{error:?}");
        assert_eq!(error.durable_bytes(), Some(self.file.durable()), "{error:?}");
        let again = [
            self.write(10).unwrap_err(),
            self.write(100_000).unwrap_err(),
            self.flush().unwrap_err(),
            self.file.close(ample()).unwrap_err(),
            self.file.close(ample()).unwrap_err(),
            self.flush().unwrap_err(),
        ];
        for e in again {
            assert_eq!((e.status(), e.message()), (error.status(), error.message()));
        }
    }
}

pub(crate) fn client(mini: &MiniDfs, settings: &[(&str, &str)]) -> FileSystem {
    let mut config = Config::new();
    config.set("dfs.client.socket-timeout", &SOCKET_MS.to_string());
    config.set("libdfs.pipeline.hop.timeout.ms", &HOP_MS.to_string());
    config.set("dfs.client.datanode-restart.timeout", "4s");
    config.set("dfs.client.retry.window.base", "50");
    config.set("dfs.client.retry.interval-ms.get-last-block-length", "50");
    for (key, value) in settings {
        config.set(key, value);
    }
    FileSystem::connect(&config, Some(&mini.uri()), ample()).expect("connecting")
}

pub(crate) fn read_all(fs: &FileSystem, path: &str) -> Vec<u8> {
    let file = fs.open(path, ReadOptions::default(), ample()).expect("open");
    let mut all = vec![0; file.len() as usize + 1];
    let n = file.pread(0, &mut all, ample()).expect("read");
    all.truncate(n);
    all
}

/// Waits for something that other threads bring about.
pub(crate) fn wait_for(what: &str, done: impl FnMut() -> bool) {
    wait_until(|| what.to_owned(), done);
}

fn wait_until(what: impl Fn() -> String, mut done: impl FnMut() -> bool) {
    let started = Instant::now();
    while !done() {
        assert!(started.elapsed() < Duration::from_secs(10), "still waiting for {}", what());
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Whether a call failed in a way that a repetition may cure.
pub(crate) fn is_passing(result: &Result<()>) -> bool {
    result.as_ref().is_err_and(|e| e.is_retriable() && !e.is_fatal())
}

pub(crate) fn is_timeout(result: &Result<()>) -> bool {
    result.as_ref().is_err_and(|e| e.status() == Status::TimedOut && !e.is_fatal())
}
