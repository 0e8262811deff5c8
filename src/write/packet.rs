//! One packet of the write path: the caller's bytes, their checksums and the header, in a pooled
//! buffer that goes on the wire as it is and is kept until the packet is acknowledged.
//!
//! Buffer layout: checksums | padding to 64 | data. The header lies beside it, so that one
//! `sendmsg` of three parts sends the packet and no byte moves twice. Checksums are computed while
//! the copied bytes are in cache, and the last, partial chunk keeps a running value: flushing a
//! record costs the hashing of its new bytes only.
use crate::buf::{BufferPool, PooledBuf};
use crate::checksum::{self, ChecksumType};
use crate::error::Result;
use crate::time::Deadline;
use crate::wire::packet::{MAX_HEADER_LEN, PacketHeader, encode_header};
use std::io::IoSlice;

/// Bytes copied before their checksums are computed: they are then still in the first-level cache.
/// Three default chunks, which the CRC-32C kernel takes at once; and short, since on some CPUs a
/// copy of 4 KiB and more whose ends lie close modulo 4096 runs at a twentieth of its speed.
const HASH_STEP: usize = 3 * 512;

/// What all packets of a stream share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PacketShape {
    /// `dfs.checksum.type`.
    pub(crate) checksum: ChecksumType,
    /// `dfs.bytes-per-checksum`.
    pub(crate) bytes_per_checksum: usize,
    /// Most chunks of one packet.
    pub(crate) chunks_max: usize,
}

impl PacketShape {
    /// Chunk budget of `dfs.client-write-packet-size`.
    // Hadoop 3.4 DFSOutputStream#computePacketChunkSize: header room comes off the size, and one
    // chunk always fits.
    pub(crate) fn new(
        checksum: ChecksumType,
        bytes_per_checksum: usize,
        packet_bytes: usize,
    ) -> Self {
        let body = packet_bytes.saturating_sub(MAX_HEADER_LEN);
        let chunks_max = (body / (bytes_per_checksum + checksum.sum_len())).max(1);
        PacketShape { checksum, bytes_per_checksum, chunks_max }
    }
}

const fn align64(n: usize) -> usize {
    (n + 63) & !63
}

/// A packet being filled, or sent and waiting for its ack.
pub(crate) struct Packet {
    buffer: Option<PooledBuf>,
    shape: PacketShape,
    /// Length of the chunks in this packet; shorter than usual only in a packet that completes a
    /// partial chunk after an append.
    chunk: usize,
    data_start: usize,
    data_max: usize,
    data_len: usize,
    /// Bytes at the front that an earlier packet carried already (re-sent partial chunk).
    carry: usize,
    /// Data bytes whose checksum is computed.
    hashed: usize,
    /// Running checksum of the bytes between the last chunk boundary and `hashed`.
    running: u32,
    offset_in_block: u64,
    header: [u8; MAX_HEADER_LEN],
    header_start: usize,
    pub(crate) seqno: i64,
    pub(crate) last: bool,
    pub(crate) sync: bool,
}

impl Packet {
    /// An empty packet at `offset_in_block`, for about `want` bytes and at most `block_left`.
    ///
    /// # Errors
    /// `NoMemory` from the pool.
    pub(crate) fn new(
        shape: PacketShape,
        pool: &BufferPool,
        offset_in_block: u64,
        block_left: u64,
        want: usize,
        deadline: Deadline,
    ) -> Result<Packet> {
        let bpc = shape.bytes_per_checksum;
        let into_chunk = (offset_in_block % bpc as u64) as usize;
        let (chunk, chunks) = if into_chunk == 0 {
            (bpc, want.div_ceil(bpc).clamp(1, shape.chunks_max))
        } else {
            // Hadoop 3.4 DFSOutputStream#adjustPacketChunkSize: the bytes that complete a stored
            // partial chunk travel in packets of one chunk.
            (bpc - into_chunk, 1)
        };
        let sum_len = shape.checksum.sum_len();
        let buffer = pool.take(align64(chunks * sum_len) + chunks * chunk, deadline)?;
        let chunks = if into_chunk == 0 {
            // Use all of the class that came.
            let room = buffer.capacity().saturating_sub(63) / (bpc + sum_len);
            room.clamp(chunks, shape.chunks_max)
        } else {
            1
        };
        let data_max = (chunks * chunk) as u64;
        Ok(Packet {
            data_start: align64(chunks * sum_len),
            data_max: data_max.min(block_left) as usize,
            buffer: Some(buffer),
            shape,
            chunk,
            data_len: 0,
            carry: 0,
            hashed: 0,
            running: 0,
            offset_in_block,
            header: [0; MAX_HEADER_LEN],
            header_start: 0,
            seqno: 0,
            last: false,
            sync: false,
        })
    }

    /// A packet without data: the end of a block, or a sync of what was sent before.
    pub(crate) fn empty(
        shape: PacketShape,
        offset_in_block: u64,
        last: bool,
        sync: bool,
    ) -> Packet {
        Packet {
            buffer: None,
            shape,
            chunk: shape.bytes_per_checksum,
            data_start: 0,
            data_max: 0,
            data_len: 0,
            carry: 0,
            hashed: 0,
            running: 0,
            offset_in_block,
            header: [0; MAX_HEADER_LEN],
            header_start: 0,
            seqno: 0,
            last,
            sync,
        }
    }

    /// Block offset behind the last data byte.
    pub(crate) fn end_in_block(&self) -> u64 {
        self.offset_in_block + self.data_len as u64
    }

    /// Bytes that no earlier packet carried.
    pub(crate) fn new_bytes(&self) -> usize {
        self.data_len - self.carry
    }

    /// Bytes that still fit.
    #[inline]
    pub(crate) fn room(&self) -> usize {
        self.data_max - self.data_len
    }

    /// Memory that the packet holds, bytes.
    pub(crate) fn memory(&self) -> usize {
        self.buffer.as_ref().map_or(0, |b| b.capacity())
    }

    fn data_mut(&mut self) -> &mut [u8] {
        let range = self.data_start..self.data_start + self.data_max;
        self.buffer.as_mut().and_then(|b| b.get_mut(range)).unwrap_or_default()
    }

    /// Copies from `bytes` what fits; returns how much.
    #[inline]
    pub(crate) fn fill(&mut self, bytes: &[u8]) -> usize {
        let take = bytes.len().min(self.room());
        let mut rest = bytes.get(..take).unwrap_or_default();
        while !rest.is_empty() {
            let unhashed = self.data_len - self.hashed;
            // A partial chunk that waits for its end must not make the steps small.
            let step = rest.len().min(HASH_STEP.saturating_sub(unhashed % HASH_STEP).max(1));
            let (now, later) = rest.split_at(step);
            let at = self.data_len;
            if let Some(slot) = self.data_mut().get_mut(at..at + step) {
                slot.copy_from_slice(now);
            }
            self.data_len += step;
            rest = later;
            if self.data_len - self.hashed >= HASH_STEP {
                // Whole chunks only: the kernel takes several at once, and `seal` does the rest.
                self.hash(self.data_len - self.data_len % self.chunk);
            }
        }
        take
    }

    /// Computes the checksums of the bytes up to `end` that have none yet.
    fn hash(&mut self, end: usize) {
        let chunk = self.chunk;
        let ty = self.shape.checksum;
        let sum_len = ty.sum_len();
        if sum_len == 0 {
            self.hashed = end;
            return;
        }
        let Some(buffer) = self.buffer.as_mut() else { return };
        let (sums, data) = buffer.split_at_mut(self.data_start);
        let mut at = self.hashed;
        if at >= end {
            return;
        }
        if !at.is_multiple_of(chunk) {
            let stop = end.min(at - at % chunk + chunk);
            self.running =
                checksum::update(ty, self.running, data.get(at..stop).unwrap_or_default());
            if stop.is_multiple_of(chunk) {
                put_sum(sums, at / chunk, self.running);
                self.running = 0;
            }
            at = stop;
        }
        let full = (end - at) / chunk * chunk;
        if full > 0 {
            let first = at / chunk * sum_len;
            let sums = sums.get_mut(first..first + full / chunk * sum_len).unwrap_or_default();
            checksum::sum_chunks(ty, chunk, data.get(at..at + full).unwrap_or_default(), sums);
            at += full;
        }
        if at < end {
            self.running = checksum::update(ty, 0, data.get(at..end).unwrap_or_default());
        }
        self.hashed = end;
    }

    /// Finishes the packet for the wire under sequence number `seqno`.
    pub(crate) fn seal(&mut self, seqno: i64) {
        self.hash(self.data_len);
        if !self.data_len.is_multiple_of(self.chunk) && self.shape.checksum.sum_len() != 0 {
            let index = self.data_len / self.chunk;
            let running = self.running;
            if let Some(buffer) = self.buffer.as_mut() {
                put_sum(buffer, index, running);
            }
        }
        self.seqno = seqno;
        let header = PacketHeader {
            offset_in_block: self.offset_in_block as i64,
            seqno,
            last: self.last,
            data_len: self.data_len as i32,
            sync: self.sync,
        };
        let sums = self.sums_len();
        self.header_start = encode_header(&mut self.header, &header, sums);
    }

    fn sums_len(&self) -> usize {
        self.data_len.div_ceil(self.chunk) * self.shape.checksum.sum_len()
    }

    /// Length on the wire, bytes (once sealed).
    pub(crate) fn wire_len(&self) -> usize {
        MAX_HEADER_LEN - self.header_start + self.sums_len() + self.data_len
    }

    /// The three parts that go on the wire, without their first `skip` bytes.
    pub(crate) fn parts(&self, skip: usize) -> [IoSlice<'_>; 3] {
        let body: &[u8] = self.buffer.as_deref().unwrap_or_default();
        let mut parts = [
            self.header.get(self.header_start..).unwrap_or_default(),
            body.get(..self.sums_len()).unwrap_or_default(),
            body.get(self.data_start..self.data_start + self.data_len).unwrap_or_default(),
        ];
        let mut skip = skip;
        for part in &mut parts {
            let n = skip.min(part.len());
            *part = part.get(n..).unwrap_or_default();
            skip -= n;
        }
        parts.map(IoSlice::new)
    }

    /// The packet that continues behind this one, which was sealed by a flush: it starts at the
    /// last chunk boundary and carries the partial chunk again.
    // Hadoop 3.4 FSOutputSummer/DFSOutputStream#flushOrSync: DataNodes accept the overlap and
    // replace the checksum of the chunk.
    ///
    /// # Errors
    /// `NoMemory` from the pool.
    pub(crate) fn successor(
        &self,
        pool: &BufferPool,
        block_left: u64,
        want: usize,
        deadline: Deadline,
    ) -> Result<Packet> {
        let tail = self.data_len % self.chunk;
        let unaligned = !self.offset_in_block.is_multiple_of(self.shape.bytes_per_checksum as u64);
        let start = self.offset_in_block + (self.data_len - tail) as u64;
        let left = block_left + tail as u64;
        let mut next = Packet::new(self.shape, pool, start, left, want + tail, deadline)?;
        debug_assert!(!unaligned || tail == 0 || next.chunk == self.chunk);
        if tail > 0 {
            let from = self.data_start + self.data_len - tail;
            let bytes = self.buffer.as_deref().and_then(|b| b.get(from..from + tail));
            if let (Some(bytes), Some(slot)) = (bytes, next.data_mut().get_mut(..tail)) {
                slot.copy_from_slice(bytes);
            }
            next.data_len = tail;
            next.carry = tail;
            next.hashed = tail;
            next.running = self.running;
        }
        Ok(next)
    }

    /// Moves the contents to a larger buffer when this one is full but the limits allow more.
    /// Returns whether there is room now.
    ///
    /// # Errors
    /// `NoMemory` from the pool.
    pub(crate) fn grow(
        &mut self,
        pool: &BufferPool,
        block_left: u64,
        deadline: Deadline,
    ) -> Result<bool> {
        let limit = (self.shape.chunks_max * self.shape.bytes_per_checksum) as u64;
        let aligned = self.chunk == self.shape.bytes_per_checksum;
        let most = limit.min(self.data_len as u64 + block_left);
        if !aligned || self.data_len as u64 >= most {
            return Ok(false);
        }
        self.hash(self.data_len);
        let want = self.data_max.saturating_mul(4);
        let mut next = Packet::new(
            self.shape,
            pool,
            self.offset_in_block,
            self.data_len as u64 + block_left,
            want,
            deadline,
        )?;
        let (len, sums) = (self.data_len, self.sums_len());
        if let (Some(from), Some(to)) = (self.buffer.as_deref(), next.buffer.as_deref_mut()) {
            let data = from.get(self.data_start..self.data_start + len).unwrap_or_default();
            if let Some(slot) = to.get_mut(next.data_start..next.data_start + len) {
                slot.copy_from_slice(data);
            }
            if let (Some(slot), Some(sums)) = (to.get_mut(..sums), from.get(..sums)) {
                slot.copy_from_slice(sums);
            }
        }
        (next.data_len, next.carry, next.hashed, next.running) =
            (len, self.carry, self.hashed, self.running);
        *self = next;
        Ok(self.room() > 0)
    }
}

fn put_sum(sums: &mut [u8], index: usize, value: u32) {
    if let Some(slot) = sums.get_mut(index * 4..index * 4 + 4) {
        slot.copy_from_slice(&value.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn shape(packet: usize) -> PacketShape {
        PacketShape::new(ChecksumType::Crc32c, 512, packet)
    }

    fn pool() -> BufferPool {
        BufferPool::new(64 << 20, Duration::ZERO)
    }

    fn wire(packet: &Packet, skip: usize) -> Vec<u8> {
        packet.parts(skip).iter().flat_map(|p| p.to_vec()).collect()
    }

    /// Splits a packet into header, sums, data and checks the sums.
    fn check(packet: &Packet) -> Vec<u8> {
        let bytes = wire(packet, 0);
        assert_eq!(bytes.len(), packet.wire_len());
        let data = &bytes[bytes.len() - packet.data_len..];
        let sums = &bytes[bytes.len() - packet.data_len - packet.sums_len()..][..packet.sums_len()];
        for (i, chunk) in data.chunks(packet.chunk).enumerate() {
            assert_eq!(sums[i * 4..i * 4 + 4], crc32c::crc32c(chunk).to_be_bytes(), "chunk {i}");
        }
        data.to_vec()
    }

    #[test]
    fn the_default_packet_is_hadoops() {
        assert_eq!(shape(65536).chunks_max, 126);
        assert_eq!(PacketShape::new(ChecksumType::Crc32c, 1 << 20, 65536).chunks_max, 1);
    }

    #[test]
    fn sums_are_right_for_every_way_of_writing() {
        let pool = pool();
        let bytes: Vec<u8> = (0..60_000_u32).map(|i| (i * 7 + i / 256) as u8).collect();
        for step in [1, 13, 511, 512, 513, 5000, 60_000] {
            let mut packet =
                Packet::new(shape(65536), &pool, 0, 1 << 20, 60_000, Deadline::NONE).unwrap();
            for piece in bytes.chunks(step) {
                assert_eq!(packet.fill(piece), piece.len());
            }
            packet.seal(3);
            assert_eq!(check(&packet), bytes, "step {step}");
            assert_eq!(wire(&packet, 40), wire(&packet, 0)[40..]);
        }
    }

    #[test]
    fn a_successor_carries_the_partial_chunk_with_its_running_sum() {
        let pool = pool();
        let mut packet = Packet::new(shape(65536), &pool, 0, 1 << 20, 100, Deadline::NONE).unwrap();
        let mut all = Vec::new();
        for i in 0..2000_usize {
            let piece = vec![i as u8; 37 + i % 90];
            all.extend_from_slice(&piece);
            if packet.fill(&piece) < piece.len() {
                panic!("a small packet overflowed");
            }
            packet.seal(i as i64);
            let data = check(&packet);
            assert_eq!(packet.end_in_block(), all.len() as u64);
            assert_eq!(data, all[all.len() - data.len()..]);
            assert_eq!(packet.offset_in_block % 512, 0);
            let next = packet.successor(&pool, 1 << 20, 130, Deadline::NONE).unwrap();
            assert_eq!(next.new_bytes(), 0);
            packet = next;
        }
    }

    #[test]
    fn growing_keeps_bytes_and_sums_and_stops_at_the_limit() {
        let pool = pool();
        let mut packet = Packet::new(shape(65536), &pool, 512, 1 << 20, 1, Deadline::NONE).unwrap();
        assert!(packet.memory() <= 1024);
        let bytes: Vec<u8> = (0..126 * 512_u32).map(|i| (i % 251) as u8).collect();
        let mut at = 0;
        while at < bytes.len() {
            let n = packet.fill(&bytes[at..]);
            at += n;
            if n == 0 {
                assert!(packet.grow(&pool, (1 << 20) - at as u64, Deadline::NONE).unwrap());
            }
        }
        assert!(!packet.grow(&pool, 1 << 20, Deadline::NONE).unwrap());
        packet.seal(0);
        assert_eq!(check(&packet), bytes);
    }

    #[test]
    fn a_packet_ends_with_the_block_and_completes_a_stored_partial_chunk_alone() {
        let pool = pool();
        let mut packet = Packet::new(shape(65536), &pool, 1024, 700, 5000, Deadline::NONE).unwrap();
        assert_eq!(packet.fill(&[1; 5000]), 700);
        assert!(!packet.grow(&pool, 0, Deadline::NONE).unwrap());
        let mut packet =
            Packet::new(shape(65536), &pool, 1000, 9000, 5000, Deadline::NONE).unwrap();
        assert_eq!(packet.fill(&[7; 10]), 10);
        packet.seal(0);
        assert_eq!(check(&packet).len(), 10);
        let mut next = packet.successor(&pool, 8990, 5000, Deadline::NONE).unwrap();
        assert_eq!((next.offset_in_block, next.data_len), (1000, 10));
        assert_eq!(next.fill(&[8; 5000]), 14);
        assert!(!next.grow(&pool, 8976, Deadline::NONE).unwrap());
        next.seal(1);
        assert_eq!(check(&next).len(), 24);
        assert_eq!(next.end_in_block() % 512, 0);
    }
}
