//! Calls of ClientDatanodeProtocol, on a DataNode's IPC port.
use crate::conf::client_config::ClientConfig;
use crate::error::Result;
use crate::ipc::failover::{Method, call_once};
use crate::proto::hdfs::{
    DatanodeIdProto, ExtendedBlockProto, GetReplicaVisibleLengthRequestProto,
    GetReplicaVisibleLengthResponseProto,
};
use crate::time::Deadline;

/// Full name of the protocol on the wire.
const CLIENT_DATANODE_PROTOCOL: &str = "org.apache.hadoop.hdfs.protocol.ClientDatanodeProtocol";

/// `host:port` of a DataNode's IPC port, by address or by name as for transfers.
fn ipc_addr(id: &DatanodeIdProto, use_hostname: bool) -> String {
    if use_hostname {
        format!("{}:{}", id.host_name, id.ipc_port)
    } else if id.ip_addr.contains(':') {
        format!("[{}]:{}", id.ip_addr, id.ipc_port)
    } else {
        format!("{}:{}", id.ip_addr, id.ipc_port)
    }
}

/// Bytes of a replica under construction that a reader may see.
///
/// Runs on the caller, over a connection of its own that is closed right after; blocks up to the
/// deadline, `ipc.client.connect.timeout` and `ipc.client.rpc-timeout.ms`. A DataNode that refuses
/// is not tried again here: there are other replicas.
///
/// # Errors
/// `NotFound` with the class ReplicaNotFoundException when the replica is not there, `ServerBusy`
/// when the DataNode asks for a retry, `Connect`, `TimedOut`...; all name the DataNode.
pub fn replica_visible_length(
    id: &DatanodeIdProto,
    block: &ExtendedBlockProto,
    config: &ClientConfig,
    d: Deadline,
) -> Result<u64> {
    let server = ipc_addr(id, config.use_datanode_hostname);
    let request = GetReplicaVisibleLengthRequestProto { block: block.clone() };
    let method = Method::repeatable("getReplicaVisibleLength");
    let response: Result<GetReplicaVisibleLengthResponseProto> =
        call_once(&server, CLIENT_DATANODE_PROTOCOL, method, &request, config, d);
    response.map(|r| r.length).map_err(|e| {
        let block = format_args!("blk_{}_{}", block.block_id, block.generation_stamp);
        e.or_server(&server).context(format_args!("{} {block} on DataNode {server}", method.name))
    })
}
