//! One server address and the connection to it, made when needed.
use super::connection::{Connection, Params};
use super::retry::{Cause, Failed};
use crate::conf::client_config::ClientConfig;
use crate::dfs_log;
use crate::error::{Error, Status};
use crate::net::tcp;
use crate::sys::socket::SocketOptions;
use crate::time::{Deadline, now};
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// How connections are made, from the configuration.
#[derive(Clone, Debug)]
pub struct ConnectRules {
    /// `ipc.client.connect.timeout`, ms, of one attempt.
    pub timeout_ms: u64,
    /// Further attempts after a time-out, without sleep.
    pub retries_on_timeout: u32,
    /// Further attempts when a server that was there before refuses.
    pub retries: u32,
    /// `ipc.client.connect.retry.interval`, ms, between those.
    pub retry_interval_ms: u64,
    /// `ipc.client.tcpnodelay`.
    pub nodelay: bool,
    /// `ipc.client.connection.maxidletime`.
    pub max_idle: Duration,
}

impl ConnectRules {
    /// The rules for one NameNode out of `logical` service or for a plain one.
    ///
    /// Differs: Hadoop's client gives a plain NameNode that refuses no second chance (its
    /// connection policy is the call's, try once), and so do we at first contact. A NameNode that
    /// was there before is probably restarting: it gets `ipc.client.connect.max.retries`.
    #[must_use]
    pub fn namenode(config: &ClientConfig, logical: bool) -> ConnectRules {
        ConnectRules {
            timeout_ms: config.ipc_connect_timeout_ms,
            retries_on_timeout: if logical {
                config.failover_connection_retries_on_timeouts
            } else {
                config.ipc_connect_max_retries_on_timeouts
            },
            retries: if logical {
                config.failover_connection_retries
            } else {
                config.ipc_connect_max_retries
            },
            retry_interval_ms: config.ipc_connect_retry_interval_ms,
            nodelay: config.ipc_tcp_nodelay,
            max_idle: Duration::from_millis(config.ipc_max_idle_ms),
        }
    }
}

#[derive(Debug, Default)]
struct State {
    connection: Option<Arc<Connection>>,
    /// Somebody is connecting; the others wait for the result.
    connecting: bool,
    /// Counts finished attempts to connect.
    attempts: u64,
    /// Why the last of them failed, unless its caller merely had no time.
    failed: Option<Failed>,
    /// A connection succeeded once.
    seen: bool,
    closed: bool,
    /// Connections that take no new calls while old ones wait on them.
    leaving: Vec<Weak<Connection>>,
}

/// A server and at most one usable connection to it.
#[derive(Debug)]
pub struct Endpoint {
    server: String,
    params: Arc<Params>,
    rules: ConnectRules,
    state: Mutex<State>,
    changed: Condvar,
}

/// The error of everything that is asked after the end.
fn closed() -> Failed {
    Failed::new(Cause::Final, Error::new(Status::Closed, "the file system is closed"))
}

impl Endpoint {
    /// An address, not yet connected.
    #[must_use]
    pub fn new(server: String, params: Arc<Params>, rules: ConnectRules) -> Endpoint {
        Endpoint {
            server,
            params,
            rules,
            state: Mutex::new(State::default()),
            changed: Condvar::new(),
        }
    }

    /// `host:port` as configured.
    pub fn server(&self) -> &str {
        &self.server
    }

    /// The connection, made if there is no usable one. Many callers share one attempt.
    ///
    /// Blocks up to the deadline and the limits of [`ConnectRules`].
    ///
    /// # Errors
    /// `Unreachable` as the cause when no connection can be made.
    pub fn connection(&self, deadline: Deadline) -> Result<Arc<Connection>, Failed> {
        let mut state = self.state.lock();
        loop {
            if state.closed {
                return Err(closed());
            }
            if let Some(connection) = &state.connection {
                if connection.is_usable(self.rules.max_idle) {
                    return Ok(connection.clone());
                }
                // Calls that still wait on it keep it alive; an idle one is closed by the drop.
                let leaving = Arc::downgrade(connection);
                state.connection = None;
                state.leaving.retain(|c| c.strong_count() > 0);
                state.leaving.push(leaving);
            }
            if !state.connecting {
                return self.connect(state, deadline);
            }
            let attempt = state.attempts;
            while state.connecting && state.attempts == attempt && !state.closed {
                match deadline.instant() {
                    None => self.changed.wait(&mut state),
                    Some(at) => {
                        if self.changed.wait_until(&mut state, at).timed_out() {
                            return Err(self.no_time());
                        }
                    }
                }
            }
            if state.attempts > attempt
                && let Some(failed) = &state.failed
            {
                return Err(failed.clone());
            }
        }
    }

    fn no_time(&self) -> Failed {
        let message = format!("connecting to {}: the time limit passed", self.server);
        let error = Error::new(Status::TimedOut, message).with_server(&self.server);
        Failed::new(Cause::Final, error)
    }

    fn connect(
        &self,
        mut state: MutexGuard<'_, State>,
        deadline: Deadline,
    ) -> Result<Arc<Connection>, Failed> {
        state.connecting = true;
        let seen = state.seen;
        let outcome = MutexGuard::unlocked(&mut state, || self.attempt(seen, deadline));
        state.connecting = false;
        state.attempts += 1;
        let outcome = if state.closed { Err(closed()) } else { outcome };
        let result = match outcome {
            Ok(connection) => {
                let connection = Arc::new(connection);
                state.connection = Some(connection.clone());
                state.failed = None;
                state.seen = true;
                Ok(connection)
            }
            Err(failed) if deadline.passed() => {
                state.failed = None;
                Err(Failed::new(Cause::Final, failed.error))
            }
            Err(failed) => {
                state.failed = Some(failed.clone());
                Err(failed)
            }
        };
        drop(state);
        self.changed.notify_all();
        result
    }

    /// Connects, with the repetitions that the rules allow.
    fn attempt(&self, seen: bool, deadline: Deadline) -> Result<Connection, Failed> {
        let options = SocketOptions { nodelay: self.rules.nodelay, send_buffer_bytes: 0 };
        let (mut timeouts, mut refusals) = (0, 0);
        loop {
            // Names are looked up each time: the address may have moved.
            let result = tcp::resolve(&self.server).and_then(|addrs| {
                let timeout_ms = self.rules.timeout_ms;
                let closed = || self.state.lock().closed;
                tcp::connect_unless(&self.server, &addrs, options, timeout_ms, deadline, &closed)
            });
            let error = match result {
                Ok(socket) => {
                    return Ok(Connection::new(&self.server, socket, self.params.clone()));
                }
                Err(error) => error.or_server(&self.server),
            };
            let again = match error.status() {
                Status::TimedOut => {
                    timeouts += 1;
                    timeouts <= self.rules.retries_on_timeout
                }
                Status::Connect => {
                    refusals += 1;
                    seen && refusals <= self.rules.retries
                }
                _ => false,
            };
            if !again || deadline.passed() {
                return Err(Failed::new(Cause::Unreachable, error));
            }
            dfs_log!(Info, "{error}; trying again");
            if error.status() == Status::Connect && !self.pause(deadline) {
                return Err(Failed::new(Cause::Unreachable, error));
            }
        }
    }

    /// Sleeps between two attempts; false when the deadline passes first or the end comes.
    fn pause(&self, deadline: Deadline) -> bool {
        let interval = Duration::from_millis(self.rules.retry_interval_ms);
        if deadline.remaining().is_some_and(|left| left <= interval) {
            return false;
        }
        let Some(until) = now().checked_add(interval) else { return false };
        let mut state = self.state.lock();
        while !state.closed {
            if self.changed.wait_until(&mut state, until).timed_out() {
                return true;
            }
        }
        false
    }

    /// Closes the connection if no call used it for `ipc.client.connection.maxidletime`.
    pub fn expire_idle(&self) {
        let mut state = self.state.lock();
        let idle = state.connection.as_ref().and_then(|c| c.idle_for());
        if idle.is_some_and(|idle| idle > self.rules.max_idle) {
            state.connection = None;
        }
    }

    /// Closes the connection; calls that wait end with `Closed`, and no new one is made.
    pub fn close(&self) {
        let connections: Vec<_> = {
            let mut state = self.state.lock();
            state.closed = true;
            let leaving = std::mem::take(&mut state.leaving);
            state
                .connection
                .take()
                .into_iter()
                .chain(leaving.iter().filter_map(Weak::upgrade))
                .collect()
        };
        self.changed.notify_all();
        for connection in connections {
            connection.close(closed().error);
        }
    }
}
