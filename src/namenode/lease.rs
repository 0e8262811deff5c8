//! Calls about leases.
use super::NameNode;
use crate::error::Result;
use crate::proto::hdfs::*;
use crate::time::Deadline;

impl NameNode {
    /// Renews the lease of all files that this client writes.
    ///
    /// # Errors
    /// Those of the connection and of the NameNode.
    pub fn renew_lease(&self, d: Deadline) -> Result<()> {
        let request = RenewLeaseRequestProto {
            client_name: self.client_name.clone(),
            namespaces: Vec::new(),
        };
        self.call::<RenewLeaseResponseProto>("renewLease", &self.client_name, &request, d)?;
        Ok(())
    }

    /// Takes an open file from its writer and starts to close it; true when it is closed. False
    /// means that recovery runs: ask again after a second or more.
    ///
    /// # Errors
    /// `NotFound`, `Permission`...
    pub fn recover_lease(&self, src: &str, d: Deadline) -> Result<bool> {
        let request =
            RecoverLeaseRequestProto { src: src.into(), client_name: self.client_name.clone() };
        let response: RecoverLeaseResponseProto = self.call("recoverLease", src, &request, d)?;
        Ok(response.result)
    }

    /// Whether nobody writes the file and all its blocks are complete.
    ///
    /// # Errors
    /// `NotFound`, `Permission`...
    pub fn is_file_closed(&self, src: &str, d: Deadline) -> Result<bool> {
        let request = IsFileClosedRequestProto { src: src.into() };
        let response: IsFileClosedResponseProto = self.call("isFileClosed", src, &request, d)?;
        Ok(response.result)
    }
}
