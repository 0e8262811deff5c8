//! One connection to a DataNode's transfer port.
use crate::conf::client_config::ClientConfig;
use crate::error::Result;
use crate::net::tcp;
use crate::proto::hdfs::DatanodeIdProto;
use crate::sys::socket::{Socket, SocketOptions};
use crate::time::Deadline;

/// A connected DataNode.
#[derive(Debug)]
pub struct Peer {
    /// The connection.
    pub socket: Socket,
    /// `host:port` of the transfer port, for messages and the cache.
    pub server: Box<str>,
}

/// Transfer address of a DataNode as the client reaches it: by IP address unless
/// `dfs.client.use.datanode.hostname` is set. Never a default port.
pub fn transfer_addr(id: &DatanodeIdProto, use_hostname: bool) -> String {
    if use_hostname { format!("{}:{}", id.host_name, id.xfer_port) } else { ip_port(id) }
}

/// `ip:port` of the transfer port, the form in which `firstBadLink` names a node.
pub fn ip_port(id: &DatanodeIdProto) -> String {
    if id.ip_addr.contains(':') {
        format!("[{}]:{}", id.ip_addr, id.xfer_port)
    } else {
        format!("{}:{}", id.ip_addr, id.xfer_port)
    }
}

/// Connects to a DataNode.
///
/// Runs on the caller; blocks up to `dfs.client.socket-timeout` or the deadline.
///
/// # Errors
/// `UnknownHost`, `Connect` or `TimedOut`, naming the DataNode.
pub fn connect(id: &DatanodeIdProto, config: &ClientConfig, deadline: Deadline) -> Result<Peer> {
    let server = transfer_addr(id, config.use_datanode_hostname);
    let addrs = tcp::resolve(&server)?;
    let options = SocketOptions {
        nodelay: config.data_tcp_nodelay,
        send_buffer_bytes: config.socket_send_buffer_bytes,
    };
    let socket = tcp::connect(&server, &addrs, options, config.socket_timeout_ms, deadline)?;
    Ok(Peer { socket, server: server.into() })
}
