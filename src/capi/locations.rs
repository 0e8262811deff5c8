//! Where blocks are, and sums over trees and the file system.
use super::boundary::{self, CText, Info, Out, Sized32, on, text};
use super::error::dfs_error;
use super::file::count;
use super::file_system::{FileSystemObject, dfs_fs};
use super::handle::{Kind, Object};
use crate::client::status::BlockLocation;
use crate::error::{Error, Result, Status};
use std::ffi::c_char;

/// Blocks of a file, with their replicas. Unlike other handles it may be used in a forked child.
pub struct dfs_blocks {
    _opaque: [u8; 0],
}

/// One block of a file. Set `size` to sizeof(dfs_block_info) before a call fills it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct dfs_block_info {
    /// Size of this struct in bytes, set by the caller.
    pub size: u32,
    /// Replicas that are known; of a corrupt block, the corrupt ones.
    pub replica_count: u32,
    /// Offset in the file of the first byte.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
    /// Id of the block.
    pub block_id: u64,
    /// Generation stamp of the block.
    pub generation_stamp: u64,
    /// 1 if no replica is good.
    pub corrupt: u8,
    /// 0.
    pub reserved: [u8; 7],
}

// SAFETY: repr(C), u32 first; 4+4, 4*8 and 1+7 bytes without padding; numbers.
unsafe impl Sized32 for dfs_block_info {}

/// One replica of a block. Set `size` to sizeof(dfs_replica_info) before a call fills it. Texts
/// have a NUL at the end, which their lengths do not count.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct dfs_replica_info {
    /// Size of this struct in bytes, set by the caller.
    pub size: u32,
    /// Hadoop's number of the storage type (1 DISK, 2 SSD, 3 ARCHIVE, 4 RAM_DISK...); 0 if unknown.
    pub storage_type: u32,
    /// Host name of the DataNode.
    pub host: *const c_char,
    /// Bytes of `host`.
    pub host_len: usize,
    /// "ip:port" that the DataNode serves data on.
    pub address: *const c_char,
    /// Bytes of `address`.
    pub address_len: usize,
    /// Place in the network topology, as "/rack/ip:port".
    pub topology: *const c_char,
    /// Bytes of `topology`.
    pub topology_len: usize,
    /// Id of the storage (disk); empty from old servers.
    pub storage_id: *const c_char,
    /// Bytes of `storage_id`.
    pub storage_id_len: usize,
    /// 1 if the DataNode holds the block in memory.
    pub cached: u8,
    /// 0.
    pub reserved: [u8; 7],
}

// SAFETY: repr(C), u32 first; 4+4, 8*8 and 1+7 bytes without padding; numbers and pointers that
// Rust never follows.
unsafe impl Sized32 for dfs_replica_info {}

struct Replica {
    host: CText,
    address: CText,
    topology: CText,
    storage_id: CText,
    storage_type: u32,
    cached: bool,
}

struct Block {
    location: BlockLocation,
    replicas: Vec<Replica>,
}

struct BlocksObject(Vec<Block>);

impl Object for BlocksObject {
    type C = dfs_blocks;
    const KIND: Kind = Kind::Blocks;
    const SURVIVES_FORK: bool = true;
}

impl Block {
    fn new(location: BlockLocation) -> Block {
        let replicas = location.replicas.iter().map(|replica| Replica {
            host: CText::new(&replica.host),
            address: CText::new(&replica.address),
            topology: CText::new(&replica.topology),
            storage_id: CText::new(&replica.storage_id),
            storage_type: replica.storage_type,
            cached: replica.cached,
        });
        Block { replicas: replicas.collect(), location }
    }
}

fn at<'a, T>(items: &'a [T], index: usize, name: &str) -> Result<&'a T> {
    items.get(index).ok_or_else(|| {
        let text = format!("{name} {index} is not below the count {}", items.len());
        Error::new(Status::InvalidArgument, text)
    })
}

/// Fetches the blocks that hold a part of a file, in order.
///
/// `path`: absolute. `offset`, `length`: the part, in bytes; UINT64_MAX as length: to the end.
/// `out`: receives the blocks, to be freed with dfs_blocks_free. `error`: may be NULL.
///
/// Returns DFS_OK; DFS_E_NOT_FOUND, DFS_E_IS_DIRECTORY, DFS_E_PERMISSION...; and as dfs_stat.
///
/// Threads and blocking: as dfs_stat. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_block_locations(
    fs: *mut dfs_fs,
    path: *const c_char,
    offset: u64,
    length: u64,
    out: *mut *mut dfs_blocks,
    error: *mut *mut dfs_error,
) -> i32 {
    let out = Out::handle(out, "out");
    on(fs, "fs", error, |fs: &FileSystemObject| {
        out.check()?;
        let path = text(path, "path")?;
        let located = fs.metadata()?.block_locations(path, offset, length, fs.deadline())?;
        out.give(BlocksObject(located.into_iter().map(Block::new).collect()))
    })
}

/// Number of blocks.
///
/// Returns the number, DFS_E_NULL_POINTER or DFS_E_BAD_HANDLE.
///
/// Threads: any, concurrent. Does not block. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_blocks_count(blocks: *const dfs_blocks) -> i64 {
    on(blocks, "blocks", std::ptr::null_mut(), |blocks: &BlocksObject| count(blocks.0.len() as u64))
}

/// Describes one block.
///
/// `index`: from 0, below dfs_blocks_count. `info`: `size` is set. `error`: may be NULL.
///
/// Returns DFS_OK, DFS_E_INVALID_ARGUMENT (index, or an impossible `info->size`),
/// DFS_E_NULL_POINTER or DFS_E_BAD_HANDLE.
///
/// Threads: any, concurrent. Does not block. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_blocks_get(
    blocks: *const dfs_blocks,
    index: usize,
    info: *mut dfs_block_info,
    error: *mut *mut dfs_error,
) -> i32 {
    on(blocks, "blocks", error, |blocks: &BlocksObject| {
        let info = Info::new(info, "info")?;
        let block = at(&blocks.0, index, "index")?;
        info.fill(&dfs_block_info {
            size: 0,
            replica_count: u32::try_from(block.replicas.len()).unwrap_or(u32::MAX),
            offset: block.location.offset,
            length: block.location.length,
            block_id: block.location.block_id,
            generation_stamp: block.location.generation_stamp,
            corrupt: block.location.corrupt.into(),
            reserved: [0; 7],
        });
        Ok(0)
    })
}

/// Describes one replica of a block; the nearest comes first. Its texts live until the blocks are
/// freed.
///
/// `index`: of the block. `replica`: from 0, below `replica_count` of the block. `info`: `size` is
/// set. `error`: may be NULL.
///
/// Returns DFS_OK, DFS_E_INVALID_ARGUMENT (index or replica, or an impossible `info->size`),
/// DFS_E_NULL_POINTER or DFS_E_BAD_HANDLE.
///
/// Threads: any, concurrent. Does not block. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_blocks_replica(
    blocks: *const dfs_blocks,
    index: usize,
    replica: usize,
    info: *mut dfs_replica_info,
    error: *mut *mut dfs_error,
) -> i32 {
    on(blocks, "blocks", error, |blocks: &BlocksObject| {
        let info = Info::new(info, "info")?;
        let r = at(&at(&blocks.0, index, "index")?.replicas, replica, "replica")?;
        info.fill(&dfs_replica_info {
            size: 0,
            storage_type: r.storage_type,
            host: r.host.as_ptr(),
            host_len: r.host.len(),
            address: r.address.as_ptr(),
            address_len: r.address.len(),
            topology: r.topology.as_ptr(),
            topology_len: r.topology.len(),
            storage_id: r.storage_id.as_ptr(),
            storage_id_len: r.storage_id.len(),
            cached: r.cached.into(),
            reserved: [0; 7],
        });
        Ok(0)
    })
}

/// Frees blocks and their texts. NULL is fine.
///
/// Threads: any. Does not block. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_blocks_free(blocks: *mut dfs_blocks) {
    boundary::free::<BlocksObject>(blocks, "blocks");
}

/// Sizes and counts of a file or a tree. Set `size` to sizeof(dfs_content_info) before a call
/// fills it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct dfs_content_info {
    /// Size of this struct in bytes, set by the caller.
    pub size: u32,
    /// 0.
    pub reserved: u32,
    /// Bytes of all files.
    pub length: u64,
    /// Files.
    pub file_count: u64,
    /// Directories, with the root of the tree.
    pub directory_count: u64,
    /// Limit of names; -1: none.
    pub quota: i64,
    /// Bytes on disk, with replicas.
    pub space_consumed: u64,
    /// Limit of those; -1: none.
    pub space_quota: i64,
}

// SAFETY: repr(C), u32 first; 4+4 and 6*8 bytes without padding; numbers.
unsafe impl Sized32 for dfs_content_info {}

/// Adds up a file or a tree. The NameNode walks the tree, so this may take long.
///
/// `path`: absolute. `info`: `size` is set. `error`: may be NULL.
///
/// Returns DFS_OK; DFS_E_NOT_FOUND, DFS_E_PERMISSION...; DFS_E_INVALID_ARGUMENT (an impossible
/// `info->size`); and as dfs_stat.
///
/// Threads and blocking: as dfs_stat. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_content_summary(
    fs: *mut dfs_fs,
    path: *const c_char,
    info: *mut dfs_content_info,
    error: *mut *mut dfs_error,
) -> i32 {
    on(fs, "fs", error, |fs: &FileSystemObject| {
        let info = Info::new(info, "info")?;
        let s = fs.metadata()?.content_summary(text(path, "path")?, fs.deadline())?;
        info.fill(&dfs_content_info {
            size: 0,
            reserved: 0,
            length: s.length,
            file_count: s.file_count,
            directory_count: s.directory_count,
            quota: s.quota,
            space_consumed: s.space_consumed,
            space_quota: s.space_quota,
        });
        Ok(0)
    })
}

/// The file system as a whole. Set `size` to sizeof(dfs_fs_info) before a call fills it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct dfs_fs_info {
    /// Size of this struct in bytes, set by the caller.
    pub size: u32,
    /// 0.
    pub reserved: u32,
    /// Bytes of all DataNodes.
    pub capacity: u64,
    /// Bytes that HDFS uses.
    pub used: u64,
    /// Bytes that HDFS can still use.
    pub remaining: u64,
    /// Blocks with too few replicas.
    pub under_replicated: u64,
    /// Blocks with a corrupt replica.
    pub corrupt_blocks: u64,
    /// Blocks without a good replica.
    pub missing_blocks: u64,
}

// SAFETY: repr(C), u32 first; 4+4 and 6*8 bytes without padding; numbers.
unsafe impl Sized32 for dfs_fs_info {}

/// Fetches capacity and health of the file system.
///
/// `info`: `size` is set. `error`: may be NULL.
///
/// Returns DFS_OK; DFS_E_INVALID_ARGUMENT (an impossible `info->size`); and as dfs_stat.
///
/// Threads and blocking: as dfs_stat. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_fs_status(
    fs: *mut dfs_fs,
    info: *mut dfs_fs_info,
    error: *mut *mut dfs_error,
) -> i32 {
    on(fs, "fs", error, |fs: &FileSystemObject| {
        let info = Info::new(info, "info")?;
        let s = fs.metadata()?.fs_status(fs.deadline())?;
        info.fill(&dfs_fs_info {
            size: 0,
            reserved: 0,
            capacity: s.capacity,
            used: s.used,
            remaining: s.remaining,
            under_replicated: s.under_replicated,
            corrupt_blocks: s.corrupt_blocks,
            missing_blocks: s.missing_blocks,
        });
        Ok(0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structs_have_no_padding() {
        assert_eq!(size_of::<dfs_block_info>(), 48);
        assert_eq!(size_of::<dfs_replica_info>(), 80);
        assert_eq!(size_of::<dfs_content_info>(), 56);
        assert_eq!(size_of::<dfs_fs_info>(), 56);
        assert_eq!(size_of::<super::super::metadata::dfs_file_info>(), 152);
    }
}
