//! Hadoop's Java client as the peer of benchmarks.

use super::config::bench_jvm_options;
use super::line_process::LineProcess;
use super::{Artifacts, HarnessError, Result};
use std::path::Path;
use std::time::Duration;

/// How long one benchmark command may take.
const COMMAND_LIMIT: Duration = Duration::from_secs(600);

/// A long-lived Java client JVM (1 GiB heap, the JVM's own choice of collector and compilers)
/// that measures itself. Its commands and what they answer are listed in
/// `testkit/hadoop/java/io/libdfs/testkit/BenchClient.java`.
pub struct BenchClient {
    process: LineProcess,
}

impl BenchClient {
    /// Starts the JVM with the client configuration of `conf_dir`; its log goes below
    /// `directory`. The artifacts decide the Hadoop version, which may differ from the servers'.
    pub fn start(artifacts: &Artifacts, conf_dir: &Path, directory: &Path) -> Result<Self> {
        let class = "io.libdfs.testkit.BenchClient";
        let options = |home: &Path| bench_jvm_options(home);
        let process =
            LineProcess::start(artifacts, class, options, conf_dir, directory, COMMAND_LIMIT)?;
        Ok(Self { process })
    }

    /// Runs one command, such as `hflush path=/wal bytes=400 count=10000 replication=3`, and
    /// returns its JSON object: `op`, `count`, `bytes`, `wall_s`, `cpu_s`, `ops_per_s`,
    /// `mb_per_s` (10^6 bytes), `p50_us`, `p99_us`, `p999_us`, `max_us`, `alloc_bytes_per_op`,
    /// `gc_count`, `gc_ms`. `cpu_s` is the whole JVM's.
    pub fn run(&self, command: &str) -> Result<String> {
        let answer = self.process.ask(command)?;
        if answer.starts_with('{') {
            return Ok(answer);
        }
        Err(HarnessError::new(format!("{command}: {answer}")))
    }

    /// The JVM's process id.
    pub fn pid(&self) -> u32 {
        self.process.id()
    }
}
