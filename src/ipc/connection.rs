//! One connection to a server, shared by all threads, without a thread of its own.
//!
//! A caller registers its call, sends it under a short lock, and waits. While nobody reads, the
//! first waiter becomes the *leader*: it reads answers for everybody and hands them over; when
//! its own answer is there it wakes another waiter to take the role. The others sleep on their own
//! condition variables. So an answer for the leader costs no thread switch, and there is always a
//! reader while calls wait.
//!
//! Locks, in order: `inbox` (the leader's), `out` (sending), `state`. Only `inbox` is held while
//! waiting for the network, and `out` while a full socket drains. Everything runs on callers'
//! threads.
use super::call_state::{CallTable, Outcome};
use super::remote;
use super::retry::{Cause, Failed};
use crate::dfs_log;
use crate::error::{Error, Status};
use crate::net::tcp;
use crate::sys::socket::{Socket, WRITABLE, is_timeout};
use crate::time::{Deadline, now};
use crate::wire::rpc_frame::{self, CALL_ID_SASL, ClientId, FrameBuffer};
use parking_lot::{Condvar, Mutex};
use std::io::{IoSlice, IoSliceMut};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Longest wait for room in a full socket, ms: a server that takes no bytes for so long is lost.
const SEND_STALL_MAX_MS: u64 = 120_000;

/// What a connection needs to know, the same for all connections of one client.
#[derive(Clone, Debug)]
pub struct Params {
    /// The user to act as.
    pub user: String,
    /// Full name of the protocol.
    pub protocol: &'static str,
    /// Names the client for the retry cache.
    pub client_id: ClientId,
    /// `ipc.ping.interval`, if `ipc.client.ping`.
    pub ping_interval: Option<Duration>,
    /// `ipc.maximum.response.length`, bytes.
    pub response_bytes_max: usize,
}

/// Wakes one waiting caller.
#[derive(Debug, Default)]
struct Waiter {
    wake: Condvar,
}

#[derive(Debug)]
struct State {
    calls: CallTable<Arc<Waiter>>,
    /// Somebody reads.
    led: bool,
    /// Why the connection takes no more calls.
    ended: Option<Failed>,
    /// A call found the server silent: calls that wait may still end well, new ones go elsewhere.
    retired: bool,
    /// When bytes last came.
    heard: Instant,
    /// When a call last began or ended.
    used: Instant,
}

#[derive(Debug)]
struct Outgoing {
    /// Goes before the next frame: preamble and context, or the rest of a frame whose caller ran
    /// out of time while the socket was full.
    pending: Vec<u8>,
    /// When bytes were last sent.
    sent: Instant,
}

/// A connection to one server.
#[derive(Debug)]
pub struct Connection {
    server: Box<str>,
    socket: Socket,
    params: Arc<Params>,
    out: Mutex<Outgoing>,
    state: Mutex<State>,
    inbox: Mutex<FrameBuffer>,
}

/// Gives up the reader's role, also when the reader panics.
struct Leadership<'a>(&'a Connection);

impl Drop for Leadership<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.led = false;
        wake_successor(&state);
    }
}

/// Wakes one caller that sleeps, to read; one that still sends will look for itself.
fn wake_successor(state: &State) {
    let _woken = state.calls.waiting().any(|waiter| waiter.wake.notify_one());
}

impl Connection {
    /// Takes over a connected socket; nothing is sent before the first call.
    #[must_use]
    pub fn new(server: &str, socket: Socket, params: Arc<Params>) -> Connection {
        let pending =
            rpc_frame::encode_simple_start(&params.user, params.protocol, &params.client_id);
        let now = now();
        Connection {
            server: server.into(),
            socket,
            out: Mutex::new(Outgoing { pending, sent: now }),
            state: Mutex::new(State {
                calls: CallTable::default(),
                led: false,
                ended: None,
                retired: false,
                heard: now,
                used: now,
            }),
            inbox: Mutex::new(FrameBuffer::new(params.response_bytes_max)),
            params,
        }
    }

    /// Sends one encoded call and waits for its outcome.
    ///
    /// Blocks until `deadline` (the caller's limit) or `rpc_limit` (`ipc.client.rpc-timeout.ms`).
    /// A call that runs out of time is forgotten and the connection goes on; its late answer is
    /// dropped.
    ///
    /// # Errors
    /// The cause says how far the call came; the error names the server.
    pub fn call(&self, id: i32, frame: &[u8], deadline: Deadline, rpc_limit: Deadline) -> Outcome {
        let waiter = Arc::new(Waiter::default());
        let begun = now();
        {
            let mut state = self.state.lock();
            if let Some(ended) = &state.ended {
                // Nothing of this call was sent, whatever became of earlier ones.
                let closed = ended.error.status() == Status::Closed;
                let cause = if closed { Cause::Final } else { Cause::Unsent };
                return Err(Failed::new(cause, ended.error.clone()));
            }
            if !state.calls.insert(id, waiter.clone()) {
                let message =
                    format!("call id {id} is in use on the connection to {}", self.server);
                return Err(Failed::new(Cause::Final, Error::new(Status::Internal, message)));
            }
            state.used = begun;
        }
        let limit = deadline.min(rpc_limit);
        if let Err(failed) = self.send(frame, limit) {
            self.state.lock().calls.forget(id);
            return Err(failed);
        }
        self.wait(id, &waiter, limit).unwrap_or_else(|| Err(self.timed_out(begun, deadline)))
    }

    fn timed_out(&self, begun: Instant, deadline: Deadline) -> Failed {
        let mut state = self.state.lock();
        let waited_ms = now().saturating_duration_since(begun).as_millis();
        let message = format!("no answer from server {} within {waited_ms} ms", self.server);
        let error = Error::new(Status::TimedOut, message).with_server(&self.server);
        if deadline.passed() {
            return Failed::new(Cause::Final, error);
        }
        // Differs: Hadoop closes the connection, and all calls on it, when one call times out. A
        // connection that still delivers answers is kept; a silent one gets no new calls.
        if state.heard <= begun {
            state.retired = true;
        }
        Failed::new(Cause::Silent, error)
    }

    /// `None` when the limit passes first; the call is forgotten then.
    fn wait(&self, id: i32, waiter: &Arc<Waiter>, limit: Deadline) -> Option<Outcome> {
        let mut state = self.state.lock();
        let outcome = loop {
            if let Some(outcome) = state.calls.take(id) {
                break Some(outcome);
            }
            if limit.passed() {
                state.calls.forget(id);
                break None;
            }
            if !state.led {
                state.led = true;
                drop(state);
                let role = Leadership(self);
                self.lead(id, limit);
                drop(role);
                state = self.state.lock();
                continue;
            }
            match limit.instant() {
                Some(at) => {
                    waiter.wake.wait_until(&mut state, at);
                }
                None => waiter.wake.wait(&mut state),
            }
        };
        state.used = now();
        // Whoever leaves while nobody reads must not leave sleepers behind.
        if !state.led {
            wake_successor(&state);
        }
        outcome
    }

    /// Reads for everybody until call `id` is done, the connection ends, or the limit passes.
    fn lead(&self, id: i32, limit: Deadline) {
        let mut inbox = self.inbox.lock();
        loop {
            {
                // First of all: whoever looked after the idle connection may have read it for us.
                let state = self.state.lock();
                if state.ended.is_some() || state.calls.is_done(id) || limit.passed() {
                    return;
                }
            }
            let step = self.receive(&mut inbox, Some(limit)).and_then(|_| self.ping_if_due());
            if let Err(failed) = step {
                return self.end(&failed);
            }
        }
    }

    /// Receives once and hands over every whole frame. With `None` it does not wait. Returns
    /// whether bytes came.
    fn receive(&self, inbox: &mut FrameBuffer, limit: Option<Deadline>) -> Result<bool, Failed> {
        let parts = &mut [IoSliceMut::new(inbox.space())];
        let got = match limit {
            Some(limit) => self.socket.recv_slice(parts, limit),
            None => self.socket.try_recv(parts),
        };
        let n = match got {
            Ok(None) => return Ok(false),
            Ok(Some(n)) => n,
            Err(e) => {
                let error = tcp::io_error(&e, "reading from", &self.server);
                return Err(Failed::new(Cause::Lost, error));
            }
        };
        if n == 0 {
            return Err(self.closed_by_server(inbox));
        }
        inbox.filled(n);
        self.state.lock().heard = now();
        self.dispatch(inbox)?;
        Ok(true)
    }

    fn closed_by_server(&self, inbox: &FrameBuffer) -> Failed {
        let how = if inbox.is_partial() {
            "closed the connection in the middle of an answer"
        } else if inbox.is_first() {
            "closed the connection without an answer (is this an RPC port?)"
        } else {
            "closed the connection"
        };
        let message = format!("server {} {how}", self.server);
        let error = Error::new(Status::ConnectionLost, message).with_server(&self.server);
        Failed::new(Cause::Lost, error)
    }

    fn dispatch(&self, inbox: &mut FrameBuffer) -> Result<(), Failed> {
        loop {
            let first = inbox.is_first();
            let broken = |error: Error| {
                let error = if first && error.status() == Status::Protocol {
                    // Nothing sensible ever came from there.
                    error.with_status(Status::NotHdfs).context("not a Hadoop RPC server")
                } else {
                    error
                };
                let error = error.context(format_args!("answer of {}", self.server));
                Failed::new(Cause::Final, error.with_server(&self.server))
            };
            let Some(frame) = inbox.next_frame().map_err(broken)? else { return Ok(()) };
            let response = rpc_frame::decode_response(frame).map_err(broken)?;
            self.accept(response)?;
        }
    }

    fn accept(&self, response: rpc_frame::Response<'_>) -> Result<(), Failed> {
        let id = response.call_id;
        let (outcome, fatal) = match response.outcome {
            _ if id == CALL_ID_SASL => {
                let message = format!("server {} requires SASL authentication", self.server);
                let error = Error::new(Status::Auth, message).with_server(&self.server);
                return Err(Failed::new(Cause::Final, error));
            }
            rpc_frame::Outcome::Success(message) => (Ok(message.to_vec()), None),
            rpc_frame::Outcome::Error(e) => (Err(remote::failed(&e, &self.server)), None),
            rpc_frame::Outcome::Fatal(e) => {
                let failed = remote::failed(&e, &self.server);
                (Err(failed.clone()), Some(failed))
            }
        };
        match self.state.lock().calls.finish(id, outcome) {
            Some(waiter) => {
                waiter.wake.notify_one();
            }
            None => dfs_log!(Debug, "dropped a late answer of {} to call {id}", self.server),
        }
        match fatal {
            None => Ok(()),
            // The connection as a whole was refused.
            Some(failed) if id < 0 => Err(failed),
            // One call was: the others lose their connection and may be repeated.
            Some(failed) => {
                let error = failed.error.with_status(Status::ConnectionLost);
                let attempt =
                    format!("server {} closed the connection after another call", self.server);
                Err(Failed::new(Cause::Lost, error.context(attempt)))
            }
        }
    }

    /// Sends one frame. Blocks while the socket is full, up to `limit`; what is left of a frame
    /// that was begun then goes out before the next one, so the connection stays sound.
    fn send(&self, frame: &[u8], limit: Deadline) -> Result<(), Failed> {
        let stall = Deadline::after_ms(SEND_STALL_MAX_MS);
        let limit = limit.min(stall);
        let locked = match limit.instant() {
            Some(at) => self.out.try_lock_until(at),
            None => Some(self.out.lock()),
        };
        let Some(mut out) = locked else { return Err(self.takes_nothing()) };
        let before = out.pending.len();
        let mut done = 0;
        while done < before + frame.len() {
            let pending = out.pending.get(done..).unwrap_or_default();
            let rest = frame.get(done.saturating_sub(before)..).unwrap_or_default();
            let parts = [IoSlice::new(pending), IoSlice::new(rest)];
            let parts = if pending.is_empty() { &parts[1..] } else { &parts[..] };
            let step = match self.socket.try_send(parts) {
                Ok(Some(n)) => {
                    done += n;
                    continue;
                }
                Ok(None) => self.socket.poll(WRITABLE, limit).map(|_| ()),
                Err(e) => Err(e),
            };
            let Err(e) = step else { continue };
            if is_timeout(&e) && !stall.passed() {
                if done > before {
                    out.pending = rest.to_vec();
                } else {
                    out.pending.drain(..done);
                }
                return Err(self.takes_nothing());
            }
            let error =
                tcp::io_error(&e, "sending to", &self.server).with_status(Status::ConnectionLost);
            let cause = if done <= before { Cause::Unsent } else { Cause::Lost };
            self.end(&Failed::new(Cause::Lost, error.clone()));
            return Err(Failed::new(cause, error));
        }
        out.pending = Vec::new();
        out.sent = now();
        Ok(())
    }

    fn takes_nothing(&self) -> Failed {
        let message = format!("server {} took no request in time", self.server);
        Failed::new(Cause::Silent, Error::new(Status::TimedOut, message).with_server(&self.server))
    }

    /// Hadoop 3.4 Client.Connection.PingInputStream: when nothing came or went for the interval,
    /// a ping shows whether the connection still exists; the server does not answer it.
    fn ping_if_due(&self) -> Result<(), Failed> {
        let Some(interval) = self.params.ping_interval else { return Ok(()) };
        let heard = self.state.lock().heard;
        let Some(out) = self.out.try_lock() else { return Ok(()) };
        let last = heard.max(out.sent);
        drop(out);
        if now().saturating_duration_since(last) < interval {
            return Ok(());
        }
        let ping = rpc_frame::encode_ping(&self.params.client_id);
        match self.send(&ping, Deadline::after_ms(1)) {
            // A full socket is no news: bytes of ours are under way already.
            Err(failed) if failed.cause == Cause::Silent => Ok(()),
            other => other,
        }
    }

    /// Ends the connection: every waiting call gets `failed`. The first reason counts.
    fn end(&self, failed: &Failed) {
        let woken = {
            let mut state = self.state.lock();
            if state.ended.is_some() {
                return;
            }
            state.ended = Some(failed.clone());
            state.calls.finish_all(failed)
        };
        for waiter in woken {
            waiter.wake.notify_one();
        }
        self.socket.shutdown();
    }

    /// Ends the connection; calls that wait on it end with `error`.
    pub fn close(&self, error: Error) {
        self.end(&Failed::new(Cause::Final, error));
    }

    /// Whether a new call may use the connection. One that was idle is looked at first: a server
    /// that closed it meanwhile must not cost the call. One system call, does not block.
    #[must_use]
    pub fn is_usable(&self, max_idle: Duration) -> bool {
        let quiet = {
            let state = self.state.lock();
            if state.ended.is_some() || state.retired {
                return false;
            }
            state.calls.is_empty() && !state.led
        };
        if !quiet {
            return true;
        }
        if self.idle_for().is_some_and(|idle| idle > max_idle) {
            return false;
        }
        let Some(mut inbox) = self.inbox.try_lock() else { return true };
        loop {
            match self.receive(&mut inbox, None) {
                Ok(false) => return true,
                // A late answer to a call that was given up.
                Ok(true) => {}
                Err(failed) => {
                    self.end(&failed);
                    return false;
                }
            }
        }
    }

    /// Time since the last call ended; `None` while calls wait.
    #[must_use]
    pub fn idle_for(&self) -> Option<Duration> {
        let state = self.state.lock();
        state.calls.is_empty().then(|| now().saturating_duration_since(state.used))
    }
}
