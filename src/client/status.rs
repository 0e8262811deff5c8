//! What the NameNode knows about files and blocks, in plain types.
use super::path;
use crate::datanode::peer;
use crate::error::{Error, Result};
use crate::proto::hdfs;

/// Permission bits: rwx three times, and the sticky bit.
pub const MODE_MASK: u32 = 0o1777;
// Hadoop 3.4 FsPermissionExtension: older servers keep these three among the permission bits.
const ACL_BIT: u32 = 1 << 12;
const ENCRYPTED_BIT: u32 = 1 << 13;
const EC_BIT: u32 = 1 << 14;

/// What a path is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// A file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
}

/// One file, directory or symbolic link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileStatus {
    /// Absolute path.
    pub path: String,
    /// What it is.
    pub kind: FileKind,
    /// Bytes; 0 for anything but a file. Of a file being written, what the NameNode knows.
    pub length: u64,
    /// Permission bits, [`MODE_MASK`].
    pub mode: u32,
    /// Owner's name.
    pub owner: String,
    /// Group's name.
    pub group: String,
    /// Modification time, ms since 1970.
    pub mtime_ms: u64,
    /// Access time, ms since 1970; 0 where the NameNode keeps none.
    pub atime_ms: u64,
    /// Wanted number of replicas; 0 for anything but a file.
    pub replication: u32,
    /// Block size, bytes; 0 for anything but a file.
    pub block_size: u64,
    /// Id that stays the same over renames; 0 if unknown.
    pub file_id: u64,
    /// Target of a symbolic link.
    pub symlink: Option<String>,
    /// It has an ACL.
    pub has_acl: bool,
    /// It is encrypted, or lies in an encryption zone.
    pub encrypted: bool,
    /// Its data is erasure coded.
    pub erasure_coded: bool,
    /// Entries of a directory, if the NameNode says.
    pub children: Option<u32>,
    /// Id of its storage policy; 0 if unspecified.
    pub storage_policy: u32,
}

fn utf8(bytes: Vec<u8>, what: &str) -> Result<String> {
    String::from_utf8(bytes).map_err(|e| {
        let text = String::from_utf8_lossy(e.as_bytes()).into_owned();
        Error::protocol(format!("the {what} {text:?} is not UTF-8"))
    })
}

impl FileStatus {
    /// From the NameNode's message about `path`, or about an entry of the directory `path` (the
    /// message has the entry's name then).
    ///
    /// # Errors
    /// `Protocol` when the message makes no sense.
    pub fn from_proto(path: &str, proto: hdfs::HdfsFileStatusProto) -> Result<FileStatus> {
        use hdfs::hdfs_file_status_proto::{FileType, Flags};
        let name = utf8(proto.path, "file name")?;
        let path = path::join(path, &name);
        let kind = match FileType::try_from(proto.file_type) {
            Ok(FileType::IsDir) => FileKind::Directory,
            Ok(FileType::IsFile) => FileKind::File,
            Ok(FileType::IsSymlink) => FileKind::Symlink,
            Err(_) => {
                let message = format!("{path} has the unknown file type {}", proto.file_type);
                return Err(Error::protocol(message));
            }
        };
        let symlink = proto.symlink.map(|t| utf8(t, "link target")).transpose()?;
        let perm = proto.permission.perm;
        let flags = proto.flags.unwrap_or(0);
        let has = |flag: Flags, bit: u32| flags & flag as u32 != 0 || perm & bit != 0;
        Ok(FileStatus {
            path,
            kind,
            length: proto.length,
            mode: perm & MODE_MASK,
            owner: proto.owner,
            group: proto.group,
            mtime_ms: proto.modification_time,
            atime_ms: proto.access_time,
            replication: proto.block_replication.unwrap_or(0),
            block_size: proto.blocksize.unwrap_or(0),
            file_id: proto.file_id.unwrap_or(0),
            symlink: symlink.filter(|_| kind == FileKind::Symlink),
            has_acl: has(Flags::HasAcl, ACL_BIT),
            encrypted: has(Flags::HasCrypt, ENCRYPTED_BIT) || proto.file_encryption_info.is_some(),
            erasure_coded: has(Flags::HasEc, EC_BIT) || proto.ec_policy.is_some(),
            children: proto.children_num.and_then(|n| u32::try_from(n).ok()),
            storage_policy: proto.storage_policy.unwrap_or(0),
        })
    }

    /// Last component of the path; empty for the root.
    #[must_use]
    pub fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or_default()
    }

    /// Whether it is a directory.
    #[must_use]
    pub fn is_directory(&self) -> bool {
        self.kind == FileKind::Directory
    }
}

/// One replica of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaLocation {
    /// Host name of the DataNode.
    pub host: String,
    /// `ip:port` of its transfer port.
    pub address: String,
    /// Its place in the network topology, as `/rack/ip:port`.
    pub topology: String,
    /// Id of the storage (disk); empty from old servers.
    pub storage_id: String,
    /// StorageTypeProto number (DISK 1, SSD 2, ARCHIVE 3, RAM_DISK 4, ...); 0 if unknown.
    pub storage_type: u32,
    /// The DataNode holds it in memory.
    pub cached: bool,
}

/// One block of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockLocation {
    /// Offset of its first byte in the file.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
    /// Id of the block.
    pub block_id: u64,
    /// Generation stamp of the block.
    pub generation_stamp: u64,
    /// Replicas, nearest first. Of a corrupt block: the corrupt ones.
    pub replicas: Vec<ReplicaLocation>,
    /// No replica is good.
    pub corrupt: bool,
}

impl From<hdfs::LocatedBlockProto> for BlockLocation {
    fn from(block: hdfs::LocatedBlockProto) -> BlockLocation {
        let replicas = block.locs.iter().enumerate().map(|(i, node)| {
            let address = peer::ip_port(&node.id);
            ReplicaLocation {
                host: node.id.host_name.clone(),
                topology: format!("{}/{address}", node.location.as_deref().unwrap_or_default()),
                address,
                storage_id: block.storage_i_ds.get(i).cloned().unwrap_or_default(),
                storage_type: block
                    .storage_types
                    .get(i)
                    .and_then(|t| u32::try_from(*t).ok())
                    .unwrap_or(0),
                cached: block.is_cached.get(i).copied().unwrap_or(false),
            }
        });
        BlockLocation {
            replicas: replicas.collect(),
            offset: block.offset,
            length: block.b.num_bytes.unwrap_or(0),
            block_id: block.b.block_id,
            generation_stamp: block.b.generation_stamp,
            corrupt: block.corrupt,
        }
    }
}

/// Sizes and counts of a file or a tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ContentSummary {
    /// Bytes of all files.
    pub length: u64,
    /// Files.
    pub file_count: u64,
    /// Directories.
    pub directory_count: u64,
    /// Limit of names; −1: none.
    pub quota: i64,
    /// Bytes on disk, with replicas.
    pub space_consumed: u64,
    /// Limit of those; −1: none.
    pub space_quota: i64,
}

impl From<hdfs::ContentSummaryProto> for ContentSummary {
    fn from(proto: hdfs::ContentSummaryProto) -> ContentSummary {
        ContentSummary {
            length: proto.length,
            file_count: proto.file_count,
            directory_count: proto.directory_count,
            // uint64 on the wire, but −1 is meant where there is no quota.
            quota: proto.quota as i64,
            space_consumed: proto.space_consumed,
            space_quota: proto.space_quota as i64,
        }
    }
}

/// The file system as a whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FsStatus {
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

impl From<hdfs::GetFsStatsResponseProto> for FsStatus {
    fn from(proto: hdfs::GetFsStatsResponseProto) -> FsStatus {
        FsStatus {
            capacity: proto.capacity,
            used: proto.used,
            remaining: proto.remaining,
            under_replicated: proto.under_replicated,
            corrupt_blocks: proto.corrupt_blocks,
            missing_blocks: proto.missing_blocks,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Status;

    fn proto(kind: i32, perm: u32) -> hdfs::HdfsFileStatusProto {
        hdfs::HdfsFileStatusProto {
            file_type: kind,
            path: b"name".to_vec(),
            length: 5,
            permission: hdfs::FsPermissionProto { perm },
            children_num: Some(-1),
            ..Default::default()
        }
    }

    #[test]
    fn flags_come_from_either_place() {
        let old = FileStatus::from_proto("/d", proto(2, 0o1644 | ACL_BIT | EC_BIT)).unwrap();
        assert_eq!((old.path.as_str(), old.name(), old.mode), ("/d/name", "name", 0o1644));
        assert!(old.has_acl && old.erasure_coded && !old.encrypted);
        assert_eq!((old.children, old.kind), (None, FileKind::File));
        let mut new = proto(1, 0o755);
        new.flags = Some(2 | 8);
        new.children_num = Some(3);
        let new = FileStatus::from_proto("/d", new).unwrap();
        assert!(new.encrypted && !new.has_acl && new.is_directory());
        assert_eq!(new.children, Some(3));
    }

    #[test]
    fn nonsense_is_refused() {
        assert_eq!(
            FileStatus::from_proto("/", proto(9, 0)).unwrap_err().status(),
            Status::Protocol
        );
        let mut bad = proto(2, 0);
        bad.path = vec![0xff];
        assert!(FileStatus::from_proto("/", bad).unwrap_err().message().contains("UTF-8"));
    }

    #[test]
    fn a_missing_quota_is_minus_one() {
        let proto = hdfs::ContentSummaryProto { quota: u64::MAX, ..Default::default() };
        assert_eq!(ContentSummary::from(proto).quota, -1);
    }
}
