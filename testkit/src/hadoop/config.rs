//! What a cluster is started with, and the site files made from it.

use super::{Artifacts, HarnessError, Result};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

/// Hadoop properties by key.
pub(crate) type Properties = BTreeMap<String, String>;

/// The nameservice of a cluster with high availability.
pub(crate) const NAMESERVICE: &str = "libdfs";

/// How to start a [`super::Cluster`]. Made for tests: one second heartbeats, blocks of 512 bytes
/// and more, ACLs on, no fsync of the edit log, no background scan of replicas.
#[derive(Clone, Debug)]
pub struct ClusterConfig {
    pub(crate) version: String,
    pub(crate) datanode_count: usize,
    pub(crate) high_availability: bool,
    pub(crate) full_jit: bool,
    pub(crate) heap_mib: u32,
    pub(crate) start_limit: Duration,
    pub(crate) properties: Properties,
}

impl Default for ClusterConfig {
    fn default() -> Self {
        Self::new()
    }
}

impl ClusterConfig {
    /// Three DataNodes, one NameNode, the Hadoop version of `DFS_HADOOP`.
    pub fn new() -> Self {
        let fixed = [
            ("dfs.replication", "3"),
            ("dfs.namenode.fs-limits.min-block-size", "512"),
            ("dfs.heartbeat.interval", "1"),
            ("dfs.permissions.enabled", "true"),
            ("dfs.namenode.acls.enabled", "true"),
            ("dfs.namenode.datanode.registration.ip-hostname-check", "false"),
            ("dfs.namenode.safemode.extension", "0"),
            // Tests run side by side: a busy DataNode must not fall out of a pipeline of all.
            ("dfs.namenode.replication.considerLoad", "false"),
            ("dfs.namenode.redundancy.considerLoad", "false"),
            ("dfs.namenode.replication.interval", "1"),
            ("dfs.namenode.redundancy.interval.seconds", "1"),
            ("dfs.namenode.edits.noeditlogchannelflush", "true"),
            // A replica that a test corrupts stays so until a client finds it.
            ("dfs.datanode.scan.period.hours", "-1"),
            ("dfs.webhdfs.enabled", "false"),
        ];
        Self {
            version: Artifacts::wanted_version(),
            datanode_count: 3,
            high_availability: false,
            full_jit: false,
            heap_mib: 256,
            start_limit: Duration::from_secs(300),
            properties: fixed.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect(),
        }
    }

    /// Another Hadoop version than that of `DFS_HADOOP`.
    pub fn version(mut self, version: &str) -> Self {
        version.clone_into(&mut self.version);
        self
    }

    /// How many DataNodes to start.
    pub fn datanodes(mut self, count: usize) -> Self {
        self.datanode_count = count;
        self
    }

    /// Sets a Hadoop property for servers and clients.
    pub fn set(mut self, key: &str, value: &str) -> Self {
        self.properties.insert(key.to_owned(), value.to_owned());
        self
    }

    /// Lets the NameNode take a silent DataNode for dead after about 12 seconds (the least that
    /// heartbeats of one second allow), not after 10 minutes.
    pub fn fast_dead_nodes(self) -> Self {
        self.set("dfs.namenode.heartbeat.recheck-interval", "1000")
            .set("dfs.namenode.stale.datanode.interval", "3000")
    }

    /// Two NameNodes over a shared edits directory; the first is made active.
    pub fn high_availability(mut self) -> Self {
        self.high_availability = true;
        self
    }

    /// Compiles hot code fully, for benchmarks: starts slower, runs faster.
    pub fn full_jit(mut self) -> Self {
        self.full_jit = true;
        self
    }

    /// Heap limit of each server, MiB; 256 unless set.
    pub fn heap_mib(mut self, mib: u32) -> Self {
        self.heap_mib = mib;
        self
    }

    /// How long starting may take; five minutes unless set, for machines that do much else.
    pub fn start_limit(mut self, limit: Duration) -> Self {
        self.start_limit = limit;
        self
    }
}

/// Java options for a server or client JVM with its temporary files in `temporary`.
pub(crate) fn jvm_options(heap_mib: u32, full_jit: bool, temporary: &Path) -> Vec<String> {
    let mut options = vec![
        format!("-Xmx{heap_mib}m"),
        // On two cores other collectors only add threads.
        "-XX:+UseSerialGC".to_owned(),
        "-Xshare:auto".to_owned(),
        "-XX:-UsePerfData".to_owned(),
        // Hadoop's own jars need no verification; it is an eighth of the CPU time of a start.
        "-XX:+UnlockDiagnosticVMOptions".to_owned(),
        "-XX:-BytecodeVerificationRemote".to_owned(),
        "-Djava.net.preferIPv4Stack=true".to_owned(),
        format!("-Djava.io.tmpdir={}", temporary.display()),
    ];
    if !full_jit {
        options.push("-XX:TieredStopAtLevel=1".to_owned());
    }
    options
}

/// Java options for a client JVM whose speed is measured: nothing that a user would not have.
pub(crate) fn bench_jvm_options(temporary: &Path) -> Vec<String> {
    vec![
        "-Xms1g".to_owned(),
        "-Xmx1g".to_owned(),
        "-XX:-UsePerfData".to_owned(),
        "-Djava.net.preferIPv4Stack=true".to_owned(),
        format!("-Djava.io.tmpdir={}", temporary.display()),
    ]
}

/// Writes `core-site.xml` and `hdfs-site.xml`, both with all properties: which file a key comes
/// from makes no difference to Hadoop, and readers of either find what they look for.
pub(crate) fn write_site_files(directory: &Path, properties: &Properties) -> Result<()> {
    fs::create_dir_all(directory).map_err(|e| HarnessError::io("create", directory, e))?;
    let mut text = String::from("<?xml version=\"1.0\"?>\n<configuration>\n");
    for (key, value) in properties {
        text.push_str(&format!(
            "  <property><name>{}</name><value>{}</value></property>\n",
            escape(key),
            escape(value)
        ));
    }
    text.push_str("</configuration>\n");
    for name in ["core-site.xml", "hdfs-site.xml"] {
        let path = directory.join(name);
        fs::write(&path, &text).map_err(|e| HarnessError::io("write", &path, e))?;
    }
    Ok(())
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
