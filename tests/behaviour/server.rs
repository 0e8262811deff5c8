//! The server under test: `minidfs` or a real Hadoop cluster.
use dfs::client::file_system::{CreateOptions, FileSystem};
use dfs::conf::Config;
use dfs::read::ReadOptions;
use dfs::time::Deadline;
use dfs_testkit::data;
use dfs_testkit::hadoop::{self, Cluster};
use dfs_testkit::minidfs::{self, MiniDfs};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Makes a test per server of each listed function.
#[macro_export]
macro_rules! on_every_server {
    ($($name:ident),* $(,)?) => {
        mod on_minidfs {
            $(#[test] fn $name() { super::$name(&$crate::server::Server::minidfs()); })*
        }
        mod on_hadoop {
            $(#[test] fn $name() { super::$name(&$crate::server::Server::hadoop()); })*
        }
    };
}

/// A test's own limit for any single call.
pub(crate) fn limit() -> Deadline {
    Deadline::after(Duration::from_secs(60))
}

/// Which server.
pub(crate) enum Server {
    /// Shared by the process.
    Mini(&'static MiniDfs),
    /// Shared by the process.
    Hadoop(&'static Cluster),
}

impl Server {
    pub(crate) fn minidfs() -> Server {
        static SHARED: OnceLock<MiniDfs> = OnceLock::new();
        Server::Mini(SHARED.get_or_init(|| {
            MiniDfs::builder().datanodes(3).replication(3).start().expect("minidfs starts")
        }))
    }

    pub(crate) fn hadoop() -> Server {
        Server::Hadoop(Cluster::shared().expect("real Hadoop starts"))
    }

    fn uri(&self) -> String {
        match self {
            Server::Mini(mini) => mini.uri(),
            Server::Hadoop(cluster) => cluster.uri(),
        }
    }

    /// A new client, with settings on top.
    pub(crate) fn connect_with(&self, settings: &[(&str, &str)]) -> FileSystem {
        let mut config = Config::new();
        config.set("dfs.client.socket-timeout", "20000");
        for (key, value) in settings {
            config.set(key, value);
        }
        FileSystem::connect(&config, Some(&self.uri()), limit()).expect("connecting")
    }

    pub(crate) fn connect(&self) -> FileSystem {
        self.connect_with(&[])
    }

    /// A path that no other test uses.
    pub(crate) fn path(&self, name: &str) -> String {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        format!("/behaviour/{}-{n}/{name}", std::process::id())
    }

    /// Bytes of each finalized replica of the file's blocks in file order, one vector a replica.
    /// Those of older generation stamps are waiting to be deleted and do not count.
    fn replicas(&self, fs: &FileSystem, path: &str) -> Vec<Vec<Vec<u8>>> {
        let blocks =
            fs.metadata().unwrap().block_locations(path, 0, u64::MAX >> 1, limit()).unwrap();
        blocks
            .iter()
            .map(|block| match self {
                Server::Mini(mini) => mini
                    .datanodes()
                    .iter()
                    .filter_map(|dn| dn.replica(block.block_id))
                    .filter(|r| r.state == minidfs::ReplicaState::Finalized)
                    .filter(|r| r.generation_stamp == block.generation_stamp)
                    .map(|r| r.bytes)
                    .collect(),
                Server::Hadoop(cluster) => cluster
                    .replicas_of(block.block_id as i64)
                    .unwrap()
                    .into_iter()
                    .filter(|(_, r)| r.state == hadoop::ReplicaState::Finalized)
                    .filter(|(_, r)| r.generation_stamp == Some(block.generation_stamp))
                    // It may be renamed, to a newer stamp, between listing and reading.
                    .filter_map(|(_, r)| std::fs::read(&r.path).ok())
                    .collect(),
            })
            .collect()
    }

    /// Writes and closes a file.
    pub(crate) fn write_file(
        &self,
        fs: &FileSystem,
        path: &str,
        options: &CreateOptions,
        data: &[u8],
    ) {
        let file = fs.create(path, options, limit()).unwrap();
        file.write(data, limit()).unwrap();
        file.close(limit()).unwrap();
        self.wait_reported(fs, path, options.replication.unwrap_or(3) as usize);
    }

    /// Waits until the NameNode knows that many replicas of every block: an append uses those.
    pub(crate) fn wait_reported(&self, fs: &FileSystem, path: &str, replicas: usize) {
        let meta = fs.metadata().unwrap();
        wait_for(&format!("block reports of {path}"), || {
            let blocks = meta.block_locations(path, 0, 1 << 40, limit()).unwrap();
            blocks.iter().all(|b| b.replicas.len() >= replicas)
        });
    }

    /// Has the file closed, whoever writes it.
    pub(crate) fn recover_lease(&self, fs: &FileSystem, path: &str) {
        // Up to 2.7 every call starts a recovery of its own, and one that comes late would take
        // the file from its next writer.
        const AGAIN: Duration = Duration::from_secs(4);
        let meta = fs.metadata().unwrap();
        let mut asked: Option<Instant> = None;
        wait_for(&format!("lease recovery of {path}"), || {
            if asked.is_none_or(|at| at.elapsed() > AGAIN) {
                asked = Some(Instant::now());
                if meta.recover_lease(path, limit()).unwrap() {
                    return true;
                }
            }
            meta.is_file_closed(path, limit()).unwrap()
        });
        assert!(meta.is_file_closed(path, limit()).unwrap());
    }

    /// Checks a closed file everywhere: the DataNodes' replicas, our own reader, and Java.
    pub(crate) fn check_file(
        &self,
        fs: &FileSystem,
        path: &str,
        expected: &[u8],
        replication: usize,
    ) {
        let status = fs.metadata().unwrap().stat(path, limit()).unwrap();
        assert_eq!(status.length, expected.len() as u64, "length of {path}");
        let started = Instant::now();
        let blocks = loop {
            let blocks = self.replicas(fs, path);
            if blocks.iter().all(|b| b.len() >= replication) {
                break blocks;
            }
            let counts: Vec<_> = blocks.iter().map(Vec::len).collect();
            assert!(started.elapsed() < Duration::from_secs(30), "replicas of {path}: {counts:?}");
            std::thread::sleep(Duration::from_millis(20));
        };
        let mut at = 0;
        for (i, replicas) in blocks.iter().enumerate() {
            for replica in replicas {
                let end = at + replicas[0].len();
                assert!(end <= expected.len(), "block {i} of {path} is too long");
                assert!(
                    replica[..] == expected[at..end],
                    "a replica of block {i} of {path} differs"
                );
            }
            at += replicas[0].len();
        }
        assert_eq!(at, expected.len(), "blocks of {path}");
        assert!(read_all(fs, path) == expected, "our reader sees other bytes in {path}");
        self.check_java(path, expected);
    }

    /// Checks that the Java client reads exactly these bytes (real Hadoop only; minidfs has none).
    pub(crate) fn check_java(&self, path: &str, expected: &[u8]) {
        if let Server::Hadoop(cluster) = self {
            let request = hadoop::ReadRequest::default();
            let got = cluster.oracle().unwrap().read(path, &request).unwrap();
            assert_eq!(got.length, expected.len() as u64, "length that Java reads of {path}");
            assert_eq!(got.sha256, data::sha256(expected), "bytes that Java reads of {path}");
        }
    }
}

/// Waits for what servers do in their own time.
pub(crate) fn wait_for(what: &str, mut done: impl FnMut() -> bool) {
    let started = Instant::now();
    while !done() {
        assert!(started.elapsed() < Duration::from_secs(60), "still waiting for {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Reads a whole file sequentially with odd buffer sizes.
pub(crate) fn read_all(fs: &FileSystem, path: &str) -> Vec<u8> {
    let file = fs.open(path, ReadOptions::default(), limit()).unwrap();
    let mut all = Vec::new();
    let mut buffer = vec![0; 70_001];
    loop {
        let n = file.read(&mut buffer, limit()).unwrap();
        if n == 0 {
            return all;
        }
        all.extend_from_slice(&buffer[..n]);
    }
}

/// Options that overwrite and make parents.
pub(crate) fn create() -> CreateOptions {
    CreateOptions { overwrite: true, create_parents: true, ..CreateOptions::default() }
}

/// Reproducible bytes.
pub(crate) fn bytes(seed: u64, len: usize) -> Vec<u8> {
    data::bytes(seed, 0, len)
}
