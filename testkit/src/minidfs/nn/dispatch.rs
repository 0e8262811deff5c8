//! Decodes calls, checks who may make them and when, and runs them.
use dfs::proto::common::HaServiceStateProto;
use dfs::proto::hdfs as pb;
use prost::Message;

use super::super::config::Config;
use super::super::rpc::{Call, RpcError};
use super::error::{self, NnResult};
use super::retry_cache::AT_MOST_ONCE;
use super::{NameSystem, SafeMode};

/// Class name that clients put into their calls.
pub(crate) const CLIENT_PROTOCOL: &str = "org.apache.hadoop.hdfs.protocol.ClientProtocol";

/// Ids and names of Hadoop's policies that need no special storage here.
pub(super) const STORAGE_POLICIES: [(u32, &str); 6] =
    [(15, "LAZY_PERSIST"), (12, "ALL_SSD"), (10, "ONE_SSD"), (7, "HOT"), (5, "WARM"), (2, "COLD")];

/// Who calls.
pub(crate) struct Context<'a> {
    pub(crate) user: &'a str,
    pub(crate) client_ip: &'a str,
    /// State of the NameNode that was called.
    pub(crate) active: bool,
}

impl Context<'_> {
    pub(super) fn is_superuser(&self, cfg: &Config) -> bool {
        cfg.superuser.as_ref().is_none_or(|s| s == self.user)
    }
}

fn decode<M: Message + Default>(call: &Call) -> NnResult<M> {
    M::decode(call.body.as_slice()).map_err(|e| {
        RpcError::new(
            "org.apache.hadoop.thirdparty.protobuf.InvalidProtocolBufferException",
            e.to_string(),
        )
    })
}

fn encode(message: &impl Message) -> NnResult<Vec<u8>> {
    Ok(message.encode_to_vec())
}

impl NameSystem {
    /// Runs a call and encodes its answer.
    pub(crate) fn call(&mut self, ctx: &Context<'_>, call: &Call) -> NnResult<Vec<u8>> {
        *self.calls.entry(call.method.clone()).or_default() += 1;
        if call.method == "getHAServiceState" {
            let state =
                if ctx.active { HaServiceStateProto::Active } else { HaServiceStateProto::Standby };
            return encode(&pb::HaServiceStateResponseProto { state: state as i32 });
        }
        if !ctx.active {
            let kind = if is_read(&call.method) { "READ" } else { "WRITE" };
            return Err(error::standby(format!(
                "Operation category {kind} is not supported in state standby. Visit \
                 https://s.apache.org/sbnn-error"
            )));
        }
        if !AT_MOST_ONCE.contains(&call.method.as_str()) {
            return self.run(ctx, call);
        }
        if let Some(answer) = self.retry_cache.lookup(call)? {
            return Ok(answer);
        }
        let answer = self.run(ctx, call)?;
        self.retry_cache.store(call, &answer);
        Ok(answer)
    }

    fn permit(&self, ctx: &Context<'_>, method: &str, path: &str) -> NnResult<()> {
        let Some(hook) = &self.cfg.permission_hook else { return Ok(()) };
        if ctx.is_superuser(&self.cfg) && self.cfg.superuser.is_some() {
            return Ok(());
        }
        if hook(ctx.user, method, path) {
            return Ok(());
        }
        let access = if is_read(method) { "READ" } else { "WRITE" };
        Err(error::access_control(format!(
            "Permission denied: user={}, access={access}, \
             inode=\"{path}\":hdfs:supergroup:drwxr-xr-x",
            ctx.user
        )))
    }

    fn require_superuser(&self, ctx: &Context<'_>) -> NnResult<()> {
        if ctx.is_superuser(&self.cfg) {
            return Ok(());
        }
        Err(error::access_control(format!(
            "Access denied for user {}. Superuser privilege is required",
            ctx.user
        )))
    }

    fn run(&mut self, ctx: &Context<'_>, call: &Call) -> NnResult<Vec<u8>> {
        match call.method.as_str() {
            "create" | "append" | "renewLease" | "recoverLease" | "truncate" | "concat"
            | "reportBadBlocks" => self.run_file(ctx, call),
            "addBlock"
            | "abandonBlock"
            | "getAdditionalDatanode"
            | "complete"
            | "fsync"
            | "updateBlockForPipeline"
            | "updatePipeline" => self.run_writer(call),
            "mkdirs" | "rename" | "rename2" | "delete" | "setReplication" | "setPermission"
            | "setOwner" | "setTimes" | "setQuota" | "setStoragePolicy" => {
                self.run_namespace(ctx, call)
            }
            "getFsStats" | "getDatanodeReport" | "setSafeMode" | "msync" | "getServerDefaults"
            | "getStoragePolicies" => self.run_cluster(ctx, call),
            _ => self.run_read(ctx, call),
        }
    }

    fn run_file(&mut self, ctx: &Context<'_>, call: &Call) -> NnResult<Vec<u8>> {
        let method = call.method.as_str();
        match method {
            "create" => {
                let req: pb::CreateRequestProto = decode(call)?;
                self.permit(ctx, method, &req.src)?;
                encode(&pb::CreateResponseProto { fs: Some(self.create(ctx, &req)?) })
            }
            "append" => {
                let req: pb::AppendRequestProto = decode(call)?;
                self.permit(ctx, method, &req.src)?;
                encode(&self.append(ctx, &req.src, &req.client_name, req.flag.unwrap_or(4))?)
            }
            "renewLease" => {
                let req: pb::RenewLeaseRequestProto = decode(call)?;
                self.check_safe_mode(&format!("Cannot renew lease for {}", req.client_name))?;
                self.leases.renew(&req.client_name);
                encode(&pb::RenewLeaseResponseProto {})
            }
            "recoverLease" => {
                let req: pb::RecoverLeaseRequestProto = decode(call)?;
                self.permit(ctx, method, &req.src)?;
                let result = self.recover_lease(&req.src, &req.client_name, ctx)?;
                encode(&pb::RecoverLeaseResponseProto { result })
            }
            "truncate" => {
                let req: pb::TruncateRequestProto = decode(call)?;
                self.permit(ctx, method, &req.src)?;
                let result = self.truncate(ctx, &req.src, req.new_length, &req.client_name)?;
                encode(&pb::TruncateResponseProto { result })
            }
            "concat" => {
                let req: pb::ConcatRequestProto = decode(call)?;
                self.permit(ctx, method, &req.trg)?;
                self.concat(&req.trg, &req.srcs)?;
                encode(&pb::ConcatResponseProto {})
            }
            _ => {
                let req: pb::ReportBadBlocksRequestProto = decode(call)?;
                for block in &req.blocks {
                    self.check_pool(&block.b)?;
                    let nodes: Vec<usize> =
                        block.locs.iter().filter_map(|l| self.node_by_id(&l.id)).collect();
                    self.mark_corrupt(&block.b, &nodes);
                }
                encode(&pb::ReportBadBlocksResponseProto {})
            }
        }
    }

    fn run_writer(&mut self, call: &Call) -> NnResult<Vec<u8>> {
        match call.method.as_str() {
            "addBlock" => {
                let req: pb::AddBlockRequestProto = decode(call)?;
                encode(&pb::AddBlockResponseProto { block: self.add_block(&req)? })
            }
            "abandonBlock" => {
                let req: pb::AbandonBlockRequestProto = decode(call)?;
                self.abandon_block(&req.b, req.file_id(), &req.src, &req.holder)?;
                encode(&pb::AbandonBlockResponseProto {})
            }
            "getAdditionalDatanode" => {
                let req: pb::GetAdditionalDatanodeRequestProto = decode(call)?;
                let block = self.additional_datanode(&req)?;
                encode(&pb::GetAdditionalDatanodeResponseProto { block })
            }
            "complete" => {
                let req: pb::CompleteRequestProto = decode(call)?;
                let result =
                    self.complete(&req.src, req.file_id(), &req.client_name, req.last.as_ref())?;
                encode(&pb::CompleteResponseProto { result })
            }
            "fsync" => {
                let req: pb::FsyncRequestProto = decode(call)?;
                self.fsync(&req.src, req.file_id(), &req.client, req.last_block_length())?;
                encode(&pb::FsyncResponseProto {})
            }
            "updateBlockForPipeline" => {
                let req: pb::UpdateBlockForPipelineRequestProto = decode(call)?;
                let block = self.update_block_for_pipeline(&req.block, &req.client_name)?;
                encode(&pb::UpdateBlockForPipelineResponseProto { block })
            }
            _ => {
                self.update_pipeline(&decode(call)?)?;
                encode(&pb::UpdatePipelineResponseProto {})
            }
        }
    }

    fn run_namespace(&mut self, ctx: &Context<'_>, call: &Call) -> NnResult<Vec<u8>> {
        let method = call.method.as_str();
        match method {
            "mkdirs" => {
                let req: pb::MkdirsRequestProto = decode(call)?;
                self.permit(ctx, method, &req.src)?;
                let result = self.mkdirs(ctx, &req.src, req.masked.perm, req.create_parent)?;
                encode(&pb::MkdirsResponseProto { result })
            }
            "rename" => {
                let req: pb::RenameRequestProto = decode(call)?;
                self.permit(ctx, method, &req.src)?;
                encode(&pb::RenameResponseProto { result: self.rename(&req.src, &req.dst)? })
            }
            "rename2" => {
                let req: pb::Rename2RequestProto = decode(call)?;
                self.permit(ctx, method, &req.src)?;
                self.rename2(&req.src, &req.dst, req.overwrite_dest)?;
                encode(&pb::Rename2ResponseProto {})
            }
            "delete" => {
                let req: pb::DeleteRequestProto = decode(call)?;
                self.permit(ctx, method, &req.src)?;
                encode(&pb::DeleteResponseProto { result: self.delete(&req.src, req.recursive)? })
            }
            "setReplication" => {
                let req: pb::SetReplicationRequestProto = decode(call)?;
                self.permit(ctx, method, &req.src)?;
                let result = self.set_replication(&req.src, req.replication)?;
                encode(&pb::SetReplicationResponseProto { result })
            }
            "setPermission" => {
                let req: pb::SetPermissionRequestProto = decode(call)?;
                self.permit(ctx, method, &req.src)?;
                self.set_permission(&req.src, req.permission.perm)?;
                encode(&pb::SetPermissionResponseProto {})
            }
            "setOwner" => {
                let req: pb::SetOwnerRequestProto = decode(call)?;
                self.permit(ctx, method, &req.src)?;
                self.set_owner(ctx, &req)?;
                encode(&pb::SetOwnerResponseProto {})
            }
            "setTimes" => {
                let req: pb::SetTimesRequestProto = decode(call)?;
                self.permit(ctx, method, &req.src)?;
                self.set_times(&req)?;
                encode(&pb::SetTimesResponseProto {})
            }
            "setQuota" => {
                let req: pb::SetQuotaRequestProto = decode(call)?;
                self.require_superuser(ctx)?;
                self.check_safe_mode(&format!("Cannot set quota on {}", req.path))?;
                self.set_quota(&req.path, req.namespace_quota, req.storagespace_quota)?;
                encode(&pb::SetQuotaResponseProto {})
            }
            _ => {
                let req: pb::SetStoragePolicyRequestProto = decode(call)?;
                self.permit(ctx, method, &req.src)?;
                self.set_storage_policy(&req.src, &req.policy_name)?;
                encode(&pb::SetStoragePolicyResponseProto {})
            }
        }
    }

    fn run_read(&mut self, ctx: &Context<'_>, call: &Call) -> NnResult<Vec<u8>> {
        let method = call.method.as_str();
        match method {
            "getFileInfo" => {
                let req: pb::GetFileInfoRequestProto = decode(call)?;
                self.make_virtual(&req.src)?;
                self.permit(ctx, method, &req.src)?;
                encode(&pb::GetFileInfoResponseProto { fs: self.file_info(&req.src, false)? })
            }
            "getFileLinkInfo" => {
                let req: pb::GetFileLinkInfoRequestProto = decode(call)?;
                self.permit(ctx, method, &req.src)?;
                encode(&pb::GetFileLinkInfoResponseProto { fs: self.file_info(&req.src, false)? })
            }
            "getLocatedFileInfo" => {
                let req: pb::GetLocatedFileInfoRequestProto = decode(call)?;
                self.make_virtual(req.src())?;
                self.permit(ctx, method, req.src())?;
                let fs = self.file_info(req.src(), true)?;
                encode(&pb::GetLocatedFileInfoResponseProto { fs })
            }
            "getListing" => {
                let req: pb::GetListingRequestProto = decode(call)?;
                self.permit(ctx, method, &req.src)?;
                let dir_list = self.listing(&req.src, &req.start_after, req.need_location)?;
                encode(&pb::GetListingResponseProto { dir_list })
            }
            "getBlockLocations" => {
                let req: pb::GetBlockLocationsRequestProto = decode(call)?;
                self.make_virtual(&req.src)?;
                self.permit(ctx, method, &req.src)?;
                let found = self.get_block_locations(&req.src, req.offset, req.length)?;
                encode(&pb::GetBlockLocationsResponseProto { locations: Some(found) })
            }
            "isFileClosed" => {
                let req: pb::IsFileClosedRequestProto = decode(call)?;
                self.permit(ctx, method, &req.src)?;
                encode(&pb::IsFileClosedResponseProto { result: self.is_file_closed(&req.src)? })
            }
            "getContentSummary" => {
                let req: pb::GetContentSummaryRequestProto = decode(call)?;
                self.permit(ctx, method, &req.path)?;
                let summary = self.content_summary(&req.path)?;
                encode(&pb::GetContentSummaryResponseProto { summary })
            }
            "getQuotaUsage" => {
                let req: pb::GetQuotaUsageRequestProto = decode(call)?;
                self.permit(ctx, method, &req.path)?;
                let sum = self.content_summary(&req.path)?;
                let usage = pb::QuotaUsageProto {
                    file_and_directory_count: sum.file_count + sum.directory_count,
                    quota: sum.quota,
                    space_consumed: sum.space_consumed,
                    space_quota: sum.space_quota,
                    type_quota_infos: None,
                };
                encode(&pb::GetQuotaUsageResponseProto { usage })
            }
            "getPreferredBlockSize" => {
                let req: pb::GetPreferredBlockSizeRequestProto = decode(call)?;
                self.permit(ctx, method, &req.filename)?;
                let id = self.existing_file(&req.filename)?;
                let bsize = self.tree.file(id)?.block_size;
                encode(&pb::GetPreferredBlockSizeResponseProto { bsize })
            }
            // Hadoop 3.4 FileSystem#areSymlinksEnabled: off unless a test turns it on.
            "createSymlink" | "getLinkTarget" => Err(error::unsupported("Symlinks not supported")),
            _ => Err(RpcError::no_such_method(method, CLIENT_PROTOCOL)),
        }
    }

    fn run_cluster(&mut self, ctx: &Context<'_>, call: &Call) -> NnResult<Vec<u8>> {
        match call.method.as_str() {
            "getServerDefaults" => {
                let defaults = pb::FsServerDefaultsProto {
                    block_size: self.cfg.block_size,
                    bytes_per_checksum: 512,
                    write_packet_size: 65536,
                    replication: self.cfg.replication,
                    file_buffer_size: 4096,
                    encrypt_data_transfer: Some(false),
                    trash_interval: Some(0),
                    checksum_type: Some(pb::ChecksumTypeProto::ChecksumCrc32c as i32),
                    key_provider_uri: Some(String::new()),
                    policy_id: Some(0),
                    snapshot_trash_root_enabled: Some(false),
                };
                encode(&pb::GetServerDefaultsResponseProto { server_defaults: defaults })
            }
            "getFsStats" => encode(&self.fs_stats()),
            "getDatanodeReport" => {
                self.require_superuser(ctx)?;
                let req: pb::GetDatanodeReportRequestProto = decode(call)?;
                let wanted = |n: &usize| match req.r#type() {
                    pb::DatanodeReportTypeProto::All => true,
                    pb::DatanodeReportTypeProto::Live => self.is_alive(*n),
                    pb::DatanodeReportTypeProto::Dead => !self.is_alive(*n),
                    _ => self.nodes.get(*n).is_some_and(|d| d.decommissioned),
                };
                let di = (0..self.nodes.len()).filter(wanted).map(|n| self.node_info(n)).collect();
                encode(&pb::GetDatanodeReportResponseProto { di })
            }
            "setSafeMode" => {
                let req: pb::SetSafeModeRequestProto = decode(call)?;
                match req.action() {
                    pb::SafeModeActionProto::SafemodeGet => {}
                    action => {
                        self.require_superuser(ctx)?;
                        self.safe_mode = match action {
                            pb::SafeModeActionProto::SafemodeEnter => SafeMode::Manual,
                            _ => SafeMode::Off,
                        };
                    }
                }
                let result = self.safe_mode != SafeMode::Off;
                encode(&pb::SetSafeModeResponseProto { result })
            }
            "getStoragePolicies" => {
                let disk = || pb::StorageTypesProto {
                    storage_types: vec![pb::StorageTypeProto::Disk as i32],
                };
                let policies = STORAGE_POLICIES
                    .iter()
                    .map(|(id, name)| pb::BlockStoragePolicyProto {
                        policy_id: *id,
                        name: (*name).to_owned(),
                        creation_policy: disk(),
                        creation_fallback_policy: Some(disk()),
                        replication_fallback_policy: Some(disk()),
                    })
                    .collect();
                encode(&pb::GetStoragePoliciesResponseProto { policies })
            }
            _ => encode(&pb::MsyncResponseProto {}),
        }
    }

    fn fs_stats(&self) -> pb::GetFsStatsResponseProto {
        let live = (0..self.nodes.len()).filter(|n| self.is_alive(*n)).count();
        let capacity = self.cfg.capacity * u64::try_from(live).unwrap_or(0);
        let used: u64 = self.nodes.iter().map(|n| n.used).sum();
        let count = |f: &dyn Fn(&super::BlockInfo) -> bool| {
            u64::try_from(self.blocks.values().filter(|b| f(b)).count()).unwrap_or(0)
        };
        pb::GetFsStatsResponseProto {
            capacity,
            used,
            remaining: capacity.saturating_sub(used),
            under_replicated: 0,
            corrupt_blocks: count(&|b| b.is_complete() && b.stored.iter().any(|s| s.corrupt)),
            missing_blocks: count(&|b| b.is_complete() && b.live().is_empty()),
            missing_repl_one_blocks: Some(0),
            blocks_in_future: Some(0),
            pending_deletion_blocks: Some(0),
        }
    }
}

/// Read or write, for the texts of StandbyException and AccessControlException.
fn is_read(method: &str) -> bool {
    method.starts_with("get") || method == "isFileClosed" || method == "msync"
}
