//! Error objects.
use super::boundary::{CText, Out, give_text};
use super::handle::{self, Kind, Object, pin};
use crate::error::{Error, Result, Status};
use std::ffi::c_char;

/// Why a call failed. The caller frees it with dfs_error_free. Unlike other handles it may be used
/// in a forked child.
pub struct dfs_error {
    _opaque: [u8; 0],
}

/// An error with its texts as C reads them.
pub(super) struct ErrorObject {
    pub(super) error: Error,
    message: CText,
    remote_class: Option<CText>,
    remote_message: Option<CText>,
    server: Option<CText>,
    stage: Option<CText>,
}

impl Object for ErrorObject {
    type C = dfs_error;
    const KIND: Kind = Kind::Error;
    const SURVIVES_FORK: bool = true;
}

/// Gives an error to C.
///
/// # Errors
/// `NoMemory` when there are too many handles.
pub(super) fn make(error: Error) -> Result<*mut dfs_error> {
    handle::insert(ErrorObject {
        message: CText::new(error.message()),
        remote_class: error.remote_class().map(CText::new),
        remote_message: error.remote_message().map(CText::new),
        server: error.server().map(CText::new),
        stage: error.stage().map(CText::new),
        error,
    })
}

fn give(
    error: *const dfs_error,
    len: *mut usize,
    field: impl FnOnce(&ErrorObject) -> Option<&CText>,
) -> *const c_char {
    match pin::<ErrorObject>(error, "error") {
        Ok(object) => give_text(field(&object), len),
        Err(_) => {
            Out::plain(len, "len").write(0);
            std::ptr::null()
        }
    }
}

/// Status of the error: what the failed call returned. DFS_E_NULL_POINTER or DFS_E_BAD_HANDLE if
/// `error` is no error object.
///
/// Threads: any, concurrent. Does not block. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_error_status(error: *const dfs_error) -> i32 {
    match pin::<ErrorObject>(error, "error") {
        Ok(object) => object.error.status() as i32,
        Err(e) => e.status() as i32,
    }
}

/// The whole message in English: what was attempted, on what, and what came back. It never has
/// a password or token.
///
/// `len` receives the length in bytes without the NUL at the end; it may be NULL. The text lives
/// until the error is freed. NULL if `error` is no error object.
///
/// Threads: any, concurrent. Does not block. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_error_message(error: *const dfs_error, len: *mut usize) -> *const c_char {
    give(error, len, |e| Some(&e.message))
}

/// Full Java class name of the exception that a server sent, such as
/// "org.apache.hadoop.security.AccessControlException"; NULL if none was sent.
///
/// `len` and lifetime are those of dfs_error_message.
///
/// Threads: any, concurrent. Does not block. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_error_remote_class(
    error: *const dfs_error,
    len: *mut usize,
) -> *const c_char {
    give(error, len, |e| e.remote_class.as_ref())
}

/// The server's own words; NULL if it sent none. They may have several lines.
///
/// `len` and lifetime are those of dfs_error_message.
///
/// Threads: any, concurrent. Does not block. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_error_remote_message(
    error: *const dfs_error,
    len: *mut usize,
) -> *const c_char {
    give(error, len, |e| e.remote_message.as_ref())
}

/// The server at fault as "host:port"; NULL if none is known.
///
/// `len` and lifetime are those of dfs_error_message.
///
/// Threads: any, concurrent. Does not block. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_error_server(error: *const dfs_error, len: *mut usize) -> *const c_char {
    give(error, len, |e| e.server.as_ref())
}

/// What was being done when it failed, such as "connecting"; NULL if nothing more is known than
/// the call.
///
/// `len` and lifetime are those of dfs_error_message.
///
/// Threads: any, concurrent. Does not block. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_error_stage(error: *const dfs_error, len: *mut usize) -> *const c_char {
    give(error, len, |e| e.stage.as_ref())
}

/// After a failed write, flush or close: file bytes, counted from 0, that every DataNode has
/// acknowledged for certain. Negative if the error carries no such number.
///
/// Threads: any, concurrent. Does not block. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_error_durable_bytes(error: *const dfs_error) -> i64 {
    let unknown = i64::from(Status::InvalidArgument as i32);
    match pin::<ErrorObject>(error, "error") {
        Ok(object) => {
            object.error.durable_bytes().and_then(|n| i64::try_from(n).ok()).unwrap_or(unknown)
        }
        Err(e) => i64::from(e.status() as i32),
    }
}

/// 1 if the same call may succeed later without any change by the caller, else 0.
///
/// Threads: any, concurrent. Does not block. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_error_is_retriable(error: *const dfs_error) -> i32 {
    pin::<ErrorObject>(error, "error").map_or(0, |object| object.error.is_retriable().into())
}

/// 1 if the handle that was used is broken for good: every later call on it fails, and all that
/// is left is to free it. Else 0.
///
/// Threads: any, concurrent. Does not block. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_error_is_fatal(error: *const dfs_error) -> i32 {
    pin::<ErrorObject>(error, "error").map_or(0, |object| object.error.is_fatal().into())
}

/// Frees an error and its texts. NULL is fine.
///
/// Threads: any. Does not block. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_error_free(error: *mut dfs_error) {
    super::boundary::free::<ErrorObject>(error, "error");
}
