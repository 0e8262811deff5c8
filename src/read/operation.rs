//! One READ_BLOCK operation with the connection under it: cached if there is one, else made.
//!
//! Waits for the DataNode or not, as [`Wire::wait`] says.
use super::block_reader::{BlockReader, Request};
use super::context::ReadStats;
use super::input_stream::InputStream;
use super::located::{Block, Node};
use super::receive::Wire;
use crate::datanode::peer::{Connected, Connecting};
use crate::error::{Error, Result, Status};
use crate::sys::socket::{READABLE, WAIT_SLICE_MS, WRITABLE, is_timeout};
use crate::time::{Deadline, now};
use std::os::fd::RawFd;
use std::time::{Duration, Instant};

/// An operation on one replica of a block; the block is named anew at each call.
pub(crate) struct Operation {
    /// Index of the replica.
    pub(crate) node: usize,
    block_offset: u64,
    len: u64,
    connecting: Option<Box<Connecting>>,
    reader: Option<BlockReader>,
    /// The connection came from the cache.
    cached: bool,
    /// Cached connections that may still be tried.
    cached_left: u32,
    responded: bool,
    /// When something came last, and what had come by then.
    moved: Instant,
    received: u64,
}

fn replica(block: &Block, node: usize) -> Result<&Node> {
    block.nodes.get(node).ok_or_else(|| internal("a replica index is out of range"))
}

#[cold]
fn internal(what: &'static str) -> Error {
    Error::new(Status::Internal, what)
}

impl Operation {
    /// Sends the request for `len` bytes from `block_offset` on a cached connection, or begins to
    /// make one.
    ///
    /// # Errors
    /// `UnknownHost`, `Connect`, `NoMemory`...
    pub(crate) fn start(
        stream: &InputStream,
        block: &Block,
        node: usize,
        block_offset: u64,
        len: u64,
        wire: &Wire<'_>,
    ) -> Result<Operation> {
        let mut this = Operation {
            node,
            block_offset,
            len,
            connecting: None,
            reader: None,
            cached: false,
            cached_left: stream.ctx.config.cached_conn_retry,
            responded: false,
            moved: now(),
            received: 0,
        };
        this.connect(stream, block, wire)?;
        Ok(this)
    }

    fn request<'b>(&self, stream: &InputStream, block: &'b Block) -> Request<'b> {
        stream.request(block, self.block_offset, self.len)
    }

    fn connect(&mut self, stream: &InputStream, block: &Block, wire: &Wire<'_>) -> Result<()> {
        let replica = replica(block, self.node)?;
        let request = self.request(stream, block);
        // Hadoop 3.4 BlockReaderFactory#getRemoteBlockReaderFromTcp: a cached connection may have
        // gone stale, which says nothing about the node.
        while self.cached_left > 0 {
            let Some(peer) = stream.ctx.peers.take(&replica.server) else { break };
            self.cached_left -= 1;
            match BlockReader::begin(peer, wire, &request) {
                Ok(reader) => {
                    (self.reader, self.cached) = (Some(reader), true);
                    return Ok(());
                }
                Err(e) if is_stale(&e) => forgive(stream, &replica.server, &e),
                Err(e) => return Err(e),
            }
        }
        let info = block.proto.locs.get(self.node);
        let info = info.ok_or_else(|| internal("a replica has no address"))?;
        let connecting = Connecting::start(&info.id, &stream.ctx.config)
            .map_err(|e| e.with_stage("connecting"))?;
        (self.connecting, self.cached) = (Some(Box::new(connecting)), false);
        Ok(())
    }

    /// Goes on until the DataNode has accepted the request; false if that has not come yet.
    ///
    /// # Errors
    /// `Connect`, `TimedOut`, and those of [`BlockReader::response`].
    pub(crate) fn ready(
        &mut self,
        stream: &InputStream,
        block: &Block,
        wire: &Wire<'_>,
    ) -> Result<bool> {
        while !self.responded {
            if self.connecting.is_some() {
                if !self.connected(stream, block, wire)? {
                    return Ok(false);
                }
                continue;
            }
            let cached = self.cached;
            let reader =
                self.reader.as_mut().ok_or_else(|| internal("an operation was used up"))?;
            match reader.response(wire) {
                Ok(false) => return Ok(false),
                Ok(true) => {
                    self.responded = true;
                    if cached {
                        ReadStats::add(&stream.ctx.stats.cache_hits, 1);
                    }
                }
                // Differs: a time-out does count, since a connection that the DataNode closed would
                // have told so at once.
                Err(e) if cached && is_stale(&e) => {
                    self.reader = None;
                    forgive(stream, &replica(block, self.node)?.server, &e);
                    self.connect(stream, block, wire)?;
                }
                Err(e) => return Err(e),
            }
        }
        Ok(true)
    }

    /// Looks after the connection that is being made; false if it takes longer.
    fn connected(&mut self, stream: &InputStream, block: &Block, wire: &Wire<'_>) -> Result<bool> {
        let Some(connecting) = self.connecting.take() else { return Ok(true) };
        if !wait_writable(&connecting, wire)? {
            if self.moved.elapsed() >= timeout(wire) || wire.deadline.passed() {
                return Err(connect_timed_out(&replica(block, self.node)?.server));
            }
            self.connecting = Some(connecting);
            // A caller that waits comes again at once.
            return Ok(wire.wait);
        }
        match connecting.finish().map_err(|e| e.with_stage("connecting"))? {
            Connected::Again(next) => {
                self.connecting = Some(Box::new(next));
                self.moved = now();
            }
            Connected::Peer(peer) => {
                ReadStats::add(&stream.ctx.stats.connects, 1);
                let request = self.request(stream, block);
                self.reader = Some(BlockReader::begin(Box::new(peer), wire, &request)?);
                self.moved = now();
            }
        }
        Ok(true)
    }

    /// What to wait for when a call would have to wait: descriptor and poll events.
    pub(crate) fn interest(&self) -> (RawFd, i16) {
        match (&self.connecting, &self.reader) {
            (Some(connecting), _) => (connecting.socket().raw(), WRITABLE),
            (None, Some(reader)) => (reader.raw(), READABLE),
            (None, None) => (-1, 0),
        }
    }

    /// When the DataNode has been silent for too long, if nothing comes until then.
    pub(crate) fn silent_at(&self, wire: &Wire<'_>) -> Deadline {
        self.moved.checked_add(timeout(wire)).map_or(Deadline::NONE, Deadline::at)
    }

    /// Notes whether anything came since the last call, for callers that do not wait in here.
    ///
    /// # Errors
    /// `TimedOut` after too long a silence.
    pub(crate) fn check_silence(&mut self, block: &Block, wire: &Wire<'_>) -> Result<()> {
        let received = self.reader.as_ref().map_or(0, BlockReader::received);
        if received != self.received {
            self.received = received;
            self.moved = now();
            return Ok(());
        }
        if self.moved.elapsed() < timeout(wire) {
            return Ok(());
        }
        Err(self.late(block))
    }

    /// The error of a DataNode that took too long.
    #[cold]
    pub(crate) fn late(&self, block: &Block) -> Error {
        match (&self.reader, block.nodes.get(self.node)) {
            (Some(reader), _) => reader.silence(),
            (None, node) => connect_timed_out(node.map_or("", |node| &node.server)),
        }
    }

    /// The reader, once [`Self::ready`] said so.
    ///
    /// # Errors
    /// `Internal` before that.
    pub(crate) fn reader(&mut self) -> Result<&mut BlockReader> {
        self.reader.as_mut().ok_or_else(|| internal("an operation has no reader"))
    }

    /// As [`Self::reader`], leaving the operation.
    ///
    /// # Errors
    /// `Internal` before [`Self::ready`] said so.
    pub(crate) fn into_reader(self) -> Result<BlockReader> {
        self.reader.ok_or_else(|| internal("an operation has no reader"))
    }

    /// How long the request has been with the DataNode; `None` before it was sent.
    pub(crate) fn age(&self) -> Option<Duration> {
        self.reader.as_ref().map(BlockReader::age)
    }

    /// Ends the operation: its connection is kept if it can be, else closed.
    pub(crate) fn end(self, stream: &InputStream, wire: &Wire<'_>) {
        if let Some(peer) = self.reader.and_then(|reader| reader.finish(wire)) {
            stream.ctx.peers.put(peer);
        }
    }
}

fn is_stale(error: &Error) -> bool {
    matches!(error.status(), Status::ConnectionLost | Status::Protocol)
}

#[cold]
fn forgive(stream: &InputStream, server: &str, error: &Error) {
    ReadStats::add(&stream.ctx.stats.stale_peers, 1);
    crate::dfs_log!(Debug, "a cached connection to {server} broke: {error}");
}

#[cold]
fn connect_timed_out(server: &str) -> Error {
    let text = format!("connecting to {server}: the time limit passed");
    Error::new(Status::TimedOut, text).with_server(server).with_stage("connecting")
}

/// `dfs.client.socket-timeout`, where 0 is no limit.
fn timeout(wire: &Wire<'_>) -> Duration {
    if wire.timeout_ms == 0 { Duration::MAX } else { Duration::from_millis(wire.timeout_ms) }
}

/// Whether the attempt to connect is over; a caller that waits does so for one slice.
fn wait_writable(connecting: &Connecting, wire: &Wire<'_>) -> Result<bool> {
    let limit = if wire.wait {
        // A limit of 0 is none.
        let limit = Deadline::after_ms(wire.timeout_ms).min(Deadline::after_ms(WAIT_SLICE_MS));
        wire.deadline.min(limit)
    } else {
        Deadline::at_once()
    };
    match connecting.socket().poll(WRITABLE, limit) {
        Ok(_) => Ok(true),
        Err(e) if is_timeout(&e) => {
            wire.closed.check()?;
            Ok(false)
        }
        Err(e) => Err(Error::new(Status::Io, format!("waiting for a connection: {e}"))),
    }
}
