//! An open file for reading.
//!
//! `read` and `seek` share a cursor and exclude each other; `pread` and `preadv` (see
//! `positional.rs`) touch neither and run on any number of threads at once.
use super::block_reader::{BlockReader, DRAIN_BYTES_MAX, Request};
use super::context::{Closed, ReadContext, ReadStats};
use super::failover::Failover;
use super::located::{Block, LocatedFile};
use super::operation::Operation;
use super::positional::check_len;
use super::receive::Wire;
use crate::error::{Error, Result, Status};
use crate::time::Deadline;
use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI8, AtomicI64, AtomicU64, Ordering};

/// The request for the next block is sent when a sequential reader has no more than this left of
/// its block, bytes: enough to hide a round trip and the opening of a file.
const EARLY_BYTES: u64 = 1 << 20;
/// A reader that has read so much in sequence is sequential, bytes.
const SEQUENTIAL_BYTES: u64 = 512 << 10;

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

/// The operation on the next block, started before it is needed.
struct Early {
    operation: Operation,
    block: Arc<Block>,
}

#[derive(Default)]
struct Cursor {
    active: Option<Active>,
    early: Option<Early>,
    /// Bytes read since the cursor was last moved away.
    run: u64,
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

/// What a reader that waits delivers.
pub(super) fn delivered(result: Option<usize>) -> Result<usize> {
    result.ok_or_else(|| Error::new(Status::Internal, "a reader did not wait"))
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
        let (nodes, closes) = (Arc::clone(&ctx.nodes), Closed::new(&closed, &ctx));
        let file = LocatedFile::open(path, source, config, nodes, closes, d)?;
        let readahead = options.readahead.or(ctx.config.readahead_bytes);
        let drop_behind = options.drop_behind.or(ctx.config.drop_behind_reads);
        Ok(InputStream {
            path: path.into(),
            verify: options.verify_checksum,
            readahead: AtomicI64::new(encode_readahead(readahead)),
            drop_behind: AtomicI8::new(encode_drop_behind(drop_behind)),
            file,
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
                    cursor.run += n as u64;
                    self.position.store(at + n as u64, Ordering::Relaxed);
                    self.look_ahead(&mut cursor, d);
                }
                Err(e) if done > 0 => {
                    crate::dfs_log!(Info, "reading {} stops early: {e}", self.path);
                    break;
                }
                Err(e) => return Err(e),
            }
        }
        if self.closed().check().is_err() {
            (cursor.active, cursor.early) = (None, None);
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
            cursor.early = None;
        }
    }

    /// Closes the stream: later calls fail with `Closed`, running ones end within half a second
    /// of waiting.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
        self.unbuffer();
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
            wait: true,
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
        if cursor.active.is_none() {
            if let Some(early) = cursor.early.take()
                && early.block.offset == at
            {
                return self.read_early(cursor, early, buf, d);
            }
            let block = self.file.block_at(at, self.closed(), d)?;
            return self.read_new(cursor, Failover::default(), block, at, buf, d);
        }
        let Some(active) = &mut cursor.active else { return Ok(0) };
        match active.reader.read(buf, &self.wire(d)).and_then(delivered) {
            Ok(n) => {
                if active.reader.at_end() {
                    self.release(cursor, d);
                }
                Ok(n)
            }
            Err(e) => self.read_again(cursor, &e, at, buf, d),
        }
    }

    /// A sequential reader asks for the next block before it is through with its own; what goes
    /// wrong with that shows when the block is needed.
    fn look_ahead(&self, cursor: &mut Cursor, d: Deadline) {
        let Some(active) = &cursor.active else { return };
        if active.block.end() - active.offset() > EARLY_BYTES || cursor.run < SEQUENTIAL_BYTES {
            return;
        }
        let wire = Wire { wait: false, ..self.wire(d) };
        if let Some(Early { operation, block }) = &mut cursor.early {
            // A connection that is being made takes the request when it is there.
            if let Err(e) = operation.ready(self, block, &wire) {
                crate::dfs_log!(Debug, "asking early for {} of {}: {e}", block.name(), self.path);
                cursor.early = None;
                // Once a block.
                cursor.run = 0;
            }
            return;
        }
        let Some(block) = self.file.known_block(active.block.end()) else { return };
        let from_start = block.offset == active.block.end() && !block.open;
        let node = Failover::default().next_node(&block, |_| Some(0)).filter(|_| from_start);
        let Some(node) = node else { return };
        // Optional, so it does not wait for a buffer either.
        let wire = Wire { deadline: Deadline::at_once(), ..wire };
        match Operation::start(self, &block, node, 0, block.len, &wire) {
            Ok(operation) => {
                ReadStats::add(&self.ctx.stats.early_requests, 1);
                cursor.early = Some(Early { operation, block });
            }
            Err(e) => {
                crate::dfs_log!(Debug, "asking early for {} of {}: {e}", block.name(), self.path);
                cursor.run = 0;
            }
        }
    }

    /// Goes on with the block that was asked for early.
    fn read_early(
        &self,
        cursor: &mut Cursor,
        early: Early,
        buf: &mut [u8],
        d: Deadline,
    ) -> Result<usize> {
        let Early { mut operation, block } = early;
        let (node, wire) = (operation.node, self.wire(d));
        let begun = operation.ready(self, &block, &wire).and_then(|_| operation.into_reader());
        let begun = begun.and_then(|mut reader| {
            let n = reader.read(buf, &wire).and_then(delivered)?;
            Ok((reader, n))
        });
        match begun {
            Ok((reader, n)) => {
                ReadStats::add(&self.ctx.stats.requests, 1);
                let at_end = reader.at_end();
                cursor.active = Some(Active { reader, block, node });
                if at_end {
                    self.release(cursor, d);
                }
                Ok(n)
            }
            Err(e) => {
                let (mut failover, at) = (Failover::default(), block.offset);
                match self.react(&mut failover, &block, node, &e, true, d) {
                    Ok(block) => self.read_new(cursor, failover, block, at, buf, d),
                    Err(e) => {
                        self.report_corrupt(&failover, &block, d);
                        Err(e)
                    }
                }
            }
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
            if at != now {
                (cursor.early, cursor.run) = (None, 0);
            }
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
            let Some(node) = failover.next_node(&block, |_| Some(0)) else {
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
        check_len(block, from.saturating_add(1))?;
        let len = block.len.saturating_sub(from);
        let wire = self.wire(d);
        let mut reader = self.open_reader(block, node, from, len, &wire)?;
        let n = reader.read(buf, &wire).and_then(delivered)?;
        if let (Some(latency), Some(node)) = (reader.take_latency(), block.nodes.get(node)) {
            node.standing.on_data(latency);
        }
        ReadStats::add(&self.ctx.stats.requests, 1);
        Ok((reader, n))
    }

    /// Starts an operation on replica `node`, on a cached connection or a new one, and waits for
    /// the response.
    pub(super) fn open_reader(
        &self,
        block: &Block,
        node: usize,
        block_offset: u64,
        len: u64,
        wire: &Wire<'_>,
    ) -> Result<BlockReader> {
        let mut operation = Operation::start(self, block, node, block_offset, len, wire)?;
        operation.ready(self, block, wire)?;
        operation.into_reader()
    }

    pub(super) fn request<'b>(&self, block: &'b Block, block_offset: u64, len: u64) -> Request<'b> {
        let drop_behind = self.drop_behind.load(Ordering::Relaxed);
        Request {
            header: &block.header,
            block_offset,
            len,
            verify: self.verify,
            readahead: u64::try_from(self.readahead.load(Ordering::Relaxed)).ok(),
            drop_behind: (drop_behind >= 0).then_some(drop_behind > 0),
        }
    }
}
