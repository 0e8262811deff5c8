//! What a stream does when a replica cannot be read.
use super::context::{ReadStats, pause};
use super::failover::{Failover, Reaction};
use super::input_stream::InputStream;
use super::located::Block;
use crate::error::{Error, Result, Status};
use crate::time::Deadline;
use std::sync::Arc;

/// Longest report of corrupt replicas to the NameNode, ms; a read waits for it.
const REPORT_MS: u64 = 5_000;

impl InputStream {
    /// Takes a failure of replica `node`; returns the block to go on with.
    #[cold]
    pub(super) fn react(
        &self,
        failover: &mut Failover,
        block: &Arc<Block>,
        node: usize,
        error: &Error,
        second_chance: bool,
        d: Deadline,
    ) -> Result<Arc<Block>> {
        let server = block.nodes.get(node).map_or("", |n| &*n.server);
        let name = block.name();
        crate::dfs_log!(Info, "reading {name} of {} from {server}: {error}", self.path);
        if error.status() == Status::Checksum {
            ReadStats::add(&self.ctx.stats.checksum_failures, 1);
        }
        let reaction = failover.on_error(node, server, error, second_chance);
        if reaction == Reaction::Fail {
            return Err(error.clone().context(format!("reading {name} of {}", self.path)));
        }
        if d.passed() {
            return Err(failover.timed_out(&self.path, block));
        }
        ReadStats::add(&self.ctx.stats.failovers, 1);
        match reaction {
            Reaction::RefetchToken => {
                let fresh = self.file.refetch_token(block, self.closed(), d)?;
                failover.on_new_locations();
                Ok(fresh)
            }
            Reaction::NextNode => {
                blame(block, node, error.status());
                Ok(Arc::clone(block))
            }
            Reaction::SameNode | Reaction::Fail => Ok(Arc::clone(block)),
        }
    }

    /// Every replica failed: waits, fetches the locations again and returns the block as it is
    /// now, or gives up.
    #[cold]
    pub(super) fn next_round(
        &self,
        failover: &mut Failover,
        block: &Block,
        d: Deadline,
    ) -> Result<Arc<Block>> {
        if failover.end_round(self.ctx.config.max_block_acquire_failures) {
            return Err(failover.give_up(&self.path, block));
        }
        if block.open {
            // While the writer changes the last chunk, its data and its checksum on a DataNode's
            // disk may disagree for a moment; later they must not.
            failover.pardon();
        }
        let ms = failover.sleep_ms(self.ctx.config.retry_window_base_ms, random_permille());
        crate::dfs_log!(Info, "no replica of {} works, next try in {ms} ms", block.name());
        pause(ms, self.closed(), d).map_err(|e| match e.status() {
            Status::TimedOut => failover.timed_out(&self.path, block),
            _ => e,
        })?;
        self.file.refetch(block, self.closed(), d)
    }

    /// Tells the NameNode about replicas that failed their checksums.
    pub(super) fn report_corrupt(&self, failover: &Failover, block: &Block, d: Deadline) {
        if failover.corrupt().is_empty() {
            return;
        }
        let is_bad = |server: &str| failover.corrupt().iter().any(|c| **c == *server);
        let bad = || {
            let nodes = block.nodes.iter().enumerate();
            nodes.filter(|(_, n)| is_bad(&n.server)).map(|(i, _)| i)
        };
        let (count, all) = (bad().count(), block.nodes.len());
        // Hadoop 3.4 DFSInputStream#reportCheckSumFailure: when all of several replicas seem
        // corrupt, the fault is more likely ours, and the NameNode must not drop them.
        if count == 0 || (count == all && all > 1) {
            return;
        }
        let old = &block.proto;
        let report = crate::proto::hdfs::LocatedBlockProto {
            b: old.b.clone(),
            offset: old.offset,
            locs: bad().filter_map(|i| old.locs.get(i).cloned()).collect(),
            corrupt: true,
            block_token: old.block_token.clone(),
            storage_types: bad().filter_map(|i| old.storage_types.get(i).copied()).collect(),
            storage_i_ds: bad().filter_map(|i| old.storage_i_ds.get(i).cloned()).collect(),
            ..Default::default()
        };
        let limit = d.min(Deadline::after_ms(REPORT_MS));
        if let Err(e) = self.ctx.locations.report_bad_blocks(vec![report], limit) {
            let name = block.name();
            crate::dfs_log!(Warn, "corrupt replicas of {name} could not be reported: {e}");
        }
    }
}

/// Notes a failure for others: of the node, if it cannot be reached or breaks connections, else of
/// its replica, which only readers of this block care about.
fn blame(block: &Block, node: usize, status: Status) {
    let Some(replica) = block.nodes.get(node) else { return };
    match status {
        Status::Connect | Status::UnknownHost | Status::TimedOut => replica.standing.on_dead(),
        Status::ConnectionLost | Status::Protocol | Status::NotHdfs => {
            replica.standing.on_suspect();
        }
        _ => block.set_faulty(node),
    }
}

/// 0 to 999, good enough to spread sleeping readers.
fn random_permille() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(0_u8) % 1000
}
