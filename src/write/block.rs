//! The life of a block: allocated and connected before its first packet, ended with an empty
//! packet, and at last the file completed.
use super::ack_reader::AckReader;
use super::output_stream::{Block, Stream, Writer};
use super::pipeline::{self, Early, Setup, SetupFailure, Target};
use super::recovery::Recovery;
use crate::datanode::peer::{ip_port, is_local};
use crate::dfs_log;
use crate::error::{Error, Result, Status};
use crate::proto::hdfs::op_write_block_proto::BlockConstructionStage;
use crate::time::{Deadline, now};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// First pause between two polls of `addBlock` or `complete`: the report that they wait for
/// usually reaches the NameNode within 2 ms of the ack.
const POLL_FIRST: Duration = Duration::from_millis(1);
/// Longest pause between two polls.
const POLL_MAX: Duration = Duration::from_millis(400);

/// Blocks below this size, bytes, are not worth an early connection.
const EARLY_MIN_BLOCK: u64 = 4 << 20;

/// Polls with rising pauses, for as long as Java's retries would take.
// Differs: Hadoop sleeps dfs.client.block.write.locateFollowingBlock.initial.delay.ms (400) before
// the first retry, doubling; the total time is kept, the pauses start at 1 ms.
struct Poll {
    pause: Duration,
    until: Deadline,
}

impl Poll {
    fn new(stream: &Stream) -> Poll {
        let config = &stream.ctx.config;
        let mut total = 0_u64;
        let mut delay = config.locate_following_block_initial_delay_ms;
        for _ in 0..config.locate_following_block_retries {
            total = total.saturating_add(delay);
            delay = delay.saturating_mul(2).min(config.locate_following_block_max_delay_ms);
        }
        Poll { pause: POLL_FIRST, until: Deadline::after_ms(total.max(1)) }
    }

    /// Sleeps; false when the time is up.
    fn pause(&mut self, deadline: Deadline) -> bool {
        let left = self.until.min(deadline).remaining().unwrap_or(self.pause);
        if left.is_zero() {
            return false;
        }
        std::thread::sleep(self.pause.min(left));
        self.pause = (self.pause * 2).min(POLL_MAX);
        true
    }
}

/// Why an attempt to open a block came to nothing.
enum Opened {
    /// Another block may do better.
    Failed(Error),
    /// The call ends with this.
    Ended(Error),
}

impl Stream {
    /// Makes sure that the current block has a pipeline.
    pub(super) fn ensure_block(&self, w: &mut Writer, deadline: Deadline) -> Result<()> {
        if w.appending {
            return self.set_up_append(w, deadline);
        }
        if w.block.is_some() {
            return Ok(());
        }
        let attempts = self.ctx.config.block_write_retries.saturating_add(1);
        let mut last: Option<Error> = None;
        for _ in 0..attempts {
            let failure = match self.open_block(w, deadline) {
                Ok(()) => return Ok(()),
                Err(Opened::Failed(failure)) => failure,
                Err(Opened::Ended(error)) => return Err(error),
            };
            if deadline.passed() {
                let durable = self.acks.lock().acked_pos;
                return Err(failure.with_status(Status::TimedOut).with_durable(durable));
            }
            last = Some(failure);
        }
        self.give_back(w, deadline)?;
        // Hadoop 3.4 DataStreamer#nextBlockOutputStream: the words that users search for.
        let error = last.unwrap_or_else(|| Error::new(Status::Pipeline, "no attempt was made"));
        let error =
            error.with_status(Status::Pipeline).with_stage("setting up a pipeline").context(
                format!("Unable to create new block for {} in {attempts} attempts", self.file.path),
            );
        Err(self.break_file(error))
    }

    /// One attempt to get a new block with a pipeline, or the rest of one that a deadline cut off.
    fn open_block(&self, w: &mut Writer, deadline: Deadline) -> std::result::Result<(), Opened> {
        let mut opening = match w.recovery.opening.take() {
            Some(opening) => opening,
            None => {
                self.give_back(w, deadline).map_err(Opened::Ended)?;
                let target = self.allocate(w, deadline).map_err(Opened::Ended)?;
                let setup = Setup {
                    target: &target,
                    stage: BlockConstructionStage::PipelineSetupCreate,
                    min_bytes: 0,
                    max_bytes: 0,
                    new_generation_stamp: 0,
                    shape: self.shape,
                    client_name: self.ctx.namenode.client_name(),
                    drop_behind: self.options.drop_behind,
                    lazy_persist: self.file.lazy_persist,
                };
                let early = w.early.take().flatten();
                match pipeline::open(&setup, early, &self.ctx.config, deadline) {
                    Ok(opening) => opening,
                    Err(failure) => {
                        return Err(Opened::Failed(self.give_up(w, target, *failure, deadline)));
                    }
                }
            }
        };
        match opening.wait(deadline) {
            Ok(true) => {}
            Ok(false) => {
                w.recovery.opening = Some(opening);
                return Err(Opened::Ended(self.timed_out("setting up a pipeline for")));
            }
            Err(failure) => {
                let (target, _) = opening.into_parts();
                return Err(Opened::Failed(self.give_up(w, target, *failure, deadline)));
            }
        }
        let (target, reader) = opening.into_parts();
        self.install(&target, reader, 0);
        w.recovery = Recovery::default();
        // Only this block's replacements must avoid the nodes that failed.
        w.failed.clear();
        w.block = Some(Block { target, ending: false });
        self.ctx.stats.blocks.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Connects to the DataNode of this host when a block is nearly full: it leads the next
    /// block's pipeline too, as the NameNode places the first replica where the writer is.
    // HDFS default placement, BlockPlacementPolicyDefault#chooseTargetInOrder.
    pub(super) fn connect_early(&self, w: &mut Writer) {
        let size = self.options.block_size;
        if w.early.is_some() || size < EARLY_MIN_BLOCK || w.sealed_in_block < size - size / 10 {
            return;
        }
        let first = w.block.as_ref().and_then(|b| b.target.nodes.first()).map(|n| &n.id);
        let begin = |id| Early::start(id, &self.ctx.config).ok();
        // Once a block, whether it works or not: the set-up connects if need be.
        w.early = Some(first.filter(|id| is_local(&id.ip_addr)).and_then(begin));
    }

    /// A new block of the size that the file asks for, polling while the one before is reported.
    fn allocate(&self, w: &mut Writer, deadline: Deadline) -> Result<Target> {
        let expiry = Duration::from_millis(self.ctx.config.exclude_nodes_expiry_ms);
        w.excluded.retain(|(_, since)| since.elapsed() < expiry);
        let excluded: Vec<_> = w.excluded.iter().map(|(node, _)| node.clone()).collect();
        let mut poll = Poll::new(self);
        loop {
            let answer = self.ctx.namenode.add_block(
                &self.file.path,
                w.previous.as_ref(),
                &excluded,
                self.file.file_id,
                &self.options.favored_nodes,
                &self.options.add_block_flags,
                deadline,
            );
            let error = match answer {
                Ok(located) => {
                    let mut target = Target::new(located).map_err(|e| self.break_file(e))?;
                    // Hadoop 3.4 DataStreamer#createBlockOutputStream: the length in a create
                    // request is the block size, by which the DataNode reserves space.
                    target.block.num_bytes = Some(self.options.block_size);
                    return Ok(target);
                }
                Err(error) => error.with_stage("allocating a block"),
            };
            if error.status() == Status::NotReplicated && poll.pause(deadline) {
                continue;
            }
            if self.correct_length(w, &error, deadline)? {
                continue;
            }
            return Err(self.refused(error));
        }
    }

    /// A new block whose pipeline could not be built goes back, and the node at fault is
    /// remembered.
    fn give_up(
        &self,
        w: &mut Writer,
        target: Target,
        failure: SetupFailure,
        deadline: Deadline,
    ) -> Error {
        self.ctx.stats.pipeline_faults.fetch_add(1, Ordering::Relaxed);
        dfs_log!(
            Warn,
            "{}: no pipeline for {}: {}",
            self.file.path,
            target.block_name(),
            failure.error
        );
        let cut = self.was_cut_short(w, &failure, target.nodes.len(), deadline);
        if let Some(node) = target.nodes.get(failure.bad_node).filter(|_| !cut) {
            w.excluded.push((node.clone(), now()));
        }
        w.give_back = Some(target.block);
        failure.error.with_stage("setting up a pipeline")
    }

    /// Returns an unused block to the NameNode: otherwise the next addBlock would name it again,
    /// with the same nodes, and the file could not be completed.
    fn give_back(&self, w: &mut Writer, deadline: Deadline) -> Result<()> {
        let Some(block) = w.give_back.as_ref() else { return Ok(()) };
        let file = &self.file;
        self.ctx
            .namenode
            .abandon_block(&file.path, block, file.file_id, deadline)
            .map_err(|e| self.refused(e.with_stage("abandoning a block")))?;
        w.give_back = None;
        Ok(())
    }

    /// Starts using a connected pipeline, of which `acked` bytes of the block are durable.
    pub(super) fn install(&self, target: &Target, reader: AckReader, acked: u64) {
        let mut acks = self.acks.lock();
        acks.epoch += 1;
        acks.conn = Some(std::sync::Arc::clone(&reader.conn));
        acks.reader = Some(Box::new(reader));
        acks.node_count = target.nodes.len();
        acks.node_names = target.nodes.iter().map(|n| ip_port(&n.id)).collect();
        acks.acked_in_block = acked;
        acks.partial = None;
        acks.fault = None;
        acks.slow.reset();
        acks.heartbeats.clear();
        acks.heard = now();
        acks.last_sent = acks.heard;
        drop(acks);
        self.wake_everybody();
        self.persist.store(true, Ordering::Relaxed);
    }

    /// Ends the current block: all bytes, all acks, the end-of-block packet, its ack. Every
    /// DataNode has then finalized its replica.
    pub(super) fn finish_block(&self, w: &mut Writer, deadline: Deadline) -> Result<()> {
        if w.block.is_none() {
            return Ok(());
        }
        if w.packet.as_ref().is_some_and(|p| p.new_bytes() > 0) {
            self.send_current(w, self.options.sync_block, false, deadline)?;
        }
        // What is left repeats the end of the block. It must not take bytes any more: a write after
        // a call that timed out here would lose them.
        w.packet = None;
        if w.appending {
            // Nothing was appended: the block stays as it is.
            let Some(block) = w.block.take() else { return Ok(()) };
            w.appending = false;
            w.previous = Some(block.target.block);
            w.block_start += w.sealed_in_block;
            w.sealed_in_block = 0;
            return Ok(());
        }
        if w.sealed_in_block == 0 && w.block.as_ref().is_some_and(|b| !b.ending) {
            return self.drop_empty_block(w, deadline);
        }
        // Hadoop 3.4 DataStreamer#run: the end packet waits for all data to be acknowledged, or
        // recovery could not tell what the replicas hold.
        self.wait_owner(w, deadline, |acks| acks.unacked.is_empty())?;
        if w.block.as_ref().is_some_and(|b| !b.ending) {
            self.send_empty(w, true, self.options.sync_block, deadline)?;
            if let Some(block) = w.block.as_mut() {
                block.ending = true;
            }
            self.wait_owner(w, deadline, |acks| acks.unacked.is_empty())?;
        }
        let Some(mut block) = w.block.take() else { return Ok(()) };
        block.target.block.num_bytes = Some(w.sealed_in_block);
        w.previous = Some(block.target.block);
        w.block_start += w.sealed_in_block;
        w.sealed_in_block = 0;
        self.uninstall();
        Ok(())
    }

    /// Forgets the pipeline of a block that is over.
    fn uninstall(&self) {
        let mut acks = self.acks.lock();
        acks.epoch += 1;
        acks.reader = None;
        acks.conn = None;
        acks.node_names.clear();
    }

    /// A block that was prepared and got no bytes goes back to the NameNode.
    fn drop_empty_block(&self, w: &mut Writer, deadline: Deadline) -> Result<()> {
        // A sync of it may still be under way.
        self.wait_owner(w, deadline, |acks| acks.unacked.is_empty())?;
        let Some(block) = w.block.take() else { return Ok(()) };
        w.give_back = Some(block.target.block);
        self.uninstall();
        self.persist.store(false, Ordering::Relaxed);
        Ok(())
    }

    /// After a length that the NameNode may have taken for another block's: tells it the right one
    /// once it refuses to commit the block. True when the refused call may be repeated.
    // Hadoop 3.4 BlockManager#commitBlock refuses a length below the one that it was told.
    fn correct_length(&self, w: &mut Writer, refusal: &Error, deadline: Deadline) -> Result<bool> {
        let length = w.previous.as_ref().map_or(0, |b| b.num_bytes());
        if !w.stale_length || length == 0 || refusal.status() != Status::Remote {
            return Ok(false);
        }
        let file = &self.file;
        self.ctx
            .namenode
            .fsync(&file.path, file.file_id, length as i64, deadline)
            .map_err(|e| self.refused(e.with_stage("correcting a length")))?;
        w.stale_length = false;
        Ok(true)
    }

    /// Completes the file at the NameNode.
    pub(super) fn complete(&self, w: &mut Writer, deadline: Deadline) -> Result<()> {
        self.give_back(w, deadline)?;
        let mut poll = Poll::new(self);
        let file = &self.file;
        loop {
            let last = w.previous.as_ref();
            match self.ctx.namenode.complete(&file.path, last, file.file_id, deadline) {
                Ok(true) => return Ok(()),
                Ok(false) => {}
                Err(error) => {
                    if self.correct_length(w, &error, deadline)? {
                        continue;
                    }
                    return Err(self.refused(error.with_stage("completing the file")));
                }
            }
            if !poll.pause(deadline) {
                let durable = self.acks.lock().acked_pos;
                // Hadoop 3.4 DFSOutputStream#completeFile: the words that users search for.
                return Err(Error::new(
                    Status::NotReplicated,
                    format!(
                        "unable to close {}: the last block does not have enough number of \
                         replicas",
                        file.path
                    ),
                )
                .with_stage("completing the file")
                .with_durable(durable));
            }
        }
    }
}
