//! Where the blocks of one open file are.
//!
//! Reads look a block up under a shared lock and keep its `Arc`; fetching more locations is the
//! rare case and lets one thread at a time ask the NameNode.
use super::context::{Closed, Locations, pause};
use super::nodes::{Nodes, Standing};
use crate::conf::client_config::ClientConfig;
use crate::datanode::peer;
use crate::error::{Error, Result, Status};
use crate::proto::hdfs::{LocatedBlockProto, LocatedBlocksProto};
use crate::time::Deadline;
use crate::wire::transfer;
use parking_lot::{Mutex, RwLock};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Largest number of blocks remembered per stream (about 1 KiB each); beyond it the old ones are
/// forgotten and fetched again when needed.
const BLOCKS_MAX: usize = 16_384;
/// Pause between two rounds of asking DataNodes that are not ready for the length, ms
/// (Hadoop 3.4 `DFSInputStream#readBlockLength`).
const LENGTH_RETRY_MS: u64 = 500;

/// One replica.
#[derive(Debug)]
pub(crate) struct Node {
    /// Transfer address, the key of the connection cache.
    pub(crate) server: Box<str>,
    /// What all readers know of the node.
    pub(crate) standing: Arc<Standing>,
    /// Replicas of the same distance are equals: 0 is this host, the others follow the NameNode.
    pub(crate) distance: u8,
}

/// One block with all that a read needs, made once.
#[derive(Debug)]
pub(crate) struct Block {
    /// Offset in the file.
    pub(crate) offset: u64,
    /// Bytes that can be read.
    pub(crate) len: u64,
    /// Replicas in the NameNode's order; parallel to `proto.locs`.
    pub(crate) nodes: Vec<Node>,
    /// Prebuilt part of the read request (block, token, client name).
    pub(crate) header: Vec<u8>,
    /// As the NameNode sent it.
    pub(crate) proto: LocatedBlockProto,
    /// It is being written.
    pub(crate) open: bool,
    /// Bit `i`: replica `i` was found missing or damaged since these locations were fetched.
    faulty: AtomicU64,
}

impl Block {
    fn new(
        mut proto: LocatedBlockProto,
        len: u64,
        open: bool,
        client_name: &str,
        use_hostname: bool,
        known: &Nodes,
    ) -> Block {
        proto.b.num_bytes = Some(len);
        Block {
            offset: proto.offset,
            len,
            open,
            nodes: nodes(&proto, use_hostname, known),
            header: transfer::read_block_header(&proto.b, &proto.block_token, client_name),
            faulty: AtomicU64::new(0),
            proto,
        }
    }

    /// Whether replica `index` was found missing or damaged.
    pub(crate) fn is_faulty(&self, index: usize) -> bool {
        index < 64 && self.faulty.load(Ordering::Relaxed) & (1 << index) != 0
    }

    /// Other readers of the stream shall try replica `index` last.
    pub(crate) fn set_faulty(&self, index: usize) {
        if index < 64 {
            self.faulty.fetch_or(1 << index, Ordering::Relaxed);
        }
    }

    /// File offset behind the block.
    pub(crate) fn end(&self) -> u64 {
        self.offset.saturating_add(self.len)
    }

    fn contains(&self, offset: u64) -> bool {
        self.offset <= offset && offset < self.end()
    }

    /// `blk_<id>_<generation stamp>`, as Hadoop's logs have it.
    pub(crate) fn name(&self) -> String {
        format!("blk_{}_{}", self.proto.b.block_id, self.proto.b.generation_stamp)
    }
}

/// The replicas in the NameNode's order. It sorts by distance, and nodes of one rack that follow
/// each other are equals; it may not know the client under the address that a local node has.
fn nodes(proto: &LocatedBlockProto, use_hostname: bool, known: &Nodes) -> Vec<Node> {
    let mut distance = 1_u8;
    let mut rack = None;
    let mut out = Vec::with_capacity(proto.locs.len());
    for info in &proto.locs {
        let server: Box<str> = peer::transfer_addr(&info.id, use_hostname).into();
        let standing = known.standing(&server, &info.id.ip_addr);
        let here = info.location();
        if rack.is_some_and(|rack| rack != here) {
            distance = distance.saturating_add(1);
        }
        rack = Some(here);
        let distance = if standing.is_local() { 0 } else { distance };
        out.push(Node { server, standing, distance });
    }
    out
}

#[derive(Default)]
struct Table {
    blocks: BTreeMap<u64, Arc<Block>>,
    /// The last block while it is being written; its length is what a DataNode told.
    open_last: Option<Arc<Block>>,
}

impl Table {
    fn find(&self, offset: u64) -> Option<&Arc<Block>> {
        let near = self.blocks.range(..=offset).next_back().map(|(_, block)| block);
        near.into_iter().chain(&self.open_last).find(|block| block.contains(offset))
    }

    /// The block that begins at `offset`, complete or not.
    fn at(&self, offset: u64) -> Option<&Arc<Block>> {
        let open = self.open_last.as_ref().filter(|last| last.offset == offset);
        open.or_else(|| self.blocks.get(&offset))
    }
}

/// What a fetch brings up to date.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Update {
    /// Locations and the file's length (a DataNode is asked if the last block is open).
    All,
    /// Locations only: the length stays what the caller saw.
    Locations,
}

/// The located blocks of one file.
pub(crate) struct LocatedFile {
    path: Box<str>,
    source: Arc<dyn Locations>,
    config: Arc<ClientConfig>,
    nodes: Arc<Nodes>,
    table: RwLock<Table>,
    file_len: AtomicU64,
    /// Held by the thread that fetches.
    fetching: Mutex<()>,
}

impl LocatedFile {
    /// Asks the NameNode for the first range. Blocks up to `d`.
    ///
    /// # Errors
    /// `NotFound`, `IsDirectory`, `Unsupported` for striped and encrypted files, `BlockMissing`
    /// when the length of a last block that is being written cannot be found out.
    pub(crate) fn open(
        path: &str,
        source: Arc<dyn Locations>,
        config: Arc<ClientConfig>,
        nodes: Arc<Nodes>,
        closed: Closed<'_>,
        d: Deadline,
    ) -> Result<LocatedFile> {
        let file = LocatedFile {
            path: path.into(),
            source,
            config,
            nodes,
            table: RwLock::default(),
            file_len: AtomicU64::new(0),
            fetching: Mutex::new(()),
        };
        file.fetch(0, Update::All, closed, d)?;
        Ok(file)
    }

    /// Readable length of the file as known now, bytes.
    pub(crate) fn len(&self) -> u64 {
        self.file_len.load(Ordering::Acquire)
    }

    /// The block that holds file offset `offset`.
    ///
    /// # Errors
    /// Those of the NameNode call that an unknown range needs; `BlockMissing` when the NameNode
    /// has no block there.
    pub(crate) fn block_at(
        &self,
        offset: u64,
        closed: Closed<'_>,
        d: Deadline,
    ) -> Result<Arc<Block>> {
        if let Some(block) = self.table.read().find(offset) {
            return Ok(Arc::clone(block));
        }
        let _fetching = self.lock(d)?;
        if let Some(block) = self.table.read().find(offset) {
            return Ok(Arc::clone(block));
        }
        self.fetch(offset, Update::Locations, closed, d)?;
        self.table.read().find(offset).map(Arc::clone).ok_or_else(|| self.no_block(offset))
    }

    /// The block that holds file offset `offset`, if its location is known.
    pub(crate) fn known_block(&self, offset: u64) -> Option<Arc<Block>> {
        self.table.read().find(offset).map(Arc::clone)
    }

    fn no_block(&self, offset: u64) -> Error {
        Error::new(
            Status::BlockMissing,
            format!("the NameNode has no block of {} at offset {offset}", self.path),
        )
    }

    fn lock(&self, d: Deadline) -> Result<parking_lot::MutexGuard<'_, ()>> {
        let guard = match d.instant() {
            Some(at) => self.fetching.try_lock_until(at),
            None => Some(self.fetching.lock()),
        };
        guard.ok_or_else(|| {
            let words = format!("reading {}: the time limit of the call passed", self.path);
            Error::new(Status::TimedOut, words).with_stage("waiting for locations")
        })
    }

    /// Fetches the locations of a block again after every replica failed, and the length with
    /// them; returns the block that is there now.
    ///
    /// # Errors
    /// `BlockMissing` with "Blocklist for ... has changed" when another block is there.
    pub(crate) fn refetch(
        &self,
        block: &Block,
        closed: Closed<'_>,
        d: Deadline,
    ) -> Result<Arc<Block>> {
        self.fetch_again(block, Update::All, closed, d)
    }

    /// Fetches a new token of a block.
    ///
    /// # Errors
    /// As [`Self::refetch`].
    pub(crate) fn refetch_token(
        &self,
        block: &Block,
        closed: Closed<'_>,
        d: Deadline,
    ) -> Result<Arc<Block>> {
        self.fetch_again(block, Update::Locations, closed, d)
    }

    fn fetch_again(
        &self,
        block: &Block,
        update: Update,
        closed: Closed<'_>,
        d: Deadline,
    ) -> Result<Arc<Block>> {
        let _fetching = self.lock(d)?;
        self.fetch(block.offset, update, closed, d)?;
        let table = self.table.read();
        match table.at(block.offset) {
            Some(now) if now.proto.b.block_id == block.proto.b.block_id => Ok(Arc::clone(now)),
            _ => Err(self.changed()),
        }
    }

    fn changed(&self) -> Error {
        // Hadoop 3.4 DFSInputStream: HBase matches this text from its first word.
        let text = format!("Blocklist for {} has changed!", self.path);
        Error::new(Status::BlockMissing, text)
    }

    /// Asks for the length again; returns it.
    ///
    /// # Errors
    /// As [`Self::open`], and "Blocklist for ... has changed".
    pub(crate) fn refresh(&self, closed: Closed<'_>, d: Deadline) -> Result<u64> {
        let _fetching = self.lock(d)?;
        let from = {
            let table = self.table.read();
            let last = table.blocks.last_key_value().map_or(0, |(offset, _)| *offset);
            table.open_last.as_ref().map_or(last, |open| open.offset)
        };
        self.fetch(from, Update::All, closed, d)?;
        Ok(self.len())
    }

    fn fetch(&self, offset: u64, update: Update, closed: Closed<'_>, d: Deadline) -> Result<()> {
        let length = self.config.read_prefetch_bytes.max(1);
        // The RPC carries a signed 64-bit number.
        let length = length.min(i64::MAX as u64 - offset.min(i64::MAX as u64));
        let mut tries = self.config.last_block_length_retries;
        loop {
            let answer = self
                .source
                .get_block_locations(&self.path, offset, length, d)
                .map_err(|e| self.explain(e, d))?;
            self.check_supported(&answer)?;
            if update == Update::Locations {
                return self.apply(answer, None);
            }
            if let Some(len) = self.last_block_length(&answer, closed, d)? {
                return self.apply(answer, Some(len));
            }
            // Hadoop 3.4 DFSInputStream#openInfo: after a restart of the cluster the DataNodes may
            // not have reported the block yet.
            if tries == 0 {
                return Err(Error::new(
                    Status::BlockMissing,
                    format!("reading {}: Could not obtain the last block locations", self.path),
                ));
            }
            tries -= 1;
            pause(self.config.last_block_length_interval_ms, closed, d)
                .map_err(|e| e.context(format!("waiting for the last block of {}", self.path)))?;
        }
    }

    /// Tells a directory from a missing file, which NameNodes answer by one exception.
    fn explain(&self, error: Error, d: Deadline) -> Error {
        if error.status() == Status::IsDirectory {
            let text = format!("{} cannot be read, the path is a directory", self.path);
            return error.context(text);
        }
        if error.status() != Status::NotFound {
            return error;
        }
        let dir = crate::proto::hdfs::hdfs_file_status_proto::FileType::IsDir as i32;
        match self.source.get_file_info(&self.path, d) {
            Ok(Some(info)) if info.file_type == dir => {
                let text = format!("{} cannot be read, the path is a directory", self.path);
                Error::new(Status::IsDirectory, text)
            }
            _ => error,
        }
    }

    fn check_supported(&self, answer: &LocatedBlocksProto) -> Result<()> {
        let unsupported = |what: String| {
            Err(Error::new(Status::Unsupported, format!("reading {}: {what}", self.path)))
        };
        // Policy 0 is plain replication.
        let policy = answer.ec_policy.as_ref().filter(|policy| policy.id != 0);
        let striped = answer.blocks.iter().chain(&answer.last_block);
        if policy.is_some() || striped.into_iter().any(|b| b.block_indices.is_some()) {
            let name = match policy {
                Some(policy) if !policy.name().is_empty() => policy.name().to_owned(),
                Some(policy) => format!("number {}", policy.id),
                None => "of unknown name".to_owned(),
            };
            return unsupported(format!(
                "the file is striped with erasure coding policy {name}, which is not supported"
            ));
        }
        if answer.file_encryption_info.is_some() {
            return unsupported("the file is encrypted, which is not supported".to_owned());
        }
        Ok(())
    }

    /// Length of the last block: 0 if it is complete (it counts in the file's length then), `None`
    /// when no DataNode has reported it yet.
    fn last_block_length(
        &self,
        answer: &LocatedBlocksProto,
        closed: Closed<'_>,
        d: Deadline,
    ) -> Result<Option<u64>> {
        let Some(last) = answer.last_block.as_ref().filter(|_| !answer.is_last_block_complete)
        else {
            return Ok(Some(0));
        };
        if last.locs.is_empty() {
            // Without bytes there is nothing that a DataNode could have reported.
            return Ok(if last.b.num_bytes() == 0 { Some(0) } else { None });
        }
        self.replica_length(last, closed, d).map(Some)
    }

    fn replica_length(
        &self,
        last: &LocatedBlockProto,
        closed: Closed<'_>,
        d: Deadline,
    ) -> Result<u64> {
        // Hadoop 3.4 DFSInputStream#readBlockLength: the first answer wins; a node that is still
        // starting is asked again until the socket time-out; a block that no node has is new.
        let limit = d.min(Deadline::after_ms(self.config.socket_timeout_ms));
        let mut left: Vec<_> = last.locs.iter().collect();
        let mut missing = 0;
        let mut reason = None;
        loop {
            let mut again = Vec::new();
            for info in left {
                match self.source.replica_visible_length(&info.id, &last.b, d) {
                    Ok(len) => return Ok(len),
                    Err(e) if e.status() == Status::NotFound => missing += 1,
                    Err(e) => {
                        let class = e.remote_class().unwrap_or_default();
                        if e.status() == Status::ServerBusy
                            || class.ends_with(".RetriableException")
                        {
                            again.push(info);
                        }
                        crate::dfs_log!(Debug, "asking for the length of {}: {e}", self.path);
                        reason = Some(e);
                    }
                }
            }
            if missing == last.locs.len() {
                return Ok(0);
            }
            if again.is_empty() || limit.passed() {
                break;
            }
            left = again;
            pause(LENGTH_RETRY_MS, closed, limit)?;
        }
        let name = format!("blk_{}_{}", last.b.block_id, last.b.generation_stamp);
        let why = reason.map_or_else(String::new, |e| format!(": {e}"));
        let text = format!("Cannot obtain block length for {name} of {}{why}", self.path);
        Err(Error::new(Status::BlockMissing, text))
    }

    /// Puts an answer into the table. `last_len` is the length of an open last block, or `None` to
    /// keep the known length.
    fn apply(&self, answer: LocatedBlocksProto, last_len: Option<u64>) -> Result<()> {
        let make = |proto: LocatedBlockProto, len: u64, open: bool| {
            let hostname = self.config.use_datanode_hostname;
            let client = self.source.client_name();
            Arc::new(Block::new(proto, len, open, client, hostname, &self.nodes))
        };
        let (complete, last) = (answer.is_last_block_complete, answer.last_block);
        let open = last.as_ref().filter(|_| !complete).map(|last| last.b.block_id);
        let last_complete = last.clone().filter(|_| complete);
        let fresh: Vec<_> = answer
            .blocks
            .into_iter()
            .chain(last_complete)
            .filter(|b| Some(b.b.block_id) != open && b.b.num_bytes() > 0)
            .map(|b| {
                let len = b.b.num_bytes();
                make(b, len, false)
            })
            .collect();
        let mut table = self.table.write();
        for block in fresh
            .iter()
            .map(|b| (b.offset, b.proto.b.block_id))
            .chain(last.as_ref().filter(|_| !complete).map(|l| (l.offset, l.b.block_id)))
        {
            // A writer may abandon a block before any byte of it is there, and get another one.
            let other = |old: &&Arc<Block>| old.proto.b.block_id != block.1 && old.len > 0;
            if table.at(block.0).filter(other).is_some() {
                return Err(self.changed());
            }
        }
        if table.blocks.len() + fresh.len() > BLOCKS_MAX {
            table.blocks.clear();
        }
        // The block that was open is complete now: its entry among the others is the newer one.
        let was_open = table.open_last.as_ref().map(|old| old.proto.b.block_id);
        if fresh.iter().any(|b| Some(b.proto.b.block_id) == was_open) {
            table.open_last = None;
        }
        for block in fresh.into_iter().take(BLOCKS_MAX) {
            table.blocks.insert(block.offset, block);
        }
        match last_len {
            Some(len) => {
                table.open_last = last.filter(|_| !complete).map(|last| make(last, len, true));
                let total = answer.file_length.saturating_add(len);
                self.file_len.store(total, Ordering::Release);
            }
            None => {
                // Only a new token and locations for the block that is known to be open.
                let known = table.open_last.as_ref().map(|old| (old.proto.b.block_id, old.len));
                if let (Some((id, len)), Some(last)) = (known, last.filter(|_| !complete))
                    && last.b.block_id == id
                {
                    table.open_last = Some(make(last, len, true));
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::proto::hdfs::{DatanodeIdProto, DatanodeInfoProto, ExtendedBlockProto};

    /// A located block with replicas at `ip:port` addresses.
    pub(crate) fn located(id: u64, offset: u64, len: u64, servers: &[&str]) -> LocatedBlockProto {
        let locs = servers.iter().map(|server| {
            let (ip, port) = server.rsplit_once(':').unwrap();
            let id = DatanodeIdProto {
                ip_addr: ip.into(),
                host_name: ip.into(),
                datanode_uuid: (*server).to_owned(),
                xfer_port: port.parse().unwrap(),
                ..Default::default()
            };
            DatanodeInfoProto { id, ..Default::default() }
        });
        LocatedBlockProto {
            b: ExtendedBlockProto {
                pool_id: "BP-1".into(),
                block_id: id,
                generation_stamp: 1001,
                num_bytes: Some(len),
            },
            offset,
            locs: locs.collect(),
            ..Default::default()
        }
    }

    /// The same, as a read sees it.
    pub(crate) fn block(id: u64, offset: u64, len: u64, servers: &[&str]) -> Block {
        let nodes = Nodes::new(60_000, true);
        Block::new(located(id, offset, len, servers), len, false, "client", false, &nodes)
    }

    #[test]
    fn a_range_is_found_by_any_of_its_offsets() {
        let mut table = Table::default();
        for b in [block(1, 0, 100, &["a:1"]), block(2, 100, 50, &["a:1"])] {
            table.blocks.insert(b.offset, Arc::new(b));
        }
        table.open_last = Some(Arc::new(block(3, 150, 10, &["a:1"])));
        let id = |offset| table.find(offset).map(|b| b.proto.b.block_id);
        assert_eq!([id(0), id(99), id(100), id(149)], [Some(1), Some(1), Some(2), Some(2)]);
        assert_eq!([id(150), id(159), id(160)], [Some(3), Some(3), None]);
        assert_eq!(table.find(0).unwrap().name(), "blk_1_1001");
    }
}
