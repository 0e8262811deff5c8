//! libdfs as a C program meets it: `libdfs.so`, opened at run time, through the functions of
//! `include/dfs.h`.
#![allow(
    clippy::multiple_unsafe_ops_per_block,
    reason = "a call through a loaded function pointer is one operation, but counts as two"
)]
use crate::api::{Fs, In, Log, Out, Result};
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::Path;
use std::ptr::{self, NonNull};
use std::sync::Arc;

// Values of include/dfs.h.
const DFS_READ: i32 = 1;
const DFS_WRITE: i32 = 2;
const DFS_CREATE: i32 = 4;
const DFS_OVERWRITE: i32 = 8;
const DFS_CREATE_PARENTS: i32 = 32;
const DFS_PREPARE: i32 = 2048;

/// `dfs_stats`, as far as it is used: the size, then 64-bit counters.
#[repr(C)]
struct Stats {
    size: u32,
    reserved: u32,
    counters: [u64; READ_CONNECTS + 1],
}

/// Place of `read_connects` among the counters.
const READ_CONNECTS: usize = 18;

/// An opaque object of the library.
type Handle = *mut c_void;
type Errors = *mut Handle;

/// `dfs_open_options`.
#[repr(C)]
struct OpenOptions {
    size: u32,
    replication: u32,
    block_size: u64,
    permission: u32,
    bytes_per_checksum: u32,
    checksum_type: i32,
    packet_size: u32,
    timeout_ms: u64,
    readahead: u64,
    favored_nodes: *const c_char,
    flags: [u8; 4],
    min_replicas: u32,
}

macro_rules! library {
    ($($name:ident: $type:ty;)*) => {
        /// The functions that are used.
        struct Library { $($name: $type,)* }

        impl Library {
            fn load(path: &Path) -> Result<Library> {
                let text = CString::new(path.as_os_str().as_encoded_bytes());
                let text = text.map_err(|e| format!("{}: {e}", path.display()))?;
                let flags: c_int = libc::RTLD_NOW | libc::RTLD_LOCAL;
                // SAFETY: a NUL-terminated path; the library's initialisers have no demands.
                let library = unsafe { libc::dlopen(text.as_ptr(), flags) };
                if library.is_null() {
                    return Err(dl_error());
                }
                // The library stays loaded until the end of the process.
                Ok(Library { $($name: {
                    let name = concat!(stringify!($name), "\0");
                    // SAFETY: a loaded library and a NUL-terminated name.
                    let found = unsafe { libc::dlsym(library, name.as_ptr().cast()) };
                    if found.is_null() {
                        return Err(dl_error());
                    }
                    // SAFETY: the header declares the function with this type.
                    unsafe { std::mem::transmute::<*mut c_void, $type>(found) }
                },)* })
            }
        }
    };
}

library! {
    dfs_version_string: unsafe extern "C" fn() -> *const c_char;
    dfs_config_new: unsafe extern "C" fn(Errors, Errors) -> i32;
    dfs_config_set: unsafe extern "C" fn(Handle, *const c_char, *const c_char, Errors) -> i32;
    dfs_config_free: unsafe extern "C" fn(Handle);
    dfs_connect: unsafe extern "C" fn(Handle, *const c_char, Errors, Errors) -> i32;
    dfs_fs_free: unsafe extern "C" fn(Handle);
    dfs_stats_get: unsafe extern "C" fn(Handle, *mut Stats, Errors) -> i32;
    dfs_open: unsafe extern "C" fn(
        Handle, *const c_char, i32, *const OpenOptions, Errors, Errors) -> i32;
    dfs_write: unsafe extern "C" fn(Handle, *const c_void, usize, Errors) -> i64;
    dfs_hflush: unsafe extern "C" fn(Handle, Errors) -> i32;
    dfs_close_begin: unsafe extern "C" fn(Handle, Errors) -> i32;
    dfs_close: unsafe extern "C" fn(Handle, Errors) -> i32;
    dfs_file_free: unsafe extern "C" fn(Handle);
    dfs_file_length: unsafe extern "C" fn(Handle) -> i64;
    dfs_read: unsafe extern "C" fn(Handle, *mut c_void, usize, Errors) -> i64;
    dfs_pread: unsafe extern "C" fn(Handle, u64, *mut c_void, usize, Errors) -> i64;
    dfs_error_message: unsafe extern "C" fn(Handle, *mut usize) -> *const c_char;
    dfs_error_free: unsafe extern "C" fn(Handle);
}

fn dl_error() -> String {
    // SAFETY: dlerror has no demands; its text lives until the next dl call of this thread.
    let text = unsafe { libc::dlerror() };
    match NonNull::new(text) {
        // SAFETY: dlerror's text is NUL-terminated.
        Some(text) => unsafe { CStr::from_ptr(text.as_ptr()) }.to_string_lossy().into_owned(),
        None => "the library cannot be loaded".to_owned(),
    }
}

impl Library {
    /// Runs a call that takes an error slot; a negative result is a failure.
    fn check(&self, call: impl FnOnce(Errors) -> i64) -> Result<i64> {
        let mut error: Handle = ptr::null_mut();
        let result = call(&raw mut error);
        if result >= 0 {
            return Ok(result);
        }
        if error.is_null() {
            return Err(format!("status {result}"));
        }
        // SAFETY: an error object that a failed call gave.
        let text = unsafe { (self.dfs_error_message)(error, ptr::null_mut()) };
        // SAFETY: its message is NUL-terminated and lives as long as the object.
        let message = unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned();
        // SAFETY: our own error object, not used after this.
        unsafe { (self.dfs_error_free)(error) };
        Err(message)
    }
}

/// A loaded library.
pub(crate) struct Loaded(Arc<Library>);

/// Loads the library.
pub(crate) fn load(path: &Path) -> Result<Loaded> {
    Library::load(path).map(|library| Loaded(Arc::new(library)))
}

fn c_text(text: &str) -> Result<CString> {
    CString::new(text).map_err(|e| format!("{text:?}: {e}"))
}

struct CFs {
    library: Arc<Library>,
    handle: Handle,
}

struct CFile {
    library: Arc<Library>,
    handle: Handle,
}

// SAFETY: the header allows every function used here from any thread, concurrently.
unsafe impl Send for CFs {}
// SAFETY: as above.
unsafe impl Sync for CFs {}
// SAFETY: as above.
unsafe impl Send for CFile {}
// SAFETY: as above.
unsafe impl Sync for CFile {}

impl Loaded {
    /// What `dfs_version_string` says.
    pub(crate) fn version(&self) -> String {
        // SAFETY: no demands; the text is static and NUL-terminated.
        let text = unsafe { CStr::from_ptr((self.0.dfs_version_string)()) };
        text.to_string_lossy().into_owned()
    }

    /// Connects with settings on top of the defaults.
    pub(crate) fn connect(&self, uri: &str, settings: &[(String, String)]) -> Result<Box<dyn Fs>> {
        let library = Arc::clone(&self.0);
        let mut config: Handle = ptr::null_mut();
        let mut handle: Handle = ptr::null_mut();
        // SAFETY: both slots are ours and valid.
        library.check(|e| i64::from(unsafe { (library.dfs_config_new)(&raw mut config, e) }))?;
        for (key, value) in settings {
            let (key, value) = (c_text(key)?, c_text(value)?);
            let (key, value) = (key.as_ptr(), value.as_ptr());
            // SAFETY: a live configuration and NUL-terminated texts.
            library.check(|e| unsafe { (library.dfs_config_set)(config, key, value, e) }.into())?;
        }
        let uri = c_text(uri)?;
        let out = &raw mut handle;
        let uri = uri.as_ptr();
        // SAFETY: a live configuration, a NUL-terminated URI and valid slots.
        let connected =
            library.check(|e| unsafe { (library.dfs_connect)(config, uri, out, e) }.into());
        // SAFETY: our own configuration, not used after this.
        unsafe { (library.dfs_config_free)(config) };
        connected?;
        Ok(Box::new(CFs { library, handle }))
    }
}

impl CFs {
    fn file(
        &self,
        path: &str,
        flags: i32,
        replication: u32,
        block_size: u64,
    ) -> Result<Box<CFile>> {
        // SAFETY: plain old data, for which all zeroes means the defaults.
        let mut options: OpenOptions = unsafe { std::mem::zeroed() };
        options.size = size_of::<OpenOptions>() as u32;
        options.replication = replication;
        options.block_size = block_size;
        let path = c_text(path)?;
        let mut handle: Handle = ptr::null_mut();
        let out = &raw mut handle;
        let library = &self.library;
        library.check(|e| {
            // SAFETY: a live file system, a NUL-terminated path, options of the header's layout
            // and valid slots.
            unsafe { (library.dfs_open)(self.handle, path.as_ptr(), flags, &options, out, e) }
                .into()
        })?;
        Ok(Box::new(CFile { library: Arc::clone(library), handle }))
    }
}

impl Fs for CFs {
    fn create(&self, path: &str, replication: u32) -> Result<Box<dyn Out>> {
        let flags = DFS_WRITE | DFS_CREATE | DFS_OVERWRITE | DFS_CREATE_PARENTS;
        Ok(self.file(path, flags, replication, 0)?)
    }

    fn create_log(
        &self,
        path: &str,
        replication: u32,
        block_size: u64,
        prepare: bool,
    ) -> Result<Box<dyn Log>> {
        let flags = DFS_WRITE | DFS_CREATE | DFS_OVERWRITE | DFS_CREATE_PARENTS;
        let flags = if prepare { flags | DFS_PREPARE } else { flags };
        Ok(self.file(path, flags, replication, block_size)?)
    }

    fn open(&self, path: &str) -> Result<Box<dyn In>> {
        Ok(self.file(path, DFS_READ, 0, 0)?)
    }

    fn connects(&self) -> Option<u64> {
        let size = size_of::<Stats>() as u32;
        let mut stats = Stats { size, reserved: 0, counters: [0; READ_CONNECTS + 1] };
        let library = &self.library;
        // SAFETY: a live file system and a struct whose size is stated.
        let got = library
            .check(|e| unsafe { (library.dfs_stats_get)(self.handle, &raw mut stats, e) }.into());
        got.ok().and_then(|_| stats.counters.last().copied())
    }
}

impl Out for CFile {
    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.append(bytes)
    }

    fn hflush(&mut self) -> Result<()> {
        self.sync()
    }

    fn close(&mut self) -> Result<()> {
        self.end()
    }
}

impl Log for CFile {
    fn append(&self, bytes: &[u8]) -> Result<()> {
        let (data, len) = (bytes.as_ptr().cast(), bytes.len());
        let library = &self.library;
        // SAFETY: a live file and `len` readable bytes.
        library.check(|e| unsafe { (library.dfs_write)(self.handle, data, len, e) })?;
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        let library = &self.library;
        // SAFETY: a live file.
        library.check(|e| unsafe { (library.dfs_hflush)(self.handle, e) }.into())?;
        Ok(())
    }

    fn close_later(&self) -> Result<()> {
        let library = &self.library;
        // SAFETY: a live file.
        library.check(|e| unsafe { (library.dfs_close_begin)(self.handle, e) }.into())?;
        Ok(())
    }

    fn end(&self) -> Result<()> {
        let library = &self.library;
        // SAFETY: a live file.
        library.check(|e| unsafe { (library.dfs_close)(self.handle, e) }.into())?;
        Ok(())
    }
}

impl In for CFile {
    fn len(&self) -> u64 {
        // SAFETY: a live file.
        let len = unsafe { (self.library.dfs_file_length)(self.handle) };
        u64::try_from(len).unwrap_or(0)
    }

    fn read(&self, buf: &mut [u8]) -> Result<usize> {
        let (library, to, len) = (&self.library, buf.as_mut_ptr().cast(), buf.len());
        // SAFETY: a live file and `len` writable bytes.
        let n = library.check(|e| unsafe { (library.dfs_read)(self.handle, to, len, e) })?;
        usize::try_from(n).map_err(|e| e.to_string())
    }

    fn pread(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        let (library, to, len) = (&self.library, buf.as_mut_ptr().cast(), buf.len());
        let handle = self.handle;
        // SAFETY: a live file and `len` writable bytes.
        let n = library.check(|e| unsafe { (library.dfs_pread)(handle, offset, to, len, e) })?;
        if usize::try_from(n) == Ok(len) {
            return Ok(());
        }
        Err(format!("pread of {len} bytes at {offset} brought {n}"))
    }
}

impl Drop for CFs {
    fn drop(&mut self) {
        // SAFETY: our own handle, not used after this.
        unsafe { (self.library.dfs_fs_free)(self.handle) };
    }
}

impl Drop for CFile {
    fn drop(&mut self) {
        // SAFETY: our own handle, not used after this.
        unsafe { (self.library.dfs_file_free)(self.handle) };
    }
}
