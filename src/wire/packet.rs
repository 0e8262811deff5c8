//! Packets and acks of the data transfer protocol, encoded and decoded by hand: they are the hot
//! path, and all fields of a packet header have a fixed width.
//!
//! Layout of a packet, both directions (Hadoop `PacketHeader`, `PacketReceiver`):
//! PLEN int32 BE = 4 + checksum bytes + data bytes; HLEN int16 BE; header proto (HLEN bytes, not
//! delimited); checksums; data.
use super::varint::{Fields, Value, unzigzag};
use crate::error::{Error, Result};

/// PLEN and HLEN, bytes.
pub const PREFIX_LEN: usize = 6;
/// Header proto without and with `syncBlock`.
pub const PROTO_LEN: usize = 25;
/// Largest encoded header: prefix, proto and `syncBlock`.
pub const MAX_HEADER_LEN: usize = PREFIX_LEN + PROTO_LEN + 2;
/// Largest header proto that is accepted from a server (a later release might add fields).
pub const MAX_PROTO_LEN: usize = 512;
/// Sequence number of a heartbeat packet and its ack.
pub const HEARTBEAT_SEQNO: i64 = -1;
/// Sequence number in an ack that does not belong to a packet (errors, restarts).
pub const UNKNOWN_SEQNO: i64 = -2;

/// A decoded packet header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketHeader {
    /// Block offset of the first data byte.
    pub offset_in_block: i64,
    /// Sequence number.
    pub seqno: i64,
    /// The end marker.
    pub last: bool,
    /// Data bytes.
    pub data_len: i32,
    /// The DataNode must sync before acking.
    pub sync: bool,
}

/// Encodes prefix and header right-aligned in `out`, whose length is [`MAX_HEADER_LEN`], so that
/// checksums can follow at a fixed place; returns where it starts (0 or 2).
#[must_use]
pub fn encode_header(
    out: &mut [u8; MAX_HEADER_LEN],
    header: &PacketHeader,
    checksum_len: usize,
) -> usize {
    let start = if header.sync { 0 } else { 2 };
    let proto_len = if header.sync { PROTO_LEN + 2 } else { PROTO_LEN };
    let plen = 4_i64 + checksum_len as i64 + i64::from(header.data_len);
    // A packet is at most 16 MiB, so this never truncates.
    let plen = plen as u32;
    let mut bytes = [0_u8; MAX_HEADER_LEN];
    bytes[0..4].copy_from_slice(&plen.to_be_bytes());
    bytes[4..6].copy_from_slice(&(proto_len as u16).to_be_bytes());
    bytes[6] = 0x09;
    bytes[7..15].copy_from_slice(&header.offset_in_block.to_le_bytes());
    bytes[15] = 0x11;
    bytes[16..24].copy_from_slice(&header.seqno.to_le_bytes());
    bytes[24] = 0x18;
    bytes[25] = u8::from(header.last);
    bytes[26] = 0x25;
    bytes[27..31].copy_from_slice(&header.data_len.to_le_bytes());
    bytes[31] = 0x28;
    bytes[32] = 1;
    if header.sync {
        *out = bytes;
    } else {
        out[2..].copy_from_slice(&bytes[..31]);
    }
    start
}

/// Decodes PLEN and HLEN, with the limits that a receiver must check before it allocates or reads:
/// `(checksum + data bytes, header proto bytes)`.
///
/// # Errors
/// `Protocol`, naming the field.
pub fn decode_prefix(bytes: [u8; PREFIX_LEN], max_packet: usize) -> Result<(usize, usize)> {
    let [a, b, c, d, e, f] = bytes;
    let plen = i32::from_be_bytes([a, b, c, d]);
    let hlen = usize::from(u16::from_be_bytes([e, f]));
    if plen < 4 {
        return Err(Error::protocol(format!("packet length {plen} is below 4")));
    }
    let body = plen as usize - 4;
    if hlen == 0 || hlen > MAX_PROTO_LEN {
        return Err(Error::protocol(format!("packet header length {hlen} is not in 1..=512")));
    }
    if body.saturating_add(hlen) > max_packet {
        return Err(Error::protocol(format!(
            "packet of {body} bytes exceeds dfs.data.transfer.max.packet.size {max_packet}"
        )));
    }
    Ok((body, hlen))
}

/// Decodes the header proto.
///
/// # Errors
/// `Protocol` when a required field is missing or malformed, or the data length is negative.
pub fn decode_header(bytes: &[u8]) -> Result<PacketHeader> {
    let mut header =
        PacketHeader { offset_in_block: 0, seqno: 0, last: false, data_len: 0, sync: false };
    let mut seen = 0_u8;
    let mut fields = Fields::new(bytes);
    while let Some((number, value)) = fields.next_field()? {
        match (number, value) {
            (1, Value::Fixed64(v)) => (header.offset_in_block, seen) = (v as i64, seen | 1),
            (2, Value::Fixed64(v)) => (header.seqno, seen) = (v as i64, seen | 2),
            (3, Value::Varint(v)) => (header.last, seen) = (v != 0, seen | 4),
            (4, Value::Fixed32(v)) => (header.data_len, seen) = (v as i32, seen | 8),
            (5, Value::Varint(v)) => header.sync = v != 0,
            (1..=5, _) => {
                return Err(Error::protocol(format!(
                    "packet header field {number} has a wrong type"
                )));
            }
            _ => {}
        }
    }
    if seen != 15 {
        return Err(Error::protocol("packet header lacks a required field"));
    }
    if header.data_len < 0 || header.offset_in_block < 0 {
        return Err(Error::protocol(format!(
            "packet header has data length {} at block offset {}",
            header.data_len, header.offset_in_block
        )));
    }
    Ok(header)
}

/// Most replies in one ack: far above any pipeline.
pub const MAX_REPLIES: usize = 64;

/// A decoded pipeline ack. Entry `i` of the arrays belongs to node `i` of the pipeline.
#[derive(Clone, Copy, Debug)]
pub struct PipelineAck {
    /// Packet that is acked, or -1 / -2.
    pub seqno: i64,
    /// Number of entries.
    pub count: usize,
    /// Status, ECN and SLOW bits of each node; just the status if the node sent no flags.
    flags: [u16; MAX_REPLIES],
}

/// `Status.SUCCESS`.
pub const STATUS_SUCCESS: u16 = 0;
/// `Status.OOB_RESTART`.
pub const STATUS_OOB_RESTART: u16 = 8;

impl PipelineAck {
    /// Status number of node `i` (bits 0 to 3).
    #[must_use]
    pub fn status(&self, i: usize) -> u16 {
        self.flags.get(i).copied().unwrap_or(0) & 0xf
    }

    /// Node `i` says that it is congested (ECN bits 5 and 6 are 3).
    #[must_use]
    pub fn congested(&self, i: usize) -> bool {
        (self.flags.get(i).copied().unwrap_or(0) >> 5) & 3 == 3
    }

    /// Node `i` says that it is slow (bits 7 and 8 are 2).
    #[must_use]
    pub fn slow(&self, i: usize) -> bool {
        (self.flags.get(i).copied().unwrap_or(0) >> 7) & 3 == 2
    }
}

/// Decodes a `PipelineAckProto` message (without its length prefix).
///
/// # Errors
/// `Protocol` when it is malformed or lacks its sequence number.
pub fn decode_ack(bytes: &[u8]) -> Result<PipelineAck> {
    let mut ack = PipelineAck { seqno: 0, count: 0, flags: [0; MAX_REPLIES] };
    let (mut seqno, mut replies, mut flags) = (None, 0, 0);
    let mut reply = [0_u16; MAX_REPLIES];
    fn push(list: &mut [u16; MAX_REPLIES], count: &mut usize, value: u64) -> Result<()> {
        let Some(slot) = list.get_mut(*count) else {
            return Err(Error::protocol(format!("an ack has more than {MAX_REPLIES} replies")));
        };
        *slot = value as u16;
        *count += 1;
        Ok(())
    }
    let mut fields = Fields::new(bytes);
    while let Some((number, value)) = fields.next_field()? {
        match (number, value) {
            (1, Value::Varint(v)) => seqno = Some(unzigzag(v)),
            (2, Value::Varint(v)) => push(&mut reply, &mut replies, v)?,
            (4, Value::Varint(v)) => push(&mut ack.flags, &mut flags, v)?,
            (2 | 4, Value::Bytes(packed)) => {
                let mut inner = Fields::new(packed);
                while !inner.at_end() {
                    let v = inner.varint()?;
                    if number == 2 {
                        push(&mut reply, &mut replies, v)?;
                    } else {
                        push(&mut ack.flags, &mut flags, v)?;
                    }
                }
            }
            (1 | 2 | 4, _) => {
                return Err(Error::protocol(format!("ack field {number} has a wrong type")));
            }
            _ => {}
        }
    }
    let Some(seqno) = seqno else { return Err(Error::protocol("an ack lacks its seqno")) };
    ack.seqno = seqno;
    // Hadoop 3.4 PipelineAck#getHeaderFlag: the flag wins where present, else the plain reply.
    if flags == 0 {
        ack.flags = reply;
        ack.count = replies;
    } else {
        ack.count = flags;
    }
    Ok(ack)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_fixed_width_and_round_trips() {
        for sync in [false, true] {
            let header =
                PacketHeader { offset_in_block: 4608, seqno: 7, last: false, data_len: 1000, sync };
            let mut out = [0xee; MAX_HEADER_LEN];
            let start = encode_header(&mut out, &header, 8);
            let bytes = &out[start..];
            assert_eq!(bytes.len(), if sync { 33 } else { 31 });
            let mut prefix = [0; 6];
            prefix.copy_from_slice(&bytes[..6]);
            assert_eq!(decode_prefix(prefix, 1 << 24).unwrap(), (1008, bytes.len() - 6));
            assert_eq!(decode_header(&bytes[6..]).unwrap(), header);
        }
    }

    #[test]
    fn zero_fields_are_encoded_too() {
        let header =
            PacketHeader { offset_in_block: 0, seqno: -1, last: false, data_len: 0, sync: false };
        let mut out = [0; MAX_HEADER_LEN];
        let start = encode_header(&mut out, &header, 0);
        assert_eq!(
            out[start..],
            [
                0, 0, 0, 4, 0, 25, 0x09, 0, 0, 0, 0, 0, 0, 0, 0, 0x11, 255, 255, 255, 255, 255,
                255, 255, 255, 0x18, 0, 0x25, 0, 0, 0, 0
            ]
        );
    }

    #[test]
    fn corrupt_headers_are_refused() {
        assert!(decode_prefix([0, 0, 0, 3, 0, 25], 1 << 24).is_err());
        assert!(decode_prefix([0xff, 0, 0, 3, 0, 25], 1 << 24).is_err());
        assert!(decode_prefix([0, 0, 0, 4, 0xff, 25], 1 << 24).is_err());
        assert!(decode_prefix([0x7f, 0, 0, 4, 0, 25], 1 << 24).is_err());
        assert!(decode_header(&[0x09, 0, 0]).is_err());
        assert!(decode_header(&[]).is_err());
        let header =
            PacketHeader { offset_in_block: -5, seqno: 0, last: false, data_len: 0, sync: false };
        let mut out = [0; MAX_HEADER_LEN];
        let start = encode_header(&mut out, &header, 0);
        assert!(decode_header(&out[start + 6..]).is_err());
    }

    #[test]
    fn acks_use_flags_where_present() {
        // seqno 5, replies [0, 1], flags packed [0x60 | 0, 0x100 | 1]
        let bytes = [0x08, 10, 0x10, 0, 0x10, 1, 0x22, 3, 0x60, 0x81, 0x02];
        let ack = decode_ack(&bytes).unwrap();
        assert_eq!((ack.seqno, ack.count), (5, 2));
        assert_eq!((ack.status(0), ack.status(1)), (0, 1));
        assert!(ack.congested(0) && !ack.congested(1));
        assert!(ack.slow(1) && !ack.slow(0));
        // Old server: only replies.
        let ack = decode_ack(&[0x08, 3, 0x10, 8]).unwrap();
        assert_eq!((ack.seqno, ack.count, ack.status(0)), (-2, 1, STATUS_OOB_RESTART));
        assert!(decode_ack(&[0x10, 0]).is_err());
        assert!(decode_ack(&[0x08]).is_err());
    }
}
