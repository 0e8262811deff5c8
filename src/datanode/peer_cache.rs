//! Idle connections to DataNodes, kept for the next read.
//!
//! One cache per file system. The key is the DataNode's transfer address; the newest connection of
//! a node is handed out first, since it is the one that the DataNode closes last. Shards keep
//! different DataNodes off each other's lock. A warm take and put move a box between a list and
//! the caller and allocate nothing. Sockets are closed outside the locks.
use super::peer::Peer;
use crate::conf::client_config::ClientConfig;
use crate::time::now;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const SHARDS: usize = 16;
/// Largest number of connections that one put makes room for, so that closing stays bounded.
const EVICT_MAX: usize = 2;
/// A connection that was put back so recently is handed out without a look at it: the DataNode can
/// hardly have closed it, and a reader forgives one that it has.
const FRESH: Duration = Duration::from_millis(100);
/// A node without connections is forgotten after this many lifetimes of a connection.
const FORGET_LIFETIMES: u32 = 20;

struct Idle {
    peer: Box<Peer>,
    since: Instant,
}

struct Node {
    /// Oldest first; taken from the end.
    idle: Vec<Idle>,
    used: Instant,
}

#[derive(Default)]
struct Shard {
    nodes: HashMap<Box<str>, Node>,
}

/// Counters of a cache since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PeerCacheStats {
    /// Connections in the cache now.
    pub idle: u64,
    /// Takes that found a usable connection.
    pub hits: u64,
    /// Takes that found none.
    pub misses: u64,
    /// Connections that were too old, closed by the DataNode or had stray bytes.
    pub stale: u64,
    /// Connections closed to make room.
    pub evicted: u64,
}

/// The cache; `Sync`, any thread, never waits for the network.
pub struct PeerCache {
    shards: [Mutex<Shard>; SHARDS],
    hasher: RandomState,
    capacity: usize,
    expiry: Duration,
    idle: AtomicUsize,
    hits: AtomicU64,
    misses: AtomicU64,
    stale: AtomicU64,
    evicted: AtomicU64,
}

impl PeerCache {
    /// A cache with the limits of `dfs.client.socketcache.capacity` (connections in all; 0: none
    /// are kept) and `dfs.client.socketcache.expiryMsec`. The latter must be below the DataNode's
    /// `dfs.datanode.socket.reuse.keepalive` (4000 ms), or reads meet closed connections.
    pub fn new(config: &ClientConfig) -> PeerCache {
        PeerCache::with_limits(config.socketcache_capacity, config.socketcache_expiry_ms)
    }

    /// A cache of at most `capacity` connections, each usable for `expiry_ms` after its last use.
    pub fn with_limits(capacity: usize, expiry_ms: u64) -> PeerCache {
        PeerCache {
            shards: std::array::from_fn(|_| Mutex::default()),
            hasher: RandomState::new(),
            capacity,
            expiry: Duration::from_millis(expiry_ms),
            idle: AtomicUsize::new(0),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
            stale: AtomicU64::new(0),
            evicted: AtomicU64::new(0),
        }
    }

    fn shard(&self, server: &str) -> &Mutex<Shard> {
        // A remainder of SHARDS is always a valid index.
        &self.shards[self.hasher.hash_one(server) as usize % SHARDS]
    }

    /// The newest usable connection to `server` (a transfer address), which then is the caller's.
    /// Connections that turn out to be too old or dead are closed on the way.
    pub fn take(&self, server: &str) -> Option<Box<Peer>> {
        loop {
            let Some((peer, since)) = self.pop(server) else {
                self.misses.fetch_add(1, Ordering::Relaxed);
                return None;
            };
            let age = since.elapsed();
            // The probe runs outside the lock: it is a system call.
            if age < self.expiry && (age < FRESH || peer.socket.is_idle_alive()) {
                self.hits.fetch_add(1, Ordering::Relaxed);
                return Some(peer);
            }
            self.stale.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn pop(&self, server: &str) -> Option<(Box<Peer>, Instant)> {
        let mut shard = self.shard(server).lock();
        let idle = shard.nodes.get_mut(server)?.idle.pop()?;
        drop(shard);
        self.idle.fetch_sub(1, Ordering::Relaxed);
        Some((idle.peer, idle.since))
    }

    /// Keeps a connection on which the last operation ended cleanly, its status sent.
    pub fn put(&self, peer: Box<Peer>) {
        if self.capacity == 0 || self.expiry.is_zero() {
            return;
        }
        for _ in 0..EVICT_MAX {
            if self.idle.load(Ordering::Relaxed) < self.capacity {
                break;
            }
            self.evict_one(&peer.server);
        }
        let since = now();
        let mut shard = self.shard(&peer.server).lock();
        if let Some(node) = shard.nodes.get_mut(&*peer.server) {
            node.idle.push(Idle { peer, since });
            node.used = since;
        } else {
            let key = peer.server.clone();
            let node = Node { idle: vec![Idle { peer, since }], used: since };
            shard.nodes.insert(key, node);
        }
        self.idle.fetch_add(1, Ordering::Relaxed);
    }

    /// Closes the oldest connection of the shard of `server`, or of another shard.
    fn evict_one(&self, server: &str) {
        let own = std::iter::once(self.shard(server));
        for shard in own.chain(self.shards.iter()) {
            let mut shard = shard.lock();
            let oldest = shard
                .nodes
                .values_mut()
                .filter(|node| !node.idle.is_empty())
                .min_by_key(|node| node.idle.first().map(|idle| idle.since));
            let Some(node) = oldest else { continue };
            let victim = node.idle.remove(0);
            drop(shard);
            self.idle.fetch_sub(1, Ordering::Relaxed);
            self.evicted.fetch_add(1, Ordering::Relaxed);
            drop(victim);
            return;
        }
    }

    /// Closes what is past its lifetime; for the keeper thread.
    pub fn expire_idle(&self) {
        let forget = self.expiry.saturating_mul(FORGET_LIFETIMES);
        for shard in &self.shards {
            let mut old = Vec::new();
            let mut shard = shard.lock();
            shard.nodes.retain(|_, node| {
                // Oldest first, so what is past its lifetime is a prefix.
                let count = node.idle.iter().take_while(|i| i.since.elapsed() >= self.expiry);
                let count = count.count();
                old.extend(node.idle.drain(..count));
                !node.idle.is_empty() || node.used.elapsed() < forget
            });
            drop(shard);
            self.idle.fetch_sub(old.len(), Ordering::Relaxed);
            self.stale.fetch_add(old.len() as u64, Ordering::Relaxed);
        }
    }

    /// Closes every idle connection.
    pub fn clear(&self) {
        for shard in &self.shards {
            let nodes = std::mem::take(&mut shard.lock().nodes);
            let count = nodes.values().map(|node| node.idle.len()).sum();
            self.idle.fetch_sub(count, Ordering::Relaxed);
        }
    }

    /// The counters.
    pub fn stats(&self) -> PeerCacheStats {
        PeerCacheStats {
            idle: self.idle.load(Ordering::Relaxed) as u64,
            hits: self.hits.load(Ordering::Relaxed),
            misses: self.misses.load(Ordering::Relaxed),
            stale: self.stale.load(Ordering::Relaxed),
            evicted: self.evicted.load(Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::socket::{READABLE, Socket, SocketOptions};
    use crate::time::Deadline;
    use std::net::{TcpListener, TcpStream};

    fn peer(server: &str) -> (Box<Peer>, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let socket =
            Socket::connect(&addr, SocketOptions::default(), Deadline::after_ms(2000)).unwrap();
        (Box::new(Peer { socket, server: server.into() }), listener.accept().unwrap().0)
    }

    #[test]
    fn the_newest_is_taken_first_and_nodes_are_kept_apart() {
        let cache = PeerCache::with_limits(8, 60_000);
        let (a, _a) = peer("a:1");
        let (b, _b) = peer("a:1");
        let (first, second) = (a.socket.raw(), b.socket.raw());
        cache.put(a);
        cache.put(b);
        assert!(cache.take("b:1").is_none());
        assert_eq!(cache.take("a:1").unwrap().socket.raw(), second);
        assert_eq!(cache.take("a:1").unwrap().socket.raw(), first);
        assert!(cache.take("a:1").is_none());
        let stats = cache.stats();
        assert_eq!((stats.idle, stats.hits, stats.misses, stats.stale), (0, 2, 2, 0));
    }

    #[test]
    fn a_closed_connection_is_not_handed_out() {
        let cache = PeerCache::with_limits(8, 60_000);
        let (good, _keep) = peer("a:1");
        let (closed, other) = peer("a:1");
        let raw = good.socket.raw();
        cache.put(good);
        drop(other);
        closed.socket.poll(READABLE, Deadline::after_ms(1000)).unwrap();
        cache.put(closed);
        std::thread::sleep(FRESH);
        assert_eq!(cache.take("a:1").unwrap().socket.raw(), raw);
        assert_eq!(cache.stats().stale, 1);
    }

    #[test]
    fn the_capacity_evicts_the_oldest_also_of_other_nodes() {
        let cache = PeerCache::with_limits(2, 60_000);
        let mut ends = Vec::new();
        for server in ["a:1", "b:1", "c:1"] {
            let (p, end) = peer(server);
            ends.push(end);
            cache.put(p);
        }
        let stats = cache.stats();
        assert_eq!((stats.idle, stats.evicted), (2, 1));
        assert!(cache.take("c:1").is_some());
        cache.clear();
        assert_eq!(cache.stats().idle, 0);
        let off = PeerCache::with_limits(0, 60_000);
        let (p, _end) = peer("a:1");
        off.put(p);
        assert!(off.take("a:1").is_none());
    }

    #[test]
    fn lifetimes_end() {
        let cache = PeerCache::with_limits(8, 1);
        let (p, _a) = peer("a:1");
        let (q, _b) = peer("a:1");
        cache.put(p);
        std::thread::sleep(Duration::from_millis(3));
        cache.expire_idle();
        assert_eq!((cache.stats().idle, cache.stats().stale), (0, 1));
        cache.put(q);
        std::thread::sleep(Duration::from_millis(3));
        assert!(cache.take("a:1").is_none());
        assert_eq!(cache.stats().stale, 2);
    }
}
