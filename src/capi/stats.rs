//! Counters.
use super::boundary::{Info, Sized32, on};
use super::error::dfs_error;
use super::file_system::{FileSystemObject, dfs_fs};
use std::sync::atomic::{AtomicU64, Ordering};

/// Counters of a file system since it was connected; only the fields marked as "now" ever fall. Set
/// `size` to sizeof(dfs_stats) before a call fills it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct dfs_stats {
    /// Size of this struct in bytes, set by the caller.
    pub size: u32,
    /// 0.
    pub reserved: u32,
    /// Buffer pool, now: bytes in buffers that are in use.
    pub pool_in_use_bytes: u64,
    /// Buffer pool, now: bytes in free buffers.
    pub pool_free_bytes: u64,
    /// Buffer pool: highest sum of both.
    pub pool_peak_bytes: u64,
    /// Buffer pool: buffers that were at hand.
    pub pool_hits: u64,
    /// Buffer pool: buffers that had to be allocated.
    pub pool_misses: u64,
    /// Buffer pool: times that somebody had to wait at the limit.
    pub pool_waits: u64,
    /// Files open for writing, now.
    pub open_writers: u64,
    /// Bytes that dfs_write took.
    pub bytes_written: u64,
    /// Packets sent, with heartbeats and ends of blocks.
    pub packets_sent: u64,
    /// Calls of dfs_hflush and dfs_hsync that succeeded.
    pub flushes: u64,
    /// Of these, calls that another thread's packet served.
    pub flushes_combined: u64,
    /// Blocks allocated.
    pub blocks_written: u64,
    /// Faults of pipelines.
    pub pipeline_faults: u64,
    /// Pipelines that were rebuilt.
    pub pipeline_recoveries: u64,
    /// Times that a writer waited for acknowledgements or a full socket.
    pub window_waits: u64,
    /// Heartbeat packets sent on idle pipelines.
    pub heartbeats: u64,
    /// Bytes that reads delivered.
    pub bytes_read: u64,
    /// Read requests that DataNodes served.
    pub read_requests: u64,
    /// Connections made for reads.
    pub read_connects: u64,
    /// Read requests that ran on a connection from the cache.
    pub read_cache_hits: u64,
    /// Connections from the cache that turned out to be dead; no node was blamed.
    pub read_stale_peers: u64,
    /// Failures of reads after which another attempt was made.
    pub read_failovers: u64,
    /// Replicas whose data did not match its checksums.
    pub read_checksum_failures: u64,
    /// Hedged reads: second requests that were sent because the first one was late.
    pub read_hedged: u64,
    /// Of these, requests that were answered first.
    pub read_hedged_wins: u64,
    /// Times that one was due, but as many as allowed were under way.
    pub read_hedged_refused: u64,
    /// Requests for the next block that a sequential read sent before it was through with its own.
    pub read_early_requests: u64,
}

// SAFETY: repr(C), u32 first; 4+4 and 27*8 bytes without padding; numbers.
unsafe impl Sized32 for dfs_stats {}

/// Reads the counters of a file system.
///
/// `stats`: `size` is set. `error`: may be NULL.
///
/// Returns DFS_OK, DFS_E_INVALID_ARGUMENT (an impossible `stats->size`), DFS_E_NULL_POINTER,
/// DFS_E_BAD_HANDLE or DFS_E_FORKED.
///
/// Threads: any, concurrent. Does not block. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_stats_get(
    fs: *const dfs_fs,
    stats: *mut dfs_stats,
    error: *mut *mut dfs_error,
) -> i32 {
    on(fs, "fs", error, |fs: &FileSystemObject| {
        let info = Info::new(stats, "stats")?;
        let write = fs.fs.stats();
        let read = &fs.fs.read_context().stats;
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        info.fill(&dfs_stats {
            size: 0,
            reserved: 0,
            pool_in_use_bytes: write.pool.in_use_bytes,
            pool_free_bytes: write.pool.free_bytes,
            pool_peak_bytes: write.pool.peak_bytes,
            pool_hits: write.pool.hits,
            pool_misses: write.pool.misses,
            pool_waits: write.pool.waits,
            open_writers: write.open_writers,
            bytes_written: write.bytes_written,
            packets_sent: write.packets_sent,
            flushes: write.flushes,
            flushes_combined: write.flushes_combined,
            blocks_written: write.blocks,
            pipeline_faults: write.pipeline_faults,
            pipeline_recoveries: write.pipeline_recoveries,
            window_waits: write.window_waits,
            heartbeats: write.heartbeats,
            bytes_read: get(&read.bytes),
            read_requests: get(&read.requests),
            read_connects: get(&read.connects),
            read_cache_hits: get(&read.cache_hits),
            read_stale_peers: get(&read.stale_peers),
            read_failovers: get(&read.failovers),
            read_checksum_failures: get(&read.checksum_failures),
            read_hedged: get(&read.hedged_reads),
            read_hedged_wins: get(&read.hedged_wins),
            read_hedged_refused: get(&read.hedged_refused),
            read_early_requests: get(&read.early_requests),
        });
        Ok(0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_struct_has_no_padding() {
        assert_eq!(size_of::<dfs_stats>(), 8 + 27 * 8);
    }
}
