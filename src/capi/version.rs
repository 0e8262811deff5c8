//! Version of the library at run time.
use std::ffi::c_char;

const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");

const fn number(text: &str) -> u32 {
    let bytes = text.as_bytes();
    let mut value = 0;
    let mut i = 0;
    while i < bytes.len() {
        value = value * 10 + (bytes[i] - b'0') as u32;
        i += 1;
    }
    value
}

/// Version of the library that is loaded, as `DFS_VERSION_NUMBER` counts it: 10000 * major +
/// 100 * minor + patch. Compare it with the macro, which has the version of the header.
///
/// Threads: any, concurrent. Does not block. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_version() -> u32 {
    const NUMBER: u32 = 10_000 * number(env!("CARGO_PKG_VERSION_MAJOR"))
        + 100 * number(env!("CARGO_PKG_VERSION_MINOR"))
        + number(env!("CARGO_PKG_VERSION_PATCH"));
    NUMBER
}

/// Version of the library that is loaded, such as "0.1.0"; never freed.
///
/// Threads: any, concurrent. Does not block. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_version_string() -> *const c_char {
    VERSION.as_ptr().cast()
}

/// Ends the library's work in this process: calls that wait return DFS_E_CLOSED or
/// DFS_E_SHUTDOWN, files that are still written are abandoned, connections are closed and the
/// background threads are joined. Handles stay valid for their `_free` functions. Not needed
/// before `exit`. A later dfs_connect starts afresh.
///
/// Returns DFS_OK, or DFS_E_PANIC after an internal error.
///
/// Threads: any, but not from the log callback. Blocks until the background threads have ended,
/// which takes as long as one lease renewal at most (`ipc.client.rpc-timeout.ms`). Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_shutdown() -> i32 {
    super::boundary::run(std::ptr::null_mut(), || {
        crate::client::file_system::shutdown();
        Ok(0)
    })
}
