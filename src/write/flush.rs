//! Flushing: what was accepted is acknowledged by every DataNode, and the NameNode knows the block.
use super::output_stream::{Stream, SyncMode};
use crate::error::{Error, Result, Status};
use crate::time::Deadline;
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
                        .then_some(acks.flush_seqno)
                };
                if let Some(seqno) = in_flight {
                    drop(writer);
                    self.wait_acked(seqno, deadline)?;
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
        self.wait_acked(seqno, deadline)?;
        self.check_floor()?;
        self.persist(mode.update_length, deadline)?;
        let stats = &self.ctx.stats;
        stats.flushes.fetch_add(1, Ordering::Relaxed);
        if combined {
            stats.flushes_combined.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Notes that a flush came through, unless the bytes are acknowledged by fewer DataNodes than
    /// the caller accepts.
    fn check_floor(&self) -> Result<()> {
        let mut acks = self.acks.lock();
        acks.flushed = true;
        let (live, floor) = (acks.node_count, self.options.min_replicas as usize);
        if live >= floor || acks.conn.is_none() {
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
    // block, and a reader could not find flushed bytes.
    fn persist(&self, always: bool, deadline: Deadline) -> Result<()> {
        if !self.persist.load(Ordering::Relaxed) && !always {
            return Ok(());
        }
        // The lock keeps the length and the NameNode's last block together: a block allocated
        // meanwhile would be given the length of the one before, and could then not be completed.
        let mut writer = self.lock_writer(deadline)?;
        self.persist.store(false, Ordering::Relaxed);
        // Hadoop 3.4 FSNamesystem#internalReleaseLease: a block of length 0 that no DataNode has
        // reported yet to a NameNode that just took over is thrown away when the lease is
        // recovered, so the length is told once a pipeline whatever the flags say.
        let length = {
            let acks = self.acks.lock();
            if acks.conn.is_some() { acks.acked_in_block as i64 } else { -1 }
        };
        let file = &self.file;
        let result = self.ctx.namenode.fsync(&file.path, file.file_id, length, deadline);
        result.map_err(|error| {
            self.persist.store(true, Ordering::Relaxed);
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
