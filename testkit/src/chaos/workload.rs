//! Runs the threads of a schedule against one file and records what was promised.
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::Scope;
use std::time::{Duration, Instant};

use dfs::client::file_system::FileSystem;
use dfs::error::{Error, Status};
use dfs::read::ReadOptions;
use dfs::time::Deadline;
use dfs::write::OutputStream;
use parking_lot::Mutex;

use super::schedule::{AMPLE_MS, Action, Schedule, Step};
use crate::data;
use crate::minidfs::{DataNode, MiniDfs, Rule};

/// What a busy machine may add to the limit of a call.
const SLACK: Duration = Duration::from_millis(2500);

/// A file while its schedule runs.
pub(super) struct Work<'a> {
    pub(super) schedule: &'a Schedule,
    pub(super) mini: &'a MiniDfs,
    pub(super) thief: &'a FileSystem,
    pub(super) path: &'a str,
    pub(super) file: &'a OutputStream,
    /// One writer at a time, so that the bytes of the file are known; flushes run beside it.
    pub(super) write_turn: Mutex<()>,
    /// File bytes that a flush has acknowledged.
    pub(super) acked: AtomicU64,
    /// Flushes that were begun and, summed over polls, told as complete.
    pub(super) begun: AtomicU64,
    pub(super) told: AtomicU64,
    pub(super) findings: &'a Findings,
}

/// Violations of the property, and figures.
#[derive(Default)]
pub(super) struct Findings {
    pub(super) violations: Mutex<Vec<String>>,
    /// Most that a call exceeded its limit by, ms.
    pub(super) late_ms: AtomicU64,
    /// The first error that broke the file.
    pub(super) broken: Mutex<Option<Error>>,
    pub(super) reads: AtomicU64,
}

impl Findings {
    pub(super) fn violation(&self, text: impl Into<String>) {
        self.violations.lock().push(text.into());
    }

    /// Runs a call with a limit and checks that it kept it.
    pub(super) fn timed<T>(&self, what: &str, ms: u64, call: impl FnOnce(Deadline) -> T) -> T {
        let started = Instant::now();
        let result = call(Deadline::after_ms(ms));
        let late = started.elapsed().saturating_sub(Duration::from_millis(ms));
        let late_ms = u64::try_from(late.as_millis()).unwrap_or(u64::MAX);
        self.late_ms.fetch_max(late_ms, Ordering::Relaxed);
        if late > SLACK {
            self.violation(format!("{what} with a limit of {ms} ms took {:?}", started.elapsed()));
        }
        result
    }

    /// Takes in the error of a call; true when the file can be used no more.
    pub(super) fn take_error(&self, what: &str, error: Error) -> bool {
        if error.is_fatal() {
            let mut broken = self.broken.lock();
            match broken.as_ref() {
                None => *broken = Some(error),
                Some(first) if first.message() != error.message() => {
                    self.violation(format!("{what}: a broken file changed its mind: {error}"));
                }
                Some(_) => {}
            }
            return true;
        }
        let below_floor = error.status() == Status::Pipeline;
        let passing = error.is_retriable() || below_floor;
        if !passing {
            self.violation(format!("{what}: neither passing nor lasting: {error:?}"));
        }
        false
    }
}

impl<'a> Work<'a> {
    /// Runs all threads; actions that take time run beside them.
    pub(super) fn run(&'a self) {
        std::thread::scope(|scope| {
            for (i, script) in self.schedule.threads.iter().enumerate().skip(1) {
                scope.spawn(move || self.run_script(i, script, scope));
            }
            if let Some(script) = self.schedule.threads.first() {
                self.run_script(0, script, scope);
            }
        });
    }

    fn run_script<'s>(&'a self, thread: usize, script: &'a [Step], scope: &'s Scope<'s, 'a>)
    where
        'a: 's,
    {
        let mut begun = None;
        for (i, step) in script.iter().enumerate() {
            let what = format!("thread {thread} step {i}");
            let over = match step {
                Step::Write { len, limit_ms } => self.write(&what, *len, *limit_ms),
                Step::Flush { mode, limit_ms } => {
                    let goal = self.file.pos();
                    let result =
                        self.findings.timed(&what, *limit_ms, |d| self.file.flush(*mode, d));
                    self.flushed(&what, goal, result)
                }
                Step::WriteAtOnce { len } => self.write_at_once(&what, *len),
                Step::Begin { sync } => self.begin(&what, *sync, &mut begun),
                Step::Wait { limit_ms } => match begun {
                    Some(goal) => {
                        let wait = |d| self.file.flush_wait(goal, d);
                        let result = self.findings.timed(&what, *limit_ms, wait);
                        self.flushed(&what, goal, result)
                    }
                    None => false,
                },
                Step::Poll => self.poll(&what),
                Step::Act(action) => {
                    self.act(action, scope);
                    false
                }
                Step::Read => {
                    self.read(&what);
                    false
                }
                Step::Sleep(time) => {
                    std::thread::sleep(*time);
                    false
                }
            };
            if over {
                return;
            }
        }
    }

    fn write(&self, what: &str, len: usize, limit_ms: u64) -> bool {
        let _turn = self.write_turn.lock();
        let before = self.file.pos();
        let bytes = data::bytes(self.schedule.seed, before, len);
        let result = self.findings.timed(what, limit_ms, |d| self.file.write(&bytes, d));
        let accepted = self.file.pos() - before;
        let whole = accepted == len as u64;
        if accepted > len as u64 || (result.is_ok() && !whole) {
            self.findings.violation(format!("{what}: {accepted} of {len} bytes were accepted"));
        }
        result.is_err_and(|e| self.findings.take_error(what, e))
    }

    fn write_at_once(&self, what: &str, len: usize) -> bool {
        let _turn = self.write_turn.lock();
        let before = self.file.pos();
        let bytes = data::bytes(self.schedule.seed, before, len);
        let result = self.findings.timed(what, 1, |_| self.file.write_at_once(&bytes));
        let accepted = self.file.pos() - before;
        match result {
            Ok(taken) => {
                if taken as u64 != accepted || taken > len {
                    let text = format!("{what}: {taken} of {len} bytes taken, in truth {accepted}");
                    self.findings.violation(text);
                }
                false
            }
            Err(error) => self.findings.take_error(what, error),
        }
    }

    fn begin(&self, what: &str, sync: bool, begun: &mut Option<u64>) -> bool {
        let least = self.file.pos();
        let mode = dfs::write::SyncMode { sync, ..Default::default() };
        // Before the call: another thread may poll in the middle of it. A call that fails may have
        // begun a flush that broke the file.
        self.begun.fetch_add(1, Ordering::Relaxed);
        match self.findings.timed(what, 1, |_| self.file.flush_begin(mode)) {
            Ok(position) => {
                if position < least {
                    self.findings
                        .violation(format!("{what}: {position} misses bytes below {least}"));
                }
                *begun = Some(position);
                false
            }
            Err(error) => self.findings.take_error(what, error),
        }
    }

    /// Completed flushes are as good as those that were waited for, and each is told once.
    pub(super) fn poll(&self, what: &str) -> bool {
        match self.findings.timed(what, 1, |_| self.file.flush_poll()) {
            Ok(progress) => {
                self.acked.fetch_max(progress.position, Ordering::Relaxed);
                let told = self.told.fetch_add(progress.completed, Ordering::Relaxed);
                let told = told + progress.completed;
                let durable = self.file.durable();
                if durable < progress.position {
                    let at = progress.position;
                    self.findings.violation(format!("{what}: {durable} of {at} bytes durable"));
                }
                if told > self.begun.load(Ordering::Relaxed) {
                    self.findings.violation(format!("{what}: more flushes completed than begun"));
                }
                false
            }
            Err(error) => self.findings.take_error(what, error),
        }
    }

    fn flushed(&self, what: &str, goal: u64, result: dfs::error::Result<()>) -> bool {
        let durable = self.file.durable();
        match result {
            Ok(()) => {
                self.acked.fetch_max(goal, Ordering::Relaxed);
                if durable < goal {
                    self.findings.violation(format!("{what}: {durable} of {goal} bytes durable"));
                }
                false
            }
            Err(error) => {
                if error.durable_bytes().is_some_and(|b| b > durable) {
                    self.findings.violation(format!("{what}: {error} says too much"));
                }
                self.findings.take_error(what, error)
            }
        }
    }

    /// Reads the open file as another client would. It may fail while nodes are away, but what it
    /// delivers must be right.
    fn read(&self, what: &str) {
        let least = self.acked.load(Ordering::Relaxed);
        let limit = AMPLE_MS;
        let got = self.findings.timed(what, limit, |d| -> dfs::error::Result<(u64, Vec<u8>)> {
            let file = self.thief.open(self.path, ReadOptions::default(), d)?;
            let mut bytes = vec![0; usize::try_from(file.len()).unwrap_or(0)];
            let n = file.pread(0, &mut bytes, d)?;
            bytes.truncate(n);
            Ok((file.len(), bytes))
        });
        let Ok((len, bytes)) = got else { return };
        self.findings.reads.fetch_add(1, Ordering::Relaxed);
        let most = self.file.pos();
        // Bytes that nobody acknowledged may be seen and vanish again when nodes restart.
        if len < least || (bytes.len() as u64) < least || len > most {
            self.findings.violation(format!(
                "{what}: a reader got {} of {len} bytes, with {least} acknowledged and {most} \
                 written",
                bytes.len()
            ));
        }
        if let Some(at) = data::mismatch(self.schedule.seed, 0, &bytes) {
            self.findings.violation(format!("{what}: a reader got a wrong byte at {at}"));
        }
    }

    fn node(&self, position: usize) -> &'a DataNode {
        let pipeline = self.file.pipeline();
        let nodes = self.mini.datanodes();
        let named = pipeline.get(position).or(pipeline.last());
        let found = named.and_then(|name| nodes.iter().find(|d| d.xfer_addr() == *name));
        found.unwrap_or(&nodes[position % nodes.len()])
    }

    fn act<'s>(&'a self, action: &'a Action, scope: &'s Scope<'s, 'a>)
    where
        'a: 's,
    {
        match action {
            Action::Rule { position, site, fault, skip, times } => {
                let node = self.node(*position).index();
                let rule = Rule::new(*site, fault.clone()).on(node).skip(*skip).times(*times);
                self.mini.faults().add(rule);
            }
            Action::Rpc { method, fault, skip, times } => {
                self.mini.faults().add(Rule::rpc(method, fault.clone()).skip(*skip).times(*times));
            }
            Action::Kill { position, restart_after } => {
                let node = self.node(*position);
                scope.spawn(move || {
                    node.kill();
                    if let Some(time) = restart_after {
                        std::thread::sleep(*time);
                        // A port that is still busy is tried again when the cluster is healed.
                        let _later = node.restart();
                    }
                });
            }
            Action::Pause { position, time } => {
                let node = self.node(*position);
                node.pause();
                scope.spawn(move || {
                    std::thread::sleep(*time);
                    node.resume();
                });
            }
            Action::Restart { position, down } => {
                let node = self.node(*position);
                scope.spawn(move || node.restart_for_upgrade(*down));
            }
            Action::DropConnections { position } => self.node(*position).drop_connections(),
            Action::Failover => self.mini.set_active(1 - self.mini.active()),
            Action::DropNameNodeConnections => self.mini.drop_namenode_connections(),
            Action::PauseNameNodes(time) => {
                self.mini.pause_namenodes(true);
                scope.spawn(move || {
                    std::thread::sleep(*time);
                    self.mini.pause_namenodes(false);
                });
            }
            Action::Steal => {
                scope.spawn(move || self.steal());
            }
        }
    }

    fn steal(&self) {
        let Ok(meta) = self.thief.metadata() else { return };
        for _ in 0..20 {
            let stolen = meta.recover_lease(self.path, Deadline::after_ms(2000));
            if stolen.unwrap_or(false) {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Distinct texts, for a report.
pub(super) fn distinct(texts: Vec<String>) -> Vec<String> {
    texts.into_iter().collect::<BTreeSet<_>>().into_iter().collect()
}
