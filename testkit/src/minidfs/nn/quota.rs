//! Namespace and space quotas, counted when they are checked: minidfs directories are small.
use dfs::proto::hdfs::ContentSummaryProto;

use super::NameSystem;
use super::error::{self, NnResult};
use super::tree::Kind;

/// `-1` of the protocol: the quota is cleared.
const CLEAR: u64 = u64::MAX;
/// HdfsConstants.QUOTA_DONT_SET: the quota stays as it is.
const KEEP: u64 = i64::MAX as u64;

/// Inodes and bytes (times replication) of a subtree.
#[derive(Clone, Copy, Default)]
pub(super) struct Usage {
    pub(super) length: u64,
    pub(super) files: u64,
    pub(super) dirs: u64,
    pub(super) space: u64,
}

impl NameSystem {
    pub(super) fn usage(&self, id: u64) -> NnResult<Usage> {
        let mut usage = Usage::default();
        for node in self.tree.subtree(id) {
            match &self.tree.known(node)?.kind {
                Kind::Dir(_) => usage.dirs += 1,
                Kind::File(file) => {
                    usage.files += 1;
                    for block in &file.blocks {
                        let info = self.known_block(*block)?;
                        usage.length += info.len;
                        // A block that is being written counts as if it were full.
                        let bytes = if info.is_complete() {
                            info.len
                        } else {
                            file.block_size.max(info.len)
                        };
                        usage.space += bytes * u64::from(file.replication);
                    }
                }
            }
        }
        Ok(usage)
    }

    /// Fails when `dir` or a directory above it has no room for that many inodes and bytes.
    pub(super) fn check_quota(&self, dir: u64, inodes: u64, bytes: u64) -> NnResult<()> {
        let mut chain = vec![dir];
        chain.extend(self.tree.ancestors(dir));
        for id in chain {
            let Some(node) = self.tree.get(id).and_then(super::tree::Inode::dir) else { continue };
            let (ns, ds) = (node.ns_quota, node.ds_quota);
            if ns.is_none() && ds.is_none() {
                continue;
            }
            let usage = self.usage(id)?;
            let count = usage.files + usage.dirs + inodes;
            if let Some(quota) = ns
                && inodes > 0
                && count > quota
            {
                return Err(error::ns_quota(format!(
                    "The NameSpace quota (directories and files) of directory {} is exceeded: \
                     quota={quota} file count={count}",
                    self.tree.path_of(id)
                )));
            }
            let space = usage.space + bytes;
            if let Some(quota) = ds
                && bytes > 0
                && space > quota
            {
                return Err(error::ds_quota(format!(
                    "The DiskSpace quota of {} is exceeded: quota = {quota} B but diskspace \
                     consumed = {space} B",
                    self.tree.path_of(id)
                )));
            }
        }
        Ok(())
    }

    pub(super) fn set_quota(&mut self, src: &str, ns: u64, ds: u64) -> NnResult<()> {
        let valid = |q: u64| q == CLEAR || (q > 0 && q <= KEEP);
        if !valid(ns) || !(valid(ds) || ds == 0) {
            return Err(error::illegal_argument(format!(
                "Illegal value for nsQuota or ssQuota : {} and {}",
                ns.cast_signed(),
                ds.cast_signed()
            )));
        }
        let Some(id) = self.tree.resolve(src)?.last() else {
            return Err(error::file_not_found(format!("Directory does not exist: {src}")));
        };
        let Kind::Dir(dir) = &mut self.tree.known_mut(id)?.kind else {
            return Err(error::file_not_found(format!("Directory does not exist: {src}")));
        };
        let apply = |old: &mut Option<u64>, new: u64| match new {
            KEEP => {}
            CLEAR => *old = None,
            quota => *old = Some(quota),
        };
        apply(&mut dir.ns_quota, ns);
        apply(&mut dir.ds_quota, ds);
        Ok(())
    }

    pub(super) fn content_summary(&self, src: &str) -> NnResult<ContentSummaryProto> {
        let inode = self.inode_of(src)?;
        let usage = self.usage(inode.id)?;
        let quota = |q: Option<u64>| q.unwrap_or(CLEAR);
        let dir = inode.dir();
        Ok(ContentSummaryProto {
            length: usage.length,
            file_count: usage.files,
            directory_count: usage.dirs,
            quota: quota(dir.and_then(|d| d.ns_quota)),
            space_consumed: usage.space,
            space_quota: quota(dir.and_then(|d| d.ds_quota)),
            ..ContentSummaryProto::default()
        })
    }
}
