//! Calls of ClientDatanodeProtocol, on a DataNode's IPC port.
use crate::conf::client_config::ClientConfig;
use crate::error::{Error, Result, Status};
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
    let block = format_args!("blk_{}_{}", block.block_id, block.generation_stamp);
    let attempt = format_args!("{} {block} on DataNode {server}", method.name);
    match response {
        // Hadoop 3.4 DFSInputStream#readBlockLength: the field is unsigned on the wire only; a
        // replica that waits for recovery after a crash has the length -1.
        Ok(answer) if answer.length > i64::MAX as u64 => {
            let text = format!("{attempt}: the replica is not readable");
            Err(Error::new(Status::DataNode, text).with_server(&server))
        }
        Ok(answer) => Ok(answer.length),
        Err(e) => Err(e.or_server(&server).context(attempt)),
    }
}
