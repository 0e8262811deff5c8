//! The fault plan: counted rules that say where something goes wrong.
//!
//! Servers ask the plan at fixed places ([`Site`]). The first armed rule that matches fires: its
//! counter falls, and the place does what the [`Fault`] says. A fault that makes no sense at a
//! place is ignored there. Rules stay in the plan after their last shot so that tests can ask
//! how often they fired.
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use dfs::proto::hdfs::Status;
use parking_lot::{Mutex, RwLock};

/// A place that asks the fault plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Site {
    /// A DataNode accepted a connection. [`Fault::Close`], [`Fault::CutAfter`], [`Fault::Delay`].
    Accept,
    /// A DataNode read an operation header. [`Fault::Close`], [`Fault::Delay`],
    /// [`Fault::Refuse`], [`Fault::BadLink`], [`Fault::CutAfter`], [`Fault::KillNode`],
    /// [`Fault::PauseNode`].
    Op(Op),
    /// A DataNode received a packet and has not looked at it yet. [`Fault::Close`],
    /// [`Fault::Delay`], [`Fault::CorruptData`], [`Fault::CorruptChecksum`],
    /// [`Fault::DiskFull`], [`Fault::KillNode`], [`Fault::PauseNode`], [`Fault::RestartNode`].
    PacketReceived,
    /// A DataNode is about to send an ack upstream. [`Fault::Close`], [`Fault::Delay`],
    /// [`Fault::LoseAck`], [`Fault::RepeatAck`], [`Fault::AckSeqno`], [`Fault::AckStatus`],
    /// [`Fault::AckFlag`], [`Fault::OobRestart`], [`Fault::KillNode`], [`Fault::PauseNode`],
    /// [`Fault::RestartNode`].
    Ack,
    /// A DataNode is about to send a packet of a read. [`Fault::Close`], [`Fault::Delay`],
    /// [`Fault::CorruptData`], [`Fault::CorruptChecksum`], [`Fault::ReadHeader`],
    /// [`Fault::EndEarly`], [`Fault::KillNode`], [`Fault::PauseNode`].
    PacketSent,
    /// A NameNode is about to run a call. [`Fault::Close`], [`Fault::CloseAfter`],
    /// [`Fault::Delay`], [`Fault::DelayAfter`], [`Fault::Throw`], [`Fault::RawReply`],
    /// [`Fault::Failover`].
    Rpc,
}

/// Operations of the data transfer protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// WRITE_BLOCK from a client, first node of the pipeline or not.
    Write,
    /// READ_BLOCK.
    Read,
    /// BLOCK_CHECKSUM.
    Checksum,
    /// TRANSFER_BLOCK.
    Transfer,
}

/// How a packet header of a read is spoilt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadHeader {
    /// The payload length is beyond every limit.
    Oversized,
    /// The payload length is negative.
    Negative,
    /// The header bytes are no protobuf message.
    Garbage,
    /// The sequence number is one too high.
    Seqno,
    /// The offset is 512 bytes further than the data.
    Offset,
    /// The data length does not fit the payload length.
    DataLen,
}

/// What goes wrong.
#[derive(Clone, Debug, PartialEq)]
pub enum Fault {
    /// Wait before going on.
    Delay(Duration),
    /// Rpc: run the call, then wait before the answer.
    DelayAfter(Duration),
    /// Close the connection here, without an answer; at [`Site::Rpc`] the call does not run.
    Close,
    /// Rpc: run the call, then close the connection without an answer.
    CloseAfter,
    /// Close the connection after that many more bytes in a direction.
    CutAfter {
        /// Bytes that the server still receives.
        received: Option<u64>,
        /// Bytes that the server still sends.
        sent: Option<u64>,
    },
    /// Kill the DataNode, see [`super::DataNode::kill`].
    KillNode,
    /// Pause the DataNode, see [`super::DataNode::pause`].
    PauseNode,
    /// Restart the DataNode with OOB acks, see [`super::DataNode::restart_for_upgrade`].
    RestartNode {
        /// How long it stays down.
        down: Duration,
    },
    /// Answer the operation with this status instead of running it.
    Refuse {
        /// Status of the answer, for instance `ErrorAccessToken`.
        status: Status,
        /// Text of the answer.
        message: String,
    },
    /// Write: answer ERROR and name the node with this index of the targets as the first bad
    /// link (0 is the next node downstream); out of range names no node.
    BadLink(usize),
    /// Flip one bit of the data byte at this index, modulo the packet's length.
    CorruptData(usize),
    /// Flip one bit of the first checksum.
    CorruptChecksum,
    /// The disk has no room for the packet.
    DiskFull,
    /// Drop the ack.
    LoseAck,
    /// Send the ack twice.
    RepeatAck,
    /// Send the ack with another sequence number.
    AckSeqno(i64),
    /// Put this status at the index of the ack (0 is the node itself).
    AckStatus {
        /// Index in the ack's replies.
        index: usize,
        /// The status put there.
        status: Status,
    },
    /// Set bits of the ack's own flag: `3 << 5` is congestion, `2 << 7` a slow node.
    AckFlag(u32),
    /// Send an OOB_RESTART ack before the ack, without restarting.
    OobRestart,
    /// Spoil the packet header.
    ReadHeader(BadHeader),
    /// End the read here with a clean trailer.
    EndEarly,
    /// Answer the call with this exception.
    Throw {
        /// Java class name.
        class: String,
        /// Message, as Java prints it behind the class name.
        message: String,
        /// Status FATAL instead of ERROR; the connection is closed behind it.
        fatal: bool,
    },
    /// Send these bytes instead of an answer, then close the connection.
    RawReply(Vec<u8>),
    /// The other NameNode becomes active before this call runs.
    Failover,
}

impl Fault {
    /// What a web server answers on an RPC port.
    pub fn http() -> Self {
        Self::RawReply(b"HTTP/1.1 404 Not Found\r\nContent-type: text/plain\r\n\r\n".to_vec())
    }

    /// A response frame that claims `bytes` bytes.
    pub fn oversized_frame(bytes: u32) -> Self {
        Self::RawReply(bytes.to_be_bytes().to_vec())
    }

    /// An ERROR answer with this exception.
    pub fn throw(class: &str, message: &str) -> Self {
        Self::Throw { class: class.to_owned(), message: message.to_owned(), fatal: false }
    }

    /// What a DataNode answers to an expired block token.
    pub fn access_token() -> Self {
        Self::Refuse {
            status: Status::ErrorAccessToken,
            message: "Block token verification failed".to_owned(),
        }
    }
}

/// A rule of the plan. Built with [`Rule::new`] and the narrowing methods; fires once unless
/// [`Rule::times`] says otherwise.
#[derive(Clone, Debug)]
pub struct Rule {
    site: Site,
    fault: Fault,
    node: Option<usize>,
    method: Option<String>,
    seqno: Option<i64>,
    block: Option<u64>,
    skip: u64,
    every: u64,
    times: u64,
}

impl Rule {
    /// A rule that fires at the first visit of `site` on any node.
    pub fn new(site: Site, fault: Fault) -> Self {
        Self {
            site,
            fault,
            node: None,
            method: None,
            seqno: None,
            block: None,
            skip: 0,
            every: 1,
            times: 1,
        }
    }

    /// An RPC rule for one method.
    pub fn rpc(method: &str, fault: Fault) -> Self {
        let mut rule = Self::new(Site::Rpc, fault);
        rule.method = Some(method.to_owned());
        rule
    }

    /// Only on this DataNode, or NameNode for [`Site::Rpc`].
    pub fn on(mut self, node: usize) -> Self {
        self.node = Some(node);
        self
    }

    /// Only for packets and acks with this sequence number.
    pub fn seqno(mut self, seqno: i64) -> Self {
        self.seqno = Some(seqno);
        self
    }

    /// Only for this block id.
    pub fn block(mut self, block_id: u64) -> Self {
        self.block = Some(block_id);
        self
    }

    /// Let the first `count` matching visits pass.
    pub fn skip(mut self, count: u64) -> Self {
        self.skip = count;
        self
    }

    /// Of those behind, fire at one in `count` matching visits only, the first one included.
    pub fn every(mut self, count: u64) -> Self {
        self.every = count.max(1);
        self
    }

    /// Fire `count` times.
    pub fn times(mut self, count: u64) -> Self {
        self.times = count;
        self
    }

    /// Fire at every matching visit.
    pub fn always(self) -> Self {
        self.times(u64::MAX)
    }
}

/// Handle of a rule in the plan.
#[derive(Clone, Debug)]
pub struct RuleHandle(Arc<Armed>);

#[derive(Debug)]
struct Armed {
    rule: Rule,
    enabled: AtomicBool,
    seen: AtomicU64,
    fired: AtomicU64,
    /// Makes count and decision one step.
    decide: Mutex<()>,
}

impl RuleHandle {
    /// How often the rule fired.
    pub fn fired(&self) -> u64 {
        self.0.fired.load(Ordering::Acquire)
    }

    /// How many visits matched, fired or not.
    pub fn seen(&self) -> u64 {
        self.0.seen.load(Ordering::Acquire)
    }

    /// Stops the rule; its counters stay readable.
    pub fn disarm(&self) {
        self.0.enabled.store(false, Ordering::Release);
    }
}

/// A visit of a place.
#[derive(Clone, Copy)]
pub(crate) struct Visit<'a> {
    pub(crate) site: Site,
    pub(crate) node: usize,
    pub(crate) method: &'a str,
    pub(crate) seqno: i64,
    pub(crate) block: u64,
}

impl Visit<'_> {
    pub(crate) fn at(site: Site, node: usize) -> Self {
        Visit { site, node, method: "", seqno: i64::MIN, block: 0 }
    }
}

/// All rules of a cluster, asked in the order in which they were added.
#[derive(Debug, Default)]
pub struct FaultPlan {
    any: AtomicBool,
    rules: RwLock<Vec<Arc<Armed>>>,
}

impl FaultPlan {
    /// Adds a rule; it is armed at once.
    pub fn add(&self, rule: Rule) -> RuleHandle {
        let armed = Arc::new(Armed {
            rule,
            enabled: AtomicBool::new(true),
            seen: AtomicU64::new(0),
            fired: AtomicU64::new(0),
            decide: Mutex::new(()),
        });
        self.rules.write().push(Arc::clone(&armed));
        self.any.store(true, Ordering::Release);
        RuleHandle(armed)
    }

    /// Removes every rule.
    pub fn clear(&self) {
        self.rules.write().clear();
        self.any.store(false, Ordering::Release);
    }

    /// Rules with their number of shots, in order of addition: for the report of a chaos run.
    pub fn report(&self) -> Vec<(Rule, u64)> {
        let rules = self.rules.read();
        rules.iter().map(|a| (a.rule.clone(), a.fired.load(Ordering::Acquire))).collect()
    }

    pub(crate) fn hit(&self, visit: &Visit<'_>) -> Option<Fault> {
        if !self.any.load(Ordering::Acquire) {
            return None;
        }
        let rules = self.rules.read();
        rules.iter().find(|a| a.matches(visit) && a.shoot()).map(|a| a.rule.fault.clone())
    }
}

impl Armed {
    fn matches(&self, visit: &Visit<'_>) -> bool {
        let rule = &self.rule;
        self.enabled.load(Ordering::Acquire)
            && rule.site == visit.site
            && rule.node.is_none_or(|n| n == visit.node)
            && rule.seqno.is_none_or(|s| s == visit.seqno)
            && rule.block.is_none_or(|b| b == visit.block)
            && rule.method.as_deref().is_none_or(|m| m == visit.method)
    }

    fn shoot(&self) -> bool {
        let _one_at_a_time = self.decide.lock();
        let seen = self.seen.fetch_add(1, Ordering::AcqRel);
        let fired = self.fired.load(Ordering::Acquire);
        let Some(behind) = seen.checked_sub(self.rule.skip) else { return false };
        if !behind.is_multiple_of(self.rule.every) || fired >= self.rule.times {
            return false;
        }
        self.fired.store(fired + 1, Ordering::Release);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_skips_then_fires_then_rests() {
        let plan = FaultPlan::default();
        let rule = plan.add(Rule::rpc("create", Fault::Close).on(1).skip(1).times(2));
        let visit = Visit { method: "create", ..Visit::at(Site::Rpc, 1) };
        let shots: Vec<bool> = (0..5).map(|_| plan.hit(&visit).is_some()).collect();
        assert_eq!(shots, [false, true, true, false, false]);
        assert!(plan.hit(&Visit { method: "create", ..Visit::at(Site::Rpc, 0) }).is_none());
        assert_eq!((rule.fired(), rule.seen()), (2, 5));
        let every = plan.add(Rule::rpc("delete", Fault::Close).skip(1).every(3).always());
        let visit = Visit { method: "delete", ..Visit::at(Site::Rpc, 0) };
        let shots: Vec<bool> = (0..8).map(|_| plan.hit(&visit).is_some()).collect();
        assert_eq!(shots, [false, true, false, false, true, false, false, true]);
        assert_eq!(every.fired(), 3);
        rule.disarm();
        let visit = Visit { method: "create", ..Visit::at(Site::Rpc, 1) };
        assert!(plan.hit(&visit).is_none());
        assert_eq!(rule.seen(), 5);
    }
}
