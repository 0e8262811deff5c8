use super::*;
use crate::conf::config::tests::environment;

fn config(pairs: &[(&str, &str)]) -> Config {
    let mut config = Config::with_environment(environment(&[("HADOOP_USER_NAME", "alice")]));
    for (key, value) in pairs {
        config.set(key, value);
    }
    config
}

fn frozen(pairs: &[(&str, &str)]) -> ClientConfig {
    config(pairs).freeze(None).unwrap()
}

#[test]
fn defaults_are_hadoops_except_where_documented() {
    let c = frozen(&[]);
    assert_eq!((c.user.as_str(), c.umask, c.home_dir_prefix.as_str()), ("alice", 0o022, "/user"));
    assert_eq!((c.block_size, c.replication), (128 << 20, 3));
    assert_eq!((c.ipc_connect_timeout_ms, c.ipc_connect_max_retries), (20_000, 10));
    assert_eq!(
        (c.ipc_connect_retry_interval_ms, c.ipc_connect_max_retries_on_timeouts),
        (1000, 45)
    );
    assert_eq!((c.ipc_max_idle_ms, c.ipc_ping, c.ipc_ping_interval_ms), (10_000, true, 60_000));
    assert_eq!((c.ipc_rpc_timeout_ms, c.ipc_tcp_nodelay), (120_000, true));
    assert_eq!(c.ipc_max_response_bytes, 128 << 20);
    assert_eq!((c.failover_max_attempts, c.retry_max_attempts), (15, 10));
    assert_eq!((c.failover_sleep_base_ms, c.failover_sleep_max_ms), (500, 15_000));
    assert_eq!((c.failover_connection_retries, c.failover_connection_retries_on_timeouts), (0, 0));
    assert!(!c.failover_random_order && !c.retry_policy_enabled);
    assert_eq!(c.retry_policy_spec, [(10_000, 6), (60_000, 10)]);
    assert_eq!((c.socket_timeout_ms, c.socket_write_timeout_ms), (60_000, 480_000));
    assert_eq!((c.socket_send_buffer_bytes, c.data_tcp_nodelay), (0, true));
    assert!(!c.use_datanode_hostname);
    assert_eq!((c.socketcache_capacity, c.socketcache_expiry_ms), (512, 3000));
    assert_eq!((c.cached_conn_retry, c.max_packet_bytes), (3, 16 << 20));
    assert_eq!((c.write_packet_bytes, c.bytes_per_checksum), (65_536, 512));
    assert_eq!((c.checksum_type, c.max_packets_in_flight), (ChecksumType::Crc32c, 80));
    assert_eq!((c.exclude_nodes_expiry_ms, c.block_write_retries), (600_000, 3));
    assert_eq!(c.locate_following_block_retries, 5);
    assert_eq!(c.locate_following_block_initial_delay_ms, 400);
    assert_eq!(c.locate_following_block_max_delay_ms, 60_000);
    assert!(c.replace_datanode_enable && !c.replace_datanode_best_effort);
    assert_eq!(c.replace_datanode_policy, ReplacePolicy::Default);
    assert_eq!((c.replace_datanode_min_replication, c.datanode_restart_timeout_ms), (0, 30_000));
    assert_eq!((c.pipeline_recovery_max_retries, c.slow_node_threshold), (5, 10));
    assert_eq!((c.drop_behind_writes, c.drop_behind_reads, c.readahead_bytes), (None, None, None));
    assert_eq!((c.max_block_acquire_failures, c.retry_window_base_ms), (3, 3000));
    assert_eq!((c.last_block_length_retries, c.last_block_length_interval_ms), (3, 4000));
    assert_eq!(c.read_prefetch_bytes, 10 * (128 << 20));
    assert_eq!((c.hedged_read_pool_size, c.hedged_read_threshold_ms), (0, 500));
    assert_eq!((c.dead_node_ms, c.order_by_latency), (10_000, true));
    assert!(!c.checksum_composite && !c.kerberos && !c.fallback_to_simple);
    assert_eq!(c.server_defaults_validity_ms, 3_600_000);
    assert!(((1 << 20)..=(256 << 20)).contains(&c.pool_max_bytes));
    assert_eq!((c.pool_wait_ms, c.pool_idle_ms, c.call_timeout_ms), (30_000, 60_000, 0));
}

#[test]
fn values_reach_their_fields() {
    let c = frozen(&[
        ("dfs.block.size", "64m"),
        ("dfs.umaskmode", "u=rwx,g=rx,o="),
        ("dfs.client.socket-timeout", "-1"),
        ("dfs.datanode.socket.write.timeout", "8m"),
        ("dfs.client.datanode-restart.timeout", "45"),
        ("io.bytes.per.checksum", "1k"),
        ("dfs.checksum.type", " CRC32 "),
        ("dfs.client.block.write.replace-datanode-on-failure.policy", "never"),
        ("dfs.client.cache.readahead", "4m"),
        ("dfs.client.cache.drop.behind.reads", "true"),
        ("dfs.client.cache.drop.behind.writes", "false"),
        ("dfs.checksum.combine.mode", "COMPOSITE_CRC"),
        ("hadoop.security.authentication", "KERBEROS"),
        ("ipc.client.ping", " "),
        ("libdfs.buffer.pool.max.bytes", "2g"),
        ("libdfs.call.timeout.ms", "90s"),
        ("ipc.client.rpc-timeout.ms", "0"),
    ]);
    assert_eq!((c.block_size, c.read_prefetch_bytes), (64 << 20, 640 << 20));
    assert_eq!((c.umask, c.socket_timeout_ms, c.socket_write_timeout_ms), (0o027, 0, 480_000));
    assert_eq!((c.datanode_restart_timeout_ms, c.bytes_per_checksum), (45_000, 1024));
    assert_eq!(
        (c.checksum_type, c.replace_datanode_policy),
        (ChecksumType::Crc32, ReplacePolicy::Never)
    );
    assert_eq!((c.readahead_bytes, c.drop_behind_reads), (Some(4 << 20), Some(true)));
    assert_eq!((c.drop_behind_writes, c.checksum_composite, c.kerberos), (Some(false), true, true));
    assert!(c.ipc_ping);
    assert_eq!((c.pool_max_bytes, c.call_timeout_ms, c.ipc_rpc_timeout_ms), (2 << 30, 90_000, 0));
    let c = frozen(&[("dfs.client.read.prefetch.size", "1m"), ("dfs.client.cache.readahead", " ")]);
    assert_eq!((c.read_prefetch_bytes, c.readahead_bytes), (1 << 20, None));
}

/// A key that freeze forgot, or reads as another kind, would not complain about a word.
#[test]
fn every_key_is_read_and_refuses_nonsense() {
    for key in keys::all().filter(|key| key.kind != Kind::Text) {
        let error = config(&[(key.name, "nonsense")]).freeze(None).unwrap_err();
        assert_eq!(error.status(), Status::Config, "{}", key.name);
        let start = format!("{} = \"nonsense\" (dfs_config_set): ", key.name);
        assert!(error.message().starts_with(&start), "{error}");
    }
}

#[test]
fn bounds_are_kept() {
    for (key, value, reason) in [
        ("dfs.replication", "0", "not between 1 and 32767"),
        ("dfs.blocksize", "-1", "not between 1 and 9223372036854775807 bytes"),
        ("dfs.client-write-packet-size", "17m", "not between 1 and 16777216 bytes"),
        ("ipc.client.connect.timeout", "-1", "negative"),
        ("dfs.client.write.max-packets-in-flight", "0", "not between 1 and 2147483647"),
        ("dfs.checksum.type", "crc32", "none of NULL, CRC32, CRC32C"),
        ("ipc.client.ping", "yes", "neither true nor false"),
        ("dfs.blocksize", "", "not a number of bytes (units: k, m, g, t, p, e)"),
    ] {
        let error = config(&[(key, value)]).freeze(None).unwrap_err();
        let expected = format!("{key} = \"{value}\" (dfs_config_set): {reason}");
        assert_eq!(error.message(), expected);
    }
}

#[test]
fn a_bad_value_of_a_file_is_named_with_its_line() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("hdfs-site.xml");
    let text = "<configuration>\n\n<property><name>dfs.block.size</name><value>${x}</value>\
                </property><property name='x' value='big'/></configuration>";
    std::fs::write(&path, text).unwrap();
    let mut config = config(&[]);
    config.load_file(&path).unwrap();
    let message = config.freeze(None).unwrap_err().message().to_owned();
    let start = format!("dfs.blocksize = \"big\" ({}:3): not a number", path.display());
    assert!(message.starts_with(&start), "{message}");
}

#[test]
fn random_order_may_be_set_for_one_service() {
    let key = "dfs.client.failover.random.order";
    let config = config(&[(key, "false"), ("dfs.client.failover.random.order.ns1", "true")]);
    assert!(!config.freeze(None).unwrap().failover_random_order);
    assert!(!config.freeze(Some("ns2")).unwrap().failover_random_order);
    assert!(config.freeze(Some("ns1")).unwrap().failover_random_order);
    assert!(config.freeze(Some("ns1:8020")).unwrap().failover_random_order);
    let mut bad = config.clone();
    bad.set("dfs.client.failover.random.order.ns1", "maybe");
    let error = bad.freeze(Some("ns1")).unwrap_err();
    assert!(error.message().starts_with("dfs.client.failover.random.order.ns1 = \"maybe\""));
}

#[test]
fn the_user_comes_from_the_environment_only_without_kerberos() {
    assert_eq!(frozen(&[]).user, "alice");
    let system = sys::user::name().expect("the test user has a name");
    assert_eq!(frozen(&[("hadoop.security.authentication", "kerberos")]).user, system);
    let unnamed = Config::with_environment(environment(&[("HADOOP_USER_NAME", "")]));
    assert_eq!(unnamed.freeze(None).unwrap().user, system);
    assert_eq!(frozen(&[("libdfs.user.name", " bob ")]).user, "bob");
    assert_eq!(frozen(&[("libdfs.user.name", "")]).user, "alice");
}

#[test]
fn the_pool_follows_the_memory() {
    assert_eq!(default_pool_bytes(None), 256 << 20);
    assert_eq!(default_pool_bytes(Some(64 << 30)), 256 << 20);
    assert_eq!(default_pool_bytes(Some(5_000_000_000)), 100_000_000);
    assert_eq!(default_pool_bytes(Some(1)), 1 << 20);
    let text = "MemFree: 1 kB\nMemTotal:       24576000 kB\n";
    assert_eq!(mem_total_bytes(text), Some(24_576_000 * 1024));
    assert_eq!(mem_total_bytes("MemTotal: x kB"), None);
    assert_eq!(mem_total_bytes(""), None);
    assert!(memory_bytes().is_some_and(|bytes| bytes > 64 << 20));
}
