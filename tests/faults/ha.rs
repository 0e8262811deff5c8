//! Failover of real NameNodes in the middle of writing: every call that a repetition could spoil
//! is lost once on its way to or from the NameNode, with and without a failover in between, and
//! files are written while the active NameNode steps down or is killed. What the calls answered is
//! true, and the Java client reads every byte.
use dfs::client::file_system::{CreateOptions, FileSystem};
use dfs::client::metadata::Metadata;
use dfs::conf::Config;
use dfs::error::Status;
use dfs::time::Deadline;
use dfs::write::{OutputStream, SyncMode};
use dfs_testkit::data;
use dfs_testkit::hadoop::{Cluster, ClusterConfig, Loss, ReadRequest, Relay};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

const FLUSH: SyncMode = SyncMode { sync: false, update_length: false, end_block: false };
const BLOCK: u64 = 16 << 10;

/// For any single call, a failover included.
fn limit() -> Deadline {
    Deadline::after(Duration::from_secs(120))
}

/// One cluster for the tests of this file, which take turns since they kill its NameNodes.
fn on_cluster(test: impl FnOnce(&Cluster)) {
    static CLUSTER: Mutex<Option<Cluster>> = Mutex::new(None);
    static LEFT: AtomicUsize = AtomicUsize::new(2);
    let mut guard = CLUSTER.lock().unwrap_or_else(PoisonError::into_inner);
    test(guard.get_or_insert_with(|| {
        Cluster::start(ClusterConfig::new().high_availability()).expect("Hadoop starts")
    }));
    // Five processes less for the tests that follow.
    if LEFT.fetch_sub(1, Ordering::Relaxed) == 1 {
        *guard = None;
    }
}

fn active(cluster: &Cluster) -> usize {
    (0..2)
        .find(|i| cluster.namenode_state(*i).is_ok_and(|state| state == "active"))
        .expect("an active NameNode")
}

/// The active NameNode steps down, the other takes over.
fn fail_over(cluster: &Cluster) {
    let old = active(cluster);
    cluster.transition_to_standby(old).unwrap();
    cluster.transition_to_active(1 - old).unwrap();
}

/// A client of both NameNodes that is patient, and tries again soon.
fn connect(cluster: &Cluster, relays: &[Relay]) -> FileSystem {
    let mut config = Config::new();
    config.load_dir(cluster.conf_dir()).unwrap();
    for (i, relay) in relays.iter().enumerate() {
        config.set(&format!("dfs.namenode.rpc-address.libdfs.nn{i}"), &relay.address());
    }
    for (key, value) in [
        ("dfs.client.failover.sleep.base.millis", "20"),
        ("dfs.client.failover.sleep.max.millis", "500"),
        ("dfs.client.failover.max.attempts", "1000"),
        ("dfs.client.retry.max.attempts", "1000"),
        ("dfs.client.block.write.replace-datanode-on-failure.policy", "ALWAYS"),
    ] {
        config.set(key, value);
    }
    FileSystem::connect(&config, None, limit()).expect("connect")
}

fn options() -> CreateOptions {
    CreateOptions {
        create_parents: true,
        block_size: Some(BLOCK),
        replication: Some(2),
        ..Default::default()
    }
}

/// A file of known bytes: those of `seed`.
struct Log {
    file: OutputStream,
    seed: u64,
}

impl Log {
    fn create(fs: &FileSystem, path: &str, options: &CreateOptions, seed: u64) -> Log {
        let file = fs.create(path, options, limit()).unwrap_or_else(|e| panic!("create: {e}"));
        Log { file, seed }
    }

    fn record(&self, len: usize) {
        let bytes = data::bytes(self.seed, self.file.pos(), len);
        self.file.write(&bytes, limit()).expect("write");
        self.file.flush(FLUSH, limit()).expect("flush");
        assert_eq!(self.file.durable(), self.file.pos());
    }

    fn close(self) {
        self.file.close(limit()).expect("close");
    }
}

/// A closed file of `len` bytes.
fn write_file(fs: &FileSystem, path: &str, seed: u64, len: usize) {
    let log = Log::create(fs, path, &options(), seed);
    log.record(len);
    log.close();
}

fn check_java(cluster: &Cluster, path: &str, seed: u64, len: u64) {
    let request = ReadRequest { seed: Some(seed), ..ReadRequest::default() };
    let got = cluster.oracle().unwrap().read(path, &request);
    let got = got.unwrap_or_else(|e| panic!("Java reads {path}: {e}"));
    assert_eq!((got.length, got.mismatch), (len, None), "{path}");
    assert_eq!(got.sha256, data::content_sha256(seed, 0, len), "{path}");
}

/// Something done with calls that get lost.
struct Scene<'a> {
    cluster: &'a Cluster,
    fs: &'a FileSystem,
    meta: Metadata,
    /// A directory of its own.
    dir: String,
}

impl Scene<'_> {
    fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.dir)
    }

    fn create(&self) {
        write_file(self.fs, &self.path("f"), 1, 3000);
        check_java(self.cluster, &self.path("f"), 1, 3000);
    }

    fn overwrite(&self) {
        let log = Log::create(
            self.fs,
            &self.path("old"),
            &CreateOptions { overwrite: true, ..options() },
            2,
        );
        log.record(3000);
        log.close();
        check_java(self.cluster, &self.path("old"), 2, 3000);
    }

    /// Blocks, their end, and the file's.
    fn write(&self) {
        let log = Log::create(self.fs, &self.path("f"), &options(), 3);
        for _ in 0..12 {
            log.record(3000);
        }
        log.close();
        check_java(self.cluster, &self.path("f"), 3, 36_000);
    }

    /// A pipeline that loses a node and gets another.
    fn recover(&self) {
        let log = Log::create(self.fs, &self.path("f"), &options(), 4);
        log.record(1000);
        let node = self.cluster.datanode_index(&log.file.pipeline()[0]).unwrap();
        let before = self.fs.stats().pipeline_recoveries;
        self.cluster.fail_disk(node).unwrap();
        // A DataNode may acknowledge before it writes to its disk.
        while self.fs.stats().pipeline_recoveries == before {
            log.record(1000);
            assert!(log.file.pos() < BLOCK, "the node does not fail");
        }
        self.cluster.mend_disk(node).unwrap();
        for _ in 0..6 {
            log.record(3000);
        }
        let len = log.file.pos();
        log.close();
        check_java(self.cluster, &self.path("f"), 4, len);
    }

    fn append(&self) {
        // An append uses the replicas that the NameNode knows.
        let known = || {
            let blocks = self.meta.block_locations(&self.path("old"), 0, 1 << 30, limit()).unwrap();
            blocks.iter().all(|b| b.replicas.len() == 2)
        };
        wait_for("block reports", known);
        let file = self.fs.append(&self.path("old"), false, &options(), limit()).expect("append");
        let log = Log { file, seed: 9 };
        assert_eq!(log.file.pos(), 5000);
        log.record(15_000);
        log.close();
        check_java(self.cluster, &self.path("old"), 9, 20_000);
    }

    fn rename(&self) {
        let (old, new) = (self.path("old"), self.path("new"));
        self.meta.rename(&old, &new, false, limit()).expect("rename");
        assert!(!self.meta.exists(&old, limit()).unwrap());
        check_java(self.cluster, &new, 9, 5000);
    }

    fn delete(&self) {
        assert!(self.meta.delete(&self.path("old"), false, limit()).expect("delete"));
        assert!(!self.meta.exists(&self.path("old"), limit()).unwrap());
    }

    fn mkdir(&self) {
        self.meta.mkdir(&self.path("a/b"), 0o755, true, limit()).expect("mkdir");
        assert!(self.meta.stat(&self.path("a/b"), limit()).unwrap().is_directory());
    }

    /// Of whole blocks, since up to 2.7 the last block of the target must be full.
    fn concat(&self) {
        let parts: Vec<String> = (0..3_u64).map(|i| self.path(&format!("part{i}"))).collect();
        let mut all = Vec::new();
        for (i, part) in parts.iter().enumerate() {
            write_file(self.fs, part, 20 + i as u64, BLOCK as usize);
            all.extend(data::bytes(20 + i as u64, 0, BLOCK as usize));
        }
        let sources: Vec<&str> = parts[1..].iter().map(String::as_str).collect();
        self.meta.concat(&parts[0], &sources, limit()).expect("concat");
        let got = self.cluster.oracle().unwrap().read(&parts[0], &ReadRequest::default()).unwrap();
        assert_eq!((got.length, got.sha256), (all.len() as u64, data::sha256(&all)));
        assert!(!self.meta.exists(&parts[1], limit()).unwrap());
    }

    /// At a block boundary: no recovery is needed, so a repetition finds the work done.
    fn truncate(&self) {
        write_file(self.fs, &self.path("f"), 5, 2 * BLOCK as usize + 77);
        assert!(self.meta.truncate(&self.path("f"), BLOCK, limit()).expect("truncate"));
        check_java(self.cluster, &self.path("f"), 5, BLOCK);
    }

    /// Of a file that was abandoned long ago: a NameNode that takes over and knows no DataNode of
    /// a block yet would try again half a minute later.
    fn recover_lease(&self) {
        let path = format!("{}-abandoned", self.dir);
        if !self.meta.recover_lease(&path, limit()).expect("recoverLease") {
            // Up to 2.7 a second call would start a second recovery.
            wait_for("lease recovery", || self.meta.is_file_closed(&path, limit()).unwrap());
        }
        check_java(self.cluster, &path, 6, 5000);
    }

    fn attributes(&self) {
        let path = self.path("old");
        self.meta.set_replication(&path, 1, limit()).expect("setReplication");
        self.meta.set_permission(&path, 0o640, limit()).expect("setPermission");
        self.meta.set_times(&path, Some(123_000), None, limit()).expect("setTimes");
        let status = self.meta.stat(&path, limit()).unwrap();
        assert_eq!((status.replication, status.mode, status.mtime_ms), (1, 0o640, 123_000));
    }
}

fn wait_for(what: &str, mut done: impl FnMut() -> bool) {
    let started = Instant::now();
    while !done() {
        assert!(started.elapsed() < Duration::from_secs(100), "still waiting for {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

type Act = fn(&Scene<'_>);

/// Calls, and what makes the client call them.
const ACTS: &[(&str, Act)] = &[
    ("create", |s| s.create()),
    ("create", |s| s.overwrite()),
    ("addBlock", |s| s.write()),
    ("fsync", |s| s.write()),
    ("complete", |s| s.write()),
    ("append", |s| s.append()),
    ("rename2", |s| s.rename()),
    ("delete", |s| s.delete()),
    ("mkdirs", |s| s.mkdir()),
    ("concat", |s| s.concat()),
    ("truncate", |s| s.truncate()),
    ("setReplication", |s| s.attributes()),
    ("setPermission", |s| s.attributes()),
    ("setTimes", |s| s.attributes()),
    ("updateBlockForPipeline", |s| s.recover()),
    ("updatePipeline", |s| s.recover()),
    ("getAdditionalDatanode", |s| s.recover()),
    // Last, see there.
    ("recoverLease", |s| s.recover_lease()),
];

#[test]
fn lost_calls_have_one_result_across_a_failover() {
    on_cluster(lose_calls);
}

/// The same call twice at one NameNode, and at both.
fn lose_calls(cluster: &Cluster) {
    let relays: Vec<Relay> =
        (0..2).map(|i| Relay::start(&cluster.namenode_address(i).unwrap()).unwrap()).collect();
    let fs = connect(cluster, &relays);
    for round in 0..3 {
        let path = format!("/ha/{round}-{}-abandoned", ACTS.len() - 1);
        Log::create(&fs, &path, &options(), 6).record(5000);
    }
    for (round, (loss, failover)) in
        [(Loss::Answer, false), (Loss::Answer, true), (Loss::Request, true)].into_iter().enumerate()
    {
        for (i, (method, act)) in ACTS.iter().enumerate() {
            // A request that never arrived is like any other: some will do.
            if loss == Loss::Request && i % 4 != 2 {
                continue;
            }
            let dir = format!("/ha/{round}-{i}");
            let started = Instant::now();
            let scene = Scene { cluster, fs: &fs, meta: fs.metadata().unwrap(), dir };
            write_file(&fs, &scene.path("old"), 9, 5000);
            let relay = &relays[active(cluster)];
            let before = relay.lost();
            relay.lose(method, loss, failover);
            std::thread::scope(|scope| {
                let act = scope.spawn(|| act(&scene));
                wait_for(method, || relay.lost() > before || act.is_finished());
                assert!(relay.lost() > before, "{method} was not called");
                if failover {
                    fail_over(cluster);
                    relay.set_down(false);
                }
                if let Err(panic) = act.join() {
                    println!("{method}, {loss:?} lost, failover {failover}");
                    std::panic::resume_unwind(panic);
                }
            });
            println!("{method} {loss:?} {failover}: {:?}", started.elapsed());
        }
    }
}

/// Files that were closed, to be read by Java in the end.
#[derive(Default)]
struct Journal {
    closed: Mutex<Vec<(String, u64, u64)>>,
    next: AtomicU64,
    stop: AtomicBool,
}

impl Journal {
    fn running(&self) -> bool {
        std::thread::sleep(Duration::from_millis(30));
        !self.stop.load(Ordering::Acquire)
    }

    fn seed(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    fn note(&self, path: &str, seed: u64, len: u64) {
        self.closed.lock().unwrap().push((path.to_owned(), seed, len));
    }

    /// A log that rolls: every record is flushed, blocks are short, files are too.
    fn log(&self, fs: &FileSystem) {
        while self.running() {
            let seed = self.seed();
            let path = format!("/ha/logs/{seed}");
            let log = Log::create(fs, &path, &options(), seed);
            for i in 0..12 {
                log.record(1000 + 333 * i);
                if !self.running() {
                    break;
                }
            }
            let len = log.file.pos();
            log.close();
            self.note(&path, seed, len);
        }
    }

    /// One file that grows by append.
    fn append(&self, fs: &FileSystem) {
        let (seed, path) = (self.seed(), "/ha/appended");
        write_file(fs, path, seed, 100);
        let mut len = 100;
        while self.running() {
            let file = fs.append(path, false, &options(), limit()).expect("append");
            assert_eq!(file.pos(), len);
            let log = Log { file, seed };
            log.record(2500);
            log.close();
            len += 2500;
        }
        self.note(path, seed, len);
    }

    /// Calls each of which fails, or answers otherwise, if it was carried out twice.
    fn names(&self, fs: &FileSystem) {
        let m = fs.metadata().unwrap();
        while self.running() {
            let seed = self.seed();
            let dir = format!("/ha/names/{seed}");
            let (a, b, c) = (format!("{dir}/a"), format!("{dir}/b"), format!("{dir}/c"));
            m.mkdir(&dir, 0o755, true, limit()).expect("mkdir");
            write_file(fs, &a, seed, 700);
            m.rename(&a, &b, false, limit()).expect("rename");
            assert!(!m.exists(&a, limit()).unwrap());
            write_file(fs, &c, seed, 9);
            m.rename(&b, &c, true, limit()).expect("rename over");
            let plain = CreateOptions { replication: Some(1), ..options() };
            let error = fs.create(&c, &plain, limit()).err().expect("it exists");
            assert_eq!(error.status(), Status::Exists, "{error}");
            if seed.is_multiple_of(2) {
                assert!(m.delete(&c, false, limit()).expect("delete"));
                assert!(!m.delete(&c, false, limit()).expect("delete again"));
            } else {
                self.note(&c, seed, 700);
            }
        }
    }
}

#[test]
fn writers_live_through_failovers_and_dead_namenodes() {
    on_cluster(fail_over_under_writers);
}

fn fail_over_under_writers(cluster: &Cluster) {
    let fs = connect(cluster, &[]);
    let journal = Journal::default();
    let pause = |ms| std::thread::sleep(Duration::from_millis(ms));
    let progress = |what: &str| {
        let before = journal.closed.lock().unwrap().len();
        wait_for(what, || journal.closed.lock().unwrap().len() > before + 2);
    };
    std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for _ in 0..3 {
            threads.push(scope.spawn(|| journal.log(&fs)));
        }
        threads.push(scope.spawn(|| journal.append(&fs)));
        threads.push(scope.spawn(|| journal.names(&fs)));
        let drive = || {
            for gap in [0, 300] {
                progress("files before a failover");
                let old = active(cluster);
                cluster.transition_to_standby(old).unwrap();
                pause(gap);
                cluster.transition_to_active(1 - old).unwrap();
            }
            for gap in [0, 700] {
                progress("files before a NameNode dies");
                let old = active(cluster);
                cluster.kill_namenode(old).unwrap();
                pause(gap);
                cluster.transition_to_active(1 - old).unwrap();
                progress("files with one NameNode");
                cluster.start_namenode(old).unwrap();
            }
        };
        let driven = std::panic::catch_unwind(std::panic::AssertUnwindSafe(drive));
        // Else the writers would go on behind a failure here.
        journal.stop.store(true, Ordering::Release);
        for thread in threads {
            thread.join().unwrap();
        }
        if let Err(panic) = driven {
            std::panic::resume_unwind(panic);
        }
    });
    let closed = journal.closed.into_inner().unwrap();
    println!("{} files", closed.len());
    for (path, seed, len) in closed {
        check_java(cluster, &path, seed, len);
    }
    assert_eq!(fs.stats().open_writers, 0);
}
