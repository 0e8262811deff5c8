//! The background threads: `hdfs-keeper` tends idle things and never blocks on I/O, `hdfs-lease`
//! renews leases, and at most [`WORKERS`] `hdfs-work` threads do what a call that must not wait
//! leaves undone (the end of a file, a pipeline for a flush that was only begun). All start on
//! first need, workers end when idle, and this is the only file that spawns.
use crate::dfs_log;
use crate::error::{Error, Result, Status};
use crate::sys::fork::PerProcess;
use crate::sys::thread;
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// Pause between two rounds of the keeper.
const ROUND: Duration = Duration::from_millis(500);

/// Something that the keeper thread looks after about twice a second.
pub trait Tended: Send + Sync {
    /// Must not block: try locks, never wait for a network.
    fn tend(&self, now: Instant);
}

/// Something that the lease thread looks after once a second; it may block on RPCs.
pub trait Renewed: Send + Sync {
    /// Renews what is due.
    fn renew(&self, now: Instant);
}

struct Group<T: ?Sized> {
    state: Mutex<State<T>>,
    wake: Condvar,
}

struct State<T: ?Sized> {
    items: Vec<Weak<T>>,
    running: bool,
    stopping: bool,
    handle: Option<std::thread::JoinHandle<()>>,
}

impl<T: ?Sized + Send + Sync + 'static> Group<T> {
    fn new() -> Group<T> {
        Group {
            state: Mutex::new(State {
                items: Vec::new(),
                running: false,
                stopping: false,
                handle: None,
            }),
            wake: Condvar::new(),
        }
    }

    fn register(&'static self, item: Weak<T>, name: &'static str, round: Duration, visit: fn(&T)) {
        let mut state = self.state.lock();
        // Dead entries are swept each round; sweeping here too keeps a burst of short-lived items
        // from piling up between two rounds.
        if state.items.len() == state.items.capacity() {
            state.items.retain(|item| item.strong_count() > 0);
        }
        state.items.push(item);
        if state.running {
            if state.items.len() == 1 {
                self.wake.notify_all();
            }
            return;
        }
        state.stopping = false;
        match thread::spawn(name, move || self.run(round, visit)) {
            Ok(handle) => {
                state.running = true;
                state.handle = Some(handle);
            }
            Err(e) => dfs_log!(Error, "the thread {name} cannot be started: {e}"),
        }
    }

    fn run(&self, round: Duration, visit: fn(&T)) {
        let mut visiting = Vec::new();
        loop {
            {
                let mut state = self.state.lock();
                if state.stopping {
                    state.running = false;
                    return;
                }
                if state.items.is_empty() {
                    self.wake.wait(&mut state);
                } else {
                    self.wake.wait_for(&mut state, round);
                }
                state.items.retain(|item| item.strong_count() > 0);
                visiting.extend(state.items.iter().filter_map(Weak::upgrade));
            }
            // Visited without the lock: a visit may end the last reference and so run a drop.
            for item in visiting.drain(..) {
                visit(&item);
            }
        }
    }

    fn stop(&self) {
        let handle = {
            let mut state = self.state.lock();
            state.stopping = true;
            state.items.clear();
            state.handle.take()
        };
        self.wake.notify_all();
        if let Some(handle) = handle
            && handle.join().is_err()
        {
            dfs_log!(Error, "a background thread ended with a panic");
        }
    }
}

/// Most worker threads of the process.
pub const WORKERS: usize = 4;
/// How long a worker without work stays.
const WORKER_IDLE: Duration = Duration::from_secs(10);

/// Work for a worker thread: it may block within limits of its own.
pub type Task = Box<dyn FnOnce() + Send>;

/// Kinds of work. None may take all workers: files that hang on a DataNode must not keep others
/// from being closed, nor the reverse.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// The end of a file; as long as its caller allows.
    Close,
    /// A step of a file that is being written; seconds at most.
    Step,
}

/// The worker threads and what waits for them.
struct Work {
    state: Mutex<WorkState>,
    wake: Condvar,
}

/// What there is of one [`Kind`].
struct Line {
    waiting: VecDeque<Task>,
    running: usize,
    /// Tasks that run at once.
    most: usize,
}

impl Line {
    fn new(most: usize) -> Line {
        Line { waiting: VecDeque::new(), running: 0, most }
    }

    /// Tasks that may begin now.
    fn ready(&self) -> usize {
        self.waiting.len().min(self.most - self.running)
    }
}

struct WorkState {
    close: Line,
    step: Line,
    threads: usize,
    idle: usize,
    stopping: bool,
    handles: Vec<std::thread::JoinHandle<()>>,
}

impl WorkState {
    fn line(&mut self, kind: Kind) -> &mut Line {
        match kind {
            Kind::Close => &mut self.close,
            Kind::Step => &mut self.step,
        }
    }

    fn ready(&self) -> usize {
        self.close.ready() + self.step.ready()
    }

    /// The oldest task of the kind that has fewer running.
    fn take(&mut self) -> Option<(Kind, Task)> {
        let close_first = self.close.running <= self.step.running;
        let kinds = if close_first { [Kind::Close, Kind::Step] } else { [Kind::Step, Kind::Close] };
        let kind = kinds.into_iter().find(|kind| self.line(*kind).ready() > 0)?;
        let line = self.line(kind);
        let task = line.waiting.pop_front()?;
        line.running += 1;
        Some((kind, task))
    }
}

impl Work {
    fn new() -> Arc<Work> {
        Arc::new(Work {
            state: Mutex::new(WorkState {
                close: Line::new(WORKERS - 1),
                step: Line::new(WORKERS / 2),
                threads: 0,
                idle: 0,
                stopping: false,
                handles: Vec::new(),
            }),
            wake: Condvar::new(),
        })
    }

    fn submit(self: &Arc<Work>, kind: Kind, task: Task) -> Result<()> {
        let mut state = self.state.lock();
        state.line(kind).waiting.push_back(task);
        if state.idle >= state.ready() || state.threads >= WORKERS {
            self.wake.notify_one();
            return Ok(());
        }
        let work = Arc::clone(self);
        match thread::spawn("hdfs-work", move || work.run()) {
            Ok(handle) => {
                state.handles.retain(|h| !h.is_finished());
                state.handles.push(handle);
                state.threads += 1;
                Ok(())
            }
            // Another worker will come to it.
            Err(_) if state.threads > 0 => Ok(()),
            Err(e) => {
                state.line(kind).waiting.pop_back();
                let text = format!("a worker thread cannot be started: {e}");
                Err(Error::new(Status::Io, text))
            }
        }
    }

    fn run(&self) {
        let mut state = self.state.lock();
        loop {
            if let Some((kind, task)) = state.take() {
                drop(state);
                // A worker outlives the panic of a task, as a caller's thread would.
                if std::panic::catch_unwind(std::panic::AssertUnwindSafe(task)).is_err() {
                    dfs_log!(Error, "a task of the thread hdfs-work panicked");
                }
                state = self.state.lock();
                state.line(kind).running -= 1;
                continue;
            }
            if state.stopping {
                break;
            }
            state.idle += 1;
            let timed_out = self.wake.wait_for(&mut state, WORKER_IDLE).timed_out();
            state.idle -= 1;
            if timed_out && state.ready() == 0 {
                break;
            }
        }
        state.threads -= 1;
    }

    /// Does what is queued and ends the threads.
    fn stop(&self) {
        let handles = {
            let mut state = self.state.lock();
            state.stopping = true;
            std::mem::take(&mut state.handles)
        };
        self.wake.notify_all();
        for handle in handles {
            if handle.join().is_err() {
                dfs_log!(Error, "a worker thread ended with a panic");
            }
        }
        self.state.lock().stopping = false;
    }
}

static WORK: PerProcess<Arc<Work>> = PerProcess::new();

/// Has a worker thread run `task` as soon as one is free; tasks of a kind begin in order.
///
/// # Errors
/// `Io` when there is no worker and none can be started; the task is dropped.
pub fn submit(kind: Kind, task: Task) -> Result<()> {
    WORK.get(Work::new).submit(kind, task)
}

static KEEPER: PerProcess<Group<dyn Tended>> = PerProcess::new();
static LEASE: PerProcess<Group<dyn Renewed>> = PerProcess::new();

/// Has `item` tended for as long as it lives.
pub fn register(item: Weak<dyn Tended>) {
    KEEPER
        .get(Group::new)
        .register(item, "hdfs-keeper", ROUND, |item| item.tend(crate::time::now()));
}

/// Has the leases of `item` renewed for as long as it lives.
pub fn register_renewed(item: Weak<dyn Renewed>) {
    let second = Duration::from_secs(1);
    LEASE
        .get(Group::new)
        .register(item, "hdfs-lease", second, |item| item.renew(crate::time::now()));
}

/// Stops all threads and waits for them; a later need starts them again. Tasks that wait for a
/// worker are done first.
pub fn shutdown() {
    WORK.get(Work::new).stop();
    KEEPER.get(Group::new).stop();
    LEASE.get(Group::new).stop();
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    struct Counter(AtomicU32);

    impl Tended for Counter {
        fn tend(&self, _now: Instant) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn tasks_run_on_few_threads_and_survive_a_panic() {
        let work = Work::new();
        let done = Arc::new(AtomicU32::new(0));
        for i in 0..50 {
            let done = Arc::clone(&done);
            let task = move || {
                std::thread::sleep(Duration::from_millis(1));
                done.fetch_add(1, Ordering::Relaxed);
                assert!(i % 10 != 3, "wanted");
            };
            let kind = if i % 2 == 0 { Kind::Close } else { Kind::Step };
            work.submit(kind, Box::new(task)).unwrap();
            assert!(work.state.lock().threads <= WORKERS);
        }
        work.stop();
        assert_eq!(done.load(Ordering::Relaxed), 50);
        assert_eq!(work.state.lock().threads, 0);
    }

    #[test]
    fn work_of_one_kind_that_hangs_leaves_workers_for_the_other() {
        let work = Work::new();
        for (hanging, other) in [(Kind::Step, Kind::Close), (Kind::Close, Kind::Step)] {
            let (release, hang) = std::sync::mpsc::channel::<()>();
            let hang = Arc::new(Mutex::new(hang));
            for _ in 0..10 {
                let hang = Arc::clone(&hang);
                // Ends when the sender is dropped.
                let task = move || assert!(hang.lock().recv().is_err());
                work.submit(hanging, Box::new(task)).unwrap();
            }
            let (done, ended) = std::sync::mpsc::channel();
            work.submit(other, Box::new(move || done.send(()).unwrap())).unwrap();
            ended.recv_timeout(Duration::from_secs(20)).expect("the other kind goes on");
            drop(release);
        }
        work.stop();
    }

    #[test]
    fn items_are_tended_until_they_die() {
        let item = Arc::new(Counter(AtomicU32::new(0)));
        let weak = Arc::downgrade(&item);
        register(weak.clone());
        let started = crate::time::now();
        while item.0.load(Ordering::Relaxed) < 2 {
            assert!(started.elapsed() < Duration::from_secs(20), "the keeper does not run");
            std::thread::sleep(Duration::from_millis(10));
        }
        drop(item);
        while weak.upgrade().is_some() {
            assert!(started.elapsed() < Duration::from_secs(20));
        }
    }
}
