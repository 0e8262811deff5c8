//! Checksums of whole files, made of the block checksums that DataNodes compute.
use crate::checksum::{self, ChecksumType};
use crate::conf::client_config::ClientConfig;
use crate::datanode::peer::{self, Peer};
use crate::dfs_log;
use crate::error::{Error, Result, Status};
use crate::namenode::NameNode;
use crate::net::tcp;
use crate::proto::hdfs;
use crate::time::Deadline;
use crate::wire::transfer::{self, Op};
use crate::wire::varint;
use md5::{Digest, Md5};
use prost::Message;
use std::io::{IoSlice, IoSliceMut};

/// Most bytes of one answer.
const ANSWER_BYTES_MAX: usize = 64 << 10;
/// Bytes of one MD5.
const MD5_BYTES: usize = 16;

/// A checksum that can be compared with what Hadoop's own clients return.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileChecksum {
    /// `MD5-of-<crc_per_block>MD5-of-<bytes_per_crc>CRC32C`, `COMPOSITE-CRC32C`, and so on.
    pub algorithm: String,
    /// The first `getLength()` bytes of what Hadoop's `FileChecksum#getBytes` returns: 28 for MD5
    /// (behind them Java has the zeroes of its buffer), 4 for a CRC.
    pub bytes: Vec<u8>,
    /// Bytes that each stored sum covers, of the first block; 0 for an empty file.
    pub bytes_per_crc: u32,
    /// Sums of the first block, or 0 when there is one block only.
    pub crc_per_block: u64,
}

/// What the answers so far have in common.
#[derive(Debug, Default)]
struct Sums {
    /// Block checksums in order, and how many bytes each covers.
    blocks: Vec<(Vec<u8>, u64)>,
    bytes_per_crc: u32,
    crc_per_block: u64,
    kind: Option<ChecksumType>,
}

/// Checksum of the first `length` bytes of `path`.
///
/// # Errors
/// See [`super::metadata::Metadata::checksum`].
pub(super) fn file_checksum(
    namenode: &NameNode,
    path: &str,
    length: Option<u64>,
    composite: bool,
    d: Deadline,
) -> Result<FileChecksum> {
    let max = i64::MAX as u64;
    let wanted = length.unwrap_or(max).min(max);
    let mut located = namenode.get_block_locations(path, 0, wanted, d)?;
    let mut left = wanted.min(located.file_length);
    let mut sums = Sums::default();
    let mut index = 0;
    while left > 0 {
        let Some(block) = located.blocks.get(index) else {
            let message = format!("checksum of {path}: the NameNode named {index} blocks only");
            return Err(Error::protocol(message));
        };
        if block.block_indices.is_some() {
            let message = format!("checksum of {path}: the file is erasure coded");
            return Err(Error::new(Status::Unsupported, message));
        }
        let bytes = block.b.num_bytes.unwrap_or(0).min(left);
        if bytes == 0 {
            let message = format!("checksum of {path}: block {index} has no bytes");
            return Err(Error::protocol(message));
        }
        let mut answer = block_checksum(namenode.config(), block, bytes, composite, d);
        if answer.as_ref().is_err_and(|e| e.status() == Status::BlockToken) {
            // Hadoop 3.4 FileChecksumHelper: fresh tokens, once a block.
            located = namenode.get_block_locations(path, 0, wanted, d)?;
            if let Some(block) = located.blocks.get(index) {
                answer = block_checksum(namenode.config(), block, bytes, composite, d);
            }
        }
        answer
            .and_then(|answer| sums.add(answer, bytes, composite))
            .map_err(|e| e.context(format_args!("checksum of {path}")))?;
        left -= bytes;
        index += 1;
    }
    sums.finish(composite).map_err(|e| e.context(format_args!("checksum of {path}")))
}

impl Sums {
    fn add(
        &mut self,
        answer: hdfs::OpBlockChecksumResponseProto,
        bytes: u64,
        composite: bool,
    ) -> Result<()> {
        let kind = answer.crc_type.and_then(|t| u32::try_from(t).ok());
        let kind = kind.and_then(ChecksumType::from_id).ok_or_else(|| {
            Error::new(Status::Unsupported, "a DataNode does not name the type of its sums")
        })?;
        let options = answer.block_checksum_options.unwrap_or_default();
        let is_composite =
            options.block_checksum_type() == hdfs::BlockChecksumTypeProto::CompositeCrc;
        let expect = if composite { 4 } else { MD5_BYTES };
        if is_composite != composite || answer.block_checksum.len() != expect {
            let words = if composite {
                "a DataNode returned no COMPOSITE_CRC, which takes Hadoop 3.1.1 or later"
            } else {
                "a DataNode returned no MD5"
            };
            return Err(Error::new(Status::Unsupported, words));
        }
        if self.blocks.is_empty() {
            self.bytes_per_crc = answer.bytes_per_crc;
            self.crc_per_block = answer.crc_per_block;
            self.kind = Some(kind);
        } else if self.kind != Some(kind) {
            let words = "its blocks have different checksum types";
            return Err(Error::new(Status::Unsupported, words));
        } else if self.bytes_per_crc != answer.bytes_per_crc && !composite {
            let words = format!(
                "its blocks have sums of {} and of {} bytes",
                self.bytes_per_crc, answer.bytes_per_crc
            );
            return Err(Error::new(Status::Unsupported, words));
        }
        self.blocks.push((answer.block_checksum, bytes));
        Ok(())
    }

    fn finish(self, composite: bool) -> Result<FileChecksum> {
        let crc_per_block = if self.blocks.len() > 1 { self.crc_per_block } else { 0 };
        let (bytes_per_crc, kind) = (self.bytes_per_crc, self.kind);
        // Hadoop 3.4 FileChecksumHelper#compute: a file without bytes has this type in any mode.
        let kind = kind.unwrap_or(ChecksumType::Crc32);
        if kind == ChecksumType::Null {
            return Err(Error::new(Status::Unsupported, "the file has no checksums"));
        }
        if composite && !self.blocks.is_empty() {
            let mut crc = 0;
            for (sum, len) in &self.blocks {
                let sum = sum.first_chunk::<4>().map_or(0, |s| u32::from_be_bytes(*s));
                crc = checksum::combine(kind, crc, sum, *len);
            }
            return Ok(FileChecksum {
                algorithm: format!("COMPOSITE-{}", kind.name()),
                bytes: crc.to_be_bytes().to_vec(),
                bytes_per_crc,
                crc_per_block,
            });
        }
        let mut bytes = Vec::with_capacity(28);
        bytes.extend_from_slice(&bytes_per_crc.to_be_bytes());
        bytes.extend_from_slice(&crc_per_block.to_be_bytes());
        bytes.extend_from_slice(&md5_of_md5s(self.blocks.iter().map(|(sum, _)| &**sum)));
        Ok(FileChecksum {
            algorithm: format!("MD5-of-{crc_per_block}MD5-of-{bytes_per_crc}{}", kind.name()),
            bytes,
            bytes_per_crc,
            crc_per_block,
        })
    }
}

/// Hadoop 3.4 FileChecksumHelper#makeMd5CrcResult hashes the whole array behind its output buffer:
/// 32 bytes that double until all sums fit, zeroes behind them.
fn md5_of_md5s<'a>(sums: impl Iterator<Item = &'a [u8]>) -> [u8; MD5_BYTES] {
    let mut hash = Md5::new();
    let mut len = 0;
    for sum in sums {
        hash.update(sum);
        len += sum.len();
    }
    let mut capacity = 32_usize;
    while capacity < len {
        capacity *= 2;
    }
    hash.update(vec![0; capacity - len]);
    hash.finalize().into()
}

/// Asks the DataNodes of a block in turn for the checksum of its first `bytes` bytes.
fn block_checksum(
    config: &ClientConfig,
    block: &hdfs::LocatedBlockProto,
    bytes: u64,
    composite: bool,
    d: Deadline,
) -> Result<hdfs::OpBlockChecksumResponseProto> {
    let request = request(block, bytes, composite);
    // Hadoop 3.4 FileChecksumHelper#checksumBlock: the DataNode reads the block first.
    let limit_ms = match config.socket_timeout_ms {
        0 => 0,
        ms => ms.saturating_add(3000 * block.locs.len() as u64),
    };
    let mut last = None;
    for node in &block.locs {
        let limit = d.min(Deadline::after_ms(limit_ms));
        let answer = peer::connect(&node.id, config, limit)
            .and_then(|peer| exchange(&peer, &request, limit));
        match answer {
            Ok(answer) => return Ok(answer),
            Err(e) if e.status() == Status::BlockToken || d.passed() => return Err(e),
            Err(e) => {
                dfs_log!(Warn, "checksum of blk_{}: {e}", block.b.block_id);
                last = Some(e);
            }
        }
    }
    let what = format!("blk_{}_{}", block.b.block_id, block.b.generation_stamp);
    Err(match last {
        Some(e) => e.context(format_args!("no replica of {what} answered, at last")),
        None => Error::new(Status::BlockMissing, format!("{what} has no replica")),
    })
}

fn request(block: &hdfs::LocatedBlockProto, bytes: u64, composite: bool) -> Vec<u8> {
    let mut covered = block.b.clone();
    covered.num_bytes = Some(bytes);
    let kind = if composite {
        hdfs::BlockChecksumTypeProto::CompositeCrc
    } else {
        hdfs::BlockChecksumTypeProto::Md5crc
    };
    let request = hdfs::OpBlockChecksumProto {
        header: hdfs::BaseHeaderProto {
            block: covered,
            token: Some(block.block_token.clone()),
            trace_info: None,
        },
        block_checksum_options: Some(hdfs::BlockChecksumOptionsProto {
            block_checksum_type: Some(kind as i32),
            stripe_length: None,
        }),
    };
    let mut out = Vec::new();
    transfer::encode_op(Op::BlockChecksum, &request, &mut out);
    out
}

/// One request on a connection that is closed afterwards.
fn exchange(
    peer: &Peer,
    request: &[u8],
    limit: Deadline,
) -> Result<hdfs::OpBlockChecksumResponseProto> {
    let failed =
        |e: &std::io::Error| tcp::io_error(e, "asking for a block checksum at", &peer.server);
    peer.socket.send_all(&mut [IoSlice::new(request)], limit).map_err(|e| failed(&e))?;
    let mut buffer = vec![0; 1024];
    let mut filled = 0;
    loop {
        let got = buffer.get(..filled).unwrap_or_default();
        if let Some(message) = delimited(got).map_err(|e| e.with_server(&peer.server))? {
            let response = hdfs::BlockOpResponseProto::decode(message).map_err(|e| {
                let message =
                    format!("the answer of DataNode {} does not decode: {e}", peer.server);
                Error::protocol(message).with_server(&peer.server)
            })?;
            transfer::check_response(&response).map_err(|e| e.with_server(&peer.server))?;
            return response.checksum_response.ok_or_else(|| {
                let message = format!("the answer of DataNode {} has no checksum", peer.server);
                Error::protocol(message).with_server(&peer.server)
            });
        }
        if filled == buffer.len() {
            buffer.resize(buffer.len() * 2, 0);
        }
        let space = buffer.get_mut(filled..).unwrap_or_default();
        let n = peer.socket.recv(&mut [IoSliceMut::new(space)], limit).map_err(|e| failed(&e))?;
        if n == 0 {
            let message = format!("DataNode {} closed the connection", peer.server);
            return Err(Error::new(Status::ConnectionLost, message).with_server(&peer.server));
        }
        filled += n;
    }
}

/// The delimited message at the start of `bytes`; `None` while it is not whole.
fn delimited(bytes: &[u8]) -> Result<Option<&[u8]>> {
    match varint::get(bytes) {
        varint::Get::Short => Ok(None),
        varint::Get::Value(len, n) if len <= ANSWER_BYTES_MAX as u64 => {
            let end = n + usize::try_from(len).unwrap_or(ANSWER_BYTES_MAX);
            Ok(bytes.get(n..end))
        }
        _ => Err(Error::protocol("the length of a DataNode's answer is impossible")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(sum: &[u8], composite: bool) -> hdfs::OpBlockChecksumResponseProto {
        hdfs::OpBlockChecksumResponseProto {
            bytes_per_crc: 512,
            crc_per_block: 2048,
            block_checksum: sum.to_vec(),
            crc_type: Some(2),
            block_checksum_options: composite.then_some(hdfs::BlockChecksumOptionsProto {
                block_checksum_type: Some(2),
                stripe_length: None,
            }),
        }
    }

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|b| format!("{b:02x}")).collect()
    }

    #[test]
    fn an_empty_file_has_hadoops_magic_value() {
        for composite in [false, true] {
            let sum = Sums::default().finish(composite).unwrap();
            assert_eq!(sum.algorithm, "MD5-of-0MD5-of-0CRC32");
            assert_eq!(
                hex(&sum.bytes),
                format!("{}70bc8f4b72a86921468bf8e8441dce51", "0".repeat(24))
            );
        }
    }

    #[test]
    fn md5s_are_padded_to_the_capacity_of_javas_buffer() {
        for (blocks, capacity) in [(1, 32), (2, 32), (3, 64), (4, 64), (5, 128), (9, 256)] {
            let mut sums = Sums::default();
            let mut plain = Vec::new();
            for i in 0..blocks {
                sums.add(answer(&[i; 16], false), 1 << 20, false).unwrap();
                plain.extend_from_slice(&[i; 16]);
            }
            plain.resize(capacity, 0);
            let sum = sums.finish(false).unwrap();
            assert_eq!(sum.bytes[12..], Md5::digest(&plain)[..]);
            let crcs = if blocks > 1 { 2048 } else { 0 };
            assert_eq!(sum.algorithm, format!("MD5-of-{crcs}MD5-of-512CRC32C"));
            assert_eq!((sum.bytes.len(), sum.crc_per_block), (28, crcs));
        }
    }

    #[test]
    fn block_crcs_combine_to_the_crc_of_the_file() {
        let data: Vec<u8> = (0..3000_u32).map(|i| (i * 7) as u8).collect();
        let mut sums = Sums::default();
        for block in data.chunks(1024) {
            let crc = checksum::update(ChecksumType::Crc32c, 0, block);
            sums.add(answer(&crc.to_be_bytes(), true), block.len() as u64, true).unwrap();
        }
        let sum = sums.finish(true).unwrap();
        let whole = checksum::update(ChecksumType::Crc32c, 0, &data);
        assert_eq!(sum.bytes, whole.to_be_bytes());
        assert_eq!(sum.algorithm, "COMPOSITE-CRC32C");
    }

    #[test]
    fn blocks_that_do_not_fit_together_have_no_checksum() {
        let refused = |mut other: hdfs::OpBlockChecksumResponseProto, composite: bool| {
            let mut sums = Sums::default();
            sums.add(answer(&[0; 16], false), 1, false).unwrap();
            other.block_checksum.truncate(if composite { 4 } else { 16 });
            sums.add(other, 1, composite).unwrap_err().status()
        };
        let good = answer(&[0; 16], false);
        let mut other = good.clone();
        other.crc_type = Some(1);
        assert_eq!(refused(other, false), Status::Unsupported);
        let mut other = good.clone();
        other.bytes_per_crc = 4096;
        assert_eq!(refused(other, false), Status::Unsupported);
        let mut other = good.clone();
        other.crc_type = None;
        assert_eq!(refused(other, false), Status::Unsupported);
        // A DataNode too old for composite sums returns an MD5.
        assert_eq!(refused(good, true), Status::Unsupported);
    }

    #[test]
    fn answers_are_bounded() {
        assert_eq!(delimited(&[]).unwrap(), None);
        assert_eq!(delimited(&[3, 1, 2]).unwrap(), None);
        assert_eq!(delimited(&[2, 1, 2, 3]).unwrap(), Some(&[1, 2][..]));
        assert!(delimited(&[0xff, 0xff, 0xff, 0x7f]).is_err());
    }
}
