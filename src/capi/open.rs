//! Opening files.
use super::boundary::{Out, Sized32, on, optional_text, options, text};
use super::error::dfs_error;
use super::file::{FileObject, Stream, dfs_file};
use super::file_system::{FileSystemObject, Limit, dfs_fs};
use crate::checksum::ChecksumType;
use crate::client::file_system::CreateOptions;
use crate::error::{Error, Result, Status};
use crate::read::ReadOptions;
use crate::time::Deadline;
use crate::write::OutputStream;
use std::ffi::c_char;

/// Open for reading.
pub const DFS_READ: i32 = 1;
/// Open for writing; needs DFS_CREATE or DFS_APPEND.
pub const DFS_WRITE: i32 = 2;
/// Create the file; it must not exist, unless DFS_OVERWRITE or DFS_APPEND is given too.
pub const DFS_CREATE: i32 = 4;
/// With DFS_CREATE: replace a file that exists.
pub const DFS_OVERWRITE: i32 = 8;
/// Write at the end of an existing file. With DFS_CREATE: create it if it does not exist.
pub const DFS_APPEND: i32 = 16;
/// Make missing parent directories (dfs_open with DFS_CREATE, dfs_mkdir).
pub const DFS_CREATE_PARENTS: i32 = 32;
/// DataNodes sync each block to disk when it ends.
pub const DFS_SYNC_BLOCK: i32 = 64;
/// Place no replica on the DataNode of this host, if others are there.
pub const DFS_NO_LOCAL_WRITE: i32 = 128;
/// Place replicas without regard to where this host is.
pub const DFS_IGNORE_CLIENT_LOCALITY: i32 = 256;
/// Replicate the file even in a directory whose policy is erasure coding.
pub const DFS_SHOULD_REPLICATE: i32 = 512;
/// With DFS_APPEND: begin a new block, even if the last one has room.
pub const DFS_NEW_BLOCK: i32 = 1024;
/// With DFS_WRITE: as dfs_prepare right after opening, so that the first flush finds a pipeline.
/// dfs_open then takes as long as building one does.
pub const DFS_PREPARE: i32 = 2048;

/// Default of a field with three states.
pub const DFS_DEFAULT: u8 = 0;
/// Yes, whatever the default is.
pub const DFS_YES: u8 = 1;
/// No, whatever the default is.
pub const DFS_NO: u8 = 2;

/// The default checksum type, `dfs.checksum.type`.
pub const DFS_CHECKSUM_DEFAULT: i32 = 0;
/// CRC-32, the one of zlib.
pub const DFS_CHECKSUM_CRC32: i32 = 1;
/// CRC-32C (Castagnoli), Hadoop's default.
pub const DFS_CHECKSUM_CRC32C: i32 = 2;
/// No checksums.
pub const DFS_CHECKSUM_NULL: i32 = 3;

/// How a file is opened. Begin with `dfs_open_options options = DFS_OPEN_OPTIONS_INIT;` in C, or
/// with zeroed memory and `size` set to sizeof(dfs_open_options). 0 in a field is the default;
/// fields that do not fit the direction are ignored.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct dfs_open_options {
    /// Size of this struct in bytes.
    pub size: u32,
    /// Writing: wanted replicas, 1 to 512; `dfs.replication`.
    pub replication: u32,
    /// Writing: bytes of a block, a multiple of bytes_per_checksum; `dfs.blocksize`.
    pub block_size: u64,
    /// Creating: permission bits before the umask (`fs.permissions.umask-mode`); 0666.
    pub permission: u32,
    /// Creating: bytes that one checksum covers; `dfs.bytes-per-checksum`.
    pub bytes_per_checksum: u32,
    /// Creating: one of DFS_CHECKSUM_*.
    pub checksum_type: i32,
    /// Writing: largest packet on the wire in bytes; `dfs.client-write-packet-size`. Only a cap:
    /// buffers follow what is written.
    pub packet_size: u32,
    /// Time limit in ms of dfs_open itself and of each call on the file; that of the file system.
    pub timeout_ms: u64,
    /// Reading: bytes that DataNodes read ahead; `dfs.client.cache.readahead`.
    pub readahead: u64,
    /// Writing: preferred DataNodes, as "ip:port,ip:port"; NULL: none. Copied.
    pub favored_nodes: *const c_char,
    /// DFS_DEFAULT, DFS_YES or DFS_NO: DataNodes drop the data from their page cache;
    /// `dfs.client.cache.drop.behind.reads` and `.writes`.
    pub drop_behind: u8,
    /// Reading: DFS_DEFAULT or DFS_YES: verify checksums; DFS_NO: do not even fetch them.
    pub verify_checksum: u8,
    /// Writing: 1: the first fault of a pipeline breaks the file, without recovery.
    pub fail_fast: u8,
    /// Must be 0.
    pub reserved: u8,
    /// Writing: a flush fails while fewer DataNodes than this are in the pipeline; 0: no limit.
    pub min_replicas: u32,
}

// SAFETY: repr(C), u32 first; 4+4+8+4+4+4+4+8+8+8+1+1+1+1+4 bytes without padding; numbers and a
// pointer that is only followed through the boundary.
unsafe impl Sized32 for dfs_open_options {}

const WRITE_ONLY: i32 = DFS_CREATE
    | DFS_OVERWRITE
    | DFS_APPEND
    | DFS_CREATE_PARENTS
    | DFS_SYNC_BLOCK
    | DFS_NO_LOCAL_WRITE
    | DFS_IGNORE_CLIENT_LOCALITY
    | DFS_SHOULD_REPLICATE
    | DFS_NEW_BLOCK
    | DFS_PREPARE;

fn check_flags(flags: i32) -> Result<()> {
    let bad = |text: String| Err(Error::new(Status::BadFlags, text));
    let has = |flag: i32| flags & flag != 0;
    let unknown = flags & !(DFS_READ | DFS_WRITE | WRITE_ONLY);
    if unknown != 0 {
        return bad(format!("flags has the unknown bits 0x{unknown:x}"));
    }
    match (has(DFS_READ), has(DFS_WRITE)) {
        (false, false) => bad("flags has neither DFS_READ nor DFS_WRITE".to_owned()),
        (true, true) => {
            bad("flags has DFS_READ and DFS_WRITE: a file is open in one direction".to_owned())
        }
        (true, false) if has(WRITE_ONLY) => {
            bad(format!("flags has bits 0x{:x} that need DFS_WRITE", flags & WRITE_ONLY))
        }
        (true, false) => Ok(()),
        (false, true) if !has(DFS_CREATE | DFS_APPEND) => {
            bad("flags has DFS_WRITE without DFS_CREATE or DFS_APPEND".to_owned())
        }
        (false, true) if has(DFS_OVERWRITE) && (has(DFS_APPEND) || !has(DFS_CREATE)) => {
            bad("flags has DFS_OVERWRITE, which goes with DFS_CREATE and not with DFS_APPEND"
                .to_owned())
        }
        (false, true) if has(DFS_NEW_BLOCK) && !has(DFS_APPEND) => {
            bad("flags has DFS_NEW_BLOCK without DFS_APPEND".to_owned())
        }
        (false, true) => Ok(()),
    }
}

/// A checksum type of the API; `None` is the default.
///
/// # Errors
/// `InvalidArgument` for an unknown number.
pub(super) fn checksum_type(number: i32, name: &str) -> Result<Option<ChecksumType>> {
    Ok(match number {
        DFS_CHECKSUM_DEFAULT => None,
        DFS_CHECKSUM_CRC32 => Some(ChecksumType::Crc32),
        DFS_CHECKSUM_CRC32C => Some(ChecksumType::Crc32c),
        DFS_CHECKSUM_NULL => Some(ChecksumType::Null),
        _ => {
            let text = format!("{name} {number} is no DFS_CHECKSUM_ type");
            return Err(Error::new(Status::InvalidArgument, text));
        }
    })
}

fn three_states(value: u8, name: &str) -> Result<Option<bool>> {
    match value {
        DFS_DEFAULT => Ok(None),
        DFS_YES => Ok(Some(true)),
        DFS_NO => Ok(Some(false)),
        _ => {
            let text = format!("{name} {value} is not DFS_DEFAULT, DFS_YES or DFS_NO");
            Err(Error::new(Status::InvalidArgument, text))
        }
    }
}

fn non_zero<T: Copy + PartialEq + Default>(value: T) -> Option<T> {
    (value != T::default()).then_some(value)
}

fn read_options(given: &dfs_open_options) -> Result<ReadOptions> {
    Ok(ReadOptions {
        verify_checksum: three_states(given.verify_checksum, "options->verify_checksum")?
            .unwrap_or(true),
        readahead: non_zero(given.readahead),
        drop_behind: three_states(given.drop_behind, "options->drop_behind")?,
    })
}

fn create_options(flags: i32, given: &dfs_open_options) -> Result<CreateOptions> {
    let has = |flag: i32| flags & flag != 0;
    if given.permission & !0o1777 != 0 {
        let text = format!("options->permission {:o} has bits outside 1777", given.permission);
        return Err(Error::new(Status::InvalidArgument, text));
    }
    let nodes = optional_text(given.favored_nodes, "options->favored_nodes")?.unwrap_or_default();
    let nodes = nodes.split(',').map(str::trim).filter(|node| !node.is_empty());
    Ok(CreateOptions {
        overwrite: has(DFS_OVERWRITE),
        create_parents: has(DFS_CREATE_PARENTS),
        permission: non_zero(given.permission),
        replication: non_zero(given.replication),
        block_size: non_zero(given.block_size),
        bytes_per_checksum: non_zero(given.bytes_per_checksum),
        checksum: checksum_type(given.checksum_type, "options->checksum_type")?,
        packet_bytes: non_zero(given.packet_size as usize),
        sync_block: has(DFS_SYNC_BLOCK),
        no_local_write: has(DFS_NO_LOCAL_WRITE),
        ignore_client_locality: has(DFS_IGNORE_CLIENT_LOCALITY),
        should_replicate: has(DFS_SHOULD_REPLICATE),
        drop_behind: three_states(given.drop_behind, "options->drop_behind")?,
        favored_nodes: nodes.map(str::to_owned).collect(),
        fail_fast: given.fail_fast != 0,
        min_replicas: given.min_replicas,
    })
}

fn open_stream(
    fs: &FileSystemObject,
    path: &str,
    flags: i32,
    given: &dfs_open_options,
    deadline: Deadline,
) -> Result<Stream> {
    if flags & DFS_READ != 0 {
        let stream = fs.fs.open(path, read_options(given)?, deadline)?;
        return Ok(Stream::Input(Box::new(stream)));
    }
    let file = open_writer(fs, path, flags, given, deadline)?;
    if flags & DFS_PREPARE != 0 {
        match file.prepare(deadline) {
            // The file is open; its first write goes on with what there was no time for.
            Err(e) if e.is_fatal() => return Err(e),
            _ => {}
        }
    }
    Ok(Stream::Output(file))
}

fn open_writer(
    fs: &FileSystemObject,
    path: &str,
    flags: i32,
    given: &dfs_open_options,
    deadline: Deadline,
) -> Result<OutputStream> {
    let options = create_options(flags, given)?;
    if flags & DFS_APPEND != 0 {
        let new_block = flags & DFS_NEW_BLOCK != 0;
        match fs.fs.append(path, new_block, &options, deadline) {
            Err(e) if e.status() == Status::NotFound && flags & DFS_CREATE != 0 => {}
            result => return result,
        }
    }
    fs.fs.create(path, &options, deadline)
}

/// Opens a file for reading, creates one, or opens one to write at its end.
///
/// `path`: absolute, NUL-terminated UTF-8. `flags`: DFS_READ; or DFS_WRITE with DFS_CREATE or
/// DFS_APPEND and what they allow. `options`: NULL for the defaults. `out`: receives the file, to
/// be freed with dfs_file_free. `error`: may be NULL.
///
/// Returns DFS_OK; DFS_E_BAD_FLAGS, DFS_E_BAD_PATH, DFS_E_INVALID_ARGUMENT (an option), or
/// DFS_E_UNSUPPORTED (an unknown option; an erasure-coded or encrypted file) for what was asked;
/// DFS_E_NOT_FOUND, DFS_E_EXISTS, DFS_E_IS_DIRECTORY, DFS_E_PERMISSION, DFS_E_QUOTA,
/// DFS_E_LEASE_HELD, DFS_E_RECOVERY_IN_PROGRESS, DFS_E_SAFE_MODE... from the NameNode;
/// DFS_E_BLOCK_MISSING if the length of a file that is being written cannot be found out;
/// DFS_E_TIMED_OUT, DFS_E_CONNECT and other network statuses; DFS_E_NULL_POINTER,
/// DFS_E_BAD_UTF8, DFS_E_BAD_HANDLE, DFS_E_FORKED, DFS_E_CLOSED, DFS_E_NO_MEMORY.
///
/// Threads: any, concurrent. Blocks up to `options->timeout_ms`, else the limit of the file system
/// (dfs_fs_set_timeout), and within it as calls to the NameNode do (`ipc.client.*`,
/// `dfs.client.failover.*`). Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_open(
    fs: *mut dfs_fs,
    path: *const c_char,
    flags: i32,
    options: *const dfs_open_options,
    out: *mut *mut dfs_file,
    error: *mut *mut dfs_error,
) -> i32 {
    let out = Out::handle(out, "out");
    on(fs, "fs", error, |fs: &FileSystemObject| {
        out.check()?;
        let path = text(path, "path")?;
        check_flags(flags)?;
        let given = self::options(options, "options")?;
        if given.reserved != 0 {
            return Err(Error::new(Status::Unsupported, "options->reserved is not 0"));
        }
        let limit: Limit = fs.file_limit(given.timeout_ms);
        let stream = open_stream(fs, path, flags, &given, limit.deadline())?;
        out.give(FileObject::new(stream, path, limit))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_that_contradict_each_other_are_refused() {
        let create = DFS_WRITE | DFS_CREATE;
        let append = DFS_WRITE | DFS_APPEND;
        for good in [
            DFS_READ,
            create,
            append,
            create | DFS_OVERWRITE | DFS_CREATE_PARENTS | DFS_SYNC_BLOCK,
            create | DFS_APPEND,
            create | DFS_PREPARE,
            append | DFS_NEW_BLOCK,
        ] {
            check_flags(good).unwrap();
        }
        for (bad, word) in [
            (0, "neither"),
            (DFS_READ | DFS_WRITE, "one direction"),
            (DFS_READ | DFS_CREATE, "need DFS_WRITE"),
            (DFS_READ | DFS_PREPARE, "need DFS_WRITE"),
            (DFS_WRITE, "without DFS_CREATE"),
            (append | DFS_OVERWRITE, "DFS_OVERWRITE"),
            (create | DFS_APPEND | DFS_OVERWRITE, "DFS_OVERWRITE"),
            (create | DFS_NEW_BLOCK, "DFS_NEW_BLOCK"),
            (create | 1 << 20, "0x100000"),
            (i32::MIN | DFS_READ, "0x80000000"),
        ] {
            let e = check_flags(bad).unwrap_err();
            assert_eq!(e.status(), Status::BadFlags);
            assert!(e.message().contains(word), "{e}");
        }
    }

    #[test]
    fn options_have_no_padding() {
        assert_eq!(size_of::<dfs_open_options>(), 64);
    }
}
