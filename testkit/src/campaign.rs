//! Runs many seeded schedules on several clusters at once: what `chaos` and `chaos_read` have in
//! common.
use std::collections::BTreeMap;
use std::fmt::{Debug, Display};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// A schedule that takes longer than this hangs: its calls have limits far below.
const HANG: Duration = Duration::from_secs(300);
/// A schedule that runs this long is named with the progress.
const SLOW: Duration = Duration::from_secs(5);

/// What is run.
pub trait Campaign {
    /// What happens, made from a seed.
    type Schedule: Debug;
    /// A cluster that runs one schedule after the other.
    type Lane;
    /// What schedules did, also summed up; printed with the progress and at the end.
    type Counts: Default + Clone + Debug + Display + Send;

    /// Name of the program.
    const NAME: &'static str;
    /// Lanes unless others are asked for.
    const LANES: usize;
    /// Kinds of lanes; a seed runs on the kind at its remainder. At least one of each is made.
    const KINDS: usize;

    /// The schedule of a seed, always the same.
    fn schedule(seed: u64) -> Self::Schedule;

    /// Starts a lane of a kind; `seed` is the first that it will run.
    ///
    /// # Errors
    /// Why there is no cluster.
    fn start(kind: usize, seed: u64) -> Result<Self::Lane, String>;

    /// Runs a schedule; returns the violations of the property.
    ///
    /// # Errors
    /// When the cluster is unfit for use; the schedule then counts as failed.
    fn run(
        lane: &Self::Lane,
        schedule: &Self::Schedule,
    ) -> Result<(Vec<String>, Self::Counts), String>;

    /// Adds what one schedule did to the sum.
    fn add(sum: &mut Self::Counts, one: &Self::Counts);
}

/// How much to run.
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
pub struct Report<C> {
    /// Failed schedules, by seed.
    pub failures: Vec<Failure>,
    /// Schedules that ran.
    pub seeds: u64,
    /// What they did.
    pub counts: C,
    /// Time that the run took.
    pub time: Duration,
    /// Threads and descriptors that were not there before, if any.
    pub left: Option<String>,
}

impl<C> Report<C> {
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

/// What is left when all clusters and clients are gone; the library keeps two threads, and idle
/// workers for a while.
fn left_over(before: (usize, usize)) -> Option<String> {
    let started = Instant::now();
    loop {
        let now = resources();
        let threads = now.0.saturating_sub(before.0 + 2 + dfs::keeper::WORKERS);
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

struct Shared<'a, C: Campaign> {
    options: &'a Options,
    /// Next seed of each kind of lane.
    next: Vec<AtomicU64>,
    report: Mutex<Report<C::Counts>>,
    /// Running seeds and since when.
    running: Mutex<BTreeMap<u64, Instant>>,
    over: AtomicBool,
}

/// Runs the seeds. Prints failures and progress to standard output.
///
/// # Errors
/// When clusters cannot be started.
pub fn run<C: Campaign>(options: &Options) -> io::Result<Report<C::Counts>> {
    let (started, before) = (Instant::now(), resources());
    let kinds = C::KINDS as u64;
    // The first seed whose remainder is the kind.
    let first = |kind: u64| options.start + (kind + kinds - options.start % kinds) % kinds;
    let shared = Shared::<C> {
        options,
        next: (0..kinds).map(|kind| AtomicU64::new(first(kind))).collect(),
        report: Mutex::default(),
        running: Mutex::default(),
        over: AtomicBool::new(false),
    };
    let lanes = options.lanes.max(C::KINDS);
    let failed: Vec<String> = std::thread::scope(|scope| {
        let shared = &shared;
        let workers: Vec<_> =
            (0..lanes).map(|lane| scope.spawn(move || shared.work(lane % C::KINDS))).collect();
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

impl<C: Campaign> Shared<'_, C> {
    fn take(&self, kind: usize) -> Option<u64> {
        let seed = self.next.get(kind)?.fetch_add(C::KINDS as u64, Ordering::Relaxed);
        (seed < self.options.start + self.options.seeds).then_some(seed)
    }

    fn work(&self, kind: usize) -> Result<(), String> {
        let mut lane = None;
        while let Some(seed) = self.take(kind) {
            let current = match lane.take() {
                Some(lane) => lane,
                None => C::start(kind, seed)?,
            };
            let schedule = C::schedule(seed);
            self.running.lock().insert(seed, Instant::now());
            let result = catch_unwind(AssertUnwindSafe(|| C::run(&current, &schedule)));
            self.running.lock().remove(&seed);
            let failed = |why: String| (vec![why], C::Counts::default());
            let (violations, counts) = match result {
                Ok(outcome) => outcome.unwrap_or_else(failed),
                Err(_) => failed("it panicked".to_owned()),
            };
            // A cluster after a failure is suspect.
            if violations.is_empty() {
                lane = Some(current);
            }
            self.add(seed, &schedule, violations, &counts);
        }
        Ok(())
    }

    fn add(&self, seed: u64, schedule: &C::Schedule, violations: Vec<String>, counts: &C::Counts) {
        let mut report = self.report.lock();
        report.seeds += 1;
        C::add(&mut report.counts, counts);
        if violations.is_empty() {
            return;
        }
        println!("FAILED seed {seed}; replay with --seeds 1 --start {seed}");
        for violation in &violations {
            println!("  {violation}");
        }
        println!("  {schedule:?}");
        report.failures.push(Failure { seed, violations });
    }

    /// Prints progress, and ends the process when a schedule hangs: nothing else could.
    fn watch(&self, started: Instant) {
        let mut printed = Instant::now();
        while !self.over.load(Ordering::Acquire) {
            std::thread::park_timeout(Duration::from_millis(500));
            let progress = self.options.progress;
            if !progress.is_zero() && printed.elapsed() >= progress {
                printed = Instant::now();
                self.print_progress(started);
            }
            let hanging =
                self.running.lock().iter().find(|(_, s)| s.elapsed() > HANG).map(|r| *r.0);
            if let Some(seed) = hanging {
                println!("FAILED seed {seed}: it hangs; replay with --seeds 1 --start {seed}");
                println!("  {:?}", C::schedule(seed));
                std::process::exit(1);
            }
        }
    }

    fn print_progress(&self, started: Instant) {
        let report = self.report.lock().clone();
        let rate = report.seeds as f64 / started.elapsed().as_secs_f64();
        let failed = report.failures.len();
        println!("{} schedules ({rate:.1}/s), {failed} failed: {}", report.seeds, report.counts);
        let running = self.running.lock();
        let oldest = running.iter().min_by_key(|r| r.1);
        if let Some((seed, since)) = oldest.filter(|r| r.1.elapsed() > SLOW) {
            println!("  seed {seed} has been running for {:.1?}", since.elapsed());
        }
    }
}

fn usage<C: Campaign>() -> String {
    format!(
        "usage: {} [--seeds N] [--start N] [--lanes N]\n\n  \
         --seeds N   number of schedules (1000)\n  \
         --start N   first seed (0)\n  \
         --lanes N   clusters that work at once ({})\n  \
         --show N    prints the schedule of seed N and runs nothing",
        C::NAME,
        C::LANES
    )
}

/// What the command line asks for.
enum Asked {
    Help,
    Show(u64),
    Run(Options),
}

fn parse<C: Campaign>(mut args: impl Iterator<Item = String>) -> Result<Asked, String> {
    let progress = Duration::from_secs(10);
    let mut options = Options { start: 0, seeds: 1000, lanes: C::LANES, progress };
    while let Some(name) = args.next() {
        if name == "--help" {
            return Ok(Asked::Help);
        }
        let value = args.next().ok_or_else(|| format!("{name} needs a value"))?;
        let number: u64 = value.parse().map_err(|e| format!("{name} {value}: {e}"))?;
        match name.as_str() {
            "--show" => return Ok(Asked::Show(number)),
            "--seeds" => options.seeds = number,
            "--start" => options.start = number,
            "--lanes" => options.lanes = usize::try_from(number).unwrap_or(usize::MAX).min(256),
            _ => return Err(format!("unknown option {name}\n{}", usage::<C>())),
        }
    }
    Ok(Asked::Run(options))
}

/// The program of a campaign: 0 when all is well, 1 for a violation, 2 when it could not run.
pub fn main<C: Campaign>() -> ExitCode {
    let cannot = |error: &dyn Display| {
        eprintln!("{}: {error}", C::NAME);
        ExitCode::from(2)
    };
    let options = match parse::<C>(std::env::args().skip(1)) {
        Ok(Asked::Run(options)) => options,
        Ok(Asked::Help) => {
            println!("{}", usage::<C>());
            return ExitCode::SUCCESS;
        }
        Ok(Asked::Show(seed)) => {
            println!("{:#?}", C::schedule(seed));
            return ExitCode::SUCCESS;
        }
        Err(message) => return cannot(&message),
    };
    let report = match run::<C>(&options) {
        Ok(report) => report,
        Err(e) => return cannot(&e),
    };
    println!(
        "{} schedules in {:.1} s ({:.1}/s): {}",
        report.seeds,
        report.time.as_secs_f64(),
        report.rate(),
        report.counts
    );
    if let Some(left) = &report.left {
        println!("FAILED: {left}");
    }
    if report.failures.is_empty() {
        return if report.left.is_some() { ExitCode::FAILURE } else { ExitCode::SUCCESS };
    }
    let seeds: Vec<String> = report.failures.iter().map(|f| f.seed.to_string()).collect();
    println!("{} failed: seeds {}", seeds.len(), seeds.join(" "));
    ExitCode::FAILURE
}
