//! The NameNode's state and rules. Everything here runs under one lock, held for one call.
//!
//! `tree` has the inodes, `blocks` the block map and placement, `lease` the leases; the other
//! files are the operations, grouped by what they touch. `dispatch` decodes calls. Commands for
//! DataNodes collect in [`NameSystem::commands`]; the cluster carries them out afterwards.
mod blocks;
mod dir_ops;
mod dispatch;
mod error;
mod file_ops;
mod lease;
mod path;
mod quota;
mod recovery;
mod rename;
mod retry_cache;
mod status;
mod tree;
mod virt;
mod write_ops;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Instant;

use dfs::proto::hdfs::DatanodeIdProto;

pub(crate) use blocks::BlockInfo;
pub(crate) use dispatch::{CLIENT_PROTOCOL, Context};
use error::NnResult;
use lease::Leases;
pub(crate) use recovery::Recovered;
use retry_cache::RetryCache;
use tree::Tree;

use super::config::Config;
use super::rng::Rng;

/// A DataNode as the NameNode knows it.
pub(crate) struct NodeDesc {
    pub(crate) id: DatanodeIdProto,
    pub(crate) storage_id: String,
    /// Since when nothing was heard of it; none while it runs.
    pub(crate) silent_since: Option<Instant>,
    pub(crate) decommissioned: bool,
    pub(crate) used: u64,
}

/// Work for a DataNode that an operation produced.
#[derive(Clone, Debug)]
pub(crate) enum Command {
    /// Delete a replica that no longer belongs to a file.
    Delete { node: usize, block: u64, gs: u64 },
    /// Recover a block over these nodes.
    Recover { block: u64, gs: u64, recovery_id: u64, nodes: Vec<usize>, truncate_to: Option<u64> },
}

/// Safe mode: off, entered by hand, or as if after a start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SafeMode {
    Off,
    Manual,
    Startup,
}

/// State of the whole namespace.
pub(crate) struct NameSystem {
    pub(crate) cfg: Arc<Config>,
    pub(crate) pool_id: String,
    tree: Tree,
    blocks: HashMap<u64, BlockInfo>,
    leases: Leases,
    pub(crate) nodes: Vec<NodeDesc>,
    next_block: u64,
    next_gs: u64,
    pub(crate) safe_mode: SafeMode,
    retry_cache: RetryCache,
    rng: Rng,
    pub(crate) commands: Vec<Command>,
    pub(crate) calls: BTreeMap<String, u64>,
}

impl NameSystem {
    pub(crate) fn new(cfg: Arc<Config>, pool_id: String) -> Self {
        let owner = cfg.superuser.clone().unwrap_or_else(|| "hdfs".to_owned());
        Self {
            rng: Rng::new(cfg.seed),
            cfg,
            pool_id,
            tree: Tree::new(&owner),
            blocks: HashMap::new(),
            leases: Leases::default(),
            nodes: Vec::new(),
            // Hadoop's first block and generation stamp are one behind these.
            next_block: 1_073_741_824,
            next_gs: 1000,
            safe_mode: SafeMode::Off,
            retry_cache: RetryCache::default(),
            commands: Vec::new(),
            calls: BTreeMap::new(),
        }
    }

    fn bump_gs(&mut self) -> u64 {
        self.next_gs += 1;
        self.next_gs
    }

    /// How many answers came from the retry cache.
    pub(crate) fn retry_cache_hits(&self) -> u64 {
        self.retry_cache.hits
    }

    /// Ids of the blocks of a file, in order; empty when there is no such file.
    pub(crate) fn block_ids(&self, path: &str) -> Vec<u64> {
        let last = self.tree.resolve(path).ok().and_then(|r| r.last());
        let file = last.and_then(|id| self.tree.get(id)).and_then(tree::Inode::file);
        file.map_or_else(Vec::new, |f| f.blocks.clone())
    }

    pub(crate) fn block(&self, id: u64) -> Option<&BlockInfo> {
        self.blocks.get(&id)
    }

    /// Makes the lease of whoever writes `path` look unrenewed for `by`.
    pub(crate) fn age_lease(&mut self, path: &str, by: std::time::Duration) -> bool {
        let last = self.tree.resolve(path).ok().and_then(|r| r.last());
        let writer = last
            .and_then(|id| self.tree.get(id))
            .and_then(tree::Inode::file)
            .and_then(|f| f.writer.clone());
        match writer {
            Some(writer) => {
                self.leases.age(&writer.client_name, by);
                true
            }
            None => false,
        }
    }

    pub(crate) fn lease_holders(&self) -> Vec<String> {
        self.leases.holders()
    }

    /// Hadoop 3.4 FSNamesystem#checkNameNodeSafeMode: an automatic safe mode of an active HA
    /// NameNode asks for a retry, any other one is an error.
    pub(crate) fn check_safe_mode(&self, what: &str) -> NnResult<()> {
        let text = || {
            format!(
                "{what}. Name node is in safe mode.\nIt was turned on manually. Use \"hdfs \
                 dfsadmin -safemode leave\" to turn safe mode off. NamenodeHostName:localhost"
            )
        };
        match self.safe_mode {
            SafeMode::Off => Ok(()),
            SafeMode::Startup if self.cfg.ha => Err(error::retriable(format!(
                "org.apache.hadoop.hdfs.server.namenode.SafeModeException: {}",
                text()
            ))),
            SafeMode::Startup | SafeMode::Manual => Err(error::safe_mode(text())),
        }
    }
}
