//! Everything about files except their data.
use super::checksum::{self, FileChecksum};
use super::listing::Listing;
use super::path::normalize;
use super::status::{BlockLocation, ContentSummary, FileStatus, FsStatus, MODE_MASK};
use crate::error::{Error, Result, Status};
use crate::namenode::NameNode;
use crate::proto::hdfs::{FsServerDefaultsProto, SafeModeActionProto};
use crate::time::Deadline;
use std::sync::Arc;

/// The metadata half of a file system. Paths may have superfluous slashes; otherwise they must be
/// valid, else every function fails with `BadPath`. All functions may run on any thread at once and
/// block up to the deadline `d`.
#[derive(Clone, Debug)]
pub struct Metadata {
    namenode: Arc<NameNode>,
}

fn not_found(path: &str) -> Error {
    Error::new(Status::NotFound, format!("file does not exist: {path}"))
}

impl Metadata {
    /// Over the given NameNodes; no I/O.
    #[must_use]
    pub fn new(namenode: Arc<NameNode>) -> Metadata {
        Metadata { namenode }
    }

    /// The user's home directory, which need not exist.
    #[must_use]
    pub fn home_directory(&self) -> String {
        let config = self.namenode.config();
        format!("{}/{}", config.home_dir_prefix.trim_end_matches('/'), config.user)
    }

    /// Status of a file, directory or link.
    ///
    /// # Errors
    /// `NotFound`, `Permission`, `NotDirectory` (a parent is a file)...
    pub fn stat(&self, path: &str, d: Deadline) -> Result<FileStatus> {
        let path = normalize(path)?;
        let proto = self.namenode.get_file_info(&path, d)?.ok_or_else(|| not_found(&path))?;
        // The answer's own name field is empty, or repeats the last component in some releases.
        FileStatus::from_proto(
            &path,
            crate::proto::hdfs::HdfsFileStatusProto { path: Vec::new(), ..proto },
        )
    }

    /// Whether the path exists.
    ///
    /// # Errors
    /// As [`Metadata::stat`], except `NotFound`.
    pub fn exists(&self, path: &str, d: Deadline) -> Result<bool> {
        match self.stat(path, d) {
            Ok(_) => Ok(true),
            // A parent that is a file: there is nothing below it.
            Err(e) if matches!(e.status(), Status::NotFound | Status::NotDirectory) => Ok(false),
            Err(e) => Err(e),
        }
    }

    /// The entries of a directory; a file lists itself.
    ///
    /// # Errors
    /// `NotFound`, `Permission`...
    pub fn list(&self, path: &str, d: Deadline) -> Result<Listing> {
        Listing::open(Arc::clone(&self.namenode), normalize(path)?, d)
    }

    /// Makes a directory with `mode` less the configured umask, and its parents if `parents`. A
    /// directory that exists is no error.
    ///
    /// # Errors
    /// `Exists` (a file is there), `NotDirectory`, `NotFound` (no parent), `Permission`, `Quota`...
    pub fn mkdir(&self, path: &str, mode: u32, parents: bool, d: Deadline) -> Result<()> {
        let path = normalize(path)?;
        let unmasked = mode & MODE_MASK;
        let masked = unmasked & !self.namenode.config().umask;
        if self.namenode.mkdirs(&path, masked, unmasked, parents, d)? {
            return Ok(());
        }
        let message = format!("mkdirs {path}: the NameNode did not make the directory");
        Err(Error::new(Status::Remote, message))
    }

    /// Renames `src` to exactly `dst`; replaces a file or an empty directory there if `overwrite`.
    ///
    /// # Errors
    /// `NotFound` (no source, or no parent of the target), `Exists`, `NotEmpty`...
    pub fn rename(&self, src: &str, dst: &str, overwrite: bool, d: Deadline) -> Result<()> {
        self.namenode.rename2(&normalize(src)?, &normalize(dst)?, overwrite, d)
    }

    /// Deletes a file or directory; false when it did not exist.
    ///
    /// # Errors
    /// `NotEmpty` for a directory with entries unless `recursive`; `Permission`...
    pub fn delete(&self, path: &str, recursive: bool, d: Deadline) -> Result<bool> {
        self.namenode.delete(&normalize(path)?, recursive, d)
    }

    /// Cuts a file to `length` bytes; false when the last block is still being cut: the file cannot
    /// be written until [`Metadata::is_file_closed`].
    ///
    /// # Errors
    /// `NotFound`, `LeaseHeld` (somebody writes it), `InvalidArgument` (it is shorter)...
    pub fn truncate(&self, path: &str, length: u64, d: Deadline) -> Result<bool> {
        self.namenode.truncate(&normalize(path)?, length, d)
    }

    /// Moves the data of `sources` behind that of `target` and removes the sources.
    ///
    /// # Errors
    /// `InvalidArgument` without sources; those of the NameNode.
    pub fn concat(&self, target: &str, sources: &[&str], d: Deadline) -> Result<()> {
        let target = normalize(target)?;
        let sources = sources.iter().map(|s| normalize(s)).collect::<Result<Vec<_>>>()?;
        if sources.is_empty() {
            let message = format!("concat {target}: there is no source file");
            return Err(Error::new(Status::InvalidArgument, message));
        }
        self.namenode.concat(&target, &sources, d)
    }

    /// Sets the number of replicas of a file.
    ///
    /// # Errors
    /// `NotFound`, `IsDirectory`, `Permission`...
    pub fn set_replication(&self, path: &str, replication: u32, d: Deadline) -> Result<()> {
        let path = normalize(path)?;
        if self.namenode.set_replication(&path, replication, d)? {
            return Ok(());
        }
        // The NameNode says only that it is no file.
        let status = self.stat(&path, d)?;
        let (status, words) = if status.is_directory() {
            (Status::IsDirectory, "it is a directory")
        } else {
            (Status::Remote, "the NameNode did not do it")
        };
        Err(Error::new(status, format!("setReplication {path}: {words}")))
    }

    /// Sets the permission bits; the umask plays no part.
    ///
    /// # Errors
    /// `NotFound`, `Permission`; `InvalidArgument` for bits that HDFS does not have.
    pub fn set_permission(&self, path: &str, mode: u32, d: Deadline) -> Result<()> {
        let path = normalize(path)?;
        if mode & !MODE_MASK != 0 {
            let message = format!("setPermission {path}: mode {mode:o} has bits outside 1777");
            return Err(Error::new(Status::InvalidArgument, message));
        }
        self.namenode.set_permission(&path, mode, d)
    }

    /// Sets owner and group; `None` leaves one as it is.
    ///
    /// # Errors
    /// `NotFound`, `Permission`; `InvalidArgument` when both are `None` or one is empty.
    pub fn set_owner(
        &self,
        path: &str,
        owner: Option<&str>,
        group: Option<&str>,
        d: Deadline,
    ) -> Result<()> {
        let path = normalize(path)?;
        if owner.or(group).is_none() || owner == Some("") || group == Some("") {
            let message = format!("setOwner {path}: owner or group must be given, and not empty");
            return Err(Error::new(Status::InvalidArgument, message));
        }
        self.namenode.set_owner(&path, owner, group, d)
    }

    /// Sets modification and access time, ms since 1970; `None` leaves one as it is.
    ///
    /// # Errors
    /// `NotFound`, `Permission`...
    pub fn set_times(
        &self,
        path: &str,
        mtime_ms: Option<u64>,
        atime_ms: Option<u64>,
        d: Deadline,
    ) -> Result<()> {
        self.namenode.set_times(&normalize(path)?, mtime_ms, atime_ms, d)
    }

    /// The blocks that hold bytes `offset .. offset + length` of a file, in order.
    ///
    /// # Errors
    /// `NotFound`, `IsDirectory`, `Permission`...
    pub fn block_locations(
        &self,
        path: &str,
        offset: u64,
        length: u64,
        d: Deadline,
    ) -> Result<Vec<BlockLocation>> {
        let path = normalize(path)?;
        // Java's longs: the sum must not overflow there.
        let max = i64::MAX as u64;
        let length = length.min(max.saturating_sub(offset));
        let located = self.namenode.get_block_locations(&path, offset, length, d)?;
        Ok(located.blocks.into_iter().map(BlockLocation::from).collect())
    }

    /// Sizes and counts of a file or a tree. The NameNode walks the tree: this may take long.
    ///
    /// # Errors
    /// `NotFound`, `Permission`...
    pub fn content_summary(&self, path: &str, d: Deadline) -> Result<ContentSummary> {
        Ok(self.namenode.get_content_summary(&normalize(path)?, d)?.into())
    }

    /// Capacity and health of the file system.
    ///
    /// # Errors
    /// Those of the connection.
    pub fn fs_status(&self, d: Deadline) -> Result<FsStatus> {
        Ok(self.namenode.get_fs_stats(d)?.into())
    }

    /// The NameNode's defaults for new files.
    ///
    /// # Errors
    /// Those of the connection.
    pub fn server_defaults(&self, d: Deadline) -> Result<FsServerDefaultsProto> {
        self.namenode.get_server_defaults(d)
    }

    /// Sets the quotas of a directory: names and bytes; −1 removes one, `i64::MAX` leaves it.
    ///
    /// # Errors
    /// `NotFound`, `NotDirectory`, `Permission` (superuser only)...
    pub fn set_quota(&self, path: &str, names: i64, space: i64, d: Deadline) -> Result<()> {
        self.namenode.set_quota(&normalize(path)?, names, space, d)
    }

    /// Sets the storage policy of a file or directory by name (HOT, COLD, ...).
    ///
    /// # Errors
    /// `NotFound`, `Permission`, `Remote` (no such policy)...
    pub fn set_storage_policy(&self, path: &str, policy: &str, d: Deadline) -> Result<()> {
        self.namenode.set_storage_policy(&normalize(path)?, policy, d)
    }

    /// What a symbolic link points at.
    ///
    /// # Errors
    /// `NotFound`; `Remote` when it is no link.
    pub fn link_target(&self, path: &str, d: Deadline) -> Result<String> {
        let path = normalize(path)?;
        self.namenode.get_link_target(&path, d)?.ok_or_else(|| {
            Error::new(Status::InvalidArgument, format!("getLinkTarget {path}: it is no link"))
        })
    }

    /// Takes an open file from its writer and starts to close it; true when it is closed. False:
    /// recovery runs, ask again after a second or more.
    ///
    /// # Errors
    /// `NotFound`, `Permission`...
    pub fn recover_lease(&self, path: &str, d: Deadline) -> Result<bool> {
        self.namenode.recover_lease(&normalize(path)?, d)
    }

    /// Whether nobody writes the file and all its blocks are complete.
    ///
    /// # Errors
    /// `NotFound`, `Permission`...
    pub fn is_file_closed(&self, path: &str, d: Deadline) -> Result<bool> {
        self.namenode.is_file_closed(&normalize(path)?, d)
    }

    /// Whether the NameNode is in safe mode.
    ///
    /// # Errors
    /// Those of the connection.
    pub fn in_safe_mode(&self, d: Deadline) -> Result<bool> {
        self.namenode.set_safe_mode(SafeModeActionProto::SafemodeGet as i32, d)
    }

    /// Enters or leaves safe mode.
    ///
    /// # Errors
    /// `Permission` (superuser only)...
    pub fn set_safe_mode(&self, on: bool, d: Deadline) -> Result<bool> {
        let action = if on {
            SafeModeActionProto::SafemodeEnter
        } else {
            SafeModeActionProto::SafemodeLeave
        };
        self.namenode.set_safe_mode(action as i32, d)
    }

    /// Checksum of the first `length` bytes of a file (`None`: all), of the kind that
    /// `dfs.checksum.combine.mode` names, computed by the DataNodes.
    ///
    /// # Errors
    /// `NotFound`, `IsDirectory`; `BlockMissing` or what the last DataNode said when no replica of
    /// a block answers; `Unsupported` when the file has no uniform checksum.
    pub fn checksum(&self, path: &str, length: Option<u64>, d: Deadline) -> Result<FileChecksum> {
        self.checksum_of_kind(path, length, None, d)
    }

    /// As [`Metadata::checksum`], of the kind wanted: true is COMPOSITE_CRC, false is MD5MD5CRC,
    /// `None` what is configured.
    ///
    /// # Errors
    /// As [`Metadata::checksum`].
    pub fn checksum_of_kind(
        &self,
        path: &str,
        length: Option<u64>,
        composite: Option<bool>,
        d: Deadline,
    ) -> Result<FileChecksum> {
        let composite = composite.unwrap_or(self.namenode.config().checksum_composite);
        checksum::file_checksum(&self.namenode, &normalize(path)?, length, composite, d)
    }
}
