//! One connection to a DataNode's transfer port.
use crate::conf::client_config::ClientConfig;
use crate::error::{Error, Result, Status};
use crate::net::tcp;
use crate::proto::hdfs::DatanodeIdProto;
use crate::sys::socket::{Socket, SocketOptions};
use crate::time::Deadline;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};

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

/// Whether a DataNode's IP address is one of this host's: only those can be bound. No packet is
/// sent.
pub fn is_local(ip: &str) -> bool {
    let Ok(ip) = ip.parse::<IpAddr>() else { return false };
    ip.is_loopback() || UdpSocket::bind((ip, 0)).is_ok()
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
    let options = options(config);
    let socket = tcp::connect(&server, &addrs, options, config.socket_timeout_ms, deadline)?;
    Ok(Peer { socket, server: server.into() })
}

fn options(config: &ClientConfig) -> SocketOptions {
    SocketOptions {
        nodelay: config.data_tcp_nodelay,
        send_buffer_bytes: config.socket_send_buffer_bytes,
    }
}

/// A connection that is being made while its caller does other things.
#[derive(Debug)]
pub struct Connecting {
    server: Box<str>,
    /// Addresses of the name that were not tried yet, the next one last.
    left: Vec<SocketAddr>,
    addr: SocketAddr,
    socket: Socket,
    options: SocketOptions,
}

/// What [`Connecting::finish`] found.
#[derive(Debug)]
pub enum Connected {
    /// The connection.
    Peer(Peer),
    /// The next address of the name is being tried: wait for the new socket.
    Again(Connecting),
}

impl Connecting {
    /// Begins to connect to a DataNode. Waits for nothing but, with
    /// `dfs.client.use.datanode.hostname`, the system's resolver.
    ///
    /// # Errors
    /// `UnknownHost` or `Connect`, naming the DataNode.
    pub fn start(id: &DatanodeIdProto, config: &ClientConfig) -> Result<Connecting> {
        let server = transfer_addr(id, config.use_datanode_hostname);
        let mut left = tcp::resolve(&server)?;
        left.reverse();
        Connecting::next(server.into(), left, options(config), None)
    }

    fn next(
        server: Box<str>,
        mut left: Vec<SocketAddr>,
        options: SocketOptions,
        mut last: Option<io::Error>,
    ) -> Result<Connecting> {
        while let Some(addr) = left.pop() {
            match Socket::connect_begin(&addr, options) {
                Ok((socket, _)) => return Ok(Connecting { server, left, addr, socket, options }),
                Err(e) => last = Some(e),
            }
        }
        let words = last.map_or_else(|| "no address to try".to_owned(), |e| e.to_string());
        let text = format!("connecting to {server}: {words}");
        Err(Error::new(Status::Connect, text).with_server(&server))
    }

    /// The socket, writable when [`Connecting::finish`] can be called.
    pub fn socket(&self) -> &Socket {
        &self.socket
    }

    /// Takes the result.
    ///
    /// # Errors
    /// `Connect`, when no address of the DataNode accepted.
    pub fn finish(self) -> Result<Connected> {
        match self.socket.connect_end(&self.addr) {
            Ok(()) => Ok(Connected::Peer(Peer { socket: self.socket, server: self.server })),
            Err(e) => Connecting::next(self.server, self.left, self.options, Some(e))
                .map(Connected::Again),
        }
    }
}
