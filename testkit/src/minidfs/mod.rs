//! minidfs: a small HDFS in one process that speaks the real wire protocols.
//!
//! One or two NameNodes and any number of DataNodes listen on ports of 127.0.0.1. They follow
//! Hadoop 3.x in what they accept, refuse and answer, down to exception class names, so that a
//! client tested here also works there. What they lack is Hadoop's scale: one lock guards the
//! namespace, nothing outlives the process, blocks are not replicated anew after a loss, and
//! there is no security.
//!
//! ```text
//! use dfs_testkit::minidfs::{Fault, MiniDfs, Rule, Site};
//!
//! let cluster = MiniDfs::builder().datanodes(3).start()?;
//! let rule = cluster.faults().add(Rule::new(Site::Ack, Fault::LoseAck).on(1).skip(5));
//! println!("{}", cluster.uri());
//! ```
//!
//! # Inside
//!
//! - `net`: listeners and connections that can be paused, cut and closed from outside.
//! - `rpc`: Hadoop RPC, server side. `nn`: the namespace. `cluster`: both together with what
//!   NameNode and DataNodes say to each other, which goes through calls, not sockets.
//! - `dn`: DataNodes. `sink`: the DataNode of the sink mode, which only costs the client.
//! - `faults`: the rules by which things go wrong; `sched`: the timer thread.
//!
//! Threads: an accept thread per port, a thread per connection, an ack thread per open block on
//! each node, one timer. Every connection is known to its server, so stopping closes them all and
//! waits for their threads.
mod cluster;
mod config;
mod dn;
mod faults;
mod net;
mod nn;
mod replica;
pub(crate) mod rng;
mod rpc;
mod sched;
mod wire;

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use cluster::{Cluster, NnHandler};
pub use config::{Config, PermissionHook};
use dn::DnCore;
pub use faults::{BadHeader, Fault, FaultPlan, Op, Rule, RuleHandle, Site};
use net::{Conn, ConnTable, Gate, Listener};
use nn::{NodeDesc, SafeMode};
pub use replica::{DataNode, ReplicaInfo, ReplicaState};

/// How long connection threads of the NameNodes get to end.
const STOP_LIMIT: Duration = Duration::from_secs(15);

/// Builds a cluster, see [`MiniDfs::builder`].
pub struct Builder(Config);

macro_rules! setters {
    ($($(#[$doc:meta])* $name:ident: $type:ty;)*) => {
        impl Builder {
            $($(#[$doc])*
            pub fn $name(mut self, value: $type) -> Self {
                self.0.$name = value;
                self
            })*
        }
    };
}

setters! {
    /// Sets [`Config::datanodes`].
    datanodes: usize;
    /// Sets [`Config::replication`].
    replication: u32;
    /// Sets [`Config::block_size`].
    block_size: u64;
    /// Sets [`Config::ha`].
    ha: bool;
    /// Sets [`Config::port`].
    port: u16;
    /// Sets [`Config::seed`].
    seed: u64;
    /// Sets [`Config::list_limit`].
    list_limit: usize;
    /// Sets [`Config::report_delay`].
    report_delay: Duration;
    /// Sets [`Config::keepalive`].
    keepalive: Duration;
    /// Sets [`Config::lease_soft_limit`].
    lease_soft_limit: Duration;
    /// Sets [`Config::lease_hard_limit`].
    lease_hard_limit: Duration;
    /// Sets [`Config::dead_after`].
    dead_after: Duration;
}

impl Builder {
    /// Changes any setting.
    pub fn configure(mut self, change: impl FnOnce(&mut Config)) -> Self {
        change(&mut self.0);
        self
    }

    /// Starts the cluster; every port listens when this returns.
    ///
    /// # Errors
    ///
    /// Whatever hinders ports, threads or directories.
    pub fn start(self) -> io::Result<MiniDfs> {
        MiniDfs::start(self.0)
    }
}

/// A running cluster. Dropping it stops everything and removes its temporary directory.
pub struct MiniDfs {
    cluster: Arc<Cluster>,
    namenodes: Vec<Listener>,
    conns: Arc<ConnTable>,
    gate: Arc<Gate>,
    datanodes: Vec<DataNode>,
    dir: PathBuf,
    /// The directory goes at the end.
    temporary: bool,
}

impl MiniDfs {
    /// A cluster of three DataNodes with Hadoop's defaults, to be changed and started.
    pub fn builder() -> Builder {
        Builder(Config::default())
    }

    fn start(cfg: Config) -> io::Result<Self> {
        let pool_id = format!("BP-{}-127.0.0.1-{}", cfg.seed, std::process::id());
        let cfg = Arc::new(cfg);
        let cluster = Cluster::new(Arc::clone(&cfg), pool_id.clone())?;
        let (dir, temporary) = match &cfg.dir {
            Some(dir) => (dir.clone(), false),
            None => {
                let temporary = tempfile::Builder::new().prefix("minidfs-").tempdir()?;
                (temporary.keep(), true)
            }
        };
        let mut this = Self {
            cluster,
            namenodes: Vec::new(),
            conns: Arc::default(),
            gate: Arc::default(),
            datanodes: Vec::new(),
            dir,
            temporary,
        };
        // From here on an error drops `this`, which stops what has been started.
        for index in 0..cfg.datanodes {
            let dir = this.dir.join(format!("dn{index}"));
            let core = DnCore::start(index, &this.cluster, &dir, &pool_id)?;
            this.cluster.add_node(Arc::clone(&core));
            let desc = NodeDesc {
                id: core.id(),
                storage_id: core.storage_id(),
                silent_since: None,
                decommissioned: false,
                used: 0,
            };
            this.cluster.with_ns(|ns| ns.nodes.push(desc));
            this.datanodes.push(DataNode(core));
        }
        for index in 0..if cfg.ha { 2 } else { 1 } {
            let listener = this.start_namenode(index)?;
            this.namenodes.push(listener);
        }
        this.cluster.watch_leases();
        Ok(this)
    }

    fn start_namenode(&self, index: usize) -> io::Result<Listener> {
        let handler: Arc<dyn rpc::Handler> =
            Arc::new(NnHandler { cluster: Arc::clone(&self.cluster), index });
        let port = if index == 0 { self.cluster.cfg.port } else { 0 };
        let serve = Arc::new(move |conn: Conn| rpc::serve(conn, &handler));
        let bind = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        Listener::start(bind, &format!("minidfs-nn{index}"), &self.gate, &self.conns, serve)
    }

    /// `hdfs://127.0.0.1:port` of the first NameNode.
    pub fn uri(&self) -> String {
        self.namenode_addr(0).map_or_else(String::new, |a| format!("hdfs://{a}"))
    }

    /// Hadoop keys with which a client reaches the cluster: its default file system and, with
    /// HA, the nameservice `minidfs` with both NameNodes.
    pub fn client_keys(&self) -> Vec<(String, String)> {
        let key = |k: &str, v: &str| (k.to_owned(), v.to_owned());
        let address = |i: usize| self.namenode_addr(i).map_or_else(String::new, |a| a.to_string());
        if !self.cluster.cfg.ha {
            return vec![key("fs.defaultFS", &self.uri())];
        }
        vec![
            key("fs.defaultFS", "hdfs://minidfs"),
            key("dfs.nameservices", "minidfs"),
            key("dfs.ha.namenodes.minidfs", "nn0,nn1"),
            key("dfs.namenode.rpc-address.minidfs.nn0", &address(0)),
            key("dfs.namenode.rpc-address.minidfs.nn1", &address(1)),
            key(
                "dfs.client.failover.proxy.provider.minidfs",
                "org.apache.hadoop.hdfs.server.namenode.ha.ConfiguredFailoverProxyProvider",
            ),
        ]
    }

    /// RPC address of a NameNode; none when there is no such NameNode.
    pub fn namenode_addr(&self, index: usize) -> Option<SocketAddr> {
        self.namenodes.get(index).map(Listener::addr)
    }

    /// Index of the active NameNode.
    pub fn active(&self) -> usize {
        self.cluster.active()
    }

    /// Makes a NameNode active; the other one is standby from now on.
    pub fn set_active(&self, index: usize) {
        self.cluster.set_active(index);
    }

    /// Handle of a DataNode; none when there is no such DataNode.
    pub fn datanode(&self, index: usize) -> Option<&DataNode> {
        self.datanodes.get(index)
    }

    /// All DataNodes, in order.
    pub fn datanodes(&self) -> &[DataNode] {
        &self.datanodes
    }

    /// The fault plan.
    pub fn faults(&self) -> &FaultPlan {
        &self.cluster.faults
    }

    /// Settings of the cluster.
    pub fn config(&self) -> &Config {
        &self.cluster.cfg
    }

    /// Directory that holds the replicas.
    pub fn dir(&self) -> &std::path::Path {
        &self.dir
    }

    /// Every replica of a file: block by block, DataNode by DataNode. Empty without such a file.
    pub fn replicas(&self, path: &str) -> Vec<ReplicaInfo> {
        let ids = self.cluster.with_ns(|ns| ns.block_ids(path));
        ids.iter().flat_map(|id| self.datanodes.iter().filter_map(|d| d.replica(*id))).collect()
    }

    /// Ids of the blocks of a file, in order. Empty without such a file.
    pub fn block_ids(&self, path: &str) -> Vec<u64> {
        self.cluster.with_ns(|ns| ns.block_ids(path))
    }

    /// What the NameNode knows of a block: generation stamp, length, whether it is complete.
    pub fn block_state(&self, id: u64) -> Option<(u64, u64, bool)> {
        self.cluster.with_ns(|ns| ns.block(id).map(|b| (b.gs, b.len, b.is_complete())))
    }

    /// Number of calls by RPC method that reached a handler, on both NameNodes together.
    pub fn calls(&self) -> BTreeMap<String, u64> {
        self.cluster.with_ns(|ns| ns.calls.clone())
    }

    /// Number of calls of one RPC method.
    pub fn call_count(&self, method: &str) -> u64 {
        self.cluster.with_ns(|ns| ns.calls.get(method).copied().unwrap_or(0))
    }

    /// Number of answers that came from the retry cache.
    pub fn retry_cache_hits(&self) -> u64 {
        self.cluster.with_ns(|ns| ns.retry_cache_hits())
    }

    /// Client names that hold a lease.
    pub fn lease_holders(&self) -> Vec<String> {
        self.cluster.with_ns(|ns| ns.lease_holders())
    }

    /// Makes the lease of an open file look as if it had not been renewed for `by`; false when
    /// the file is not open.
    pub fn age_lease(&self, path: &str, by: Duration) -> bool {
        self.cluster.with_ns(|ns| ns.age_lease(path, by))
    }

    /// Enters or leaves a safe mode as after a start: RetriableException with HA.
    pub fn set_startup_safe_mode(&self, on: bool) {
        let mode = if on { SafeMode::Startup } else { SafeMode::Off };
        self.cluster.with_ns(|ns| ns.safe_mode = mode);
    }

    /// Connections to the NameNodes: open now, accepted so far.
    pub fn namenode_connections(&self) -> (usize, u64) {
        (self.conns.open_count(), self.conns.accepted())
    }

    /// Closes every connection to the NameNodes.
    pub fn drop_namenode_connections(&self) {
        self.conns.shutdown_all();
    }

    /// The NameNodes stop reading and answering, or go on.
    pub fn pause_namenodes(&self, paused: bool) {
        if paused {
            self.gate.pause();
        } else {
            self.gate.open();
        }
    }
}

impl Drop for MiniDfs {
    fn drop(&mut self) {
        self.gate.close();
        for listener in &mut self.namenodes {
            listener.stop();
        }
        self.conns.shutdown_all();
        let ended = self.cluster.stop() & self.conns.wait_empty(STOP_LIMIT);
        if self.temporary {
            remove_dir(&self.dir);
        }
        // In a drop there is nobody to tell; a debug build makes the defect loud.
        debug_assert!(ended || std::thread::panicking(), "threads of minidfs did not end");
    }
}

/// A recovery that is still moving a replica can put a file into a directory that is being
/// removed, so this tries again for a while.
fn remove_dir(dir: &std::path::Path) {
    for _ in 0..100 {
        match std::fs::remove_dir_all(dir) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => {
                std::thread::sleep(Duration::from_millis(10));
            }
            _ => return,
        }
    }
}
