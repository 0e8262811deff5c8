//! Random faults of real DataNodes, on a Hadoop of each line: killed, stopped, restarted with a
//! warning, disks whose writes fail, replicas that rot, in a random order and at random moments
//! of writing files of one to three replicas. One fault at a time: files of two and three
//! replicas live through all of them, one of a single replica may break but keeps what was
//! synced, and the Java client reads every byte.
//!
//! The seed of a run is printed; `DFS_SEED=N` runs it again, `DFS_ROUNDS=N` makes it longer.
use dfs::client::file_system::{CreateOptions, FileSystem};
use dfs::conf::Config;
use dfs::error::{Error, Result, Status};
use dfs::time::Deadline;
use dfs::write::{OutputStream, SyncMode};
use dfs_testkit::data;
use dfs_testkit::hadoop::{Cluster, ClusterConfig, ReadRequest, ReplicaFile, ReplicaState};
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const FLUSH: SyncMode = SyncMode { sync: false, update_length: false, end_block: false };
const BLOCK: u64 = 128 << 10;
/// Bounds of record sizes, small ones more often.
const SIZES: [u64; 7] = [100, 1000, 1000, 5000, 5000, 20_000, 70_000];
/// Replicas of the files that are written at a time.
const REPLICATIONS: [u32; 4] = [1, 2, 3, 3];

fn limit() -> Deadline {
    Deadline::after(Duration::from_secs(100))
}

/// SplitMix64, as [`data`] uses it: the numbers of a seed are always the same.
struct Random {
    seed: u64,
    taken: u64,
}

impl Random {
    fn new(seed: u64) -> Random {
        Random { seed, taken: 0 }
    }

    /// A number below `bound`.
    fn below(&mut self, bound: u64) -> u64 {
        let bytes = data::bytes(self.seed, 8 * self.taken, 8);
        self.taken += 1;
        u64::from_le_bytes(bytes.try_into().unwrap()) % bound
    }

    fn pick<T: Clone>(&mut self, list: &[T]) -> T {
        list[self.below(list.len() as u64) as usize].clone()
    }
}

/// A file that is no longer written.
struct Done {
    path: String,
    seed: u64,
    replication: u32,
    durable: u64,
    len: u64,
    closed: bool,
}

/// A place for one file at a time.
struct Slot {
    replication: u32,
    current: Mutex<Option<Arc<OutputStream>>>,
    flushes: AtomicU64,
    /// The file shall be closed and another one begun.
    roll: AtomicBool,
}

struct Run {
    cluster: Cluster,
    fs: FileSystem,
    seed: u64,
    slots: Vec<Slot>,
    done: Mutex<Vec<Done>>,
    next: AtomicU64,
    stop: AtomicBool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    Kill,
    Stop,
    Restart,
    Disk,
    /// A replica of the block that is being written.
    RotOpen,
    /// A replica of a finished block.
    RotClosed,
    /// One more DataNode: no fault, but the next ones find another cluster.
    Join,
}

/// Calls until it succeeds or fails for good: some errors just ask for another try.
fn patiently(mut call: impl FnMut() -> Result<()>) -> Result<()> {
    let started = Instant::now();
    loop {
        match call() {
            Err(e) if !e.is_fatal() && e.is_retriable() => {
                assert!(started.elapsed() < Duration::from_secs(200), "still failing: {e}");
                std::thread::sleep(Duration::from_millis(100));
            }
            result => return result,
        }
    }
}

impl Run {
    fn start(version: &str, seed: u64) -> Run {
        println!("Hadoop {version}: DFS_SEED={seed}");
        let config = ClusterConfig::new()
            .version(version)
            .datanodes(4)
            .set("dfs.client.socket-timeout", "3000")
            .set("dfs.namenode.stale.datanode.interval", "3000")
            .set("dfs.namenode.avoid.write.stale.datanode", "true");
        let cluster = Cluster::start(config).expect("Hadoop starts");
        let mut config = Config::new();
        for (key, value) in [
            ("dfs.client.socket-timeout", "3000"),
            ("dfs.client.datanode-restart.timeout", "60s"),
            // A file must not be down to one replica when the next node fails.
            ("dfs.client.block.write.replace-datanode-on-failure.policy", "ALWAYS"),
            ("dfs.client.block.write.replace-datanode-on-failure.best-effort", "true"),
        ] {
            config.set(key, value);
        }
        let fs = FileSystem::connect(&config, Some(&cluster.uri()), limit()).expect("connect");
        let slot = |replication: &u32| Slot {
            replication: *replication,
            current: Mutex::default(),
            flushes: AtomicU64::new(0),
            roll: AtomicBool::new(false),
        };
        Run {
            cluster,
            fs,
            seed,
            slots: REPLICATIONS.iter().map(slot).collect(),
            done: Mutex::default(),
            next: AtomicU64::new(1),
            stop: AtomicBool::new(false),
        }
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    /// Writes one file after the other.
    fn write(&self, index: usize) {
        let slot = &self.slots[index];
        let mut random = Random::new(self.seed ^ (index as u64 + 1) << 32);
        while !self.stopped() {
            let seed = self.next.fetch_add(1, Ordering::Relaxed);
            let path = format!("/random/{seed}");
            let options = CreateOptions {
                create_parents: true,
                replication: Some(slot.replication),
                block_size: Some(BLOCK),
                ..Default::default()
            };
            let file = self.fs.create(&path, &options, limit()).expect("create");
            let file = Arc::new(file);
            *slot.current.lock().unwrap() = Some(Arc::clone(&file));
            let result = self.fill(slot, &file, seed, &mut random);
            *slot.current.lock().unwrap() = None;
            if let Err(error) = &result {
                self.check_broken(slot, &file, error);
            }
            self.done.lock().unwrap().push(Done {
                path,
                seed,
                replication: slot.replication,
                durable: file.durable(),
                len: file.pos(),
                closed: result.is_ok(),
            });
        }
    }

    fn fill(&self, slot: &Slot, file: &OutputStream, seed: u64, random: &mut Random) -> Result<()> {
        let wanted = 1 + random.below(6 * BLOCK);
        slot.roll.store(false, Ordering::Release);
        while file.pos() < wanted && !self.stopped() && !slot.roll.load(Ordering::Acquire) {
            let size = random.pick(&SIZES);
            let end = file.pos() + 1 + random.below(size);
            patiently(|| {
                let len = (end - file.pos()) as usize;
                file.write(&data::bytes(seed, file.pos(), len), limit())
            })?;
            // A DataNode may acknowledge what it has not written yet: one replica must be synced.
            let sync = slot.replication == 1 || random.below(4) == 0;
            patiently(|| file.flush(SyncMode { sync, ..FLUSH }, limit()))?;
            assert_eq!(file.durable(), end);
            slot.flushes.fetch_add(1, Ordering::AcqRel);
            std::thread::sleep(Duration::from_millis(random.below(30)));
        }
        patiently(|| file.close(limit()))
    }

    /// Only a file whose one replica is out of reach may break.
    fn check_broken(&self, slot: &Slot, file: &OutputStream, error: &Error) {
        assert_eq!(slot.replication, 1, "DFS_SEED={}: {error:?}", self.seed);
        assert_eq!(error.status(), Status::Pipeline, "{error:?}");
        assert_eq!(error.durable_bytes(), Some(file.durable()), "{error:?}");
        let again = file.flush(FLUSH, limit()).unwrap_err();
        assert_eq!(again.message(), error.message());
    }

    /// Waits until every writer got on.
    fn progress(&self, what: &str) {
        let count = |slot: &Slot| slot.flushes.load(Ordering::Acquire);
        let before: Vec<u64> = self.slots.iter().map(count).collect();
        wait_for(what, || {
            // A writer that has panicked tells why when it is joined.
            self.stopped() || self.slots.iter().zip(&before).all(|(s, b)| count(s) > b + 3)
        });
    }

    fn pipelines(&self) -> Vec<(u32, Vec<String>)> {
        let of = |slot: &Slot| {
            let file = slot.current.lock().unwrap().clone();
            (slot.replication, file.map_or_else(Vec::new, |f| f.pipeline()))
        };
        self.slots.iter().map(of).collect()
    }

    /// A node that no file of several replicas depends on alone, preferably one in use.
    fn victim(&self, random: &mut Random) -> usize {
        let pipelines = self.pipelines();
        let index = |name: &String| self.cluster.datanode_index(name).unwrap();
        let alone: BTreeSet<usize> = pipelines
            .iter()
            .filter(|(replication, nodes)| *replication > 1 && nodes.len() == 1)
            .flat_map(|(_, nodes)| nodes.iter().map(index))
            .collect();
        let used = pipelines.iter().flat_map(|(_, nodes)| nodes.iter().map(index));
        let mut choice: Vec<usize> = used.filter(|n| !alone.contains(n)).collect();
        if choice.is_empty() {
            choice = (0..self.cluster.datanode_count()).filter(|n| !alone.contains(n)).collect();
        }
        random.pick(&choice)
    }

    /// One fault and its end.
    fn strike(&self, fault: Fault, random: &mut Random) {
        std::thread::sleep(Duration::from_millis(random.below(500)));
        let cluster = &self.cluster;
        let node = self.victim(random);
        println!("{fault:?}, node {node}");
        let during = || self.progress(&format!("flushes during {fault:?} of node {node}"));
        match fault {
            Fault::Kill => {
                cluster.kill_datanode(node).unwrap();
                during();
                cluster.restart_datanode(node).unwrap();
            }
            Fault::Stop => {
                cluster.stop_datanode(node).unwrap();
                during();
                cluster.continue_datanode(node).unwrap();
            }
            Fault::Restart => {
                cluster.shut_datanode_for_upgrade(node).unwrap();
                cluster.restart_datanode(node).unwrap();
            }
            Fault::Disk => {
                cluster.fail_disk(node).unwrap();
                during();
                // What it could not write at all (an empty checksum file) a DataNode sorts out
                // only when it starts; until then it can't recover that block.
                cluster.restart_datanode(node).unwrap();
            }
            Fault::RotOpen => self.rot_open(random),
            Fault::RotClosed => self.rot_closed(random),
            Fault::Join => drop(cluster.add_datanode().unwrap()),
        }
        self.progress(&format!("flushes after {fault:?}"));
    }

    fn replicas(&self, path: &str) -> Vec<(usize, ReplicaFile)> {
        let meta = self.fs.metadata().unwrap();
        let blocks = meta.block_locations(path, 0, 1 << 40, limit()).unwrap();
        let of = |id: u64| self.cluster.replicas_of(id as i64).unwrap();
        blocks.iter().flat_map(|b| of(b.block_id)).collect()
    }

    /// Spoils a replica under its writer. Then the file rolls, since the next fault could hit
    /// a good one.
    fn rot_open(&self, random: &mut Random) {
        let mut spoilt: Option<(&Slot, String)> = None;
        wait_for("a replica to spoil", || {
            let slot = random.pick(&self.slots.iter().collect::<Vec<_>>());
            let file = slot.current.lock().unwrap().clone();
            let Some(file) = file.filter(|_| slot.replication == 3) else { return self.stopped() };
            let mut all = self.replicas(file.path());
            all.retain(|(_, r)| r.state == ReplicaState::Rbw && r.length > 0);
            if all.is_empty() {
                return self.stopped();
            }
            let (node, replica) = random.pick(&all);
            // It may have been finalized, and so renamed, or given another stamp meanwhile.
            let done = replica.corrupt_data(random.below(replica.length)).is_ok();
            if done {
                println!("{} on node {node}", file.path());
                spoilt = Some((slot, file.path().to_owned()));
            }
            done
        });
        let Some((slot, path)) = spoilt else { return };
        slot.roll.store(true, Ordering::Release);
        wait_for("the file to roll", || {
            let now = slot.current.lock().unwrap();
            self.stopped() || now.as_ref().is_none_or(|f| f.path() != path)
        });
    }

    fn rot_closed(&self, random: &mut Random) {
        let path = {
            let done = self.done.lock().unwrap();
            let all: Vec<&Done> =
                done.iter().filter(|d| d.closed && d.replication == 3 && d.len > 0).collect();
            all.last().map(|d| d.path.clone())
        };
        let Some(path) = path else { return };
        let mut all = self.replicas(&path);
        all.retain(|(_, r)| r.state == ReplicaState::Finalized && r.length > 0);
        let (node, replica) = random.pick(&all);
        replica.corrupt_data(random.below(replica.length)).unwrap();
        println!("{path} on node {node}");
    }

    /// What Java reads of every file, now that all nodes are there again.
    fn check(&self) {
        let meta = self.fs.metadata().unwrap();
        let oracle = self.cluster.oracle().unwrap();
        let done = self.done.lock().unwrap();
        for file in done.iter().filter(|f| !f.closed) {
            meta.recover_lease(&file.path, limit()).unwrap();
        }
        for file in done.iter() {
            let what = format!("DFS_SEED={}: {} of {}", self.seed, file.path, file.replication);
            let mut asked = Instant::now();
            wait_for(&format!("the recovery of {what}"), || {
                if asked.elapsed() > Duration::from_secs(5) {
                    asked = Instant::now();
                    meta.recover_lease(&file.path, limit()).unwrap();
                }
                meta.is_file_closed(&file.path, limit()).unwrap()
            });
            let request = ReadRequest { seed: Some(file.seed), ..ReadRequest::default() };
            let got = oracle.read(&file.path, &request).unwrap_or_else(|e| panic!("{what}: {e}"));
            let least = if file.closed { file.len } else { file.durable };
            assert!(got.length >= least && got.length <= file.len, "{what}: {}", got.length);
            assert_eq!(got.mismatch, None, "{what}");
            assert_eq!(got.sha256, data::content_sha256(file.seed, 0, got.length), "{what}");
        }
        let broken = done.iter().filter(|f| !f.closed).count();
        let bytes: u64 = done.iter().map(|f| f.len).sum();
        println!("{} files, {broken} of them broken, {bytes} bytes", done.len());
    }
}

fn wait_for(what: &str, mut done: impl FnMut() -> bool) {
    let started = Instant::now();
    while !done() {
        assert!(started.elapsed() < Duration::from_secs(100), "still waiting for {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn run(version: &str) {
    let seed = match std::env::var("DFS_SEED") {
        Ok(text) => text.parse().expect("DFS_SEED is a number"),
        Err(_) => SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64,
    };
    let mut random = Random::new(seed);
    let run = Run::start(version, seed);
    let rounds = std::env::var("DFS_ROUNDS").map_or(1, |text| text.parse().expect("a number"));
    let mut faults = Vec::new();
    for round in 0..rounds {
        faults.extend([Fault::Kill, Fault::Stop, Fault::Disk, Fault::RotOpen, Fault::RotClosed]);
        // The start of a JVM is what takes longest; up to five DataNodes.
        let joins = round == 0 && random.below(2) == 0;
        faults.push(if joins { Fault::Join } else { Fault::Restart });
    }
    std::thread::scope(|scope| {
        let spawn = |index: usize| {
            let run = &run;
            scope.spawn(move || {
                let written = catch_unwind(AssertUnwindSafe(|| run.write(index)));
                if let Err(panic) = written {
                    // Nobody waits for this writer any more.
                    run.stop.store(true, Ordering::Release);
                    resume_unwind(panic);
                }
            })
        };
        let threads: Vec<_> = (0..run.slots.len()).map(spawn).collect();
        let started = Instant::now();
        let driven = catch_unwind(AssertUnwindSafe(|| {
            run.progress("the first flushes");
            while !faults.is_empty() && !run.stopped() {
                let fault = faults.remove(random.below(faults.len() as u64) as usize);
                run.strike(fault, &mut random);
                println!("{:?}", started.elapsed());
            }
        }));
        run.stop.store(true, Ordering::Release);
        let ended: Vec<_> = threads.into_iter().map(|thread| thread.join()).collect();
        for end in ended.into_iter().chain([driven]) {
            if let Err(panic) = end {
                println!("DFS_SEED={seed}");
                resume_unwind(panic);
            }
        }
    });
    run.check();
    let stats = run.fs.stats();
    assert_eq!((stats.pool.in_use_bytes, stats.open_writers), (0, 0), "DFS_SEED={seed}");
}

#[test]
fn random_faults_on_the_wanted_hadoop() {
    run(&dfs_testkit::hadoop::Artifacts::wanted_version());
}

/// Whatever version is asked for, one of the old line runs too.
#[test]
fn random_faults_on_hadoop_2() {
    run("2.7.3");
}
