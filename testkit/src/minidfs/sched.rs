//! The cluster's one timer thread: block reports, commands to DataNodes, lease checks.
use std::cmp::Ordering as Order;
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

type Task = Box<dyn FnOnce() + Send>;

struct Entry {
    at: Instant,
    order: u64,
    task: Task,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Order::Equal
    }
}
impl Eq for Entry {}
impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Order> {
        Some(self.cmp(other))
    }
}
impl Ord for Entry {
    /// The heap gives its greatest element first, so the earliest time is the greatest.
    fn cmp(&self, other: &Self) -> Order {
        (other.at, other.order).cmp(&(self.at, self.order))
    }
}

#[derive(Default)]
struct Queue {
    tasks: BinaryHeap<Entry>,
    order: u64,
    stopped: bool,
}

#[derive(Default)]
struct Inner {
    queue: Mutex<Queue>,
    changed: Condvar,
}

/// Runs tasks at their time, one after the other.
pub(crate) struct Scheduler {
    inner: Arc<Inner>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Scheduler {
    pub(crate) fn start() -> std::io::Result<Self> {
        let inner = Arc::new(Inner::default());
        let seen = Arc::clone(&inner);
        let thread = std::thread::Builder::new()
            .name("minidfs-timer".to_owned())
            .spawn(move || seen.run())?;
        Ok(Self { inner, thread: Mutex::new(Some(thread)) })
    }

    pub(crate) fn after(&self, delay: Duration, task: impl FnOnce() + Send + 'static) {
        let mut queue = self.inner.queue.lock();
        if queue.stopped {
            return;
        }
        queue.order += 1;
        let entry = Entry { at: Instant::now() + delay, order: queue.order, task: Box::new(task) };
        queue.tasks.push(entry);
        self.inner.changed.notify_one();
    }

    /// Drops what is waiting and ends the thread.
    pub(crate) fn stop(&self) {
        let waiting = {
            let mut queue = self.inner.queue.lock();
            queue.stopped = true;
            self.inner.changed.notify_one();
            std::mem::take(&mut queue.tasks)
        };
        drop(waiting);
        let thread = self.thread.lock().take();
        if let Some(thread) = thread
            && thread.thread().id() != std::thread::current().id()
        {
            let _panicked = thread.join();
        }
    }
}

impl Inner {
    fn run(&self) {
        let mut queue = self.queue.lock();
        while !queue.stopped {
            let Some(next) = queue.tasks.peek().map(|e| e.at) else {
                self.changed.wait(&mut queue);
                continue;
            };
            if next > Instant::now() {
                self.changed.wait_until(&mut queue, next);
                continue;
            }
            if let Some(entry) = queue.tasks.pop() {
                drop(queue);
                (entry.task)();
                queue = self.queue.lock();
            }
        }
    }
}
