//! Runs many seeds on several lanes at once.
use std::collections::BTreeMap;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::lane::{Lane, Outcome};
use super::schedule::{SIZES, Schedule};

/// A schedule that takes longer than this hangs: its calls have limits far below.
const HANG: Duration = Duration::from_secs(300);

/// A schedule that runs this long is named with the progress.
const SLOW: Duration = Duration::from_secs(5);

/// What to run.
#[derive(Clone, Debug)]
pub struct Options {
    /// First seed.
    pub start: u64,
    /// Number of seeds.
    pub seeds: u64,
    /// Clusters that work at once; at least one of each size is made.
    pub lanes: usize,
    /// Print a line about the state this often; zero for never.
    pub progress: Duration,
}

/// A seed whose schedule violated the property.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The seed; running it again runs the same schedule.
    pub seed: u64,
    /// What was wrong.
    pub violations: Vec<String>,
}

/// What a run found.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Failed schedules, by seed.
    pub failures: Vec<Failure>,
    /// Schedules that ran.
    pub seeds: u64,
    /// Pipeline faults that the client saw.
    pub faults: u64,
    /// Pipelines that it rebuilt.
    pub recoveries: u64,
    /// Files that broke for good, as they may with too many faults.
    pub broken: u64,
    /// Reads of open files.
    pub reads: u64,
    /// Bytes written.
    pub bytes: u64,
    /// Most that a call exceeded its limit by, ms: the load of the machine, if all is well.
    pub late_ms: u64,
    /// Time that the run took.
    pub time: Duration,
    /// Threads and descriptors that were not there before, if any.
    pub left: Option<String>,
}

/// Threads and open descriptors of the process.
struct Resources {
    threads: usize,
    descriptors: usize,
}

impl Resources {
    fn now() -> Self {
        // Without /proc nothing is counted, before and after.
        let count = |path| std::fs::read_dir(path).map_or(0, Iterator::count);
        Self { threads: count("/proc/self/task"), descriptors: count("/proc/self/fd") }
    }
}

/// What is left when all clusters and clients are gone; the library keeps two threads, and idle
/// workers for a while.
fn left_over(before: &Resources) -> Option<String> {
    let started = Instant::now();
    loop {
        let now = Resources::now();
        let threads = now.threads.saturating_sub(before.threads + 2 + dfs::keeper::WORKERS);
        let descriptors = now.descriptors.saturating_sub(before.descriptors);
        if threads == 0 && descriptors == 0 {
            return None;
        }
        if started.elapsed() > Duration::from_secs(20) {
            return Some(format!("{threads} threads and {descriptors} descriptors are left"));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

impl Report {
    /// Schedules per second.
    pub fn rate(&self) -> f64 {
        self.seeds as f64 / self.time.as_secs_f64().max(1e-9)
    }
}

struct Shared<'a> {
    options: &'a Options,
    /// Next seed of each size class.
    next: [AtomicU64; SIZES.len()],
    report: Mutex<Report>,
    /// Running seeds and since when.
    running: Mutex<BTreeMap<u64, Instant>>,
    over: AtomicBool,
}

/// Runs the seeds. Prints failures and progress to standard output.
///
/// # Errors
/// When clusters cannot be started.
pub fn run(options: &Options) -> io::Result<Report> {
    let started = Instant::now();
    let before = Resources::now();
    let classes = SIZES.len() as u64;
    let first = |class: u64| {
        (options.start..options.start + classes)
            .find(|seed| Schedule::size_class(*seed) as u64 == class)
            .unwrap_or(options.start)
    };
    let shared = Shared {
        options,
        next: std::array::from_fn(|class| AtomicU64::new(first(class as u64))),
        report: Mutex::default(),
        running: Mutex::default(),
        over: AtomicBool::new(false),
    };
    let lanes = options.lanes.max(SIZES.len());
    let failed: Vec<String> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..lanes)
            .map(|lane| {
                let shared = &shared;
                scope.spawn(move || shared.work(lane % SIZES.len()))
            })
            .collect();
        let watcher = scope.spawn(|| shared.watch(started));
        let failed = workers
            .into_iter()
            .filter_map(|w| w.join().unwrap_or_else(|_| Err("a lane panicked".to_owned())).err())
            .collect();
        shared.over.store(true, Ordering::Release);
        watcher.thread().unpark();
        failed
    });
    if let Some(error) = failed.first() {
        return Err(io::Error::other(error.clone()));
    }
    let mut report = shared.report.into_inner();
    report.left = left_over(&before);
    report.time = started.elapsed();
    report.failures.sort_by_key(|f| f.seed);
    Ok(report)
}

impl Shared<'_> {
    fn take(&self, class: usize) -> Option<u64> {
        let next = self.next.get(class)?;
        let seed = next.fetch_add(SIZES.len() as u64, Ordering::Relaxed);
        (seed < self.options.start + self.options.seeds).then_some(seed)
    }

    fn work(&self, class: usize) -> Result<(), String> {
        let mut lane = None;
        while let Some(seed) = self.take(class) {
            let current = match lane.take() {
                Some(lane) => lane,
                None => Lane::start(class, seed)?,
            };
            let schedule = Schedule::new(seed);
            self.running.lock().insert(seed, Instant::now());
            let result = catch_unwind(AssertUnwindSafe(|| current.run(&schedule)));
            self.running.lock().remove(&seed);
            let outcome = match result {
                Ok(Ok(outcome)) => outcome,
                Ok(Err(e)) => Outcome { violations: vec![e], ..Outcome::default() },
                Err(_) => {
                    Outcome { violations: vec!["it panicked".to_owned()], ..Outcome::default() }
                }
            };
            // A cluster after a failure is suspect.
            if outcome.violations.is_empty() {
                lane = Some(current);
            }
            self.add(&schedule, outcome);
        }
        Ok(())
    }

    fn add(&self, schedule: &Schedule, outcome: Outcome) {
        let mut report = self.report.lock();
        report.seeds += 1;
        report.faults += outcome.faults;
        report.recoveries += outcome.recoveries;
        report.broken += u64::from(outcome.broken);
        report.reads += outcome.reads;
        report.bytes += outcome.bytes;
        report.late_ms = report.late_ms.max(outcome.late_ms);
        if outcome.violations.is_empty() {
            return;
        }
        let seed = schedule.seed;
        println!("FAILED seed {seed}; replay with --seeds 1 --start {seed}");
        for violation in &outcome.violations {
            println!("  {violation}");
        }
        println!("  {schedule:?}");
        report.failures.push(Failure { seed, violations: outcome.violations });
    }

    /// Prints progress, and ends the process when a schedule hangs: nothing else could.
    fn watch(&self, started: Instant) {
        let mut printed = Instant::now();
        while !self.over.load(Ordering::Acquire) {
            std::thread::park_timeout(Duration::from_millis(500));
            let progress = self.options.progress;
            if !progress.is_zero() && printed.elapsed() >= progress {
                printed = Instant::now();
                let report = self.report.lock();
                let rate = report.seeds as f64 / started.elapsed().as_secs_f64();
                println!(
                    "{} schedules ({rate:.1}/s), {} faults, {} recoveries, {} broken, {} failed",
                    report.seeds,
                    report.faults,
                    report.recoveries,
                    report.broken,
                    report.failures.len()
                );
                drop(report);
                let running = self.running.lock();
                let oldest = running.iter().min_by_key(|r| r.1);
                if let Some((seed, since)) = oldest.filter(|r| r.1.elapsed() > SLOW) {
                    println!("  seed {seed} has been running for {:.1?}", since.elapsed());
                }
            }
            let hanging =
                self.running.lock().iter().find(|(_, s)| s.elapsed() > HANG).map(|r| *r.0);
            if let Some(seed) = hanging {
                println!("FAILED seed {seed}: it hangs; replay with --seeds 1 --start {seed}");
                println!("  {:?}", Schedule::new(seed));
                std::process::exit(1);
            }
        }
    }
}
