//! Pipeline recovery, on the thread that noticed the fault: the bad node leaves, a replacement is
//! asked for, the survivors get a new generation stamp, and every unacknowledged packet is sent
//! again with its old sequence number.
use super::output_stream::{Fault, Stream, Writer, is_passing};
use super::packet::Packet;
use super::pipeline::{self, Setup, SetupFailure, Target};
use super::recovery_state::{
    RESTART_STEP, ReplaceQuestion, Verdict, goes_on_without, judge, wants_replacement,
};
use super::sender::Pushed;
use crate::datanode::peer::ip_port;
use crate::dfs_log;
use crate::error::{Error, Result, Status};
use crate::proto::hdfs;
use crate::proto::hdfs::op_write_block_proto::BlockConstructionStage;
use crate::time::{Deadline, now};
use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// Attempts to find and fill a replacement.
// Hadoop 3.4 DataStreamer#addDatanode2ExistingPipeline.
const TRANSFER_ATTEMPTS: usize = 3;

/// A recovery under way; kept when a caller's deadline interrupts it.
#[derive(Default)]
pub(super) struct Recovery {
    /// Uuid of a node that announced its restart, and until when it is waited for.
    restarting: Option<(String, Instant)>,
    /// Uuids of restarting nodes that left the pipeline: they will be good again.
    left_restarting: Vec<String>,
    /// Since when callers' deadlines cut the set-up of the present pipeline short.
    cut_since: Option<Instant>,
}

impl Recovery {
    fn awaits(&self, uuid: &str) -> bool {
        self.restarting.as_ref().is_some_and(|(id, until)| id == uuid && *until > now())
    }
}

/// Why there is no replacement.
enum NoReplacement {
    /// The NameNode could not be asked, or refused.
    NameNode(Error),
    /// It had no node to offer.
    NoNode(Error),
    /// No replica could be copied to those that it offered.
    Copy(Error),
}

impl NoReplacement {
    fn error(&self) -> &Error {
        let (NoReplacement::NameNode(e) | NoReplacement::NoNode(e) | NoReplacement::Copy(e)) = self;
        e
    }

    fn context(self, attempt: &str) -> NoReplacement {
        match self {
            NoReplacement::NameNode(e) => NoReplacement::NameNode(e),
            NoReplacement::NoNode(e) => NoReplacement::NoNode(e.context(attempt)),
            NoReplacement::Copy(e) => NoReplacement::Copy(e.context(attempt)),
        }
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

    /// Breaks the file, saying where the pipeline stood.
    fn give_up_on(&self, w: &mut Writer, error: Error) -> Error {
        let ending = w.block.as_ref().is_some_and(|b| b.ending);
        let stage = if ending { "closing a block" } else { "streaming" };
        let block =
            w.block.as_ref().map_or_else(String::new, |b| format!(" ({})", b.target.block_name()));
        let durable = self.acks.lock().acked_pos;
        w.packet = None;
        w.resend.clear();
        let what = format!("{stage} {}{block} failed with {durable} bytes durable", self.file.path);
        self.break_file(error.with_status(Status::Pipeline).with_stage(stage).context(what))
    }

    /// Leaves the recovery to the next call.
    fn postpone(&self, fault: Fault, what: &str) -> Error {
        self.acks.lock().fault = Some(fault);
        self.timed_out(what)
    }

    /// The NameNode did not do its part: a later call may try again, unless the error is lasting.
    // Differs: Hadoop's stream fails here, even if the NameNode only restarts.
    fn interrupted(&self, w: &mut Writer, fault: Fault, error: Error, deadline: Deadline) -> Error {
        if deadline.passed() {
            return self.postpone(fault, "recovering the pipeline of");
        }
        if !is_passing(&error) {
            return self.give_up_on(w, error);
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
            self.settle_node(w, &mut fault, deadline)?;
            match self.replace(w, deadline) {
                Ok(()) => {}
                Err(NoReplacement::NameNode(error)) => {
                    return Err(self.interrupted(w, fault, error, deadline));
                }
                Err(NoReplacement::NoNode(_) | NoReplacement::Copy(_)) if deadline.passed() => {
                    return Err(self.postpone(fault, "recovering the pipeline of"));
                }
                Err(NoReplacement::NoNode(error) | NoReplacement::Copy(error)) => {
                    return Err(self.give_up_on(w, error));
                }
            }
            let Some(block) = w.block.as_ref() else { return Ok(true) };
            let (ending, mut target) = (block.ending, block.target.clone());
            let acked = self.acks.lock().acked_in_block;
            let old = hdfs::ExtendedBlockProto { num_bytes: Some(acked), ..target.block.clone() };
            let updated = match self.ctx.namenode.update_block_for_pipeline(&old, deadline) {
                Ok(updated) => updated,
                Err(error) => return Err(self.interrupted(w, fault, error, deadline)),
            };
            let stamp = updated.b.generation_stamp;
            target.token = updated.block_token;
            target.block.num_bytes = Some(self.options.block_size);
            let setup = Setup {
                target: &target,
                stage: self.recovery_stage(w, ending),
                min_bytes: acked,
                max_bytes: w.sealed_in_block,
                new_generation_stamp: stamp,
                shape: self.shape,
                client_name: self.ctx.namenode.client_name(),
                drop_behind: self.options.drop_behind,
                lazy_persist: self.file.lazy_persist,
            };
            match pipeline::connect(&setup, &self.ctx.config, deadline) {
                Ok(reader) => {
                    let new = hdfs::ExtendedBlockProto {
                        generation_stamp: stamp,
                        num_bytes: Some(acked),
                        ..target.block.clone()
                    };
                    let ids: Vec<_> = target.nodes.iter().map(|n| n.id.clone()).collect();
                    let update = self.ctx.namenode.update_pipeline(
                        &old,
                        &new,
                        &ids,
                        &target.storage_ids,
                        deadline,
                    );
                    if let Err(error) = update {
                        // The replicas have taken the new stamp: an append has begun.
                        w.append_failed = w.appending;
                        fault.node = None;
                        return Err(self.interrupted(w, fault, error, deadline));
                    }
                    target.block.generation_stamp = stamp;
                    return Ok(self.adopt(w, target, reader, ending));
                }
                Err(failure) => {
                    w.append_failed = w.appending;
                    if self.was_cut_short(w, &failure, target.nodes.len(), deadline) {
                        return Err(self.postpone(fault, "recovering the pipeline of"));
                    }
                    fault = self.fault_of(w, &target, *failure);
                }
            }
        }
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
    fn adopt(
        &self,
        w: &mut Writer,
        target: Target,
        reader: super::ack_reader::AckReader,
        ending: bool,
    ) -> bool {
        // Hadoop 3.4 DataStreamer#run: after a close recovery the replicas are final, and the
        // end-of-block packet counts as acknowledged.
        if ending {
            let last = w.resend.drain(..).next_back().map(|p| p.seqno);
            let mut acks = self.acks.lock();
            acks.epoch += 1;
            acks.acked_seqno = acks.acked_seqno.max(last.unwrap_or(acks.acked_seqno));
            drop(acks);
            self.acked.notify_all();
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

    /// Asks for a replacement where the policy wants one.
    fn replace(
        &self,
        w: &mut Writer,
        deadline: Deadline,
    ) -> std::result::Result<(), NoReplacement> {
        let config = &self.ctx.config;
        let Some(block) = w.block.as_ref() else { return Ok(()) };
        let nodes = block.target.nodes.len();
        let question = ReplaceQuestion {
            enabled: config.replace_datanode_enable,
            policy: config.replace_datanode_policy,
            replication: self.options.replication as usize,
            nodes,
            append: w.appended,
            flushed: self.acks.lock().flushed,
        };
        if !wants_replacement(&question) {
            return Ok(());
        }
        let Err(found) = self.add_datanode(w, deadline) else { return Ok(()) };
        let min = config.replace_datanode_min_replication as usize;
        let no_node = matches!(found, NoReplacement::NoNode(_));
        let best_effort = config.replace_datanode_best_effort && !deadline.passed();
        if goes_on_without(best_effort, min, nodes, no_node) {
            let error = found.error();
            dfs_log!(Warn, "{}: going on with {nodes} DataNodes: {error}", self.file.path);
            return Ok(());
        }
        // Hadoop 3.4 DataStreamer#findNewDatanode: the words that users search for.
        Err(found.context(
            "Failed to replace a bad datanode on the existing pipeline due to no more good \
             datanodes being available to try (a client may configure this via \
             dfs.client.block.write.replace-datanode-on-failure.policy)",
        ))
    }

    /// Finds one more node and has the replica copied to it.
    fn add_datanode(
        &self,
        w: &mut Writer,
        deadline: Deadline,
    ) -> std::result::Result<(), NoReplacement> {
        let Some(block) = w.block.as_mut() else { return Ok(()) };
        let original = block.target.clone();
        let mut excludes = w.failed.clone();
        let mut last = None;
        for attempt in 0..TRANSFER_ATTEMPTS {
            let answer = self.ctx.namenode.get_additional_datanode(
                &self.file.path,
                self.file.file_id,
                &original.block,
                &original.nodes,
                &original.storage_ids,
                &excludes,
                1,
                deadline,
            );
            let target = answer
                .and_then(Target::new)
                .map_err(|e| NoReplacement::NameNode(e.with_stage("finding a new DataNode")))?;
            let known: HashSet<_> = original.nodes.iter().map(|n| ip_port(&n.id)).collect();
            let new = target.nodes.iter().position(|n| !known.contains(&ip_port(&n.id)));
            let Some(index) = new.filter(|_| target.nodes.len() == original.nodes.len() + 1) else {
                let text = format!(
                    "the NameNode offered no DataNode beyond the {} of {}",
                    original.nodes.len(),
                    original.block_name()
                );
                return Err(NoReplacement::NoNode(Error::new(Status::NoDataNodes, text)));
            };
            let source = attempt % original.nodes.len().max(1);
            match self.transfer(&original, source, &target, index, w.sealed_in_block, deadline) {
                Ok(()) => {
                    let mut target = target;
                    // The block itself (stamp, length) stays; order, storages and token are new.
                    target.block = original.block;
                    block.target = target;
                    return Ok(());
                }
                Err(error) => {
                    dfs_log!(Warn, "{}: {error}", self.file.path);
                    if let Some(node) = target.nodes.get(index) {
                        excludes.push(node.clone());
                    }
                    last = Some(error);
                }
            }
            if deadline.passed() {
                break;
            }
        }
        let error = last.unwrap_or_else(|| Error::new(Status::Internal, "no transfer was tried"));
        Err(NoReplacement::Copy(error))
    }

    /// Has node `source` copy its replica to the new node of `target`.
    fn transfer(
        &self,
        original: &Target,
        source: usize,
        target: &Target,
        new: usize,
        sent_bytes: u64,
        deadline: Deadline,
    ) -> Result<()> {
        let (Some(from), Some(to)) = (original.nodes.get(source), target.nodes.get(new)) else {
            return Err(Error::new(Status::Internal, "a transfer without source or target"));
        };
        let packets = sent_bytes / self.options.packet_bytes.max(1) as u64;
        let request = pipeline::TransferRequest {
            block: &original.block,
            token: &target.token,
            client_name: self.ctx.namenode.client_name(),
            to,
            storage_type: target.storage_types.get(new).copied(),
            storage_id: target.storage_ids.get(new).cloned(),
            extra_ms: 5000 * (2 + packets / 200),
        };
        pipeline::transfer(from, &request, &self.ctx.config, deadline).map_err(|e| {
            let what = format!(
                "copying {} from {} to {}",
                original.block_name(),
                ip_port(&from.id),
                ip_port(&to.id)
            );
            e.with_stage("copying a replica").context(what)
        })
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

/// Whether a DataNode's address belongs to this host.
fn is_local(ip: &str) -> bool {
    let Ok(ip) = ip.parse::<IpAddr>() else { return false };
    // Binding works for local addresses only; no packet is sent.
    ip.is_loopback() || std::net::UdpSocket::bind((ip, 0)).is_ok()
}
