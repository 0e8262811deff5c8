//! The sink mode: a DataNode that costs as little as it can, to measure clients against.
//!
//! Writes are acknowledged without being stored or verified: packet headers are parsed, bodies
//! skipped, and the packets of one receive are acked with one send. Reads are answered with zeros
//! whose packets were built once; only their headers are filled in.
use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use dfs::proto::hdfs::{
    BlockOpResponseProto, ChecksumTypeProto, ClientReadStatusProto, ExtendedBlockProto,
    OpReadBlockProto, OpWriteBlockProto, PacketHeaderProto, PipelineAckProto,
    ReadOpChecksumInfoProto, Status,
};
use parking_lot::Mutex;
use prost::Message;

use super::super::wire::{Checksum, PACKET_BYTES_MAX, bad_data, encode_packet_header};
use super::{After, Session};

const RECEIVE_BYTES: usize = 256 * 1024;
const CHUNK: u64 = 512;
const CHUNKS_PER_PACKET: u64 = 128;
const PACKET_DATA: u64 = CHUNK * CHUNKS_PER_PACKET;
const FULL_BODY: usize = (CHUNKS_PER_PACKET * (CHUNK + 4)) as usize;
/// PLEN, HLEN and a header without syncBlock.
const HEAD_BYTES: usize = 31;
/// Full packets that one send carries.
const BATCH: usize = 8;

/// What the sink remembers of the blocks written to it.
#[derive(Default)]
pub(super) struct SinkState {
    lengths: Mutex<HashMap<u64, Arc<AtomicU64>>>,
}

impl SinkState {
    fn slot(&self, block: u64) -> Arc<AtomicU64> {
        Arc::clone(self.lengths.lock().entry(block).or_default())
    }

    pub(super) fn length(&self, block: u64) -> Option<u64> {
        self.lengths.lock().get(&block).map(|l| l.load(Ordering::Relaxed))
    }
}

/// Finds packet borders in a byte stream.
#[derive(Default)]
struct Parser {
    /// Bytes of a head that the last receive ended in.
    head: Vec<u8>,
    /// Bytes of the present body still to come.
    body_left: usize,
}

struct Seen {
    seqno: i64,
    end: u64,
    last: bool,
}

impl Parser {
    /// Consumes `bytes` and calls `done` for each packet that is complete.
    fn feed(&mut self, mut bytes: &[u8], done: &mut impl FnMut(&Seen)) -> io::Result<()> {
        let mut current: Option<Seen> = None;
        if self.body_left > 0 {
            current = self.open_packet()?;
        }
        loop {
            if let Some(seen) = &current {
                let skipped = self.body_left.min(bytes.len());
                bytes = bytes.get(skipped..).unwrap_or_default();
                self.body_left -= skipped;
                if self.body_left > 0 {
                    return Ok(());
                }
                done(seen);
                self.head.clear();
            }
            let wanted = match self.head.get(4..6) {
                Some(len) => 6 + usize::from(u16::from_be_bytes([len[0], len[1]])),
                None => 6,
            };
            if self.head.len() < wanted {
                let take = (wanted - self.head.len()).min(bytes.len());
                if take == 0 {
                    return Ok(());
                }
                let (front, rest) = bytes.split_at(take);
                self.head.extend_from_slice(front);
                bytes = rest;
                current = None;
                if self.head.len() < 6 || self.head.len() == wanted && wanted == 6 {
                    continue;
                }
            }
            if self.head.len() < wanted {
                return Ok(());
            }
            current = self.open_packet()?;
            let payload = self.payload()?;
            self.body_left = payload - 4;
        }
    }

    fn payload(&self) -> io::Result<usize> {
        let bytes = self.head.first_chunk::<4>().copied().unwrap_or_default();
        usize::try_from(i32::from_be_bytes(bytes))
            .ok()
            .filter(|p| (4..=PACKET_BYTES_MAX).contains(p))
            .ok_or_else(|| bad_data("invalid payload length in a packet"))
    }

    fn open_packet(&self) -> io::Result<Option<Seen>> {
        let header = PacketHeaderProto::decode(self.head.get(6..).unwrap_or_default())
            .map_err(|e| bad_data(format!("cannot parse a packet header: {e}")))?;
        let end = header.offset_in_block + i64::from(header.data_len);
        let end = u64::try_from(end).map_err(|_| bad_data("negative offset in a packet"))?;
        Ok(Some(Seen { seqno: header.seqno, end, last: header.last_packet_in_block }))
    }
}

const CHECKSUM: Checksum =
    Checksum { kind: ChecksumTypeProto::ChecksumCrc32c, chunk: CHUNK as usize };

/// Appends the body of a packet of zeros: checksums, then data. Only a partial chunk's checksum
/// is computed anew.
fn push_zeros(out: &mut Vec<u8>, data: u64) {
    static FULL_CHUNK: OnceLock<[u8; 4]> = OnceLock::new();
    let full = FULL_CHUNK.get_or_init(|| CHECKSUM.crc(&[0; CHUNK as usize]).to_be_bytes());
    for _ in 0..data / CHUNK {
        out.extend_from_slice(full);
    }
    let tail = usize::try_from(data % CHUNK).unwrap_or(0);
    if tail > 0 {
        let zeros = [0; CHUNK as usize];
        let part = zeros.get(..tail).unwrap_or_default();
        out.extend_from_slice(&CHECKSUM.crc(part).to_be_bytes());
    }
    out.resize(out.len() + usize::try_from(data).unwrap_or(0), 0);
}

fn body_bytes(data: u64) -> usize {
    let data = usize::try_from(data).unwrap_or(0);
    CHECKSUM.bytes_for(data) + data
}

fn fill_head(out: &mut Vec<u8>, offset: u64, seqno: i64, data: u64, body: usize, last: bool) {
    let header = PacketHeaderProto {
        offset_in_block: offset.cast_signed(),
        seqno,
        last_packet_in_block: last,
        data_len: i32::try_from(data).unwrap_or(i32::MAX),
        sync_block: None,
    };
    encode_packet_header(out, &header, body);
}

impl Session {
    pub(super) fn sink_write(&mut self, req: &OpWriteBlockProto) -> io::Result<()> {
        let block = &req.header.base_header.block;
        let gs = req.latest_generation_stamp.max(block.generation_stamp);
        let slot = self.dn.sink.slot(block.block_id);
        self.respond(&BlockOpResponseProto {
            status: Status::Success as i32,
            first_bad_link: Some(String::new()),
            ..BlockOpResponseProto::default()
        })?;
        let mut parser = Parser::default();
        let mut buffer = vec![0; RECEIVE_BYTES];
        let mut acks = Vec::new();
        loop {
            let count = self.input.read(&mut buffer)?;
            if count == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let (mut end, mut last) = (0, false);
            parser.feed(buffer.get(..count).unwrap_or_default(), &mut |seen: &Seen| {
                end = end.max(seen.end);
                last |= seen.last;
                let ack = PipelineAckProto {
                    seqno: seen.seqno,
                    reply: vec![0],
                    downstream_ack_time_nanos: Some(0),
                    flag: vec![0],
                };
                acks.extend_from_slice(&ack.encode_length_delimited_to_vec());
            })?;
            slot.fetch_max(end, Ordering::Relaxed);
            if last {
                self.report_sunk(block, gs, slot.load(Ordering::Relaxed))?;
            }
            if !acks.is_empty() {
                (&*self.conn).write_all(&acks)?;
                acks.clear();
            }
            if last {
                return Ok(());
            }
        }
    }

    /// Without delay: waiting in `complete` is not what the sink is for.
    fn report_sunk(&self, block: &ExtendedBlockProto, gs: u64, len: u64) -> io::Result<()> {
        let index = self.dn.index;
        self.dn.cluster()?.with_ns(|ns| ns.replica_reported(index, block.block_id, gs, len, true));
        Ok(())
    }

    pub(super) fn sink_read(&mut self, req: &OpReadBlockProto) -> io::Result<After> {
        let start = req.offset - req.offset % CHUNK;
        let block_len = req.header.base_header.block.num_bytes().max(req.offset + req.len);
        let end = ((req.offset + req.len).div_ceil(CHUNK) * CHUNK).min(block_len);
        let mut out = BlockOpResponseProto {
            status: Status::Success as i32,
            read_op_checksum_info: Some(ReadOpChecksumInfoProto {
                checksum: CHECKSUM.to_proto(),
                chunk_offset: start,
            }),
            ..BlockOpResponseProto::default()
        }
        .encode_length_delimited_to_vec();
        let (mut at, mut seqno) = (start, 0);
        if end - at >= PACKET_DATA * BATCH as u64 {
            (&*self.conn).write_all(&out)?;
            out.clear();
            (at, seqno) = self.send_batches(at, end)?;
        }
        while at < end {
            let data = PACKET_DATA.min(end - at);
            fill_head(&mut out, at, seqno, data, body_bytes(data), false);
            push_zeros(&mut out, data);
            at += data;
            seqno += 1;
        }
        fill_head(&mut out, at, seqno, 0, 0, true);
        (&*self.conn).write_all(&out)?;
        let _status: ClientReadStatusProto = super::read_delimited(&mut self.input)?;
        Ok(After::KeepAlive)
    }

    /// Sends full packets, several at a time, out of one buffer that the connection keeps.
    fn send_batches(&mut self, mut at: u64, end: u64) -> io::Result<(u64, i64)> {
        if self.batch.is_empty() {
            for _ in 0..BATCH {
                fill_head(&mut self.batch, 0, 0, PACKET_DATA, FULL_BODY, false);
                push_zeros(&mut self.batch, PACKET_DATA);
            }
        }
        let mut seqno = 0;
        let mut head = Vec::with_capacity(HEAD_BYTES);
        while end - at >= PACKET_DATA * BATCH as u64 {
            for packet in self.batch.chunks_exact_mut(HEAD_BYTES + FULL_BODY) {
                head.clear();
                fill_head(&mut head, at, seqno, PACKET_DATA, FULL_BODY, false);
                if let Some(place) = packet.get_mut(..HEAD_BYTES) {
                    place.copy_from_slice(&head);
                }
                at += PACKET_DATA;
                seqno += 1;
            }
            (&*self.conn).write_all(&self.batch)?;
        }
        Ok((at, seqno))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream() -> (Vec<u8>, Vec<(i64, u64, bool)>) {
        let mut bytes = Vec::new();
        let mut expected = Vec::new();
        for (seqno, len) in [(0i64, 700u64), (-1, 0), (1, 1), (2, 0), (3, 70_000)] {
            let body = vec![9; usize::try_from(len).unwrap() + len.div_ceil(512) as usize * 4];
            let last = seqno == 3;
            fill_head(&mut bytes, 5, seqno, len, body.len(), last);
            bytes.extend_from_slice(&body);
            expected.push((seqno, 5 + len, last));
        }
        (bytes, expected)
    }

    #[test]
    fn packets_are_found_however_the_stream_is_cut() {
        let (bytes, expected) = stream();
        for step in [1, 2, 5, 6, 7, 30, 31, 32, 1000, bytes.len()] {
            let mut parser = Parser::default();
            let mut seen = Vec::new();
            for part in bytes.chunks(step) {
                parser.feed(part, &mut |s: &Seen| seen.push((s.seqno, s.end, s.last))).unwrap();
            }
            assert_eq!(seen, expected, "step {step}");
        }
    }

    #[test]
    fn nonsense_is_refused() {
        let mut parser = Parser::default();
        assert!(parser.feed(&[0xFF; 100_000], &mut |_: &Seen| {}).is_err());
    }
}
