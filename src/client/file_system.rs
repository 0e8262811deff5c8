//! A connected file system: where the read, write and metadata halves meet.
use super::lease_renewer::LeaseRenewer;
use super::metadata::Metadata;
use super::path;
use crate::buf::{BufferPool, PoolStats};
use crate::checksum::ChecksumType;
use crate::conf::Config;
use crate::conf::client_config::ClientConfig;
use crate::datanode::peer_cache::PeerCache;
use crate::error::{Error, Result, Status};
use crate::keeper::{self, Renewed, Tended};
use crate::namenode::NameNode;
use crate::proto::hdfs;
use crate::read::{InputStream, ReadContext, ReadOptions};
use crate::sys::fork::PerProcess;
use crate::time::Deadline;
use crate::write::{
    FileIdentity, LeaseRegistry, OutputStream, Start, StreamOptions, WriteContext, WriteStats,
};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// How a file is created. `None` means the configured default.
#[derive(Clone, Debug, Default)]
pub struct CreateOptions {
    /// Replace an existing file.
    pub overwrite: bool,
    /// Make missing parent directories.
    pub create_parents: bool,
    /// Mode before the umask; 0o666 unless set.
    pub permission: Option<u32>,
    /// `dfs.replication`.
    pub replication: Option<u32>,
    /// `dfs.blocksize`, bytes.
    pub block_size: Option<u64>,
    /// `dfs.bytes-per-checksum`.
    pub bytes_per_checksum: Option<u32>,
    /// `dfs.checksum.type`.
    pub checksum: Option<ChecksumType>,
    /// `dfs.client-write-packet-size`, bytes: a cap.
    pub packet_bytes: Option<usize>,
    /// DataNodes sync each block when it ends.
    pub sync_block: bool,
    /// The NameNode places no replica on the local DataNode.
    pub no_local_write: bool,
    /// The NameNode ignores where the client runs.
    pub ignore_client_locality: bool,
    /// Replicate even below an erasure-coded directory.
    pub should_replicate: bool,
    /// Drop-behind hint for the DataNodes.
    pub drop_behind: Option<bool>,
    /// Preferred DataNodes, `ip:port`.
    pub favored_nodes: Vec<String>,
    /// Any pipeline fault breaks the file at once.
    pub fail_fast: bool,
    /// A flush fails when fewer DataNodes than this are in the pipeline; 0 = no floor.
    pub min_replicas: u32,
}

/// Counters of a file system's write side and pool, for `dfs_stats`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stats {
    /// Buffer pool.
    pub pool: PoolStats,
    /// See [`WriteStats`].
    pub bytes_written: u64,
    /// See [`WriteStats`].
    pub packets_sent: u64,
    /// See [`WriteStats`].
    pub flushes: u64,
    /// See [`WriteStats`].
    pub flushes_combined: u64,
    /// See [`WriteStats`].
    pub blocks: u64,
    /// See [`WriteStats`].
    pub pipeline_faults: u64,
    /// See [`WriteStats`].
    pub pipeline_recoveries: u64,
    /// See [`WriteStats`].
    pub window_waits: u64,
    /// See [`WriteStats`].
    pub congestion_pauses: u64,
    /// See [`WriteStats`].
    pub heartbeats: u64,
    /// Files open for writing.
    pub open_writers: u64,
}

struct Inner {
    uri: String,
    namenode: Arc<NameNode>,
    config: Arc<ClientConfig>,
    pool: BufferPool,
    read: Arc<ReadContext>,
    write: Arc<WriteContext>,
    leases: Arc<LeaseRenewer>,
    closed: AtomicBool,
}

/// A connected file system; cheap to clone, shared by any number of threads. Streams keep what
/// they need alive, so it may be dropped before them.
#[derive(Clone)]
pub struct FileSystem(Arc<Inner>);

static OPEN: PerProcess<Mutex<Vec<Weak<Inner>>>> = PerProcess::new();

/// Ends every file system of the process: waiting calls end with an error, files that are still
/// written are abandoned, and the background threads are joined. Later connects start afresh.
pub fn shutdown() {
    let open = std::mem::take(&mut *OPEN.get(|| Mutex::new(Vec::new())).lock());
    for inner in open.iter().filter_map(Weak::upgrade) {
        inner.close();
    }
    keeper::shutdown();
}

/// Lease holder name of a new client: unique per file system, as DataNode logs show it.
// Hadoop 3.4 DFSClient: DFSClient_<task>_<random>_<thread>; only the uniqueness matters.
fn client_name() -> Result<String> {
    let mut bytes = [0; 4];
    crate::sys::random::fill(&mut bytes)
        .map_err(|e| Error::new(Status::Io, format!("no random numbers: {e}")))?;
    let number = i32::from_ne_bytes(bytes);
    Ok(format!("DFSClient_NONMAPREDUCE_{number}_{}", crate::sys::thread::id()))
}

/// Authority of an `hdfs://` URI.
fn authority(uri: &str) -> Result<&str> {
    let bad =
        |why: &str| Err(Error::new(Status::InvalidArgument, format!("the URI {uri:?} {why}")));
    let Some(rest) = uri.strip_prefix("hdfs://") else {
        return bad("does not start with hdfs://");
    };
    let authority = rest.split('/').next().unwrap_or_default();
    let authority = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    if authority.is_empty() {
        return bad("names no NameNode");
    }
    Ok(authority)
}

impl FileSystem {
    /// Connects to the file system of `uri` (`hdfs://host[:port]` or `hdfs://nameservice`; `None`
    /// means `fs.defaultFS`) and asks the NameNode for its defaults, so a wrong address fails here.
    ///
    /// Blocks up to the connect limits of `ipc.client.connect.*` and `deadline`.
    ///
    /// # Errors
    /// `Config` or `InvalidArgument` for what the caller gave; `UnknownHost`, `Connect`,
    /// `TimedOut`,
    /// `NotHdfs`, `Standby` for the server; `Protection` when it demands encrypted data transfer.
    pub fn connect(config: &Config, uri: Option<&str>, deadline: Deadline) -> Result<FileSystem> {
        let default;
        let uri = match uri {
            Some(uri) => uri,
            None => {
                default = config.default_fs()?;
                default.as_str()
            }
        };
        let authority = authority(uri)?;
        let service = config.name_service(authority)?;
        let frozen = Arc::new(config.freeze(Some(authority))?);
        let namenode = Arc::new(NameNode::new(service, Arc::clone(&frozen), client_name()?)?);
        let defaults = namenode.get_server_defaults(deadline)?;
        if defaults.encrypt_data_transfer() {
            return Err(Error::new(
                Status::Protection,
                format!(
                    "{uri} demands encrypted data transfer (dfs.encrypt.data.transfer), which \
                     this release does not speak"
                ),
            ));
        }
        let wait = Duration::from_millis(frozen.pool_wait_ms);
        let pool = BufferPool::new(frozen.pool_max_bytes, wait);
        let leases = Arc::new(LeaseRenewer::new(Arc::clone(&namenode)));
        let read = Arc::new(ReadContext::new(
            Arc::clone(&namenode),
            Arc::clone(&frozen),
            pool.clone(),
            Arc::new(PeerCache::new(&frozen)),
        ));
        let write = Arc::new(WriteContext {
            namenode: Arc::clone(&namenode),
            config: Arc::clone(&frozen),
            pool: pool.clone(),
            leases: Arc::clone(&leases) as Arc<dyn LeaseRegistry>,
            stats: WriteStats::default(),
        });
        let inner = Arc::new(Inner {
            uri: format!("hdfs://{authority}"),
            namenode,
            config: frozen,
            pool,
            read,
            write,
            leases,
            closed: AtomicBool::new(false),
        });
        let weak = Arc::downgrade(&inner);
        keeper::register(weak.clone());
        let leases = Arc::downgrade(&inner.leases);
        keeper::register_renewed(leases as Weak<dyn Renewed>);
        let mut open = OPEN.get(|| Mutex::new(Vec::new())).lock();
        open.retain(|inner| inner.strong_count() > 0);
        open.push(weak);
        drop(open);
        Ok(FileSystem(inner))
    }

    /// `hdfs://authority`.
    pub fn uri(&self) -> &str {
        &self.0.uri
    }

    /// The settings in force.
    pub fn config(&self) -> &Arc<ClientConfig> {
        &self.0.config
    }

    fn check(&self) -> Result<()> {
        if self.0.closed.load(Ordering::Relaxed) {
            let text = format!("the file system {} is closed", self.0.uri);
            return Err(Error::new(Status::Closed, text));
        }
        Ok(())
    }

    /// Calls on names: stat, list, rename...
    ///
    /// # Errors
    /// `Closed`.
    pub fn metadata(&self) -> Result<Metadata> {
        self.check()?;
        Ok(Metadata::new(Arc::clone(&self.0.namenode)))
    }

    /// The deadline of a call that was given none: `libdfs.call.timeout.ms`.
    pub fn default_deadline(&self) -> Deadline {
        Deadline::after_ms(self.0.config.call_timeout_ms)
    }

    /// Opens a file for reading.
    ///
    /// # Errors
    /// As [`InputStream::open`]; `Closed`.
    pub fn open(
        &self,
        path: &str,
        options: ReadOptions,
        deadline: Deadline,
    ) -> Result<InputStream> {
        self.check()?;
        let path = path::normalize(path)?;
        InputStream::open(Arc::clone(&self.0.read), &path, options, deadline)
    }

    /// Creates a file for writing.
    ///
    /// # Errors
    /// What the NameNode says (`Exists`, `NotFound` for a missing parent, `Permission`, `Quota`,
    /// `LeaseHeld`...); `InvalidArgument` for options that contradict each other; `Unsupported` for
    /// erasure-coded and encrypted files; `Closed`.
    pub fn create(
        &self,
        path: &str,
        options: &CreateOptions,
        deadline: Deadline,
    ) -> Result<OutputStream> {
        self.check()?;
        let path = path::normalize(path)?;
        let stream = self.stream_options(options);
        crate::write::check_options(&stream)?;
        let mode = options.permission.unwrap_or(0o666) & 0o1777;
        let mut flags = hdfs::CreateFlagProto::Create as u32;
        if options.overwrite {
            flags |= hdfs::CreateFlagProto::Overwrite as u32;
        }
        if options.should_replicate {
            flags |= hdfs::CreateFlagProto::ShouldReplicate as u32;
        }
        let request = hdfs::CreateRequestProto {
            src: path.clone(),
            masked: hdfs::FsPermissionProto { perm: mode & !self.0.config.umask },
            client_name: String::new(),
            create_flag: flags,
            create_parent: options.create_parents,
            replication: stream.replication,
            block_size: stream.block_size,
            crypto_protocol_version: Vec::new(),
            unmasked: Some(hdfs::FsPermissionProto { perm: mode }),
            ec_policy_name: None,
            storage_policy: None,
        };
        let status = self.0.namenode.create(request, deadline)?;
        let file = identity(path, &status)?;
        OutputStream::new(Arc::clone(&self.0.write), file, stream)
    }

    /// Opens an existing file to write at its end. With `new_block` the bytes go to a new block
    /// even when the last one has room.
    ///
    /// # Errors
    /// What the NameNode says (`NotFound`, `LeaseHeld`, `RecoveryInProgress`...); `Unsupported` for
    /// erasure-coded and encrypted files; `Closed`.
    pub fn append(
        &self,
        path: &str,
        new_block: bool,
        options: &CreateOptions,
        deadline: Deadline,
    ) -> Result<OutputStream> {
        self.check()?;
        let path = path::normalize(path)?;
        let mut flag = hdfs::CreateFlagProto::Append as u32;
        if new_block {
            flag |= hdfs::CreateFlagProto::NewBlock as u32;
        }
        let answer = self.0.namenode.append(&path, flag, deadline)?;
        let status = match answer.stat {
            Some(status) => status,
            None => self.0.namenode.get_file_info(&path, deadline)?.ok_or_else(|| {
                Error::new(Status::NotFound, format!("{path} vanished during append"))
            })?,
        };
        let mut stream = self.stream_options(options);
        stream.block_size = status.blocksize();
        stream.replication = status.block_replication();
        let mut start = Start { length: status.length, last: None, previous: None };
        match answer.block {
            Some(block) if new_block => start.previous = Some(block.b),
            other => start.last = other,
        }
        let file = identity(path, &status)?;
        OutputStream::append(Arc::clone(&self.0.write), file, stream, start)
    }

    fn stream_options(&self, options: &CreateOptions) -> StreamOptions {
        let config = &self.0.config;
        let mut flags = Vec::new();
        if options.no_local_write {
            flags.push(hdfs::AddBlockFlagProto::NoLocalWrite as i32);
        }
        if options.ignore_client_locality {
            flags.push(hdfs::AddBlockFlagProto::IgnoreClientLocality as i32);
        }
        StreamOptions {
            block_size: options.block_size.unwrap_or(config.block_size),
            replication: options.replication.unwrap_or(config.replication),
            checksum: options.checksum.unwrap_or(config.checksum_type),
            bytes_per_checksum: options.bytes_per_checksum.unwrap_or(config.bytes_per_checksum),
            packet_bytes: options.packet_bytes.unwrap_or(config.write_packet_bytes),
            sync_block: options.sync_block,
            drop_behind: options.drop_behind.or(config.drop_behind_writes),
            add_block_flags: flags,
            favored_nodes: options.favored_nodes.clone(),
            fail_fast: options.fail_fast,
            min_replicas: options.min_replicas,
        }
    }

    /// The counters of the write side and the pool.
    pub fn stats(&self) -> Stats {
        let inner = &self.0;
        let w = &inner.write.stats;
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Stats {
            pool: inner.pool.stats(),
            bytes_written: get(&w.bytes_written),
            packets_sent: get(&w.packets_sent),
            flushes: get(&w.flushes),
            flushes_combined: get(&w.flushes_combined),
            blocks: get(&w.blocks),
            pipeline_faults: get(&w.pipeline_faults),
            pipeline_recoveries: get(&w.pipeline_recoveries),
            window_waits: get(&w.window_waits),
            congestion_pauses: get(&w.congestion_pauses),
            heartbeats: get(&w.heartbeats),
            open_writers: inner.leases.open_files() as u64,
        }
    }

    /// What readers share: counters among others.
    pub fn read_context(&self) -> &Arc<ReadContext> {
        &self.0.read
    }

    /// Ends the file system: later calls on it and its streams fail with `Closed`, waiting ones
    /// end, and files that are still written are abandoned. Never blocks.
    pub fn close(&self) {
        self.0.close();
    }
}

/// The file that the NameNode made; refuses kinds whose bytes this release cannot write.
fn identity(path: String, status: &hdfs::HdfsFileStatusProto) -> Result<FileIdentity> {
    let refused = if status.ec_policy.is_some() {
        Some("erasure coded")
    } else if status.file_encryption_info.is_some() {
        Some("encrypted")
    } else {
        None
    };
    if let Some(what) = refused {
        return Err(Error::new(
            Status::Unsupported,
            format!("{path} is {what}, and this release writes plain replicated files only"),
        ));
    }
    const LAZY_PERSIST: u32 = 15;
    Ok(FileIdentity {
        path,
        file_id: status.file_id(),
        lazy_persist: status.storage_policy() == LAZY_PERSIST,
    })
}

impl Inner {
    fn close(&self) {
        if !self.closed.swap(true, Ordering::Relaxed) {
            self.leases.close();
            self.namenode.close();
            self.read.close();
            self.read.peers.clear();
        }
    }
}

impl Tended for Inner {
    fn tend(&self, _now: Instant) {
        self.read.peers.expire_idle();
        self.namenode.expire_idle();
        self.pool.trim_idle(Duration::from_millis(self.config.pool_idle_ms));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn authorities() {
        assert_eq!(authority("hdfs://nn:8020/x").unwrap(), "nn:8020");
        assert_eq!(authority("hdfs://ns1").unwrap(), "ns1");
        assert_eq!(authority("hdfs://u@nn:1").unwrap(), "nn:1");
        for bad in ["hdfs://", "file:///x", "nn:8020", "hdfs:///x"] {
            assert_eq!(authority(bad).unwrap_err().status(), Status::InvalidArgument, "{bad}");
        }
    }
}
