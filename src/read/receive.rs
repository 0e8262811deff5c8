//! Receiving the bytes of one READ_BLOCK operation, and comparing them with their checksums.
use super::block_state::BlockState;
use super::context::Closed;
use crate::buf::{BufferPool, PooledBuf};
use crate::checksum::{self, ChecksumType};
use crate::datanode::peer::Peer;
use crate::error::{Error, Result, Status};
use crate::net::tcp;
use crate::time::Deadline;
use std::io::IoSliceMut;
use std::ops::Range;

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
    /// Wait for what has not come yet; else the functions of a reader return `None` then.
    pub(crate) wait: bool,
}

/// One `recvmsg`; at least one byte, or `None` if it would have to wait.
pub(super) fn receive(
    peer: &Peer,
    parts: &mut [IoSliceMut<'_>],
    wire: &Wire<'_>,
) -> Result<Option<usize>> {
    let limit = wire.deadline.min(Deadline::after_ms(wire.timeout_ms));
    loop {
        let result = if wire.wait {
            peer.socket.recv_slice(parts, limit)
        } else {
            peer.socket.try_recv(parts)
        };
        match result {
            Ok(Some(0)) => {
                return Err(Error::new(
                    Status::ConnectionLost,
                    format!("{} closed the connection", peer.server),
                ));
            }
            Ok(Some(n)) => return Ok(Some(n)),
            Ok(None) if !wire.wait => return Ok(None),
            Ok(None) => {
                wire.closed.check()?;
                if limit.passed() {
                    return Err(time_is_up(peer));
                }
            }
            Err(e) => return Err(tcp::io_error(&e, "receiving from", &peer.server)),
        }
    }
}

#[cold]
pub(super) fn time_is_up(peer: &Peer) -> Error {
    let text = format!("waiting for {}: the time limit passed", peer.server);
    Error::new(Status::TimedOut, text)
}

/// Compares the data of one packet, in three consecutive parts, with its checksums.
pub(super) fn verify(
    state: &BlockState,
    offset: u64,
    mut sums: &[u8],
    parts: [&[u8]; 3],
) -> Result<()> {
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

/// The parts of a reader that take the data of one packet.
pub(super) struct DataIo<'a> {
    pub(super) peer: &'a Peer,
    pub(super) scratch: &'a mut PooledBuf,
    pub(super) filled: &'a mut Range<usize>,
    /// Bytes that are expected behind this packet's data, before the next one's.
    pub(super) follow: usize,
}

impl DataIo<'_> {
    /// Fills the three parts from their byte `got` on: from the scratch what is there, the rest
    /// from the connection, with what follows going to the scratch in the same call. False if not
    /// all has come.
    pub(super) fn data(
        &mut self,
        mut parts: [&mut [u8]; 3],
        got: &mut usize,
        wire: &Wire<'_>,
    ) -> Result<bool> {
        let mut skip = *got;
        for part in &mut parts {
            let n = skip.min(part.len());
            *part = std::mem::take(part).get_mut(n..).unwrap_or_default();
            skip -= n;
        }
        for part in &mut parts {
            let n = self.filled.len().min(part.len());
            let bytes = self.scratch.get(self.filled.start..self.filled.start + n);
            let whole = std::mem::take(part);
            let (head, rest) = whole.split_at_mut(n);
            head.copy_from_slice(bytes.unwrap_or_default());
            *part = rest;
            self.filled.start += n;
            *got += n;
        }
        let mut left: usize = parts.iter().map(|part| part.len()).sum();
        if left == 0 {
            return Ok(true);
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
            let Some(mut n) = receive(self.peer, &mut slices, wire)? else {
                return Ok(false);
            };
            for part in &mut parts {
                let used = n.min(part.len());
                *part = std::mem::take(part).get_mut(used..).unwrap_or_default();
                n -= used;
                left -= used;
                *got += used;
            }
            self.filled.end = at + n;
        }
        Ok(true)
    }
}
