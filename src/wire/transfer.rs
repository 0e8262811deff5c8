//! Operation headers of the data transfer protocol.
use super::varint;
use crate::error::{Error, Result, Status};
use crate::proto::hdfs;
use prost::Message;

/// Data transfer version of every Hadoop since 2.0.
pub const VERSION: u16 = 28;

/// Operation codes (Hadoop `Op`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Op {
    /// WRITE_BLOCK
    WriteBlock = 80,
    /// READ_BLOCK
    ReadBlock = 81,
    /// BLOCK_CHECKSUM
    BlockChecksum = 85,
    /// TRANSFER_BLOCK
    TransferBlock = 86,
}

/// Appends version, opcode and the delimited request to `out`.
pub fn encode_op(op: Op, request: &impl Message, out: &mut Vec<u8>) {
    out.extend_from_slice(&VERSION.to_be_bytes());
    out.push(op as u8);
    let len = request.encoded_len();
    let mut prefix = [0; varint::MAX_LEN];
    let n = varint::put(&mut prefix, 0, len as u64).unwrap_or(0);
    out.extend_from_slice(prefix.get(..n).unwrap_or_default());
    out.reserve(len);
    request.encode_raw(out);
}

/// Bytes of a READ_BLOCK request that stay the same for one block: the encoded
/// `ClientOperationHeaderProto` (block, token, client name).
pub fn read_block_header(
    block: &hdfs::ExtendedBlockProto,
    token: &crate::proto::common::TokenProto,
    client_name: &str,
) -> Vec<u8> {
    hdfs::ClientOperationHeaderProto {
        base_header: hdfs::BaseHeaderProto {
            block: block.clone(),
            token: Some(token.clone()),
            trace_info: None,
        },
        client_name: client_name.to_owned(),
    }
    .encode_to_vec()
}

/// Encodes a READ_BLOCK request into `out` around a header made by [`read_block_header`], without
/// allocating; returns its length, or `None` if `out` is too small.
///
/// `readahead` and `drop_behind` become the caching strategy; `None` leaves the DataNode's default.
#[must_use]
pub fn encode_read_block(
    out: &mut [u8],
    header: &[u8],
    block_offset: u64,
    len: u64,
    send_checksums: bool,
    readahead: Option<u64>,
    drop_behind: Option<bool>,
) -> Option<usize> {
    let strategy_len = drop_behind.map_or(0, |_| 2) + readahead.map_or(0, |r| 1 + varint::len(r));
    let message_len = 1
        + varint::len(header.len() as u64)
        + header.len()
        + 1
        + varint::len(block_offset)
        + 1
        + varint::len(len)
        + 2
        + 2
        + strategy_len;
    out.get_mut(..2)?.copy_from_slice(&VERSION.to_be_bytes());
    *out.get_mut(2)? = Op::ReadBlock as u8;
    let mut at = varint::put(out, 3, message_len as u64)?;
    at = varint::put(out, at, 0x0a)?;
    at = varint::put(out, at, header.len() as u64)?;
    out.get_mut(at..at + header.len())?.copy_from_slice(header);
    at += header.len();
    at = varint::put(out, at, 0x10)?;
    at = varint::put(out, at, block_offset)?;
    at = varint::put(out, at, 0x18)?;
    at = varint::put(out, at, len)?;
    at = varint::put(out, at, 0x20)?;
    at = varint::put(out, at, u64::from(send_checksums))?;
    at = varint::put(out, at, 0x2a)?;
    at = varint::put(out, at, strategy_len as u64)?;
    if let Some(drop) = drop_behind {
        at = varint::put(out, at, 0x08)?;
        at = varint::put(out, at, u64::from(drop))?;
    }
    if let Some(bytes) = readahead {
        at = varint::put(out, at, 0x10)?;
        at = varint::put(out, at, bytes)?;
    }
    Some(at)
}

/// Name of a data transfer `Status`.
#[must_use]
pub fn status_name(status: i32) -> &'static str {
    hdfs::Status::try_from(status).map_or("an unknown status", |s| s.as_str_name())
}

/// Turns a `BlockOpResponseProto` other than SUCCESS into an error.
///
/// # Errors
/// `BlockToken` for a refused token, else `DataNode`, with the DataNode's words.
pub fn check_response(response: &hdfs::BlockOpResponseProto) -> Result<()> {
    if response.status == hdfs::Status::Success as i32 {
        return Ok(());
    }
    let status = if response.status == hdfs::Status::ErrorAccessToken as i32 {
        Status::BlockToken
    } else {
        Status::DataNode
    };
    let name = status_name(response.status);
    let words = response.message();
    let bad_link = response.first_bad_link();
    let mut text = format!("the DataNode answered {name}");
    if !bad_link.is_empty() {
        text = format!("{text} (first bad link {bad_link})");
    }
    if !words.is_empty() {
        text = format!("{text}: {words}");
    }
    Err(Error::new(status, text).with_remote(name, words))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hand_made_read_request_is_what_protobuf_makes() {
        let block = hdfs::ExtendedBlockProto {
            pool_id: "BP-1".into(),
            block_id: 1_073_741_825,
            generation_stamp: 1001,
            num_bytes: Some(5000),
        };
        let token = crate::proto::common::TokenProto::default();
        let header = read_block_header(&block, &token, "DFSClient_x");
        for (offset, len, readahead, drop) in
            [(0, 1, None, None), (70000, 1 << 33, Some(4 << 20), Some(false))]
        {
            let mut out = [0; 512];
            let n = encode_read_block(&mut out, &header, offset, len, true, readahead, drop);
            let n = n.unwrap();
            assert_eq!(out[..3], [0, 28, 81]);
            let request = hdfs::OpReadBlockProto::decode_length_delimited(&out[3..n]).unwrap();
            assert_eq!(request.header.base_header.block, block);
            assert_eq!(request.header.client_name, "DFSClient_x");
            assert_eq!((request.offset, request.len), (offset, len));
            assert_eq!(request.send_checksums, Some(true));
            let strategy = request.caching_strategy.unwrap();
            assert_eq!(strategy.readahead, readahead.map(|r| r as i64));
            assert_eq!(strategy.drop_behind, drop);
            for short in 0..n {
                let mut small = vec![0; short];
                let r = encode_read_block(&mut small, &header, offset, len, true, readahead, drop);
                assert!(r.is_none());
            }
        }
    }
}
