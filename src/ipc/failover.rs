//! Calls to a service of one or several NameNodes, with retries and failover.
use super::connection::Params;
use super::endpoint::{ConnectRules, Endpoint};
use super::retry::{Attempts, Cause, Decision, Failed, Policy};
use crate::conf::client_config::{ClientConfig, NameService};
use crate::dfs_log;
use crate::error::{Error, Result, Status};
use crate::sys::{fork, random};
use crate::time::{Deadline, now};
use crate::wire::rpc_frame::{self, ClientId};
use parking_lot::{Condvar, Mutex};
use prost::Message;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

/// How often a call moves on, within one attempt, from a connection that was dead before it.
const DEAD_CONNECTIONS_MAX: u32 = 3;

/// One remote method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Method {
    /// Name on the wire.
    pub name: &'static str,
    /// Idempotent, or answered from the NameNode's retry cache: may be sent again with the same
    /// call id after the connection was lost.
    pub repeatable: bool,
}

impl Method {
    /// A method marked `@Idempotent` or `@AtMostOnce` in Hadoop.
    #[must_use]
    pub const fn repeatable(name: &'static str) -> Method {
        Method { name, repeatable: true }
    }
}

#[derive(Clone, Copy, Debug)]
struct Current {
    index: usize,
    /// Counts failovers, so that of several failing callers only one advances.
    generation: u64,
}

/// The client's end of a service.
#[derive(Debug)]
pub struct Proxy {
    name: String,
    params: Arc<Params>,
    nodes: Vec<Endpoint>,
    policy: Policy,
    rpc_timeout_ms: u64,
    current: Mutex<Current>,
    next_call_id: AtomicU32,
    random: AtomicU64,
    closed: Mutex<bool>,
    wake: Condvar,
    /// Forks before the birth: in a child the sockets belong to the parent.
    forks: u32,
}

/// 16 random bytes and a seed that is not zero.
fn random_identity() -> Result<(ClientId, u64)> {
    let (mut id, mut seed) = ([0; 16], [0; 8]);
    for bytes in [&mut id[..], &mut seed[..]] {
        random::fill(bytes).map_err(|e| {
            Error::new(Status::Io, format!("drawing random bytes for the client id: {e}"))
        })?;
    }
    Ok((id, u64::from_ne_bytes(seed) | 1))
}

/// Whether the configuration asks for nothing that this client lacks.
///
/// # Errors
/// `Auth` when Kerberos is demanded.
pub fn check_security(config: &ClientConfig) -> Result<()> {
    // Hadoop 3.4 SaslRpcClient#selectSaslClient: a client with security on may talk to a server
    // without it only when the fallback is allowed.
    if config.kerberos && !config.fallback_to_simple {
        return Err(Error::new(
            Status::Auth,
            "hadoop.security.authentication is kerberos, which this client does not support",
        ));
    }
    Ok(())
}

/// What connections of `protocol` need, with the given client id.
#[must_use]
pub fn params(config: &ClientConfig, protocol: &'static str, client_id: ClientId) -> Params {
    let interval = Duration::from_millis(config.ipc_ping_interval_ms);
    Params {
        user: config.user.clone(),
        protocol,
        client_id,
        ping_interval: (config.ipc_ping && !interval.is_zero()).then_some(interval),
        response_bytes_max: config.ipc_max_response_bytes,
    }
}

impl Proxy {
    /// A proxy for `protocol` of `service`; no I/O happens before the first call.
    ///
    /// # Errors
    /// `Config` when the service has no NameNode, `Auth` when the configuration demands Kerberos,
    /// `Io` when the system has no random bytes.
    pub fn new(
        service: &NameService,
        protocol: &'static str,
        config: &ClientConfig,
    ) -> Result<Proxy> {
        check_security(config)?;
        if service.namenodes.is_empty() {
            let message = format!("nameservice {} has no NameNode", service.name);
            return Err(Error::new(Status::Config, message));
        }
        let (client_id, seed) = random_identity()?;
        let params = Arc::new(params(config, protocol, client_id));
        let rules = ConnectRules::namenode(config, service.logical);
        let mut nodes: Vec<Endpoint> = service
            .namenodes
            .iter()
            .map(|(_, server)| Endpoint::new(server.clone(), params.clone(), rules.clone()))
            .collect();
        if service.logical && config.failover_random_order {
            let mut random = seed;
            for i in (1..nodes.len()).rev() {
                random = xorshift(random);
                nodes.swap(i, (random % (i as u64 + 1)) as usize);
            }
        }
        Ok(Proxy {
            name: service.name.clone(),
            params,
            nodes,
            policy: policy(config, service.logical),
            rpc_timeout_ms: config.ipc_rpc_timeout_ms,
            current: Mutex::new(Current { index: 0, generation: 0 }),
            next_call_id: AtomicU32::new(0),
            random: AtomicU64::new(seed),
            closed: Mutex::new(false),
            wake: Condvar::new(),
            forks: fork::generation(),
        })
    }

    /// One call: retried and failed over as the configuration says, always with the same call id,
    /// so that the NameNode's retry cache recognises it.
    ///
    /// Runs on the caller; blocks up to the deadline. Takes no lock that it holds while waiting.
    ///
    /// # Errors
    /// The error of the last attempt, naming the server.
    pub fn call<R: Message + Default>(
        &self,
        method: Method,
        request: &impl Message,
        deadline: Deadline,
    ) -> Result<R> {
        let id = (self.next_call_id.fetch_add(1, Ordering::Relaxed) & 0x7fff_ffff) as i32;
        let request = request.encode_to_vec();
        let mut done = Attempts::default();
        loop {
            if *self.closed.lock() {
                return Err(Error::new(Status::Closed, "the file system is closed"));
            }
            let current = *self.current.lock();
            let retry_count = i32::try_from(done.retries).unwrap_or(i32::MAX);
            let node = self.node(current.index)?;
            let failed = match self.attempt(node, id, retry_count, method, &request, deadline) {
                Ok(bytes) => {
                    return rpc_frame::decode_message(&bytes)
                        .map_err(|e| e.with_server(node.server()));
                }
                Err(failed) => failed,
            };
            let random = self.random();
            let decision = self.policy.decide(failed.cause, done, method.repeatable, random);
            let (sleep_ms, failover) = match decision {
                Decision::Fail => return Err(self.give_up(failed, done)),
                Decision::Retry { sleep_ms } => (sleep_ms, false),
                Decision::Failover { sleep_ms } => (sleep_ms, true),
            };
            let sleep = Duration::from_millis(sleep_ms);
            if deadline.remaining().is_some_and(|left| left <= sleep) {
                return Err(self.give_up(failed, done));
            }
            dfs_log!(Info, "{}: {}; next attempt in {sleep_ms} ms", method.name, failed.error);
            self.sleep(sleep)?;
            done.retries += 1;
            if failover {
                done.failovers += 1;
                self.advance(current.generation);
            }
        }
    }

    fn node(&self, index: usize) -> Result<&Endpoint> {
        let missing = || Error::new(Status::Internal, "the current NameNode has no address");
        self.nodes.get(index).ok_or_else(missing)
    }

    fn attempt(
        &self,
        node: &Endpoint,
        id: i32,
        retry_count: i32,
        method: Method,
        request: &[u8],
        deadline: Deadline,
    ) -> std::result::Result<Vec<u8>, Failed> {
        let Params { client_id, protocol, .. } = &*self.params;
        let frame =
            rpc_frame::encode_call(id, retry_count, client_id, protocol, method.name, request)
                .map_err(|e| Failed::new(Cause::Final, e))?;
        let mut dead = 0;
        loop {
            let connection = node.connection(deadline)?;
            let rpc_limit = Deadline::after_ms(self.rpc_timeout_ms);
            match connection.call(id, &frame, deadline, rpc_limit) {
                // The connection died before it took a byte of ours: that is not an attempt.
                Err(failed) if failed.cause == Cause::Unsent && dead < DEAD_CONNECTIONS_MAX => {
                    dead += 1;
                }
                outcome => return outcome,
            }
        }
    }

    /// The next NameNode, unless somebody else moved on since `generation`.
    fn advance(&self, generation: u64) {
        let mut current = self.current.lock();
        if current.generation == generation {
            current.generation += 1;
            current.index = (current.index + 1) % self.nodes.len();
            let server = self.nodes.get(current.index).map_or("", Endpoint::server);
            dfs_log!(Info, "nameservice {}: trying NameNode {server}", self.name);
        }
    }

    fn give_up(&self, failed: Failed, done: Attempts) -> Error {
        if done.retries == 0 || self.nodes.len() == 1 {
            return failed.error;
        }
        let attempts = done.retries + 1;
        failed.error.context(format_args!(
            "nameservice {}: no success in {attempts} attempts on {} NameNodes, at last",
            self.name,
            self.nodes.len()
        ))
    }

    /// Sleeps; [`Proxy::close`] interrupts it.
    fn sleep(&self, duration: Duration) -> Result<()> {
        let mut closed = self.closed.lock();
        let until = now().checked_add(duration);
        while !*closed {
            match until {
                Some(at) if !self.wake.wait_until(&mut closed, at).timed_out() => {}
                _ => return Ok(()),
            }
        }
        Err(Error::new(Status::Closed, "the file system was closed during the call"))
    }

    /// A number in 0..1.
    fn random(&self) -> f64 {
        let step = |x| Some(xorshift(x));
        let x = self.random.fetch_update(Ordering::Relaxed, Ordering::Relaxed, step);
        (x.unwrap_or(1) >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Closes connections that no call used for `ipc.client.connection.maxidletime`. For the
    /// keeper thread; does not block.
    pub fn expire_idle(&self) {
        for node in &self.nodes {
            node.expire_idle();
        }
    }

    /// Closes all connections; calls that wait end with `Closed`.
    pub fn close(&self) {
        *self.closed.lock() = true;
        self.wake.notify_all();
        for node in &self.nodes {
            node.close();
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        // A shutdown in a forked child would end the parent's connections, and its locks may be
        // held by threads that do not exist here.
        if self.forks == fork::generation() {
            self.close();
        }
    }
}

fn policy(config: &ClientConfig, logical: bool) -> Policy {
    if logical {
        return Policy::Failover {
            max_failovers: config.failover_max_attempts,
            max_retries: config.retry_max_attempts,
            sleep_base_ms: config.failover_sleep_base_ms,
            sleep_max_ms: config.failover_sleep_max_ms,
        };
    }
    let spec =
        if config.retry_policy_enabled { config.retry_policy_spec.clone() } else { Vec::new() };
    Policy::Plain { spec }
}

/// Marsaglia's xorshift64: good enough to spread sleeps. Never 0 for a seed that is not.
fn xorshift(mut x: u64) -> u64 {
    x ^= x << 13;
    x ^= x >> 7;
    x ^ (x << 17)
}

/// One call of `protocol` on a connection of its own, closed right after.
///
/// # Errors
/// As [`Proxy::call`], without any retry.
pub fn call_once<R: Message + Default>(
    server: &str,
    protocol: &'static str,
    method: Method,
    request: &impl Message,
    config: &ClientConfig,
    deadline: Deadline,
) -> Result<R> {
    check_security(config)?;
    let (client_id, _) = random_identity()?;
    let params = Arc::new(params(config, protocol, client_id));
    let mut rules = ConnectRules::namenode(config, true);
    (rules.retries, rules.retries_on_timeout) = (0, 0);
    let endpoint = Endpoint::new(server.to_owned(), params, rules);
    let frame =
        rpc_frame::encode_call(0, 0, &client_id, protocol, method.name, &request.encode_to_vec())?;
    let call = || {
        let connection = endpoint.connection(deadline)?;
        let rpc_limit = Deadline::after_ms(config.ipc_rpc_timeout_ms);
        connection.call(0, &frame, deadline, rpc_limit)
    };
    let bytes = call().map_err(|failed| failed.error)?;
    rpc_frame::decode_message(&bytes).map_err(|e| e.with_server(server))
}
