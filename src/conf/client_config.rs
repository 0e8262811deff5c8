//! The settings of one client, frozen when it connects.

/// Which checksum a writer asks for; ids as in the block meta file.
pub use crate::checksum::ChecksumType;

/// One HA or plain NameNode service as configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameService {
    /// The authority of the URI: a nameservice id, or `host:port`.
    pub name: String,
    /// True when `name` is a logical nameservice.
    pub logical: bool,
    /// `(id, host:port)` of each NameNode, in configured order; one with an empty id if plain.
    pub namenodes: Vec<(String, String)>,
}

/// `dfs.client.block.write.replace-datanode-on-failure.policy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplacePolicy {
    /// Hadoop's rule of three replicas.
    Default,
    /// Never ask for a replacement.
    Never,
    /// Always ask.
    Always,
}

/// Typed values of every key that the client honours; names follow the Hadoop keys.
#[derive(Clone, Debug)]
pub struct ClientConfig {
    /// `HADOOP_USER_NAME`, else the operating-system user.
    pub user: String,
    /// `fs.permissions.umask-mode`, as mode bits to clear.
    pub umask: u32,
    /// `dfs.blocksize`, bytes.
    pub block_size: u64,
    /// `dfs.replication`.
    pub replication: u32,
    /// `dfs.user.home.dir.prefix`.
    pub home_dir_prefix: String,

    /// `ipc.client.connect.timeout`, ms.
    pub ipc_connect_timeout_ms: u64,
    /// `ipc.client.connect.max.retries`.
    pub ipc_connect_max_retries: u32,
    /// `ipc.client.connect.retry.interval`, ms.
    pub ipc_connect_retry_interval_ms: u64,
    /// `ipc.client.connect.max.retries.on.timeouts`.
    pub ipc_connect_max_retries_on_timeouts: u32,
    /// `ipc.client.connection.maxidletime`, ms.
    pub ipc_max_idle_ms: u64,
    /// `ipc.client.ping`.
    pub ipc_ping: bool,
    /// `ipc.ping.interval`, ms.
    pub ipc_ping_interval_ms: u64,
    /// `ipc.client.rpc-timeout.ms`; 0 = no limit.
    pub ipc_rpc_timeout_ms: u64,
    /// `ipc.client.tcpnodelay`.
    pub ipc_tcp_nodelay: bool,
    /// `ipc.maximum.response.length`, bytes.
    pub ipc_max_response_bytes: usize,

    /// `dfs.client.failover.max.attempts`.
    pub failover_max_attempts: u32,
    /// `dfs.client.retry.max.attempts`.
    pub retry_max_attempts: u32,
    /// `dfs.client.failover.sleep.base.millis`.
    pub failover_sleep_base_ms: u64,
    /// `dfs.client.failover.sleep.max.millis`.
    pub failover_sleep_max_ms: u64,
    /// `dfs.client.failover.connection.retries`.
    pub failover_connection_retries: u32,
    /// `dfs.client.failover.connection.retries.on.timeouts`.
    pub failover_connection_retries_on_timeouts: u32,
    /// `dfs.client.failover.random.order`.
    pub failover_random_order: bool,
    /// `dfs.client.retry.policy.enabled`.
    pub retry_policy_enabled: bool,
    /// `dfs.client.retry.policy.spec`, as (sleep ms, tries) pairs.
    pub retry_policy_spec: Vec<(u64, u32)>,

    /// `dfs.client.socket-timeout`, ms; 0 = no limit.
    pub socket_timeout_ms: u64,
    /// `dfs.datanode.socket.write.timeout`, ms; 0 = no limit.
    pub socket_write_timeout_ms: u64,
    /// `dfs.client.socket.send.buffer.size`, bytes; 0 = the kernel's choice.
    pub socket_send_buffer_bytes: usize,
    /// `dfs.data.transfer.client.tcpnodelay`.
    pub data_tcp_nodelay: bool,
    /// `dfs.client.use.datanode.hostname`.
    pub use_datanode_hostname: bool,
    /// `dfs.client.socketcache.capacity`; 0 turns the connection cache off. Differs from Hadoop's
    /// 16: counted per file system, and 512 by default.
    pub socketcache_capacity: usize,
    /// `dfs.client.socketcache.expiryMsec`.
    pub socketcache_expiry_ms: u64,
    /// `dfs.client.cached.conn.retry`.
    pub cached_conn_retry: u32,
    /// `dfs.data.transfer.max.packet.size`, bytes.
    pub max_packet_bytes: usize,

    /// `dfs.client-write-packet-size`, bytes: a cap, buffers follow what is written.
    pub write_packet_bytes: usize,
    /// `dfs.bytes-per-checksum`.
    pub bytes_per_checksum: u32,
    /// `dfs.checksum.type`.
    pub checksum_type: ChecksumType,
    /// `dfs.client.write.max-packets-in-flight`.
    pub max_packets_in_flight: usize,
    /// `dfs.client.write.exclude.nodes.cache.expiry.interval.millis`.
    pub exclude_nodes_expiry_ms: u64,
    /// `dfs.client.block.write.retries`.
    pub block_write_retries: u32,
    /// `dfs.client.block.write.locateFollowingBlock.retries`.
    pub locate_following_block_retries: u32,
    /// `dfs.client.block.write.locateFollowingBlock.initial.delay.ms`: with the retries it gives
    /// the total time that `addBlock` and `complete` are polled; the polling itself starts at 1 ms.
    pub locate_following_block_initial_delay_ms: u64,
    /// `dfs.client.block.write.locateFollowingBlock.max.delay.ms`.
    pub locate_following_block_max_delay_ms: u64,
    /// `dfs.client.block.write.replace-datanode-on-failure.enable`.
    pub replace_datanode_enable: bool,
    /// `….policy`.
    pub replace_datanode_policy: ReplacePolicy,
    /// `….best-effort`.
    pub replace_datanode_best_effort: bool,
    /// `….min-replication`.
    pub replace_datanode_min_replication: u32,
    /// `dfs.client.datanode-restart.timeout`, ms.
    pub datanode_restart_timeout_ms: u64,
    /// `dfs.client.pipeline.recovery.max-retries`.
    pub pipeline_recovery_max_retries: u32,
    /// `dfs.client.congestion.backoff.mean.time`, ms.
    pub congestion_backoff_mean_ms: u64,
    /// `dfs.client.congestion.backoff.max.time`, ms.
    pub congestion_backoff_max_ms: u64,
    /// `dfs.client.mark.slownode.as.badnode.threshold`; 0 = never.
    pub slow_node_threshold: u32,
    /// `dfs.client.cache.drop.behind.writes`.
    pub drop_behind_writes: Option<bool>,

    /// `dfs.client.max.block.acquire.failures`.
    pub max_block_acquire_failures: u32,
    /// `dfs.client.retry.window.base`, ms.
    pub retry_window_base_ms: u64,
    /// `dfs.client.retry.times.get-last-block-length`.
    pub last_block_length_retries: u32,
    /// `dfs.client.retry.interval-ms.get-last-block-length`.
    pub last_block_length_interval_ms: u64,
    /// `dfs.client.read.prefetch.size`, bytes; 10 blocks unless set.
    pub read_prefetch_bytes: u64,
    /// `dfs.client.cache.readahead`, bytes.
    pub readahead_bytes: Option<u64>,
    /// `dfs.client.cache.drop.behind.reads`.
    pub drop_behind_reads: Option<bool>,
    /// `dfs.client.hedged.read.threadpool.size`; 0 = off.
    pub hedged_read_pool_size: u32,
    /// `dfs.client.hedged.read.threshold.millis`.
    pub hedged_read_threshold_ms: u64,
    /// `dfs.checksum.combine.mode` is COMPOSITE_CRC.
    pub checksum_composite: bool,
    /// `dfs.client.server-defaults.validity.period.ms`.
    pub server_defaults_validity_ms: u64,

    /// `hadoop.security.authentication` is kerberos.
    pub kerberos: bool,
    /// `ipc.client.fallback-to-simple-auth-allowed`.
    pub fallback_to_simple: bool,

    /// `libdfs.buffer.pool.max.bytes`: cap of the buffer pool.
    pub pool_max_bytes: usize,
    /// `libdfs.buffer.pool.wait.ms`: how long a writer waits for a buffer at the cap.
    pub pool_wait_ms: u64,
    /// `libdfs.buffer.pool.idle.ms`: after this idle time a free buffer returns to the system.
    pub pool_idle_ms: u64,
    /// `libdfs.pipeline.hop.timeout.ms`: added to the socket time-outs for each DataNode of a
    /// pipeline.
    pub pipeline_hop_timeout_ms: u64,
    /// `libdfs.datanode.dead.ms`: how long readers avoid a DataNode after its first failure.
    pub dead_node_ms: u64,
    /// `libdfs.read.order.by.latency`: whether slow DataNodes make way for equally near ones.
    pub order_by_latency: bool,
    /// `libdfs.call.timeout.ms`: default limit of one blocking call; 0 = only the limits inside.
    pub call_timeout_ms: u64,
}
