//! Flushing: what was accepted is acknowledged by every DataNode, and the NameNode knows the block.
use super::output_stream::{Acks, Stream, SyncMode};
use crate::error::{Error, Result, Status};
use crate::sys::socket::WAIT_SLICE_MS;
use crate::time::Deadline;
use parking_lot::MutexGuard;
use std::sync::atomic::Ordering;

impl Stream {
    pub(super) fn flush(&self, mode: SyncMode, deadline: Deadline) -> Result<()> {
        let mut goal = None;
        let mut combined = true;
        let seqno = loop {
            let mut writer = self.lock_writer(deadline)?;
            let w = &mut *writer;
            self.check_open(w)?;
            let goal = *goal.get_or_insert_with(|| self.pos.load(Ordering::Acquire));
            self.settle(w, deadline)?;
            let pending = w.packet.as_ref().is_some_and(|p| p.new_bytes() > 0);
            if pending && (w.sealed_pos() < goal || mode.sync || mode.end_block) {
                // Group commit: while another flush is on the wire, bytes gather for the next.
                let in_flight = {
                    let acks = self.acks.lock();
                    (acks.flush_seqno > acks.acked_seqno && acks.fault.is_none())
                        .then_some((acks.flush_seqno, acks.batch))
                };
                if let Some((_, batch)) = in_flight
                    && mode == SyncMode::default()
                {
                    drop(writer);
                    match self.share(goal, batch + 1, deadline)? {
                        Some(acks) => return self.end_flush(acks, mode, true, deadline),
                        None => continue,
                    }
                }
                if let Some((seqno, _)) = in_flight {
                    drop(writer);
                    drop(self.wait_acked(seqno, deadline)?);
                    continue;
                }
                self.send_current(w, mode.sync, true, deadline)?;
                combined = false;
            } else if mode.sync && w.block.as_ref().is_some_and(|b| !b.ending) {
                self.send_empty(w, false, true, deadline)?;
                combined = false;
            }
            if mode.end_block && w.block.is_some() {
                self.finish_block(w, deadline)?;
            }
            break w.next_seqno - 1;
        };
        let acks = self.wait_acked(seqno, deadline)?;
        self.end_flush(acks, mode, combined, deadline)
    }

    /// The bytes are acknowledged; what else a flush promises.
    fn end_flush(
        &self,
        acks: MutexGuard<'_, Acks>,
        mode: SyncMode,
        combined: bool,
        deadline: Deadline,
    ) -> Result<()> {
        self.check_floor(acks)?;
        self.persist(mode.update_length, deadline)?;
        let stats = &self.ctx.stats;
        stats.flushes.fetch_add(1, Ordering::Relaxed);
        if combined {
            stats.flushes_combined.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Waits until the packet of flush number `batch`, which another thread sends, has taken the
    /// file bytes below `goal` along and is acknowledged. `None`: the caller has to see to it.
    fn share(
        &self,
        goal: u64,
        batch: u64,
        deadline: Deadline,
    ) -> Result<Option<MutexGuard<'_, Acks>>> {
        let ours = self.shared_by(batch);
        let mut acks = self.acks.lock();
        loop {
            let sent = acks.batch >= batch;
            if acks.acked_pos >= goal {
                if !sent {
                    // Full packets took the bytes along: nobody else wakes the others.
                    ours.notify_one();
                }
                return Ok(Some(acks));
            }
            if let Some(error) = acks.broken.as_ref() {
                return Err(error.clone());
            }
            // With no flush under way it is this thread's turn to send, or the bytes are on their
            // way in packets of a recovery or behind the end of a block.
            let under_way = acks.flush_seqno > acks.acked_seqno && acks.batch <= batch;
            if acks.fault.is_some() || !under_way {
                return Ok(None);
            }
            if deadline.passed() {
                ours.notify_one();
                drop(acks);
                return Err(self.timed_out("waiting for acks of"));
            }
            if acks.reader.is_some() && acks.partial.is_none() && acks.conn.is_some() {
                acks = self.step(acks, deadline);
                continue;
            }
            let slice = Deadline::after_ms(WAIT_SLICE_MS).min(deadline);
            if let Some(at) = slice.instant()
                && ours.wait_until(&mut acks, at).timed_out()
            {
                return Ok((acks.acked_pos >= goal).then_some(acks));
            }
        }
    }

    /// Notes that a flush came through, unless the bytes are acknowledged by fewer DataNodes than
    /// the caller accepts.
    pub(super) fn check_floor(&self, mut acks: MutexGuard<'_, Acks>) -> Result<()> {
        acks.flushed = true;
        self.floor_of(&acks)
    }

    /// The same without noting a flush.
    pub(super) fn floor_of(&self, acks: &Acks) -> Result<()> {
        let (live, floor) = (acks.node_count, self.options.min_replicas as usize);
        let between_blocks = acks.conn.is_none() && acks.broken.is_none();
        if live >= floor || between_blocks {
            return Ok(());
        }
        Err(Error::new(
            Status::Pipeline,
            format!("{} has {live} live replicas, fewer than the floor of {floor}", self.file.path),
        )
        .with_stage("streaming")
        .with_durable(acks.acked_pos))
    }

    /// Tells the NameNode the length once a pipeline, or whenever `always`.
    // Hadoop 3.4 DFSOutputStream#flushOrSync: without it a restarted NameNode would not know the
    // block, and a reader could not find flushed bytes. FSNamesystem#internalReleaseLease: a block
    // of length 0 that no DataNode has reported yet to a NameNode that just took over is thrown
    // away when the lease is recovered, so the length is told once a pipeline whatever the flags
    // say.
    pub(super) fn persist(&self, always: bool, deadline: Deadline) -> Result<()> {
        if !self.persist.load(Ordering::Relaxed) && !always {
            return Ok(());
        }
        // The lock keeps the length and the NameNode's last block together: a block allocated
        // meanwhile would be given the length of the one before, and could then not be completed.
        let mut writer = self.lock_writer(deadline)?;
        if !self.persist.load(Ordering::Relaxed) && !always {
            return Ok(());
        }
        // Only acknowledged bytes: the NameNode refuses a recovered pipeline with fewer.
        let length = {
            let acks = self.acks.lock();
            if acks.conn.is_some() { acks.acked_in_block as i64 } else { -1 }
        };
        let file = &self.file;
        let result = self.ctx.namenode.fsync(&file.path, file.file_id, length, deadline);
        // Pipelines change under the lock only: what was told is still true.
        // Differs: in Java a second flush returns while the first one still tells the NameNode.
        self.persist.store(result.is_err(), Ordering::Relaxed);
        if writer.completing && result.as_ref().is_err_and(|e| !is_passing(e)) {
            // A close that ran out of time has reached the NameNode all the same, with the length
            // of every block; the next close finds that out.
            self.persist.store(false, Ordering::Relaxed);
            return Ok(());
        }
        result.map_err(|error| {
            if length > 0 && is_passing(&error) {
                writer.stale_length = true;
            }
            self.refused(error.with_stage("persisting the block list"))
        })
    }

    /// An error of the NameNode: the file goes on if the call may simply be repeated, else (the
    /// file was deleted, say, or its lease stolen) it is broken for good.
    pub(super) fn refused(&self, error: Error) -> Error {
        if is_passing(&error) {
            return error.with_durable(self.acks.lock().acked_pos);
        }
        self.break_file(error)
    }
}

/// Errors of an RPC after which the file can go on: the call may simply be repeated.
pub(super) fn is_passing(error: &Error) -> bool {
    matches!(
        error.status(),
        Status::TimedOut
            | Status::Connect
            | Status::ConnectionLost
            | Status::Standby
            | Status::SafeMode
            | Status::ServerBusy
            | Status::NotReplicated
    )
}
