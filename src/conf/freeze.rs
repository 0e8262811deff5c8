//! From raw values to the typed settings of one client.
use super::client_config::{ChecksumType, ClientConfig, ReplacePolicy};
use super::config::{Config, bad_value};
use super::keys::{self, Key, KeyDefault, Kind};
use super::name_service;
use super::value;
use crate::error::{Error, Result, Status};
use crate::sys;

/// Cap of the buffer pool on a machine with plenty of memory, bytes.
const POOL_BYTES_MAX: u64 = 256 * 1024 * 1024;
/// Cap of the buffer pool where memory is short: some packets must fit.
const POOL_BYTES_MIN: u64 = 1024 * 1024;

impl Config {
    /// Reads every honoured key into its type. `authority` is that of the connection's URI: keys
    /// that may be set for one nameservice are taken for it.
    ///
    /// # Errors
    /// `Status::Config`: a value cannot be read; the message has key, value, origin (file and
    /// line, or `dfs_config_set`) and reason. Also if no user name can be found.
    pub fn freeze(&self, authority: Option<&str>) -> Result<ClientConfig> {
        let block_size = self.bytes(&keys::DFS_BLOCKSIZE)?;
        let kerberos = self.choice(&keys::HADOOP_SECURITY_AUTHENTICATION)? == 1;
        Ok(ClientConfig {
            user: self.user(kerberos)?,
            umask: self.value(&keys::FS_PERMISSIONS_UMASK_MODE, value::umask)?,
            block_size,
            replication: self.count(&keys::DFS_REPLICATION)?,
            home_dir_prefix: self.text(&keys::DFS_USER_HOME_DIR_PREFIX)?,

            ipc_connect_timeout_ms: self.millis(&keys::IPC_CLIENT_CONNECT_TIMEOUT)?,
            ipc_connect_max_retries: self.count(&keys::IPC_CLIENT_CONNECT_MAX_RETRIES)?,
            ipc_connect_retry_interval_ms: self.millis(&keys::IPC_CLIENT_CONNECT_RETRY_INTERVAL)?,
            ipc_connect_max_retries_on_timeouts: self
                .count(&keys::IPC_CLIENT_CONNECT_MAX_RETRIES_ON_TIMEOUTS)?,
            ipc_max_idle_ms: self.millis(&keys::IPC_CLIENT_CONNECTION_MAXIDLETIME)?,
            ipc_ping: self.flag(&keys::IPC_CLIENT_PING)?,
            ipc_ping_interval_ms: self.millis(&keys::IPC_PING_INTERVAL)?,
            ipc_rpc_timeout_ms: self.millis(&keys::IPC_CLIENT_RPC_TIMEOUT_MS)?,
            ipc_tcp_nodelay: self.flag(&keys::IPC_CLIENT_TCPNODELAY)?,
            ipc_max_response_bytes: self.size(&keys::IPC_MAXIMUM_RESPONSE_LENGTH)?,

            failover_max_attempts: self.count(&keys::DFS_CLIENT_FAILOVER_MAX_ATTEMPTS)?,
            retry_max_attempts: self.count(&keys::DFS_CLIENT_RETRY_MAX_ATTEMPTS)?,
            failover_sleep_base_ms: self.millis(&keys::DFS_CLIENT_FAILOVER_SLEEP_BASE_MILLIS)?,
            failover_sleep_max_ms: self.millis(&keys::DFS_CLIENT_FAILOVER_SLEEP_MAX_MILLIS)?,
            failover_connection_retries: self
                .count(&keys::DFS_CLIENT_FAILOVER_CONNECTION_RETRIES)?,
            failover_connection_retries_on_timeouts: self
                .count(&keys::DFS_CLIENT_FAILOVER_CONNECTION_RETRIES_ON_TIMEOUTS)?,
            failover_random_order: self.random_order(authority)?,
            retry_policy_enabled: self.flag(&keys::DFS_CLIENT_RETRY_POLICY_ENABLED)?,
            retry_policy_spec: self
                .value(&keys::DFS_CLIENT_RETRY_POLICY_SPEC, value::retry_spec)?,

            socket_timeout_ms: self.millis(&keys::DFS_CLIENT_SOCKET_TIMEOUT)?,
            socket_write_timeout_ms: self.millis(&keys::DFS_DATANODE_SOCKET_WRITE_TIMEOUT)?,
            socket_send_buffer_bytes: self.size(&keys::DFS_CLIENT_SOCKET_SEND_BUFFER_SIZE)?,
            data_tcp_nodelay: self.flag(&keys::DFS_DATA_TRANSFER_CLIENT_TCPNODELAY)?,
            use_datanode_hostname: self.flag(&keys::DFS_CLIENT_USE_DATANODE_HOSTNAME)?,
            socketcache_capacity: self.count(&keys::DFS_CLIENT_SOCKETCACHE_CAPACITY)? as usize,
            socketcache_expiry_ms: self.millis(&keys::DFS_CLIENT_SOCKETCACHE_EXPIRY_MSEC)?,
            cached_conn_retry: self.count(&keys::DFS_CLIENT_CACHED_CONN_RETRY)?,
            max_packet_bytes: self.size(&keys::DFS_DATA_TRANSFER_MAX_PACKET_SIZE)?,

            write_packet_bytes: self.size(&keys::DFS_CLIENT_WRITE_PACKET_SIZE)?,
            bytes_per_checksum: self.size_u32(&keys::DFS_BYTES_PER_CHECKSUM)?,
            checksum_type: self.checksum_type()?,
            max_packets_in_flight: self.count(&keys::DFS_CLIENT_WRITE_MAX_PACKETS_IN_FLIGHT)?
                as usize,
            exclude_nodes_expiry_ms: self
                .millis(&keys::DFS_CLIENT_WRITE_EXCLUDE_NODES_CACHE_EXPIRY_INTERVAL_MILLIS)?,
            block_write_retries: self.count(&keys::DFS_CLIENT_BLOCK_WRITE_RETRIES)?,
            locate_following_block_retries: self
                .count(&keys::DFS_CLIENT_BLOCK_WRITE_LOCATE_FOLLOWING_BLOCK_RETRIES)?,
            locate_following_block_initial_delay_ms: self
                .millis(&keys::DFS_CLIENT_BLOCK_WRITE_LOCATE_FOLLOWING_BLOCK_INITIAL_DELAY_MS)?,
            locate_following_block_max_delay_ms: self
                .millis(&keys::DFS_CLIENT_BLOCK_WRITE_LOCATE_FOLLOWING_BLOCK_MAX_DELAY_MS)?,
            replace_datanode_enable: self
                .flag(&keys::DFS_CLIENT_BLOCK_WRITE_REPLACE_DATANODE_ON_FAILURE_ENABLE)?,
            replace_datanode_policy: self.replace_policy()?,
            replace_datanode_best_effort: self
                .flag(&keys::DFS_CLIENT_BLOCK_WRITE_REPLACE_DATANODE_ON_FAILURE_BEST_EFFORT)?,
            replace_datanode_min_replication: self
                .count(&keys::DFS_CLIENT_BLOCK_WRITE_REPLACE_DATANODE_ON_FAILURE_MIN_REPLICATION)?,
            datanode_restart_timeout_ms: self.millis(&keys::DFS_CLIENT_DATANODE_RESTART_TIMEOUT)?,
            pipeline_recovery_max_retries: self
                .count(&keys::DFS_CLIENT_PIPELINE_RECOVERY_MAX_RETRIES)?,
            congestion_backoff_mean_ms: self
                .millis(&keys::DFS_CLIENT_CONGESTION_BACKOFF_MEAN_TIME)?,
            congestion_backoff_max_ms: self
                .millis(&keys::DFS_CLIENT_CONGESTION_BACKOFF_MAX_TIME)?,
            slow_node_threshold: self
                .count(&keys::DFS_CLIENT_MARK_SLOWNODE_AS_BADNODE_THRESHOLD)?,
            drop_behind_writes: self.optional_flag(&keys::DFS_CLIENT_CACHE_DROP_BEHIND_WRITES)?,

            max_block_acquire_failures: self.count(&keys::DFS_CLIENT_MAX_BLOCK_ACQUIRE_FAILURES)?,
            retry_window_base_ms: self.millis(&keys::DFS_CLIENT_RETRY_WINDOW_BASE)?,
            last_block_length_retries: self
                .count(&keys::DFS_CLIENT_RETRY_TIMES_GET_LAST_BLOCK_LENGTH)?,
            last_block_length_interval_ms: self
                .millis(&keys::DFS_CLIENT_RETRY_INTERVAL_MS_GET_LAST_BLOCK_LENGTH)?,
            read_prefetch_bytes: self
                .optional_bytes(&keys::DFS_CLIENT_READ_PREFETCH_SIZE)?
                .unwrap_or_else(|| block_size.saturating_mul(10)),
            readahead_bytes: self.optional_bytes(&keys::DFS_CLIENT_CACHE_READAHEAD)?,
            drop_behind_reads: self.optional_flag(&keys::DFS_CLIENT_CACHE_DROP_BEHIND_READS)?,
            hedged_read_pool_size: self.count(&keys::DFS_CLIENT_HEDGED_READ_THREADPOOL_SIZE)?,
            hedged_read_threshold_ms: self
                .millis(&keys::DFS_CLIENT_HEDGED_READ_THRESHOLD_MILLIS)?,
            checksum_composite: self.choice(&keys::DFS_CHECKSUM_COMBINE_MODE)? == 1,
            server_defaults_validity_ms: self
                .millis(&keys::DFS_CLIENT_SERVER_DEFAULTS_VALIDITY_PERIOD_MS)?,

            kerberos,
            fallback_to_simple: self.flag(&keys::IPC_CLIENT_FALLBACK_TO_SIMPLE_AUTH_ALLOWED)?,

            pool_max_bytes: match self.optional_bytes(&keys::LIBDFS_BUFFER_POOL_MAX_BYTES)? {
                Some(bytes) => to_usize(bytes),
                None => to_usize(default_pool_bytes(memory_bytes())),
            },
            pool_wait_ms: self.millis(&keys::LIBDFS_BUFFER_POOL_WAIT_MS)?,
            dead_node_ms: self.millis(&keys::LIBDFS_DATANODE_DEAD_MS)?,
            order_by_latency: self.flag(&keys::LIBDFS_READ_ORDER_BY_LATENCY)?,
            pool_idle_ms: self.millis(&keys::LIBDFS_BUFFER_POOL_IDLE_MS)?,
            pipeline_hop_timeout_ms: self.millis(&keys::LIBDFS_PIPELINE_HOP_TIMEOUT_MS)?,
            call_timeout_ms: self.millis(&keys::LIBDFS_CALL_TIMEOUT_MS)?,
        })
    }

    /// The configured text of a key, or its default's, read by `parse`; `None` if there is
    /// neither.
    fn optional<T>(
        &self,
        key: &Key,
        parse: impl Fn(&str) -> std::result::Result<T, String>,
    ) -> Result<Option<T>> {
        match self.lookup(key.name)? {
            Some((text, origin)) => parse(&text)
                .map(Some)
                .map_err(|reason| bad_value(key.name, &text, &origin, &reason)),
            None => Ok(None),
        }
    }

    /// As [`Config::optional`], for a key that has a default.
    fn value<T>(
        &self,
        key: &Key,
        parse: impl Fn(&str) -> std::result::Result<T, String>,
    ) -> Result<T> {
        self.optional(key, parse)?.ok_or_else(|| mismatch(key))
    }

    fn text(&self, key: &Key) -> Result<String> {
        self.value(key, |text| Ok(text.trim().to_owned()))
    }

    // Hadoop 3.4 Configuration#getBoolean: a blank value is as good as none.
    fn flag(&self, key: &Key) -> Result<bool> {
        match (self.value(key, value::flag)?, key.default) {
            (Some(flag), _) => Ok(flag),
            (None, KeyDefault::Value(default)) => Ok(default == "true"),
            (None, _) => Err(mismatch(key)),
        }
    }

    fn optional_flag(&self, key: &Key) -> Result<Option<bool>> {
        Ok(self.optional(key, value::flag)?.flatten())
    }

    fn count(&self, key: &Key) -> Result<u32> {
        let Kind::Count { min, max } = key.kind else { return Err(mismatch(key)) };
        self.value(key, |text| value::count(text, min, max))
    }

    fn bytes(&self, key: &Key) -> Result<u64> {
        self.optional_bytes(key)?.ok_or_else(|| mismatch(key))
    }

    /// Blank counts as unset.
    fn optional_bytes(&self, key: &Key) -> Result<Option<u64>> {
        let Kind::Bytes { min, max } = key.kind else { return Err(mismatch(key)) };
        let unset_if_blank = !matches!(key.default, KeyDefault::Value(_));
        let bytes = self.optional(key, |text| {
            if unset_if_blank && text.trim().is_empty() {
                return Ok(None);
            }
            value::bytes(text, min, max).map(Some)
        })?;
        Ok(bytes.flatten())
    }

    fn size(&self, key: &Key) -> Result<usize> {
        Ok(to_usize(self.bytes(key)?))
    }

    fn size_u32(&self, key: &Key) -> Result<u32> {
        u32::try_from(self.bytes(key)?).map_err(|_| mismatch(key))
    }

    fn millis(&self, key: &Key) -> Result<u64> {
        let Kind::Time { unit, negative } = key.kind else { return Err(mismatch(key)) };
        self.value(key, |text| value::millis(text, unit, negative))
    }

    /// Index of the configured word.
    fn choice(&self, key: &Key) -> Result<usize> {
        let Kind::Choice { words, any_case } = key.kind else { return Err(mismatch(key)) };
        self.value(key, |text| value::choice(text, words, any_case))
    }

    fn checksum_type(&self) -> Result<ChecksumType> {
        Ok(match self.choice(&keys::DFS_CHECKSUM_TYPE)? {
            0 => ChecksumType::Null,
            1 => ChecksumType::Crc32,
            _ => ChecksumType::Crc32c,
        })
    }

    fn replace_policy(&self) -> Result<ReplacePolicy> {
        let key = &keys::DFS_CLIENT_BLOCK_WRITE_REPLACE_DATANODE_ON_FAILURE_POLICY;
        Ok(match self.choice(key)? {
            0 => ReplacePolicy::Default,
            1 => ReplacePolicy::Never,
            _ => ReplacePolicy::Always,
        })
    }

    // Hadoop 3.4 AbstractNNFailoverProxyProvider#getRandomOrder: the key with the service's name
    // appended comes first.
    fn random_order(&self, authority: Option<&str>) -> Result<bool> {
        let key = &keys::DFS_CLIENT_FAILOVER_RANDOM_ORDER;
        if let Some(host) = authority.map(name_service::host_of) {
            let name = format!("{}.{host}", key.name);
            if let Some((text, origin)) = self.lookup(&name)? {
                let flag = value::flag(&text)
                    .map_err(|reason| bad_value(&name, &text, &origin, &reason))?;
                if let Some(flag) = flag {
                    return Ok(flag);
                }
            }
        }
        self.flag(key)
    }

    // Hadoop 3.4 UserGroupInformation.HadoopLoginModule#commit: the variable counts only while
    // security is off.
    fn user(&self, kerberos: bool) -> Result<String> {
        const VARIABLE: &str = "HADOOP_USER_NAME";
        if !kerberos {
            let name = self.optional(&keys::LIBDFS_USER_NAME, |text| Ok(text.trim().to_owned()))?;
            if let Some(name) = name.filter(|name| !name.is_empty()) {
                return Ok(name);
            }
            let name =
                self.environment.text(VARIABLE).map_err(|e| Error::new(Status::Config, e))?;
            if let Some(name) = name.filter(|name| !name.is_empty()) {
                return Ok(name);
            }
        }
        sys::user::name().ok_or_else(|| {
            let what = format!("the system has no name for the current user: set {VARIABLE}");
            Error::new(Status::Config, what)
        })
    }
}

/// The table and the code disagree about a key; the tests read every key, so they would show it.
fn mismatch(key: &Key) -> Error {
    Error::new(Status::Internal, format!("{} has no value of the kind in the key table", key.name))
}

/// Saturates on machines with shorter addresses; bounds in the key table prevent it on others.
fn to_usize(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

fn default_pool_bytes(memory_bytes: Option<u64>) -> u64 {
    match memory_bytes {
        Some(memory) => (memory / 50).clamp(POOL_BYTES_MIN, POOL_BYTES_MAX),
        None => POOL_BYTES_MAX,
    }
}

/// Memory of the machine, or of the container if that is less; `None` if the system does not tell.
fn memory_bytes() -> Option<u64> {
    let read = |path| std::fs::read_to_string(path).ok();
    let machine = read("/proc/meminfo").and_then(|text| mem_total_bytes(&text));
    let limits = ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"];
    let container = limits.into_iter().filter_map(read).filter_map(|text| text.trim().parse().ok());
    machine.into_iter().chain(container).min()
}

/// `MemTotal` of `/proc/meminfo`.
fn mem_total_bytes(text: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = rest.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests;
