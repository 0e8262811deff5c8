//! Directories, attributes and deletion.
use dfs::proto::hdfs::{SetOwnerRequestProto, SetTimesRequestProto};

use super::dispatch::Context;
use super::error::{self, NnResult};
use super::tree::{DirNode, Inode, Kind, ROOT_ID, Resolved, join, now_ms};
use super::{NameSystem, path};

/// `-1` of the protocol: the time stays as it is.
const TIME_KEEP: u64 = u64::MAX;

impl NameSystem {
    pub(super) fn mkdirs(
        &mut self,
        ctx: &Context<'_>,
        src: &str,
        permission: u32,
        create_parent: bool,
    ) -> NnResult<bool> {
        path::check_length(src, "mkdirs")?;
        path::check_new(src)?;
        self.check_safe_mode(&format!("Cannot create directory {src}"))?;
        let at = self.tree.resolve(src)?;
        if let Some(id) = at.last() {
            if self.tree.known(id)?.is_dir() {
                return Ok(true);
            }
            return Err(error::file_already_exists(format!("Path is not a directory: {src}")));
        }
        if !create_parent {
            self.verify_parent(&at)?;
        }
        let parent = self.make_ancestors(&at, ctx.user)?;
        self.make_dir(parent, &at.parent_path(), at.name(), ctx.user, permission)?;
        Ok(true)
    }

    fn make_dir(
        &mut self,
        parent: u64,
        parent_path: &str,
        name: &str,
        owner: &str,
        permission: u32,
    ) -> NnResult<u64> {
        path::check_component(name, parent_path)?;
        self.check_quota(parent, 1, 0)?;
        let above = self.tree.known(parent)?;
        let node = Inode {
            id: 0,
            parent,
            name: name.to_owned(),
            permission: permission & 0o1777,
            owner: owner.to_owned(),
            group: above.group.clone(),
            mtime: now_ms(),
            atime: 0,
            policy: above.policy,
            kind: Kind::Dir(DirNode::default()),
        };
        self.tree.insert(parent, node)
    }

    /// Creates what is missing above a path and returns its directory.
    ///
    /// Hadoop 3.4 FSDirMkdirOp: implicit directories take their parent's mode plus u+wx.
    pub(super) fn make_ancestors(&mut self, at: &Resolved, owner: &str) -> NnResult<u64> {
        let wanted = at.names.len().saturating_sub(1);
        let mut parent = at.deepest();
        if at.inodes.len() > wanted + 1 {
            return Ok(at.inodes.get(wanted).copied().unwrap_or(ROOT_ID));
        }
        for depth in at.inodes.len() - 1..wanted {
            let above = join(at.names.get(..depth).unwrap_or_default());
            let name = at.names.get(depth).cloned().unwrap_or_default();
            let permission = self.tree.known(parent)?.permission | 0o300;
            parent = self.make_dir(parent, &above, &name, owner, permission)?;
        }
        Ok(parent)
    }

    /// Hadoop 3.4 FSDirectory#verifyParentDir.
    pub(super) fn verify_parent(&self, at: &Resolved) -> NnResult<()> {
        let parent = at.parent_path();
        if at.inodes.len() < at.names.len() {
            return Err(error::file_not_found(format!("Parent directory doesn't exist: {parent}")));
        }
        Ok(())
    }

    pub(super) fn delete(&mut self, src: &str, recursive: bool) -> NnResult<bool> {
        self.check_safe_mode(&format!("Cannot delete {src}"))?;
        let at = self.tree.resolve(src)?;
        let Some(id) = at.last() else { return Ok(false) };
        let filled = self.tree.known(id)?.dir().is_some_and(|d| !d.children.is_empty());
        if !recursive && filled {
            return Err(error::not_empty(format!(
                "`{} is non empty': Directory is not empty",
                at.path
            )));
        }
        if at.is_root() {
            return Ok(false);
        }
        self.remove_tree(id)?;
        Ok(true)
    }

    /// Removes an inode and all below it, their leases and their blocks.
    pub(super) fn remove_tree(&mut self, id: u64) -> NnResult<()> {
        self.tree.detach(id)?;
        for node in self.tree.subtree(id) {
            let Some(inode) = self.tree.forget(node) else { continue };
            if let Kind::File(file) = inode.kind {
                if let Some(writer) = file.writer {
                    self.leases.remove(&writer.client_name, node);
                }
                for block in file.blocks {
                    self.remove_block(block);
                }
            }
        }
        Ok(())
    }

    fn inode_mut(&mut self, src: &str) -> NnResult<&mut Inode> {
        match self.tree.resolve(src)?.last() {
            Some(id) => self.tree.known_mut(id),
            None => Err(error::file_not_found(format!("File does not exist: {src}"))),
        }
    }

    pub(super) fn set_permission(&mut self, src: &str, permission: u32) -> NnResult<()> {
        self.check_safe_mode(&format!("Cannot set permission for {src}"))?;
        self.inode_mut(src)?.permission = permission & 0o1777;
        Ok(())
    }

    pub(super) fn set_owner(
        &mut self,
        ctx: &Context<'_>,
        req: &SetOwnerRequestProto,
    ) -> NnResult<()> {
        self.check_safe_mode(&format!("Cannot set owner for {}", req.src))?;
        let superuser = ctx.is_superuser(&self.cfg);
        let inode = self.inode_mut(&req.src)?;
        if let Some(user) = &req.username {
            if !superuser && *user != inode.owner {
                return Err(error::access_control(format!(
                    "User {} is not a super user (non-super user cannot change owner).",
                    ctx.user
                )));
            }
            inode.owner.clone_from(user);
        }
        if let Some(group) = &req.groupname {
            inode.group.clone_from(group);
        }
        Ok(())
    }

    pub(super) fn set_times(&mut self, req: &SetTimesRequestProto) -> NnResult<()> {
        self.check_safe_mode(&format!("Cannot set times {}", req.src))?;
        let Some(id) = self.tree.resolve(&req.src)?.last() else {
            return Err(error::file_not_found(format!(
                "File/Directory {} does not exist.",
                req.src
            )));
        };
        let inode = self.tree.known_mut(id)?;
        if req.mtime != TIME_KEEP {
            inode.mtime = req.mtime;
        }
        if req.atime != TIME_KEEP {
            inode.atime = req.atime;
        }
        Ok(())
    }

    pub(super) fn set_replication(&mut self, src: &str, replication: u32) -> NnResult<bool> {
        self.check_safe_mode(&format!("Cannot set replication for {src}"))?;
        if replication > self.cfg.max_replication {
            return Err(error::io(format!(
                "Requested replication factor of {replication} exceeds maximum of {} for {src}",
                self.cfg.max_replication
            )));
        }
        if replication < self.cfg.min_replication {
            return Err(error::io(format!(
                "Requested replication factor of {replication} is less than the required minimum \
                 of {} for {src}",
                self.cfg.min_replication
            )));
        }
        let Some(id) = self.tree.resolve(src)?.last() else { return Ok(false) };
        let Some(old) = self.tree.known(id)?.file().map(|f| f.replication) else {
            return Ok(false);
        };
        if replication > old {
            let more = u64::from(replication - old) * self.file_length(id)?;
            let parent = self.tree.known(id)?.parent;
            self.check_quota(parent, 0, more)?;
        }
        self.tree.file_mut(id)?.replication = replication;
        Ok(true)
    }

    pub(super) fn set_storage_policy(&mut self, src: &str, policy: &str) -> NnResult<()> {
        self.check_safe_mode(&format!("Cannot set storage policy for {src}"))?;
        let known = super::dispatch::STORAGE_POLICIES.iter().find(|(_, name)| *name == policy);
        let Some((id, _)) = known else {
            return Err(error::hadoop_illegal_argument(format!(
                "Cannot find a block policy with the name {policy}"
            )));
        };
        self.inode_mut(src)?.policy = *id;
        Ok(())
    }
}
