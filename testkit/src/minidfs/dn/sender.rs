//! READ_BLOCK: chunk-aligned packets with stored checksums, trailer, read status.
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use dfs::proto::hdfs::{
    BlockOpResponseProto, ChecksumTypeProto, ClientReadStatusProto, ExtendedBlockProto,
    OpReadBlockProto, PacketHeaderProto, ReadOpChecksumInfoProto, Status,
};

use super::super::faults::{BadHeader, Fault, Op, Site, Visit};
use super::super::net::Conn;
use super::super::wire::{Checksum, bad_data, encode_packet_header, read_delimited};
use super::dataset::{Replica, State};
use super::meta::{META_HEADER_BYTES, read_meta_header};
use super::{After, DnCore, Session};

/// A range of a replica, ready to be sent.
pub(super) struct BlockSender {
    data: File,
    meta: File,
    pub(super) checksum: Checksum,
    /// Chunk-aligned start.
    pub(super) offset: u64,
    end: u64,
    /// End of the replica at the start of the read, and the checksum of its last chunk, if it
    /// grows: the meta file may already be further.
    last: Option<(u64, [u8; 4])>,
    block: u64,
}

impl BlockSender {
    /// Hadoop 3.4 BlockSender, the constructor. `length` of none reads to the end.
    pub(super) fn new(
        dn: &DnCore,
        block: &ExtendedBlockProto,
        start: u64,
        length: Option<u64>,
        send_checksums: bool,
    ) -> io::Result<Self> {
        let replica = dn.data.get(block.block_id).ok_or_else(|| {
            io::Error::other(format!(
                "Replica not found for {}:blk_{}_{}",
                block.pool_id, block.block_id, block.generation_stamp
            ))
        })?;
        if let Some(length) = length {
            wait_for_length(&replica, start.saturating_add(length), dn.cfg.min_length_wait)?;
        }
        let (gs, state, disk, last_crc) = {
            let inner = replica.inner.lock();
            (inner.gs, inner.state, inner.on_disk, inner.last_crc)
        };
        if gs < block.generation_stamp {
            return Err(io::Error::other(format!(
                "Replica gen stamp < block genstamp, block=blk_{}_{}, replica generation stamp \
                 {gs}",
                block.block_id, block.generation_stamp
            )));
        }
        if matches!(state, State::Temporary | State::Rwr) {
            return Err(io::Error::other(format!(
                "Replica is not readable, block=blk_{}_{}",
                block.block_id, block.generation_stamp
            )));
        }
        let (data, meta) = replica.open()?;
        // Hadoop 3.4 BlockSender, the constructor: the header counts even with no checksum behind
        // it, as in the copy of a replica whose first packet was never acknowledged.
        let stored = read_meta_header(&meta)?;
        let checksum = if send_checksums {
            stored
        } else {
            Checksum { kind: ChecksumTypeProto::ChecksumNull, chunk: 512 }
        };
        let length = length.unwrap_or_else(|| disk.saturating_sub(start));
        if start > disk || start.saturating_add(length) > disk {
            return Err(io::Error::other(format!(
                " Offset {start} and length {length} don't match block {}:blk_{}_{} ( blockLen \
                 {disk} )",
                block.pool_id, block.block_id, block.generation_stamp
            )));
        }
        let chunk = checksum.chunk as u64;
        let end = (start + length).div_ceil(chunk) * chunk;
        let growing = state == State::Rbw;
        Ok(Self {
            data,
            meta,
            checksum,
            offset: start - start % chunk,
            end: end.min(disk),
            last: last_crc.filter(|_| growing).map(|crc| (disk, crc)),
            block: block.block_id,
        })
    }

    /// Sends all packets and the trailer; false when a fault ended the read early without one.
    pub(super) fn send(&mut self, dn: &Arc<DnCore>, conn: &Conn, faults: bool) -> io::Result<()> {
        let per_packet = (dn.cfg.read_packet_bytes / self.checksum.chunk).max(1);
        let per_packet = (per_packet * self.checksum.chunk) as u64;
        let mut seqno = 0;
        let mut buffer = Vec::new();
        while self.offset < self.end {
            let length = per_packet.min(self.end - self.offset);
            let header = PacketHeaderProto {
                offset_in_block: self.offset.cast_signed(),
                seqno,
                last_packet_in_block: false,
                data_len: i32::try_from(length).unwrap_or(i32::MAX),
                sync_block: None,
            };
            let mut body = self.read_body(usize::try_from(length).unwrap_or(0))?;
            buffer.clear();
            let visit = Visit { seqno, block: self.block, ..Visit::at(Site::PacketSent, dn.index) };
            let fault = if faults { dn.common_fault(dn.hit(&visit), conn)? } else { None };
            let sums = self.checksum.bytes_for(usize::try_from(length).unwrap_or(0));
            match fault {
                Some(Fault::EndEarly) => break,
                Some(Fault::CorruptData(index)) => {
                    flip(&mut body, sums + index % length.max(1) as usize)
                }
                Some(Fault::CorruptChecksum) => flip(&mut body, 0),
                Some(Fault::ReadHeader(bad)) => {
                    write_bad_header(conn, header, bad, &body)?;
                    conn.close();
                    return Err(bad_data("ended by a fault rule"));
                }
                _ => {}
            }
            encode_packet_header(&mut buffer, &header, body.len());
            buffer.extend_from_slice(&body);
            (&*conn).write_all(&buffer)?;
            self.offset += length;
            seqno += 1;
        }
        buffer.clear();
        let trailer = PacketHeaderProto {
            offset_in_block: self.offset.cast_signed(),
            seqno,
            last_packet_in_block: true,
            data_len: 0,
            sync_block: None,
        };
        encode_packet_header(&mut buffer, &trailer, 0);
        (&*conn).write_all(&buffer)
    }

    /// Checksums and data of the next `length` bytes.
    fn read_body(&self, length: usize) -> io::Result<Vec<u8>> {
        let sums = self.checksum.bytes_for(length);
        let mut body = vec![0; sums + length];
        let (sum_part, data_part) = body.split_at_mut(sums);
        self.data.read_exact_at(data_part, self.offset)?;
        if sums > 0 {
            let index = self.offset / self.checksum.chunk as u64;
            self.meta.read_exact_at(sum_part, META_HEADER_BYTES + index * 4)?;
            if let Some((end, crc)) = self.last
                && self.offset + length as u64 == end
                && let Some(last) = sum_part.last_chunk_mut::<4>()
            {
                *last = crc;
            }
        }
        Ok(body)
    }
}

fn flip(body: &mut [u8], index: usize) {
    if let Some(byte) = body.get_mut(index) {
        *byte ^= 1;
    }
}

fn write_bad_header(
    conn: &Conn,
    mut header: PacketHeaderProto,
    bad: BadHeader,
    body: &[u8],
) -> io::Result<()> {
    match bad {
        BadHeader::Seqno => header.seqno += 1,
        BadHeader::Offset => header.offset_in_block += 512,
        BadHeader::DataLen => header.data_len = header.data_len.saturating_add(1 << 20),
        _ => {}
    }
    let mut bytes = Vec::new();
    encode_packet_header(&mut bytes, &header, body.len());
    match bad {
        BadHeader::Oversized => drop(bytes.splice(..4, 0x7FFF_FFF0u32.to_be_bytes())),
        BadHeader::Negative => drop(bytes.splice(..4, (-1i32).to_be_bytes())),
        BadHeader::Garbage => {
            if let Some(proto) = bytes.get_mut(6..) {
                proto.fill(0xFF);
            }
        }
        _ => {}
    }
    bytes.extend_from_slice(body);
    (&*conn).write_all(&bytes)
}

/// Hadoop 3.4 BlockSender#waitForMinLength.
fn wait_for_length(replica: &Replica, length: u64, limit: Duration) -> io::Result<()> {
    let deadline = Instant::now() + limit;
    loop {
        let (state, disk) = {
            let inner = replica.inner.lock();
            (inner.state, inner.on_disk)
        };
        if state != State::Rbw || disk >= length {
            return Ok(());
        }
        if Instant::now() >= deadline {
            return Err(io::Error::other(format!(
                "Need {length} bytes, but only {disk} bytes available"
            )));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

impl Session {
    /// Hadoop 3.4 DataXceiver#readBlock.
    pub(super) fn read_block(&mut self, req: &OpReadBlockProto) -> io::Result<After> {
        let block = &req.header.base_header.block;
        if self.refused(Op::Read, block.block_id, &[])? {
            return Ok(After::Close);
        }
        let opened = if block.pool_id == self.dn.pool_id {
            BlockSender::new(&self.dn, block, req.offset, Some(req.len), req.send_checksums())
        } else {
            Err(bad_data(format!("unknown block pool {}", block.pool_id)))
        };
        let mut sender = match opened {
            Ok(sender) => sender,
            Err(e) => {
                let message = format!(
                    "opReadBlock {}:blk_{}_{} received exception java.io.IOException: {e}",
                    block.pool_id, block.block_id, block.generation_stamp
                );
                self.respond_error(Status::Error, message)?;
                return Ok(After::Close);
            }
        };
        self.respond(&BlockOpResponseProto {
            status: Status::Success as i32,
            read_op_checksum_info: Some(ReadOpChecksumInfoProto {
                checksum: sender.checksum.to_proto(),
                chunk_offset: sender.offset,
            }),
            ..BlockOpResponseProto::default()
        })?;
        let (dn, conn) = (Arc::clone(&self.dn), Arc::clone(&self.conn));
        sender.send(&dn, &conn, true)?;
        // A client that stops early closes instead of sending its status.
        let status: ClientReadStatusProto = read_delimited(&mut self.input)?;
        if Status::try_from(status.status).is_err() {
            return Err(bad_data(format!("unknown read status {}", status.status)));
        }
        self.dn.note_read_status(status.status);
        Ok(After::KeepAlive)
    }
}
