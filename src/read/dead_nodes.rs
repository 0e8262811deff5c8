//! The DataNodes that failed a stream lately.
use parking_lot::RwLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Largest number of nodes remembered: more than any block has replicas.
const NODES_MAX: usize = 256;

/// Transfer addresses that are tried last; per stream, cleared when locations are fetched again
/// (Hadoop 3.4 `DFSInputStream#deadNodes`). Any thread; the usual case, no dead node, takes no
/// lock.
#[derive(Default)]
pub(crate) struct DeadNodes {
    count: AtomicUsize,
    nodes: RwLock<Vec<Box<str>>>,
}

impl DeadNodes {
    /// Whether `server` failed since the last [`Self::clear`].
    pub(crate) fn contains(&self, server: &str) -> bool {
        self.count.load(Ordering::Acquire) > 0 && self.nodes.read().iter().any(|n| **n == *server)
    }

    /// Remembers a failed node.
    pub(crate) fn add(&self, server: &str) {
        let mut nodes = self.nodes.write();
        if nodes.iter().any(|n| **n == *server) {
            return;
        }
        if nodes.len() >= NODES_MAX {
            nodes.remove(0);
        }
        nodes.push(server.into());
        self.count.store(nodes.len(), Ordering::Release);
    }

    /// Gives every node a new chance.
    pub(crate) fn clear(&self) {
        let mut nodes = self.nodes.write();
        nodes.clear();
        self.count.store(0, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remembers_a_bounded_number_until_cleared() {
        let dead = DeadNodes::default();
        assert!(!dead.contains("a:1"));
        dead.add("a:1");
        dead.add("a:1");
        assert!(dead.contains("a:1") && !dead.contains("a:11"));
        for i in 0..NODES_MAX {
            dead.add(&format!("n:{i}"));
        }
        assert!(!dead.contains("a:1") && dead.contains("n:0"));
        dead.clear();
        assert!(!dead.contains("n:0"));
    }
}
