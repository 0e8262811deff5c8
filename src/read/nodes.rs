//! What the readers of one file system know of its DataNodes: who failed lately, who is slow.
//!
//! Every located replica points at its node's [`Standing`], so that a read looks at a few atomics
//! and takes no lock. Whatever one stream learns serves all streams of the file system, and all
//! of it is forgotten after a time: a node that came back, or became fast again, is used again.
use crate::datanode::peer::is_local;
use crate::time::now;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// DataNodes that are remembered; beyond, those that no open file needs are forgotten.
const NODES_MAX: usize = 8192;
/// A node that broke a connection is avoided so long, ms: DataNodes close idle connections, and
/// one of many may just be overloaded.
const SUSPECT_MS: u64 = 1_000;
/// Each failure in a row doubles the time that a dead node is avoided, at most so often.
const DOUBLINGS_MAX: u32 = 5;
/// A latency counts so long, ms; then the node is as good as one never asked.
const LATENCY_MS: u64 = 30_000;
/// An average moves this fraction (1/8) towards a new sample.
const SMOOTHING: u64 = 8;
/// A wait that was given up is taken for one so many times as long.
const STILL_WAITING: u32 = 10;
/// A node is passed over for a peer when its average is more than twice the peer's and this, us:
/// below, a seek of a disk, it is not worth leaving the NameNode's order, which spreads the load.
const NOTICEABLE_US: u64 = 10_000;
/// What a node without an average is taken for, us: slow nodes make way for unknown ones.
const UNKNOWN_US: u64 = 25_000;

/// What is known of one DataNode. Shared by every reader; all methods on any thread.
#[derive(Debug)]
pub struct Standing {
    /// Time zero of the clocks below.
    epoch: Instant,
    /// The address is one of this host's.
    local: bool,
    dead_ms: u64,
    /// Averages are kept.
    ranked: bool,
    /// The node is avoided before this time, ms; 0: it is well.
    avoid_until: AtomicU64,
    /// Failures to connect or answer since it last worked.
    failures: AtomicU32,
    /// Average time to the first data, us; 0: none.
    latency_us: AtomicU64,
    /// When the average was last touched, ms.
    latency_at: AtomicU64,
}

impl Standing {
    fn new(epoch: Instant, local: bool, dead_ms: u64, ranked: bool) -> Standing {
        Standing {
            epoch,
            local,
            dead_ms,
            ranked,
            avoid_until: AtomicU64::new(0),
            failures: AtomicU32::new(0),
            latency_us: AtomicU64::new(0),
            latency_at: AtomicU64::new(0),
        }
    }

    fn now_ms(&self) -> u64 {
        // Never 0, which means "not set".
        u64::try_from(self.epoch.elapsed().as_millis()).unwrap_or(u64::MAX - 1) + 1
    }

    /// Whether the node runs on this host.
    pub fn is_local(&self) -> bool {
        self.local
    }

    /// Whether other replicas are to be tried first.
    pub fn is_avoided(&self) -> bool {
        let until = self.avoid_until.load(Ordering::Relaxed);
        until != 0 && self.now_ms() < until
    }

    /// The caller is about to use the node. If its time as a dead node has just passed, the caller
    /// finds out for everybody: others go on avoiding it meanwhile.
    pub fn probe(&self) {
        let until = self.avoid_until.load(Ordering::Relaxed);
        if until != 0 && self.failures.load(Ordering::Relaxed) > 0 && self.now_ms() >= until {
            let next = self.now_ms().saturating_add(self.dead_ms);
            // Who loses the race asks the node too, which harms nobody.
            let _ = self.avoid_until.compare_exchange(
                until,
                next,
                Ordering::Relaxed,
                Ordering::Relaxed,
            );
        }
    }

    /// The node could not be connected, or fell silent.
    pub fn on_dead(&self) {
        let before = self.failures.fetch_add(1, Ordering::Relaxed).min(DOUBLINGS_MAX);
        let time = self.dead_ms.saturating_mul(1 << before);
        self.avoid_until.store(self.now_ms().saturating_add(time), Ordering::Relaxed);
    }

    /// The node broke a connection or the protocol.
    pub fn on_suspect(&self) {
        let until = self.now_ms().saturating_add(SUSPECT_MS.min(self.dead_ms));
        self.avoid_until.fetch_max(until, Ordering::Relaxed);
    }

    /// The node sent the first data of an operation so long after the request.
    pub fn on_data(&self, latency: Duration) {
        if self.avoid_until.load(Ordering::Relaxed) != 0 {
            self.avoid_until.store(0, Ordering::Relaxed);
            self.failures.store(0, Ordering::Relaxed);
        }
        self.sample(latency);
    }

    /// The node has kept somebody waiting so long, and still does: nobody knows for how long.
    pub fn on_slow(&self, waited: Duration) {
        self.sample(waited.saturating_mul(STILL_WAITING));
    }

    fn sample(&self, latency: Duration) {
        if !self.ranked {
            return;
        }
        let sample = u64::try_from(latency.as_micros()).unwrap_or(u64::MAX).clamp(1, 1 << 40);
        let average = match self.latency_us() {
            None => sample,
            Some(old) => (old * (SMOOTHING - 1) + sample) / SMOOTHING,
        };
        // Two threads may lose a sample to each other, which an average can bear.
        self.latency_us.store(average.max(1), Ordering::Relaxed);
        self.latency_at.store(self.now_ms(), Ordering::Relaxed);
    }

    /// Average time to the first data, us, unless there is none or it is too old.
    pub fn latency_us(&self) -> Option<u64> {
        let average = self.latency_us.load(Ordering::Relaxed);
        let at = self.latency_at.load(Ordering::Relaxed);
        (average != 0 && self.now_ms().saturating_sub(at) < LATENCY_MS).then_some(average)
    }

    /// Whether the node is so much slower than an equal one that the latter is to be asked.
    pub fn is_slower_than(&self, other: &Standing) -> bool {
        let mine = self.latency_us.load(Ordering::Relaxed);
        // The usual case, before any clock is read.
        if mine <= NOTICEABLE_US {
            return false;
        }
        let Some(mine) = self.latency_us() else { return false };
        mine > other.latency_us().unwrap_or(UNKNOWN_US).saturating_mul(2).max(NOTICEABLE_US)
    }
}

/// The DataNodes that readers of one file system met.
pub struct Nodes {
    epoch: Instant,
    dead_ms: u64,
    ranked: bool,
    known: Mutex<HashMap<Box<str>, Arc<Standing>>>,
}

impl Nodes {
    /// Remembers nobody yet. `dead_ms`: how long a node is avoided after its first failure, ms.
    /// `ranked`: keep averages of latency.
    pub fn new(dead_ms: u64, ranked: bool) -> Nodes {
        Nodes { epoch: now(), dead_ms, ranked, known: Mutex::default() }
    }

    /// The standing of the node with this transfer address. `ip`: its address without the port.
    /// A system call for a new one, to see whether it is this host's.
    pub(crate) fn standing(&self, server: &str, ip: &str) -> Arc<Standing> {
        if let Some(found) = self.known.lock().get(server) {
            return Arc::clone(found);
        }
        let fresh = Standing::new(self.epoch, is_local(ip), self.dead_ms, self.ranked);
        let fresh = Arc::new(fresh);
        let mut known = self.known.lock();
        if known.len() >= NODES_MAX {
            known.retain(|_, standing| Arc::strong_count(standing) > 1);
        }
        if known.len() >= NODES_MAX {
            // Every one is in use: then this one is remembered by its own block only.
            return fresh;
        }
        Arc::clone(known.entry(server.into()).or_insert(fresh))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait_until(what: impl Fn() -> bool) {
        let begin = now();
        while !what() {
            assert!(begin.elapsed() < Duration::from_secs(10));
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn a_dead_node_is_avoided_by_all_until_its_time_has_passed() {
        let nodes = Nodes::new(30, true);
        let (one, other) = (nodes.standing("a:1", "127.0.0.1"), nodes.standing("a:1", "127.0.0.1"));
        assert!(!one.is_avoided() && one.is_local());
        one.on_dead();
        assert!(other.is_avoided());
        assert!(!nodes.standing("a:11", "192.0.2.1").is_avoided());
        wait_until(|| !other.is_avoided());
        // The first who asks again keeps the others away meanwhile.
        one.probe();
        assert!(other.is_avoided());
        one.on_data(Duration::from_micros(100));
        assert!(!other.is_avoided());
    }

    #[test]
    fn failures_in_a_row_double_the_time() {
        let nodes = Nodes::new(1_000, true);
        let node = nodes.standing("a:1", "x");
        assert!(!node.is_local());
        let mut last = 0;
        for _ in 0..DOUBLINGS_MAX + 3 {
            node.on_dead();
            let left = node.avoid_until.load(Ordering::Relaxed) - node.now_ms();
            assert!(left >= last && left <= 1_000 << DOUBLINGS_MAX, "{left}");
            last = left.saturating_sub(100);
        }
        assert!(last > 30_000);
        node.on_suspect();
        assert!(node.avoid_until.load(Ordering::Relaxed) - node.now_ms() > 30_000);
    }

    #[test]
    fn a_much_slower_node_makes_way_and_is_forgotten() {
        let nodes = Nodes::new(1_000, true);
        let (slow, fast) = (nodes.standing("a:1", "x"), nodes.standing("b:1", "x"));
        let unknown = nodes.standing("c:1", "x");
        fast.on_data(Duration::from_micros(200));
        slow.on_data(Duration::from_micros(9_000));
        assert!(!slow.is_slower_than(&fast), "below what is noticed");
        slow.on_slow(Duration::from_millis(500));
        assert!(slow.is_slower_than(&fast) && slow.is_slower_than(&unknown));
        assert!(!fast.is_slower_than(&slow) && !unknown.is_slower_than(&fast));
        slow.latency_at.store(0, Ordering::Relaxed);
        slow.latency_us.store(90_000, Ordering::Relaxed);
        let old = Standing { epoch: now() - Duration::from_millis(LATENCY_MS), ..standing() };
        old.latency_us.store(90_000, Ordering::Relaxed);
        assert_eq!(old.latency_us(), None);
        assert!(!old.is_slower_than(&fast));
        let nodes = Nodes::new(1_000, false);
        let node = nodes.standing("a:1", "x");
        node.on_data(Duration::from_secs(1));
        assert_eq!(node.latency_us(), None, "averages are turned off");
    }

    fn standing() -> Standing {
        Standing::new(now(), false, 1_000, true)
    }

    #[test]
    fn the_number_of_nodes_is_bounded() {
        let nodes = Nodes::new(1_000, true);
        let kept = nodes.standing("kept:1", "x");
        for i in 0..NODES_MAX + 10 {
            nodes.standing(&format!("n:{i}"), "x");
        }
        assert!(nodes.known.lock().len() <= NODES_MAX);
        assert!(Arc::ptr_eq(&kept, &nodes.standing("kept:1", "x")));
    }
}
