//! Checksums of whole files, and the bulk engine for chunks.
use super::boundary::{Info, Out, Sized32, bytes, bytes_mut, on, run, text};
use super::error::dfs_error;
use super::file::count;
use super::file_system::{FileSystemObject, dfs_fs};
use super::open::checksum_type;
use crate::checksum::{ChecksumType, sum_chunks, verify_chunks};
use crate::error::{Error, Result, Status};
use std::ffi::{c_char, c_void};

/// The kind that `dfs.checksum.combine.mode` names.
pub const DFS_FILE_CHECKSUM_DEFAULT: i32 = 0;
/// MD5 of the blocks' MD5s of their CRCs: depends on block and chunk sizes.
pub const DFS_FILE_CHECKSUM_MD5MD5CRC: i32 = 1;
/// CRC of the whole file: independent of block and chunk sizes. Hadoop 3.1.1 and newer.
pub const DFS_FILE_CHECKSUM_COMPOSITE_CRC: i32 = 2;

/// Room for the name of an algorithm, with a NUL at the end.
pub const DFS_CHECKSUM_NAME_SIZE: usize = 64;
/// Room for the bytes of a checksum.
pub const DFS_CHECKSUM_BYTES_SIZE: usize = 32;

/// Checksum of a file. Set `size` to sizeof(dfs_checksum_info) before a call fills it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct dfs_checksum_info {
    /// Size of this struct in bytes, set by the caller.
    pub size: u32,
    /// Bytes that each stored CRC covers (of the first block); 0 for an empty file.
    pub bytes_per_crc: u32,
    /// CRCs of the first block; 0 if there is one block only.
    pub crc_per_block: u64,
    /// Bytes of the value: 28 for MD5MD5CRC, 4 for a composite CRC.
    pub byte_count: u32,
    /// 0.
    pub reserved: u32,
    /// The value, as FileChecksum#getBytes of Hadoop has it.
    pub bytes: [u8; DFS_CHECKSUM_BYTES_SIZE],
    /// Hadoop's name of the algorithm, such as "MD5-of-262144MD5-of-512CRC32C".
    pub algorithm: [c_char; DFS_CHECKSUM_NAME_SIZE],
}

// SAFETY: repr(C), u32 first; 4+4+8+4+4+32+64 bytes without padding; numbers.
unsafe impl Sized32 for dfs_checksum_info {}

/// Has the DataNodes compute a checksum that can be compared with those of Hadoop's clients.
///
/// `path`: absolute. `length`: bytes from the start that count; UINT64_MAX: all. `mode`: one of
/// DFS_FILE_CHECKSUM_*. `info`: `size` is set. `error`: may be NULL.
///
/// Returns DFS_OK; DFS_E_NOT_FOUND, DFS_E_IS_DIRECTORY, DFS_E_PERMISSION...; DFS_E_BLOCK_MISSING,
/// or what the last DataNode said, if no replica of a block answers; DFS_E_UNSUPPORTED if the file
/// or a DataNode has no checksum of that kind; DFS_E_INVALID_ARGUMENT (mode, or an impossible
/// `info->size`); and as dfs_stat.
///
/// Threads: any, concurrent. Blocks up to the limit of the file system (dfs_fs_set_timeout), and
/// within it up to `dfs.client.socket-timeout` plus 3 s a replica for each replica. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_checksum(
    fs: *mut dfs_fs,
    path: *const c_char,
    length: u64,
    mode: i32,
    info: *mut dfs_checksum_info,
    error: *mut *mut dfs_error,
) -> i32 {
    on(fs, "fs", error, |fs: &FileSystemObject| {
        let path = text(path, "path")?;
        let info = Info::new(info, "info")?;
        let composite = match mode {
            DFS_FILE_CHECKSUM_DEFAULT => None,
            DFS_FILE_CHECKSUM_MD5MD5CRC => Some(false),
            DFS_FILE_CHECKSUM_COMPOSITE_CRC => Some(true),
            _ => {
                let text = format!("mode {mode} is no DFS_FILE_CHECKSUM_ mode");
                return Err(Error::new(Status::InvalidArgument, text));
            }
        };
        let length = (length != u64::MAX).then_some(length);
        let sum = fs.metadata()?.checksum_of_kind(path, length, composite, fs.deadline())?;
        let mut value = dfs_checksum_info {
            size: 0,
            bytes_per_crc: sum.bytes_per_crc,
            crc_per_block: sum.crc_per_block,
            byte_count: 0,
            reserved: 0,
            bytes: [0; DFS_CHECKSUM_BYTES_SIZE],
            algorithm: [0; DFS_CHECKSUM_NAME_SIZE],
        };
        if sum.bytes.len() > value.bytes.len() || sum.algorithm.len() >= value.algorithm.len() {
            let text = format!("the checksum {} of {path} is too long", sum.algorithm);
            return Err(Error::new(Status::Internal, text));
        }
        value.byte_count = sum.bytes.len() as u32;
        for (to, from) in value.bytes.iter_mut().zip(&sum.bytes) {
            *to = *from;
        }
        for (to, from) in value.algorithm.iter_mut().zip(sum.algorithm.bytes()) {
            *to = from as c_char;
        }
        info.fill(&value);
        Ok(0)
    })
}

/// The arguments of the chunk functions, checked; the result has the bytes of all sums.
fn chunk_arguments(
    type_: i32,
    bytes_per_checksum: usize,
    len: usize,
    sums_len: usize,
) -> Result<(ChecksumType, usize)> {
    let bad = |text: String| Err(Error::new(Status::InvalidArgument, text));
    let ty = checksum_type(type_, "type")?.unwrap_or(ChecksumType::Crc32c);
    if bytes_per_checksum == 0 {
        return bad("bytes_per_checksum is 0".to_owned());
    }
    let needed = len.div_ceil(bytes_per_checksum).checked_mul(ty.sum_len());
    match needed {
        Some(needed) if needed <= sums_len => Ok((ty, needed)),
        _ => bad(format!(
            "sums has {sums_len} bytes, and {len} bytes of data with {bytes_per_checksum} a sum \
             need {} each",
            ty.sum_len()
        )),
    }
}

/// Computes the checksum of each chunk of a buffer, as HDFS stores and sends it: 4 bytes a chunk,
/// big-endian.
///
/// `type`: one of DFS_CHECKSUM_*; DFS_CHECKSUM_DEFAULT is CRC-32C. `bytes_per_checksum`: bytes of a
/// chunk, at least 1; the last one may be shorter. `data`, `len`: the bytes. `sums`, `sums_len`:
/// memory for the sums, which must not overlap the data. `error`: may be NULL.
///
/// Returns the bytes of sums that were stored: 4 * ceil(len / bytes_per_checksum), or 0 for
/// DFS_CHECKSUM_NULL; DFS_E_INVALID_ARGUMENT (type, chunk size, or too little memory);
/// DFS_E_NULL_POINTER.
///
/// Threads: any, concurrent. Does not block. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_checksum_chunks(
    r#type: i32,
    bytes_per_checksum: usize,
    data: *const c_void,
    len: usize,
    sums: *mut c_void,
    sums_len: usize,
    error: *mut *mut dfs_error,
) -> i64 {
    run(error, || {
        let (ty, needed) = chunk_arguments(r#type, bytes_per_checksum, len, sums_len)?;
        let data = bytes(data, len, "data")?;
        let sums = bytes_mut(sums, needed, "sums")?;
        sum_chunks(ty, bytes_per_checksum, data, sums);
        count(needed as u64)
    })
}

/// Compares each chunk of a buffer with its checksum; the layout is that of dfs_checksum_chunks.
///
/// `bad_chunk`: receives the index, from 0, of the first chunk that does not match; may be NULL.
/// The other parameters are those of dfs_checksum_chunks.
///
/// Returns DFS_OK; DFS_E_CHECKSUM if a chunk does not match; DFS_E_INVALID_ARGUMENT (type, chunk
/// size, or too few sums); DFS_E_NULL_POINTER.
///
/// Threads: any, concurrent. Does not block. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_verify_chunks(
    r#type: i32,
    bytes_per_checksum: usize,
    data: *const c_void,
    len: usize,
    sums: *const c_void,
    sums_len: usize,
    bad_chunk: *mut u64,
    error: *mut *mut dfs_error,
) -> i32 {
    run(error, || {
        let (ty, needed) = chunk_arguments(r#type, bytes_per_checksum, len, sums_len)?;
        let data = bytes(data, len, "data")?;
        let sums = bytes(sums, needed, "sums")?;
        verify_chunks(ty, bytes_per_checksum, data, sums).map_err(|index| {
            Out::plain(bad_chunk, "bad_chunk").write(index as u64);
            let text = format!("chunk {index} does not match its {} sum", ty.name());
            Error::new(Status::Checksum, text)
        })?;
        Ok(0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_struct_has_no_padding() {
        assert_eq!(size_of::<dfs_checksum_info>(), 120);
    }
}
