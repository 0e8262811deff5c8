//! Names: status of files, directories, permissions, leases.
use super::boundary::{self, CText, Info, Out, Sized32, on, optional_text, text, texts};
use super::error::dfs_error;
use super::file_system::{FileSystemObject, dfs_fs};
use super::handle::{Kind, Object};
use super::open::DFS_CREATE_PARENTS;
use crate::client::status::{FileKind, FileStatus};
use crate::error::{Error, Result, Status};
use std::ffi::c_char;

/// A file.
pub const DFS_KIND_FILE: i32 = 1;
/// A directory.
pub const DFS_KIND_DIRECTORY: i32 = 2;
/// A symbolic link.
pub const DFS_KIND_SYMLINK: i32 = 3;

/// dfs_rename replaces a file, or an empty directory, of the new name.
pub const DFS_RENAME_OVERWRITE: i32 = 1;
/// dfs_delete deletes a directory with all that is in it.
pub const DFS_DELETE_RECURSIVE: i32 = 1;

/// The facts that dfs_stat fetched. Unlike other handles it may be used in a forked child.
pub struct dfs_file_status {
    _opaque: [u8; 0],
}

/// One file, directory or symbolic link. Set `size` to sizeof(dfs_file_info) before a call fills
/// it. Texts are UTF-8 with a NUL at the end, which their lengths do not count; they belong to the
/// object that the struct was filled from.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct dfs_file_info {
    /// Size of this struct in bytes, set by the caller.
    pub size: u32,
    /// One of DFS_KIND_*.
    pub kind: i32,
    /// Bytes; 0 for anything but a file. Of a file that is being written, what the NameNode knows.
    pub length: u64,
    /// Bytes of a block; 0 for anything but a file.
    pub block_size: u64,
    /// Modification time, ms since 1970.
    pub mtime_ms: u64,
    /// Access time, ms since 1970; 0 where the NameNode keeps none.
    pub atime_ms: u64,
    /// Number that stays the same over renames; 0 if unknown.
    pub file_id: u64,
    /// Entries of a directory; -1 if the NameNode does not say.
    pub child_count: i64,
    /// Permission bits, at most 01777.
    pub mode: u32,
    /// Wanted replicas; 0 for anything but a file.
    pub replication: u32,
    /// Absolute path.
    pub path: *const c_char,
    /// Bytes of `path`.
    pub path_len: usize,
    /// Last component of `path`; empty for the root.
    pub name: *const c_char,
    /// Bytes of `name`.
    pub name_len: usize,
    /// Owner.
    pub owner: *const c_char,
    /// Bytes of `owner`.
    pub owner_len: usize,
    /// Group.
    pub group: *const c_char,
    /// Bytes of `group`.
    pub group_len: usize,
    /// Target of a symbolic link, else NULL.
    pub symlink: *const c_char,
    /// Bytes of `symlink`.
    pub symlink_len: usize,
    /// Id of the storage policy; 0 if none is set.
    pub storage_policy: u32,
    /// 1 if it has an ACL.
    pub has_acl: u8,
    /// 1 if it is encrypted, or lies in an encryption zone.
    pub encrypted: u8,
    /// 1 if its data is erasure coded.
    pub erasure_coded: u8,
    /// 0.
    pub reserved: u8,
}

// SAFETY: repr(C), u32 first; 4+4, 6*8, 4+4, 10*8 and 4+1+1+1+1 bytes without padding; numbers and
// pointers that Rust never follows.
unsafe impl Sized32 for dfs_file_info {}

/// A status with its texts as C reads them.
pub(super) struct StatusTexts {
    status: FileStatus,
    path: CText,
    name: CText,
    owner: CText,
    group: CText,
    symlink: Option<CText>,
}

impl StatusTexts {
    pub(super) fn new(status: FileStatus) -> StatusTexts {
        StatusTexts {
            path: CText::new(&status.path),
            name: CText::new(status.name()),
            owner: CText::new(&status.owner),
            group: CText::new(&status.group),
            symlink: status.symlink.as_ref().map(CText::new),
            status,
        }
    }

    pub(super) fn info(&self) -> dfs_file_info {
        let s = &self.status;
        dfs_file_info {
            size: 0,
            kind: match s.kind {
                FileKind::File => DFS_KIND_FILE,
                FileKind::Directory => DFS_KIND_DIRECTORY,
                FileKind::Symlink => DFS_KIND_SYMLINK,
            },
            length: s.length,
            block_size: s.block_size,
            mtime_ms: s.mtime_ms,
            atime_ms: s.atime_ms,
            file_id: s.file_id,
            child_count: s.children.map_or(-1, i64::from),
            mode: s.mode,
            replication: s.replication,
            path: self.path.as_ptr(),
            path_len: self.path.len(),
            name: self.name.as_ptr(),
            name_len: self.name.len(),
            owner: self.owner.as_ptr(),
            owner_len: self.owner.len(),
            group: self.group.as_ptr(),
            group_len: self.group.len(),
            symlink: self.symlink.as_ref().map_or(std::ptr::null(), CText::as_ptr),
            symlink_len: self.symlink.as_ref().map_or(0, CText::len),
            storage_policy: s.storage_policy,
            has_acl: s.has_acl.into(),
            encrypted: s.encrypted.into(),
            erasure_coded: s.erasure_coded.into(),
            reserved: 0,
        }
    }
}

struct FileStatusObject(StatusTexts);

impl Object for FileStatusObject {
    type C = dfs_file_status;
    const KIND: Kind = Kind::FileStatus;
    const SURVIVES_FORK: bool = true;
}

/// Refuses bits of `flags` that are not in `known`.
pub(super) fn check_bits(flags: i32, known: i32) -> Result<()> {
    let unknown = flags & !known;
    if unknown == 0 {
        return Ok(());
    }
    Err(Error::new(Status::BadFlags, format!("flags has the unknown bits 0x{unknown:x}")))
}

/// Fetches the status of a file, directory or link.
///
/// `path`: absolute, NUL-terminated UTF-8. `out`: receives the status, to be read with
/// dfs_file_status_get and freed with dfs_file_status_free. `error`: may be NULL.
///
/// Returns DFS_OK; DFS_E_NOT_FOUND, DFS_E_NOT_DIRECTORY (a parent is a file), DFS_E_PERMISSION...
/// from the NameNode; DFS_E_BAD_PATH; DFS_E_TIMED_OUT, DFS_E_CONNECT and other network statuses;
/// DFS_E_NULL_POINTER, DFS_E_BAD_UTF8, DFS_E_BAD_HANDLE, DFS_E_FORKED, DFS_E_CLOSED,
/// DFS_E_NO_MEMORY.
///
/// Threads: any, concurrent. Blocks up to the limit of the file system (dfs_fs_set_timeout), and
/// within it as calls to the NameNode do: `ipc.client.connect.*`, `ipc.client.rpc-timeout.ms`,
/// `dfs.client.failover.*`. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_stat(
    fs: *mut dfs_fs,
    path: *const c_char,
    out: *mut *mut dfs_file_status,
    error: *mut *mut dfs_error,
) -> i32 {
    let out = Out::handle(out, "out");
    on(fs, "fs", error, |fs: &FileSystemObject| {
        out.check()?;
        let status = fs.metadata()?.stat(text(path, "path")?, fs.deadline())?;
        out.give(FileStatusObject(StatusTexts::new(status)))
    })
}

/// Fills a struct with what dfs_stat fetched; its texts live until the status is freed.
///
/// `info`: `size` is set. `error`: may be NULL.
///
/// Returns DFS_OK, DFS_E_INVALID_ARGUMENT (an impossible `info->size`), DFS_E_NULL_POINTER or
/// DFS_E_BAD_HANDLE.
///
/// Threads: any, concurrent. Does not block. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_file_status_get(
    status: *const dfs_file_status,
    info: *mut dfs_file_info,
    error: *mut *mut dfs_error,
) -> i32 {
    on(status, "status", error, |status: &FileStatusObject| {
        Info::new(info, "info")?.fill(&status.0.info());
        Ok(0)
    })
}

/// Frees a status and its texts. NULL is fine.
///
/// Threads: any. Does not block. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_file_status_free(status: *mut dfs_file_status) {
    boundary::free::<FileStatusObject>(status, "status");
}

/// Makes a directory. One that exists is no error.
///
/// `path`: absolute. `mode`: permission bits before the umask (`fs.permissions.umask-mode`); 0
/// stands for 0777. `flags`: 0, or DFS_CREATE_PARENTS for missing parents too. `error`: may be
/// NULL.
///
/// Returns DFS_OK; DFS_E_EXISTS (a file is there), DFS_E_NOT_FOUND (no parent),
/// DFS_E_NOT_DIRECTORY, DFS_E_PERMISSION, DFS_E_QUOTA...; DFS_E_BAD_FLAGS, DFS_E_INVALID_ARGUMENT
/// (mode); and as dfs_stat.
///
/// Threads and blocking: as dfs_stat. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_mkdir(
    fs: *mut dfs_fs,
    path: *const c_char,
    mode: u32,
    flags: i32,
    error: *mut *mut dfs_error,
) -> i32 {
    on(fs, "fs", error, |fs: &FileSystemObject| {
        let path = text(path, "path")?;
        check_bits(flags, DFS_CREATE_PARENTS)?;
        if mode & !0o1777 != 0 {
            let text = format!("mode {mode:o} has bits outside 1777");
            return Err(Error::new(Status::InvalidArgument, text));
        }
        let mode = if mode == 0 { 0o777 } else { mode };
        let parents = flags & DFS_CREATE_PARENTS != 0;
        fs.metadata()?.mkdir(path, mode, parents, fs.deadline())?;
        Ok(0)
    })
}

/// Renames a file or directory to exactly the new path.
///
/// `from`, `to`: absolute. `flags`: 0, or DFS_RENAME_OVERWRITE. `error`: may be NULL.
///
/// Returns DFS_OK; DFS_E_NOT_FOUND (no source, or no parent of the target), DFS_E_EXISTS,
/// DFS_E_NOT_EMPTY, DFS_E_PERMISSION...; DFS_E_BAD_FLAGS; and as dfs_stat.
///
/// Threads and blocking: as dfs_stat. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_rename(
    fs: *mut dfs_fs,
    from: *const c_char,
    to: *const c_char,
    flags: i32,
    error: *mut *mut dfs_error,
) -> i32 {
    on(fs, "fs", error, |fs: &FileSystemObject| {
        let (from, to) = (text(from, "from")?, text(to, "to")?);
        check_bits(flags, DFS_RENAME_OVERWRITE)?;
        let overwrite = flags & DFS_RENAME_OVERWRITE != 0;
        fs.metadata()?.rename(from, to, overwrite, fs.deadline())?;
        Ok(0)
    })
}

/// Deletes a file or directory.
///
/// `path`: absolute. `flags`: 0, or DFS_DELETE_RECURSIVE for a directory that is not empty.
/// `error`: may be NULL.
///
/// Returns 1 if it was deleted, 0 if it did not exist; DFS_E_NOT_EMPTY, DFS_E_PERMISSION...;
/// DFS_E_BAD_FLAGS; and as dfs_stat.
///
/// Threads and blocking: as dfs_stat. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_delete(
    fs: *mut dfs_fs,
    path: *const c_char,
    flags: i32,
    error: *mut *mut dfs_error,
) -> i32 {
    on(fs, "fs", error, |fs: &FileSystemObject| {
        let path = text(path, "path")?;
        check_bits(flags, DFS_DELETE_RECURSIVE)?;
        let recursive = flags & DFS_DELETE_RECURSIVE != 0;
        Ok(fs.metadata()?.delete(path, recursive, fs.deadline())?.into())
    })
}

/// Cuts a file that nobody writes.
///
/// `path`: absolute. `length`: bytes that remain, at most the present length. `error`: may be NULL.
///
/// Returns 1 if it is done; 0 if the last block is still being cut: the file cannot be written
/// until dfs_is_file_closed returns 1. DFS_E_NOT_FOUND, DFS_E_LEASE_HELD,
/// DFS_E_INVALID_ARGUMENT (the file is shorter)...; and as dfs_stat.
///
/// Threads and blocking: as dfs_stat. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_truncate(
    fs: *mut dfs_fs,
    path: *const c_char,
    length: u64,
    error: *mut *mut dfs_error,
) -> i32 {
    on(fs, "fs", error, |fs: &FileSystemObject| {
        Ok(fs.metadata()?.truncate(text(path, "path")?, length, fs.deadline())?.into())
    })
}

/// Moves the blocks of files behind those of another one, and removes the files. No data is
/// copied.
///
/// `target`: absolute path of the file that grows. `sources`: array of absolute paths.
/// `source_count`: its length, at least 1. `error`: may be NULL.
///
/// Returns DFS_OK; what the NameNode says about files that do not fit together
/// (DFS_E_INVALID_ARGUMENT, DFS_E_REMOTE); DFS_E_NOT_FOUND...; and as dfs_stat.
///
/// Threads and blocking: as dfs_stat. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_concat(
    fs: *mut dfs_fs,
    target: *const c_char,
    sources: *const *const c_char,
    source_count: usize,
    error: *mut *mut dfs_error,
) -> i32 {
    on(fs, "fs", error, |fs: &FileSystemObject| {
        let target = text(target, "target")?;
        let sources = texts(sources, source_count, "sources")?;
        let sources: Vec<&str> = sources.iter().map(String::as_str).collect();
        fs.metadata()?.concat(target, &sources, fs.deadline())?;
        Ok(0)
    })
}

/// Sets the wanted number of replicas of a file. Returns before they exist.
///
/// `path`: absolute. `replication`: replicas, within the NameNode's limits. `error`: may be NULL.
///
/// Returns DFS_OK; DFS_E_NOT_FOUND, DFS_E_IS_DIRECTORY, DFS_E_PERMISSION...; and as dfs_stat.
///
/// Threads and blocking: as dfs_stat. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_set_replication(
    fs: *mut dfs_fs,
    path: *const c_char,
    replication: u32,
    error: *mut *mut dfs_error,
) -> i32 {
    on(fs, "fs", error, |fs: &FileSystemObject| {
        fs.metadata()?.set_replication(text(path, "path")?, replication, fs.deadline())?;
        Ok(0)
    })
}

/// Sets permission bits; the umask plays no part.
///
/// `path`: absolute. `mode`: at most 01777. `error`: may be NULL.
///
/// Returns DFS_OK; DFS_E_NOT_FOUND, DFS_E_PERMISSION...; DFS_E_INVALID_ARGUMENT (mode); and as
/// dfs_stat.
///
/// Threads and blocking: as dfs_stat. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_set_permission(
    fs: *mut dfs_fs,
    path: *const c_char,
    mode: u32,
    error: *mut *mut dfs_error,
) -> i32 {
    on(fs, "fs", error, |fs: &FileSystemObject| {
        fs.metadata()?.set_permission(text(path, "path")?, mode, fs.deadline())?;
        Ok(0)
    })
}

/// Sets owner, group or both.
///
/// `path`: absolute. `owner`, `group`: NULL leaves it as it is; at least one is given. `error`:
/// may be NULL.
///
/// Returns DFS_OK; DFS_E_NOT_FOUND, DFS_E_PERMISSION...; DFS_E_INVALID_ARGUMENT (neither, or an
/// empty name); and as dfs_stat.
///
/// Threads and blocking: as dfs_stat. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_set_owner(
    fs: *mut dfs_fs,
    path: *const c_char,
    owner: *const c_char,
    group: *const c_char,
    error: *mut *mut dfs_error,
) -> i32 {
    on(fs, "fs", error, |fs: &FileSystemObject| {
        let path = text(path, "path")?;
        let owner = optional_text(owner, "owner")?;
        let group = optional_text(group, "group")?;
        fs.metadata()?.set_owner(path, owner, group, fs.deadline())?;
        Ok(0)
    })
}

/// A time of dfs_set_times.
fn time(ms: i64, name: &str) -> Result<Option<u64>> {
    match (ms, u64::try_from(ms)) {
        (_, Ok(ms)) => Ok(Some(ms)),
        (-1, _) => Ok(None),
        _ => {
            let text = format!("{name} {ms} is neither a time nor -1");
            Err(Error::new(Status::InvalidArgument, text))
        }
    }
}

/// Sets modification time, access time or both.
///
/// `path`: absolute. `mtime_ms`, `atime_ms`: ms since 1970; -1 leaves it as it is. `error`: may be
/// NULL.
///
/// Returns DFS_OK; DFS_E_NOT_FOUND, DFS_E_PERMISSION...; DFS_E_INVALID_ARGUMENT (a time below -1);
/// and as dfs_stat.
///
/// Threads and blocking: as dfs_stat. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_set_times(
    fs: *mut dfs_fs,
    path: *const c_char,
    mtime_ms: i64,
    atime_ms: i64,
    error: *mut *mut dfs_error,
) -> i32 {
    on(fs, "fs", error, |fs: &FileSystemObject| {
        let path = text(path, "path")?;
        let (mtime, atime) = (time(mtime_ms, "mtime_ms")?, time(atime_ms, "atime_ms")?);
        fs.metadata()?.set_times(path, mtime, atime, fs.deadline())?;
        Ok(0)
    })
}

/// Takes a file from its writer, if it has one, and starts to close it.
///
/// `path`: absolute. `error`: may be NULL.
///
/// Returns 1 if the file is closed, 0 if recovery runs: ask again, or dfs_is_file_closed, after a
/// second or more. DFS_E_NOT_FOUND, DFS_E_PERMISSION...; and as dfs_stat.
///
/// Threads and blocking: as dfs_stat. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_recover_lease(
    fs: *mut dfs_fs,
    path: *const c_char,
    error: *mut *mut dfs_error,
) -> i32 {
    on(fs, "fs", error, |fs: &FileSystemObject| {
        Ok(fs.metadata()?.recover_lease(text(path, "path")?, fs.deadline())?.into())
    })
}

/// Whether nobody writes a file and all its blocks are complete.
///
/// `path`: absolute. `error`: may be NULL.
///
/// Returns 1 or 0; DFS_E_NOT_FOUND, DFS_E_PERMISSION...; and as dfs_stat.
///
/// Threads and blocking: as dfs_stat. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_is_file_closed(
    fs: *mut dfs_fs,
    path: *const c_char,
    error: *mut *mut dfs_error,
) -> i32 {
    on(fs, "fs", error, |fs: &FileSystemObject| {
        Ok(fs.metadata()?.is_file_closed(text(path, "path")?, fs.deadline())?.into())
    })
}
