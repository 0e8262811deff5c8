//! Runs many seeds on several lanes at once.
use std::collections::BTreeMap;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::lane::{Lane, Outcome};
use super::schedule::Schedule;

/// A schedule that takes longer than this hangs: its calls have limits far below.
const HANG: Duration = Duration::from_secs(300);

/// What to run.
#[derive(Clone, Debug)]
pub struct Options {
    /// First seed.
    pub start: u64,
    /// Number of seeds.
    pub seeds: u64,
    /// Clusters that work at once.
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
    /// Calls of readers.
    pub calls: u64,
    /// Calls that failed as they may: short of time, or no DataNode was spared.
    pub errors: u64,
    /// Bytes that were compared.
    pub bytes: u64,
    /// Failures of replicas that readers got over.
    pub failovers: u64,
    /// Second requests because of late ones.
    pub hedged: u64,
    /// Replicas whose data did not match its checksums.
    pub checksum_failures: u64,
    /// Most that a call exceeded its limit by, ms: the load of the machine, if all is well.
    pub late_ms: u64,
    /// Time that the run took.
    pub time: Duration,
    /// Threads and descriptors that were not there before, if any.
    pub left: Option<String>,
}

impl Report {
    /// Schedules per second.
    pub fn rate(&self) -> f64 {
        self.seeds as f64 / self.time.as_secs_f64().max(1e-9)
    }
}

/// Threads and open descriptors of the process.
fn resources() -> (usize, usize) {
    // Without /proc nothing is counted, before and after.
    let count = |path| std::fs::read_dir(path).map_or(0, Iterator::count);
    (count("/proc/self/task"), count("/proc/self/fd"))
}

/// What is left when all clusters and clients are gone; the library keeps two threads.
fn left_over(before: (usize, usize)) -> Option<String> {
    let started = Instant::now();
    loop {
        let now = resources();
        let threads = now.0.saturating_sub(before.0 + 2);
        let descriptors = now.1.saturating_sub(before.1);
        if threads == 0 && descriptors == 0 {
            return None;
        }
        if started.elapsed() > Duration::from_secs(20) {
            return Some(format!("{threads} threads and {descriptors} descriptors are left"));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

struct Shared<'a> {
    options: &'a Options,
    next: AtomicU64,
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
    let (started, before) = (Instant::now(), resources());
    let shared = Shared {
        options,
        next: AtomicU64::new(options.start),
        report: Mutex::default(),
        running: Mutex::default(),
        over: AtomicBool::new(false),
    };
    let failed: Vec<String> = std::thread::scope(|scope| {
        let workers: Vec<_> =
            (0..options.lanes.max(1)).map(|_| scope.spawn(|| shared.work())).collect();
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
    report.left = left_over(before);
    report.time = started.elapsed();
    report.failures.sort_by_key(|f| f.seed);
    Ok(report)
}

impl Shared<'_> {
    fn work(&self) -> Result<(), String> {
        let mut lane = None;
        loop {
            let seed = self.next.fetch_add(1, Ordering::Relaxed);
            if seed >= self.options.start + self.options.seeds {
                return Ok(());
            }
            let current = match lane.take() {
                Some(lane) => lane,
                None => Lane::start(seed)?,
            };
            let schedule = Schedule::new(seed);
            self.running.lock().insert(seed, Instant::now());
            let result = catch_unwind(AssertUnwindSafe(|| current.run(&schedule)));
            self.running.lock().remove(&seed);
            let failed = |why: String| Outcome { violations: vec![why], ..Outcome::default() };
            let outcome = match result {
                Ok(Ok(outcome)) => outcome,
                Ok(Err(e)) => failed(e),
                Err(_) => failed("it panicked".to_owned()),
            };
            // A cluster after a failure is suspect.
            if outcome.violations.is_empty() {
                lane = Some(current);
            }
            self.add(&schedule, outcome);
        }
    }

    fn add(&self, schedule: &Schedule, outcome: Outcome) {
        let mut report = self.report.lock();
        report.seeds += 1;
        report.calls += outcome.calls;
        report.errors += outcome.errors;
        report.bytes += outcome.bytes;
        report.failovers += outcome.failovers;
        report.hedged += outcome.hedged;
        report.checksum_failures += outcome.checksum_failures;
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
                    "{} schedules ({rate:.1}/s), {} calls, {} failovers, {} hedged, {} failed",
                    report.seeds,
                    report.calls,
                    report.failovers,
                    report.hedged,
                    report.failures.len()
                );
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
