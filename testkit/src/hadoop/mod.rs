//! A real Hadoop cluster of separate NameNode and DataNode processes, and Hadoop's own client to
//! compare with.
//!
//! [`Cluster`] starts, pauses, kills and restarts the servers; [`Oracle`] is the Java client. The
//! Hadoop version comes from the environment variable `DFS_HADOOP` (default
//! [`DEFAULT_VERSION`]); its jars are resolved with Maven on first use (see [`Artifacts`]).
//!
//! Nothing outlives the test process: JVMs are bound to it by the kernel's parent-death signal,
//! and a small shell removes the data once the process is gone, however it ended.

mod artifacts;
mod bench_client;
mod blocks;
mod cluster;
mod config;
mod jmx;
mod line_process;
mod oracle;
mod process;
mod relay;
mod server;

pub use artifacts::{Artifacts, DEFAULT_VERSION};
pub use bench_client::BenchClient;
pub use blocks::{ReplicaFile, ReplicaState};
pub use cluster::Cluster;
pub use config::ClusterConfig;
pub use oracle::{
    BlockLocation, ContentSummary, FileChecksum, FileStatus, Flush, FsStatus, Locations, Oracle,
    OracleError, ReadRequest, ReadResult, WriteRequest,
};

pub use relay::{Loss, Relay};

use std::fmt;
use std::path::Path;

/// Why the harness failed; the message names the command, file or process at fault.
#[derive(Clone, PartialEq, Eq)]
pub struct HarnessError(String);

impl HarnessError {
    /// An error with this message.
    pub fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }

    /// An error about `path`: "could not WHAT PATH: CAUSE".
    pub(crate) fn io(what: &str, path: &Path, cause: std::io::Error) -> Self {
        Self(format!("could not {what} {}: {cause}", path.display()))
    }
}

impl fmt::Display for HarnessError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

// Shown as it is, line breaks kept, since tests print it through `unwrap`.
impl fmt::Debug for HarnessError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for HarnessError {}

/// Result of a harness call.
pub type Result<T> = std::result::Result<T, HarnessError>;
