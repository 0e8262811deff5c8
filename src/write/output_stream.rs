//! A file being written.
use super::ack_reader::AckReader;
use super::closing::Closing;
use super::congestion_state::{Congestion, SlowNodes};
use super::options::{StreamOptions, check_options};
use super::packet::{Packet, PacketShape};
use super::pipeline::{Early, Target};
use super::recovery::Recovery;
use super::recovery_state::Progress;
use super::ticket::{FlushProgress, Tickets, check_mode};
use super::{LeaseHolder, WriteContext};
use crate::dfs_log;
use crate::error::{Error, Result, Status};
use crate::proto::hdfs;
use crate::time::{Deadline, now};
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Instant;

/// What a flush asks of the DataNodes and the NameNode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SyncMode {
    /// DataNodes sync the block to disk before they acknowledge (hsync).
    pub sync: bool,
    /// The NameNode learns the new length (Java's UPDATE_LENGTH).
    pub update_length: bool,
    /// The block ends here, the next write starts a new one (Java's END_BLOCK).
    pub end_block: bool,
}

/// The file as the NameNode knows it.
#[derive(Clone, Debug)]
pub struct FileIdentity {
    /// Absolute path.
    pub path: String,
    /// Inode id; 0 if the server sends none.
    pub file_id: u64,
    /// The file's storage policy is LAZY_PERSIST.
    pub lazy_persist: bool,
}

/// Where writing starts in a file that exists.
#[derive(Clone, Debug, Default)]
pub struct Start {
    /// Bytes in the file.
    pub length: u64,
    /// The last block, to be continued; `None` when it is full, absent, or not to be touched.
    pub last: Option<hdfs::LocatedBlockProto>,
    /// The last block, to be followed by a new one (Java's NEW_BLOCK).
    pub previous: Option<hdfs::ExtendedBlockProto>,
}

/// The pipeline of the current block.
pub(super) struct Block {
    pub(super) target: Target,
    /// The end-of-block packet was sent.
    pub(super) ending: bool,
}

/// State that only the thread holding the writer lock touches.
pub(super) struct Writer {
    pub(super) packet: Option<Packet>,
    /// Size that the next packet will probably have, bytes.
    pub(super) expect: usize,
    pub(super) block: Option<Block>,
    /// The block before the current one, with its final length and generation stamp.
    pub(super) previous: Option<hdfs::ExtendedBlockProto>,
    /// File offset at which the current (or next) block starts.
    pub(super) block_start: u64,
    /// Block offset behind the last byte that was sealed into a packet.
    pub(super) sealed_in_block: u64,
    pub(super) next_seqno: i64,
    /// DataNodes that a set-up failed on, and when.
    pub(super) excluded: Vec<(hdfs::DatanodeInfoProto, Instant)>,
    /// A connection for the next block, begun when the current one was nearly full; the inner
    /// `None`: there is nothing to connect to early.
    pub(super) early: Option<Option<Early>>,
    /// A block without a pipeline that the NameNode has to take back before anything else.
    pub(super) give_back: Option<hdfs::ExtendedBlockProto>,
    /// DataNodes that left a pipeline of this file after a fault.
    pub(super) failed: Vec<hdfs::DatanodeInfoProto>,
    /// A length was told to the NameNode without an answer: it may arrive when a later block is
    /// the last one.
    pub(super) stale_length: bool,
    /// Packets that a recovery has to send again, before anything else.
    pub(super) resend: VecDeque<Packet>,
    pub(super) progress: Progress,
    pub(super) recovery: Recovery,
    /// The file was opened for append.
    pub(super) appended: bool,
    /// The last block of an appended file has no pipeline yet.
    pub(super) appending: bool,
    /// An attempt to set that pipeline up failed.
    pub(super) append_failed: bool,
    /// The NameNode was asked to complete the file; without an answer it may have done so.
    pub(super) completing: bool,
    pub(super) closed: bool,
}

impl Writer {
    /// File offset behind the last sealed byte.
    pub(super) fn sealed_pos(&self) -> u64 {
        self.block_start + self.sealed_in_block
    }
}

/// What went wrong in a pipeline, and at which node.
#[derive(Clone, Debug)]
pub(super) struct Fault {
    /// The node at fault; `None` once it has left the pipeline.
    pub(super) node: Option<usize>,
    pub(super) restarting: bool,
    /// A recovery has begun: continuing it later is no new fault.
    pub(super) counted: bool,
    pub(super) error: Error,
}

impl Fault {
    /// A fault of node `node`, not yet seen by any recovery.
    pub(super) fn at(node: usize, error: Error) -> Fault {
        Fault { node: Some(node), restarting: false, counted: false, error }
    }
}

/// State shared with whoever reads acks.
pub(super) struct Acks {
    /// Packets sent (the last one perhaps in part) and not yet acknowledged, in order.
    pub(super) unacked: VecDeque<Packet>,
    /// Bytes of the last packet in `unacked` that are on the wire; `None` when all are.
    pub(super) partial: Option<usize>,
    /// The receiving end. Absent while a thread reads, and while there is no pipeline.
    pub(super) reader: Option<Box<AckReader>>,
    pub(super) conn: Option<Arc<super::pipeline::Conn>>,
    /// Rises with every pipeline: a reader of an older one is thrown away.
    pub(super) epoch: u64,
    pub(super) node_count: usize,
    pub(super) node_names: Vec<String>,
    pub(super) acked_seqno: i64,
    pub(super) acked_in_block: u64,
    /// File bytes from 0 acknowledged by every node.
    pub(super) acked_pos: u64,
    /// Sequence number of the newest packet that a flush sealed.
    pub(super) flush_seqno: i64,
    /// Packets that a flush sealed, so far.
    pub(super) batch: u64,
    /// A flush of the file succeeded.
    pub(super) flushed: bool,
    pub(super) unacked_memory: usize,
    /// Since when the pipeline owes us an ack.
    pub(super) heard: Instant,
    pub(super) last_sent: Instant,
    /// For each heartbeat whose ack is due: the packet that must be acknowledged before it.
    pub(super) heartbeats: VecDeque<i64>,
    pub(super) congestion: Congestion,
    pub(super) slow: SlowNodes,
    /// A fault that nobody has handled yet.
    pub(super) fault: Option<Fault>,
    /// The file is broken for good; every later call returns this.
    pub(super) broken: Option<Error>,
}

pub(super) struct Stream {
    pub(super) ctx: Arc<WriteContext>,
    pub(super) file: FileIdentity,
    pub(super) options: StreamOptions,
    pub(super) shape: PacketShape,
    pub(super) writer: Mutex<Writer>,
    pub(super) acks: Mutex<Acks>,
    pub(super) acked: Condvar,
    /// Flushes that wait for the packet of another: those whose packet has an even number among
    /// [`Acks::batch`], and those with an odd one. Each is woken when its own packet is
    /// acknowledged, not with every other.
    pub(super) shared: [Condvar; 2],
    /// File bytes accepted.
    pub(super) pos: AtomicU64,
    /// The block list of the NameNode has to be persisted at the next flush.
    pub(super) persist: AtomicBool,
    /// Flushes that were begun.
    pub(super) tickets: Mutex<Tickets>,
    /// A worker thread has this file in its queue.
    pub(super) driven: AtomicBool,
    pub(super) closing: Mutex<Closing>,
    /// False once the file is broken: lets the warm write notice without a second lock.
    alive: AtomicBool,
    lease: AtomicU64,
}

/// A file being written. Any number of threads may use it at once; writes take their turn.
///
/// Dropping it without [`OutputStream::close`] abandons the file: nothing more is sent, and the
/// NameNode recovers the lease when it expires.
pub struct OutputStream {
    pub(super) stream: Arc<Stream>,
}

impl OutputStream {
    /// Wraps a file that the NameNode has just created for us, at length 0.
    ///
    /// # Errors
    /// `InvalidArgument` when the options contradict each other.
    pub fn new(
        ctx: Arc<WriteContext>,
        file: FileIdentity,
        options: StreamOptions,
    ) -> Result<OutputStream> {
        check_options(&options)?;
        let shape = PacketShape::new(
            options.checksum,
            options.bytes_per_checksum as usize,
            options.packet_bytes,
        );
        let at = now();
        let stream = Arc::new(Stream {
            shape,
            writer: Mutex::new(Writer {
                packet: None,
                expect: 0,
                block: None,
                previous: None,
                block_start: 0,
                sealed_in_block: 0,
                next_seqno: 0,
                excluded: Vec::new(),
                early: None,
                give_back: None,
                failed: Vec::new(),
                stale_length: false,
                resend: VecDeque::new(),
                progress: Progress::default(),
                recovery: Recovery::default(),
                appended: false,
                appending: false,
                append_failed: false,
                completing: false,
                closed: false,
            }),
            acks: Mutex::new(Acks {
                unacked: VecDeque::new(),
                partial: None,
                reader: None,
                conn: None,
                epoch: 0,
                node_count: 0,
                node_names: Vec::new(),
                acked_seqno: -1,
                acked_in_block: 0,
                acked_pos: 0,
                flush_seqno: -1,
                batch: 0,
                flushed: false,
                unacked_memory: 0,
                heard: at,
                last_sent: at,
                heartbeats: VecDeque::new(),
                congestion: Congestion::new(
                    ctx.config.congestion_backoff_mean_ms,
                    ctx.config.congestion_backoff_max_ms,
                ),
                slow: SlowNodes::new(ctx.config.slow_node_threshold),
                fault: None,
                broken: None,
            }),
            acked: Condvar::new(),
            shared: [Condvar::new(), Condvar::new()],
            pos: AtomicU64::new(0),
            persist: AtomicBool::new(false),
            tickets: Mutex::default(),
            driven: AtomicBool::new(false),
            closing: Mutex::default(),
            alive: AtomicBool::new(true),
            lease: AtomicU64::new(0),
            ctx,
            file,
            options,
        });
        let weak: Weak<dyn LeaseHolder> = Arc::downgrade(&stream) as Weak<dyn LeaseHolder>;
        stream.lease.store(stream.ctx.leases.begin(weak), Ordering::Relaxed);
        let tended: Weak<dyn crate::keeper::Tended> = Arc::downgrade(&stream) as _;
        crate::keeper::register(tended);
        Ok(OutputStream { stream })
    }

    /// Wraps a file that the NameNode has just opened for append. The pipeline to its last block
    /// is set up with the first packet.
    ///
    /// # Errors
    /// `InvalidArgument` when the options contradict each other; `Protocol` when the NameNode's
    /// answer does.
    pub fn append(
        ctx: Arc<WriteContext>,
        file: FileIdentity,
        options: StreamOptions,
        start: Start,
    ) -> Result<OutputStream> {
        let target = start.last.map(Target::new).transpose()?;
        let in_block = target.as_ref().map_or(0, |t| t.block.num_bytes());
        if in_block > start.length || in_block >= options.block_size {
            return Err(Error::protocol(format!(
                "the NameNode says that the last block of {} holds {in_block} of {} bytes",
                file.path, start.length
            )));
        }
        let stream = OutputStream::new(ctx, file, options)?;
        {
            let inner = &stream.stream;
            let mut w = inner.writer.lock();
            let mut acks = inner.acks.lock();
            w.appended = true;
            w.appending = target.is_some();
            w.block = target.map(|target| Block { target, ending: false });
            w.previous = start.previous;
            w.block_start = start.length - in_block;
            w.sealed_in_block = in_block;
            acks.acked_in_block = in_block;
            acks.acked_pos = start.length;
            inner.pos.store(start.length, Ordering::Release);
        }
        Ok(stream)
    }

    /// Appends all of `bytes`. Blocks only while the packet window or the socket is full, or at a
    /// block boundary.
    ///
    /// # Errors
    /// The file's lasting error; `TimedOut` when the deadline passes (the position then tells how
    /// many bytes were accepted, and the file remains usable); `Closed`.
    pub fn write(&self, bytes: &[u8], deadline: Deadline) -> Result<()> {
        self.stream.write(bytes, deadline)
    }

    /// Appends all of `bytes` if that needs no waiting: nobody else is writing, and the current
    /// packet has room. False: nothing was done, [`OutputStream::write`] will do it or say why not.
    /// For callers with a time limit, since reading the clock costs more than writing a few bytes.
    #[inline]
    pub fn try_write(&self, bytes: &[u8]) -> bool {
        let writer = self.stream.writer.try_lock();
        writer.is_some_and(|mut writer| self.stream.fill_packet(&mut writer, bytes))
    }

    /// Returns when every byte accepted before the call is acknowledged by all DataNodes.
    ///
    /// # Errors
    /// As [`OutputStream::write`]; after `TimedOut` the bytes may still become durable.
    pub fn flush(&self, mode: SyncMode, deadline: Deadline) -> Result<()> {
        self.stream.flush(mode, deadline)
    }

    /// Appends as many of `bytes` as need no waiting, from the first on; returns how many. 0: all
    /// buffers are under way, or a block ends; a worker thread sees to it.
    ///
    /// # Errors
    /// The file's lasting error; `Closed`.
    pub fn write_at_once(&self, bytes: &[u8]) -> Result<usize> {
        self.stream.write_at_once(bytes)
    }

    /// Builds the pipeline of the next block now, so that the first flush finds it, and costs one
    /// call to the NameNode more than any other. A block that then stays empty is given back.
    ///
    /// # Errors
    /// As [`OutputStream::write`]; after `TimedOut` the first write goes on with it.
    pub fn prepare(&self, deadline: Deadline) -> Result<()> {
        self.stream.prepare(deadline)
    }

    /// Begins a flush of everything accepted so far and returns at once; the result is the
    /// position up to which it goes. Any number may be under way; they complete in order.
    ///
    /// # Errors
    /// The file's lasting error; `Closed`; `Unsupported` for `update_length` and `end_block`.
    pub fn flush_begin(&self, mode: SyncMode) -> Result<u64> {
        check_mode(mode)?;
        self.stream.flush_begin(mode.sync)
    }

    /// Returns when every flush that was begun up to `position` is complete.
    ///
    /// # Errors
    /// `InvalidArgument` if none was begun that reaches it; else as [`OutputStream::flush`].
    pub fn flush_wait(&self, position: u64, deadline: Deadline) -> Result<()> {
        self.stream.flush_wait(position, deadline)
    }

    /// What completed since the last poll; does not wait. Every begun flush is counted by exactly
    /// one poll.
    ///
    /// # Errors
    /// The file's lasting error, once everything that completed before it is told; `Pipeline`
    /// while fewer replicas are live than the file's floor.
    pub fn flush_poll(&self) -> Result<FlushProgress> {
        self.stream.flush_poll()
    }

    /// Has a worker thread close the file, within `limit_ms` (0: only the limits of the steps).
    /// The stream may be dropped meanwhile.
    ///
    /// # Errors
    /// `Io` when no worker can be started.
    pub fn close_begin(&self, limit_ms: u64) -> Result<()> {
        self.stream.close_begin(limit_ms)
    }

    /// Whether the file is closed. Does not wait.
    ///
    /// # Errors
    /// What [`OutputStream::close`] returned on the worker, once; a close may then be begun again.
    /// `InvalidArgument` when none was begun.
    pub fn close_poll(&self) -> Result<bool> {
        self.stream.close_poll()
    }

    /// Flushes, ends the last block and completes the file. May be called again after `TimedOut`.
    ///
    /// # Errors
    /// The file's lasting error; whatever the NameNode says to `complete`.
    pub fn close(&self, deadline: Deadline) -> Result<()> {
        self.stream.close(deadline)
    }

    /// File bytes accepted so far.
    #[inline]
    pub fn pos(&self) -> u64 {
        self.stream.pos.load(Ordering::Acquire)
    }

    /// File bytes from 0 that every DataNode of the pipeline has acknowledged.
    pub fn durable(&self) -> u64 {
        self.stream.acks.lock().acked_pos
    }

    /// `ip:port` of the DataNodes of the current block's pipeline, first node first; empty between
    /// blocks.
    pub fn pipeline(&self) -> Vec<String> {
        self.stream.acks.lock().node_names.clone()
    }

    /// The path that was opened.
    pub fn path(&self) -> &str {
        &self.stream.file.path
    }
}

impl Drop for OutputStream {
    fn drop(&mut self) {
        if !self.stream.is_closing() {
            self.stream.abandon();
        }
    }
}

impl Stream {
    /// Takes the writer lock within the deadline.
    pub(super) fn lock_writer(&self, deadline: Deadline) -> Result<MutexGuard<'_, Writer>> {
        let guard = match deadline.instant() {
            None => Some(self.writer.lock()),
            Some(at) => self.writer.try_lock_until(at),
        };
        guard.ok_or_else(|| self.timed_out("waiting for another call on"))
    }

    /// The caller's own deadline passed; the file stays usable.
    pub(super) fn timed_out(&self, what: &str) -> Error {
        let durable = self.acks.lock().acked_pos;
        Error::new(
            Status::TimedOut,
            format!("{what} {}: the time limit of the call passed", self.file.path),
        )
        .with_durable(durable)
    }

    pub(super) fn check_open(&self, writer: &Writer) -> Result<()> {
        if let Some(error) = self.acks.lock().broken.as_ref() {
            return Err(error.clone());
        }
        if writer.closed {
            return Err(Error::new(Status::Closed, format!("{} is closed", self.file.path)));
        }
        Ok(())
    }

    fn write(&self, bytes: &[u8], deadline: Deadline) -> Result<()> {
        let mut writer = self.lock_writer(deadline)?;
        let w = &mut *writer;
        if self.fill_packet(w, bytes) {
            return Ok(());
        }
        self.check_open(w)?;
        let result = self.write_more(w, bytes, deadline);
        if result.is_err() && self.acks.lock().broken.is_some() {
            w.packet = None;
        }
        result
    }

    /// The warm case of a write: room in the current packet. A broken or closed file has no packet.
    #[inline]
    pub(super) fn fill_packet(&self, w: &mut Writer, bytes: &[u8]) -> bool {
        match w.packet.as_mut() {
            Some(packet) if packet.room() > bytes.len() && self.alive.load(Ordering::Relaxed) => {
                packet.fill(bytes);
                // Only the holder of the writer lock changes it: no atomic addition is needed.
                let pos = self.pos.load(Ordering::Relaxed) + bytes.len() as u64;
                self.pos.store(pos, Ordering::Release);
                true
            }
            _ => false,
        }
    }

    fn write_more(&self, w: &mut Writer, mut rest: &[u8], deadline: Deadline) -> Result<()> {
        self.settle(w, deadline)?;
        while !rest.is_empty() {
            if self.buffer(w, &mut rest, deadline)? {
                self.send_current(w, false, false, deadline)?;
                self.settle(w, deadline)?;
            }
        }
        Ok(())
    }

    /// Moves bytes from the front of `rest` into the current packet, or a new one; true when it is
    /// full and has to be sent. The block must have room.
    pub(super) fn buffer(
        &self,
        w: &mut Writer,
        rest: &mut &[u8],
        deadline: Deadline,
    ) -> Result<bool> {
        let block_left = self.options.block_size - w.sealed_in_block;
        let packet = match w.packet.as_mut() {
            Some(packet) => packet,
            None => {
                let want = w.expect.max(rest.len().min(self.options.packet_bytes));
                let packet = Packet::new(
                    self.shape,
                    &self.ctx.pool,
                    w.sealed_in_block,
                    block_left,
                    want,
                    deadline,
                )?;
                w.packet.insert(packet)
            }
        };
        let n = packet.fill(rest);
        self.pos.fetch_add(n as u64, Ordering::Release);
        *rest = rest.get(n..).unwrap_or_default();
        if packet.room() > 0 {
            return Ok(false);
        }
        let left = block_left - packet.new_bytes() as u64;
        Ok(!packet.grow(&self.ctx.pool, left, deadline)?)
    }

    fn prepare(&self, deadline: Deadline) -> Result<()> {
        let mut writer = self.lock_writer(deadline)?;
        self.check_open(&writer)?;
        self.settle(&mut writer, deadline)?;
        self.ensure_block(&mut writer, deadline)
    }

    pub(super) fn close(&self, deadline: Deadline) -> Result<()> {
        let mut writer = self.lock_writer(deadline)?;
        let w = &mut *writer;
        if let Some(error) = self.acks.lock().broken.as_ref() {
            w.packet = None;
            w.closed = true;
            self.end_lease();
            return Err(error.clone());
        }
        if w.closed {
            return Ok(());
        }
        self.settle(w, deadline)?;
        self.push_tickets(w, deadline)?;
        if w.packet.as_ref().is_some_and(|p| p.new_bytes() > 0) {
            self.send_current(w, self.options.sync_block, false, deadline)?;
        }
        if w.block.is_some() {
            self.finish_block(w, deadline)?;
        }
        w.packet = None;
        w.early = None;
        w.completing = true;
        self.complete(w, deadline)?;
        // The NameNode knows all blocks of a complete file.
        self.persist.store(false, Ordering::Relaxed);
        w.closed = true;
        self.end_lease();
        Ok(())
    }

    /// Breaks the file for good with `error`, unless it is broken already; returns what counts.
    pub(super) fn break_file(&self, error: Error) -> Error {
        let mut acks = self.acks.lock();
        if acks.broken.is_none() {
            let durable = acks.acked_pos;
            let error = error.with_durable(durable).into_fatal();
            dfs_log!(Warn, "{} is broken: {error}", self.file.path);
            acks.broken = Some(error);
            self.alive.store(false, Ordering::Relaxed);
            acks.unacked.clear();
            acks.unacked_memory = 0;
            acks.partial = None;
            acks.epoch += 1;
            acks.reader = None;
            if let Some(conn) = acks.conn.take() {
                conn.socket.shutdown();
            }
        }
        let error = acks.broken.clone();
        drop(acks);
        self.wake_everybody();
        self.end_lease();
        error.unwrap_or_else(|| Error::new(Status::Internal, "a broken file lost its error"))
    }

    fn end_lease(&self) {
        let id = self.lease.swap(0, Ordering::Relaxed);
        if id != 0 {
            self.ctx.leases.end(id);
        }
    }

    /// Forgets an unclosed file: no I/O, no waiting.
    fn abandon(&self) {
        self.end_lease();
        let mut acks = self.acks.lock();
        acks.unacked.clear();
        acks.epoch += 1;
        acks.reader = None;
        if let Some(conn) = acks.conn.take() {
            conn.socket.shutdown();
        }
        if acks.broken.is_none() {
            let text = format!("{} was abandoned", self.file.path);
            acks.broken = Some(Error::new(Status::Closed, text));
        }
        drop(acks);
        self.wake_everybody();
        if let Some(writer) = self.writer.try_lock()
            && !writer.closed
        {
            dfs_log!(
                Warn,
                "{} was abandoned without close; its lease runs out on the NameNode",
                self.file.path
            );
        }
    }
}

impl LeaseHolder for Stream {
    fn lease_lost(&self, why: &Error) {
        let text = format!("the lease of {} could not be renewed: {}", self.file.path, why);
        self.break_file(Error::new(Status::LeaseExpired, text).with_stage("renewing the lease"));
    }

    fn file_system_closed(&self) {
        let text = format!("{} was abandoned: its file system is closed", self.file.path);
        self.break_file(Error::new(Status::Closed, text));
    }
}
