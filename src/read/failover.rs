//! Which replica a read tries next, and what a failure means; one value per call and block.
use super::located::{Block, Node};
use crate::error::{Error, Status};
use std::fmt::Write;

/// Replicas of one block that are considered; a block never has more.
const REPLICAS_MAX: usize = 64;
/// Failures that an error message lists.
const REASONS_MAX: usize = 16;

/// What to do after a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reaction {
    /// Try the node once more, at the current position.
    SameNode,
    /// Try the next replica.
    NextNode,
    /// Fetch the block's locations (and token) again, then go on.
    RefetchToken,
    /// Give the error to the caller.
    Fail,
}

/// The attempts of one user call at one block.
#[derive(Default)]
pub(crate) struct Failover {
    /// Bit `i`: replica `i` of the current location list was tried in this round.
    tried: u64,
    /// Rounds that ended without success.
    rounds: u32,
    token_refetched: bool,
    /// Nodes whose replica failed its checksums: not tried again in this call, see
    /// [`Self::pardon`].
    corrupt: Vec<Box<str>>,
    /// Node and failure, in order.
    reasons: Vec<(Box<str>, Error)>,
    failures: usize,
}

impl Failover {
    /// The replica to try, among those that did not fail this call and that `busy` (the requests
    /// which the caller has at a node) does not rule out: one that failed nobody lately, the
    /// nearest of these, and of equals the first one unless another is much faster or less busy.
    /// Asking one that failed is better than sleeping; `None` ends the round.
    pub(crate) fn next_node(
        &self,
        block: &Block,
        busy: impl Fn(&Node) -> Option<usize>,
    ) -> Option<usize> {
        let mut best: Option<(usize, &Node, (bool, u8), usize)> = None;
        for (i, node) in block.nodes.iter().take(REPLICAS_MAX).enumerate() {
            if self.tried & (1 << i) != 0 || self.corrupt.contains(&node.server) {
                continue;
            }
            let Some(load) = busy(node) else { continue };
            let rank = (block.is_faulty(i) || node.standing.is_avoided(), node.distance);
            let better = best.is_none_or(|(_, old, old_rank, old_load)| {
                if rank != old_rank {
                    return rank < old_rank;
                }
                old.standing.is_slower_than(&node.standing)
                    || (load < old_load && !node.standing.is_slower_than(&old.standing))
            });
            if better {
                best = Some((i, node, rank, load));
            }
        }
        let (index, node, ..) = best?;
        node.standing.probe();
        Some(index)
    }

    /// Nodes whose replica failed its checksums.
    pub(crate) fn corrupt(&self) -> &[Box<str>] {
        &self.corrupt
    }

    /// Takes the failure of replica `index`. `second_chance`: the operation was under way, so the
    /// node itself worked, and its connection broke for the first time.
    pub(crate) fn on_error(
        &mut self,
        index: usize,
        server: &str,
        error: &Error,
        second_chance: bool,
    ) -> Reaction {
        let status = error.status();
        if matches!(
            status,
            Status::NoMemory
                | Status::Closed
                | Status::Shutdown
                | Status::Internal
                | Status::OutOfRange
        ) {
            return Reaction::Fail;
        }
        self.failures += 1;
        if self.reasons.len() < REASONS_MAX {
            self.reasons.push((server.into(), error.clone()));
        }
        // Hadoop 3.4 DFSInputStream#tokenRefetchNeeded: an expired token is no fault of the node,
        // and fetching the locations brings a new one; once, lest a wrong clock makes a loop.
        if status == Status::BlockToken && !self.token_refetched {
            self.token_refetched = true;
            return Reaction::RefetchToken;
        }
        // Hadoop 3.4 DFSInputStream#readBuffer: DataNodes close connections that a slow reader
        // leaves idle, so the first break gives the node a second chance. Differs: only a closed
        // connection, not a time-out, which would cost its full length again.
        if status == Status::ConnectionLost && second_chance {
            return Reaction::SameNode;
        }
        if status == Status::Checksum && !self.corrupt.iter().any(|c| **c == *server) {
            self.corrupt.push(server.into());
        }
        if index < REPLICAS_MAX {
            self.tried |= 1 << index;
        }
        Reaction::NextNode
    }

    /// Ends a round in which every replica failed; true when no further round is allowed.
    pub(crate) fn end_round(&mut self, rounds_max: u32) -> bool {
        if self.rounds >= rounds_max {
            return true;
        }
        self.rounds += 1;
        self.tried = 0;
        false
    }

    /// Gives replicas that failed their checksums another chance.
    pub(crate) fn pardon(&mut self) {
        self.corrupt.clear();
    }

    /// The location list was replaced, so indices have a new meaning.
    pub(crate) fn on_new_locations(&mut self) {
        self.tried = 0;
    }

    /// Sleep before the next round, ms, given a random fraction of 1 in 1/1000.
    pub(crate) fn sleep_ms(&self, base_ms: u64, random_permille: u64) -> u64 {
        // Hadoop 3.4 DFSInputStream#refetchLocations: a growing window, random so that many
        // readers of one block do not come back together. `rounds` was raised already.
        let before = u64::from(self.rounds.saturating_sub(1));
        let window = base_ms.saturating_mul(before + 1);
        let random = window.saturating_mul(random_permille.min(1000)) / 1000;
        base_ms.saturating_mul(before).saturating_add(random)
    }

    /// The error when no replica could be read.
    pub(crate) fn give_up(&self, path: &str, block: &Block) -> Error {
        let mut text = format!("no replica of {} of {path} can be read", block.name());
        if block.nodes.is_empty() {
            text.push_str(": the NameNode knows no DataNode that has it");
        }
        for (i, (server, reason)) in self.reasons.iter().enumerate() {
            let separator = if i == 0 { ": " } else { "; " };
            // Writing to a String cannot fail.
            let _ = write!(text, "{separator}{server}: {reason}");
        }
        if self.failures > self.reasons.len() {
            let _ = write!(text, "; and {} more failures", self.failures - self.reasons.len());
        }
        let error = Error::new(Status::BlockMissing, text).with_stage("reading");
        match self.reasons.last() {
            Some((server, _)) => error.with_server(server),
            None => error,
        }
    }

    /// The error when the caller's time limit passed.
    pub(crate) fn timed_out(&self, path: &str, block: &Block) -> Error {
        let text = format!("reading {} of {path}: the time limit of the call passed", block.name());
        match self.reasons.last() {
            Some((server, reason)) => {
                let error = Error::new(Status::TimedOut, format!("{text}; {server}: {reason}"));
                error.with_server(server).with_stage(reason.stage().unwrap_or("reading"))
            }
            None => Error::new(Status::TimedOut, text).with_stage("waiting for locations"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::located::tests::block;
    use super::*;

    fn error(status: Status) -> Error {
        Error::new(status, "x")
    }

    fn next(f: &Failover, block: &Block) -> Option<usize> {
        f.next_node(block, |_| Some(0))
    }

    #[test]
    fn nodes_are_tried_in_order_dead_ones_last_and_corrupt_ones_never_again() {
        let block = block(1, 0, 100, &["a:1", "b:1", "c:1"]);
        block.nodes[0].standing.on_dead();
        let mut f = Failover::default();
        assert_eq!(next(&f, &block), Some(1));
        assert_eq!(f.on_error(1, "b:1", &error(Status::Checksum), true), Reaction::NextNode);
        assert_eq!(next(&f, &block), Some(2));
        assert_eq!(f.on_error(2, "c:1", &error(Status::Connect), false), Reaction::NextNode);
        assert_eq!(next(&f, &block), Some(0));
        assert_eq!(f.on_error(0, "a:1", &error(Status::DataNode), false), Reaction::NextNode);
        assert_eq!(next(&f, &block), None);
        assert!(!f.end_round(1));
        assert_eq!(next(&f, &block), Some(2));
        assert!(f.end_round(1));
        let e = f.give_up("/f", &block);
        assert_eq!(e.status(), Status::BlockMissing);
        for words in ["/f", "blk_1_1001", "a:1", "b:1", "c:1"] {
            assert!(e.message().contains(words), "{e}");
        }
    }

    #[test]
    fn of_equals_the_faster_and_the_less_busy_one_is_taken() {
        let block = block(1, 0, 100, &["a:1", "b:1", "c:1"]);
        let f = Failover::default();
        let ms = std::time::Duration::from_millis;
        assert_eq!(f.next_node(&block, |n| Some(usize::from(&*n.server == "a:1"))), Some(1));
        assert_eq!(f.next_node(&block, |n| (&*n.server != "a:1").then_some(3)), Some(1));
        block.nodes[0].standing.on_data(ms(200));
        block.nodes[1].standing.on_data(ms(1));
        block.nodes[2].standing.on_data(ms(1));
        assert_eq!(next(&f, &block), Some(1));
        assert_eq!(f.next_node(&block, |n| Some(usize::from(&*n.server != "a:1"))), Some(1));
        block.set_faulty(1);
        assert_eq!(next(&f, &block), Some(2));
        block.set_faulty(2);
        assert_eq!(next(&f, &block), Some(0), "a slow replica is better than a bad one");
        assert_eq!(f.next_node(&block, |_| None), None);
    }

    #[test]
    fn a_token_is_refetched_once_and_a_broken_stream_reconnects_once() {
        let mut f = Failover::default();
        let token = || error(Status::BlockToken);
        assert_eq!(f.on_error(0, "a:1", &token(), false), Reaction::RefetchToken);
        assert_eq!(f.on_error(0, "a:1", &token(), false), Reaction::NextNode);
        let mut f = Failover::default();
        let lost = || error(Status::ConnectionLost);
        assert_eq!(f.on_error(0, "a:1", &lost(), false), Reaction::NextNode);
        assert_eq!(f.on_error(1, "b:1", &lost(), true), Reaction::SameNode);
        assert_eq!(f.on_error(1, "b:1", &lost(), false), Reaction::NextNode);
        assert_eq!(f.on_error(3, "d:1", &error(Status::TimedOut), true), Reaction::NextNode);
        assert_eq!(f.on_error(2, "c:1", &error(Status::NoMemory), true), Reaction::Fail);
    }

    #[test]
    fn sleeps_grow_and_messages_stay_bounded() {
        let mut f = Failover::default();
        assert!(!f.end_round(3));
        assert_eq!((f.sleep_ms(3000, 0), f.sleep_ms(3000, 1000)), (0, 3000));
        assert!(!f.end_round(3));
        assert_eq!((f.sleep_ms(3000, 0), f.sleep_ms(3000, 1000)), (3000, 9000));
        for _ in 0..100 {
            f.on_error(0, "a:1", &error(Status::Connect), false);
        }
        let block = block(1, 0, 100, &["a:1"]);
        let e = f.give_up("/f", &block);
        assert!(e.message().contains("84 more failures"), "{e}");
        let e = f.timed_out("/f", &block);
        assert_eq!((e.status(), e.server()), (Status::TimedOut, Some("a:1")));
    }
}
