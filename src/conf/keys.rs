//! Every configuration key that the client honours, with its default: the only place for defaults.
//!
//! `docs/configuration.md` is [`markdown`] of this table; a test compares them, and
//! `DFS_UPDATE=1 cargo test conf::keys` writes the file anew.
use std::fmt::Write as _;

/// How the text of a value is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Any text.
    Text,
    /// `true` or `false`, in any case; blank counts as unset.
    Flag,
    /// A whole number, decimal or `0x` hexadecimal, within the bounds.
    Count {
        /// Least accepted value.
        min: u32,
        /// Greatest accepted value.
        max: u32,
    },
    /// Bytes: a whole number, with `k`, `m`, `g`, `t`, `p` or `e` for powers of 1024.
    Bytes {
        /// Least accepted value.
        min: u64,
        /// Greatest accepted value.
        max: u64,
    },
    /// A time: a number in this unit, or with `ns`, `us`, `ms`, `s`, `m`, `h`, `d`.
    Time {
        /// What a plain number counts.
        unit: TimeUnit,
        /// What a negative value means.
        negative: Negative,
    },
    /// One of these words.
    Choice {
        /// The words.
        words: &'static [&'static str],
        /// Whether Java reads them in any case.
        any_case: bool,
    },
    /// A umask, octal or symbolic.
    Umask,
    /// Pairs of sleep in ms and tries: `ms,tries,ms,tries...`.
    RetrySpec,
}

/// The unit of a plain number in a time value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeUnit {
    /// Milliseconds.
    Millis,
    /// Seconds.
    Seconds,
}

/// The meaning of a negative time or size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Negative {
    /// It is an error.
    Refused,
    /// It counts as 0, as it does in Java.
    Zero,
}

/// What holds when a key is not set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyDefault {
    /// This text, read like a configured one.
    Value(&'static str),
    /// Nothing: the feature is off, or somebody else decides.
    Unset,
    /// A value derived as described.
    Derived(&'static str),
}

/// One honoured key.
#[derive(Debug)]
pub struct Key {
    /// Name as in the files.
    pub name: &'static str,
    /// How its text is read.
    pub kind: Kind,
    /// What holds when it is not set.
    pub default: KeyDefault,
    /// Hadoop releases: when the key appeared or how defaults differ; empty for keys of 2.7.
    pub hadoop: &'static str,
    /// One line about its meaning.
    pub doc: &'static str,
}

const FLAG: Kind = Kind::Flag;
const COUNT: Kind = Kind::Count { min: 0, max: i32::MAX as u32 };
const COUNT_FROM_1: Kind = Kind::Count { min: 1, max: i32::MAX as u32 };
const MILLIS: Kind = Kind::Time { unit: TimeUnit::Millis, negative: Negative::Refused };
const MILLIS_OR_NONE: Kind = Kind::Time { unit: TimeUnit::Millis, negative: Negative::Zero };
const SECONDS: Kind = Kind::Time { unit: TimeUnit::Seconds, negative: Negative::Refused };
const BYTES: Kind = Kind::Bytes { min: 0, max: i64::MAX as u64 };
/// One packet, as long as any DataNode takes.
const PACKET_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// Defines a static for each key, and the groups in documented order.
macro_rules! keys {
    ($( $group:literal { $(
        $constant:ident = $name:literal, $kind:expr, $default:expr, $hadoop:literal, $doc:literal;
    )* } )*) => {
        $( $(
            #[doc = concat!("`", $name, "`: ", $doc, ".")]
            pub static $constant: Key = Key {
                name: $name, kind: $kind, default: $default, hadoop: $hadoop, doc: $doc,
            };
        )* )*
        /// The keys by subject, in documented order.
        pub static GROUPS: &[(&str, &[&Key])] = &[ $( ($group, &[ $( &$constant, )* ]), )* ];
    };
}

use KeyDefault::{Derived, Unset, Value};

keys! {
    "General" {
        FS_DEFAULT_FS = "fs.defaultFS", Kind::Text, Value("file:///"), "",
            "File system of a connection that names none";
        DFS_USER_HOME_DIR_PREFIX = "dfs.user.home.dir.prefix", Kind::Text, Value("/user"), "",
            "Parent of the home directories";
        FS_PERMISSIONS_UMASK_MODE = "fs.permissions.umask-mode", Kind::Umask, Value("022"), "",
            "Mode bits taken from new files and directories: octal, or symbolic with what remains";
        DFS_BLOCKSIZE = "dfs.blocksize", Kind::Bytes { min: 1, max: i64::MAX as u64 },
            Value("134217728"), "", "Block size of new files";
        DFS_REPLICATION = "dfs.replication", Kind::Count { min: 1, max: i16::MAX as u32 },
            Value("3"), "", "Replicas of new files";
        DFS_CLIENT_SERVER_DEFAULTS_VALIDITY_PERIOD_MS =
            "dfs.client.server-defaults.validity.period.ms", MILLIS, Value("3600000"), "",
            "How long the NameNode's defaults are remembered";
        DFS_CHECKSUM_COMBINE_MODE = "dfs.checksum.combine.mode",
            Kind::Choice { words: &["MD5MD5CRC", "COMPOSITE_CRC"], any_case: false },
            Value("MD5MD5CRC"), "since 3.1.1", "How a file's checksum is made from its blocks'";
        HADOOP_SECURITY_AUTHENTICATION = "hadoop.security.authentication",
            Kind::Choice { words: &["simple", "kerberos"], any_case: true }, Value("simple"), "",
            "Authentication towards the servers";
        IPC_CLIENT_FALLBACK_TO_SIMPLE_AUTH_ALLOWED =
            "ipc.client.fallback-to-simple-auth-allowed", FLAG, Value("false"), "",
            "Whether a Kerberos client may talk to a server without security";
    }
    "NameNode services" {
        DFS_CLIENT_FAILOVER_PROXY_PROVIDER = "dfs.client.failover.proxy.provider.<ns>",
            Kind::Text, Unset, "",
            "Makes `<ns>` a logical service, unless the class is IPFailoverProxyProvider";
        DFS_HA_NAMENODES = "dfs.ha.namenodes.<ns>", Kind::Text, Unset, "",
            "Ids of the NameNodes of `<ns>`, comma-separated; also makes it a logical service";
        DFS_NAMENODE_RPC_ADDRESS = "dfs.namenode.rpc-address.<ns>.<nn>", Kind::Text, Unset, "",
            "Address of one NameNode, as host:port; without a port, 8020";
        DFS_CLIENT_FAILOVER_RANDOM_ORDER = "dfs.client.failover.random.order", FLAG,
            Value("false"),
            "since 2.9, true by default in 3.5; with `.<ns>` appended, for one service",
            "Whether NameNodes are tried in random order instead of the configured one";
        DFS_CLIENT_FAILOVER_MAX_ATTEMPTS = "dfs.client.failover.max.attempts", COUNT,
            Value("15"), "", "Failovers of one call before it fails";
        DFS_CLIENT_RETRY_MAX_ATTEMPTS = "dfs.client.retry.max.attempts", COUNT, Value("10"), "",
            "Retries of one call on the same NameNode of a logical service";
        DFS_CLIENT_FAILOVER_SLEEP_BASE_MILLIS = "dfs.client.failover.sleep.base.millis", MILLIS,
            Value("500"), "", "First pause between failovers; it doubles each time";
        DFS_CLIENT_FAILOVER_SLEEP_MAX_MILLIS = "dfs.client.failover.sleep.max.millis", MILLIS,
            Value("15000"), "", "Longest pause between failovers";
        DFS_CLIENT_FAILOVER_CONNECTION_RETRIES = "dfs.client.failover.connection.retries", COUNT,
            Value("0"), "", "Connection retries before a failover";
        DFS_CLIENT_FAILOVER_CONNECTION_RETRIES_ON_TIMEOUTS =
            "dfs.client.failover.connection.retries.on.timeouts", COUNT, Value("0"), "",
            "Connection retries after connect timeouts before a failover";
        DFS_CLIENT_RETRY_POLICY_ENABLED = "dfs.client.retry.policy.enabled", FLAG,
            Value("false"), "", "Whether a plain NameNode that is down or in safe mode is retried";
        DFS_CLIENT_RETRY_POLICY_SPEC = "dfs.client.retry.policy.spec", Kind::RetrySpec,
            Value("10000,6,60000,10"), "", "Pauses and tries of that policy";
    }
    "RPC" {
        IPC_CLIENT_CONNECT_TIMEOUT = "ipc.client.connect.timeout", MILLIS, Value("20000"), "",
            "Limit of one connection attempt";
        IPC_CLIENT_CONNECT_MAX_RETRIES = "ipc.client.connect.max.retries", COUNT, Value("10"), "",
            "Connection retries after a refusal";
        IPC_CLIENT_CONNECT_RETRY_INTERVAL = "ipc.client.connect.retry.interval", MILLIS,
            Value("1000"), "", "Pause between those";
        IPC_CLIENT_CONNECT_MAX_RETRIES_ON_TIMEOUTS =
            "ipc.client.connect.max.retries.on.timeouts", COUNT, Value("45"), "",
            "Connection retries after connect timeouts";
        IPC_CLIENT_CONNECTION_MAXIDLETIME = "ipc.client.connection.maxidletime", MILLIS,
            Value("10000"), "", "An unused connection is closed after this time";
        IPC_CLIENT_PING = "ipc.client.ping", FLAG, Value("true"), "",
            "Whether a waiting connection is pinged";
        IPC_PING_INTERVAL = "ipc.ping.interval", MILLIS, Value("60000"), "",
            "Silence after which it is";
        IPC_CLIENT_RPC_TIMEOUT_MS = "ipc.client.rpc-timeout.ms", MILLIS_OR_NONE, Value("120000"),
            "0 by default in core-default.xml up to 3.3",
            "Limit of waiting for one answer; 0 = none";
        IPC_CLIENT_TCPNODELAY = "ipc.client.tcpnodelay", FLAG, Value("true"), "",
            "TCP_NODELAY of NameNode connections";
        IPC_MAXIMUM_RESPONSE_LENGTH = "ipc.maximum.response.length",
            Kind::Bytes { min: 4096, max: i32::MAX as u64 }, Value("134217728"), "",
            "Longest answer that is accepted";
    }
    "DataNode connections" {
        DFS_CLIENT_SOCKET_TIMEOUT = "dfs.client.socket-timeout", MILLIS_OR_NONE, Value("60000"),
            "", "Limit of connecting to a DataNode and of waiting for its bytes; 0 = none";
        DFS_DATANODE_SOCKET_WRITE_TIMEOUT = "dfs.datanode.socket.write.timeout", MILLIS_OR_NONE,
            Value("480000"), "", "Limit of waiting until a DataNode takes bytes; 0 = none";
        DFS_CLIENT_SOCKET_SEND_BUFFER_SIZE = "dfs.client.socket.send.buffer.size",
            Kind::Bytes { min: 0, max: i32::MAX as u64 }, Value("0"), "since 2.8",
            "SO_SNDBUF of DataNode connections; 0 = the kernel's choice";
        DFS_DATA_TRANSFER_CLIENT_TCPNODELAY = "dfs.data.transfer.client.tcpnodelay", FLAG,
            Value("true"), "", "TCP_NODELAY of DataNode connections";
        DFS_CLIENT_USE_DATANODE_HOSTNAME = "dfs.client.use.datanode.hostname", FLAG,
            Value("false"), "", "Whether DataNodes are reached by host name instead of address";
        DFS_CLIENT_SOCKETCACHE_CAPACITY = "dfs.client.socketcache.capacity", COUNT, Value("512"),
            "16 in Hadoop",
            "Idle DataNode connections that one file system keeps; 0 = none";
        DFS_CLIENT_SOCKETCACHE_EXPIRY_MSEC = "dfs.client.socketcache.expiryMsec", MILLIS,
            Value("3000"), "", "An idle DataNode connection is closed after this time";
        DFS_CLIENT_CACHED_CONN_RETRY = "dfs.client.cached.conn.retry", COUNT, Value("3"), "",
            "Kept connections that are tried before a new one is made";
        DFS_DATA_TRANSFER_MAX_PACKET_SIZE = "dfs.data.transfer.max.packet.size",
            Kind::Bytes { min: 65536, max: i32::MAX as u64 }, Value("16777216"), "since 3.4",
            "Longest packet that is accepted from a DataNode";
    }
    "Writing" {
        DFS_CLIENT_WRITE_PACKET_SIZE = "dfs.client-write-packet-size",
            Kind::Bytes { min: 1, max: PACKET_BYTES_MAX }, Value("65536"), "",
            "Longest packet that is sent; a shorter write or flush uses a smaller buffer";
        DFS_BYTES_PER_CHECKSUM = "dfs.bytes-per-checksum",
            Kind::Bytes { min: 1, max: PACKET_BYTES_MAX / 2 }, Value("512"), "",
            "Bytes under one checksum in new files";
        DFS_CHECKSUM_TYPE = "dfs.checksum.type",
            Kind::Choice { words: &["NULL", "CRC32", "CRC32C"], any_case: false },
            Value("CRC32C"), "", "Checksum of new files";
        DFS_CLIENT_WRITE_MAX_PACKETS_IN_FLIGHT = "dfs.client.write.max-packets-in-flight",
            COUNT_FROM_1, Value("80"), "", "Packets of one file that may wait for their ack";
        DFS_CLIENT_WRITE_EXCLUDE_NODES_CACHE_EXPIRY_INTERVAL_MILLIS =
            "dfs.client.write.exclude.nodes.cache.expiry.interval.millis", MILLIS,
            Value("600000"), "", "How long a DataNode that failed is left out of new blocks";
        DFS_CLIENT_BLOCK_WRITE_RETRIES = "dfs.client.block.write.retries", COUNT, Value("3"), "",
            "Retries of making a pipeline for a new block";
        DFS_CLIENT_BLOCK_WRITE_LOCATE_FOLLOWING_BLOCK_RETRIES =
            "dfs.client.block.write.locateFollowingBlock.retries", COUNT, Value("5"), "",
            "Retries of addBlock and complete while the previous block lacks replicas";
        DFS_CLIENT_BLOCK_WRITE_LOCATE_FOLLOWING_BLOCK_INITIAL_DELAY_MS =
            "dfs.client.block.write.locateFollowingBlock.initial.delay.ms", MILLIS, Value("400"),
            "", "With the retries, the total time that these are polled";
        DFS_CLIENT_BLOCK_WRITE_LOCATE_FOLLOWING_BLOCK_MAX_DELAY_MS =
            "dfs.client.block.write.locateFollowingBlock.max.delay.ms", MILLIS, Value("60000"),
            "since 3.3", "Longest pause between them";
        DFS_CLIENT_BLOCK_WRITE_REPLACE_DATANODE_ON_FAILURE_ENABLE =
            "dfs.client.block.write.replace-datanode-on-failure.enable", FLAG, Value("true"), "",
            "Whether a failed DataNode of a pipeline may be replaced";
        DFS_CLIENT_BLOCK_WRITE_REPLACE_DATANODE_ON_FAILURE_POLICY =
            "dfs.client.block.write.replace-datanode-on-failure.policy",
            Kind::Choice { words: &["DEFAULT", "NEVER", "ALWAYS"], any_case: true },
            Value("DEFAULT"), "", "When it is";
        DFS_CLIENT_BLOCK_WRITE_REPLACE_DATANODE_ON_FAILURE_BEST_EFFORT =
            "dfs.client.block.write.replace-datanode-on-failure.best-effort", FLAG,
            Value("false"), "", "Whether writing goes on if no replacement can be had";
        DFS_CLIENT_BLOCK_WRITE_REPLACE_DATANODE_ON_FAILURE_MIN_REPLICATION =
            "dfs.client.block.write.replace-datanode-on-failure.min-replication", COUNT,
            Value("0"), "since 2.9",
            "With this many DataNodes left, a missing replacement is no failure; 0 = never";
        DFS_CLIENT_DATANODE_RESTART_TIMEOUT = "dfs.client.datanode-restart.timeout", SECONDS,
            Value("30"), "", "How long a DataNode that announced its restart is waited for";
        DFS_CLIENT_PIPELINE_RECOVERY_MAX_RETRIES = "dfs.client.pipeline.recovery.max-retries",
            COUNT, Value("5"), "since 3.4; fixed at 5 before",
            "Recoveries of one pipeline for the same packet";
        DFS_CLIENT_CONGESTION_BACKOFF_MEAN_TIME = "dfs.client.congestion.backoff.mean.time",
            MILLIS, Value("5000"), "since 3.4; fixed before",
            "Mean pause before a packet to DataNodes that say they are congested";
        DFS_CLIENT_CONGESTION_BACKOFF_MAX_TIME = "dfs.client.congestion.backoff.max.time",
            MILLIS, Value("50000"), "since 3.4; fixed before", "Longest such pause";
        DFS_CLIENT_MARK_SLOWNODE_AS_BADNODE_THRESHOLD =
            "dfs.client.mark.slownode.as.badnode.threshold", COUNT, Value("10"), "since 3.4",
            "Acks that report a DataNode as slow before it is replaced; 0 = never";
        DFS_CLIENT_CACHE_DROP_BEHIND_WRITES = "dfs.client.cache.drop.behind.writes", FLAG, Unset,
            "", "Whether DataNodes drop written bytes from their page cache";
    }
    "Reading" {
        DFS_CLIENT_MAX_BLOCK_ACQUIRE_FAILURES = "dfs.client.max.block.acquire.failures", COUNT,
            Value("3"), "", "Times the locations are fetched anew when no replica can be read";
        DFS_CLIENT_RETRY_WINDOW_BASE = "dfs.client.retry.window.base", MILLIS, Value("3000"), "",
            "Base of the random pause before that";
        DFS_CLIENT_RETRY_TIMES_GET_LAST_BLOCK_LENGTH =
            "dfs.client.retry.times.get-last-block-length", COUNT, Value("3"), "",
            "Retries of asking DataNodes for the length of a block that is being written";
        DFS_CLIENT_RETRY_INTERVAL_MS_GET_LAST_BLOCK_LENGTH =
            "dfs.client.retry.interval-ms.get-last-block-length", MILLIS, Value("4000"), "",
            "Pause between those";
        DFS_CLIENT_READ_PREFETCH_SIZE = "dfs.client.read.prefetch.size",
            Kind::Bytes { min: 1, max: i64::MAX as u64 }, Derived("10 × `dfs.blocksize`"), "",
            "Bytes whose locations are fetched at a time";
        DFS_CLIENT_CACHE_READAHEAD = "dfs.client.cache.readahead", BYTES, Unset, "",
            "Bytes that DataNodes read ahead; their own choice if unset";
        DFS_CLIENT_CACHE_DROP_BEHIND_READS = "dfs.client.cache.drop.behind.reads", FLAG, Unset,
            "", "Whether DataNodes drop read bytes from their page cache";
        DFS_CLIENT_HEDGED_READ_THREADPOOL_SIZE = "dfs.client.hedged.read.threadpool.size", COUNT,
            Value("0"), "", "Hedged reads that may run at once; 0 turns them off";
        DFS_CLIENT_HEDGED_READ_THRESHOLD_MILLIS = "dfs.client.hedged.read.threshold.millis",
            MILLIS, Value("500"), "",
            "Time after which another replica is asked too, for each 1 MiB of a positional read";
    }
    "libdfs only" {
        LIBDFS_BUFFER_POOL_MAX_BYTES = "libdfs.buffer.pool.max.bytes",
            Kind::Bytes { min: 1024 * 1024, max: 1 << 46 },
            Derived("256 MiB, or 2 % of the memory if less"), "not in Hadoop",
            "Cap of the buffer pool";
        LIBDFS_BUFFER_POOL_WAIT_MS = "libdfs.buffer.pool.wait.ms", MILLIS, Value("30000"),
            "not in Hadoop", "How long a writer waits for a buffer at the cap";
        LIBDFS_BUFFER_POOL_IDLE_MS = "libdfs.buffer.pool.idle.ms", MILLIS, Value("60000"),
            "not in Hadoop", "A free buffer returns to the system after this time";
        LIBDFS_PIPELINE_HOP_TIMEOUT_MS = "libdfs.pipeline.hop.timeout.ms", MILLIS, Value("5000"),
            "fixed in Hadoop",
            "Added to the socket time-outs for each DataNode of a write pipeline";
        LIBDFS_DATANODE_DEAD_MS = "libdfs.datanode.dead.ms", MILLIS, Value("10000"),
            "per stream in Hadoop",
            "How long readers try a DataNode last that could not be reached or fell silent; doubles \
             with each further failure, up to 32 times";
        LIBDFS_READ_ORDER_BY_LATENCY = "libdfs.read.order.by.latency", FLAG, Value("true"),
            "not in Hadoop", "Whether readers prefer, among DataNodes of the same distance, one \
             that answers much faster; else the NameNode's order holds";
        LIBDFS_CALL_TIMEOUT_MS = "libdfs.call.timeout.ms", MILLIS, Value("0"), "not in Hadoop",
            "Limit of one blocking call; 0 = only the limits of its steps";
        LIBDFS_USER_NAME = "libdfs.user.name", Kind::Text, Unset, "not in Hadoop",
            "User that calls are made as, instead of `HADOOP_USER_NAME` or the system's; only \
             while security is off";
    }
}

/// Deprecated names of honoured keys, with the names that replaced them.
// Hadoop 3.4 Configuration#defaultDeprecations, HdfsConfiguration#addDeprecatedKeys: the pairs
// whose new name is in the table above.
pub static DEPRECATED: &[(&str, &str)] = &[
    ("dfs.block.size", "dfs.blocksize"),
    ("dfs.read.prefetch.size", "dfs.client.read.prefetch.size"),
    ("dfs.socket.timeout", "dfs.client.socket-timeout"),
    ("dfs.umaskmode", "fs.permissions.umask-mode"),
    ("dfs.write.packet.size", "dfs.client-write-packet-size"),
    ("fs.default.name", "fs.defaultFS"),
    ("io.bytes.per.checksum", "dfs.bytes-per-checksum"),
];

/// All keys in documented order.
pub fn all() -> impl Iterator<Item = &'static Key> {
    GROUPS.iter().flat_map(|(_, keys)| keys.iter().copied())
}

/// The current name of a key: itself unless deprecated.
pub fn current_name(name: &str) -> &str {
    DEPRECATED.iter().find(|(old, _)| *old == name).map_or(name, |(_, new)| new)
}

/// The default text of a key as Java's default files have it; `None` if unset, derived or unknown.
pub fn default_text(name: &str) -> Option<&'static str> {
    match all().find(|key| key.name == name)?.default {
        Value(text) => Some(text),
        Unset | Derived(_) => None,
    }
}

impl Kind {
    /// The kind in words, for the documentation.
    fn words(self) -> String {
        match self {
            Kind::Text => "text".to_owned(),
            Kind::Flag => "true or false".to_owned(),
            Kind::Count { .. } => "count".to_owned(),
            Kind::Bytes { .. } => "bytes".to_owned(),
            Kind::Time { unit: TimeUnit::Millis, .. } => "time, ms".to_owned(),
            Kind::Time { unit: TimeUnit::Seconds, .. } => "time, s".to_owned(),
            Kind::Choice { words, .. } => words.join(", "),
            Kind::Umask => "umask".to_owned(),
            Kind::RetrySpec => "ms,tries,...".to_owned(),
        }
    }
}

/// `docs/configuration.md`: the rules of reading, and every key with its default.
pub fn markdown() -> String {
    let mut out = String::from(include_str!("configuration_head.md"));
    for (group, keys) in GROUPS {
        let _ = write!(
            out,
            "\n## {group}\n\n| Key | Value | Default | Meaning | Hadoop |\n|---|---|---|---|---|\n"
        );
        for key in *keys {
            let default = match key.default {
                Value(text) => format!("`{text}`"),
                Unset => "unset".to_owned(),
                Derived(rule) => rule.to_owned(),
            };
            let (name, kind, doc, hadoop) = (key.name, key.kind.words(), key.doc, key.hadoop);
            let _ = writeln!(out, "| `{name}` | {kind} | {default} | {doc} | {hadoop} |");
        }
    }
    out.push_str("\n## Deprecated names\n\n| Old | New |\n|---|---|\n");
    for (old, new) in DEPRECATED {
        let _ = writeln!(out, "| `{old}` | `{new}` |");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_constants_mirror_them() {
        let mut names: Vec<_> = all().map(|key| key.name).collect();
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count);
        for (old, new) in DEPRECATED {
            assert!(names.contains(new), "{old} leads to {new}, which is not in the table");
            assert!(!names.contains(old));
        }
    }

    #[test]
    fn texts_fit_a_table() {
        for key in all() {
            for text in [key.doc, key.hadoop] {
                assert!(!text.contains('|') && !text.ends_with('.'), "{}: {text}", key.name);
            }
        }
    }

    #[test]
    fn the_document_is_the_table() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/configuration.md");
        if std::env::var_os("DFS_UPDATE").is_some_and(|v| v == "1") {
            std::fs::create_dir_all(concat!(env!("CARGO_MANIFEST_DIR"), "/docs")).unwrap();
            std::fs::write(path, markdown()).unwrap();
        }
        let found = std::fs::read_to_string(path).unwrap();
        assert!(
            found == markdown(),
            "docs/configuration.md is old: run the test with DFS_UPDATE=1"
        );
    }
}
