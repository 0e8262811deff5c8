//! Sending packets and waiting for their acks: who reads, what an ack means, when a pipeline is
//! at fault.
use super::ack_reader::{AckReader, Received};
use super::output_stream::{Acks, Fault, Stream, Writer};
use super::packet::Packet;
use crate::error::{Error, Result, Status};
use crate::keeper::Tended;
use crate::sys::socket::{READABLE, WAIT_SLICE_MS, WRITABLE};
use crate::time::{Deadline, now};
use crate::wire::packet::{
    HEARTBEAT_SEQNO, MAX_HEADER_LEN, PacketHeader, PipelineAck, STATUS_OOB_RESTART, STATUS_SUCCESS,
    encode_header,
};
use crate::wire::transfer::status_name;
use parking_lot::{Condvar, MutexGuard};
use std::io::{self, IoSlice};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Memory of unacknowledged packets at which a writer waits, bytes: Hadoop's 80 packets of 64 KiB.
const WINDOW_BYTES: usize = 80 * 65536;
/// A writer that never waits looks for acks at least this often, in packets: acknowledged buffers
/// are then reused while they are in cache.
const DRAIN_EVERY: i64 = 4;

/// How long a writer whose send failed leaves the word to the thread that reads acks.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// How an attempt to put a packet on the wire ended.
pub(super) enum Pushed {
    /// All of it is on the wire.
    Done,
    /// The pipeline is at fault; recovery sends it again.
    Fault,
}

impl Stream {
    /// Finishes what an earlier call left half done when its deadline passed.
    pub(super) fn settle(&self, w: &mut Writer, deadline: Deadline) -> Result<()> {
        let (faulty, partial) = {
            let acks = self.acks.lock();
            (acks.fault.is_some(), acks.partial.is_some())
        };
        if faulty {
            self.recover(w, deadline)?;
        }
        if (faulty || partial)
            && self.acks.lock().partial.is_some()
            && let Pushed::Fault = self.push_out(w, deadline)?
        {
            self.recover(w, deadline)?;
        }
        self.finish_resend(w, deadline)?;
        let full = w.sealed_in_block == self.options.block_size;
        if w.block.as_ref().is_some_and(|b| b.ending || full) {
            self.finish_block(w, deadline)?;
        }
        Ok(())
    }

    /// Seals the current packet and sends it; the partial chunk at its end moves into the next.
    pub(super) fn send_current(
        &self,
        w: &mut Writer,
        sync: bool,
        flush: bool,
        deadline: Deadline,
    ) -> Result<()> {
        self.wait_window(w, deadline)?;
        self.ensure_block(w, deadline)?;
        let Some(packet) = w.packet.as_mut() else { return Ok(()) };
        packet.sync = sync;
        packet.seal(w.next_seqno);
        let fresh = packet.new_bytes();
        // A recent flush is the best guess for the next one; a larger one counts at once.
        w.expect = fresh.max(w.expect - w.expect / 4);
        let end = packet.end_in_block();
        let left = self.options.block_size - end;
        let chunk = u64::from(self.options.bytes_per_checksum);
        let next = if left > 0 && end % chunk != 0 {
            Some(packet.successor(&self.ctx.pool, left, w.expect, deadline)?)
        } else {
            None
        };
        let Some(packet) = std::mem::replace(&mut w.packet, next) else { return Ok(()) };
        w.sealed_in_block = end;
        w.next_seqno += 1;
        self.ctx.stats.bytes_written.fetch_add(fresh as u64, Ordering::Relaxed);
        let result = self.send(w, packet, flush, deadline);
        self.connect_early(w);
        result
    }

    /// Sends a packet without data: the end of the block, or a sync.
    pub(super) fn send_empty(
        &self,
        w: &mut Writer,
        last: bool,
        sync: bool,
        deadline: Deadline,
    ) -> Result<()> {
        if !last {
            // A sync of an appended block may be the first that its DataNodes hear of it.
            self.ensure_block(w, deadline)?;
        }
        self.wait_window(w, deadline)?;
        let mut packet = Packet::empty(self.shape, w.sealed_in_block, last, sync);
        packet.seal(w.next_seqno);
        w.next_seqno += 1;
        self.send(w, packet, !last, deadline)
    }

    /// Puts a sealed packet on the wire. A time-out may leave it partly sent; `settle` then goes
    /// on.
    fn send(&self, w: &mut Writer, packet: Packet, flush: bool, deadline: Deadline) -> Result<()> {
        if flush {
            let mut acks = self.acks.lock();
            acks.flush_seqno = packet.seqno;
            acks.batch += 1;
        }
        match self.push_packet(w, packet, deadline)? {
            Pushed::Done => Ok(()),
            Pushed::Fault => self.recover(w, deadline),
        }
    }

    /// Appends a packet to the unacknowledged ones and sends what the socket takes; false when it
    /// did not take all.
    pub(super) fn enqueue(&self, packet: Packet) -> Result<bool> {
        let mut acks = self.acks.lock();
        if let Some(error) = acks.broken.as_ref() {
            return Err(error.clone());
        }
        let at = now();
        if acks.unacked.is_empty() {
            acks.heard = at;
        }
        acks.last_sent = at;
        let drain = packet.seqno % DRAIN_EVERY == 0 && !acks.unacked.is_empty();
        acks.unacked_memory += packet.memory();
        acks.unacked.push_back(packet);
        acks.partial = Some(0);
        self.ctx.stats.packets_sent.fetch_add(1, Ordering::Relaxed);
        let done = self.try_push(&mut acks);
        if drain {
            self.try_drain(&mut acks);
        }
        Ok(done && acks.fault.is_none())
    }

    /// Sends what the socket takes of the last packet; true when nothing is left to send (or the
    /// pipeline is at fault, which the next wait handles).
    pub(super) fn try_push(&self, acks: &mut MutexGuard<'_, Acks>) -> bool {
        let Some(mut sent) = acks.partial else { return true };
        let (Some(conn), Some(packet)) = (acks.conn.as_ref(), acks.unacked.back()) else {
            return true;
        };
        let total = packet.wire_len();
        while sent < total {
            match conn.socket.try_send(&packet.parts(sent)) {
                Ok(Some(n)) => sent += n,
                Ok(None) => {
                    acks.partial = Some(sent);
                    return false;
                }
                Err(e) => {
                    let error = conn.io_error(&e, "sending a packet to");
                    acks.partial = None;
                    self.send_failed(acks, error);
                    return true;
                }
            }
        }
        acks.partial = None;
        true
    }

    /// The connection does not take packets any more. An ack that is there already may say who is
    /// to blame, else it is the first node.
    fn send_failed(&self, acks: &mut MutexGuard<'_, Acks>, error: Error) {
        if let Some(conn) = acks.conn.as_ref() {
            // Wakes the thread that reads acks, if there is one, behind what it still can read.
            conn.socket.shutdown();
        }
        let until = now() + LAST_WORDS;
        while acks.fault.is_none() && acks.broken.is_none() {
            if let Some(mut reader) = acks.reader.take() {
                let got = reader.receive(Deadline::NONE, false);
                let more = matches!(got, Ok(Received::Bytes));
                if more {
                    self.absorb(acks, &mut reader, got);
                }
                acks.reader = Some(reader);
                if more {
                    continue;
                }
                break;
            }
            if self.acked.wait_until(acks, until).timed_out() {
                break;
            }
        }
        raise(acks, Fault::at(0, error));
    }

    /// Waits for the socket to take the rest of the last packet, reading acks meanwhile.
    pub(super) fn push_out(&self, _w: &mut Writer, deadline: Deadline) -> Result<Pushed> {
        self.ctx.stats.window_waits.fetch_add(1, Ordering::Relaxed);
        let mut stalled_since = now();
        let mut before = None;
        loop {
            let mut acks = self.acks.lock();
            if let Some(error) = acks.broken.as_ref() {
                return Err(error.clone());
            }
            if acks.fault.is_some() {
                return Ok(Pushed::Fault);
            }
            if self.try_push(&mut acks) {
                if acks.fault.is_some() {
                    continue;
                }
                return Ok(Pushed::Done);
            }
            if acks.partial != before {
                before = acks.partial;
                stalled_since = now();
            }
            let Some(conn) = acks.conn.clone() else { return Ok(Pushed::Done) };
            // Whoever holds the reader would otherwise spin on readable acks.
            let events = if acks.reader.is_some() { WRITABLE | READABLE } else { WRITABLE };
            drop(acks);
            let slice = deadline.min(Deadline::after_ms(WAIT_SLICE_MS));
            match conn.socket.poll(events, slice) {
                Ok(happened) if happened & READABLE != 0 => self.try_drain(&mut self.acks.lock()),
                Ok(_) => {}
                Err(e) if crate::sys::socket::is_timeout(&e) => {
                    let limit = conn.write_timeout_ms;
                    if limit > 0 && stalled_since.elapsed() > Duration::from_millis(limit) {
                        let error = conn.io_error(&e, "sending a packet to");
                        let mut acks = self.acks.lock();
                        raise(&mut acks, Fault::at(0, error));
                    } else if deadline.passed() {
                        return Err(self.timed_out("writing to"));
                    }
                    let mut acks = self.acks.lock();
                    if acks.reader.is_some() {
                        self.look_after(&mut acks);
                    }
                }
                Err(e) => {
                    let error = conn.io_error(&e, "sending a packet to");
                    let mut acks = self.acks.lock();
                    raise(&mut acks, Fault::at(0, error));
                }
            }
        }
    }

    /// Whether as many packets are outstanding as may be.
    pub(super) fn is_window_full(&self, acks: &Acks) -> bool {
        let packets = self.ctx.config.max_packets_in_flight.max(1);
        acks.unacked.len() >= packets || acks.unacked_memory >= WINDOW_BYTES
    }

    /// Waits until one more packet may be outstanding.
    fn wait_window(&self, w: &mut Writer, deadline: Deadline) -> Result<()> {
        let full = |a: &Acks| self.is_window_full(a);
        let mut acks = self.acks.lock();
        if acks.congestion.is_due() {
            acks = self.back_off(acks, deadline);
        }
        if !full(&acks) && acks.fault.is_none() {
            return Ok(());
        }
        drop(acks);
        self.ctx.stats.window_waits.fetch_add(1, Ordering::Relaxed);
        self.wait_owner(w, deadline, |a| !full(a))
    }

    /// Pauses because a DataNode is congested; reads acks meanwhile.
    // Differs: Hadoop's pause knows no deadline; here a packet keeps half of the caller's time.
    fn back_off<'a>(
        &'a self,
        mut acks: MutexGuard<'a, Acks>,
        deadline: Deadline,
    ) -> MutexGuard<'a, Acks> {
        let mut random = [0; 4];
        if crate::sys::random::fill(&mut random).is_err() {
            // The middle of the range is as good as any point of it.
            random = [0x7f; 4];
        }
        let mut pause = acks.congestion.take(u32::from_ne_bytes(random));
        if let Some(left) = deadline.remaining() {
            pause = pause.min(left / 2);
        }
        if pause.is_zero() {
            return acks;
        }
        self.ctx.stats.congestion_pauses.fetch_add(1, Ordering::Relaxed);
        let until = Deadline::after(pause);
        while !until.passed() && acks.fault.is_none() && acks.broken.is_none() {
            acks = self.step(acks, until);
        }
        acks
    }

    /// Waits, holding the writer lock, until `done`; handles faults on the way.
    pub(super) fn wait_owner(
        &self,
        w: &mut Writer,
        deadline: Deadline,
        done: impl Fn(&Acks) -> bool,
    ) -> Result<()> {
        let mut acks = self.acks.lock();
        loop {
            if let Some(error) = acks.broken.as_ref() {
                return Err(error.clone());
            }
            if acks.fault.is_some() {
                drop(acks);
                self.recover(w, deadline)?;
                acks = self.acks.lock();
                continue;
            }
            if done(&acks) {
                return Ok(());
            }
            if deadline.passed() {
                drop(acks);
                return Err(self.timed_out("waiting for acks of"));
            }
            acks = self.step(acks, deadline);
        }
    }

    /// Waits, without the writer lock, until packet `seqno` is acknowledged.
    pub(super) fn wait_acked(
        &self,
        seqno: i64,
        deadline: Deadline,
    ) -> Result<MutexGuard<'_, Acks>> {
        let result = self.wait_acked_by(seqno, deadline);
        let pass_on = |acks: &Acks| {
            if acks.flush_seqno > acks.acked_seqno && acks.reader.is_some() {
                // Those who share that packet relied on this thread to read.
                self.shared_by(acks.batch).notify_one();
            }
        };
        match &result {
            Ok(acks) => pass_on(acks),
            Err(_) => pass_on(&self.acks.lock()),
        }
        result
    }

    fn wait_acked_by(&self, seqno: i64, deadline: Deadline) -> Result<MutexGuard<'_, Acks>> {
        let mut acks = self.acks.lock();
        loop {
            if acks.acked_seqno >= seqno {
                return Ok(acks);
            }
            if let Some(error) = acks.broken.as_ref() {
                return Err(error.clone());
            }
            if acks.fault.is_some() {
                drop(acks);
                let mut writer = self.lock_writer(deadline)?;
                // Another thread may have handled it while we waited for the lock.
                if self.acks.lock().fault.is_some() {
                    self.recover(&mut writer, deadline)?;
                }
                drop(writer);
                acks = self.acks.lock();
                continue;
            }
            if acks.conn.is_none() || (acks.partial.is_some() && acks.reader.is_some()) {
                // A call that timed out left its packet half sent; only the writer may go on.
                drop(acks);
                if deadline.passed() {
                    return Err(self.timed_out("waiting for acks of"));
                }
                let mut writer = self.lock_writer(deadline)?;
                self.settle(&mut writer, deadline)?;
                drop(writer);
                acks = self.acks.lock();
                continue;
            }
            if deadline.passed() {
                drop(acks);
                return Err(self.timed_out("waiting for acks of"));
            }
            acks = self.step(acks, deadline);
        }
    }

    /// One step of waiting: reads acks if nobody does, else waits for the thread that does.
    pub(super) fn step<'a>(
        &'a self,
        mut acks: MutexGuard<'a, Acks>,
        deadline: Deadline,
    ) -> MutexGuard<'a, Acks> {
        let Some(mut reader) = acks.reader.take() else {
            let slice = Deadline::after_ms(WAIT_SLICE_MS).min(deadline);
            if let Some(at) = slice.instant() {
                self.acked.wait_until(&mut acks, at);
            }
            return acks;
        };
        let epoch = acks.epoch;
        drop(acks);
        let got = reader.receive(deadline, true);
        let mut acks = self.acks.lock();
        if acks.epoch == epoch {
            let idle = matches!(got, Ok(Received::Nothing));
            self.absorb(&mut acks, &mut reader, got);
            acks.reader = Some(reader);
            if idle {
                self.look_after(&mut acks);
            }
        }
        self.acked.notify_all();
        self.wake_shared(&acks);
        acks
    }

    /// Where flushes wait whose packet is the one with this number.
    pub(super) fn shared_by(&self, batch: u64) -> &Condvar {
        let [even, odd] = &self.shared;
        if batch.is_multiple_of(2) { even } else { odd }
    }

    /// Wakes those who share the packet of a flush, if it is acknowledged, and one of those who
    /// wait for the next: it sends their packet.
    fn wake_shared(&self, acks: &Acks) {
        if acks.fault.is_some() {
            return self.wake_everybody();
        }
        let now = self.shared_by(acks.batch);
        if acks.flush_seqno <= acks.acked_seqno {
            now.notify_all();
        } else if acks.reader.is_some() {
            now.notify_one();
        }
        self.shared_by(acks.batch + 1).notify_one();
    }

    /// Something happened that concerns everybody who waits on the file.
    pub(super) fn wake_everybody(&self) {
        self.acked.notify_all();
        for shared in &self.shared {
            shared.notify_all();
        }
    }

    /// Reads the acks that are there, without waiting.
    pub(super) fn try_drain(&self, acks: &mut Acks) {
        let Some(mut reader) = acks.reader.take() else { return };
        let got = reader.receive(Deadline::NONE, false);
        self.absorb(acks, &mut reader, got);
        acks.reader = Some(reader);
        self.acked.notify_all();
        self.wake_shared(acks);
    }

    /// Takes in what a receive brought.
    fn absorb(&self, acks: &mut Acks, reader: &mut AckReader, got: io::Result<Received>) {
        match got {
            Ok(Received::Nothing) => {}
            Ok(Received::Bytes) => {
                acks.heard = now();
                loop {
                    match reader.next_ack() {
                        Ok(Some(ack)) => {
                            if let Some(fault) = take_ack(acks, &ack, &reader.conn.server) {
                                raise(acks, fault);
                                return;
                            }
                        }
                        Ok(None) => return,
                        Err(error) => {
                            let error = error.with_server(&reader.conn.server);
                            raise(acks, Fault::at(0, error));
                            return;
                        }
                    }
                }
            }
            Err(e) => {
                let error = reader.conn.io_error(&e, "waiting for acks of");
                raise(acks, Fault::at(0, error));
            }
        }
    }

    /// Heartbeats, and the limit on silence. Called when a slice passed without an ack.
    fn look_after(&self, acks: &mut Acks) {
        let Some(conn) = acks.conn.clone() else { return };
        let limit = conn.read_timeout_ms;
        if limit > 0
            && !acks.unacked.is_empty()
            && acks.heard.elapsed() > Duration::from_millis(limit)
        {
            let text = format!("no ack came from {} within {limit} ms", conn.server);
            let error = Error::new(Status::TimedOut, text).with_server(&conn.server);
            raise(acks, Fault::at(0, error));
            return;
        }
        let timeout = self.ctx.config.socket_timeout_ms;
        // Hadoop 3.4 DataStreamer#run: a heartbeat after half the socket time-out without a packet,
        // since a DataNode gives up on an upstream that is silent.
        if timeout == 0
            || acks.partial.is_some()
            || acks.fault.is_some()
            || acks.last_sent.elapsed() < Duration::from_millis(timeout / 2)
        {
            return;
        }
        let header = PacketHeader {
            offset_in_block: 0,
            seqno: HEARTBEAT_SEQNO,
            last: false,
            data_len: 0,
            sync: false,
        };
        let mut bytes = [0; MAX_HEADER_LEN];
        let start = encode_header(&mut bytes, &header, 0);
        let bytes = bytes.get(start..).unwrap_or_default();
        match conn.socket.try_send(&[IoSlice::new(bytes)]) {
            Ok(Some(n)) if n == bytes.len() => {
                acks.last_sent = now();
                let before = acks.unacked.back().map_or(acks.acked_seqno, |p| p.seqno);
                acks.heartbeats.push_back(before);
                self.ctx.stats.heartbeats.fetch_add(1, Ordering::Relaxed);
                self.ctx.stats.packets_sent.fetch_add(1, Ordering::Relaxed);
            }
            // A full socket has data under way, which is as good as a heartbeat.
            Ok(None) => {}
            Ok(Some(_)) => {
                let text = format!("a heartbeat to {} was cut off", conn.server);
                let error = Error::new(Status::ConnectionLost, text).with_server(&conn.server);
                raise(acks, Fault::at(0, error));
            }
            Err(e) => {
                let error = conn.io_error(&e, "sending a heartbeat to");
                raise(acks, Fault::at(0, error));
            }
        }
    }
}

/// Notes a fault unless an earlier one waits to be handled.
fn raise(acks: &mut Acks, fault: Fault) {
    if acks.fault.is_none() && acks.broken.is_none() {
        acks.fault = Some(fault);
    }
}

/// Applies one ack; returns the fault that it reveals.
// Hadoop 3.4 DataStreamer.ResponseProcessor#run: replies are scanned from the last node to the
// first, since the last failure is the cause of those before it.
fn take_ack(acks: &mut Acks, ack: &PipelineAck, server: &str) -> Option<Fault> {
    let name = |acks: &Acks, i: usize| {
        acks.node_names.get(i).cloned().unwrap_or_else(|| format!("node {i}"))
    };
    for i in (0..ack.count).rev() {
        let status = ack.status(i);
        if status == STATUS_SUCCESS {
            continue;
        }
        let node = name(acks, i);
        let words = status_name(i32::from(status));
        let error = Error::new(
            Status::DataNode,
            format!(
                "DataNode {node} (node {i} of {}) answered {words} for packet {}",
                acks.node_count, ack.seqno
            ),
        )
        .with_server(&node)
        .with_remote(words, "");
        let node = i.min(acks.node_count.saturating_sub(1));
        let restarting = status == STATUS_OOB_RESTART;
        return Some(Fault { restarting, ..Fault::at(node, error) });
    }
    // Differs: Java trusts an ack with fewer replies than nodes; each real DataNode adds its own,
    // so a missing one means that a node's word is missing.
    if ack.count != acks.node_count {
        let text = format!(
            "an ack of {server} has {} replies for a pipeline of {}",
            ack.count, acks.node_count
        );
        let node = ack.count.min(acks.node_count.saturating_sub(1));
        let error = Error::protocol(text).with_server(&name(acks, node));
        return Some(Fault::at(node, error));
    }
    acks.congestion.note((0..ack.count).any(|i| ack.congested(i)));
    let slow = acks.slow.note(ack).map(|i| {
        let node = name(acks, i);
        let text = format!("DataNode {node} (node {i} of {}) calls itself slow", ack.count);
        Fault::at(i, Error::new(Status::DataNode, text).with_server(&node))
    });
    if ack.seqno == HEARTBEAT_SEQNO {
        // Differs: Hadoop ignores these, so that a lost ack hangs it while heartbeats are answered.
        // Acks come in the order of packets.
        let Some(before) = acks.heartbeats.pop_front().filter(|s| *s > acks.acked_seqno) else {
            return slow;
        };
        let text = format!("{server} acknowledged a heartbeat but not packet {before} before it");
        return Some(Fault::at(0, Error::protocol(text).with_server(server)));
    }
    let expected = acks.unacked.front().map(|p| p.seqno);
    let complete = acks.partial.is_none() || acks.unacked.len() > 1;
    if expected != Some(ack.seqno) || !complete {
        let text = format!("{server} acknowledged packet {} where {expected:?} was due", ack.seqno);
        let error = Error::protocol(text).with_server(server);
        return Some(Fault::at(0, error));
    }
    if let Some(packet) = acks.unacked.pop_front() {
        let end = packet.end_in_block();
        if end > acks.acked_in_block {
            acks.acked_pos += end - acks.acked_in_block;
            acks.acked_in_block = end;
        }
        acks.unacked_memory -= packet.memory();
        acks.acked_seqno = ack.seqno;
    }
    slow
}

impl Tended for Stream {
    /// Keeper thread: drains stray acks and sends heartbeats. Only tries the lock, since a stream
    /// in use looks after itself.
    fn tend(&self, _now: Instant) {
        let Some(mut acks) = self.acks.try_lock() else { return };
        if acks.broken.is_some() || acks.conn.is_none() || acks.reader.is_none() {
            return;
        }
        self.try_drain(&mut acks);
        self.look_after(&mut acks);
    }
}
