//! The block map: states, reported replicas, placement, and how blocks look to clients.
use std::collections::BTreeSet;
use std::time::Instant;

use dfs::proto::common::TokenProto;
use dfs::proto::hdfs::{
    DatanodeIdProto, DatanodeInfoProto, ExtendedBlockProto, LocatedBlockProto, StorageTypeProto,
};

use super::error::{self, NnResult};
use super::{Command, NameSystem};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BlockState {
    UnderConstruction,
    UnderRecovery,
    Committed,
    Complete,
}

impl BlockState {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::UnderConstruction => "UNDER_CONSTRUCTION",
            Self::UnderRecovery => "UNDER_RECOVERY",
            Self::Committed => "COMMITTED",
            Self::Complete => "COMPLETE",
        }
    }
}

/// A replica that a DataNode reported.
#[derive(Clone, Debug)]
pub(crate) struct Stored {
    pub(crate) node: usize,
    pub(crate) gs: u64,
    pub(crate) len: u64,
    pub(crate) finalized: bool,
    pub(crate) corrupt: bool,
}

#[derive(Debug)]
pub(crate) struct BlockInfo {
    pub(crate) id: u64,
    pub(crate) gs: u64,
    pub(crate) len: u64,
    pub(crate) state: BlockState,
    /// Inode id of the file.
    pub(crate) file: u64,
    /// Nodes of the pipeline, in its order.
    pub(crate) targets: Vec<usize>,
    pub(crate) stored: Vec<Stored>,
    /// Generation stamp of the recovery under way.
    pub(crate) recovery_id: u64,
    /// When it started; none when no recovery runs.
    pub(crate) recovery_started: Option<Instant>,
    /// Length to which the recovery under way truncates.
    pub(crate) truncate_to: Option<u64>,
}

impl BlockInfo {
    pub(crate) fn describe(&self) -> String {
        format!("blk_{}_{}", self.id, self.gs)
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.state == BlockState::Complete
    }

    /// Nodes with a usable finalized replica of the current generation stamp.
    pub(crate) fn live(&self) -> Vec<usize> {
        let known = matches!(self.state, BlockState::Committed | BlockState::Complete);
        let usable = |s: &&Stored| {
            s.finalized && !s.corrupt && s.gs == self.gs && (!known || s.len == self.len)
        };
        let mut nodes: Vec<usize> = self.stored.iter().filter(usable).map(|s| s.node).collect();
        // In the order of the pipeline, whatever the order of the reports was.
        nodes.sort_by_key(|n| self.targets.iter().position(|t| t == n).unwrap_or(usize::MAX));
        nodes
    }
}

pub(crate) fn describe(block: &ExtendedBlockProto) -> String {
    format!("{}:blk_{}_{}", block.pool_id, block.block_id, block.generation_stamp)
}

pub(crate) fn empty_token() -> TokenProto {
    TokenProto {
        identifier: Vec::new(),
        password: Vec::new(),
        kind: String::new(),
        service: String::new(),
    }
}

impl NameSystem {
    /// Allocates a block for a file that is under construction.
    pub(super) fn new_block(&mut self, file: u64, targets: Vec<usize>) -> NnResult<u64> {
        self.next_block += 1;
        let (id, gs) = (self.next_block, self.bump_gs());
        let info = BlockInfo {
            id,
            gs,
            len: 0,
            state: BlockState::UnderConstruction,
            file,
            targets,
            stored: Vec::new(),
            recovery_id: 0,
            recovery_started: None,
            truncate_to: None,
        };
        self.tree.file_mut(file)?.blocks.push(id);
        self.blocks.insert(id, info);
        Ok(id)
    }

    pub(super) fn known_block(&self, id: u64) -> NnResult<&BlockInfo> {
        self.blocks.get(&id).ok_or_else(|| error::io(format!("block {id} is unknown")))
    }

    pub(super) fn known_block_mut(&mut self, id: u64) -> NnResult<&mut BlockInfo> {
        self.blocks.get_mut(&id).ok_or_else(|| error::io(format!("block {id} is unknown")))
    }

    /// Forgets a block and has its replicas deleted.
    pub(super) fn remove_block(&mut self, id: u64) {
        let Some(info) = self.blocks.remove(&id) else { return };
        let stored =
            info.stored.iter().map(|s| Command::Delete { node: s.node, block: id, gs: s.gs });
        self.commands.extend(stored);
    }

    /// A DataNode says that it has a replica. Hadoop 3.4 BlockManager#processReportedBlock.
    pub(crate) fn replica_reported(
        &mut self,
        node: usize,
        id: u64,
        gs: u64,
        len: u64,
        finalized: bool,
    ) {
        let Some(info) = self.blocks.get_mut(&id) else {
            self.commands.push(Command::Delete { node, block: id, gs });
            return;
        };
        let settled = matches!(info.state, BlockState::Committed | BlockState::Complete);
        let stale = settled && (gs != info.gs || (finalized && len != info.len));
        info.stored.retain(|s| s.node != node);
        if stale && info.is_complete() && !info.live().is_empty() {
            self.commands.push(Command::Delete { node, block: id, gs });
            return;
        }
        info.stored.push(Stored { node, gs, len, finalized, corrupt: stale && finalized });
        self.complete_if_replicated(id);
    }

    /// A DataNode lost a replica.
    pub(crate) fn replica_deleted(&mut self, node: usize, id: u64) {
        if let Some(info) = self.blocks.get_mut(&id) {
            info.stored.retain(|s| s.node != node);
        }
    }

    /// A restarted DataNode's full block report replaces what was known of it.
    pub(crate) fn forget_reports_of(&mut self, node: usize) {
        for info in self.blocks.values_mut() {
            info.stored.retain(|s| s.node != node);
        }
    }

    fn complete_if_replicated(&mut self, id: u64) {
        let need = usize::try_from(self.cfg.min_replication).unwrap_or(1);
        if let Some(info) = self.blocks.get_mut(&id)
            && info.state == BlockState::Committed
            && info.live().len() >= need
        {
            info.state = BlockState::Complete;
        }
    }

    /// Hadoop 3.4 BlockManager#commitOrCompleteLastBlock.
    pub(super) fn commit_last(
        &mut self,
        file: u64,
        commit: Option<&ExtendedBlockProto>,
    ) -> NnResult<()> {
        let Some(commit) = commit else { return Ok(()) };
        let Some(id) = self.tree.file(file)?.blocks.last().copied() else { return Ok(()) };
        let info = self.known_block_mut(id)?;
        match info.state {
            BlockState::Complete => return Ok(()),
            BlockState::UnderRecovery => {
                return Err(error::io(format!(
                    "Commit or complete block {}, whereas it is under recovery.",
                    describe(commit)
                )));
            }
            BlockState::Committed => {}
            BlockState::UnderConstruction => {
                check_commit(info, commit)?;
                info.len = commit.num_bytes();
                info.state = BlockState::Committed;
                let (gs, len) = (info.gs, info.len);
                // Hadoop drops what the pipeline left behind; a wrong length is corruption.
                info.stored.retain(|s| s.gs == gs);
                for stored in info.stored.iter_mut().filter(|s| s.finalized && s.len != len) {
                    stored.corrupt = true;
                }
            }
        }
        self.complete_if_replicated(id);
        Ok(())
    }

    /// Whether the penultimate block, or all of them, are complete.
    pub(super) fn progress(&self, file: u64, all: bool) -> NnResult<bool> {
        let ids = &self.tree.file(file)?.blocks;
        let checked: Vec<u64> =
            if all { ids.clone() } else { ids.iter().rev().skip(1).take(1).copied().collect() };
        Ok(checked.iter().all(|id| self.blocks.get(id).is_some_and(BlockInfo::is_complete)))
    }

    /// Whether the NameNode would send clients to a node.
    pub(super) fn is_alive(&self, node: usize) -> bool {
        self.nodes.get(node).is_some_and(|n| {
            n.silent_since.is_none_or(|since| since.elapsed() < self.cfg.dead_after)
        })
    }

    /// Picks up to `count` nodes at random.
    pub(super) fn choose_targets(&mut self, count: usize, exclude: &BTreeSet<usize>) -> Vec<usize> {
        let mut nodes: Vec<usize> = (0..self.nodes.len())
            .filter(|n| !exclude.contains(n) && self.is_alive(*n))
            .filter(|n| self.nodes.get(*n).is_some_and(|d| !d.decommissioned))
            .collect();
        self.rng.shuffle(&mut nodes);
        nodes.truncate(count);
        nodes
    }

    /// A random position for a node that joins a pipeline: Hadoop sorts the list anew.
    pub(super) fn insert_position(&mut self, len: usize) -> usize {
        self.rng.below(len + 1)
    }

    pub(super) fn node_by_id(&self, id: &DatanodeIdProto) -> Option<usize> {
        self.nodes.iter().position(|n| n.id.datanode_uuid == id.datanode_uuid)
    }

    pub(super) fn node_info(&self, node: usize) -> DatanodeInfoProto {
        let Some(desc) = self.nodes.get(node) else { return DatanodeInfoProto::default() };
        DatanodeInfoProto {
            id: desc.id.clone(),
            capacity: Some(self.cfg.capacity),
            dfs_used: Some(desc.used),
            remaining: Some(self.cfg.capacity.saturating_sub(desc.used)),
            block_pool_used: Some(desc.used),
            last_update: Some(super::tree::now_ms()),
            location: Some("/default-rack".to_owned()),
            non_dfs_used: Some(0),
            ..DatanodeInfoProto::default()
        }
    }

    pub(super) fn extended(&self, info: &BlockInfo) -> ExtendedBlockProto {
        ExtendedBlockProto {
            pool_id: self.pool_id.clone(),
            block_id: info.id,
            generation_stamp: info.gs,
            num_bytes: Some(info.len),
        }
    }

    pub(super) fn check_pool(&self, block: &ExtendedBlockProto) -> NnResult<()> {
        if block.pool_id == self.pool_id {
            return Ok(());
        }
        Err(error::io(format!(
            "Unexpected BlockPoolId {} - expected {}",
            block.pool_id, self.pool_id
        )))
    }

    /// A block with these locations.
    pub(super) fn located(
        &self,
        block: ExtendedBlockProto,
        offset: u64,
        nodes: &[usize],
        corrupt: bool,
    ) -> LocatedBlockProto {
        let storage =
            |n: &usize| self.nodes.get(*n).map_or(String::new(), |d| d.storage_id.clone());
        LocatedBlockProto {
            b: block,
            offset,
            locs: nodes.iter().map(|n| self.node_info(*n)).collect(),
            corrupt,
            block_token: empty_token(),
            is_cached: vec![false; nodes.len()],
            storage_types: vec![StorageTypeProto::Disk as i32; nodes.len()],
            storage_i_ds: nodes.iter().map(storage).collect(),
            block_indices: None,
            block_tokens: Vec::new(),
        }
    }

    /// A block as getBlockLocations shows it. Hadoop 3.4 BlockManager#createLocatedBlock: an
    /// incomplete block has its expected locations; corrupt replicas show only when all are.
    pub(super) fn located_for_read(&self, info: &BlockInfo, offset: u64) -> LocatedBlockProto {
        let block = self.extended(info);
        if !info.is_complete() {
            return self.located(block, offset, &info.targets, false);
        }
        let mut nodes = info.live();
        nodes.retain(|n| self.is_alive(*n));
        if !nodes.is_empty() {
            return self.located(block, offset, &nodes, false);
        }
        let corrupt: Vec<usize> =
            info.stored.iter().filter(|s| s.corrupt).map(|s| s.node).collect();
        self.located(block, offset, &corrupt, !corrupt.is_empty())
    }

    /// reportBadBlocks: the replicas at these nodes are corrupt.
    pub(super) fn mark_corrupt(&mut self, block: &ExtendedBlockProto, nodes: &[usize]) {
        if let Some(info) = self.blocks.get_mut(&block.block_id) {
            for stored in info.stored.iter_mut().filter(|s| nodes.contains(&s.node)) {
                stored.corrupt = true;
            }
        }
    }
}

/// Hadoop 3.4 BlockManager#commitBlock.
fn check_commit(info: &BlockInfo, commit: &ExtendedBlockProto) -> NnResult<()> {
    if commit.block_id != info.id {
        return Err(error::io(format!(
            "Trying to commit inconsistent block: id = {}, expected id = {}",
            commit.block_id, info.id
        )));
    }
    if info.len > commit.num_bytes() {
        return Err(error::io(format!(
            "commitBlock length is less than the stored one {} vs. {}",
            commit.num_bytes(),
            info.len
        )));
    }
    if info.gs != commit.generation_stamp {
        return Err(error::io(format!(
            "Commit block with mismatching GS. NN has {} ({}), client submits {}",
            info.describe(),
            info.state.name(),
            describe(commit)
        )));
    }
    Ok(())
}
