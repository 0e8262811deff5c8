//! Settings of a minidfs cluster.
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Decides whether a user may run a method on a path; `false` yields AccessControlException.
pub type PermissionHook = dyn Fn(&str, &str, &str) -> bool + Send + Sync;

/// Settings of a cluster. The defaults are Hadoop's, except where a small and quick cluster
/// wants others (said at the field).
#[derive(Clone)]
pub struct Config {
    /// Number of DataNodes.
    pub datanodes: usize,
    /// `dfs.replication`, and what getServerDefaults says.
    pub replication: u32,
    /// `dfs.blocksize`, in bytes. The default is 128 MiB.
    pub block_size: u64,
    /// `dfs.namenode.fs-limits.min-block-size`, in bytes. Hadoop's default is 1 MiB, here 512,
    /// because tests want short blocks.
    pub min_block_size: u64,
    /// The block size must be a multiple of this. Hadoop leaves that rule to its client: 1.
    pub block_size_multiple: u64,
    /// `dfs.namenode.replication.min`.
    pub min_replication: u32,
    /// `dfs.replication.max`.
    pub max_replication: u32,
    /// `dfs.ls.limit`, entries of one getListing answer.
    pub list_limit: usize,
    /// `dfs.namenode.fs-limits.max-blocks-per-file`.
    pub max_blocks_per_file: usize,
    /// Two NameNodes over one namespace, the first one active.
    pub ha: bool,
    /// Port of the first NameNode; 0 takes a free one.
    pub port: u16,
    /// Directory of the replicas; none takes a temporary one that is removed at the end.
    pub dir: Option<PathBuf>,
    /// Seed of every choice the cluster makes (placement, order of nodes).
    pub seed: u64,
    /// Lease soft limit (Hadoop: 60 s).
    pub lease_soft_limit: Duration,
    /// `dfs.namenode.lease-hard-limit-sec` (1200 s).
    pub lease_hard_limit: Duration,
    /// Time from a replica's end on a DataNode to its arrival at the NameNode (Hadoop: a network
    /// round trip, at least).
    pub report_delay: Duration,
    /// Time until a DataNode picks up a command of the NameNode (Hadoop: up to a heartbeat, 3 s).
    pub command_delay: Duration,
    /// Time after which the NameNode holds a silent DataNode for dead (Hadoop: 630 s).
    pub dead_after: Duration,
    /// `dfs.client.socket-timeout` as DataNodes use it.
    pub socket_timeout: Duration,
    /// How long a DataNode bears a client that sends nothing; none means `socket_timeout`, as in
    /// Hadoop. Clients send heartbeats with a tolerance that a short time-out does not have.
    pub idle_timeout: Option<Duration>,
    /// Added to it for each node further down when a DataNode waits for the next one (Hadoop: a
    /// fixed 5 s), so that the node nearest to the fault notices first.
    pub hop_timeout: Duration,
    /// `dfs.datanode.socket.reuse.keepalive`; zero closes after each operation.
    pub keepalive: Duration,
    /// How long a DataNode waits between an ERROR_CHECKSUM ack and its end (Hadoop: 3 s).
    pub checksum_error_delay: Duration,
    /// How long a restarting DataNode waits between its OOB ack and the close (Hadoop: 1 s).
    pub oob_close_delay: Duration,
    /// How long a read waits for a growing replica to reach its range (Hadoop: 3 s).
    pub min_length_wait: Duration,
    /// Data bytes of a packet that a read sends, before rounding to chunks (64 KiB).
    pub read_packet_bytes: usize,
    /// Capacity that each DataNode reports, in bytes.
    pub capacity: u64,
    /// Name of the superuser; none lets everybody pass.
    pub superuser: Option<String>,
    /// Asked before each call that names a path.
    pub permission_hook: Option<Arc<PermissionHook>>,
    /// Acknowledge writes without storing them and serve virtual files below `/virt`.
    pub sink: bool,
    /// Length of the virtual files of the sink mode, in bytes.
    pub virtual_length: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            datanodes: 3,
            replication: 3,
            block_size: 128 * 1024 * 1024,
            min_block_size: 512,
            block_size_multiple: 1,
            min_replication: 1,
            max_replication: 512,
            list_limit: 1000,
            max_blocks_per_file: 10_000,
            ha: false,
            port: 0,
            dir: None,
            seed: 1,
            lease_soft_limit: Duration::from_secs(60),
            lease_hard_limit: Duration::from_secs(1200),
            report_delay: Duration::from_millis(1),
            command_delay: Duration::from_millis(5),
            dead_after: Duration::from_secs(630),
            socket_timeout: Duration::from_secs(60),
            idle_timeout: None,
            hop_timeout: Duration::from_secs(5),
            keepalive: Duration::from_secs(4),
            checksum_error_delay: Duration::from_secs(3),
            oob_close_delay: Duration::from_secs(1),
            min_length_wait: Duration::from_secs(3),
            read_packet_bytes: 64 * 1024,
            capacity: 64 * 1024 * 1024 * 1024,
            superuser: None,
            permission_hook: None,
            sink: false,
            virtual_length: 1024 * 1024 * 1024,
        }
    }
}
