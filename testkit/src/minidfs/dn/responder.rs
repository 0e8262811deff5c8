//! The acks of one WRITE_BLOCK: the queue between receiver and responder, and the responder.
use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use dfs::proto::hdfs::{PipelineAckProto, Status};
use parking_lot::{Condvar, Mutex};
use prost::Message;

use super::super::faults::{Fault, Site, Visit};
use super::super::net::{Conn, ConnReader};
use super::super::wire::{bad_data, read_delimited};
use super::DnCore;
use super::dataset::Replica;
use super::writer::WriterControl;

const SEQNO_UNKNOWN: i64 = -2;
/// Pause between two acks that say that the next node failed.
const REPEAT_PAUSE: Duration = Duration::from_millis(20);
/// ECN "supported" in bits 5 and 6, as a DataNode with `dfs.pipeline.ecn` off sends it: 0.
const FLAG_NONE: u32 = 0;

/// A packet whose ack is due.
#[derive(Clone, Copy)]
pub(super) struct Pending {
    pub(super) seqno: i64,
    pub(super) last: bool,
    /// Block offset behind its data.
    pub(super) end: u64,
    pub(super) status: Status,
}

struct Queue {
    items: VecDeque<Pending>,
    running: bool,
}

/// State that the receiver and the responder of a WRITE_BLOCK share.
pub(crate) struct Pipeline {
    pub(super) dn: Arc<DnCore>,
    pub(super) upstream: Arc<Conn>,
    pub(super) mirror: Option<Arc<Conn>>,
    pub(super) replica: Arc<Replica>,
    pub(super) control: Arc<WriterControl>,
    pub(super) mirror_error: AtomicBool,
    queue: Mutex<Queue>,
    changed: Condvar,
    /// An OOB ack must not cut through another one.
    sending: Mutex<()>,
}

impl Pipeline {
    pub(super) fn new(
        dn: &Arc<DnCore>,
        upstream: &Arc<Conn>,
        mirror: Option<Arc<Conn>>,
        replica: &Arc<Replica>,
        control: &Arc<WriterControl>,
    ) -> Arc<Self> {
        Arc::new(Self {
            dn: Arc::clone(dn),
            upstream: Arc::clone(upstream),
            mirror,
            replica: Arc::clone(replica),
            control: Arc::clone(control),
            mirror_error: AtomicBool::new(false),
            queue: Mutex::new(Queue { items: VecDeque::new(), running: true }),
            changed: Condvar::new(),
            sending: Mutex::new(()),
        })
    }

    pub(super) fn enqueue(&self, pending: Pending) {
        let mut queue = self.queue.lock();
        if queue.running {
            queue.items.push_back(pending);
            self.changed.notify_all();
        }
    }

    /// Ends both threads.
    pub(super) fn abort(&self) {
        self.queue.lock().running = false;
        self.changed.notify_all();
        self.upstream.close();
        if let Some(mirror) = &self.mirror {
            mirror.close();
        }
    }

    /// Receiver: waits until every ack has gone out.
    pub(super) fn drain(&self) -> bool {
        let mut queue = self.queue.lock();
        while queue.running && !queue.items.is_empty() {
            self.changed.wait(&mut queue);
        }
        let clean = queue.items.is_empty();
        queue.running = false;
        self.changed.notify_all();
        clean
    }

    fn head(&self) -> Option<Pending> {
        let mut queue = self.queue.lock();
        while queue.running && queue.items.is_empty() {
            self.changed.wait(&mut queue);
        }
        if queue.running { queue.items.front().copied() } else { None }
    }

    /// Waits a moment; true when the receiver has ended.
    fn ends_within(&self, time: Duration) -> bool {
        let mut queue = self.queue.lock();
        if queue.running {
            self.changed.wait_for(&mut queue, time);
        }
        !queue.running
    }

    /// Whether a read timed out while no ack was due.
    fn is_idle(&self, error: &io::Error) -> bool {
        matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
            && self.queue.lock().items.is_empty()
    }

    fn pop(&self) {
        self.queue.lock().items.pop_front();
        self.changed.notify_all();
    }

    pub(super) fn break_mirror(&self) {
        self.mirror_error.store(true, Ordering::Release);
        // Wakes the responder, which reads acks there.
        if let Some(mirror) = &self.mirror {
            mirror.close();
        }
    }

    /// The responder thread. Hadoop 3.4 BlockReceiver.PacketResponder#run.
    pub(super) fn respond(&self) {
        let mut acks = self.mirror.as_ref().map(|m| ConnReader(Arc::clone(m)));
        loop {
            match self.respond_once(acks.as_mut()) {
                Ok(true) => {}
                Ok(false) => {
                    // A receiver that waits for acks must not wait for ever.
                    self.queue.lock().running = false;
                    self.changed.notify_all();
                    return;
                }
                Err(_) => {
                    self.abort();
                    return;
                }
            }
        }
    }

    /// Handles one ack; false after the last one.
    fn respond_once(&self, acks: Option<&mut ConnReader>) -> io::Result<bool> {
        let mut below = PipelineAckProto::default();
        let mut broken = self.mirror_error.load(Ordering::Acquire);
        if let Some(acks) = acks
            && !broken
        {
            match read_delimited::<PipelineAckProto>(acks) {
                Ok(ack) if is_oob(&ack) => {
                    self.send(relay(Status::Success, &ack), SEQNO_UNKNOWN, 0)?;
                    return Ok(true);
                }
                Ok(ack) => below = ack,
                Err(_) if self.control.is_stopped() => return Ok(false),
                Err(e) if self.dn.cfg.idle_timeout.is_some() && self.is_idle(&e) => {
                    return Ok(true);
                }
                Err(_) => {
                    self.mirror_error.store(true, Ordering::Release);
                    broken = true;
                }
            }
        }
        if broken {
            let both = vec![Status::Success as i32, Status::Error as i32];
            self.send(ack_of(both), SEQNO_UNKNOWN, 0)?;
            return self.repeat_failure();
        }
        if self.mirror.is_some() && below.seqno == SEQNO_UNKNOWN {
            // A node further down has lost its neighbour; the index tells the client which.
            self.send(relay(Status::Success, &below), SEQNO_UNKNOWN, 0)?;
            return Ok(true);
        }
        let Some(pending) = self.head() else { return Ok(false) };
        if self.mirror.is_some() && below.seqno != pending.seqno {
            self.break_mirror();
            return Ok(true);
        }
        if pending.last {
            self.finish_block()?;
        }
        if below.reply.first() == Some(&(Status::ErrorChecksum as i32)) {
            return Err(bad_data("the next node says that this one sent corrupt data"));
        }
        self.send(relay(pending.status, &below), pending.seqno, pending.end)?;
        self.pop();
        if pending.status == Status::ErrorChecksum {
            return Err(bad_data("the checksum error has been sent upstream"));
        }
        Ok(!pending.last)
    }

    /// Repeats the ack that says that the next node failed until the client ends the pipeline or
    /// another writer takes over. The receiver may have nothing more to read and not notice.
    fn repeat_failure(&self) -> io::Result<bool> {
        while !self.ends_within(REPEAT_PAUSE) {
            if self.control.is_stopped() {
                return Err(io::Error::other("stopped by another writer"));
            }
            let mut ack = ack_of(vec![Status::Success as i32, Status::Error as i32]);
            ack.seqno = SEQNO_UNKNOWN;
            self.write_ack(&ack)?;
        }
        Ok(false)
    }

    /// The replica is final before the ack of its last packet leaves.
    fn finish_block(&self) -> io::Result<()> {
        if self.control.is_stopped() {
            return Err(io::Error::other("stopped by another writer"));
        }
        self.dn.data.finalize(&self.replica)?;
        self.dn.report(&self.replica);
        Ok(())
    }

    /// Sends an ack upstream, with what the fault plan makes of it.
    fn send(&self, mut ack: PipelineAckProto, seqno: i64, end: u64) -> io::Result<()> {
        ack.seqno = seqno;
        let visit = Visit { seqno, block: self.replica.id, ..Visit::at(Site::Ack, self.dn.index) };
        let fault = self.dn.common_fault(self.dn.hit(&visit), &self.upstream)?;
        match &fault {
            Some(Fault::AckSeqno(other)) => ack.seqno = *other,
            Some(Fault::AckStatus { index, status }) => set_status(&mut ack, *index, *status),
            Some(Fault::AckFlag(bits)) => {
                if let Some(own) = ack.flag.first_mut() {
                    *own |= bits;
                }
            }
            Some(Fault::OobRestart) => self.write_ack(&oob())?,
            _ => {}
        }
        if ack.reply.iter().all(|r| *r == Status::Success as i32) {
            let mut inner = self.replica.inner.lock();
            inner.acked = inner.acked.max(end);
        }
        match fault {
            Some(Fault::LoseAck) => Ok(()),
            Some(Fault::RepeatAck) => {
                self.write_ack(&ack)?;
                self.write_ack(&ack)
            }
            _ => self.write_ack(&ack),
        }
    }

    fn write_ack(&self, ack: &PipelineAckProto) -> io::Result<()> {
        let _one = self.sending.lock();
        (&*self.upstream).write_all(&ack.encode_length_delimited_to_vec())
    }

    /// Tells the client that this node is about to restart.
    pub(super) fn send_oob(&self) {
        // A client that is gone needs no warning.
        let _gone = self.write_ack(&oob());
    }
}

fn oob() -> PipelineAckProto {
    PipelineAckProto { seqno: SEQNO_UNKNOWN, ..ack_of(vec![Status::OobRestart as i32]) }
}

fn ack_of(reply: Vec<i32>) -> PipelineAckProto {
    let flag = reply.iter().map(|r| FLAG_NONE | r.cast_unsigned()).collect();
    PipelineAckProto { seqno: 0, reply, downstream_ack_time_nanos: Some(0), flag }
}

/// Own status in front of what came from downstream.
fn relay(own: Status, below: &PipelineAckProto) -> PipelineAckProto {
    let mut reply = vec![own as i32];
    reply.extend_from_slice(&below.reply);
    let mut ack = ack_of(reply);
    for (to, from) in ack.flag.iter_mut().skip(1).zip(&below.flag) {
        *to = *from;
    }
    ack
}

fn set_status(ack: &mut PipelineAckProto, index: usize, status: Status) {
    if let (Some(reply), Some(flag)) = (ack.reply.get_mut(index), ack.flag.get_mut(index)) {
        *reply = status as i32;
        *flag = (*flag & !0xF) | (status as i32).cast_unsigned();
    }
}

fn is_oob(ack: &PipelineAckProto) -> bool {
    let first = Status::OobRestart as i32;
    let last = Status::OobReserved3 as i32;
    ack.reply.iter().any(|r| (first..=last).contains(r))
}
