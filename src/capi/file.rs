//! What files have in common, whatever their direction.
use super::boundary::{self, CText, give_text, on};
use super::error::dfs_error;
use super::file_system::Limit;
use super::handle::{Kind, Object, pin};
use crate::error::{Error, Result, Status};
use crate::read::InputStream;
use crate::time::Deadline;
use crate::write::OutputStream;
use std::ffi::c_char;

/// An open file: a reader or a writer. Any number of threads may use it at once.
pub struct dfs_file {
    _opaque: [u8; 0],
}

pub(super) enum Stream {
    /// In a box, for a writer is much smaller.
    Input(Box<InputStream>),
    Output(OutputStream),
}

pub(super) struct FileObject {
    stream: Stream,
    path: CText,
    limit: Limit,
}

impl Object for FileObject {
    type C = dfs_file;
    const KIND: Kind = Kind::File;
    const SURVIVES_FORK: bool = false;
}

impl FileObject {
    pub(super) fn new(stream: Stream, path: &str, limit: Limit) -> FileObject {
        FileObject { stream, path: CText::new(path), limit }
    }

    #[cold]
    fn wrong_mode(&self, what: &str, opened: &str) -> Error {
        let path = String::from_utf8_lossy(self.path.as_bytes());
        let text = format!("{what} needs another direction: {path} was opened for {opened}");
        Error::new(Status::WrongMode, text)
    }

    /// The stream, for a call that reads.
    ///
    /// # Errors
    /// `WrongMode`, naming the call and the path.
    #[inline]
    pub(super) fn input(&self, what: &str) -> Result<&InputStream> {
        match &self.stream {
            Stream::Input(stream) => Ok(stream),
            Stream::Output(_) => Err(self.wrong_mode(what, "writing")),
        }
    }

    /// The stream, for a call that writes.
    ///
    /// # Errors
    /// `WrongMode`, naming the call and the path.
    #[inline]
    pub(super) fn output(&self, what: &str) -> Result<&OutputStream> {
        match &self.stream {
            Stream::Output(stream) => Ok(stream),
            Stream::Input(_) => Err(self.wrong_mode(what, "reading")),
        }
    }

    /// The time limit of a call, ms; 0 is none.
    pub(super) fn limit_ms(&self) -> u64 {
        self.limit.ms()
    }

    #[inline]
    pub(super) fn deadline(&self) -> Deadline {
        self.limit.deadline()
    }
}

/// A count of bytes as the API returns it.
///
/// # Errors
/// `OutOfRange` for more than an `int64_t` holds.
pub(super) fn count(bytes: u64) -> Result<i64> {
    let large = |_| Error::new(Status::OutOfRange, format!("{bytes} does not fit an int64_t"));
    i64::try_from(bytes).map_err(large)
}

/// Closes a file. A writer flushes, ends the last block and completes the file at the NameNode:
/// only after DFS_OK is the file whole. A reader gives back its connection. The handle must be
/// freed all the same.
///
/// `error`: may be NULL.
///
/// Returns DFS_OK (also for a file that is closed already); for a writer what dfs_hflush returns,
/// and what the NameNode says: DFS_E_LEASE_EXPIRED, DFS_E_NOT_REPLICATED... After
/// DFS_E_TIMED_OUT the file is still open and dfs_close may be called again. DFS_E_NULL_POINTER,
/// DFS_E_BAD_HANDLE, DFS_E_FORKED.
///
/// Threads: any; other calls on the file end before it, or fail with DFS_E_CLOSED after it.
/// Blocks up to the limit of the file (dfs_file_set_timeout), and within it as dfs_hflush does
/// and up to `dfs.client.block.write.locateFollowingBlock.retries` polls of the NameNode.
/// Readers: at most 0.6 s, to read a response to its end and keep the connection. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_close(file: *mut dfs_file, error: *mut *mut dfs_error) -> i32 {
    on(file, "file", error, |file: &FileObject| {
        match &file.stream {
            Stream::Input(stream) => stream.close(),
            Stream::Output(stream) => stream.close(file.deadline())?,
        }
        Ok(0)
    })
}

/// Frees a file. A writer that was not closed is abandoned: nothing more is sent, what was not
/// flushed is lost, and the NameNode closes the file when its lease runs out. NULL is fine.
///
/// Threads: any; calls that run on the file end first, and the file goes with the last of them.
/// Does not block. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_file_free(file: *mut dfs_file) {
    boundary::free::<FileObject>(file, "file");
}

/// Sets the time limit of each later call on the file. Calls that are running keep theirs.
///
/// `timeout_ms`: milliseconds a call; 0: `libdfs.call.timeout.ms`, or without that only the limits
/// of the single steps. A call that runs out of time returns DFS_E_TIMED_OUT; the file stays
/// usable.
///
/// Returns DFS_OK, DFS_E_NULL_POINTER, DFS_E_BAD_HANDLE or DFS_E_FORKED.
///
/// Threads: any, concurrent. Does not block. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_file_set_timeout(file: *mut dfs_file, timeout_ms: u64) -> i32 {
    on(file, "file", std::ptr::null_mut(), |file: &FileObject| {
        file.limit.set(timeout_ms);
        Ok(0)
    })
}

/// The path that was opened; it lives until the file is freed.
///
/// `len`: receives the length in bytes without the NUL at the end; may be NULL.
///
/// Returns NULL if `file` is no file of this process.
///
/// Threads: any, concurrent. Does not block. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_file_path(file: *const dfs_file, len: *mut usize) -> *const c_char {
    match pin::<FileObject>(file, "file") {
        Ok(file) => give_text(Some(&file.path), len),
        Err(_) => give_text(None, len),
    }
}

/// Offset of the next byte that dfs_read reads or dfs_write writes.
///
/// Returns the offset, DFS_E_NULL_POINTER, DFS_E_BAD_HANDLE or DFS_E_FORKED.
///
/// Threads: any, concurrent. Does not block. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_tell(file: *const dfs_file) -> i64 {
    on(file, "file", std::ptr::null_mut(), |file: &FileObject| {
        count(match &file.stream {
            Stream::Input(stream) => stream.tell(),
            Stream::Output(stream) => stream.pos(),
        })
    })
}

/// Length of the file in bytes. Reader: what may be read, as the last dfs_file_refresh (or
/// dfs_open) found it; of a file that is being written too. Writer: what was written so far, with
/// what was there before.
///
/// Returns the length, DFS_E_NULL_POINTER, DFS_E_BAD_HANDLE or DFS_E_FORKED.
///
/// Threads: any, concurrent. Does not block. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_file_length(file: *const dfs_file) -> i64 {
    on(file, "file", std::ptr::null_mut(), |file: &FileObject| {
        count(match &file.stream {
            Stream::Input(stream) => stream.len(),
            Stream::Output(stream) => stream.pos(),
        })
    })
}
