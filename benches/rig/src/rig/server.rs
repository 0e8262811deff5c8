//! The servers that clients are measured on.
use super::scenario::Site;
use crate::api::Result;
use dfs_testkit::hadoop::{Artifacts, Cluster, ClusterConfig};
use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

/// Clock ticks of /proc a second: USER_HZ, which is 100 on every Linux.
const TICKS: f64 = 100.0;

/// Running servers.
pub(super) struct Server {
    kind: Kind,
    uri: String,
    pids: Vec<u32>,
    class_path: std::result::Result<String, String>,
    description: String,
}

enum Kind {
    Real(#[allow(dead_code, reason = "keeps the cluster running")] Box<Cluster>),
    Sink(Child),
}

impl Server {
    /// Starts the servers of a site.
    pub(super) fn start(site: Site) -> Result<Server> {
        match site {
            Site::Real => Server::real(),
            Site::Sink => Server::sink(),
        }
    }

    fn real() -> Result<Server> {
        let config = ClusterConfig::new().full_jit().heap_mib(512);
        let cluster = Cluster::start(config).map_err(|e| e.to_string())?;
        let pids = children_like(&["NameNodeMain", "datanode.DataNode"])?;
        let artifacts = cluster.artifacts();
        let class_path = format!("{}:{}", artifacts.class_path(), cluster.conf_dir().display());
        Ok(Server {
            uri: cluster.uri(),
            pids,
            class_path: Ok(class_path),
            description: format!(
                "real: Hadoop {}, 1 NameNode, 3 DataNodes, data in {}",
                cluster.version(),
                std::env::temp_dir().display()
            ),
            kind: Kind::Real(Box::new(cluster)),
        })
    }

    fn sink() -> Result<Server> {
        let exe = std::env::current_exe().map_err(|e| format!("where is this program? {e}"))?;
        let mut child = std::process::Command::new(exe)
            .arg("sink")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|e| format!("cannot start the sink: {e}"))?;
        let output = child.stdout.take().ok_or("the sink has no output")?;
        let mut line = String::new();
        BufReader::new(output)
            .read_line(&mut line)
            .map_err(|e| format!("cannot read the sink's URI: {e}"))?;
        let uri = line.trim().to_owned();
        if !uri.starts_with("hdfs://") {
            return Err(format!("the sink began with {line:?}"));
        }
        let artifacts = Artifacts::prepare(&Artifacts::wanted_version());
        Ok(Server {
            pids: vec![child.id()],
            uri,
            class_path: artifacts.map(|a| a.class_path().to_owned()).map_err(|e| e.to_string()),
            description: "sink: minidfs in sink mode, 1 DataNode".to_owned(),
            kind: Kind::Sink(child),
        })
    }

    pub(super) fn site(&self) -> Site {
        match self.kind {
            Kind::Real(_) => Site::Real,
            Kind::Sink(_) => Site::Sink,
        }
    }

    pub(super) fn uri(&self) -> &str {
        &self.uri
    }

    /// Class path of the Java client, or why there is none.
    pub(super) fn class_path(&self) -> std::result::Result<&str, &str> {
        self.class_path.as_deref().map_err(String::as_str)
    }

    pub(super) fn description(&self) -> &str {
        &self.description
    }

    pub(super) fn pids(&self) -> &[u32] {
        &self.pids
    }

    /// CPU seconds of all servers so far, in steps of 10 ms.
    pub(super) fn cpu_seconds(&self) -> f64 {
        self.pids.iter().filter_map(|pid| cpu_ticks(*pid)).sum::<f64>() / TICKS
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Kind::Sink(child) = &mut self.kind {
            // A failure means that it has ended already.
            let _killed = child.kill();
            let _ended = child.wait();
        }
    }
}

/// Fields of /proc/PID/stat behind the program's name, which may hold spaces.
fn stat_fields(pid: u32) -> Option<Vec<String>> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, fields) = text.rsplit_once(')')?;
    Some(fields.split_whitespace().map(str::to_owned).collect())
}

/// utime + stime, fields 14 and 15 of proc(5), counted from 1 with two before the split.
fn cpu_ticks(pid: u32) -> Option<f64> {
    let fields = stat_fields(pid)?;
    let tick = |index: usize| fields.get(index).and_then(|f| f.parse::<f64>().ok());
    Some(tick(11)? + tick(12)?)
}

/// Children of this process whose command line holds one of `words`.
fn children_like(words: &[&str]) -> Result<Vec<u32>> {
    let me = std::process::id().to_string();
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").map_err(|e| format!("/proc: {e}"))? {
        let name = entry.map_err(|e| format!("/proc: {e}"))?.file_name();
        let Some(pid) = name.to_str().and_then(|n| n.parse::<u32>().ok()) else { continue };
        let child = stat_fields(pid).is_some_and(|f| f.get(1) == Some(&me));
        // A process may end while we look.
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).into_owned();
        if child && words.iter().any(|word| line.contains(word)) {
            found.push(pid);
        }
    }
    if found.is_empty() {
        return Err(format!("no server process like {words:?} runs"));
    }
    Ok(found)
}
