//! One READ_BLOCK operation on one connection.
//!
//! The request is one `sendmsg`. What comes back is received with few, large `recvmsg` calls: a
//! small pooled buffer (the *scratch*) takes the response, packet headers and checksums, and the
//! data of whole chunks lands in the caller's memory right away. Only the chunks at unaligned
//! edges, and what the caller has no room for yet, go through a second pooled buffer (the *side*).
//! No byte counts as delivered before its chunk matched its checksum. Runs on the caller; one
//! thread at a time; a reader that returned an error must be dropped.
//!
//! A reader waits for its DataNode, or, for a caller that has several of them ([`Wire::wait`]),
//! never waits: then `None` says that it has used up what has come, and the call is repeated with
//! the same memory when more is there.
use super::block_state::{BlockState, PacketShape};
use super::receive::{DataIo, Wire, receive, time_is_up, verify};
use crate::buf::PooledBuf;
use crate::checksum::ChecksumType;
use crate::datanode::peer::Peer;
use crate::error::{Error, Result, Status};
use crate::net::tcp;
use crate::proto::hdfs::BlockOpResponseProto;
use crate::time::{Deadline, now};
use crate::wire::packet::{self, PREFIX_LEN, PROTO_LEN};
use crate::wire::transfer;
use crate::wire::varint::{self, Get};
use prost::Message;
use std::io::{IoSlice, IoSliceMut};
use std::ops::Range;
use std::os::fd::RawFd;
use std::time::{Duration, Instant};

/// Size of the scratch, bytes: a whole 4 KiB read fits, with response, header and trailer.
const SCRATCH_BYTES: usize = 8 << 10;
/// Bytes besides data and checksums of a small read: response, packet header, trailer.
const SMALL_OVERHEAD_BYTES: usize = 1 << 10;
/// What a longer read receives into the scratch before it knows the first packet: more would only
/// be copied once more.
const LEAD_IN_BYTES: usize = 1 << 10;
/// Request bytes besides the prebuilt header.
const REQUEST_EXTRA_BYTES: usize = 128;
/// Largest response to a request; an error text of a DataNode is far shorter.
const RESPONSE_BYTES_MAX: usize = 64 << 10;
/// An unfinished operation is read to its end, and its connection kept, when no more than this is
/// left: that is cheaper than a new connection.
pub(crate) const DRAIN_BYTES_MAX: u64 = 128 << 10;
/// How long a drain, or the trailer of a finished read, may keep the caller.
/// Longer than a socket's receive slice, so that the usual wait is one system call.
const DRAIN_MS: u64 = 600;

/// What to read: `len` bytes (at least 1) from `block_offset`.
#[derive(Clone, Copy)]
pub(crate) struct Request<'a> {
    /// From [`transfer::read_block_header`].
    pub(crate) header: &'a [u8],
    pub(crate) block_offset: u64,
    pub(crate) len: u64,
    pub(crate) verify: bool,
    pub(crate) readahead: Option<u64>,
    pub(crate) drop_behind: Option<bool>,
}

/// A running operation.
pub(crate) struct BlockReader {
    peer: Box<Peer>,
    state: BlockState,
    scratch: PooledBuf,
    /// Received and not yet used bytes of `scratch`.
    filled: Range<usize>,
    /// How far behind the needed bytes the scratch may be filled.
    lookahead: usize,
    side: Option<PooledBuf>,
    /// Verified bytes of `side` that the caller has not taken, from `position` on.
    ready: Range<usize>,
    /// Block offset of the next byte to deliver.
    position: u64,
    verify: bool,
    /// Some packet was skipped without a look at its checksums.
    skipped: bool,
    /// The response was taken.
    responded: bool,
    /// A packet whose data is on its way.
    arriving: Option<Arriving>,
    /// When the request was sent.
    sent: Instant,
    /// From then to the first data; taken by whoever keeps averages.
    latency: Option<Duration>,
    measured: bool,
    /// Bytes received so far, to see whether anything moves.
    received: u64,
}

/// A packet whose header and checksums have come.
struct Arriving {
    shape: PacketShape,
    layout: Layout,
    /// Where the checksums are in the scratch.
    sums: Range<usize>,
    /// Bytes of data that are in place.
    got: usize,
}

/// How one packet's data is spread over memory.
#[derive(Clone, Copy)]
struct Layout {
    /// Bytes before the wanted position.
    skip: usize,
    /// Leading bytes that go to the side: whole chunks up to the one with the wanted position.
    lead: usize,
    /// Bytes that go to the caller's memory.
    direct: usize,
    /// Trailing bytes that go to the side, behind the lead.
    tail: usize,
}

impl BlockReader {
    /// Sends the request on `peer`; [`Self::response`] comes next. On an error the connection is
    /// closed.
    ///
    /// # Errors
    /// `ConnectionLost` or `TimedOut`, naming the server; `NoMemory`.
    pub(crate) fn begin(peer: Box<Peer>, wire: &Wire<'_>, request: &Request<'_>) -> Result<Self> {
        let need = request.header.len().saturating_add(REQUEST_EXTRA_BYTES);
        let mut scratch = wire.pool.take(need.max(SCRATCH_BYTES), wire.deadline)?;
        let encoded = transfer::encode_read_block(
            &mut scratch,
            request.header,
            request.block_offset,
            request.len,
            request.verify,
            request.readahead,
            request.drop_behind,
        );
        let bytes = encoded.and_then(|n| scratch.get(..n));
        let Some(bytes) = bytes else {
            return Err(Error::new(Status::Internal, "a read request exceeds its buffer"));
        };
        let limit = wire.deadline.min(Deadline::after_ms(wire.timeout_ms));
        let sent = now();
        // Some hundred bytes on an idle connection: this waits for a peer that stopped reading.
        peer.socket.send_all(&mut [IoSlice::new(bytes)], limit).map_err(|e| {
            tcp::io_error(&e, "sending a read request to", &peer.server)
                .with_stage("sending the request")
        })?;
        let small = request.len <= (SCRATCH_BYTES - SMALL_OVERHEAD_BYTES) as u64;
        Ok(BlockReader {
            state: BlockState::new(request.block_offset, request.len),
            filled: 0..0,
            lookahead: if small { scratch.capacity() } else { LEAD_IN_BYTES },
            scratch,
            side: None,
            ready: 0..0,
            position: request.block_offset,
            verify: request.verify,
            skipped: false,
            responded: false,
            arriving: None,
            sent,
            latency: None,
            measured: false,
            received: 0,
            peer,
        })
    }

    /// Takes the response to the request, unless it was taken before; false if it has not come.
    ///
    /// # Errors
    /// `ConnectionLost`, `TimedOut`, `Protocol`, `BlockToken`, `DataNode`, naming the server;
    /// `NoMemory`, `Closed`.
    pub(crate) fn response(&mut self, wire: &Wire<'_>) -> Result<bool> {
        if !self.responded {
            self.responded =
                self.take_response(wire).map_err(|e| self.blame(e, "waiting for the response"))?;
        }
        Ok(self.responded)
    }

    /// The socket to wait for when a call returned `None`.
    pub(crate) fn raw(&self) -> RawFd {
        self.peer.socket.raw()
    }

    /// Bytes received so far.
    pub(crate) fn received(&self) -> u64 {
        self.received
    }

    /// Time from the request to the first data, once.
    pub(crate) fn take_latency(&mut self) -> Option<Duration> {
        self.latency.take()
    }

    /// Time since the request was sent.
    pub(crate) fn age(&self) -> Duration {
        self.sent.elapsed()
    }

    /// The error of a DataNode that was silent for too long.
    #[cold]
    pub(crate) fn silence(&self) -> Error {
        let stage = if self.responded { "reading data" } else { "waiting for the response" };
        self.blame(time_is_up(&self.peer), stage)
    }

    /// Block offset of the next byte that [`Self::read`] delivers.
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// Whether everything requested was delivered.
    pub(crate) fn at_end(&self) -> bool {
        self.position >= self.state.end()
    }

    /// Passes over bytes: the next read starts at `block_offset`, which must not lie before the
    /// position. What is not here yet is received and dropped then.
    pub(crate) fn skip_to(&mut self, block_offset: u64) {
        debug_assert!(block_offset >= self.position, "a reader does not go back");
        let step = block_offset.min(self.state.end()).saturating_sub(self.position);
        self.position += step;
        let in_ready = usize::try_from(step).unwrap_or(usize::MAX).min(self.ready.len());
        self.ready.start += in_ready;
    }

    /// Delivers up to `dst.len()` bytes, at least 1; 0 only at the end of the request. `None`
    /// if it would have to wait: then the next call must bring the same memory.
    ///
    /// # Errors
    /// As [`Self::response`], and `Checksum`. The contents of `dst` are undefined then.
    pub(crate) fn read(&mut self, dst: &mut [u8], wire: &Wire<'_>) -> Result<Option<usize>> {
        if dst.is_empty() || self.at_end() {
            return Ok(Some(0));
        }
        if !self.response(wire)? {
            return Ok(None);
        }
        loop {
            let n = self.take_ready(dst);
            if n > 0 {
                return Ok(Some(n));
            }
            match self.packet(dst, wire).map_err(|e| self.blame(e, "reading data"))? {
                Some(0) => {}
                other => return Ok(other),
            }
        }
    }

    /// Ends the operation: reads what is left if that is little, takes the trailer and sends the
    /// status. Returns the connection when it can serve another operation; data that was already
    /// delivered is good in any case.
    pub(crate) fn finish(mut self, wire: &Wire<'_>) -> Option<Box<Peer>> {
        let limit = wire.deadline.min(Deadline::after_ms(DRAIN_MS));
        let wire = Wire { deadline: limit, ..*wire };
        match self.drain(&wire) {
            Ok(true) => Some(self.peer),
            Ok(false) => None,
            Err(e) => {
                crate::dfs_log!(Debug, "closing the connection to {}: {e}", self.peer.server);
                None
            }
        }
    }

    fn drain(&mut self, wire: &Wire<'_>) -> Result<bool> {
        let left = self.state.end().saturating_sub(self.state.next_offset());
        // A packet that is half in memory which may be gone cannot be drained.
        if left > DRAIN_BYTES_MAX || self.arriving.is_some() || !self.response(wire)? {
            return Ok(false);
        }
        self.ready = 0..0;
        self.position = self.state.end();
        while !self.state.is_finished() {
            if self.packet(&mut [], wire)?.is_none() {
                return Ok(false);
            }
        }
        if !self.filled.is_empty() {
            return Err(Error::protocol("bytes follow the last packet"));
        }
        // Hadoop 3.4 BlockReaderRemote#readNextPacket: the status tells whether the checksums of
        // the whole range were found good; the DataNode keeps the connection only after it.
        let has_sums = self.state.checksum() != ChecksumType::Null;
        let verified = self.verify && has_sums && !self.skipped;
        let status = if verified { STATUS_CHECKSUM_OK } else { STATUS_SUCCESS };
        let sent = self.peer.socket.try_send(&[IoSlice::new(&status)]);
        Ok(matches!(sent, Ok(Some(n)) if n == status.len()))
    }

    /// Names the server and, for a broken or silent connection, what was going on.
    #[cold]
    fn blame(&self, error: Error, stage: &'static str) -> Error {
        let error = error.or_server(&self.peer.server);
        if error.stage().is_some() { error } else { error.with_stage(stage) }
    }

    fn take_ready(&mut self, dst: &mut [u8]) -> usize {
        let Some(side) = &self.side else { return 0 };
        let n = self.ready.len().min(dst.len());
        let from = self.ready.start..self.ready.start + n;
        let (Some(to), Some(bytes)) = (dst.get_mut(..n), side.get(from)) else { return 0 };
        to.copy_from_slice(bytes);
        self.ready.start += n;
        self.position += n as u64;
        n
    }

    /// Makes `need` bytes available from `filled.start` on, contiguous in the scratch; false if
    /// they have not come yet.
    fn fill(&mut self, need: usize, wire: &Wire<'_>) -> Result<bool> {
        if self.filled.len() >= need {
            return Ok(true);
        }
        let want = need.max(self.lookahead);
        if self.filled.start + want > self.scratch.capacity() {
            if need > self.scratch.capacity() {
                // `need` was checked against the packet limit, which the pool can serve.
                let mut larger = wire.pool.take(need, wire.deadline)?;
                let old = self.scratch.get(self.filled.clone()).unwrap_or_default();
                if let Some(to) = larger.get_mut(..old.len()) {
                    to.copy_from_slice(old);
                }
                self.scratch = larger;
            } else {
                self.scratch.copy_within(self.filled.clone(), 0);
            }
            self.filled = 0..self.filled.len();
        }
        let limit = (self.filled.start + want).min(self.scratch.capacity());
        while self.filled.len() < need {
            let Some(room) = self.scratch.get_mut(self.filled.end..limit) else {
                return Err(Error::new(Status::Internal, "the scratch buffer is out of step"));
            };
            let Some(n) = receive(&self.peer, &mut [IoSliceMut::new(room)], wire)? else {
                return Ok(false);
            };
            self.filled.end += n;
            self.received += n as u64;
        }
        Ok(true)
    }

    /// The next `n` received bytes, without using them up.
    fn peek(&self, n: usize) -> &[u8] {
        self.scratch.get(self.filled.start..self.filled.start + n).unwrap_or_default()
    }

    fn take_response(&mut self, wire: &Wire<'_>) -> Result<bool> {
        let mut need = 1;
        let (len, prefix) = loop {
            if !self.fill(need, wire)? {
                return Ok(false);
            }
            match varint::get(self.peek(self.filled.len().min(varint::MAX_LEN + 1))) {
                Get::Value(len, prefix) => break (len, prefix),
                Get::Short => need = self.filled.len() + 1,
                Get::Bad => return Err(Error::protocol("the read response has a bad length")),
            }
        };
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        if len > RESPONSE_BYTES_MAX {
            return Err(Error::protocol(format!("a read response of {len} bytes is too long")));
        }
        if !self.fill(prefix + len, wire)? {
            return Ok(false);
        }
        let bytes = self.peek(prefix + len).get(prefix..).unwrap_or_default();
        let response = BlockOpResponseProto::decode(bytes)
            .map_err(|e| Error::protocol(format!("the read response cannot be decoded: {e}")))?;
        self.filled.start += prefix + len;
        self.state.on_response(&response)?;
        Ok(true)
    }

    /// Receives one packet; returns the bytes delivered to `dst` and leaves the rest in `ready`.
    fn packet(&mut self, dst: &mut [u8], wire: &Wire<'_>) -> Result<Option<usize>> {
        if self.arriving.is_none() {
            match self.header(dst.len(), wire)? {
                None => return Ok(None),
                // The trailer.
                Some(arriving) if arriving.shape.data_len == 0 => return Ok(Some(0)),
                some => self.arriving = some,
            }
        }
        let Some(mut arriving) = self.arriving.take() else { return Ok(Some(0)) };
        let layout = arriving.layout;
        let side_len = layout.lead + layout.tail;
        let mut empty = [];
        let side = match &mut self.side {
            Some(side) => side.get_mut(..side_len).unwrap_or_default(),
            None => &mut empty[..],
        };
        let (lead, tail) = side.split_at_mut(layout.lead);
        let at = layout.lead - layout.skip.min(layout.lead);
        let direct = dst.get_mut(at..at + layout.direct).unwrap_or_default();
        let mut io = DataIo {
            peer: &self.peer,
            scratch: &mut self.scratch,
            filled: &mut self.filled,
            follow: PREFIX_LEN
                + PROTO_LEN
                + if self.state.data_complete() { 0 } else { arriving.sums.len() },
        };
        let before = arriving.got;
        let complete = io.data([&mut *lead, &mut *direct, &mut *tail], &mut arriving.got, wire)?;
        self.received += (arriving.got - before) as u64;
        if !complete {
            self.arriving = Some(arriving);
            return Ok(None);
        }
        if layout.skip >= arriving.shape.data_len {
            self.skipped = true;
            return Ok(Some(0));
        }
        let sums = self.scratch.get(arriving.sums).unwrap_or_default();
        if self.verify {
            verify(&self.state, arriving.shape.offset, sums, [&*lead, &*direct, &*tail])?;
        }
        Ok(Some(self.deliver(&arriving.shape, &layout, dst)))
    }

    /// Receives the header and the checksums of the next packet and finds room for its data, given
    /// `room` bytes of the caller's; `None` if they have not come.
    fn header(&mut self, room: usize, wire: &Wire<'_>) -> Result<Option<Arriving>> {
        if !self.fill(PREFIX_LEN, wire)? {
            return Ok(None);
        }
        let mut prefix = [0; PREFIX_LEN];
        prefix.copy_from_slice(self.peek(PREFIX_LEN));
        let (body, header_len) = packet::decode_prefix(prefix, wire.max_packet_bytes)?;
        if !self.fill(PREFIX_LEN + header_len, wire)? {
            return Ok(None);
        }
        let header = self.peek(PREFIX_LEN + header_len).get(PREFIX_LEN..).unwrap_or_default();
        let header = packet::decode_header(header)?;
        // Counts only with the checksums: until then this is repeated.
        let mut state = self.state.clone();
        let shape = state.on_header(body, &header)?;
        if !self.fill(PREFIX_LEN + header_len + shape.sums_len, wire)? {
            return Ok(None);
        }
        self.state = state;
        self.filled.start += PREFIX_LEN + header_len;
        let sums = self.filled.start..self.filled.start + shape.sums_len;
        self.filled.start = sums.end;
        if !self.measured {
            self.measured = true;
            self.latency = Some(self.sent.elapsed());
        }
        let layout = self.layout(&shape, room);
        let side_len = layout.lead + layout.tail;
        if side_len > self.side.as_ref().map_or(0, PooledBuf::capacity) {
            self.side = None;
            self.side = Some(wire.pool.take(side_len, wire.deadline)?);
        }
        Ok(Some(Arriving { shape, layout, sums, got: 0 }))
    }

    /// Decides where the bytes of a packet go, given room for `room` bytes.
    fn layout(&self, shape: &PacketShape, room: usize) -> Layout {
        let len = shape.data_len;
        let chunk = self.state.bytes_per_checksum();
        let skip = self.position.saturating_sub(shape.offset);
        let skip = usize::try_from(skip).unwrap_or(usize::MAX).min(len);
        // Packets begin at a chunk, so chunks can be counted from the packet's start.
        let lead = skip.div_ceil(chunk).saturating_mul(chunk).min(len);
        let rest = len - lead;
        let room = room.saturating_sub(lead - skip);
        let wanted = self.state.end().saturating_sub(shape.offset + lead as u64);
        let room = room.min(usize::try_from(wanted).unwrap_or(usize::MAX));
        let direct = if room >= rest { rest } else { room - room % chunk };
        Layout { skip, lead, direct, tail: rest - direct }
    }

    /// Hands out what was verified: the lead's wanted bytes, what is in place, then the tail's.
    fn deliver(&mut self, shape: &PacketShape, layout: &Layout, dst: &mut [u8]) -> usize {
        let wanted = self.state.end().saturating_sub(self.position);
        let wanted = usize::try_from(wanted).unwrap_or(usize::MAX);
        let wanted = wanted.min(shape.data_len - layout.skip);
        // Only a lead that the caller took whole is followed by bytes in place.
        let side_end = layout.lead + layout.tail;
        let lead_wanted = (layout.lead - layout.skip).min(wanted);
        let mut n = 0;
        if layout.direct == 0 {
            self.ready = layout.skip..(layout.skip + wanted).min(side_end);
        } else {
            self.ready = layout.skip..layout.skip + lead_wanted;
            n = self.take_ready(dst);
            self.position += layout.direct as u64;
            n += layout.direct;
            let tail = wanted.saturating_sub(n).min(layout.tail);
            self.ready = layout.lead..layout.lead + tail;
        }
        n + self.take_ready(dst.get_mut(n..).unwrap_or_default())
    }
}

/// Delimited `ClientReadStatusProto`s.
const STATUS_CHECKSUM_OK: [u8; 3] = [2, 0x08, 6];
const STATUS_SUCCESS: [u8; 3] = [2, 0x08, 0];
