//! Framing that both servers share: delimited protobuf messages, packet headers, data checksums.
use std::io::{self, Read, Write};

use dfs::proto::hdfs::{ChecksumProto, ChecksumTypeProto, PacketHeaderProto};
use prost::Message;

/// Hadoop 3.4 PacketReceiver.MAX_PACKET_SIZE: length fields above 16 MiB are refused.
pub(crate) const PACKET_BYTES_MAX: usize = 16 * 1024 * 1024;
/// No message of an operation comes near this; a longer one is a client that lost its place.
const MESSAGE_BYTES_MAX: usize = 4 * 1024 * 1024;

pub(crate) fn bad_data(message: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message.into())
}

/// Reads a varint length and that many bytes.
pub(crate) fn read_delimited<M: Message + Default>(r: &mut impl Read) -> io::Result<M> {
    let mut length = 0u64;
    for shift in (0..35).step_by(7) {
        let mut byte = [0u8; 1];
        r.read_exact(&mut byte)?;
        length |= u64::from(byte[0] & 0x7f) << shift;
        if byte[0] & 0x80 == 0 {
            let length = usize::try_from(length).unwrap_or(usize::MAX);
            if length > MESSAGE_BYTES_MAX {
                return Err(bad_data(format!("a message of {length} bytes is too long")));
            }
            let mut body = vec![0; length];
            r.read_exact(&mut body)?;
            return M::decode(body.as_slice())
                .map_err(|e| bad_data(format!("cannot parse a message: {e}")));
        }
    }
    Err(bad_data("a message length takes more than five bytes"))
}

/// Writes a message with its varint length in one write.
pub(crate) fn write_delimited(w: &mut impl Write, message: &impl Message) -> io::Result<()> {
    w.write_all(&message.encode_length_delimited_to_vec())?;
    w.flush()
}

/// A packet as it came from the wire. `body` is checksums followed by data.
#[derive(Default)]
pub(crate) struct Packet {
    pub(crate) header: PacketHeaderProto,
    pub(crate) body: Vec<u8>,
    checksum_bytes: usize,
}

impl Packet {
    /// Reads one packet, with the checks of Hadoop 3.4 PacketReceiver#doRead.
    pub(crate) fn read(&mut self, r: &mut impl Read) -> io::Result<()> {
        let mut lengths = [0u8; 6];
        r.read_exact(&mut lengths)?;
        let payload = i32::from_be_bytes([lengths[0], lengths[1], lengths[2], lengths[3]]);
        let header_len = usize::from(u16::from_be_bytes([lengths[4], lengths[5]]));
        let Some(payload) = usize::try_from(payload).ok().filter(|p| *p >= 4) else {
            return Err(bad_data(format!("invalid payload length {payload} in a packet")));
        };
        if payload + header_len > PACKET_BYTES_MAX {
            return Err(bad_data(format!(
                "incorrect value for packet payload size: {payload} (header {header_len})"
            )));
        }
        // All four required fields have a fixed size, so the header has one of two lengths.
        if header_len != 25 && header_len != 27 {
            return Err(bad_data(format!("a packet header of {header_len} bytes")));
        }
        let mut header = [0u8; 27];
        let header = header.get_mut(..header_len).unwrap_or_default();
        r.read_exact(header)?;
        self.header = PacketHeaderProto::decode(&*header)
            .map_err(|e| bad_data(format!("cannot parse a packet header: {e}")))?;
        let data = self.header.data_len;
        let Some(data) = usize::try_from(data).ok().filter(|d| *d <= payload - 4) else {
            return Err(bad_data(format!("invalid data length {data}, payload {payload}")));
        };
        self.checksum_bytes = payload - 4 - data;
        self.body.resize(payload - 4, 0);
        r.read_exact(&mut self.body)
    }

    pub(crate) fn checksums(&self) -> &[u8] {
        self.body.get(..self.checksum_bytes).unwrap_or_default()
    }

    pub(crate) fn data(&self) -> &[u8] {
        self.body.get(self.checksum_bytes..).unwrap_or_default()
    }

    pub(crate) fn checksums_mut(&mut self) -> &mut [u8] {
        self.body.get_mut(..self.checksum_bytes).unwrap_or_default()
    }

    pub(crate) fn data_mut(&mut self) -> &mut [u8] {
        self.body.get_mut(self.checksum_bytes..).unwrap_or_default()
    }

    /// Sends the packet on as it is.
    pub(crate) fn write(&self, w: &mut impl Write, scratch: &mut Vec<u8>) -> io::Result<()> {
        scratch.clear();
        encode_packet_header(scratch, &self.header, self.body.len());
        scratch.extend_from_slice(&self.body);
        w.write_all(scratch)?;
        w.flush()
    }
}

/// Appends PLEN, HLEN and the header; `body` counts checksums and data.
pub(crate) fn encode_packet_header(out: &mut Vec<u8>, header: &PacketHeaderProto, body: usize) {
    let payload = u32::try_from(body + 4).unwrap_or(u32::MAX);
    out.extend_from_slice(&payload.to_be_bytes());
    let header_len = u16::try_from(header.encoded_len()).unwrap_or(u16::MAX);
    out.extend_from_slice(&header_len.to_be_bytes());
    out.extend_from_slice(&header.encode_to_vec());
}

/// Checksum type and chunk size of a replica or a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Checksum {
    pub(crate) kind: ChecksumTypeProto,
    pub(crate) chunk: usize,
}

impl Checksum {
    /// Validates what a request or a meta file says.
    pub(crate) fn new(kind: i32, chunk: u32) -> io::Result<Self> {
        let kind = ChecksumTypeProto::try_from(kind)
            .map_err(|_| bad_data(format!("unknown checksum type {kind}")))?;
        match usize::try_from(chunk) {
            Ok(size) if size > 0 && size <= PACKET_BYTES_MAX => Ok(Self { kind, chunk: size }),
            _ => Err(bad_data(format!("invalid number of bytes per checksum {chunk}"))),
        }
    }

    pub(crate) fn to_proto(self) -> ChecksumProto {
        ChecksumProto { r#type: self.kind as i32, bytes_per_checksum: self.chunk as u32 }
    }

    /// Bytes of one chunk's checksum.
    pub(crate) fn size(self) -> usize {
        if self.kind == ChecksumTypeProto::ChecksumNull { 0 } else { 4 }
    }

    /// Bytes of the checksums of `data` bytes.
    pub(crate) fn bytes_for(self, data: usize) -> usize {
        data.div_ceil(self.chunk) * self.size()
    }

    pub(crate) fn crc(self, data: &[u8]) -> u32 {
        self.crc_append(0, data)
    }

    pub(crate) fn crc_append(self, crc: u32, data: &[u8]) -> u32 {
        match self.kind {
            ChecksumTypeProto::ChecksumNull => 0,
            ChecksumTypeProto::ChecksumCrc32c => crc32c::crc32c_append(crc, data),
            ChecksumTypeProto::ChecksumCrc32 => {
                let mut hasher = crc32fast::Hasher::new_with_initial(crc);
                hasher.update(data);
                hasher.finalize()
            }
        }
    }

    /// The checksums of `data`, whose first byte starts a chunk.
    pub(crate) fn compute(self, data: &[u8]) -> Vec<u8> {
        if self.size() == 0 {
            return Vec::new();
        }
        data.chunks(self.chunk).flat_map(|c| self.crc(c).to_be_bytes()).collect()
    }

    /// Index of the first chunk whose checksum is wrong.
    pub(crate) fn first_mismatch(self, data: &[u8], sums: &[u8]) -> Option<usize> {
        if self.size() == 0 {
            return None;
        }
        data.chunks(self.chunk)
            .zip(sums.chunks(4))
            .position(|(chunk, sum)| self.crc(chunk).to_be_bytes() != sum)
    }
}
