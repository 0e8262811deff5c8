//! Calls that never wait: flush tickets, partial writes, a close in the background.
use super::boundary::{Out, bytes, on};
use super::error::dfs_error;
use super::file::{FileObject, count, dfs_file};
use crate::error::{Error, Result, Status};
use crate::time::Deadline;
use crate::write::SyncMode;
use std::ffi::c_void;

/// dfs_flush_begin: the DataNodes sync the block to their disks, as for dfs_hsync.
pub const DFS_FLUSH_SYNC: i32 = 4;

fn position(value: i64) -> Result<u64> {
    u64::try_from(value)
        .map_err(|_| Error::new(Status::InvalidArgument, format!("position {value} is negative")))
}

/// Begins a flush of every byte written before and returns at once, with its ticket: the position
/// in the file up to which it goes. Any number of flushes may be under way; they complete in the
/// order in which they were begun, each exactly once.
///
/// A flush that cannot be sent at once (no pipeline stands, all packets of the window are under
/// way, another thread is in dfs_write) is sent by a thread of the library, or by the first
/// dfs_flush_wait or dfs_flush_poll that can.
///
/// `flags`: 0 or DFS_FLUSH_SYNC. `error`: may be NULL.
///
/// Returns the position; DFS_E_BAD_FLAGS; or a lasting error, as dfs_write does.
///
/// Threads: any, concurrent. Does not block. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_flush_begin(
    file: *mut dfs_file,
    flags: i32,
    error: *mut *mut dfs_error,
) -> i64 {
    on(file, "file", error, |file: &FileObject| {
        let unknown = flags & !DFS_FLUSH_SYNC;
        if unknown != 0 {
            let text = format!("flags has the unknown bits 0x{unknown:x}");
            return Err(Error::new(Status::BadFlags, text));
        }
        let mode = SyncMode { sync: flags & DFS_FLUSH_SYNC != 0, ..SyncMode::default() };
        count(file.output("dfs_flush_begin")?.flush_begin(mode)?)
    })
}

/// Returns when every flush that was begun up to a position is complete: what dfs_hflush (or, with
/// DFS_FLUSH_SYNC, dfs_hsync) promises holds for the bytes below it.
///
/// `position`: what dfs_flush_begin returned. `timeout_ms`: limit of this call; 0: that of the
/// file. `error`: may be NULL.
///
/// Returns DFS_OK; DFS_E_INVALID_ARGUMENT if no flush was begun that reaches the position; or what
/// dfs_hflush returns. After DFS_E_TIMED_OUT the flush is still under way. After a lasting error
/// dfs_error_durable_bytes says what is certainly durable; whether the bytes from there up to
/// dfs_tell became so is unknown.
///
/// Threads: any, concurrent, also for the same position. Blocks as dfs_hflush. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_flush_wait(
    file: *mut dfs_file,
    position: i64,
    timeout_ms: u64,
    error: *mut *mut dfs_error,
) -> i32 {
    on(file, "file", error, |file: &FileObject| {
        let position = self::position(position)?;
        let stream = file.output("dfs_flush_wait")?;
        let deadline =
            if timeout_ms == 0 { file.deadline() } else { Deadline::after_ms(timeout_ms) };
        stream.flush_wait(position, deadline)?;
        Ok(0)
    })
}

/// Takes in the acknowledgements that are there and says which flushes completed.
///
/// `position`: receives the position up to which flushes are complete; may be NULL. `error`: may
/// be NULL.
///
/// Returns how many flushes completed since the last poll: every one is counted by exactly one
/// call, in order. When there is none and others are under way: the lasting error of the file, or
/// DFS_E_PIPELINE while fewer DataNodes than `options->min_replicas` are in the pipeline. A fault
/// of the pipeline is repaired by a thread of the library meanwhile. dfs_file_durable says at any
/// time what is durable, begun flush or not.
///
/// Threads: any, concurrent. Does not block. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_flush_poll(
    file: *mut dfs_file,
    position: *mut i64,
    error: *mut *mut dfs_error,
) -> i64 {
    on(file, "file", error, |file: &FileObject| {
        let progress = file.output("dfs_flush_poll")?.flush_poll()?;
        let at = count(progress.position)?;
        Out::plain(position, "position").write(at);
        count(progress.completed)
    })
}

/// Writes as many of `len` bytes as need no waiting, from the first one on.
///
/// `data`: may be NULL if `len` is 0. `len`: bytes. `error`: may be NULL.
///
/// Returns the number of bytes taken, which may be less than `len`; DFS_E_WOULD_BLOCK if none
/// could be, because another thread is writing, all packets of the window are under way, or a
/// block ends (a thread of the library sees to the next); or a lasting error, as dfs_write does.
///
/// Threads: any, concurrent; the bytes that one call takes stay together. Does not block.
/// Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_try_write(
    file: *mut dfs_file,
    data: *const c_void,
    len: usize,
    error: *mut *mut dfs_error,
) -> i64 {
    on(file, "file", error, |file: &FileObject| {
        let data = bytes(data, len, "data")?;
        let stream = file.output("dfs_try_write")?;
        let taken = stream.write_at_once(data)?;
        if taken == 0 && !data.is_empty() {
            let text = format!("{}: the write would have to wait", stream.path());
            return Err(Error::new(Status::WouldBlock, text));
        }
        count(taken as u64)
    })
}

/// Builds the pipeline of the next block, if none stands. The flush that comes first then finds
/// it, and costs one call to the NameNode more than any other. A block that gets no bytes is given
/// back when the file is closed. For a log that is to take over at once: open, prepare, switch.
///
/// `error`: may be NULL.
///
/// Returns DFS_OK, or what dfs_write returns. After DFS_E_TIMED_OUT the first write goes on with
/// it.
///
/// Threads: any, concurrent. Blocks up to the limit of the file, and within it as dfs_write at
/// the beginning of a block. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_prepare(file: *mut dfs_file, error: *mut *mut dfs_error) -> i32 {
    on(file, "file", error, |file: &FileObject| {
        file.output("dfs_prepare")?.prepare(file.deadline())?;
        Ok(0)
    })
}

/// Has a thread of the library close a file that was written; returns at once. The limit of the
/// file counts from when the thread begins. The handle may be freed meanwhile: the close goes on.
/// Further writes fail with DFS_E_CLOSED, or come before the end. (Not for readers, whose
/// dfs_close does not wait for a server that is slow.)
///
/// `error`: may be NULL.
///
/// Returns DFS_OK (also if it was begun before); DFS_E_IO if no thread can be started;
/// DFS_E_WRONG_MODE, DFS_E_NULL_POINTER, DFS_E_BAD_HANDLE, DFS_E_FORKED.
///
/// Threads: any, concurrent. At most three files are closed at the same time, others wait their
/// turn. Does not block. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_close_begin(file: *mut dfs_file, error: *mut *mut dfs_error) -> i32 {
    on(file, "file", error, |file: &FileObject| {
        file.output("dfs_close_begin")?.close_begin(file.limit_ms())?;
        Ok(0)
    })
}

/// Whether a close that was begun is done.
///
/// `error`: may be NULL.
///
/// Returns 1 if the file is closed, 0 while it is being closed; what dfs_close would have
/// returned if that failed, once: after DFS_E_TIMED_OUT and other errors that are not lasting
/// dfs_close_begin or dfs_close may be called again. DFS_E_INVALID_ARGUMENT if no close was begun.
///
/// Threads: any, concurrent. Does not block. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_close_poll(file: *mut dfs_file, error: *mut *mut dfs_error) -> i32 {
    on(file, "file", error, |file: &FileObject| {
        Ok(i32::from(file.output("dfs_close_poll")?.close_poll()?))
    })
}
