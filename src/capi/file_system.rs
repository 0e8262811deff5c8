//! Connections to a file system.
use super::boundary::{self, CText, Out, give_text, on, optional_text, run};
use super::config::{ConfigObject, dfs_config};
use super::error::dfs_error;
use super::handle::{Kind, Object, pin};
use crate::client::file_system::FileSystem;
use crate::client::metadata::Metadata;
use crate::conf::Config;
use crate::error::Result;
use crate::time::Deadline;
use std::ffi::c_char;
use std::sync::atomic::{AtomicU64, Ordering};

/// A connected file system: connections, caches, buffers and leases that its files share. Any
/// number of threads may use it at once.
pub struct dfs_fs {
    _opaque: [u8; 0],
}

pub(super) struct FileSystemObject {
    pub(super) fs: FileSystem,
    uri: CText,
    limit: Limit,
}

impl Object for FileSystemObject {
    type C = dfs_fs;
    const KIND: Kind = Kind::FileSystem;
    const SURVIVES_FORK: bool = false;
}

/// Time limit of each call on a handle, ms; 0 is none besides those inside.
#[derive(Debug)]
pub(super) struct Limit {
    now_ms: AtomicU64,
    configured_ms: u64,
}

impl Limit {
    /// `wanted_ms` 0 takes the configured limit.
    pub(super) fn new(wanted_ms: u64, configured_ms: u64) -> Limit {
        let limit = Limit { now_ms: AtomicU64::new(0), configured_ms };
        limit.set(wanted_ms);
        limit
    }

    pub(super) fn set(&self, wanted_ms: u64) {
        let ms = if wanted_ms == 0 { self.configured_ms } else { wanted_ms };
        self.now_ms.store(ms, Ordering::Relaxed);
    }

    pub(super) fn ms(&self) -> u64 {
        self.now_ms.load(Ordering::Relaxed)
    }

    /// The deadline of a call that begins now. Reads the clock only if there is a limit: the clock
    /// costs more than writing a few bytes.
    #[inline]
    pub(super) fn deadline(&self) -> Deadline {
        match self.ms() {
            0 => Deadline::NONE,
            ms => Deadline::after_ms(ms),
        }
    }
}

impl FileSystemObject {
    pub(super) fn metadata(&self) -> Result<Metadata> {
        self.fs.metadata()
    }

    pub(super) fn deadline(&self) -> Deadline {
        self.limit.deadline()
    }

    /// The limit of a file that is opened: its own, else that of the file system.
    pub(super) fn file_limit(&self, wanted_ms: u64) -> Limit {
        let ms = if wanted_ms == 0 { self.limit.ms() } else { wanted_ms };
        Limit::new(ms, self.limit.configured_ms)
    }
}

/// Connects to a file system and asks its NameNode for the defaults, so that a wrong address
/// fails here and not at the first file.
///
/// `config`: settings, copied; NULL: as dfs_config_load(NULL). `uri`: "hdfs://host:port", or
/// "hdfs://nameservice" with the nameservice in the configuration; NULL: `fs.defaultFS`.
/// `out`: receives the file system, to be freed with dfs_fs_free. `error`: may be NULL.
///
/// Returns DFS_OK; DFS_E_CONFIG (key and value named) or DFS_E_INVALID_ARGUMENT (a URI that is
/// not HDFS) for what the caller gave; DFS_E_UNKNOWN_HOST, DFS_E_CONNECT, DFS_E_TIMED_OUT,
/// DFS_E_NOT_HDFS, DFS_E_STANDBY, DFS_E_AUTH, DFS_E_PROTECTION for the server (named);
/// DFS_E_NULL_POINTER, DFS_E_BAD_UTF8, DFS_E_BAD_HANDLE, DFS_E_NO_MEMORY.
///
/// Threads: any, concurrent. Blocks up to `libdfs.call.timeout.ms` if that is set, and within it
/// up to `ipc.client.connect.timeout` and `ipc.client.connect.max.retries` for each address of
/// each NameNode. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_connect(
    config: *const dfs_config,
    uri: *const c_char,
    out: *mut *mut dfs_fs,
    error: *mut *mut dfs_error,
) -> i32 {
    let out = Out::handle(out, "out");
    run(error, || {
        out.check()?;
        let config = if config.is_null() {
            Config::load_default()?
        } else {
            pin::<ConfigObject>(config, "config")?.settings()?
        };
        let uri = optional_text(uri, "uri")?;
        let configured_ms = config.freeze(None)?.call_timeout_ms;
        let fs = FileSystem::connect(&config, uri, Deadline::after_ms(configured_ms))?;
        let uri = CText::new(fs.uri());
        out.give(FileSystemObject { fs, uri, limit: Limit::new(0, configured_ms) })
    })
}

/// Sets the time limit of each later call on the file system (not on files that are open). Calls
/// that are running keep theirs.
///
/// `timeout_ms`: milliseconds a call; 0: `libdfs.call.timeout.ms`, or without that only the limits
/// of the single steps. A call that runs out of time returns DFS_E_TIMED_OUT.
///
/// Returns DFS_OK, DFS_E_NULL_POINTER, DFS_E_BAD_HANDLE or DFS_E_FORKED.
///
/// Threads: any, concurrent. Does not block. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_fs_set_timeout(fs: *mut dfs_fs, timeout_ms: u64) -> i32 {
    on(fs, "fs", std::ptr::null_mut(), |fs: &FileSystemObject| {
        fs.limit.set(timeout_ms);
        Ok(0)
    })
}

/// URI of the file system, as "hdfs://authority"; it lives until the file system is freed.
///
/// `len`: receives the length in bytes without the NUL at the end; may be NULL.
///
/// Returns NULL if `fs` is no file system of this process.
///
/// Threads: any, concurrent. Does not block. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_fs_uri(fs: *const dfs_fs, len: *mut usize) -> *const c_char {
    match pin::<FileSystemObject>(fs, "fs") {
        Ok(fs) => give_text(Some(&fs.uri), len),
        Err(_) => give_text(None, len),
    }
}

/// Ends a file system: its connections are closed, calls that wait on it or its files return
/// DFS_E_CLOSED, later ones too, and files that are still written are abandoned. Optional:
/// dfs_fs_free alone lets open files go on.
///
/// `error`: may be NULL.
///
/// Returns DFS_OK (also the second time), DFS_E_NULL_POINTER, DFS_E_BAD_HANDLE or DFS_E_FORKED.
///
/// Threads: any, concurrent. Does not block. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_fs_close(fs: *mut dfs_fs, error: *mut *mut dfs_error) -> i32 {
    on(fs, "fs", error, |fs: &FileSystemObject| {
        fs.fs.close();
        Ok(0)
    })
}

/// Frees a file system. Its files, lists and the calls that run go on: what they need lives until
/// the last of them ends. NULL is fine.
///
/// Threads: any. Does not block. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_fs_free(fs: *mut dfs_fs) {
    boundary::free::<FileSystemObject>(fs, "fs");
}
