//! What a writer calls: create, blocks, pipeline updates, complete.
use std::collections::BTreeSet;

use dfs::proto::hdfs::{
    AddBlockRequestProto, CreateRequestProto, DatanodeInfoProto, ExtendedBlockProto,
    GetAdditionalDatanodeRequestProto, HdfsFileStatusProto, LocatedBlockProto,
    UpdatePipelineRequestProto,
};

use super::blocks::{BlockState, describe};
use super::dispatch::Context;
use super::error::{self, NnResult};
use super::recovery::LeaseOp;
use super::tree::{FileNode, Inode, Kind, Writer, now_ms};
use super::{BlockInfo, NameSystem, path};

const FLAG_CREATE: u32 = 1;
const FLAG_OVERWRITE: u32 = 2;
const FLAG_LAZY_PERSIST: u32 = 16;
const POLICY_LAZY_PERSIST: u32 = 15;

impl NameSystem {
    /// Hadoop 3.4 FSNamesystem#checkLease.
    pub(super) fn check_lease(&self, src: &str, file_id: u64, holder: &str) -> NnResult<u64> {
        let text = || format!("{src} (inode {file_id}) {}", self.leases.describe(holder));
        let Some(id) = self.tree.resolve_id(src, file_id)? else {
            return Err(error::file_not_found(format!("File does not exist: {}", text())));
        };
        let Some(file) = self.tree.known(id)?.file() else {
            return Err(error::lease_expired(format!("INode is not a regular file: {}", text())));
        };
        let Some(writer) = &file.writer else {
            return Err(error::lease_expired(format!("File is not open for writing: {}", text())));
        };
        if writer.client_name != holder {
            return Err(error::lease_expired(format!(
                "Client (={holder}) is not the lease owner (={}: {}",
                writer.client_name,
                text()
            )));
        }
        Ok(id)
    }

    pub(super) fn create(
        &mut self,
        ctx: &Context<'_>,
        req: &CreateRequestProto,
    ) -> NnResult<HdfsFileStatusProto> {
        let src = req.src.as_str();
        path::check_length(src, "create")?;
        path::check_new(src)?;
        self.check_create_numbers(ctx, req)?;
        self.check_safe_mode(&format!("Cannot create file{src}"))?;
        if req.client_name.is_empty() {
            return Err(error::illegal_argument(format!("create {src}: empty client name")));
        }
        self.make_room(ctx, req)?;
        let at = self.tree.resolve(src)?;
        let parent = self.make_ancestors(&at, ctx.user)?;
        path::check_component(at.name(), &at.parent_path())?;
        self.check_quota(parent, 1, 0)?;
        let lazy = req.create_flag & FLAG_LAZY_PERSIST != 0;
        let inherited = self.tree.known(parent)?.policy;
        let now = now_ms();
        let node = Inode {
            id: 0,
            parent,
            name: at.name().to_owned(),
            permission: req.masked.perm & 0o1777,
            owner: ctx.user.to_owned(),
            group: self.tree.known(parent)?.group.clone(),
            mtime: now,
            atime: now,
            policy: if lazy { POLICY_LAZY_PERSIST } else { inherited },
            kind: Kind::File(FileNode {
                replication: req.replication,
                block_size: req.block_size,
                blocks: Vec::new(),
                writer: Some(Writer {
                    client_name: req.client_name.clone(),
                    client_machine: ctx.client_ip.to_owned(),
                }),
            }),
        };
        let id = self.tree.insert(parent, node)?;
        self.leases.add(&req.client_name, id);
        self.status(id, "", false)
    }

    /// What may lie in the way of a new file. Hadoop 3.4 FSDirWriteFileOp: resolvePathForStartFile
    /// and the first half of startFile.
    fn make_room(&mut self, ctx: &Context<'_>, req: &CreateRequestProto) -> NnResult<()> {
        let src = req.src.as_str();
        let at = self.tree.resolve(src)?;
        match at.last() {
            Some(id) => {
                if self.tree.known(id)?.is_dir() {
                    return Err(error::file_already_exists(format!(
                        "{} already exists as a directory",
                        at.path
                    )));
                }
                if req.create_flag & FLAG_OVERWRITE != 0 {
                    self.remove_tree(id)?;
                } else {
                    self.recover_lease_internal(LeaseOp::Create, id, ctx, &req.client_name, false)?;
                    return Err(error::file_already_exists(format!(
                        "{} for client {} already exists",
                        at.path, ctx.client_ip
                    )));
                }
            }
            None => {
                if !req.create_parent {
                    self.verify_parent(&at)?;
                }
                if req.create_flag & FLAG_CREATE == 0 {
                    return Err(error::file_not_found(format!(
                        "Can't overwrite non-existent {src}"
                    )));
                }
            }
        }
        Ok(())
    }

    fn check_create_numbers(&self, ctx: &Context<'_>, req: &CreateRequestProto) -> NnResult<()> {
        let (src, replication) = (&req.src, req.replication);
        if replication > self.cfg.max_replication {
            return Err(error::io(format!(
                "Requested replication factor of {replication} exceeds maximum of {} for {src} \
                 from {}",
                self.cfg.max_replication, ctx.client_ip
            )));
        }
        if replication < self.cfg.min_replication {
            return Err(error::io(format!(
                "Requested replication factor of {replication} is less than the required minimum \
                 of {} for {src} from {}",
                self.cfg.min_replication, ctx.client_ip
            )));
        }
        if req.block_size < self.cfg.min_block_size {
            return Err(error::io(format!(
                "Specified block size is less than configured minimum value \
                 (dfs.namenode.fs-limits.min-block-size): {} < {}",
                req.block_size, self.cfg.min_block_size
            )));
        }
        let multiple = self.cfg.block_size_multiple.max(1);
        if !req.block_size.is_multiple_of(multiple) {
            return Err(error::io(format!(
                "Specified block size {} is not a multiple of {multiple}",
                req.block_size
            )));
        }
        Ok(())
    }

    /// Hadoop 3.4 FSDirWriteFileOp: validateAddBlock and storeAllocatedBlock.
    pub(super) fn add_block(&mut self, req: &AddBlockRequestProto) -> NnResult<LocatedBlockProto> {
        let src = req.src.as_str();
        let previous = req.previous.as_ref();
        if let Some(previous) = previous {
            self.check_pool(previous)?;
        }
        self.check_safe_mode(&format!("Cannot add block to {src}"))?;
        let file = self.check_lease(src, req.file_id(), &req.client_name)?;
        if let Some(last) = self.is_retry(src, file, previous)? {
            let info = self.known_block(last)?;
            let offset = self.file_length(file)?;
            return Ok(self.located(self.extended(info), offset, &info.targets, false));
        }
        if !self.progress(file, false)? {
            return Err(error::not_replicated_yet(format!("Not replicated yet: {src}")));
        }
        let (count, replication, block_size) = {
            let node = self.tree.file(file)?;
            (node.blocks.len(), node.replication, node.block_size)
        };
        if count >= self.cfg.max_blocks_per_file {
            return Err(error::io(format!(
                "File has reached the limit on maximum number of blocks \
                 (dfs.namenode.fs-limits.max-blocks-per-file): {count} >= {}",
                self.cfg.max_blocks_per_file
            )));
        }
        let targets = self.targets_for(src, replication, &req.exclude_nodes)?;
        self.commit_last(file, previous)?;
        let parent = self.tree.known(file)?.parent;
        self.check_quota(parent, 0, block_size * u64::from(replication))?;
        let offset = self.file_length(file)?;
        let block = self.new_block(file, targets)?;
        let info = self.known_block(block)?;
        Ok(self.located(self.extended(info), offset, &info.targets, false))
    }

    /// Hadoop 3.4 FSDirWriteFileOp#analyzeFileState: the last block when the client repeats a
    /// call whose answer it missed, an error when `previous` fits nothing.
    fn is_retry(
        &self,
        src: &str,
        file: u64,
        previous: Option<&ExtendedBlockProto>,
    ) -> NnResult<Option<u64>> {
        let node = self.tree.file(file)?;
        let nth_last = |n: usize| node.blocks.iter().rev().nth(n).and_then(|b| self.blocks.get(b));
        let same = |info: Option<&BlockInfo>| match (info, previous) {
            (Some(i), Some(p)) => i.id == p.block_id && i.gs == p.generation_stamp,
            (None, None) => true,
            _ => false,
        };
        let last = nth_last(0);
        if same(last) {
            return Ok(None);
        }
        if let (None, Some(last)) = (previous, last)
            && last.len >= node.block_size
            && last.is_complete()
        {
            return Ok(None);
        }
        if let Some(last) = last
            && same(nth_last(1))
        {
            if last.len != 0 {
                return Err(error::io(format!(
                    "Request looked like a retry to allocate block {} but it already contains {} \
                     bytes",
                    last.describe(),
                    last.len
                )));
            }
            return Ok(Some(last.id));
        }
        Err(error::io(format!(
            "Cannot allocate block in {src}: passed 'previous' block {} does not match actual \
             last block in file {}",
            previous.map_or_else(|| "null".to_owned(), describe),
            last.map_or_else(|| "null".to_owned(), BlockInfo::describe)
        )))
    }

    fn node_set(&self, infos: &[DatanodeInfoProto]) -> BTreeSet<usize> {
        infos.iter().filter_map(|i| self.node_by_id(&i.id)).collect()
    }

    fn targets_for(
        &mut self,
        src: &str,
        replication: u32,
        exclude: &[DatanodeInfoProto],
    ) -> NnResult<Vec<usize>> {
        let excluded = self.node_set(exclude);
        let wanted = usize::try_from(replication).unwrap_or(usize::MAX);
        let targets = self.choose_targets(wanted, &excluded);
        let need = usize::try_from(self.cfg.min_replication).unwrap_or(1);
        if targets.len() >= need {
            return Ok(targets);
        }
        let running = (0..self.nodes.len()).filter(|n| self.is_alive(*n)).count();
        let excluded = match exclude.len() {
            0 => "no".to_owned(),
            n => n.to_string(),
        };
        Err(error::io(format!(
            "File {src} could only be written to {} of the {need} minReplication nodes. There are \
             {running} datanode(s) running and {excluded} node(s) are excluded in this operation.",
            targets.len()
        )))
    }

    pub(super) fn abandon_block(
        &mut self,
        block: &ExtendedBlockProto,
        file_id: u64,
        src: &str,
        holder: &str,
    ) -> NnResult<()> {
        self.check_safe_mode(&format!("Cannot abandon block {} for file{src}", describe(block)))?;
        let file = self.check_lease(src, file_id, holder)?;
        let node = self.tree.file_mut(file)?;
        // Hadoop removes the block only if it is the last one; a repeated call finds it gone.
        if node.blocks.last() == Some(&block.block_id) {
            let complete = self.blocks.get(&block.block_id).is_some_and(BlockInfo::is_complete);
            if complete {
                return Err(error::illegal_argument(format!(
                    "Cannot abandon the complete block {}",
                    describe(block)
                )));
            }
            node.blocks.pop();
            self.remove_block(block.block_id);
        }
        Ok(())
    }

    pub(super) fn additional_datanode(
        &mut self,
        req: &GetAdditionalDatanodeRequestProto,
    ) -> NnResult<LocatedBlockProto> {
        self.check_safe_mode(&format!(
            "Cannot add datanode; src={}, blk={}",
            req.src,
            describe(&req.blk)
        ))?;
        self.check_lease(&req.src, req.file_id(), &req.client_name)?;
        let ids: Vec<_> = req.existings.iter().map(|e| e.id.clone()).collect();
        let mut nodes = self.nodes_with_storages(&ids, &req.existing_storage_uuids)?;
        let mut exclude = self.node_set(&req.excludes);
        exclude.extend(nodes.iter().copied());
        let wanted = usize::try_from(req.num_additional_nodes).unwrap_or(usize::MAX);
        for node in self.choose_targets(wanted, &exclude) {
            let position = self.insert_position(nodes.len());
            nodes.insert(position, node);
        }
        Ok(self.located(req.blk.clone(), u64::MAX, &nodes, false))
    }

    /// Hadoop 3.4 DatanodeManager#getDatanodeStorageInfos.
    fn nodes_with_storages(
        &self,
        ids: &[dfs::proto::hdfs::DatanodeIdProto],
        storages: &[String],
    ) -> NnResult<Vec<usize>> {
        if ids.len() != storages.len() {
            return Err(error::hadoop_illegal_argument(format!(
                "Missing storageIDs: It is likely that the HDFS client, who made this call, is \
                 running in an older version of Hadoop which does not support storageIDs. \
                 datanodeID.length={}, storageIDs.length={}",
                ids.len(),
                storages.len()
            )));
        }
        let lookup = |(id, storage): (&dfs::proto::hdfs::DatanodeIdProto, &String)| {
            let node = self.node_by_id(id).ok_or_else(|| {
                error::unregistered_node(format!(
                    "Data node {}:{} is attempting to report storage ID {}. Node is not \
                     registered.",
                    id.ip_addr, id.xfer_port, id.datanode_uuid
                ))
            })?;
            let known = self.nodes.get(node).is_some_and(|n| n.storage_id == *storage);
            if known {
                Ok(node)
            } else {
                Err(error::io(format!("storage {storage} of node {} is unknown", id.xfer_port)))
            }
        };
        ids.iter().zip(storages).map(lookup).collect()
    }

    /// Hadoop 3.4 FSNamesystem#checkUCBlock. Returns the file.
    fn check_uc_block(&self, block: &ExtendedBlockProto, client: &str) -> NnResult<u64> {
        self.check_safe_mode(&format!(
            "Cannot get a new generation stamp and an access token for block {}",
            describe(block)
        ))?;
        let Some(info) = self.blocks.get(&block.block_id) else {
            return Err(error::io(format!("{} does not exist.", describe(block))));
        };
        if info.state != BlockState::UnderConstruction {
            return Err(error::io(format!(
                "Unexpected BlockUCState: {} is {} but not UNDER_CONSTRUCTION",
                describe(block),
                info.state.name()
            )));
        }
        let writer = self.tree.get(info.file).and_then(Inode::file).and_then(|f| f.writer.as_ref());
        let Some(writer) = writer else {
            return Err(error::io(format!(
                "The file {} belonged to does not exist or it is not under construction.",
                describe(block)
            )));
        };
        if writer.client_name != client {
            return Err(error::lease_expired(format!(
                "Lease mismatch: {} is accessed by a non lease holder {client}",
                describe(block)
            )));
        }
        Ok(info.file)
    }

    pub(super) fn update_block_for_pipeline(
        &mut self,
        block: &ExtendedBlockProto,
        client: &str,
    ) -> NnResult<LocatedBlockProto> {
        self.check_pool(block)?;
        self.check_uc_block(block, client)?;
        let mut block = block.clone();
        block.generation_stamp = self.bump_gs();
        Ok(self.located(block, u64::MAX, &[], false))
    }

    pub(super) fn update_pipeline(&mut self, req: &UpdatePipelineRequestProto) -> NnResult<()> {
        let (old, new) = (&req.old_block, &req.new_block);
        self.check_pool(new)?;
        if old.block_id != new.block_id {
            return Err(error::illegal_argument(format!(
                "{} and {} has different block identifier",
                describe(new),
                describe(old)
            )));
        }
        self.check_safe_mode("Pipeline not updated")?;
        let file = self.check_uc_block(old, &req.client_name)?;
        let nodes = self.nodes_with_storages(&req.new_nodes, &req.storage_i_ds)?;
        let last = self.tree.file(file)?.blocks.last().copied();
        let info = self.known_block_mut(new.block_id)?;
        if last != Some(new.block_id)
            || new.generation_stamp <= info.gs
            || new.num_bytes() < info.len
        {
            return Err(error::io(format!(
                "Update {} (size={}) to an older block {} (size={}) for {}",
                info.describe(),
                info.len,
                describe(new),
                new.num_bytes(),
                req.client_name
            )));
        }
        info.gs = new.generation_stamp;
        info.len = new.num_bytes();
        info.targets = nodes;
        info.stored.retain(|s| s.gs >= new.generation_stamp);
        Ok(())
    }

    pub(super) fn fsync(
        &mut self,
        src: &str,
        file_id: u64,
        client: &str,
        last_block_length: i64,
    ) -> NnResult<()> {
        self.check_safe_mode(&format!("Cannot fsync file {src}"))?;
        let file = self.check_lease(src, file_id, client)?;
        let Some(last) = self.tree.file(file)?.blocks.last().copied() else { return Ok(()) };
        if let Ok(length) = u64::try_from(last_block_length)
            && length > 0
        {
            let info = self.known_block_mut(last)?;
            if info.is_complete() {
                return Err(error::assertion("The last block is complete".to_owned()));
            }
            info.len = length;
        }
        Ok(())
    }

    /// Hadoop 3.4 FSDirWriteFileOp#completeFileInternal.
    pub(super) fn complete(
        &mut self,
        src: &str,
        file_id: u64,
        holder: &str,
        last: Option<&ExtendedBlockProto>,
    ) -> NnResult<bool> {
        if let Some(last) = last {
            self.check_pool(last)?;
        }
        self.check_safe_mode(&format!("Cannot complete file {src}"))?;
        let file = match self.check_lease(src, file_id, holder) {
            Ok(file) => file,
            Err(e) if self.is_closed_with(src, file_id, last)? => {
                debug_assert!(e.class.ends_with("LeaseExpiredException"));
                return Ok(true);
            }
            Err(e) => return Err(e),
        };
        if !self.progress(file, false)? {
            return Ok(false);
        }
        self.commit_last(file, last)?;
        if !self.progress(file, true)? {
            return Ok(false);
        }
        self.close_file(file)?;
        Ok(true)
    }

    /// A repeated complete: the file is closed and ends with the block that the client names.
    fn is_closed_with(
        &self,
        src: &str,
        file_id: u64,
        last: Option<&ExtendedBlockProto>,
    ) -> NnResult<bool> {
        let Some(id) = self.tree.resolve_id(src, file_id)? else { return Ok(false) };
        let Some(file) = self.tree.known(id)?.file() else { return Ok(false) };
        let real = file.blocks.last().and_then(|b| self.blocks.get(b));
        let same = match (real, last) {
            (Some(r), Some(l)) => r.id == l.block_id && r.gs == l.generation_stamp,
            (None, None) => true,
            _ => false,
        };
        Ok(file.writer.is_none() && same)
    }

    /// Hadoop 3.4 FSNamesystem#finalizeINodeFileUnderConstruction.
    pub(super) fn close_file(&mut self, file: u64) -> NnResult<()> {
        let writer = self.tree.file_mut(file)?.writer.take();
        if let Some(writer) = writer {
            self.leases.remove(&writer.client_name, file);
        }
        self.tree.known_mut(file)?.mtime = now_ms();
        Ok(())
    }
}
