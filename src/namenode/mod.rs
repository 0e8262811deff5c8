//! Typed calls of ClientProtocol, Hadoop's interface between client and NameNode.
//!
//! Every call is one RPC with the retry and failover rules of `ipc`, the same call id on every
//! attempt. Errors begin with the method and the path, and name the server. All calls may run on
//! any number of threads at once and block up to the deadline.

mod admin;
mod block;
mod file;
mod lease;

use crate::conf::client_config::{ClientConfig, NameService};
use crate::error::{Error, Result};
use crate::ipc::failover::{Method, Proxy};
use crate::proto::hdfs::{FsServerDefaultsProto, LocatedBlockProto};
use crate::time::Deadline;
use parking_lot::Mutex;
use prost::Message;
use std::fmt;
use std::sync::Arc;
use std::time::Instant;

/// Full name of the protocol on the wire.
pub const CLIENT_PROTOCOL: &str = "org.apache.hadoop.hdfs.protocol.ClientProtocol";

/// The NameNodes of one file system, as one client sees them.
#[derive(Debug)]
pub struct NameNode {
    proxy: Proxy,
    config: Arc<ClientConfig>,
    client_name: String,
    /// The last answer of getServerDefaults and when it came.
    server_defaults: Mutex<Option<(Instant, FsServerDefaultsProto)>>,
}

impl NameNode {
    /// The client's end of `service`. `client_name` is the lease holder of all files that are
    /// written through it. No I/O happens before the first call.
    ///
    /// # Errors
    /// `Config` when the service has no NameNode, `Auth` when the configuration demands Kerberos.
    pub fn new(
        service: NameService,
        config: Arc<ClientConfig>,
        client_name: String,
    ) -> Result<NameNode> {
        let proxy = Proxy::new(&service, CLIENT_PROTOCOL, &config)?;
        Ok(NameNode { proxy, config, client_name, server_defaults: Mutex::new(None) })
    }

    /// The lease holder's name.
    pub fn client_name(&self) -> &str {
        &self.client_name
    }

    /// The configuration that the client was made with.
    pub fn config(&self) -> &ClientConfig {
        &self.config
    }

    /// Closes connections that no call used for `ipc.client.connection.maxidletime`. For the
    /// keeper thread; does not block on the network.
    pub fn expire_idle(&self) {
        self.proxy.expire_idle();
    }

    /// Closes the connections; waiting and later calls end with `Closed`.
    pub fn close(&self) {
        self.proxy.close();
    }

    /// One call; `what` (a path, mostly) follows the method's name in errors. Every method that
    /// we use is marked idempotent or at-most-once in Hadoop's ClientProtocol.
    fn call<R: Message + Default>(
        &self,
        method: &'static str,
        what: impl fmt::Display,
        request: &impl Message,
        d: Deadline,
    ) -> Result<R> {
        self.proxy
            .call(Method::repeatable(method), request, d)
            .map_err(|e| e.context(describe(method, what)))
    }
}

fn describe(method: &str, what: impl fmt::Display) -> String {
    let what = what.to_string();
    if what.is_empty() { method.to_owned() } else { format!("{method} {what}") }
}

/// A located block that names no block cannot be used; the generated code does not check that
/// required fields are there.
fn checked(method: &str, src: &str, block: LocatedBlockProto) -> Result<LocatedBlockProto> {
    if block.b.pool_id.is_empty() || block.b.block_id == 0 {
        let message = format!("{method} {src}: the NameNode's answer names no block");
        return Err(Error::protocol(message));
    }
    Ok(block)
}
