//! Calls that never wait: flushes that are only begun and completed later, writes that take what
//! fits. What they cannot do at once (a pipeline to build or to recover, the NameNode to tell) a
//! worker thread does, unless somebody who may wait comes first.
use super::flush::is_passing;
use super::output_stream::{Stream, SyncMode, Writer};
use crate::dfs_log;
use crate::error::{Error, Result, Status};
use crate::keeper::{self, Kind};
use crate::time::Deadline;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How long a worker goes on with one file before others have their turn.
const DRIVE_LIMIT: Duration = Duration::from_secs(5);

/// A flush that was begun and is not complete.
struct Ticket {
    /// File offset up to which it flushes.
    pos: u64,
    /// DataNodes sync to disk before they acknowledge it.
    sync: bool,
    /// The packet whose ack completes it; `None` while that is not sent.
    seqno: Option<i64>,
}

/// The flushes of a file that were begun; they complete in order.
#[derive(Default)]
pub(super) struct Tickets {
    open: VecDeque<Ticket>,
    begun_pos: u64,
    completed_pos: u64,
    /// Completed flushes that no poll has told of yet.
    untold: u64,
}

/// What a poll of the flushes of a file found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlushProgress {
    /// Flushes that completed since the last poll.
    pub completed: u64,
    /// File offset up to which flushes are complete.
    pub position: u64,
}

/// Where the flush up to a position stands.
enum Standing {
    Complete,
    /// Its packet is under way, or acknowledged and the NameNode does not know the block.
    Sent(i64),
    Unsent,
    Unknown,
}

impl Tickets {
    fn begin(&mut self, pos: u64, sync: bool) {
        self.begun_pos = self.begun_pos.max(pos);
        self.open.push_back(Ticket { pos, sync, seqno: None });
    }

    /// How many flushes wait for their packet, and whether one of those wants a sync.
    fn unsent(&self) -> (usize, bool) {
        // What is sent comes before what is not.
        let unsent = self.open.iter().rev().take_while(|t| t.seqno.is_none());
        unsent.fold((0, false), |(count, sync), t| (count + 1, sync || t.sync))
    }

    /// The first `count` of those that wait go with packet `seqno`.
    fn sent(&mut self, count: usize, seqno: i64) {
        for ticket in self.open.iter_mut().filter(|t| t.seqno.is_none()).take(count) {
            ticket.seqno = Some(seqno);
        }
    }

    /// Takes in that packets up to `seqno` are acknowledged; returns how many flushes that
    /// completes.
    fn acked(&mut self, seqno: i64) -> u64 {
        let before = self.untold;
        while let Some(ticket) = self.open.front()
            && ticket.seqno.is_some_and(|s| s <= seqno)
        {
            self.completed_pos = self.completed_pos.max(ticket.pos);
            self.untold += 1;
            self.open.pop_front();
        }
        self.untold - before
    }

    fn standing(&self, pos: u64) -> Standing {
        if pos > self.begun_pos {
            return Standing::Unknown;
        }
        match self.open.iter().rev().find(|t| t.pos <= pos) {
            None => Standing::Complete,
            Some(Ticket { seqno: Some(seqno), .. }) => Standing::Sent(*seqno),
            Some(_) => Standing::Unsent,
        }
    }
}

impl Stream {
    /// Begins a flush; returns the position up to which it goes.
    pub(super) fn flush_begin(self: &Arc<Stream>, sync: bool) -> Result<u64> {
        let Some(mut writer) = self.writer.try_lock() else {
            if let Some(error) = self.acks.lock().broken.as_ref() {
                return Err(error.clone());
            }
            let pos = self.take_ticket(sync);
            self.drive_later();
            return Ok(pos);
        };
        self.check_open(&writer)?;
        let pos = self.take_ticket(sync);
        let sent = self.push_tickets_at_once(&mut writer)?;
        drop(writer);
        if !sent || self.persist.load(Ordering::Relaxed) {
            self.drive_later();
        }
        Ok(pos)
    }

    fn take_ticket(&self, sync: bool) -> u64 {
        // The position is read under the lock, so that positions rise with the flushes.
        let mut tickets = self.tickets.lock();
        let pos = self.pos.load(Ordering::Acquire);
        tickets.begin(pos, sync);
        pos
    }

    /// Returns when every flush that was begun up to `position` is complete.
    pub(super) fn flush_wait(&self, position: u64, deadline: Deadline) -> Result<()> {
        loop {
            self.note_completed();
            let standing = self.tickets.lock().standing(position);
            match standing {
                Standing::Complete => return Ok(()),
                Standing::Unknown => {
                    let text = format!(
                        "no flush of {} was begun that reaches position {position}",
                        self.file.path
                    );
                    return Err(Error::new(Status::InvalidArgument, text));
                }
                Standing::Sent(seqno) => {
                    let acks = self.wait_acked(seqno, deadline)?;
                    self.check_floor(acks)?;
                    self.persist(false, deadline)?;
                }
                Standing::Unsent => {
                    let mut writer = self.lock_writer(deadline)?;
                    self.check_open(&writer)?;
                    self.settle(&mut writer, deadline)?;
                    self.push_tickets(&mut writer, deadline)?;
                }
            }
        }
    }

    /// Takes in what is there, without waiting; says what completed since the last poll.
    pub(super) fn flush_poll(self: &Arc<Stream>) -> Result<FlushProgress> {
        let mut troubled = false;
        if let Some(mut acks) = self.acks.try_lock() {
            self.try_push(&mut acks);
            self.try_drain(&mut acks);
            troubled = acks.fault.is_some();
        }
        if !troubled
            && self.has_unsent()
            && let Some(mut writer) = self.writer.try_lock()
        {
            self.push_tickets_at_once(&mut writer)?;
        }
        self.note_completed();
        let (progress, waiting) = {
            let mut tickets = self.tickets.lock();
            let completed = std::mem::take(&mut tickets.untold);
            let progress = FlushProgress { completed, position: tickets.completed_pos };
            (progress, !tickets.open.is_empty())
        };
        if progress.completed > 0 {
            return Ok(progress);
        }
        if waiting {
            if let Some(error) = self.acks.lock().broken.as_ref() {
                return Err(error.clone());
            }
            if troubled || self.persist.load(Ordering::Relaxed) || self.has_unsent() {
                self.drive_later();
            }
            self.floor_of(&self.acks.lock())?;
        }
        Ok(progress)
    }

    /// Appends what needs no waiting; returns how many bytes that were.
    pub(super) fn write_at_once(self: &Arc<Stream>, bytes: &[u8]) -> Result<usize> {
        let Some(mut writer) = self.writer.try_lock() else {
            return match self.acks.lock().broken.as_ref() {
                Some(error) => Err(error.clone()),
                None => Ok(0),
            };
        };
        let w = &mut *writer;
        if self.fill_packet(w, bytes) {
            return Ok(bytes.len());
        }
        self.check_open(w)?;
        let mut rest = bytes;
        while !rest.is_empty() {
            if w.sealed_in_block == self.options.block_size
                || w.block.as_ref().is_some_and(|b| b.ending)
            {
                self.drive_later();
                break;
            }
            match self.buffer(w, &mut rest, Deadline::at_once()) {
                Ok(true) => {}
                Ok(false) => continue,
                Err(e) if is_short(&e) => break,
                Err(e) => return Err(e),
            }
            if !self.is_ready(w) {
                self.drive_later();
                break;
            }
            match self.send_current(w, false, false, Deadline::at_once()) {
                Ok(()) => {}
                Err(e) if is_short(&e) || is_passing(&e) => break,
                Err(e) => return Err(e),
            }
        }
        Ok(bytes.len() - rest.len())
    }

    /// Whether one more packet can be sent without waiting for anybody but the socket.
    fn is_ready(&self, w: &Writer) -> bool {
        let live = w.block.as_ref().is_some_and(|b| !b.ending)
            && !w.appending
            && w.resend.is_empty()
            && w.recovery.opening.is_none()
            && w.sealed_in_block < self.options.block_size;
        if !live {
            return false;
        }
        let mut acks = self.acks.lock();
        if self.is_window_full(&acks) {
            self.try_drain(&mut acks);
        }
        acks.fault.is_none() && !self.is_window_full(&acks) && self.try_push(&mut acks)
    }

    /// Sends the packet that the begun flushes wait for.
    pub(super) fn push_tickets(&self, w: &mut Writer, deadline: Deadline) -> Result<()> {
        // Only these: one with a sync may come while the packet is sealed.
        let (count, sync) = self.tickets.lock().unsent();
        if count == 0 {
            return Ok(());
        }
        let before = w.next_seqno;
        let result = if w.packet.as_ref().is_some_and(|p| p.new_bytes() > 0) {
            self.send_current(w, sync, true, deadline)
        } else if sync && w.block.as_ref().is_some_and(|b| !b.ending) {
            self.send_empty(w, false, true, deadline)
        } else {
            self.tickets.lock().sent(count, w.next_seqno - 1);
            return Ok(());
        };
        if w.next_seqno > before {
            // A packet that has its number goes out, whatever comes.
            self.tickets.lock().sent(count, w.next_seqno - 1);
        }
        result
    }

    /// The same without waiting; false when that cannot be.
    fn push_tickets_at_once(&self, w: &mut Writer) -> Result<bool> {
        let idle = w.packet.as_ref().is_none_or(|p| p.new_bytes() == 0)
            && (!self.tickets.lock().unsent().1 || w.block.is_none());
        if !idle && !self.is_ready(w) {
            return Ok(false);
        }
        match self.push_tickets(w, Deadline::at_once()) {
            Ok(()) => Ok(true),
            Err(e) if is_short(&e) || is_passing(&e) => Ok(!self.has_unsent()),
            Err(e) => Err(e),
        }
    }

    fn has_unsent(&self) -> bool {
        self.tickets.lock().unsent().0 > 0
    }

    /// Completes the flushes whose packet is acknowledged by enough DataNodes, once the NameNode
    /// knows the block.
    fn note_completed(&self) {
        if self.persist.load(Ordering::Relaxed) {
            return;
        }
        let mut acks = self.acks.lock();
        if self.floor_of(&acks).is_err() {
            return;
        }
        let completed = self.tickets.lock().acked(acks.acked_seqno);
        if completed > 0 {
            acks.flushed = true;
            self.ctx.stats.flushes.fetch_add(completed, Ordering::Relaxed);
        }
    }

    /// Has a worker thread do what the caller may not wait for.
    fn drive_later(self: &Arc<Stream>) {
        if self.driven.swap(true, Ordering::AcqRel) {
            return;
        }
        let stream = Arc::clone(self);
        if let Err(e) = keeper::submit(Kind::Step, Box::new(move || stream.drive())) {
            // Whoever waits does the work; the next poll asks again.
            self.driven.store(false, Ordering::Release);
            dfs_log!(Warn, "{}: {e}", self.file.path);
        }
    }

    /// On a worker thread: whatever the file needs before a packet can leave without waiting.
    fn drive(self: &Arc<Stream>) {
        self.driven.store(false, Ordering::Release);
        if let Err(e) = self.drive_within(Deadline::after(DRIVE_LIMIT)) {
            if e.status() == Status::TimedOut {
                // It goes on where it stopped, behind those that wait.
                self.drive_later();
            }
            // A lasting error is kept in the file; others strike whoever waits for the flush.
            dfs_log!(Debug, "{}: in the background: {e}", self.file.path);
        }
    }

    fn drive_within(&self, deadline: Deadline) -> Result<()> {
        let mut writer = self.lock_writer(deadline)?;
        let w = &mut *writer;
        self.check_open(w)?;
        self.settle(w, deadline)?;
        if w.packet.as_ref().is_some_and(|p| p.room() == 0 && p.new_bytes() > 0) {
            self.send_current(w, false, false, deadline)?;
            self.settle(w, deadline)?;
        }
        self.push_tickets(w, deadline)?;
        drop(writer);
        let newest = self.tickets.lock().open.back().and_then(|t| t.seqno);
        if let Some(seqno) = newest
            && self.persist.load(Ordering::Relaxed)
        {
            // As a flush does: a block that the NameNode persists holds what a reader is told of.
            drop(self.wait_acked(seqno, deadline)?);
            self.persist(false, deadline)?;
        }
        Ok(())
    }
}

/// Errors that say no more than that there was no time or memory without waiting.
fn is_short(error: &Error) -> bool {
    matches!(error.status(), Status::TimedOut | Status::NoMemory)
}

/// Flags of a flush as `SyncMode` has them that a begun flush can have.
pub(super) fn check_mode(mode: SyncMode) -> Result<()> {
    if mode.update_length || mode.end_block {
        let text = "a flush that is only begun cannot update the length or end the block";
        return Err(Error::new(Status::Unsupported, text));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flushes_complete_in_order_and_are_told_once() {
        let mut tickets = Tickets::default();
        assert!(matches!(tickets.standing(0), Standing::Complete));
        assert!(matches!(tickets.standing(1), Standing::Unknown));
        tickets.begin(10, false);
        tickets.begin(20, true);
        assert_eq!(tickets.unsent(), (2, true));
        tickets.begin(30, false);
        tickets.sent(2, 5);
        assert_eq!(tickets.unsent(), (1, false));
        assert!(matches!(tickets.standing(9), Standing::Complete));
        assert!(matches!(tickets.standing(25), Standing::Sent(5)));
        assert!(matches!(tickets.standing(30), Standing::Unsent));
        tickets.acked(4);
        assert_eq!((tickets.untold, tickets.completed_pos), (0, 0));
        tickets.acked(6);
        assert_eq!((tickets.untold, tickets.completed_pos), (2, 20));
        assert!(matches!(tickets.standing(29), Standing::Complete));
        tickets.sent(1, 7);
        assert_eq!(tickets.acked(7), 1);
        assert_eq!((tickets.untold, tickets.completed_pos), (3, 30));
        assert!(tickets.open.is_empty());
    }
}
