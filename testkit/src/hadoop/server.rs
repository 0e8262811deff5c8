//! One NameNode or DataNode of a cluster.

use super::config::Properties;
use super::process::Process;
use super::{HarnessError, Result};
use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Mutex, PoisonError};

/// One server of the cluster: its directory, its ports and, while it runs, its process.
pub(crate) struct Server {
    pub(crate) name: String,
    pub(crate) main: Vec<String>,
    pub(crate) directory: PathBuf,
    pub(crate) ports: Vec<u16>,
    pub(crate) starts: u32,
    pub(crate) process: Option<Process>,
}

impl Server {
    pub(crate) fn new(name: String, main: Vec<String>, tree: &Path, ports: Vec<u16>) -> Self {
        let directory = tree.join(&name);
        Self { name, main, directory, ports, starts: 0, process: None }
    }

    pub(crate) fn conf_dir(&self) -> PathBuf {
        self.directory.join("conf")
    }

    /// A log of its own for every start, so that what it says is about this start.
    pub(crate) fn log(&self) -> PathBuf {
        self.directory.join(format!("{}.{}.log", self.name, self.starts))
    }

    /// The main class with another first argument.
    pub(crate) fn clone_main(&self, verb: &str) -> Vec<String> {
        self.main.iter().take(1).cloned().chain([verb.to_owned()]).collect()
    }

    pub(crate) fn add_common(&self, all: &mut Properties) {
        all.insert("hadoop.tmp.dir".into(), self.directory.join("tmp").display().to_string());
        // All servers start at once; who comes first must not wait whole seconds for the rest.
        all.insert("ipc.client.connect.retry.interval".into(), "100".into());
        all.insert("ipc.client.connect.max.retries".into(), "600".into());
    }

    /// True once this start of a DataNode has sent its first block report.
    pub(crate) fn has_reported(&self) -> bool {
        fs::read_to_string(self.log()).is_ok_and(|t| t.contains("uccessfully sent block report"))
    }
}

pub(crate) fn server_at(servers: &mut [Server], index: usize) -> Result<&mut Server> {
    let count = servers.len();
    servers
        .get_mut(index)
        .ok_or_else(|| HarnessError::new(format!("no server {index}: the cluster has {count}")))
}

pub(crate) fn running(servers: &mut [Server], index: usize) -> Result<&mut Process> {
    let server = server_at(servers, index)?;
    let name = server.name.clone();
    server.process.as_mut().ok_or_else(|| HarnessError::new(format!("{name} does not run")))
}

pub(crate) fn kill(list: &Mutex<Vec<Server>>, index: usize) -> Result<()> {
    let mut servers = list.lock().unwrap_or_else(PoisonError::into_inner);
    running(&mut servers, index)?.kill()?;
    server_at(&mut servers, index)?.process = None;
    Ok(())
}

/// A port of 127.0.0.1 that nobody listens on, below the range that the kernel hands to outgoing
/// connections, so that it also stays free while its server is down.
pub(crate) fn free_port() -> Result<u16> {
    const FIRST: u16 = 12_000;
    const COUNT: u16 = 20_000;
    static NEXT: AtomicU16 = AtomicU16::new(0);
    // Test processes that run side by side begin at different places.
    let start = (std::process::id().wrapping_mul(97) % u32::from(COUNT)) as u16;
    for _ in 0..COUNT {
        let step = NEXT.fetch_add(1, Ordering::Relaxed) % COUNT;
        let port = FIRST + ((u32::from(start) + u32::from(step)) % u32::from(COUNT)) as u16;
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return Ok(port);
        }
    }
    Err(HarnessError::new(format!("no free port from {FIRST} to {}", FIRST + COUNT)))
}
