//! The write path: packets, the pipeline of one block, the output stream.
//!
//! Everything runs on the calling thread: `write` copies into the current packet and sends full
//! ones, `hflush` seals and sends what is there and reads acks itself. The keeper thread sends
//! heartbeats on idle pipelines and only tries the locks; worker threads do what calls that never
//! wait leave undone.

mod ack_reader;
mod block;
mod closing;
mod congestion_state;
mod flush;
mod options;
mod output_stream;
mod packet;
mod pipeline;
mod recovery;
mod recovery_state;
mod replacement;
mod sender;
mod ticket;

pub use options::{StreamOptions, check_options};
pub use output_stream::{FileIdentity, OutputStream, Start, SyncMode};
pub use ticket::FlushProgress;

use crate::buf::BufferPool;
use crate::conf::client_config::ClientConfig;
use crate::namenode::NameNode;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Weak};

/// Counters of all writers of a file system; each is only ever added to.
#[derive(Debug, Default)]
pub struct WriteStats {
    /// File bytes accepted by `write`.
    pub bytes_written: AtomicU64,
    /// Packets put on the wire, heartbeats and end-of-block packets included.
    pub packets_sent: AtomicU64,
    /// Calls of hflush and hsync that returned success.
    pub flushes: AtomicU64,
    /// Flush calls that were served by another thread's packet.
    pub flushes_combined: AtomicU64,
    /// Blocks allocated.
    pub blocks: AtomicU64,
    /// Pipeline faults seen (set-up and streaming).
    pub pipeline_faults: AtomicU64,
    /// Pipelines rebuilt after a fault.
    pub pipeline_recoveries: AtomicU64,
    /// Times that a full window or socket made a writer wait.
    pub window_waits: AtomicU64,
    /// Pauses because a DataNode said that it is congested.
    pub congestion_pauses: AtomicU64,
    /// Heartbeat packets sent.
    pub heartbeats: AtomicU64,
}

/// A file whose lease is being renewed.
pub trait LeaseHolder: Send + Sync {
    /// The lease is lost for certain (renewals failed for longer than the hard limit): breaks the
    /// file for good. Called on the lease thread; must not block.
    fn lease_lost(&self, why: &crate::error::Error);

    /// The file system is closed: abandons the file, whose calls fail with `Closed` from now on.
    /// Must not block.
    fn file_system_closed(&self);
}

/// Keeps the leases of files being written alive. Implemented by the client layer.
pub trait LeaseRegistry: Send + Sync {
    /// Starts renewing for `holder`; returns an id for [`LeaseRegistry::end`].
    fn begin(&self, holder: Weak<dyn LeaseHolder>) -> u64;
    /// Stops renewing for that file. Never blocks.
    fn end(&self, id: u64);
}

/// What all writers of one file system share.
pub struct WriteContext {
    /// The NameNode.
    pub namenode: Arc<NameNode>,
    /// The settings.
    pub config: Arc<ClientConfig>,
    /// Packet memory.
    pub pool: BufferPool,
    /// Lease renewal.
    pub leases: Arc<dyn LeaseRegistry>,
    /// Counters.
    pub stats: WriteStats,
}
