//! Writing.
use super::boundary::{bytes, copy_text, on};
use super::error::dfs_error;
use super::file::{FileObject, count, dfs_file};
use crate::error::{Error, Status};
use crate::write::SyncMode;
use std::ffi::{c_char, c_void};

/// dfs_hsync also tells the NameNode the new length, so that dfs_stat shows it.
pub const DFS_HSYNC_UPDATE_LENGTH: i32 = 1;
/// dfs_hsync also ends the block: the next byte begins a new one.
pub const DFS_HSYNC_END_BLOCK: i32 = 2;

/// Writes all of `len` bytes at the end of the file. They are copied and sent when a packet is
/// full; only dfs_hflush, dfs_hsync and dfs_close promise that they arrived.
///
/// `data`: may be NULL if `len` is 0. `len`: bytes. `error`: may be NULL.
///
/// Returns `len`. DFS_E_TIMED_OUT: dfs_tell says how many bytes were taken, and the file stays
/// usable. DFS_E_PIPELINE, DFS_E_LEASE_EXPIRED, DFS_E_NO_DATANODES...: the file is broken for
/// good (dfs_error_is_fatal), every later call returns the same, and dfs_error_durable_bytes says
/// what is safe. DFS_E_NO_MEMORY: the buffer pool stayed empty for `libdfs.buffer.pool.wait.ms`.
/// DFS_E_CLOSED, DFS_E_WRONG_MODE, DFS_E_INVALID_ARGUMENT (an impossible `len`),
/// DFS_E_NULL_POINTER, DFS_E_BAD_HANDLE, DFS_E_FORKED.
///
/// Threads: any, concurrent; the bytes of one call stay together. Mostly does not block; while
/// `dfs.client.write.max-packets-in-flight` packets are unanswered, and where a block ends, it
/// blocks up to the limit of the file (dfs_file_set_timeout), and within it up to
/// `dfs.client.socket-timeout` for an answer, besides recovery (see dfs_hflush). Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_write(
    file: *mut dfs_file,
    data: *const c_void,
    len: usize,
    error: *mut *mut dfs_error,
) -> i64 {
    on(file, "file", error, |file: &FileObject| {
        let data = bytes(data, len, "data")?;
        let stream = file.output("dfs_write")?;
        if !stream.try_write(data) {
            stream.write(data, file.deadline())?;
        }
        Ok(len as i64)
    })
}

/// Returns when every byte written before is in the memory of all DataNodes of the pipeline:
/// readers that open the file, or refresh it, see the bytes.
///
/// `error`: may be NULL.
///
/// Returns DFS_OK, or what dfs_write returns. After DFS_E_TIMED_OUT the bytes may still become
/// durable, and the call may be repeated.
///
/// Threads: any, concurrent: flushes that meet are served by one packet, and dfs_write goes on
/// meanwhile. Blocks up to the limit of the file (dfs_file_set_timeout), and within it up to
/// `dfs.client.socket-timeout` for an answer. When a DataNode fails, the pipeline is rebuilt,
/// which may take `dfs.client.pipeline.recovery.max-retries` such rounds. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_hflush(file: *mut dfs_file, error: *mut *mut dfs_error) -> i32 {
    on(file, "file", error, |file: &FileObject| {
        file.output("dfs_hflush")?.flush(SyncMode::default(), file.deadline())?;
        Ok(0)
    })
}

/// As dfs_hflush, and the DataNodes have also synced the current block to their disks.
///
/// `flags`: 0, DFS_HSYNC_UPDATE_LENGTH, DFS_HSYNC_END_BLOCK or both. `error`: may be NULL.
///
/// Returns DFS_OK; DFS_E_BAD_FLAGS for unknown flags; or what dfs_hflush returns.
///
/// Threads and blocking: as dfs_hflush; disks make it slower. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_hsync(file: *mut dfs_file, flags: i32, error: *mut *mut dfs_error) -> i32 {
    on(file, "file", error, |file: &FileObject| {
        let unknown = flags & !(DFS_HSYNC_UPDATE_LENGTH | DFS_HSYNC_END_BLOCK);
        if unknown != 0 {
            let text = format!("flags has the unknown bits 0x{unknown:x}");
            return Err(Error::new(Status::BadFlags, text));
        }
        let mode = SyncMode {
            sync: true,
            update_length: flags & DFS_HSYNC_UPDATE_LENGTH != 0,
            end_block: flags & DFS_HSYNC_END_BLOCK != 0,
        };
        file.output("dfs_hsync")?.flush(mode, file.deadline())?;
        Ok(0)
    })
}

/// File bytes, counted from 0, that every DataNode of the pipeline has acknowledged. Writers
/// only; also of a file that is broken or closed.
///
/// Returns the count, DFS_E_WRONG_MODE, DFS_E_NULL_POINTER, DFS_E_BAD_HANDLE or DFS_E_FORKED.
///
/// Threads: any, concurrent. Does not block. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_file_durable(file: *const dfs_file) -> i64 {
    on(file, "file", std::ptr::null_mut(), |file: &FileObject| {
        count(file.output("dfs_file_durable")?.durable())
    })
}

/// The DataNodes that the current block is written to, first one first, as "ip:port,ip:port";
/// empty between blocks. Writers only.
///
/// `buffer`: receives as much of the text as fits, with a NUL at the end. `size`: bytes of
/// `buffer`; if 0, it may be NULL. `error`: may be NULL.
///
/// Returns the length of the whole text without the NUL: it was cut if that is not below `size`.
/// DFS_E_WRONG_MODE, DFS_E_NULL_POINTER, DFS_E_BAD_HANDLE, DFS_E_FORKED.
///
/// Threads: any, concurrent. Does not block. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_file_pipeline(
    file: *const dfs_file,
    buffer: *mut c_char,
    size: usize,
    error: *mut *mut dfs_error,
) -> i64 {
    on(file, "file", error, |file: &FileObject| {
        let nodes = file.output("dfs_file_pipeline")?.pipeline();
        copy_text(&nodes.join(","), buffer, size)
    })
}
