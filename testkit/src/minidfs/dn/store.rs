//! Writes one packet into the files of a replica, with the partial-chunk rules of BlockReceiver.
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::super::wire::{Checksum, Packet, bad_data};
use super::dataset::Replica;
use super::meta::{META_HEADER_BYTES, read_meta_header, write_meta_header};

/// Open files of a replica that is being written.
pub(super) struct Store {
    data: File,
    meta: File,
    /// Checksum of the stored replica; may differ in type from the client's.
    pub(super) checksum: Checksum,
}

impl Store {
    /// Opens a replica; a new one gets its meta header.
    pub(super) fn open(replica: &Replica, create: bool, requested: Checksum) -> io::Result<Self> {
        let (data, meta) = replica.open()?;
        let checksum = if create {
            write_meta_header(&meta, requested)?;
            requested
        } else {
            read_meta_header(&meta)?
        };
        Ok(Self { data, meta, checksum })
    }

    /// Brings all that was written to the disk.
    pub(super) fn sync(&self, replica: &Replica) -> io::Result<()> {
        let written = replica.inner.lock().on_disk;
        self.data.sync_all()?;
        self.meta.sync_all()?;
        let mut inner = replica.inner.lock();
        inner.synced = inner.synced.max(written);
        Ok(())
    }

    fn meta_at(&self, chunk: u64) -> u64 {
        META_HEADER_BYTES + chunk * self.checksum.size() as u64
    }

    /// Stores what is new in a packet. Hadoop 3.4 BlockReceiver#receivePacket, the part that
    /// writes: bytes that are already on disk are skipped, and a chunk that was partial gets a
    /// new checksum, the client's if its packet starts at that chunk, else a recomputed one.
    pub(super) fn write(&self, replica: &Replica, packet: &Packet, sums: &[u8]) -> io::Result<()> {
        let data = packet.data();
        let first = u64::try_from(packet.header.offset_in_block).unwrap_or(u64::MAX);
        let end = first + data.len() as u64;
        let on_disk = replica.inner.lock().on_disk;
        if on_disk >= end {
            return Ok(());
        }
        if first > on_disk {
            // An earlier packet was acked but never reached the disk.
            return Err(bad_data(format!(
                "a packet of blk_{} starts at {first}, but only {on_disk} bytes are on disk",
                replica.id
            )));
        }
        let chunk = self.checksum.chunk as u64;
        if first % chunk != 0 && data.len() > self.checksum.chunk {
            return Err(bad_data(format!(
                "Unexpected packet data length for blk_{}: a partial chunk must be sent in an \
                 individual packet (data length = {} > bytesPerChecksum = {chunk})",
                replica.id,
                data.len()
            )));
        }
        if first % chunk != 0 && first / chunk != (end - 1) / chunk {
            return Err(bad_data(format!(
                "a packet of blk_{} starts inside a chunk at {first} and ends in another at {end}",
                replica.id
            )));
        }
        let skip = usize::try_from(on_disk - first).unwrap_or(0);
        let fresh = data.get(skip..).unwrap_or_default();
        let boundary = on_disk - on_disk % chunk;
        let recompute = on_disk != boundary && boundary != first;
        let partial = if recompute { Some(self.partial_crc(on_disk)?) } else { None };
        self.data.write_all_at(fresh, on_disk)?;
        let last_crc = self.write_checksums(on_disk, first, partial, fresh, sums)?;
        let mut inner = replica.inner.lock();
        inner.on_disk = end;
        inner.last_crc = last_crc;
        Ok(())
    }

    fn write_checksums(
        &self,
        on_disk: u64,
        first: u64,
        partial: Option<u32>,
        fresh: &[u8],
        sums: &[u8],
    ) -> io::Result<Option<[u8; 4]>> {
        if self.checksum.size() == 0 {
            return Ok(None);
        }
        let chunk = self.checksum.chunk as u64;
        let mut next = on_disk / chunk;
        let mut last = None;
        if let Some(crc) = partial {
            let room = usize::try_from(chunk - on_disk % chunk).unwrap_or(usize::MAX);
            let rest = fresh.get(..room.min(fresh.len())).unwrap_or_default();
            let sum = self.checksum.crc_append(crc, rest).to_be_bytes();
            self.meta.write_all_at(&sum, self.meta_at(next))?;
            last = Some(sum);
            next += 1;
        }
        // The packet's checksums count from the chunk of its first byte.
        let from = usize::try_from((next - first / chunk) * 4).unwrap_or(usize::MAX);
        let rest = sums.get(from..).unwrap_or_default();
        if !rest.is_empty() {
            self.meta.write_all_at(rest, self.meta_at(next))?;
            last = rest.last_chunk::<4>().copied();
        }
        Ok(last)
    }

    /// Hadoop 3.4 BlockReceiver#computePartialChunkCrc: reads the stored piece of the last chunk
    /// and trusts it only if its checksum is right.
    fn partial_crc(&self, on_disk: u64) -> io::Result<u32> {
        let chunk = self.checksum.chunk as u64;
        let mut piece = vec![0; usize::try_from(on_disk % chunk).unwrap_or(0)];
        self.data.read_exact_at(&mut piece, on_disk - on_disk % chunk)?;
        let mut stored = [0u8; 4];
        self.meta.read_exact_at(&mut stored, self.meta_at(on_disk / chunk))?;
        let crc = self.checksum.crc(&piece);
        if crc.to_be_bytes() != stored {
            return Err(bad_data(format!(
                "Partial CRC {crc} does not match value computed the last time file was closed {}",
                u32::from_be_bytes(stored)
            )));
        }
        Ok(crc)
    }
}
