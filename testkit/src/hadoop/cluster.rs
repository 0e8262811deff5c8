//! A cluster of NameNode and DataNode processes on 127.0.0.1.

use super::artifacts::java_tool;
use super::config::{NAMESERVICE, Properties, jvm_options, write_site_files};
use super::process::{Process, TempTree};
use super::server::{Server, free_port, kill, running, server_at};
use super::{
    Artifacts, BenchClient, ClusterConfig, HarnessError, Oracle, ReplicaFile, Result, blocks, jmx,
};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

const POLL: Duration = Duration::from_millis(50);

/// A running Hadoop cluster. All methods may be called from any thread; a cluster that tests
/// share must not have its nodes killed or stopped by one of them.
///
/// Dropping it kills every process and removes the data.
pub struct Cluster {
    config: ClusterConfig,
    artifacts: Artifacts,
    base: Properties,
    oracle: OnceLock<Oracle>,
    namenodes: Mutex<Vec<Server>>,
    datanodes: Mutex<Vec<Server>>,
    /// Last, so that it is dropped when no process writes into it any more.
    tree: TempTree,
}

impl Cluster {
    /// Starts a cluster and waits until every DataNode has registered and reported and safe mode
    /// is off. The error holds the log of the process that failed.
    pub fn start(config: ClusterConfig) -> Result<Self> {
        const TRIES: usize = 3;
        let artifacts = Artifacts::prepare(&config.version)?;
        let mut outcome = Self::try_start(&config, &artifacts);
        for _ in 1..TRIES {
            match &outcome {
                // Somebody took a port between our looking and the server's binding.
                Err(e) if e.to_string().contains("java.net.BindException") => {
                    outcome = Self::try_start(&config, &artifacts);
                }
                _ => break,
            }
        }
        outcome
    }

    /// One cluster of three DataNodes for all tests of this process, started by the first caller.
    pub fn shared() -> Result<&'static Self> {
        static SHARED: OnceLock<Result<Cluster>> = OnceLock::new();
        match SHARED.get_or_init(|| Self::start(ClusterConfig::new())) {
            Ok(cluster) => Ok(cluster),
            Err(e) => Err(e.clone()),
        }
    }

    fn try_start(config: &ClusterConfig, artifacts: &Artifacts) -> Result<Self> {
        let tree = TempTree::create()?;
        let count = if config.high_availability { 2 } else { 1 };
        let mut namenodes = Vec::new();
        for i in 0..count {
            let ports = vec![free_port()?, free_port()?];
            let main = vec!["io.libdfs.testkit.NameNodeMain".to_owned(), "run".to_owned()];
            namenodes.push(Server::new(format!("namenode-{i}"), main, tree.path(), ports));
        }
        let cluster = Self {
            base: base_properties(config, &namenodes, tree.path()),
            config: config.clone(),
            artifacts: artifacts.clone(),
            oracle: OnceLock::new(),
            namenodes: Mutex::new(namenodes),
            datanodes: Mutex::new(Vec::new()),
            tree,
        };
        write_site_files(&cluster.conf_dir(), &cluster.base)?;
        cluster.launch_all()?;
        Ok(cluster)
    }

    fn launch_all(&self) -> Result<()> {
        let deadline = Instant::now() + self.config.start_limit;
        let (first_name, standby_name) = {
            let mut namenodes = self.namenodes();
            for (i, server) in namenodes.iter().enumerate() {
                write_site_files(&server.conf_dir(), &self.namenode_properties(server, i))?;
            }
            let standby = namenodes.get(1).map(|server| server.directory.join("name"));
            let first = server_at(&mut namenodes, 0)?;
            let mut format = first.clone_main("format");
            format.push(first.directory.join("name").display().to_string());
            format.extend(standby.iter().map(|path| path.display().to_string()));
            self.launch(first, &format)?;
            (first.name.clone(), standby)
        };
        for _ in 0..self.config.datanode_count {
            self.launch_new_datanode()?;
        }
        if let Some(standby) = standby_name {
            // The first NameNode formats and leaves a copy of its name directory.
            self.wait("the copy of the name directory", deadline, || Ok(standby.exists()))
                .map_err(|e| HarnessError::new(format!("{e} ({first_name})")))?;
            self.start_server(&self.namenodes, 1)?;
            self.wait_namenodes_answer(deadline)?;
            self.transition_to_active(0)?;
        }
        self.wait_ready(deadline)
    }

    fn namenodes(&self) -> MutexGuard<'_, Vec<Server>> {
        self.namenodes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn datanodes(&self) -> MutexGuard<'_, Vec<Server>> {
        self.datanodes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn namenode_properties(&self, server: &Server, index: usize) -> Properties {
        let mut all = self.base.clone();
        server.add_common(&mut all);
        let name = server.directory.join("name");
        all.insert("dfs.namenode.name.dir".into(), format!("file://{}", name.display()));
        if self.config.high_availability {
            all.insert("dfs.ha.namenode.id".into(), format!("nn{index}"));
        }
        all
    }

    fn datanode_properties(&self, server: &Server) -> Properties {
        let mut all = self.base.clone();
        server.add_common(&mut all);
        let data = server.directory.join("data");
        all.insert("dfs.datanode.data.dir".into(), format!("file://{}", data.display()));
        all.insert("dfs.datanode.hostname".into(), "127.0.0.1".into());
        let keys = ["dfs.datanode.address", "dfs.datanode.ipc.address"];
        let keys = keys.into_iter().chain(["dfs.datanode.http.address"]);
        for (key, port) in keys.zip(&server.ports) {
            all.insert(key.into(), format!("127.0.0.1:{port}"));
        }
        all
    }

    fn launch(&self, server: &mut Server, main: &[String]) -> Result<()> {
        let temporary = server.directory.join("tmp");
        fs::create_dir_all(&temporary).map_err(|e| HarnessError::io("create", &temporary, e))?;
        let mut arguments = jvm_options(self.config.heap_mib, self.config.full_jit, &temporary);
        arguments.push("-cp".into());
        let conf = server.conf_dir();
        arguments.push(format!("{}:{}", self.artifacts.class_path(), conf.display()));
        arguments.extend_from_slice(main);
        server.starts += 1;
        let log = server.log();
        let java = java_tool("java");
        server.process = Some(Process::start(&server.name, &java, &arguments, &log, false)?);
        Ok(())
    }

    fn launch_new_datanode(&self) -> Result<usize> {
        let mut datanodes = self.datanodes();
        let index = datanodes.len();
        let ports = vec![free_port()?, free_port()?, free_port()?];
        let main = vec!["org.apache.hadoop.hdfs.server.datanode.DataNode".to_owned()];
        let mut server = Server::new(format!("datanode-{index}"), main, self.tree.path(), ports);
        write_site_files(&server.conf_dir(), &self.datanode_properties(&server))?;
        let main = server.main.clone();
        self.launch(&mut server, &main)?;
        datanodes.push(server);
        Ok(index)
    }

    fn start_server(&self, list: &Mutex<Vec<Server>>, index: usize) -> Result<()> {
        let mut servers = list.lock().unwrap_or_else(PoisonError::into_inner);
        let server = server_at(&mut servers, index)?;
        server.process = None;
        let main = server.main.clone();
        self.launch(server, &main)
    }

    /// Polls until `done`, failing early when a server ends that should run.
    fn wait(
        &self,
        what: &str,
        deadline: Instant,
        mut done: impl FnMut() -> Result<bool>,
    ) -> Result<()> {
        loop {
            for list in [&self.namenodes, &self.datanodes] {
                let mut servers = list.lock().unwrap_or_else(PoisonError::into_inner);
                for process in servers.iter_mut().filter_map(|s| s.process.as_mut()) {
                    process.check_running()?;
                }
            }
            if done()? {
                return Ok(());
            }
            if Instant::now() >= deadline {
                return Err(HarnessError::new(format!(
                    "gave up waiting for {what}; the logs end with:\n{}",
                    self.logs(30)
                )));
            }
            std::thread::sleep(POLL);
        }
    }

    fn wait_namenodes_answer(&self, deadline: Instant) -> Result<()> {
        // Counted before the loop: its head would hold the lock for the whole loop.
        let count = self.namenodes().len();
        for index in 0..count {
            self.wait("the NameNodes to answer", deadline, || {
                // No answer yet is what is waited out here.
                Ok(self.namenode_state(index).is_ok())
            })?;
        }
        Ok(())
    }

    fn wait_ready(&self, deadline: Instant) -> Result<()> {
        self.wait("the DataNodes' first block reports", deadline, || {
            Ok(self.datanodes().iter().all(|s| s.process.is_none() || s.has_reported()))
        })?;
        let wanted = self.datanodes().iter().filter(|s| s.process.is_some()).count();
        let count = self.namenodes().len();
        for index in 0..count {
            self.wait("live DataNodes and the end of safe mode", deadline, || {
                // A NameNode that a test has killed has nothing to become ready for.
                let down = self.namenodes().get(index).is_none_or(|s| s.process.is_none());
                Ok(down || self.namenode_ready(index, wanted))
            })?;
        }
        Ok(())
    }

    fn namenode_ready(&self, index: usize, wanted: usize) -> bool {
        let query = "Hadoop:service=NameNode,name=FSNamesystemState";
        let Ok(json) = self.bean(index, query) else { return false };
        let live = jmx::member(&json, "NumLiveDataNodes").and_then(|n| n.parse().ok());
        live.is_some_and(|live: usize| live >= wanted)
            && jmx::member(&json, "FSState") == Some("Operational")
    }

    fn bean(&self, index: usize, query: &str) -> Result<String> {
        let port = server_at(&mut self.namenodes(), index)?.ports.get(1).copied();
        jmx::bean(port.unwrap_or_default(), query)
    }

    /// `hdfs://127.0.0.1:PORT`, or `hdfs://libdfs` with high availability.
    pub fn uri(&self) -> String {
        self.base.get("fs.defaultFS").cloned().unwrap_or_default()
    }

    /// The Hadoop version that runs, such as `3.5.0`.
    pub fn version(&self) -> &str {
        self.artifacts.version()
    }

    /// Directory with `core-site.xml` and `hdfs-site.xml` for clients.
    pub fn conf_dir(&self) -> PathBuf {
        self.tree.path().join("client")
    }

    /// Writes `core-site.xml` and `hdfs-site.xml` for clients into `directory`.
    pub fn write_conf(&self, directory: &Path) -> Result<()> {
        write_site_files(directory, &self.base)
    }

    /// The jars that the cluster runs from, for further Java programs.
    pub fn artifacts(&self) -> &Artifacts {
        &self.artifacts
    }

    /// Hadoop's Java client on this cluster; one process, started by the first caller.
    pub fn oracle(&self) -> Result<&Oracle> {
        if let Some(oracle) = self.oracle.get() {
            return Ok(oracle);
        }
        let started = self.new_oracle()?;
        Ok(self.oracle.get_or_init(|| started))
    }

    /// A further Java client process on this cluster.
    pub fn new_oracle(&self) -> Result<Oracle> {
        Oracle::start(&self.artifacts, &self.conf_dir(), self.tree.path())
    }

    /// A Java client JVM for benchmarks on this cluster.
    pub fn bench_client(&self) -> Result<BenchClient> {
        BenchClient::start(&self.artifacts, &self.conf_dir(), self.tree.path())
    }

    /// How many DataNodes were ever started; indices go from 0 to this.
    pub fn datanode_count(&self) -> usize {
        self.datanodes().len()
    }

    /// `127.0.0.1:PORT` of the data transfer port, the same over restarts.
    pub fn datanode_address(&self, index: usize) -> Result<String> {
        self.datanode_port(index, 0)
    }

    /// `127.0.0.1:PORT` of the ClientDatanodeProtocol port, the same over restarts.
    pub fn datanode_ipc_address(&self, index: usize) -> Result<String> {
        self.datanode_port(index, 1)
    }

    fn datanode_port(&self, index: usize, which: usize) -> Result<String> {
        let port = server_at(&mut self.datanodes(), index)?.ports.get(which).copied();
        Ok(format!("127.0.0.1:{}", port.unwrap_or_default()))
    }

    /// The index of the DataNode with this `127.0.0.1:PORT` data transfer address.
    pub fn datanode_index(&self, address: &str) -> Result<usize> {
        self.datanodes()
            .iter()
            .position(|s| s.ports.first().is_some_and(|p| address == format!("127.0.0.1:{p}")))
            .ok_or_else(|| HarnessError::new(format!("no DataNode at {address}")))
    }

    /// `127.0.0.1:PORT` of a NameNode's ClientProtocol port.
    pub fn namenode_address(&self, index: usize) -> Result<String> {
        let port = server_at(&mut self.namenodes(), index)?.ports.first().copied();
        Ok(format!("127.0.0.1:{}", port.unwrap_or_default()))
    }

    /// Kills a DataNode (SIGKILL) and waits until it is gone.
    pub fn kill_datanode(&self, index: usize) -> Result<()> {
        kill(&self.datanodes, index)
    }

    /// Ends a DataNode as an administrator does (SIGTERM) and waits until it is gone.
    pub fn terminate_datanode(&self, index: usize) -> Result<()> {
        self.signal(&self.datanodes, index, "TERM")?;
        self.await_end(&self.datanodes, index)
    }

    /// Shuts a DataNode down for an upgrade: it tells writers with an out-of-band ack that it
    /// will be back. Waits until it is gone; start it with [`Self::restart_datanode`].
    pub fn shut_datanode_for_upgrade(&self, index: usize) -> Result<()> {
        let address = self.datanode_ipc_address(index)?;
        let arguments = ["-shutdownDatanode", &address, "upgrade"];
        self.run_tool("org.apache.hadoop.hdfs.tools.DFSAdmin", &arguments)?;
        self.await_end(&self.datanodes, index)
    }

    /// Pauses a DataNode (SIGSTOP): its connections stay, nothing answers.
    pub fn stop_datanode(&self, index: usize) -> Result<()> {
        self.signal(&self.datanodes, index, "STOP")
    }

    /// Lets a paused DataNode go on (SIGCONT).
    pub fn continue_datanode(&self, index: usize) -> Result<()> {
        self.signal(&self.datanodes, index, "CONT")
    }

    /// Lets every write of a DataNode to its disk fail ("File too large"), until
    /// [`Self::mend_disk`] or the node's next start. It goes on reading, and making empty files.
    pub fn fail_disk(&self, index: usize) -> Result<()> {
        running(&mut self.datanodes(), index)?.limit_file_size("0")
    }

    /// Ends [`Self::fail_disk`].
    pub fn mend_disk(&self, index: usize) -> Result<()> {
        running(&mut self.datanodes(), index)?.limit_file_size("unlimited")
    }

    /// Starts a DataNode anew (killing it if it runs) on its old data and ports; returns when it
    /// has registered and reported its blocks.
    pub fn restart_datanode(&self, index: usize) -> Result<()> {
        self.start_server(&self.datanodes, index)?;
        self.wait_ready(Instant::now() + self.config.start_limit)
    }

    /// Starts one more DataNode and returns its index once it has registered and reported.
    pub fn add_datanode(&self) -> Result<usize> {
        let index = self.launch_new_datanode()?;
        self.wait_ready(Instant::now() + self.config.start_limit)?;
        Ok(index)
    }

    /// Kills the (first) NameNode and starts it again on its data; returns when the running
    /// DataNodes have registered with it and safe mode is off.
    pub fn restart_namenode(&self) -> Result<()> {
        self.kill_namenode(0)?;
        self.start_namenode(0)
    }

    /// Kills a NameNode (SIGKILL) and waits until it is gone.
    pub fn kill_namenode(&self, index: usize) -> Result<()> {
        kill(&self.namenodes, index)
    }

    /// Starts a killed NameNode; returns when it is ready (with high availability: as standby).
    pub fn start_namenode(&self, index: usize) -> Result<()> {
        self.start_server(&self.namenodes, index)?;
        self.wait_ready(Instant::now() + self.config.start_limit)?;
        if let Some(oracle) = self.oracle.get() {
            // Up to 2.7, Java's first call on the dead NameNode's idle connection fails.
            let _ = oracle.fs_status();
        }
        Ok(())
    }

    /// Pauses a NameNode (SIGSTOP).
    pub fn stop_namenode(&self, index: usize) -> Result<()> {
        self.signal(&self.namenodes, index, "STOP")
    }

    /// Lets a paused NameNode go on (SIGCONT).
    pub fn continue_namenode(&self, index: usize) -> Result<()> {
        self.signal(&self.namenodes, index, "CONT")
    }

    /// `active` or `standby`; without high availability always `active`.
    pub fn namenode_state(&self, index: usize) -> Result<String> {
        let json = self.bean(index, "Hadoop:service=NameNode,name=NameNodeStatus")?;
        jmx::member(&json, "State")
            .map(str::to_owned)
            .ok_or_else(|| HarnessError::new(format!("no State in {json}")))
    }

    /// Makes a NameNode active (high availability only); the other must be standby or dead.
    pub fn transition_to_active(&self, index: usize) -> Result<()> {
        // Without the option the tool first asks the other one, and fails when that is dead.
        let id = format!("nn{index}");
        self.run_tool(HA_ADMIN, &["-transitionToActive", "--forceactive", &id])
    }

    /// Makes a NameNode standby (high availability only).
    pub fn transition_to_standby(&self, index: usize) -> Result<()> {
        self.run_tool(HA_ADMIN, &["-transitionToStandby", &format!("nn{index}")])
    }

    fn run_tool(&self, class: &str, arguments: &[&str]) -> Result<()> {
        self.oracle()?
            .tool(class, arguments)
            .map(drop)
            .map_err(|e| HarnessError::new(format!("{class} {arguments:?}: {e}")))
    }

    /// How many DataNodes the NameNode holds for alive; a killed one counts until its heartbeats
    /// are overdue (see [`ClusterConfig::fast_dead_nodes`]).
    pub fn live_datanode_count(&self) -> Result<usize> {
        let json = self.bean(0, "Hadoop:service=NameNode,name=FSNamesystemState")?;
        jmx::member(&json, "NumLiveDataNodes")
            .and_then(|n| n.parse().ok())
            .ok_or_else(|| HarnessError::new(format!("no NumLiveDataNodes in {json}")))
    }

    /// Waits until the NameNode holds exactly `count` DataNodes for alive.
    pub fn wait_live_datanodes(&self, count: usize, limit: Duration) -> Result<()> {
        self.wait(&format!("{count} live DataNodes"), Instant::now() + limit, || {
            Ok(self.live_datanode_count()? == count)
        })
    }

    /// The replicas in a DataNode's storage directory, running or not.
    pub fn replicas(&self, index: usize) -> Result<Vec<ReplicaFile>> {
        let data = server_at(&mut self.datanodes(), index)?.directory.join("data");
        blocks::replicas(&data)
    }

    /// All replicas of one block, with the index of their DataNode.
    pub fn replicas_of(&self, block_id: i64) -> Result<Vec<(usize, ReplicaFile)>> {
        let mut found = Vec::new();
        let count = self.datanode_count();
        for index in 0..count {
            let replicas = self.replicas(index)?.into_iter();
            found.extend(replicas.filter(|r| r.block_id == block_id).map(|r| (index, r)));
        }
        Ok(found)
    }

    /// The last `lines` lines of every server's current log.
    pub fn logs(&self, lines: usize) -> String {
        let mut text = String::new();
        for list in [&self.namenodes, &self.datanodes] {
            let servers = list.lock().unwrap_or_else(PoisonError::into_inner);
            for process in servers.iter().filter_map(|s| s.process.as_ref()) {
                text.push_str(&format!("--- {}\n{}\n", process.name(), process.log_tail(lines)));
            }
        }
        text
    }

    /// The process id of a DataNode that runs.
    pub fn datanode_pid(&self, index: usize) -> Result<u32> {
        Ok(running(&mut self.datanodes(), index)?.id())
    }

    fn signal(&self, list: &Mutex<Vec<Server>>, index: usize, signal: &str) -> Result<()> {
        let mut servers = list.lock().unwrap_or_else(PoisonError::into_inner);
        running(&mut servers, index)?.signal(signal)
    }

    fn await_end(&self, list: &Mutex<Vec<Server>>, index: usize) -> Result<()> {
        let deadline = Instant::now() + Duration::from_secs(30);
        loop {
            let mut servers = list.lock().unwrap_or_else(PoisonError::into_inner);
            let process = running(&mut servers, index)?;
            if process.ended()?.is_some() {
                server_at(&mut servers, index)?.process = None;
                return Ok(());
            }
            if Instant::now() >= deadline {
                return Err(HarnessError::new(format!(
                    "{} did not end:\n{}",
                    process.name(),
                    process.log_tail(30)
                )));
            }
            drop(servers);
            std::thread::sleep(POLL);
        }
    }
}

const HA_ADMIN: &str = "org.apache.hadoop.hdfs.tools.DFSHAAdmin";

/// What servers and clients share.
fn base_properties(config: &ClusterConfig, namenodes: &[Server], tree: &Path) -> Properties {
    let mut all = Properties::new();
    let address = |server: &Server, which: usize| {
        format!("127.0.0.1:{}", server.ports.get(which).copied().unwrap_or_default())
    };
    if config.high_availability {
        let ids: Vec<String> = (0..namenodes.len()).map(|i| format!("nn{i}")).collect();
        all.insert("fs.defaultFS".into(), format!("hdfs://{NAMESERVICE}"));
        all.insert("dfs.nameservices".into(), NAMESERVICE.into());
        all.insert(format!("dfs.ha.namenodes.{NAMESERVICE}"), ids.join(","));
        for (id, server) in ids.iter().zip(namenodes) {
            let suffix = format!("{NAMESERVICE}.{id}");
            all.insert(format!("dfs.namenode.rpc-address.{suffix}"), address(server, 0));
            all.insert(format!("dfs.namenode.http-address.{suffix}"), address(server, 1));
        }
        let provider = "org.apache.hadoop.hdfs.server.namenode.ha.ConfiguredFailoverProxyProvider";
        all.insert(format!("dfs.client.failover.proxy.provider.{NAMESERVICE}"), provider.into());
        let shared = tree.join("shared-edits");
        all.insert("dfs.namenode.shared.edits.dir".into(), format!("file://{}", shared.display()));
        all.insert("dfs.ha.fencing.methods".into(), "shell(/bin/true)".into());
        all.insert("dfs.ha.tail-edits.period".into(), "1".into());
        all.insert("dfs.ha.log-roll.period".into(), "1".into());
    } else {
        for server in namenodes {
            all.insert("fs.defaultFS".into(), format!("hdfs://{}", address(server, 0)));
            all.insert("dfs.namenode.http-address".into(), address(server, 1));
        }
    }
    all.extend(config.properties.clone());
    all
}
