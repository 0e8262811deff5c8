//! Calls about the file system as a whole.
use super::NameNode;
use crate::error::Result;
use crate::proto::hdfs::*;
use crate::time::{Deadline, now};
use std::time::Duration;

impl NameNode {
    /// Capacity and health of the file system, bytes and counts.
    ///
    /// # Errors
    /// Those of the connection and of the NameNode.
    pub fn get_fs_stats(&self, d: Deadline) -> Result<GetFsStatsResponseProto> {
        self.call("getFsStats", "", &GetFsStatusRequestProto {}, d)
    }

    /// The NameNode's defaults for new files; an answer is kept for
    /// `dfs.client.server-defaults.validity.period.ms`.
    ///
    /// # Errors
    /// Those of the connection and of the NameNode.
    pub fn get_server_defaults(&self, d: Deadline) -> Result<FsServerDefaultsProto> {
        let validity = Duration::from_millis(self.config.server_defaults_validity_ms);
        if let Some((at, defaults)) = &*self.server_defaults.lock()
            && now().saturating_duration_since(*at) < validity
        {
            return Ok(defaults.clone());
        }
        let response: GetServerDefaultsResponseProto =
            self.call("getServerDefaults", "", &GetServerDefaultsRequestProto {}, d)?;
        let defaults = response.server_defaults;
        *self.server_defaults.lock() = Some((now(), defaults.clone()));
        Ok(defaults)
    }

    /// Sets the quotas of a directory: names and bytes; −1 removes one, `i64::MAX` leaves it.
    ///
    /// # Errors
    /// `NotFound`, `NotDirectory`, `Permission` (superuser only)...
    pub fn set_quota(&self, src: &str, names: i64, space: i64, d: Deadline) -> Result<()> {
        let request = SetQuotaRequestProto {
            path: src.into(),
            namespace_quota: names as u64,
            storagespace_quota: space as u64,
            storage_type: None,
        };
        self.call::<SetQuotaResponseProto>("setQuota", src, &request, d)?;
        Ok(())
    }

    /// Leaves (1), enters (2) or asks for (3) safe mode: a SafeModeActionProto. Returns whether
    /// the NameNode is in safe mode afterwards.
    ///
    /// # Errors
    /// `Permission` (superuser only, except to ask)...
    pub fn set_safe_mode(&self, action: i32, d: Deadline) -> Result<bool> {
        let request = SetSafeModeRequestProto { action, checked: Some(false) };
        let response: SetSafeModeResponseProto = self.call("setSafeMode", "", &request, d)?;
        Ok(response.result)
    }

    /// The DataNodes of one kind: a DatanodeReportTypeProto (ALL 1, LIVE 2, DEAD 3, ...).
    ///
    /// # Errors
    /// `Permission` (superuser only)...
    pub fn get_datanode_report(&self, kind: i32, d: Deadline) -> Result<Vec<DatanodeInfoProto>> {
        let request = GetDatanodeReportRequestProto { r#type: kind };
        let response: GetDatanodeReportResponseProto =
            self.call("getDatanodeReport", "", &request, d)?;
        Ok(response.di)
    }
}
