//! What one READ_BLOCK operation may receive next; pure, without I/O.
//!
//! A DataNode answers with a response, data packets and one empty packet (the trailer). Nothing
//! that it sends is believed: sequence numbers, offsets and lengths must be the expected ones, so
//! that bytes of another place can never be delivered in place of the wanted ones.
use crate::checksum::ChecksumType;
use crate::error::{Error, Result, Status};
use crate::proto::hdfs::BlockOpResponseProto;
use crate::wire::packet::PacketHeader;
use crate::wire::transfer;

/// Largest chunk size that is accepted from a DataNode: the packet limit.
pub(crate) const BYTES_PER_CHECKSUM_MAX: u32 = 16 << 20;

/// The state of one operation. All offsets are block offsets.
#[derive(Clone, Debug)]
pub(crate) struct BlockState {
    start: u64,
    end: u64,
    checksum: ChecksumType,
    bytes_per_checksum: usize,
    next_offset: u64,
    next_seqno: i64,
    finished: bool,
}

/// A packet whose header was accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PacketShape {
    /// Block offset of the first data byte, a multiple of the chunk size.
    pub(crate) offset: u64,
    /// Bytes of checksums before the data.
    pub(crate) sums_len: usize,
    /// Bytes of data; 0 in the trailer only.
    pub(crate) data_len: usize,
}

impl BlockState {
    /// The state after the request for `len` bytes (at least 1) from `start` was sent.
    pub(crate) fn new(start: u64, len: u64) -> BlockState {
        BlockState {
            start,
            end: start.saturating_add(len),
            checksum: ChecksumType::Null,
            bytes_per_checksum: 1,
            next_offset: start,
            next_seqno: 0,
            finished: false,
        }
    }

    /// End of the request.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// Checksum type of the replica; `Null` when there is nothing to verify.
    pub(crate) fn checksum(&self) -> ChecksumType {
        self.checksum
    }

    /// Chunk size of the replica, at least 1.
    pub(crate) fn bytes_per_checksum(&self) -> usize {
        self.bytes_per_checksum
    }

    /// Offset of the next packet's first byte.
    pub(crate) fn next_offset(&self) -> u64 {
        self.next_offset
    }

    /// Whether all data packets of the request have been announced.
    pub(crate) fn data_complete(&self) -> bool {
        self.next_offset >= self.end
    }

    /// Whether the trailer has come: the operation is over.
    pub(crate) fn is_finished(&self) -> bool {
        self.finished
    }

    /// Takes the response to the request.
    ///
    /// # Errors
    /// `BlockToken` or `DataNode` when the DataNode refuses, `Protocol` for senseless checksum
    /// facts.
    pub(crate) fn on_response(&mut self, response: &BlockOpResponseProto) -> Result<()> {
        transfer::check_response(response)?;
        let Some(info) = response.read_op_checksum_info else {
            return Err(Error::protocol("the read response lacks readOpChecksumInfo"));
        };
        let chunk = info.checksum.bytes_per_checksum;
        if chunk == 0 || chunk > BYTES_PER_CHECKSUM_MAX {
            return Err(Error::protocol(format!(
                "the read response has bytesPerChecksum {chunk}, not 1 to {BYTES_PER_CHECKSUM_MAX}"
            )));
        }
        let id = u32::try_from(info.checksum.r#type).unwrap_or(u32::MAX);
        let Some(checksum) = ChecksumType::from_id(id) else {
            return Err(Error::protocol(format!(
                "the read response has the unknown checksum type {}",
                info.checksum.r#type
            )));
        };
        let first = info.chunk_offset;
        let chunk_u64 = u64::from(chunk);
        // Hadoop 3.4 BlockReaderRemote#newBlockReader: the first chunk must contain the first
        // wanted byte.
        if first % chunk_u64 != 0 || first > self.start || self.start - first >= chunk_u64 {
            return Err(Error::protocol(format!(
                "the read response starts at {first} with chunks of {chunk}, wanted from {}",
                self.start
            )));
        }
        self.checksum = checksum;
        self.bytes_per_checksum = chunk as usize;
        self.next_offset = first;
        Ok(())
    }

    /// Takes a packet header; `body_len` is checksum and data bytes as PLEN gives them.
    ///
    /// # Errors
    /// `Protocol` naming the field that is wrong; `DataNode` when the replica ends too early.
    pub(crate) fn on_header(
        &mut self,
        body_len: usize,
        header: &PacketHeader,
    ) -> Result<PacketShape> {
        if self.finished {
            return Err(Error::protocol("a packet follows the last one"));
        }
        if header.seqno != self.next_seqno {
            return Err(Error::protocol(format!(
                "packet has sequence number {}, expected {}",
                header.seqno, self.next_seqno
            )));
        }
        let offset = u64::try_from(header.offset_in_block).unwrap_or(u64::MAX);
        if offset != self.next_offset {
            return Err(Error::protocol(format!(
                "packet {} is at block offset {}, expected {}",
                header.seqno, header.offset_in_block, self.next_offset
            )));
        }
        let data_len = usize::try_from(header.data_len).unwrap_or(usize::MAX);
        let shape = if header.last {
            self.trailer(body_len, data_len)?
        } else {
            self.data_packet(body_len, data_len)?
        };
        self.next_seqno += 1;
        Ok(shape)
    }

    fn trailer(&mut self, body_len: usize, data_len: usize) -> Result<PacketShape> {
        if data_len != 0 || body_len != 0 {
            return Err(Error::protocol(format!(
                "the last packet has {data_len} data bytes in a body of {body_len}"
            )));
        }
        if self.next_offset < self.end {
            // Differs: Java sees this as an unexpected end of the stream; naming it helps.
            return Err(Error::new(
                Status::DataNode,
                format!(
                    "the replica ends at block offset {}, short of {}",
                    self.next_offset, self.end
                ),
            ));
        }
        self.finished = true;
        Ok(PacketShape { offset: self.next_offset, sums_len: 0, data_len: 0 })
    }

    fn data_packet(&mut self, body_len: usize, data_len: usize) -> Result<PacketShape> {
        let seqno = self.next_seqno;
        if data_len == 0 {
            return Err(Error::protocol(format!("packet {seqno} has no data and is not the last")));
        }
        if self.data_complete() {
            return Err(Error::protocol(format!(
                "packet {seqno} at block offset {} lies behind the request's end {}",
                self.next_offset, self.end
            )));
        }
        let chunk = self.bytes_per_checksum;
        if !self.next_offset.is_multiple_of(chunk as u64) {
            return Err(Error::protocol(format!(
                "packet {seqno} at block offset {} does not begin a chunk of {chunk}",
                self.next_offset
            )));
        }
        let sums_len = data_len.div_ceil(chunk).saturating_mul(self.checksum.sum_len());
        if sums_len.saturating_add(data_len) != body_len {
            return Err(Error::protocol(format!(
                "packet {seqno} has {data_len} data bytes in chunks of {chunk}, but a body of \
                 {body_len}, not {}",
                sums_len.saturating_add(data_len)
            )));
        }
        // The DataNode rounds the end of the request up to a chunk; more is not ours.
        let limit = self.end.div_ceil(chunk as u64).saturating_mul(chunk as u64);
        let offset = self.next_offset;
        let end = offset.saturating_add(data_len as u64);
        if end > limit {
            return Err(Error::protocol(format!(
                "packet {seqno} reaches block offset {end}, beyond the request's end {}",
                self.end
            )));
        }
        self.next_offset = end;
        Ok(PacketShape { offset, sums_len, data_len })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::hdfs::{ChecksumProto, ReadOpChecksumInfoProto, Status as DnStatus};

    fn response(ty: i32, chunk: u32, offset: u64) -> BlockOpResponseProto {
        BlockOpResponseProto {
            status: DnStatus::Success as i32,
            read_op_checksum_info: Some(ReadOpChecksumInfoProto {
                checksum: ChecksumProto { r#type: ty, bytes_per_checksum: chunk },
                chunk_offset: offset,
            }),
            ..Default::default()
        }
    }

    fn header(seqno: i64, offset: i64, data_len: i32) -> PacketHeader {
        PacketHeader { offset_in_block: offset, seqno, last: data_len == 0, data_len, sync: false }
    }

    /// A state that wants bytes 1000..3000 of a block with chunks of 512.
    fn open() -> BlockState {
        let mut state = BlockState::new(1000, 2000);
        state.on_response(&response(2, 512, 512)).unwrap();
        state
    }

    fn refused(state: &mut BlockState, body: usize, header: PacketHeader, words: &str) {
        let error = state.on_header(body, &header).unwrap_err();
        assert!(error.message().contains(words), "{error}");
    }

    #[test]
    fn a_whole_operation() {
        let mut state = open();
        let shape = state.on_header(1024 + 8, &header(0, 512, 1024)).unwrap();
        assert_eq!(shape, PacketShape { offset: 512, sums_len: 8, data_len: 1024 });
        assert!(!state.data_complete());
        // The end is rounded up to a chunk: 3072.
        let shape = state.on_header(1536 + 12, &header(1, 1536, 1536)).unwrap();
        assert_eq!(shape.offset, 1536);
        assert!(state.data_complete() && !state.is_finished());
        state.on_header(0, &header(2, 3072, 0)).unwrap();
        assert!(state.is_finished());
        refused(&mut state, 0, header(3, 3072, 0), "follows the last");
    }

    #[test]
    fn a_replica_may_end_inside_its_last_chunk() {
        let mut state = open();
        state.on_header(2488 + 20, &header(0, 512, 2488)).unwrap();
        assert!(state.data_complete());
        state.on_header(0, &header(1, 3000, 0)).unwrap();
    }

    #[test]
    fn senseless_responses() {
        let mut state = BlockState::new(1000, 2000);
        let mut bad = |r: &BlockOpResponseProto, words: &str| {
            let error = state.on_response(r).unwrap_err();
            assert!(error.message().contains(words), "{error}");
            error.status()
        };
        assert_eq!(bad(&response(2, 0, 512), "bytesPerChecksum 0"), Status::Protocol);
        bad(&response(2, (16 << 20) + 1, 0), "bytesPerChecksum");
        bad(&response(3, 512, 512), "checksum type 3");
        bad(&response(-1, 512, 512), "checksum type -1");
        bad(&response(2, 512, 1024), "starts at 1024");
        bad(&response(2, 512, 0), "starts at 0");
        bad(&response(2, 512, 511), "starts at 511");
        bad(
            &BlockOpResponseProto { read_op_checksum_info: None, ..response(2, 512, 512) },
            "lacks readOpChecksumInfo",
        );
        let refusal = BlockOpResponseProto {
            status: DnStatus::Error as i32,
            message: Some("no such replica".into()),
            ..Default::default()
        };
        assert_eq!(bad(&refusal, "no such replica"), Status::DataNode);
        let token =
            BlockOpResponseProto { status: DnStatus::ErrorAccessToken as i32, ..refusal.clone() };
        assert_eq!(bad(&token, "ERROR_ACCESS_TOKEN"), Status::BlockToken);
        let unknown = BlockOpResponseProto { status: 77, ..refusal };
        assert_eq!(bad(&unknown, "unknown status"), Status::DataNode);
    }

    #[test]
    fn every_corruption_of_a_packet_is_refused() {
        refused(&mut open(), 1032, header(1, 512, 1024), "sequence number 1, expected 0");
        refused(&mut open(), 1032, header(-1, 512, 1024), "sequence number -1");
        refused(&mut open(), 1032, header(0, 1024, 1024), "block offset 1024, expected 512");
        refused(&mut open(), 1032, header(0, 0, 1024), "block offset 0, expected 512");
        refused(&mut open(), 1031, header(0, 512, 1024), "a body of 1031");
        refused(&mut open(), 1033, header(0, 512, 1024), "a body of 1033");
        refused(&mut open(), 1024, header(0, 512, 1024), "a body of 1024");
        refused(&mut open(), 3072 + 24, header(0, 512, 3072), "beyond the request's end");
        let empty = PacketHeader { last: false, ..header(0, 512, 0) };
        refused(&mut open(), 0, empty, "no data");
        let full_last = PacketHeader { last: true, ..header(0, 512, 1024) };
        refused(&mut open(), 1032, full_last, "the last packet has 1024 data bytes");
        refused(&mut open(), 4, header(0, 512, 0), "in a body of 4");
        // A repeated packet, and one that follows a partial chunk.
        let mut state = open();
        state.on_header(1032, &header(0, 512, 1024)).unwrap();
        refused(&mut state, 1032, header(0, 512, 1024), "sequence number 0, expected 1");
        let mut state = open();
        state.on_header(1000 + 8, &header(0, 512, 1000)).unwrap();
        refused(&mut state, 512 + 4, header(1, 1512, 512), "does not begin a chunk");
        // Data behind the wanted end.
        let mut state = open();
        state.on_header(2560 + 20, &header(0, 512, 2560)).unwrap();
        refused(&mut state, 516, header(1, 3072, 512), "behind the request's end");
    }

    #[test]
    fn a_short_replica_is_an_error_of_the_data_node() {
        let mut state = open();
        state.on_header(1032, &header(0, 512, 1024)).unwrap();
        let error = state.on_header(0, &header(1, 1536, 0)).unwrap_err();
        assert_eq!(error.status(), Status::DataNode);
        assert!(error.message().contains("ends at block offset 1536, short of 3000"), "{error}");
        assert!(!state.is_finished());
    }

    #[test]
    fn packets_without_checksums() {
        let mut state = BlockState::new(0, 1 << 40);
        state.on_response(&response(0, 512, 0)).unwrap();
        let shape = state.on_header(65536, &header(0, 0, 65536)).unwrap();
        assert_eq!(shape.sums_len, 0);
        refused(&mut state, 65536 + 512, header(1, 65536, 65536), "a body of");
        let end = BlockState::new(u64::MAX - 1, 10).end();
        assert_eq!(end, u64::MAX);
    }
}
