//! The IPC port of a DataNode: ClientDatanodeProtocol.
use std::io::ErrorKind;
use std::sync::{Arc, Weak};

use dfs::proto::hdfs::{
    DatanodeLocalInfoProto, GetDatanodeInfoResponseProto, GetReplicaVisibleLengthRequestProto,
    GetReplicaVisibleLengthResponseProto,
};
use prost::Message;

use super::super::faults::{Fault, Site, Visit};
use super::super::rpc::{Call, Handler, RpcError};
use super::DnCore;

const PROTOCOL: &str = "org.apache.hadoop.hdfs.protocol.ClientDatanodeProtocol";
/// DataNodes are behind the NameNodes in the numbering of RPC rules.
pub(crate) const RULE_OFFSET: usize = 100;

pub(super) struct IpcHandler(pub(super) Weak<DnCore>);

impl IpcHandler {
    fn core(&self) -> Result<Arc<DnCore>, RpcError> {
        self.0.upgrade().ok_or_else(|| RpcError::io("the DataNode is gone"))
    }
}

impl Handler for IpcHandler {
    fn protocol(&self) -> &'static str {
        PROTOCOL
    }

    fn call(&self, call: &Call) -> Result<Vec<u8>, RpcError> {
        let core = self.core()?;
        match call.method.as_str() {
            "getReplicaVisibleLength" => {
                let req = GetReplicaVisibleLengthRequestProto::decode(call.body.as_slice())
                    .map_err(|e| RpcError::io(e.to_string()))?;
                if let Some(length) = core.sunk_length(req.block.block_id) {
                    return Ok(GetReplicaVisibleLengthResponseProto { length }.encode_to_vec());
                }
                let replica = core.data.find(&req.block).map_err(|e| match e.kind() {
                    ErrorKind::NotFound => RpcError::new(
                        "org.apache.hadoop.hdfs.server.datanode.ReplicaNotFoundException",
                        e.to_string(),
                    ),
                    _ => RpcError::io(e.to_string()),
                })?;
                let gs = replica.inner.lock().gs;
                if gs < req.block.generation_stamp {
                    return Err(RpcError::io(format!(
                        "replica.getGenerationStamp() < block.getGenerationStamp(), \
                         block=blk_{}_{}, replica generation stamp {gs}",
                        req.block.block_id, req.block.generation_stamp
                    )));
                }
                let length = replica.visible_length().cast_unsigned();
                Ok(GetReplicaVisibleLengthResponseProto { length }.encode_to_vec())
            }
            "getDatanodeInfo" => {
                let local_info = DatanodeLocalInfoProto {
                    software_version: "3.4.1".to_owned(),
                    config_version: "core-0.1.0,hdfs-0.2.0".to_owned(),
                    uptime: 1,
                };
                Ok(GetDatanodeInfoResponseProto { local_info }.encode_to_vec())
            }
            other => Err(RpcError::no_such_method(other, PROTOCOL)),
        }
    }

    fn fault(&self, call: &Call) -> Option<Fault> {
        let core = self.core().ok()?;
        let visit =
            Visit { method: &call.method, ..Visit::at(Site::Rpc, RULE_OFFSET + core.index) };
        core.hit(&visit)
    }

    fn failover(&self) {}
}
