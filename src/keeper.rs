//! The background threads: `hdfs-keeper` tends idle things and never blocks on I/O, `hdfs-lease`
//! renews leases. Both start on first need, and this is the only file that spawns.
use crate::dfs_log;
use crate::sys::fork::PerProcess;
use crate::sys::thread;
use parking_lot::{Condvar, Mutex};
use std::sync::Weak;
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

/// Stops both threads and waits for them; a later registration starts them again.
pub fn shutdown() {
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
