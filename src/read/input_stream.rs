//! An open file for reading.
//!
//! `read` and `seek` share a cursor and exclude each other; `pread` and `preadv` (see
//! `positional.rs`) touch neither and run on any number of threads at once.
use super::block_reader::{BlockReader, DRAIN_BYTES_MAX, Request, Wire};
use super::context::{Closed, ReadContext, ReadStats, pause};
use super::dead_nodes::DeadNodes;
use super::failover::{Failover, Reaction};
use super::located::{Block, LocatedFile};
use crate::datanode::peer;
use crate::error::{Error, Result, Status};
use crate::time::Deadline;
use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI8, AtomicI64, AtomicU64, Ordering};

/// Longest report of corrupt replicas to the NameNode, ms; a read waits for it.
const REPORT_MS: u64 = 5_000;

/// How a file is read.
#[derive(Clone, Copy, Debug)]
pub struct ReadOptions {
    /// Ask for checksums and verify every chunk before it is delivered.
    pub verify_checksum: bool,
    /// Bytes that the DataNode reads ahead; `None`: the configuration, then its own default.
    pub readahead: Option<u64>,
    /// Whether the DataNode drops read data from its page cache; `None` as above.
    pub drop_behind: Option<bool>,
}

impl Default for ReadOptions {
    fn default() -> ReadOptions {
        ReadOptions { verify_checksum: true, readahead: None, drop_behind: None }
    }
}

/// The reader that `read` keeps from call to call.
struct Active {
    reader: BlockReader,
    block: Arc<Block>,
    node: usize,
}

impl Active {
    /// File offset of the next byte.
    fn offset(&self) -> u64 {
        self.block.offset + self.reader.position()
    }
}

#[derive(Default)]
struct Cursor {
    active: Option<Active>,
    /// Block id and node of the last connection that broke during a read: its second break counts
    /// against the node.
    broken: Option<(u64, Box<str>)>,
}

/// An open file. `Send` and `Sync`; every call blocks at most until its deadline, and any single
/// wait for a DataNode at most `dfs.client.socket-timeout`.
pub struct InputStream {
    pub(super) ctx: Arc<ReadContext>,
    pub(super) path: Box<str>,
    verify: bool,
    /// Negative: not set.
    readahead: AtomicI64,
    /// Negative: not set, else 0 or 1.
    drop_behind: AtomicI8,
    pub(super) file: LocatedFile,
    dead: DeadNodes,
    closed: AtomicBool,
    position: AtomicU64,
    cursor: Mutex<Cursor>,
}

fn encode_readahead(bytes: Option<u64>) -> i64 {
    bytes.map_or(-1, |b| i64::try_from(b).unwrap_or(i64::MAX))
}

fn encode_drop_behind(drop: Option<bool>) -> i8 {
    drop.map_or(-1, i8::from)
}

impl InputStream {
    /// Opens a file: one call to the NameNode, and one to a DataNode if the file is being written.
    ///
    /// # Errors
    /// `NotFound`; `IsDirectory`; `Unsupported` for striped and encrypted files; `BlockMissing`
    /// with "Cannot obtain block length" or "Could not obtain the last block" when the length of a
    /// file that is being written cannot be found out; those of the NameNode call.
    pub fn open(
        ctx: Arc<ReadContext>,
        path: &str,
        options: ReadOptions,
        d: Deadline,
    ) -> Result<InputStream> {
        let closed = AtomicBool::new(false);
        let (source, config) = (Arc::clone(&ctx.locations), Arc::clone(&ctx.config));
        let file = LocatedFile::open(path, source, config, Closed::new(&closed, &ctx), d)?;
        let readahead = options.readahead.or(ctx.config.readahead_bytes);
        let drop_behind = options.drop_behind.or(ctx.config.drop_behind_reads);
        Ok(InputStream {
            path: path.into(),
            verify: options.verify_checksum,
            readahead: AtomicI64::new(encode_readahead(readahead)),
            drop_behind: AtomicI8::new(encode_drop_behind(drop_behind)),
            file,
            dead: DeadNodes::default(),
            closed,
            position: AtomicU64::new(0),
            cursor: Mutex::default(),
            ctx,
        })
    }

    /// Reads at the cursor and moves it: fills `buf` unless the file ends before; 0 only there (or
    /// for an empty `buf`). A failure after some bytes ends the call early with their number, and
    /// the next call meets it again. One call at a time; others wait.
    ///
    /// # Errors
    /// `BlockMissing` when no replica can be read, naming each and why; `TimedOut` naming the
    /// DataNode and the stage; `Closed`; those of fetching locations.
    pub fn read(&self, buf: &mut [u8], d: Deadline) -> Result<usize> {
        self.check_call(d)?;
        let mut cursor = self.lock_cursor(d)?;
        let mut done = 0;
        while done < buf.len() {
            let at = self.position.load(Ordering::Relaxed);
            let left = self.file.len().saturating_sub(at);
            if left == 0 {
                break;
            }
            let room = buf.get_mut(done..).unwrap_or_default();
            let take = room.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            let room = room.get_mut(..take).unwrap_or_default();
            match self.read_some(&mut cursor, at, room, d) {
                Ok(n) => {
                    done += n;
                    self.position.store(at + n as u64, Ordering::Relaxed);
                }
                Err(e) if done > 0 => {
                    crate::dfs_log!(Info, "reading {} stops early: {e}", self.path);
                    break;
                }
                Err(e) => return Err(e),
            }
        }
        if self.closed().check().is_err() {
            cursor.active = None;
        }
        ReadStats::add(&self.ctx.stats.bytes, done as u64);
        Ok(done)
    }

    /// Moves the cursor; sends nothing. Waits for a running `read`.
    ///
    /// # Errors
    /// `OutOfRange` behind the end of the file, `Closed`.
    pub fn seek(&self, offset: u64) -> Result<()> {
        self.check_open()?;
        let len = self.file.len();
        if offset > len {
            return Err(Error::new(
                Status::OutOfRange,
                format!("seeking to {offset} in {}, which has {len} bytes", self.path),
            ));
        }
        let _cursor = self.cursor.lock();
        self.position.store(offset, Ordering::Relaxed);
        Ok(())
    }

    /// The cursor: offset of the next byte that [`Self::read`] delivers. Does not block.
    pub fn tell(&self) -> u64 {
        self.position.load(Ordering::Relaxed)
    }

    /// Readable length as known now, bytes: what the last [`Self::refresh`] (or the open) found.
    #[allow(clippy::len_without_is_empty, reason = "a file's length, not a collection's")]
    pub fn len(&self) -> u64 {
        self.file.len()
    }

    /// Bytes between the cursor and the known end.
    pub fn available(&self) -> u64 {
        self.len().saturating_sub(self.tell())
    }

    /// Asks for the length of the file again (it may be growing) and returns it.
    ///
    /// # Errors
    /// As [`Self::open`]; `BlockMissing` with "Blocklist for ... has changed" when the file's
    /// blocks were replaced.
    pub fn refresh(&self, d: Deadline) -> Result<u64> {
        self.check_open()?;
        self.file.refresh(self.closed(), d)
    }

    /// Sets how much DataNodes read ahead for this stream, from the next request on.
    pub fn set_readahead(&self, bytes: Option<u64>) {
        self.readahead.store(encode_readahead(bytes), Ordering::Relaxed);
        self.unbuffer();
    }

    /// Sets whether DataNodes drop what this stream read from their page cache, from the next
    /// request on.
    pub fn set_drop_behind(&self, drop: Option<bool>) {
        self.drop_behind.store(encode_drop_behind(drop), Ordering::Relaxed);
        self.unbuffer();
    }

    /// Gives back the connection and buffers that `read` keeps; the cursor stays. Does nothing
    /// while a `read` runs.
    pub fn unbuffer(&self) {
        if let Some(mut cursor) = self.cursor.try_lock() {
            self.release(&mut cursor, Deadline::NONE);
        }
    }

    /// Closes the stream: later calls fail with `Closed`, running ones end within half a second
    /// of waiting.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
        self.unbuffer();
    }

    pub(super) fn dead_nodes(&self) -> &DeadNodes {
        &self.dead
    }

    pub(super) fn check_open(&self) -> Result<()> {
        self.closed().check().map_err(|e| e.context(format_args!("reading {}", self.path)))
    }

    /// Fails when the stream is closed or the time is up already.
    pub(super) fn check_call(&self, d: Deadline) -> Result<()> {
        self.check_open()?;
        if d.passed() {
            let text = format!("reading {}: the time limit passed before the call", self.path);
            return Err(Error::new(Status::TimedOut, text).with_stage("beginning"));
        }
        Ok(())
    }

    pub(super) fn closed(&self) -> Closed<'_> {
        Closed::new(&self.closed, &self.ctx)
    }

    fn lock_cursor(&self, d: Deadline) -> Result<MutexGuard<'_, Cursor>> {
        let guard = match d.instant() {
            Some(at) => self.cursor.try_lock_until(at),
            None => Some(self.cursor.lock()),
        };
        guard.ok_or_else(|| {
            let text = format!("reading {}: another read runs, and the time is up", self.path);
            Error::new(Status::TimedOut, text)
        })
    }

    pub(super) fn wire(&self, d: Deadline) -> Wire<'_> {
        Wire {
            pool: &self.ctx.pool,
            timeout_ms: self.ctx.config.socket_timeout_ms,
            max_packet_bytes: self.ctx.config.max_packet_bytes,
            closed: self.closed(),
            deadline: d,
        }
    }

    /// Reads at least one byte at file offset `at`, which lies inside the file.
    fn read_some(
        &self,
        cursor: &mut Cursor,
        at: u64,
        buf: &mut [u8],
        d: Deadline,
    ) -> Result<usize> {
        self.reposition(cursor, at, d);
        let Some(active) = &mut cursor.active else {
            let block = self.file.block_at(at, self.closed(), d)?;
            return self.read_new(cursor, Failover::default(), block, at, buf, d);
        };
        match active.reader.read(buf, &self.wire(d)) {
            Ok(n) => {
                if active.reader.at_end() {
                    self.release(cursor, d);
                }
                Ok(n)
            }
            Err(e) => self.read_again(cursor, &e, at, buf, d),
        }
    }

    /// Keeps the reader if it can go on at file offset `at`, else gives it up.
    fn reposition(&self, cursor: &mut Cursor, at: u64, d: Deadline) {
        let Some(active) = &mut cursor.active else { return };
        let now = active.offset();
        // Hadoop 3.4 DFSInputStream#seek: passing over what is probably in the socket already is
        // cheaper than a new request.
        if at >= now && at - now <= DRAIN_BYTES_MAX && at < active.block.end() {
            active.reader.skip_to(at - active.block.offset);
        } else {
            self.release(cursor, d);
        }
    }

    /// Ends the reader; its connection is kept if it can be.
    fn release(&self, cursor: &mut Cursor, d: Deadline) {
        if let Some(active) = cursor.active.take()
            && let Some(peer) = active.reader.finish(&self.wire(d))
        {
            self.ctx.peers.put(peer);
        }
    }

    /// Goes on after the kept reader failed.
    #[cold]
    fn read_again(
        &self,
        cursor: &mut Cursor,
        error: &Error,
        at: u64,
        buf: &mut [u8],
        d: Deadline,
    ) -> Result<usize> {
        let Some(Active { block, node, .. }) = cursor.active.take() else {
            return Err(error.clone());
        };
        let server = block.nodes.get(node).map_or("", |n| &n.server);
        let broken = Some((block.proto.b.block_id, Box::from(server)));
        let second_chance = cursor.broken != broken;
        cursor.broken = broken;
        let mut failover = Failover::default();
        match self.react(&mut failover, &block, node, error, second_chance, d) {
            Ok(block) => self.read_new(cursor, failover, block, at, buf, d),
            Err(e) => {
                self.report_corrupt(&failover, &block, d);
                Err(e)
            }
        }
    }

    /// Opens a reader for the rest of the block and reads from it, over all replicas.
    fn read_new(
        &self,
        cursor: &mut Cursor,
        mut failover: Failover,
        mut block: Arc<Block>,
        at: u64,
        buf: &mut [u8],
        d: Deadline,
    ) -> Result<usize> {
        let result = loop {
            let Some(node) = failover.next_node(&block, &self.dead) else {
                match self.next_round(&mut failover, &block, d) {
                    Ok(fresh) => block = fresh,
                    Err(e) => break Err(e),
                }
                continue;
            };
            match self.start(&block, node, at, buf, d) {
                Ok((reader, n)) => {
                    cursor.active = Some(Active { reader, block: Arc::clone(&block), node });
                    break Ok(n);
                }
                Err(e) => match self.react(&mut failover, &block, node, &e, false, d) {
                    Ok(fresh) => block = fresh,
                    Err(e) => break Err(e),
                },
            }
        };
        self.report_corrupt(&failover, &block, d);
        if cursor.active.as_ref().is_some_and(|active| active.reader.at_end()) {
            self.release(cursor, d);
        }
        result
    }

    fn start(
        &self,
        block: &Block,
        node: usize,
        at: u64,
        buf: &mut [u8],
        d: Deadline,
    ) -> Result<(BlockReader, usize)> {
        let from = at.saturating_sub(block.offset);
        // The file may have shrunk to before `at` while locations were fetched again.
        let Some(len) = block.len.checked_sub(from).filter(|len| *len > 0) else {
            return Err(Error::new(
                Status::DataNode,
                format!("{} has {} bytes now, wanted from {from}", block.name(), block.len),
            ));
        };
        let wire = self.wire(d);
        let mut reader = self.open_reader(block, node, from, len, &wire)?;
        let n = reader.read(buf, &wire)?;
        ReadStats::add(&self.ctx.stats.requests, 1);
        Ok((reader, n))
    }

    /// Starts an operation on replica `node`: on a cached connection, else on a new one.
    pub(super) fn open_reader(
        &self,
        block: &Block,
        node: usize,
        block_offset: u64,
        len: u64,
        wire: &Wire<'_>,
    ) -> Result<BlockReader> {
        let (Some(replica), Some(info)) = (block.nodes.get(node), block.proto.locs.get(node))
        else {
            return Err(Error::new(Status::Internal, "a replica index is out of range"));
        };
        let drop_behind = self.drop_behind.load(Ordering::Relaxed);
        let request = Request {
            header: &block.header,
            block_offset,
            len,
            verify: self.verify,
            readahead: u64::try_from(self.readahead.load(Ordering::Relaxed)).ok(),
            drop_behind: (drop_behind >= 0).then_some(drop_behind > 0),
        };
        let stats = &self.ctx.stats;
        // Hadoop 3.4 BlockReaderFactory#getRemoteBlockReaderFromTcp: a cached connection may have
        // gone stale, which says nothing about the node. Differs: a time-out does count, since a
        // connection that the DataNode closed would have told so at once.
        for _ in 0..self.ctx.config.cached_conn_retry {
            let Some(peer) = self.ctx.peers.take(&replica.server) else { break };
            match BlockReader::open(peer, wire, &request) {
                Ok(reader) => {
                    ReadStats::add(&stats.cache_hits, 1);
                    return Ok(reader);
                }
                Err(e) if matches!(e.status(), Status::ConnectionLost | Status::Protocol) => {
                    ReadStats::add(&stats.stale_peers, 1);
                    crate::dfs_log!(Debug, "a cached connection to {} broke: {e}", replica.server);
                }
                Err(e) => return Err(e),
            }
        }
        let peer = peer::connect(&info.id, &self.ctx.config, wire.deadline)
            .map_err(|e| e.with_stage("connecting"))?;
        ReadStats::add(&stats.connects, 1);
        BlockReader::open(Box::new(peer), wire, &request)
    }

    /// Takes a failure of replica `node`; returns the block to go on with.
    #[cold]
    pub(super) fn react(
        &self,
        failover: &mut Failover,
        block: &Arc<Block>,
        node: usize,
        error: &Error,
        second_chance: bool,
        d: Deadline,
    ) -> Result<Arc<Block>> {
        let server = block.nodes.get(node).map_or("", |n| &n.server);
        let name = block.name();
        crate::dfs_log!(Info, "reading {name} of {} from {server}: {error}", self.path);
        if error.status() == Status::Checksum {
            ReadStats::add(&self.ctx.stats.checksum_failures, 1);
        }
        let reaction = failover.on_error(node, server, error, second_chance);
        if reaction == Reaction::Fail {
            return Err(error.clone().context(format!("reading {name} of {}", self.path)));
        }
        if d.passed() {
            return Err(failover.timed_out(&self.path, block));
        }
        ReadStats::add(&self.ctx.stats.failovers, 1);
        match reaction {
            Reaction::RefetchToken => {
                let fresh = self.file.refetch_token(block, self.closed(), d)?;
                failover.on_new_locations();
                Ok(fresh)
            }
            Reaction::NextNode => {
                self.dead.add(server);
                Ok(Arc::clone(block))
            }
            Reaction::SameNode | Reaction::Fail => Ok(Arc::clone(block)),
        }
    }

    /// Every replica failed: waits, fetches the locations again and returns the block as it is
    /// now, or gives up.
    #[cold]
    pub(super) fn next_round(
        &self,
        failover: &mut Failover,
        block: &Block,
        d: Deadline,
    ) -> Result<Arc<Block>> {
        if failover.end_round(self.ctx.config.max_block_acquire_failures) {
            return Err(failover.give_up(&self.path, block));
        }
        if block.open {
            // While the writer changes the last chunk, its data and its checksum on a DataNode's
            // disk may disagree for a moment; later they must not.
            failover.pardon();
        }
        let ms = failover.sleep_ms(self.ctx.config.retry_window_base_ms, random_permille());
        crate::dfs_log!(Info, "no replica of {} works, next try in {ms} ms", block.name());
        pause(ms, self.closed(), d).map_err(|e| match e.status() {
            Status::TimedOut => failover.timed_out(&self.path, block),
            _ => e,
        })?;
        self.dead.clear();
        self.file.refetch(block, self.closed(), d)
    }

    /// Tells the NameNode about replicas that failed their checksums.
    pub(super) fn report_corrupt(&self, failover: &Failover, block: &Block, d: Deadline) {
        if failover.corrupt().is_empty() {
            return;
        }
        let is_bad = |server: &str| failover.corrupt().iter().any(|c| **c == *server);
        let bad = || {
            let nodes = block.nodes.iter().enumerate();
            nodes.filter(|(_, n)| is_bad(&n.server)).map(|(i, _)| i)
        };
        let (count, all) = (bad().count(), block.nodes.len());
        // Hadoop 3.4 DFSInputStream#reportCheckSumFailure: when all of several replicas seem
        // corrupt, the fault is more likely ours, and the NameNode must not drop them.
        if count == 0 || (count == all && all > 1) {
            return;
        }
        let old = &block.proto;
        let report = crate::proto::hdfs::LocatedBlockProto {
            b: old.b.clone(),
            offset: old.offset,
            locs: bad().filter_map(|i| old.locs.get(i).cloned()).collect(),
            corrupt: true,
            block_token: old.block_token.clone(),
            storage_types: bad().filter_map(|i| old.storage_types.get(i).copied()).collect(),
            storage_i_ds: bad().filter_map(|i| old.storage_i_ds.get(i).cloned()).collect(),
            ..Default::default()
        };
        let limit = d.min(Deadline::after_ms(REPORT_MS));
        if let Err(e) = self.ctx.locations.report_bad_blocks(vec![report], limit) {
            let name = block.name();
            crate::dfs_log!(Warn, "corrupt replicas of {name} could not be reported: {e}");
        }
    }
}

/// 0 to 999, good enough to spread sleeping readers.
fn random_permille() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(0_u8) % 1000
}
