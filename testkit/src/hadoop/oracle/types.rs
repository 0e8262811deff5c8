//! Requests to and answers of the oracle.

use super::OracleResult;
use crate::hadoop::{HarnessError, Result};
use std::str::FromStr;

/// Flushing while writing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Flush {
    /// No flush before close.
    #[default]
    None,
    /// hflush after every so many write calls.
    Hflush(u32),
    /// hsync after every so many write calls.
    Hsync(u32),
}

/// What to write; the content is that of [`crate::data`] at the file's own offsets.
#[derive(Clone, Debug, Default)]
pub struct WriteRequest {
    /// Bytes to write.
    pub length: u64,
    /// Seed of the content.
    pub seed: u64,
    /// Bytes a write call; `None`: 64 KiB.
    pub chunk: Option<u32>,
    /// Flushes in between.
    pub flush: Flush,
    /// Replication; `None`: `dfs.replication`.
    pub replication: Option<u16>,
    /// Block size in bytes; `None`: `dfs.blocksize`.
    pub block_size: Option<u64>,
    /// `CRC32`, `CRC32C` or `NULL`; `None`: `dfs.checksum.type`.
    pub checksum: Option<&'static str>,
    /// Bytes per checksum; `None`: `dfs.bytes-per-checksum`.
    pub bytes_per_checksum: Option<u32>,
    /// Replaces an existing file.
    pub overwrite: bool,
    /// Append starts a new block.
    pub new_block: bool,
}

/// What to read; by default the whole file, sequentially.
#[derive(Clone, Debug, Default)]
pub struct ReadRequest {
    /// First byte.
    pub offset: u64,
    /// Bytes to read; `None`: up to the end. An earlier end of file is an error.
    pub length: Option<u64>,
    /// Bytes a read call; `None`: 64 KiB.
    pub buffer: Option<u32>,
    /// Positional reads.
    pub pread: bool,
    /// Compares with the content of this seed.
    pub seed: Option<u64>,
}

/// What was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadResult {
    /// Bytes read.
    pub length: u64,
    /// Lower-case hexadecimal SHA-256 of them.
    pub sha256: String,
    /// The visible length of the file when it was opened.
    pub visible_length: u64,
    /// The offset of the first byte that differs from the request's seed.
    pub mismatch: Option<u64>,
}

/// A file checksum as Hadoop's `FileChecksum` gives it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileChecksum {
    /// Such as `MD5-of-0MD5-of-512CRC32C`.
    pub algorithm: String,
    /// `FileChecksum#getBytes` in lower-case hexadecimal.
    pub hex: String,
}

/// The fields of Hadoop's `FileStatus`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileStatus {
    /// Absolute path without scheme.
    pub path: String,
    /// `file`, `dir` or `link`.
    pub kind: String,
    /// Bytes.
    pub length: u64,
    /// 0 for a directory.
    pub replication: u16,
    /// Bytes; 0 for a directory.
    pub block_size: u64,
    /// Milliseconds since 1970.
    pub mtime_ms: i64,
    /// Milliseconds since 1970.
    pub atime_ms: i64,
    /// Permission bits with the sticky bit.
    pub mode: u16,
    /// Owner.
    pub owner: String,
    /// Group.
    pub group: String,
}

/// One block of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockLocation {
    /// First byte in the file.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
    /// Block id.
    pub block_id: i64,
    /// Generation stamp.
    pub generation_stamp: u64,
    /// Block pool id.
    pub pool: String,
    /// All replicas are corrupt.
    pub corrupt: bool,
    /// `HOST:PORT` of the data transfer port of every DataNode, in the NameNode's order.
    pub datanodes: Vec<String>,
    /// Their UUIDs.
    pub uuids: Vec<String>,
}

/// The blocks of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Locations {
    /// Length by the NameNode, bytes.
    pub length: u64,
    /// Being written.
    pub under_construction: bool,
    /// Blocks by offset; a last block under construction is left out, see `last`.
    pub blocks: Vec<BlockLocation>,
    /// The last block of a file being written.
    pub last: Option<BlockLocation>,
}

/// Totals of a directory tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContentSummary {
    /// Bytes in files.
    pub length: u64,
    /// Files.
    pub files: u64,
    /// Directories, the root of the tree too.
    pub directories: u64,
    /// Name quota, -1 for none.
    pub quota: i64,
    /// Bytes times replication.
    pub space_consumed: u64,
    /// Space quota, -1 for none.
    pub space_quota: i64,
}

/// Totals of the file system, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FsStatus {
    /// Size of all storages.
    pub capacity: u64,
    /// Used by HDFS.
    pub used: u64,
    /// Free for HDFS.
    pub remaining: u64,
}

/// Owned command arguments.
pub(super) struct Arguments(Vec<(&'static str, String)>);

impl Arguments {
    fn new() -> Self {
        Self(Vec::new())
    }

    pub(super) fn and(mut self, key: &'static str, value: impl ToString) -> Self {
        self.0.push((key, value.to_string()));
        self
    }

    fn and_some(self, key: &'static str, value: Option<impl ToString>) -> Self {
        match value {
            Some(value) => self.and(key, value),
            None => self,
        }
    }

    pub(super) fn borrowed(&self) -> Vec<(&str, &str)> {
        self.0.iter().map(|(key, value)| (*key, value.as_str())).collect()
    }
}

impl WriteRequest {
    /// `length` bytes of the content of `seed`, everything else by default.
    pub fn new(length: u64, seed: u64) -> Self {
        Self { length, seed, ..Self::default() }
    }

    pub(super) fn arguments(&self, path: &str) -> Arguments {
        let (flush, every) = match self.flush {
            Flush::None => ("none", 1),
            Flush::Hflush(every) => ("hflush", every),
            Flush::Hsync(every) => ("hsync", every),
        };
        Arguments::new()
            .and("path", path)
            .and("length", self.length)
            // Java reads a signed 64-bit number.
            .and("seed", self.seed.cast_signed())
            .and_some("chunk", self.chunk)
            .and("flush", flush)
            .and("every", every)
            .and_some("replication", self.replication)
            .and_some("blocksize", self.block_size)
            .and_some("checksum", self.checksum)
            .and_some("bpc", self.bytes_per_checksum)
            .and("overwrite", self.overwrite)
            .and("newblock", self.new_block)
    }
}

impl ReadRequest {
    /// The whole file, compared with the content of `seed`.
    pub fn compare(seed: u64) -> Self {
        Self { seed: Some(seed), ..Self::default() }
    }

    pub(super) fn arguments(&self, path: &str) -> Arguments {
        Arguments::new()
            .and("path", path)
            .and("offset", self.offset)
            .and("mode", if self.pread { "pread" } else { "seq" })
            .and_some("length", self.length)
            .and_some("buffer", self.buffer)
            .and_some("seed", self.seed.map(u64::cast_signed))
    }
}

impl ReadResult {
    pub(super) fn from_answer(answer: &Answer) -> OracleResult<Self> {
        let mismatch = match answer.all("mismatch").next() {
            None | Some("-1") => None,
            Some(_) => Some(answer.number("mismatch")?),
        };
        Ok(Self {
            length: answer.number("length")?,
            sha256: answer.text("sha256")?,
            visible_length: answer.number("visible")?,
            mismatch,
        })
    }
}

impl FileStatus {
    pub(super) fn parse(text: impl AsRef<str>) -> OracleResult<Self> {
        let mut fields = Fields::new(text.as_ref());
        Ok(Self {
            path: decode(fields.text()?)?,
            kind: fields.text()?.to_owned(),
            length: fields.number()?,
            replication: fields.number()?,
            block_size: fields.number()?,
            mtime_ms: fields.number()?,
            atime_ms: fields.number()?,
            mode: {
                let octal = fields.text()?;
                u16::from_str_radix(octal, 8).map_err(|_| unknown("octal mode", octal))?
            },
            owner: decode(fields.text()?)?,
            group: decode(fields.text()?)?,
        })
    }
}

impl BlockLocation {
    fn parse(text: &str) -> Result<Self> {
        let mut fields = Fields::new(text);
        let mut block = Self {
            offset: fields.number()?,
            length: fields.number()?,
            block_id: fields.number()?,
            generation_stamp: fields.number()?,
            pool: fields.text()?.to_owned(),
            corrupt: fields.text()? == "true",
            datanodes: Vec::new(),
            uuids: Vec::new(),
        };
        for node in fields.0 {
            let (address, uuid) = node.split_once('/').ok_or_else(|| unknown("node", node))?;
            block.datanodes.push(address.to_owned());
            block.uuids.push(uuid.to_owned());
        }
        Ok(block)
    }
}

impl Locations {
    pub(super) fn from_answer(answer: &Answer) -> OracleResult<Self> {
        Ok(Self {
            length: answer.number("length")?,
            under_construction: answer.flag("open")?,
            blocks: answer.all("block").map(BlockLocation::parse).collect::<Result<_>>()?,
            last: answer.all("last").next().map(BlockLocation::parse).transpose()?,
        })
    }
}

impl ContentSummary {
    pub(super) fn from_answer(answer: &Answer) -> OracleResult<Self> {
        Ok(Self {
            length: answer.number("length")?,
            files: answer.number("files")?,
            directories: answer.number("directories")?,
            quota: answer.number("quota")?,
            space_consumed: answer.number("spaceconsumed")?,
            space_quota: answer.number("spacequota")?,
        })
    }
}

impl FsStatus {
    pub(super) fn from_answer(answer: &Answer) -> OracleResult<Self> {
        Ok(Self {
            capacity: answer.number("capacity")?,
            used: answer.number("used")?,
            remaining: answer.number("remaining")?,
        })
    }
}

/// Comma-separated fields.
struct Fields<'a>(std::str::Split<'a, char>);

impl<'a> Fields<'a> {
    fn new(text: &'a str) -> Self {
        Self(text.split(','))
    }

    fn text(&mut self) -> Result<&'a str> {
        self.0.next().ok_or_else(|| HarnessError::new("an answer of the oracle lacks a field"))
    }

    fn number<T: FromStr>(&mut self) -> Result<T> {
        let text = self.text()?;
        text.parse().map_err(|_| unknown("number", text))
    }
}

/// The fields of one `OK` line.
pub(super) struct Answer(Vec<(String, String)>);

impl Answer {
    pub(super) fn parse(line: &str) -> Result<Self> {
        let mut fields = Vec::new();
        for word in line.split_ascii_whitespace() {
            let (key, value) = word.split_once('=').ok_or_else(|| unknown("field", word))?;
            fields.push((key.to_owned(), decode(value)?));
        }
        Ok(Self(fields))
    }

    pub(super) fn all<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(k, _)| k == key).map(|(_, value)| value.as_str())
    }

    pub(super) fn text(&self, key: &str) -> OracleResult<String> {
        match self.all(key).next() {
            Some(value) => Ok(value.to_owned()),
            None => Err(HarnessError::new(format!("the oracle's answer lacks {key}")).into()),
        }
    }

    pub(super) fn number<T: FromStr>(&self, key: &str) -> OracleResult<T> {
        let text = self.text(key)?;
        Ok(text.parse().map_err(|_| unknown(key, &text))?)
    }

    pub(super) fn flag(&self, key: &str) -> OracleResult<bool> {
        Ok(self.text(key)? == "true")
    }
}

fn unknown(what: &str, text: &str) -> HarnessError {
    HarnessError::new(format!("the oracle answered with a {what} that is none: {text:?}"))
}

/// Percent-encodes everything but letters, digits and `-._/:`.
pub(super) fn encode(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._/:".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

/// Undoes percent-encoding.
pub(super) fn decode(text: &str) -> Result<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let digits = after.get(..2).and_then(|pair| std::str::from_utf8(pair).ok());
        let byte = digits.and_then(|pair| u8::from_str_radix(pair, 16).ok());
        bytes.push(byte.ok_or_else(|| unknown("percent code", text))?);
        rest = after.get(2..).unwrap_or_default();
    }
    String::from_utf8(bytes).map_err(|_| unknown("text", text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoding_goes_round() {
        let text = "/a b+c%/ä=,\n";
        assert!(!encode(text).contains([' ', '+', '\n', ',']));
        assert_eq!(decode(&encode(text)).unwrap(), text);
        assert!(decode("%4").is_err());
        assert!(decode("%zz").is_err());
    }
}
