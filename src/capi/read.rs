//! Reading.
use super::boundary::{bytes_mut, on, slice_mut};
use super::error::dfs_error;
use super::file::{FileObject, count, dfs_file};
use crate::error::{Error, Result, Status};
use std::ffi::c_void;

/// One piece of dfs_preadv. The layout is final.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct dfs_range {
    /// In: file offset of the first byte.
    pub offset: u64,
    /// In: memory for the bytes; ranges of one call must not overlap in memory.
    pub data: *mut c_void,
    /// In: bytes wanted.
    pub len: usize,
    /// Out: bytes read; fewer than `len` only at the end of the file.
    pub done: i64,
}

/// Reads at the cursor and moves it: fills the buffer unless the file ends before.
///
/// `buffer`: may be NULL if `len` is 0. `len`: bytes wanted. `error`: may be NULL.
///
/// Returns the bytes read: fewer than `len` at the end of the file, or when a failure follows,
/// which the next call then reports; 0 only at the end. DFS_E_BLOCK_MISSING if no replica
/// can be read (each is named); DFS_E_TIMED_OUT, DFS_E_CLOSED, DFS_E_WRONG_MODE,
/// DFS_E_INVALID_ARGUMENT (an impossible `len`), DFS_E_NULL_POINTER, DFS_E_BAD_HANDLE,
/// DFS_E_FORKED; what the NameNode says when block locations are fetched again.
///
/// Threads: any; calls at the cursor take their turn, dfs_pread does not wait for them. Blocks up
/// to the limit of the file (dfs_file_set_timeout), and within it up to
/// `dfs.client.socket-timeout` for each replica and `dfs.client.max.block.acquire.failures`
/// rounds. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_read(
    file: *mut dfs_file,
    buffer: *mut c_void,
    len: usize,
    error: *mut *mut dfs_error,
) -> i64 {
    on(file, "file", error, |file: &FileObject| {
        let buffer = bytes_mut(buffer, len, "buffer")?;
        Ok(file.input("dfs_read")?.read(buffer, file.deadline())? as i64)
    })
}

/// Reads at `offset`; the cursor does not matter and does not move. Fills the buffer unless the
/// file ends before.
///
/// `offset`: bytes from the start of the file. `buffer`: may be NULL if `len` is 0; its contents
/// are undefined after a failure. `len`: bytes wanted. `error`: may be NULL.
///
/// Returns the bytes read, fewer than `len` only at the end of the file, 0 behind it; or a status
/// of dfs_read.
///
/// Threads: any, concurrent; calls do not wait for each other. Blocks as dfs_read. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_pread(
    file: *mut dfs_file,
    offset: u64,
    buffer: *mut c_void,
    len: usize,
    error: *mut *mut dfs_error,
) -> i64 {
    on(file, "file", error, |file: &FileObject| {
        let buffer = bytes_mut(buffer, len, "buffer")?;
        Ok(file.input("dfs_pread")?.pread(offset, buffer, file.deadline())? as i64)
    })
}

/// Reads several ranges in one call; near ones are fetched together. The cursor does not matter.
///
/// `ranges`: offset, memory and length of each, in any order; `done` of each receives its bytes.
/// May be NULL if `range_count` is 0. `error`: may be NULL.
///
/// Returns the bytes read in all, or a status of dfs_pread for the first range that fails; then
/// every `done` is that status, and the contents of all buffers are undefined.
/// DFS_E_INVALID_ARGUMENT also if ranges overlap in memory.
///
/// Threads: any, concurrent. Blocks as dfs_read. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_preadv(
    file: *mut dfs_file,
    ranges: *mut dfs_range,
    range_count: usize,
    error: *mut *mut dfs_error,
) -> i64 {
    on(file, "file", error, |file: &FileObject| {
        let ranges = slice_mut(ranges, range_count, "ranges")?;
        let stream = file.input("dfs_preadv")?;
        check_overlap(ranges)?;
        let mut pieces = Vec::with_capacity(ranges.len());
        for (index, range) in ranges.iter().enumerate() {
            let memory = bytes_mut(range.data, range.len, &format!("ranges[{index}].data"))?;
            pieces.push((range.offset, memory));
        }
        match stream.preadv(&mut pieces, file.deadline()) {
            Ok(counts) => {
                let mut sum = 0;
                for (range, done) in ranges.iter_mut().zip(counts) {
                    range.done = done as i64;
                    sum += done as u64;
                }
                count(sum)
            }
            Err(e) => {
                for range in ranges {
                    range.done = i64::from(e.status() as i32);
                }
                Err(e)
            }
        }
    })
}

/// Two exclusive slices of the same memory would be undefined behaviour.
fn check_overlap(ranges: &[dfs_range]) -> Result<()> {
    let mut spans: Vec<(usize, usize, usize)> = ranges
        .iter()
        .enumerate()
        .filter(|(_, range)| range.len > 0)
        .map(|(index, range)| (range.data.addr(), range.len, index))
        .collect();
    spans.sort_unstable();
    for pair in spans.windows(2) {
        if let [(start, len, one), (next, _, other)] = *pair
            && next < start.saturating_add(len)
        {
            let text = format!("ranges[{one}] and ranges[{other}] overlap in memory");
            return Err(Error::new(Status::InvalidArgument, text));
        }
    }
    Ok(())
}

/// Moves the cursor. Nothing is sent.
///
/// `offset`: bytes from the start of the file, at most its known length. `error`: may be NULL.
///
/// Returns DFS_OK, DFS_E_OUT_OF_RANGE, DFS_E_CLOSED, DFS_E_WRONG_MODE, DFS_E_NULL_POINTER,
/// DFS_E_BAD_HANDLE or DFS_E_FORKED.
///
/// Threads: any, concurrent. Blocks while a dfs_read is running on the file. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_seek(file: *mut dfs_file, offset: u64, error: *mut *mut dfs_error) -> i32 {
    on(file, "file", error, |file: &FileObject| {
        file.input("dfs_seek")?.seek(offset)?;
        Ok(0)
    })
}

/// Bytes between the cursor and the known end of the file. Readers only.
///
/// Returns the count, DFS_E_WRONG_MODE, DFS_E_NULL_POINTER, DFS_E_BAD_HANDLE or DFS_E_FORKED.
///
/// Threads: any, concurrent. Does not block. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_available(file: *const dfs_file) -> i64 {
    on(file, "file", std::ptr::null_mut(), |file: &FileObject| {
        count(file.input("dfs_available")?.available())
    })
}

/// Asks for the length of a file that may be growing; later reads go up to it. Readers only.
///
/// `error`: may be NULL.
///
/// Returns the length in bytes, what dfs_open returns when reading, or DFS_E_CLOSED,
/// DFS_E_WRONG_MODE, DFS_E_NULL_POINTER, DFS_E_BAD_HANDLE, DFS_E_FORKED.
///
/// Threads: any, concurrent. Blocks up to the limit of the file (dfs_file_set_timeout), and within
/// it as calls to the NameNode do (`ipc.client.*`), and up to `dfs.client.socket-timeout` for a
/// DataNode. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_file_refresh(file: *mut dfs_file, error: *mut *mut dfs_error) -> i64 {
    on(file, "file", error, |file: &FileObject| {
        count(file.input("dfs_file_refresh")?.refresh(file.deadline())?)
    })
}

/// Gives back the connection and the buffers that dfs_read keeps for the next call; the cursor
/// stays. For readers that rest for long. Does nothing while a dfs_read is running.
///
/// Returns DFS_OK, DFS_E_WRONG_MODE, DFS_E_NULL_POINTER, DFS_E_BAD_HANDLE or DFS_E_FORKED.
///
/// Threads: any, concurrent. Blocks at most 0.6 s, to read a response to its end. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_file_unbuffer(file: *mut dfs_file) -> i32 {
    on(file, "file", std::ptr::null_mut(), |file: &FileObject| {
        file.input("dfs_file_unbuffer")?.unbuffer();
        Ok(0)
    })
}
