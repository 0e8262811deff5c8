//! What every stream of one file system shares for reading.
use super::nodes::Nodes;
use crate::buf::BufferPool;
use crate::conf::client_config::ClientConfig;
use crate::datanode::peer_cache::PeerCache;
use crate::error::{Error, Result, Status};
use crate::proto::hdfs::{
    DatanodeIdProto, ExtendedBlockProto, HdfsFileStatusProto, LocatedBlockProto, LocatedBlocksProto,
};
use crate::time::Deadline;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

/// The questions that a reader asks besides reading: the NameNode answers all but one. A trait, so
/// that tests can script the answers.
pub trait Locations: Send + Sync {
    /// The client's name, for the DataNodes' logs.
    fn client_name(&self) -> &str;

    /// `getFileInfo`.
    ///
    /// # Errors
    /// Those of the call.
    fn get_file_info(&self, src: &str, d: Deadline) -> Result<Option<HdfsFileStatusProto>>;

    /// `getBlockLocations`.
    ///
    /// # Errors
    /// `NotFound` when there is no such file (or it is a directory), else those of the call.
    fn get_block_locations(
        &self,
        src: &str,
        offset: u64,
        length: u64,
        d: Deadline,
    ) -> Result<LocatedBlocksProto>;

    /// `reportBadBlocks`.
    ///
    /// # Errors
    /// Those of the call.
    fn report_bad_blocks(&self, blocks: Vec<LocatedBlockProto>, d: Deadline) -> Result<()>;

    /// `getReplicaVisibleLength` of a DataNode.
    ///
    /// # Errors
    /// `NotFound` when the DataNode has no such replica, else those of the call.
    fn replica_visible_length(
        &self,
        id: &DatanodeIdProto,
        block: &ExtendedBlockProto,
        d: Deadline,
    ) -> Result<u64>;
}

/// Counters of all reads of a file system.
#[derive(Debug, Default)]
pub struct ReadStats {
    /// Bytes delivered to callers.
    pub bytes: AtomicU64,
    /// READ_BLOCK operations that delivered what they were asked for.
    pub requests: AtomicU64,
    /// Connections made.
    pub connects: AtomicU64,
    /// Operations that ran on a cached connection.
    pub cache_hits: AtomicU64,
    /// Cached connections that broke when they were used again; no node was blamed.
    pub stale_peers: AtomicU64,
    /// Failures after which another attempt was made.
    pub failovers: AtomicU64,
    /// Replicas whose data did not match its checksums.
    pub checksum_failures: AtomicU64,
    /// Second requests that were sent because the first one was late.
    pub hedged_reads: AtomicU64,
    /// Of these, requests that were answered first.
    pub hedged_wins: AtomicU64,
    /// Times that a second request was due, but too many were under way.
    pub hedged_refused: AtomicU64,
    /// Requests for the next block that were sent before the current one was read to its end.
    pub early_requests: AtomicU64,
}

impl ReadStats {
    pub(crate) fn add(counter: &AtomicU64, n: u64) {
        counter.fetch_add(n, Ordering::Relaxed);
    }
}

/// One per file system; shared by its streams.
pub struct ReadContext {
    /// The NameNode, as readers see it.
    pub locations: Arc<dyn Locations>,
    /// The settings.
    pub config: Arc<ClientConfig>,
    /// Buffers for headers and unaligned edges.
    pub pool: BufferPool,
    /// Idle connections.
    pub peers: Arc<PeerCache>,
    /// Counters.
    pub stats: Arc<ReadStats>,
    /// What is known of the DataNodes.
    pub nodes: Arc<Nodes>,
    closed: AtomicBool,
    /// Hedged requests under way.
    hedges: AtomicU32,
}

/// Leave for one hedged request; dropping it makes room for another one.
pub(crate) struct HedgePermit(Arc<ReadContext>);

impl HedgePermit {
    /// `None` when as many are under way as `dfs.client.hedged.read.threadpool.size` allows.
    pub(crate) fn take(context: &Arc<ReadContext>) -> Option<HedgePermit> {
        let max = context.config.hedged_read_pool_size;
        let more = |now: u32| (now < max).then_some(now + 1);
        context.hedges.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        Some(HedgePermit(Arc::clone(context)))
    }
}

impl Drop for HedgePermit {
    fn drop(&mut self) {
        self.0.hedges.fetch_sub(1, Ordering::Relaxed);
    }
}

impl ReadContext {
    /// A context over these parts.
    pub fn new<L: Locations + 'static>(
        locations: Arc<L>,
        config: Arc<ClientConfig>,
        pool: BufferPool,
        peers: Arc<PeerCache>,
    ) -> ReadContext {
        let nodes = Arc::new(Nodes::new(config.dead_node_ms, config.order_by_latency));
        let (closed, hedges) = (AtomicBool::new(false), AtomicU32::new(0));
        ReadContext { locations, config, pool, peers, stats: Arc::default(), nodes, closed, hedges }
    }

    /// The file system ends: waiting reads of every stream end with `Closed` within half a second,
    /// later ones at once.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
    }
}

/// Whether a stream, or its whole file system, was closed.
#[derive(Clone, Copy)]
pub(crate) struct Closed<'a> {
    stream: &'a AtomicBool,
    file_system: &'a AtomicBool,
}

impl<'a> Closed<'a> {
    pub(crate) fn new(stream: &'a AtomicBool, context: &'a ReadContext) -> Closed<'a> {
        Closed { stream, file_system: &context.closed }
    }

    /// Fails with `Closed`.
    pub(crate) fn check(self) -> Result<()> {
        if self.stream.load(Ordering::Relaxed) {
            return Err(Error::new(Status::Closed, "the file is closed"));
        }
        if self.file_system.load(Ordering::Relaxed) {
            return Err(Error::new(Status::Closed, "the file system is closed"));
        }
        Ok(())
    }
}

/// Longest time that a pause goes without a look at `closed`, ms.
const PAUSE_SLICE_MS: u64 = 50;

/// Sleeps on the caller's thread.
///
/// # Errors
/// `TimedOut` when the deadline passes first, `Closed` when the stream is closed meanwhile.
pub(crate) fn pause(ms: u64, closed: Closed<'_>, d: Deadline) -> Result<()> {
    let end = Deadline::after_ms(ms.max(1));
    loop {
        closed.check()?;
        if d.passed() {
            return Err(Error::new(Status::TimedOut, "the time limit of the call passed"));
        }
        let left = end.min(d).remaining().unwrap_or_default();
        if left.is_zero() {
            return Ok(());
        }
        std::thread::sleep(left.min(Duration::from_millis(PAUSE_SLICE_MS)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_ends_early_for_a_deadline_and_a_close() {
        let flags = [AtomicBool::new(false), AtomicBool::new(false)];
        let closed = Closed { stream: &flags[0], file_system: &flags[1] };
        pause(5, closed, Deadline::NONE).unwrap();
        let late = pause(60_000, closed, Deadline::after_ms(5)).unwrap_err();
        assert_eq!(late.status(), Status::TimedOut);
        flags[1].store(true, Ordering::Relaxed);
        assert_eq!(pause(60_000, closed, Deadline::NONE).unwrap_err().status(), Status::Closed);
    }
}
