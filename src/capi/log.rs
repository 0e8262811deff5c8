//! The log callback.
use super::boundary::run;
use super::error::dfs_error;
use crate::error::{Error, Status};
use crate::log::{Level, set_sink};
use std::ffi::{CString, c_char, c_void};

/// No log lines.
pub const DFS_LOG_OFF: i32 = 0;
/// What an operator must know.
pub const DFS_LOG_ERROR: i32 = 1;
/// What went wrong and was handled.
pub const DFS_LOG_WARN: i32 = 2;
/// Rare, normal events.
pub const DFS_LOG_INFO: i32 = 3;
/// Every decision.
pub const DFS_LOG_DEBUG: i32 = 4;

const _: () = assert!(
    DFS_LOG_ERROR == Level::Error as i32
        && DFS_LOG_WARN == Level::Warn as i32
        && DFS_LOG_INFO == Level::Info as i32
        && DFS_LOG_DEBUG == Level::Debug as i32
);

/// Receives one log line: its level (DFS_LOG_ERROR to DFS_LOG_DEBUG), the text with a NUL at the
/// end and its length without that, and the pointer that was given to dfs_log_set. The text is
/// valid during the call only. Called on any thread, also on the library's own and on several at
/// once; it must not call this library, unwind or longjmp, and should return soon, since a
/// caller of the library may be waiting.
pub type dfs_log_callback =
    Option<extern "C" fn(level: i32, line: *const c_char, len: usize, user_data: *mut c_void)>;

/// The caller's pointer, only ever handed back.
struct UserData(*mut c_void);

// SAFETY: the header demands that the callback can be called with it on any thread.
unsafe impl Send for UserData {}
// SAFETY: as above.
unsafe impl Sync for UserData {}

impl UserData {
    fn get(&self) -> *mut c_void {
        self.0
    }
}

/// Sets the receiver of log lines, one for the process; without it, lines go nowhere.
///
/// `level`: the most verbose level wanted, DFS_LOG_OFF to DFS_LOG_DEBUG. `callback`: NULL ends
/// logging. `user_data`: passed on as it is; when dfs_log_set returns, no thread uses the
/// previous callback and its data any more. `error`: may be NULL.
///
/// Returns DFS_OK, or DFS_E_INVALID_ARGUMENT for an unknown level.
///
/// Threads: any, but not from the callback. Blocks while a callback is running. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_log_set(
    level: i32,
    callback: dfs_log_callback,
    user_data: *mut c_void,
    error: *mut *mut dfs_error,
) -> i32 {
    run(error, || {
        if !(DFS_LOG_OFF..=DFS_LOG_DEBUG).contains(&level) {
            let text = format!("level {level} is not in {DFS_LOG_OFF}..={DFS_LOG_DEBUG}");
            return Err(Error::new(Status::InvalidArgument, text));
        }
        let user_data = UserData(user_data);
        let sink = callback.map(|callback| -> crate::log::Sink {
            Box::new(move |level: Level, line: &str| {
                // A NUL inside would end the line early; none of ours has one, but a server's may.
                let line = CString::new(line.replace('\0', " ")).unwrap_or_default();
                let len = line.as_bytes().len();
                callback(level as i32, line.as_ptr(), len, user_data.get());
            })
        });
        set_sink(sink, level);
        Ok(0)
    })
}
