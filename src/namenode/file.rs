//! Calls about files and directories.
use super::{NameNode, checked};
use crate::dfs_log;
use crate::error::{Error, Result, Status};
use crate::proto::hdfs::*;
use crate::time::Deadline;

/// Hadoop 3.4 DFSOutputStream#newStreamForCreate: immediate repetitions of create while the key of
/// an encryption zone changes.
const CREATE_RETRIES_MAX: u32 = 10;
const RETRY_START_FILE: &str = "org.apache.hadoop.hdfs.server.namenode.RetryStartFileException";

impl NameNode {
    /// Status of `src`; `None` when it does not exist. The last component may be a symbolic link,
    /// which is followed.
    ///
    /// # Errors
    /// Those of the NameNode: `Permission`, `NotDirectory`...
    pub fn get_file_info(&self, src: &str, d: Deadline) -> Result<Option<HdfsFileStatusProto>> {
        let request = GetFileInfoRequestProto { src: src.into() };
        let response: GetFileInfoResponseProto = self.call("getFileInfo", src, &request, d)?;
        Ok(response.fs)
    }

    /// Blocks of the byte range of a file, each with its replicas, nearest first. The NameNode may
    /// return fewer than the range has.
    ///
    /// # Errors
    /// `NotFound` also when the answer has none; `IsDirectory` for a directory.
    pub fn get_block_locations(
        &self,
        src: &str,
        offset: u64,
        length: u64,
        d: Deadline,
    ) -> Result<LocatedBlocksProto> {
        let request = GetBlockLocationsRequestProto { src: src.into(), offset, length };
        let response: GetBlockLocationsResponseProto =
            self.call("getBlockLocations", src, &request, d)?;
        let Some(located) = response.locations else {
            let message = format!("getBlockLocations {src}: file does not exist");
            return Err(Error::new(Status::NotFound, message));
        };
        for block in located.blocks.iter().chain(&located.last_block) {
            if block.b.pool_id.is_empty() {
                let message =
                    format!("getBlockLocations {src}: the NameNode's answer has a nameless block");
                return Err(Error::protocol(message));
            }
        }
        Ok(located)
    }

    /// Creates a file and takes its lease; the client name is filled in. Returns its status.
    ///
    /// # Errors
    /// `Exists`, `LeaseHeld`, `NotFound` (no parent), `Permission`, `Quota`, `SafeMode`...
    pub fn create(
        &self,
        mut request: CreateRequestProto,
        d: Deadline,
    ) -> Result<HdfsFileStatusProto> {
        request.client_name.clone_from(&self.client_name);
        let src = &request.src;
        let mut retries = 0;
        let response: CreateResponseProto = loop {
            match self.call("create", src, &request, d) {
                Err(e)
                    if e.remote_class() == Some(RETRY_START_FILE)
                        && retries < CREATE_RETRIES_MAX =>
                {
                    retries += 1;
                    dfs_log!(Debug, "{e}; retry {retries}");
                }
                other => break other?,
            }
        };
        match response.fs {
            Some(status) => Ok(status),
            // A server that does not return it.
            None => self.get_file_info(src, d)?.ok_or_else(|| {
                Error::new(Status::NotFound, format!("create {src}: the new file is gone"))
            }),
        }
    }

    /// Opens a file for append and takes its lease. `flag` has the bits of CreateFlagProto: APPEND
    /// (4), NEW_BLOCK (32). `block` of the answer is the last one if it is not full.
    ///
    /// # Errors
    /// `NotFound`, `LeaseHeld`, `RecoveryInProgress`...
    pub fn append(&self, src: &str, flag: u32, d: Deadline) -> Result<AppendResponseProto> {
        let request = AppendRequestProto {
            src: src.into(),
            client_name: self.client_name.clone(),
            flag: Some(flag),
        };
        let mut response: AppendResponseProto = self.call("append", src, &request, d)?;
        if let Some(block) = response.block.take() {
            response.block = Some(checked("append", src, block)?);
        }
        Ok(response)
    }

    /// One page of a directory, after the entry named `start_after` (empty for the first page);
    /// `None` when it does not exist. A file lists itself, with an empty name.
    ///
    /// # Errors
    /// `NotFound` when the directory went away between pages, `Permission`...
    pub fn get_listing(
        &self,
        src: &str,
        start_after: &[u8],
        need_location: bool,
        d: Deadline,
    ) -> Result<Option<DirectoryListingProto>> {
        let request = GetListingRequestProto {
            src: src.into(),
            start_after: start_after.to_vec(),
            need_location,
        };
        let response: GetListingResponseProto = self.call("getListing", src, &request, d)?;
        Ok(response.dir_list)
    }

    /// Makes a directory, and its parents if `create_parent`. `mode` has the umask applied;
    /// `unmasked` has not and counts where the parent has default ACLs. Existing is no error.
    ///
    /// # Errors
    /// `Exists` (a file is there), `NotFound` (no parent), `NotDirectory`, `Permission`, `Quota`...
    pub fn mkdirs(
        &self,
        src: &str,
        mode: u32,
        unmasked: u32,
        create_parent: bool,
        d: Deadline,
    ) -> Result<bool> {
        let request = MkdirsRequestProto {
            src: src.into(),
            masked: FsPermissionProto { perm: mode },
            create_parent,
            unmasked: Some(FsPermissionProto { perm: unmasked }),
        };
        let response: MkdirsResponseProto = self.call("mkdirs", src, &request, d)?;
        Ok(response.result)
    }

    /// Hadoop's first rename: into `dst` if that is a directory; false, without a reason, when
    /// it cannot be done.
    ///
    /// # Errors
    /// `Permission`, `SafeMode`, `Quota`...
    pub fn rename(&self, src: &str, dst: &str, d: Deadline) -> Result<bool> {
        let request = RenameRequestProto { src: src.into(), dst: dst.into() };
        let what = format_args!("{src} to {dst}");
        let response: RenameResponseProto = self.call("rename", what, &request, d)?;
        Ok(response.result)
    }

    /// Renames `src` to exactly `dst`, replacing a file or an empty directory there if
    /// `overwrite`.
    ///
    /// # Errors
    /// `NotFound`, `Exists`, `NotEmpty`, `NotDirectory`...
    pub fn rename2(&self, src: &str, dst: &str, overwrite: bool, d: Deadline) -> Result<()> {
        let request = Rename2RequestProto {
            src: src.into(),
            dst: dst.into(),
            overwrite_dest: overwrite,
            move_to_trash: None,
        };
        let what = format_args!("{src} to {dst}");
        self.call::<Rename2ResponseProto>("rename2", what, &request, d)?;
        Ok(())
    }

    /// Deletes a file or directory; false when it did not exist.
    ///
    /// # Errors
    /// `NotEmpty` for a directory with entries unless `recursive`; `Permission`...
    pub fn delete(&self, src: &str, recursive: bool, d: Deadline) -> Result<bool> {
        let request = DeleteRequestProto { src: src.into(), recursive };
        let response: DeleteResponseProto = self.call("delete", src, &request, d)?;
        Ok(response.result)
    }

    /// Cuts a file to `new_length` bytes. False means that the last block must be recovered first:
    /// the file stays under construction until then (poll [`NameNode::is_file_closed`]).
    ///
    /// # Errors
    /// `InvalidArgument` when it is shorter than that, `LeaseHeld`...
    pub fn truncate(&self, src: &str, new_length: u64, d: Deadline) -> Result<bool> {
        let request = TruncateRequestProto {
            src: src.into(),
            new_length,
            client_name: self.client_name.clone(),
        };
        let response: TruncateResponseProto = self.call("truncate", src, &request, d)?;
        Ok(response.result)
    }

    /// Moves the blocks of `sources` behind those of `target` and removes the sources.
    ///
    /// # Errors
    /// `InvalidArgument`, `NotFound`...
    pub fn concat(&self, target: &str, sources: &[String], d: Deadline) -> Result<()> {
        let request = ConcatRequestProto { trg: target.into(), srcs: sources.to_vec() };
        self.call::<ConcatResponseProto>("concat", target, &request, d)?;
        Ok(())
    }

    /// Sets the number of replicas of a file; false for a directory or a missing file.
    ///
    /// # Errors
    /// `Permission`, `InvalidArgument` (outside the cluster's limits: `Remote`)...
    pub fn set_replication(&self, src: &str, replication: u32, d: Deadline) -> Result<bool> {
        let request = SetReplicationRequestProto { src: src.into(), replication };
        let response: SetReplicationResponseProto =
            self.call("setReplication", src, &request, d)?;
        Ok(response.result)
    }

    /// Sets the permission bits (07777 without set-id bits: HDFS has none).
    ///
    /// # Errors
    /// `NotFound`, `Permission`...
    pub fn set_permission(&self, src: &str, mode: u32, d: Deadline) -> Result<()> {
        let permission = FsPermissionProto { perm: mode };
        let request = SetPermissionRequestProto { src: src.into(), permission };
        self.call::<SetPermissionResponseProto>("setPermission", src, &request, d)?;
        Ok(())
    }

    /// Sets owner and group; `None` leaves one as it is.
    ///
    /// # Errors
    /// `NotFound`, `Permission`...
    pub fn set_owner(
        &self,
        src: &str,
        owner: Option<&str>,
        group: Option<&str>,
        d: Deadline,
    ) -> Result<()> {
        let request = SetOwnerRequestProto {
            src: src.into(),
            username: owner.map(str::to_owned),
            groupname: group.map(str::to_owned),
        };
        self.call::<SetOwnerResponseProto>("setOwner", src, &request, d)?;
        Ok(())
    }

    /// Sets modification and access time, ms since 1970; `None` leaves one as it is.
    ///
    /// # Errors
    /// `NotFound`, `Permission`...
    pub fn set_times(
        &self,
        src: &str,
        mtime: Option<u64>,
        atime: Option<u64>,
        d: Deadline,
    ) -> Result<()> {
        // −1 in a uint64 field: leave unchanged.
        let request = SetTimesRequestProto {
            src: src.into(),
            mtime: mtime.unwrap_or(u64::MAX),
            atime: atime.unwrap_or(u64::MAX),
        };
        self.call::<SetTimesResponseProto>("setTimes", src, &request, d)?;
        Ok(())
    }

    /// Sizes and counts of a file or a whole tree, with quotas (−1 in the uint64: none).
    ///
    /// # Errors
    /// `NotFound`, `Permission`...
    pub fn get_content_summary(&self, src: &str, d: Deadline) -> Result<ContentSummaryProto> {
        let request = GetContentSummaryRequestProto { path: src.into() };
        let response: GetContentSummaryResponseProto =
            self.call("getContentSummary", src, &request, d)?;
        Ok(response.summary)
    }

    /// Block size of a file, bytes.
    ///
    /// # Errors
    /// `NotFound`, `Permission`...
    pub fn get_preferred_block_size(&self, src: &str, d: Deadline) -> Result<u64> {
        let request = GetPreferredBlockSizeRequestProto { filename: src.into() };
        let response: GetPreferredBlockSizeResponseProto =
            self.call("getPreferredBlockSize", src, &request, d)?;
        Ok(response.bsize)
    }

    /// What a symbolic link points at; `None` if the answer has no target.
    ///
    /// # Errors
    /// `NotFound`; `Remote` when it is no link.
    pub fn get_link_target(&self, src: &str, d: Deadline) -> Result<Option<String>> {
        let request = GetLinkTargetRequestProto { path: src.into() };
        let response: GetLinkTargetResponseProto = self.call("getLinkTarget", src, &request, d)?;
        Ok(response.target_path)
    }

    /// Sets the storage policy of a file or directory by name (HOT, COLD, ...).
    ///
    /// # Errors
    /// `NotFound`, `Permission`, `Remote` (no such policy)...
    pub fn set_storage_policy(&self, src: &str, policy: &str, d: Deadline) -> Result<()> {
        let request = SetStoragePolicyRequestProto { src: src.into(), policy_name: policy.into() };
        self.call::<SetStoragePolicyResponseProto>("setStoragePolicy", src, &request, d)?;
        Ok(())
    }
}
