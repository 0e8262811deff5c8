//! Decisions of pipeline recovery, without I/O: who leaves the pipeline, when a restarting node is
//! waited for, when a replacement is asked for, when the file gives up.
use crate::conf::client_config::ReplacePolicy;
use std::time::Duration;

/// Longest sleep between two attempts to reach a restarting DataNode.
// Hadoop 3.4 DataStreamer#handleRestartingDatanode.
pub(super) const RESTART_STEP: Duration = Duration::from_millis(4000);

/// What the replacement decision depends on.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReplaceQuestion {
    pub(super) enabled: bool,
    pub(super) policy: ReplacePolicy,
    /// Wanted replicas of the file.
    pub(super) replication: usize,
    /// Nodes left in the pipeline.
    pub(super) nodes: usize,
    /// The file was opened for append.
    pub(super) append: bool,
    /// The file was hflushed.
    pub(super) flushed: bool,
}

/// Whether to ask the NameNode for another DataNode.
// Hadoop 3.4 ReplaceDatanodeOnFailure#satisfy and its conditions.
pub(super) fn wants_replacement(q: &ReplaceQuestion) -> bool {
    if !q.enabled || q.nodes == 0 || q.nodes >= q.replication {
        return false;
    }
    match q.policy {
        ReplacePolicy::Never => false,
        ReplacePolicy::Always => true,
        ReplacePolicy::Default => {
            q.replication >= 3 && (q.nodes <= q.replication / 2 || q.append || q.flushed)
        }
    }
}

/// Whether the file goes on with `nodes` nodes after a replacement could not be had.
pub(super) fn goes_on_without(
    best_effort: bool,
    min_replication: usize,
    nodes: usize,
    no_node_found: bool,
) -> bool {
    best_effort || (no_node_found && min_replication > 0 && nodes >= min_replication)
}

/// Counts recoveries that bring no progress.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Progress {
    seqno: Option<i64>,
    count: u32,
}

impl Progress {
    /// Notes a recovery whose oldest unacknowledged packet is `seqno`; false when there were more
    /// than `max` for the same one.
    // Hadoop 3.4 DataStreamer#processDatanodeOrExternalError.
    pub(super) fn note(&mut self, seqno: Option<i64>, max: u32) -> bool {
        if seqno.is_some() && self.seqno == seqno {
            self.count += 1;
        } else {
            *self = Progress { seqno, count: 1 };
        }
        self.count <= max
    }
}

/// What happens to a node that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It leaves the pipeline.
    Drop,
    /// It restarts and is worth waiting for.
    Wait,
}

/// Decides about a failed node: a node that announced its restart is waited for if it is the only
/// one left or runs on this host, until its deadline.
// Hadoop 3.4 DataStreamer.ErrorState#initRestartingNode, #shouldWaitForRestart.
pub(super) fn judge(restarting: bool, nodes: usize, local: bool, time_left: bool) -> Verdict {
    if restarting && time_left && (nodes == 1 || local) { Verdict::Wait } else { Verdict::Drop }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(policy: ReplacePolicy, replication: usize, nodes: usize) -> ReplaceQuestion {
        ReplaceQuestion { enabled: true, policy, replication, nodes, append: false, flushed: false }
    }

    #[test]
    fn the_default_policy_asks_late_for_plain_writes_and_at_once_for_logs() {
        let q = question(ReplacePolicy::Default, 3, 2);
        assert!(!wants_replacement(&q));
        assert!(wants_replacement(&ReplaceQuestion { flushed: true, ..q }));
        assert!(wants_replacement(&ReplaceQuestion { append: true, ..q }));
        assert!(wants_replacement(&ReplaceQuestion { nodes: 1, ..q }));
        assert!(!wants_replacement(&ReplaceQuestion { nodes: 3, flushed: true, ..q }));
        assert!(!wants_replacement(&ReplaceQuestion { replication: 2, nodes: 1, ..q }));
        assert!(!wants_replacement(&ReplaceQuestion { nodes: 0, ..q }));
        assert!(!wants_replacement(&ReplaceQuestion { enabled: false, nodes: 1, ..q }));
        assert!(wants_replacement(&question(ReplacePolicy::Always, 2, 1)));
        assert!(!wants_replacement(&question(ReplacePolicy::Never, 3, 1)));
    }

    #[test]
    fn without_a_replacement_only_best_effort_or_the_minimum_goes_on() {
        assert!(goes_on_without(true, 0, 1, false));
        assert!(goes_on_without(false, 2, 2, true));
        assert!(!goes_on_without(false, 2, 1, true));
        assert!(!goes_on_without(false, 2, 2, false));
        assert!(!goes_on_without(false, 0, 2, true));
    }

    #[test]
    fn recoveries_are_counted_per_oldest_packet() {
        let mut p = Progress::default();
        for _ in 0..5 {
            assert!(p.note(Some(7), 5));
        }
        assert!(!p.note(Some(7), 5));
        assert!(p.note(Some(8), 5));
    }

    #[test]
    fn only_a_restarting_node_that_matters_is_waited_for() {
        assert_eq!(judge(true, 3, true, true), Verdict::Wait);
        assert_eq!(judge(true, 1, false, true), Verdict::Wait);
        assert_eq!(judge(true, 3, false, true), Verdict::Drop);
        assert_eq!(judge(true, 1, true, false), Verdict::Drop);
        assert_eq!(judge(false, 1, true, true), Verdict::Drop);
    }
}
