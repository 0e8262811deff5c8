//! Pipeline recovery, on the thread that noticed the fault: the bad node leaves, a replacement is
//! asked for, the survivors get a new generation stamp, and every unacknowledged packet is sent
//! again with its old sequence number.
use super::flush::is_passing;
use super::output_stream::{Fault, Stream, Writer};
use super::packet::Packet;
use super::pipeline::{self, Opening, Setup, SetupFailure, Target};
use super::recovery_state::{RESTART_STEP, Verdict, judge};
use super::replacement::NoReplacement;
use super::sender::Pushed;
use crate::datanode::peer::is_local;
use crate::dfs_log;
use crate::error::{Error, Result, Status};
use crate::proto::hdfs;
use crate::proto::hdfs::op_write_block_proto::BlockConstructionStage;
use crate::time::{Deadline, now};
use std::sync::atomic::Ordering;
use std::time::Instant;

/// A recovery under way; kept when a caller's deadline interrupts it.
#[derive(Default)]
pub(super) struct Recovery {
    /// Uuid of a node that announced its restart, and until when it is waited for.
    restarting: Option<(String, Instant)>,
    /// Uuids of restarting nodes that left the pipeline: they will be good again.
    left_restarting: Vec<String>,
    /// Since when callers' deadlines cut connecting short.
    cut_since: Option<Instant>,
    /// A set-up that a caller's deadline interrupted: a second one beside it would only get in its
    /// way on the DataNodes.
    pub(super) opening: Option<Opening>,
}

impl Recovery {
    fn awaits(&self, uuid: &str) -> bool {
        self.restarting.as_ref().is_some_and(|(id, until)| id == uuid && *until > now())
    }
}

impl Stream {
    /// Handles the fault that is noted, if any: afterwards the pipeline runs again, or the file is
    /// broken for good. When the deadline passes first, the fault stays noted and the next call
    /// goes on with the recovery.
    pub(super) fn recover(&self, w: &mut Writer, deadline: Deadline) -> Result<()> {
        loop {
            let Some(mut fault) = self.take_fault(w) else { return Ok(()) };
            if !fault.counted {
                fault.counted = true;
                self.count(w, &fault)?;
            }
            let ended = self.rebuild(w, fault, deadline)?;
            self.end_recovery(w);
            self.ctx.stats.pipeline_recoveries.fetch_add(1, Ordering::Relaxed);
            if ended {
                return Ok(());
            }
            match self.resend(w, deadline)? {
                Pushed::Done => return Ok(()),
                Pushed::Fault => continue,
            }
        }
    }

    /// Notes a new fault; an error if the file gives up because of it.
    fn count(&self, w: &mut Writer, fault: &Fault) -> Result<()> {
        self.ctx.stats.pipeline_faults.fetch_add(1, Ordering::Relaxed);
        dfs_log!(Warn, "{}: pipeline fault: {}", self.file.path, fault.error);
        if self.options.fail_fast || w.block.is_none() {
            return Err(self.give_up_on(w, fault.error.clone()));
        }
        let oldest = w.resend.front().map(|p| p.seqno);
        let max = self.ctx.config.pipeline_recovery_max_retries;
        if !fault.restarting && !w.progress.note(oldest, max) {
            let text = format!("Tried pipeline recovery {max} times for the same packet");
            return Err(self.give_up_on(w, fault.error.clone().context(text)));
        }
        Ok(())
    }

    /// The pipeline runs again.
    // Hadoop 3.4 DataStreamer#setupPipelineForAppendOrRecovery: a node that only restarted may be
    // offered as a replacement later.
    fn end_recovery(&self, w: &mut Writer) {
        let back = std::mem::take(&mut w.recovery).left_restarting;
        w.failed.retain(|node| !back.contains(&node.id.datanode_uuid));
    }

    /// Builds the pipeline of the block that an append continues.
    pub(super) fn set_up_append(&self, w: &mut Writer, deadline: Deadline) -> Result<()> {
        let error = Error::new(Status::Pipeline, "the pipeline was never set up");
        let fault = Fault { node: None, restarting: false, counted: true, error };
        self.rebuild(w, fault, deadline)?;
        self.end_recovery(w);
        Ok(())
    }

    /// Takes the noted fault and every unacknowledged packet; the old connection ends.
    fn take_fault(&self, w: &mut Writer) -> Option<Fault> {
        let mut acks = self.acks.lock();
        let fault = acks.fault.take()?;
        acks.epoch += 1;
        acks.reader = None;
        acks.partial = None;
        if let Some(conn) = acks.conn.take() {
            conn.socket.shutdown();
        }
        while let Some(packet) = acks.unacked.pop_back() {
            w.resend.push_front(packet);
        }
        acks.unacked_memory = 0;
        Some(fault)
    }

    /// Breaks the file because of its DataNodes.
    fn give_up_on(&self, w: &mut Writer, error: Error) -> Error {
        self.break_pipeline(w, error.with_status(Status::Pipeline))
    }

    /// Breaks the file, saying where the pipeline stood.
    fn break_pipeline(&self, w: &mut Writer, error: Error) -> Error {
        let ending = w.block.as_ref().is_some_and(|b| b.ending);
        let stage = if ending { "closing a block" } else { "streaming" };
        let block =
            w.block.as_ref().map_or_else(String::new, |b| format!(" ({})", b.target.block_name()));
        let durable = self.acks.lock().acked_pos;
        w.packet = None;
        w.resend.clear();
        w.recovery = Recovery::default();
        let what = format!("{stage} {}{block} failed with {durable} bytes durable", self.file.path);
        self.break_file(error.with_stage(stage).context(what))
    }

    /// Leaves the recovery to the next call.
    fn postpone(&self, fault: Fault, what: &str) -> Error {
        self.acks.lock().fault = Some(fault);
        self.timed_out(what)
    }

    /// The NameNode did not do its part: a later call may try again, unless the error is lasting.
    // Differs: Hadoop's stream fails here, even if the NameNode only restarts.
    fn interrupted(&self, w: &mut Writer, fault: Fault, error: Error, deadline: Deadline) -> Error {
        if !is_passing(&error) {
            // A stolen lease, a deleted file, a quota: the caller sees which.
            return self.break_pipeline(w, error);
        }
        if deadline.passed() {
            return self.postpone(fault, "recovering the pipeline of");
        }
        let mut acks = self.acks.lock();
        acks.fault = Some(fault);
        error.with_durable(acks.acked_pos)
    }

    /// Rebuilds the pipeline of the current block; true if that also ended the block.
    fn rebuild(&self, w: &mut Writer, mut fault: Fault, deadline: Deadline) -> Result<bool> {
        loop {
            if deadline.passed() {
                return Err(self.postpone(fault, "recovering the pipeline of"));
            }
            let mut opening = match w.recovery.opening.take() {
                Some(opening) => opening,
                None => match self.reopen(w, &mut fault, deadline)? {
                    Some(opening) => opening,
                    None => continue,
                },
            };
            match opening.wait(deadline) {
                Ok(true) => {}
                Ok(false) => {
                    w.recovery.opening = Some(opening);
                    return Err(self.postpone(fault, "recovering the pipeline of"));
                }
                Err(failure) => {
                    w.append_failed = w.appending;
                    let (target, _) = opening.into_parts();
                    fault = self.fault_of(w, &target, *failure);
                    continue;
                }
            }
            if let Err(error) = self.register(w, &opening, deadline) {
                // The NameNode may have taken the stamp all the same and would refuse it the next
                // time; the replicas have taken it, so an append has begun.
                w.append_failed = w.appending;
                fault.node = None;
                return Err(self.interrupted(w, fault, error, deadline));
            }
            return Ok(self.adopt(w, opening));
        }
    }

    /// Settles who is in the pipeline and sends the request to it. `None` when that failed; the
    /// next node to blame is then in `fault`.
    fn reopen(
        &self,
        w: &mut Writer,
        fault: &mut Fault,
        deadline: Deadline,
    ) -> Result<Option<Opening>> {
        self.settle_node(w, fault, deadline)?;
        match self.replace(w, deadline) {
            Ok(()) => {}
            Err(NoReplacement::NameNode(error)) => {
                return Err(self.interrupted(w, fault.clone(), error, deadline));
            }
            Err(NoReplacement::NoNode(_) | NoReplacement::Copy(_)) if deadline.passed() => {
                return Err(self.postpone(fault.clone(), "recovering the pipeline of"));
            }
            Err(NoReplacement::NoNode(error) | NoReplacement::Copy(error)) => {
                return Err(self.give_up_on(w, error));
            }
        }
        let Some(block) = w.block.as_ref() else { return Ok(None) };
        let (ending, mut target) = (block.ending, block.target.clone());
        let acked = self.acks.lock().acked_in_block;
        let old = hdfs::ExtendedBlockProto { num_bytes: Some(acked), ..target.block.clone() };
        let updated = match self.ctx.namenode.update_block_for_pipeline(&old, deadline) {
            Ok(updated) => updated,
            Err(error) => return Err(self.interrupted(w, fault.clone(), error, deadline)),
        };
        target.token = updated.block_token;
        target.block.num_bytes = Some(self.options.block_size);
        let setup = Setup {
            target: &target,
            stage: self.recovery_stage(w, ending),
            min_bytes: acked,
            max_bytes: w.sealed_in_block,
            new_generation_stamp: updated.b.generation_stamp,
            shape: self.shape,
            client_name: self.ctx.namenode.client_name(),
            drop_behind: self.options.drop_behind,
            lazy_persist: self.file.lazy_persist,
        };
        match pipeline::open(&setup, None, &self.ctx.config, deadline) {
            Ok(opening) => Ok(Some(opening)),
            Err(failure) if self.was_cut_short(w, &failure, target.nodes.len(), deadline) => {
                Err(self.postpone(fault.clone(), "recovering the pipeline of"))
            }
            Err(failure) => {
                *fault = self.fault_of(w, &target, *failure);
                Ok(None)
            }
        }
    }

    /// Tells the NameNode about the rebuilt pipeline.
    fn register(&self, w: &Writer, opening: &Opening, deadline: Deadline) -> Result<()> {
        let Some(block) = w.block.as_ref() else { return Ok(()) };
        let acked = self.acks.lock().acked_in_block;
        let old = hdfs::ExtendedBlockProto { num_bytes: Some(acked), ..block.target.block.clone() };
        let new = hdfs::ExtendedBlockProto { generation_stamp: opening.stamp, ..old.clone() };
        let target = &opening.target;
        let ids: Vec<_> = target.nodes.iter().map(|n| n.id.clone()).collect();
        self.ctx.namenode.update_pipeline(&old, &new, &ids, &target.storage_ids, deadline)
    }

    /// Whether a set-up failed only because the caller's time was up: then nobody is to blame,
    /// until all such attempts together took as long as a pipeline may take to answer.
    pub(super) fn was_cut_short(
        &self,
        w: &mut Writer,
        failure: &SetupFailure,
        nodes: usize,
        deadline: Deadline,
    ) -> bool {
        if !deadline.passed() || failure.error.status() != Status::TimedOut {
            w.recovery.cut_since = None;
            return false;
        }
        let limit = pipeline::answer_limit_ms(&self.ctx.config, nodes);
        let since = *w.recovery.cut_since.get_or_insert_with(now);
        if limit > 0 && since.elapsed() > std::time::Duration::from_millis(limit) {
            w.recovery.cut_since = None;
            return false;
        }
        true
    }

    /// The fault that a failed set-up reveals.
    fn fault_of(&self, w: &Writer, target: &Target, failure: SetupFailure) -> Fault {
        let node = failure.bad_node;
        dfs_log!(
            Warn,
            "{}: recovery of {} failed at node {}: {}",
            self.file.path,
            target.block_name(),
            target.name(node),
            failure.error
        );
        // A restarting node that we wait for refuses connections meanwhile.
        let waiting =
            target.nodes.get(node).is_some_and(|n| w.recovery.awaits(&n.id.datanode_uuid));
        Fault {
            node: Some(node),
            restarting: failure.restarting || waiting,
            counted: true,
            error: failure.error,
        }
    }

    fn recovery_stage(&self, w: &Writer, ending: bool) -> BlockConstructionStage {
        if ending {
            BlockConstructionStage::PipelineCloseRecovery
        } else if w.appending && !w.append_failed {
            BlockConstructionStage::PipelineSetupAppend
        } else if w.appending {
            BlockConstructionStage::PipelineSetupAppendRecovery
        } else {
            BlockConstructionStage::PipelineSetupStreamingRecovery
        }
    }

    /// Puts the rebuilt pipeline to use; true if the block is ended by it.
    fn adopt(&self, w: &mut Writer, opening: Opening) -> bool {
        let stamp = opening.stamp;
        let (mut target, reader) = opening.into_parts();
        target.block.generation_stamp = stamp;
        let ending = w.block.as_ref().is_some_and(|b| b.ending);
        // Hadoop 3.4 DataStreamer#run: after a close recovery the replicas are final, and the
        // end-of-block packet counts as acknowledged.
        if ending {
            let last = w.resend.drain(..).next_back().map(|p| p.seqno);
            let mut acks = self.acks.lock();
            acks.epoch += 1;
            acks.acked_seqno = acks.acked_seqno.max(last.unwrap_or(acks.acked_seqno));
            drop(acks);
            self.wake_everybody();
        } else {
            let acked = self.acks.lock().acked_in_block;
            self.install(&target, reader, acked);
            w.appending = false;
        }
        if let Some(block) = w.block.as_mut() {
            block.target = target;
        }
        ending
    }

    /// Decides about the node at fault: it leaves, or its restart is waited for.
    fn settle_node(&self, w: &mut Writer, fault: &mut Fault, deadline: Deadline) -> Result<()> {
        let Some(index) = fault.node else { return Ok(()) };
        let Some(block) = w.block.as_mut() else { return Ok(()) };
        let target = &mut block.target;
        let index = index.min(target.nodes.len().saturating_sub(1));
        let Some(node) = target.nodes.get(index) else { return Ok(()) };
        let uuid = node.id.datanode_uuid.clone();
        let known = w.recovery.restarting.as_ref().is_some_and(|(id, _)| *id == uuid);
        if fault.restarting && !known {
            let limit =
                std::time::Duration::from_millis(self.ctx.config.datanode_restart_timeout_ms);
            w.recovery.restarting = now().checked_add(limit).map(|until| (uuid.clone(), until));
        }
        let time_left = w.recovery.awaits(&uuid);
        let local = is_local(&node.id.ip_addr);
        match judge(fault.restarting, target.nodes.len(), local, time_left) {
            Verdict::Wait => {
                let whole = self.ctx.config.datanode_restart_timeout_ms;
                let step = RESTART_STEP.min(std::time::Duration::from_millis(whole));
                let left = deadline.remaining().unwrap_or(step);
                std::thread::sleep(step.min(left));
                if deadline.passed() {
                    return Err(
                        self.postpone(fault.clone(), "waiting for a restarting DataNode of")
                    );
                }
                Ok(())
            }
            Verdict::Drop => {
                if target.nodes.len() <= 1 {
                    let name = target.name(index);
                    let text = format!("All datanodes [{name}] are bad. Aborting...");
                    let error = fault.error.clone().context(text);
                    return Err(self.give_up_on(w, error));
                }
                let node = target.nodes.remove(index);
                if index < target.storage_types.len() {
                    target.storage_types.remove(index);
                }
                if index < target.storage_ids.len() {
                    target.storage_ids.remove(index);
                }
                w.failed.push(node);
                if fault.restarting && time_left {
                    w.recovery.left_restarting.push(uuid);
                }
                fault.node = None;
                Ok(())
            }
        }
    }

    /// Sends again what was not acknowledged, in order.
    fn resend(&self, w: &mut Writer, deadline: Deadline) -> Result<Pushed> {
        while let Some(packet) = w.resend.pop_front() {
            if let Pushed::Fault = self.push_packet(w, packet, deadline)? {
                return Ok(Pushed::Fault);
            }
        }
        Ok(Pushed::Done)
    }

    /// Finishes a resend that a deadline interrupted.
    pub(super) fn finish_resend(&self, w: &mut Writer, deadline: Deadline) -> Result<()> {
        if w.resend.is_empty() {
            return Ok(());
        }
        match self.resend(w, deadline)? {
            Pushed::Done => Ok(()),
            Pushed::Fault => self.recover(w, deadline),
        }
    }

    /// Puts one packet at the end of the wire and of the unacknowledged ones.
    pub(super) fn push_packet(
        &self,
        w: &mut Writer,
        packet: Packet,
        deadline: Deadline,
    ) -> Result<Pushed> {
        if self.enqueue(packet)? { Ok(Pushed::Done) } else { self.push_out(w, deadline) }
    }
}
