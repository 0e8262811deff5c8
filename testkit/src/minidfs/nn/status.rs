//! How inodes and files look to clients.
use dfs::proto::hdfs::hdfs_file_status_proto::FileType;
use dfs::proto::hdfs::{
    DirectoryListingProto, FsPermissionProto, HdfsFileStatusProto, LocatedBlocksProto,
};

use super::NameSystem;
use super::error::{self, NnResult};
use super::tree::{Inode, Kind};

impl NameSystem {
    /// Length with what is known of the last block. Hadoop 3.4 INodeFile#computeFileSize.
    pub(super) fn file_length(&self, id: u64) -> NnResult<u64> {
        let blocks = &self.tree.file(id)?.blocks;
        Ok(blocks.iter().filter_map(|b| self.blocks.get(b)).map(|b| b.len).sum())
    }

    /// Status of an inode; `name` is empty for a query of the path itself.
    pub(super) fn status(
        &self,
        id: u64,
        name: &str,
        with_locations: bool,
    ) -> NnResult<HdfsFileStatusProto> {
        let inode = self.tree.known(id)?;
        let mut status = HdfsFileStatusProto {
            file_type: FileType::IsDir as i32,
            path: name.as_bytes().to_vec(),
            length: 0,
            permission: FsPermissionProto { perm: inode.permission },
            owner: inode.owner.clone(),
            group: inode.group.clone(),
            modification_time: inode.mtime,
            access_time: inode.atime,
            file_id: Some(inode.id),
            storage_policy: Some(inode.policy),
            block_replication: Some(0),
            blocksize: Some(0),
            children_num: Some(0),
            flags: Some(0),
            ..HdfsFileStatusProto::default()
        };
        match &inode.kind {
            Kind::Dir(dir) => {
                status.children_num = Some(i32::try_from(dir.children.len()).unwrap_or(i32::MAX));
            }
            Kind::File(file) => {
                status.file_type = FileType::IsFile as i32;
                status.length = self.file_length(id)?;
                status.block_replication = Some(file.replication);
                status.blocksize = Some(file.block_size);
                if with_locations {
                    status.locations = Some(self.locations(id, 0, u64::MAX)?);
                }
            }
        }
        Ok(status)
    }

    /// Blocks of a range. Hadoop 3.4 BlockManager#createLocatedBlocks: an incomplete last block
    /// is not counted in the file length, but shown as `last_block`.
    pub(super) fn locations(
        &self,
        id: u64,
        offset: u64,
        length: u64,
    ) -> NnResult<LocatedBlocksProto> {
        let file = self.tree.file(id)?;
        let mut answer = LocatedBlocksProto {
            under_construction: file.writer.is_some(),
            ..LocatedBlocksProto::default()
        };
        let end = offset.saturating_add(length);
        let mut at = 0;
        let mut started = false;
        for (i, block) in file.blocks.iter().enumerate() {
            let info = self.known_block(*block)?;
            if (started && at < end) || (!started && at + info.len > offset) {
                started = true;
                answer.blocks.push(self.located_for_read(info, at));
            }
            at += info.len;
            if i + 1 == file.blocks.len() {
                let complete = info.is_complete();
                answer.is_last_block_complete = complete;
                answer.last_block = Some(self.located_for_read(info, at - info.len));
                answer.file_length = if complete { at } else { at - info.len };
            }
        }
        Ok(answer)
    }

    pub(super) fn get_block_locations(
        &self,
        src: &str,
        offset: u64,
        length: u64,
    ) -> NnResult<LocatedBlocksProto> {
        if i64::try_from(offset).is_err() {
            return Err(error::hadoop_illegal_argument(format!(
                "Negative offset is not supported. File: {src}"
            )));
        }
        if i64::try_from(length).is_err() {
            return Err(error::hadoop_illegal_argument(format!(
                "Negative length is not supported. File: {src}"
            )));
        }
        let id = self.existing_file(src)?;
        let answer = self.locations(id, offset, length)?;
        if self.safe_mode != super::SafeMode::Off && answer.blocks.iter().any(|b| b.locs.is_empty())
        {
            self.check_safe_mode(&format!("Zero blocklocations for {src}"))?;
        }
        Ok(answer)
    }

    /// Hadoop 3.4 INodeFile#valueOf.
    pub(super) fn existing_file(&self, src: &str) -> NnResult<u64> {
        let last = self.tree.resolve(src)?.last();
        let Some(id) = last else {
            return Err(error::file_not_found(format!("File does not exist: {src}")));
        };
        if self.tree.known(id)?.is_dir() {
            return Err(error::file_not_found(format!("Path is not a file: {src}")));
        }
        Ok(id)
    }

    /// One page of a directory; a file lists itself with an empty name.
    pub(super) fn listing(
        &self,
        src: &str,
        start_after: &[u8],
        need_location: bool,
    ) -> NnResult<Option<DirectoryListingProto>> {
        let Some(id) = self.tree.resolve(src)?.last() else { return Ok(None) };
        let inode = self.tree.known(id)?;
        let Some(dir) = inode.dir() else {
            let only = self.status(id, "", need_location)?;
            return Ok(Some(DirectoryListingProto {
                partial_listing: vec![only],
                remaining_entries: 0,
            }));
        };
        let later: Vec<(&String, &u64)> =
            dir.children.iter().filter(|(name, _)| name.as_bytes() > start_after).collect();
        let page = later.len().min(self.cfg.list_limit.max(1));
        let mut listing = DirectoryListingProto::default();
        // Hadoop counts located blocks against the limit as well.
        let mut budget = page;
        for (name, child) in later.iter().take(page) {
            if budget == 0 {
                break;
            }
            let status = self.status(**child, name, need_location)?;
            let blocks = status.locations.as_ref().map_or(0, |l| l.blocks.len());
            budget = budget.saturating_sub(blocks.max(1));
            listing.partial_listing.push(status);
        }
        let left = later.len() - listing.partial_listing.len();
        listing.remaining_entries = u32::try_from(left).unwrap_or(u32::MAX);
        Ok(Some(listing))
    }

    pub(super) fn file_info(
        &self,
        src: &str,
        with_locations: bool,
    ) -> NnResult<Option<HdfsFileStatusProto>> {
        let found = self.tree.resolve(src)?.last();
        found.map(|id| self.status(id, "", with_locations)).transpose()
    }

    pub(super) fn is_file_closed(&self, src: &str) -> NnResult<bool> {
        let id = self.existing_file(src)?;
        Ok(self.tree.known(id)?.file().is_some_and(|f| f.writer.is_none()))
    }

    pub(super) fn inode_of(&self, src: &str) -> NnResult<&Inode> {
        match self.tree.resolve(src)?.last() {
            Some(id) => self.tree.known(id),
            None => Err(error::file_not_found(format!("File does not exist: {src}"))),
        }
    }
}
