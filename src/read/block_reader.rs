//! One READ_BLOCK operation on one connection.
//!
//! The request is one `sendmsg`. What comes back is received with few, large `recvmsg` calls: a
//! small pooled buffer (the *scratch*) takes the response, packet headers and checksums, and the
//! data of whole chunks lands in the caller's memory right away. Only the chunks at unaligned
//! edges, and what the caller has no room for yet, go through a second pooled buffer (the *side*).
//! No byte counts as delivered before its chunk matched its checksum. Runs on the caller; one
//! thread at a time; a reader that returned an error must be dropped.
use super::block_state::{BlockState, PacketShape};
use super::context::Closed;
use crate::buf::{BufferPool, PooledBuf};
use crate::checksum::{self, ChecksumType};
use crate::datanode::peer::Peer;
use crate::error::{Error, Result, Status};
use crate::net::tcp;
use crate::proto::hdfs::BlockOpResponseProto;
use crate::time::Deadline;
use crate::wire::packet::{self, PREFIX_LEN, PROTO_LEN};
use crate::wire::transfer;
use crate::wire::varint::{self, Get};
use prost::Message;
use std::io::{IoSlice, IoSliceMut};
use std::ops::Range;

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

/// Limits and helpers of a reader's caller.
#[derive(Clone, Copy)]
pub(crate) struct Wire<'a> {
    pub(crate) pool: &'a BufferPool,
    /// Longest silence of the DataNode, ms; 0 = no limit.
    pub(crate) timeout_ms: u64,
    pub(crate) max_packet_bytes: usize,
    /// Waits end when the stream is closed.
    pub(crate) closed: Closed<'a>,
    /// Limit of the whole call.
    pub(crate) deadline: Deadline,
}

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
}

/// How one packet's data is spread over memory.
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
    /// Sends the request on `peer` and takes the response. On an error the connection is closed.
    ///
    /// # Errors
    /// `ConnectionLost`, `TimedOut`, `Protocol`, `BlockToken`, `DataNode`, naming the server;
    /// `NoMemory`, `Closed`.
    pub(crate) fn open(peer: Box<Peer>, wire: &Wire<'_>, request: &Request<'_>) -> Result<Self> {
        let need = request.header.len().saturating_add(REQUEST_EXTRA_BYTES);
        let mut scratch = wire.pool.take(need.max(SCRATCH_BYTES), wire.deadline)?;
        let sent = transfer::encode_read_block(
            &mut scratch,
            request.header,
            request.block_offset,
            request.len,
            request.verify,
            request.readahead,
            request.drop_behind,
        );
        let bytes = sent.and_then(|n| scratch.get(..n));
        let Some(bytes) = bytes else {
            return Err(Error::new(Status::Internal, "a read request exceeds its buffer"));
        };
        let limit = wire.deadline.min(Deadline::after_ms(wire.timeout_ms));
        peer.socket.send_all(&mut [IoSlice::new(bytes)], limit).map_err(|e| {
            tcp::io_error(&e, "sending a read request to", &peer.server)
                .with_stage("sending the request")
        })?;
        let small = request.len <= (SCRATCH_BYTES - SMALL_OVERHEAD_BYTES) as u64;
        let mut reader = BlockReader {
            state: BlockState::new(request.block_offset, request.len),
            filled: 0..0,
            lookahead: if small { scratch.capacity() } else { LEAD_IN_BYTES },
            scratch,
            side: None,
            ready: 0..0,
            position: request.block_offset,
            verify: request.verify,
            skipped: false,
            peer,
        };
        reader.response(wire).map_err(|e| reader.blame(e, "waiting for the response"))?;
        Ok(reader)
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

    /// Delivers up to `dst.len()` bytes, at least 1; 0 only at the end of the request.
    ///
    /// # Errors
    /// As [`Self::open`], and `Checksum`. The contents of `dst` are undefined then.
    pub(crate) fn read(&mut self, dst: &mut [u8], wire: &Wire<'_>) -> Result<usize> {
        if dst.is_empty() || self.at_end() {
            return Ok(0);
        }
        loop {
            let n = self.take_ready(dst);
            if n > 0 {
                return Ok(n);
            }
            let n = self.packet(dst, wire).map_err(|e| self.blame(e, "reading data"))?;
            if n > 0 {
                return Ok(n);
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
        if self.state.end().saturating_sub(self.state.next_offset()) > DRAIN_BYTES_MAX {
            return Ok(false);
        }
        self.ready = 0..0;
        self.position = self.state.end();
        while !self.state.is_finished() {
            self.packet(&mut [], wire)?;
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

    /// One `recvmsg` that waits; at least one byte.
    fn receive(peer: &Peer, parts: &mut [IoSliceMut<'_>], wire: &Wire<'_>) -> Result<usize> {
        let limit = wire.deadline.min(Deadline::after_ms(wire.timeout_ms));
        loop {
            match peer.socket.recv_slice(parts, limit) {
                Ok(Some(0)) => {
                    return Err(Error::new(
                        Status::ConnectionLost,
                        format!("{} closed the connection", peer.server),
                    ));
                }
                Ok(Some(n)) => return Ok(n),
                Ok(None) => {
                    wire.closed.check()?;
                    if limit.passed() {
                        return Err(Error::new(
                            Status::TimedOut,
                            format!("waiting for {}: the time limit passed", peer.server),
                        ));
                    }
                }
                Err(e) => return Err(tcp::io_error(&e, "receiving from", &peer.server)),
            }
        }
    }

    /// Makes `need` bytes available from `filled.start` on, contiguous in the scratch.
    fn fill(&mut self, need: usize, wire: &Wire<'_>) -> Result<()> {
        if self.filled.len() >= need {
            return Ok(());
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
            let n = Self::receive(&self.peer, &mut [IoSliceMut::new(room)], wire)?;
            self.filled.end += n;
        }
        Ok(())
    }

    /// The next `n` received bytes, without using them up.
    fn peek(&self, n: usize) -> &[u8] {
        self.scratch.get(self.filled.start..self.filled.start + n).unwrap_or_default()
    }

    fn response(&mut self, wire: &Wire<'_>) -> Result<()> {
        let mut need = 1;
        let (len, prefix) = loop {
            self.fill(need, wire)?;
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
        self.fill(prefix + len, wire)?;
        let bytes = self.peek(prefix + len).get(prefix..).unwrap_or_default();
        let response = BlockOpResponseProto::decode(bytes)
            .map_err(|e| Error::protocol(format!("the read response cannot be decoded: {e}")))?;
        self.filled.start += prefix + len;
        self.state.on_response(&response)
    }

    /// Receives one packet; returns the bytes delivered to `dst` and leaves the rest in `ready`.
    fn packet(&mut self, dst: &mut [u8], wire: &Wire<'_>) -> Result<usize> {
        self.fill(PREFIX_LEN, wire)?;
        let mut prefix = [0; PREFIX_LEN];
        prefix.copy_from_slice(self.peek(PREFIX_LEN));
        let (body, header_len) = packet::decode_prefix(prefix, wire.max_packet_bytes)?;
        self.fill(PREFIX_LEN + header_len, wire)?;
        let header = self.peek(PREFIX_LEN + header_len).get(PREFIX_LEN..).unwrap_or_default();
        let header = packet::decode_header(header)?;
        let shape = self.state.on_header(body, &header)?;
        self.fill(PREFIX_LEN + header_len + shape.sums_len, wire)?;
        self.filled.start += PREFIX_LEN + header_len;
        if shape.data_len == 0 {
            return Ok(0);
        }
        let sums = self.filled.start..self.filled.start + shape.sums_len;
        self.filled.start = sums.end;
        let layout = self.layout(&shape, dst.len());
        let side_len = layout.lead + layout.tail;
        if side_len > self.side.as_ref().map_or(0, PooledBuf::capacity) {
            self.side = None;
            self.side = Some(wire.pool.take(side_len, wire.deadline)?);
        }
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
                + if self.state.data_complete() { 0 } else { sums.len() },
        };
        io.data([&mut *lead, &mut *direct, &mut *tail], wire)?;
        if layout.skip >= shape.data_len {
            self.skipped = true;
            return Ok(0);
        }
        let sums = self.scratch.get(sums).unwrap_or_default();
        if self.verify {
            verify(&self.state, shape.offset, sums, [&*lead, &*direct, &*tail])?;
        }
        Ok(self.deliver(&shape, &layout, dst))
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

/// Compares the data of one packet, in three consecutive parts, with its checksums.
fn verify(state: &BlockState, offset: u64, mut sums: &[u8], parts: [&[u8]; 3]) -> Result<()> {
    let (ty, chunk) = (state.checksum(), state.bytes_per_checksum());
    if ty == ChecksumType::Null {
        return Ok(());
    }
    let mut offset = offset;
    for part in parts {
        // Each part but the last holds whole chunks.
        let sums_len = part.len().div_ceil(chunk) * ty.sum_len();
        let (own, rest) = sums.split_at_checked(sums_len).unwrap_or((sums, &[]));
        if let Err(index) = checksum::verify_chunks(ty, chunk, part, own) {
            let at = offset + index as u64 * chunk as u64;
            return Err(Error::new(
                Status::Checksum,
                format!("the data at block offset {at} does not match its {} sum", ty.name()),
            ));
        }
        sums = rest;
        offset += part.len() as u64;
    }
    Ok(())
}

/// Delimited `ClientReadStatusProto`s.
const STATUS_CHECKSUM_OK: [u8; 3] = [2, 0x08, 6];
const STATUS_SUCCESS: [u8; 3] = [2, 0x08, 0];

/// The parts of a reader that take the data of one packet.
struct DataIo<'a> {
    peer: &'a Peer,
    scratch: &'a mut PooledBuf,
    filled: &'a mut Range<usize>,
    /// Bytes that are expected behind this packet's data, before the next one's.
    follow: usize,
}

impl DataIo<'_> {
    /// Fills the three parts: from the scratch what is there, the rest from the connection, with
    /// what follows going to the scratch in the same call.
    fn data(&mut self, mut parts: [&mut [u8]; 3], wire: &Wire<'_>) -> Result<()> {
        for part in &mut parts {
            let n = self.filled.len().min(part.len());
            let bytes = self.scratch.get(self.filled.start..self.filled.start + n);
            let whole = std::mem::take(part);
            let (head, rest) = whole.split_at_mut(n);
            head.copy_from_slice(bytes.unwrap_or_default());
            *part = rest;
            self.filled.start += n;
        }
        let mut left: usize = parts.iter().map(|part| part.len()).sum();
        if left == 0 {
            return Ok(());
        }
        // The scratch is used up: what follows goes behind the checksums, which are still needed.
        let at = self.filled.start;
        *self.filled = at..at;
        let room = self.scratch.capacity().saturating_sub(at).min(self.follow);
        while left > 0 {
            let follow = self.scratch.get_mut(at..at + room).unwrap_or_default();
            let [a, b, c] = &mut parts;
            let mut slices = [
                IoSliceMut::new(a),
                IoSliceMut::new(b),
                IoSliceMut::new(c),
                IoSliceMut::new(follow),
            ];
            let mut n = BlockReader::receive(self.peer, &mut slices, wire)?;
            for part in &mut parts {
                let used = n.min(part.len());
                *part = std::mem::take(part).get_mut(used..).unwrap_or_default();
                n -= used;
                left -= used;
            }
            self.filled.end = at + n;
        }
        Ok(())
    }
}
