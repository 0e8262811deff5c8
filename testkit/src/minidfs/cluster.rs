//! What NameNodes and DataNodes of one cluster share, and how they talk to each other.
//!
//! Lock order: the namespace lock is a leaf for DataNodes (they call in without holding locks of
//! their own), and nothing is called from below it: commands collect and run afterwards.
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, RwLock};

use super::config::Config;
use super::dn::DnCore;
use super::dn::dataset::State;
use super::faults::{Fault, FaultPlan, Site, Visit};
use super::nn::{CLIENT_PROTOCOL, Command, Context, NameSystem, Recovered};
use super::rpc::{Call, Handler, RpcError};
use super::sched::Scheduler;

/// How long a report of a paused DataNode waits before it is tried again.
const PAUSED_RETRY: Duration = Duration::from_millis(10);

pub(crate) struct Cluster {
    pub(crate) cfg: Arc<Config>,
    pub(crate) faults: Arc<FaultPlan>,
    ns: Mutex<NameSystem>,
    sched: Scheduler,
    nodes: RwLock<Vec<Arc<DnCore>>>,
    active: AtomicUsize,
}

impl Cluster {
    pub(crate) fn new(cfg: Arc<Config>, pool_id: String) -> io::Result<Arc<Self>> {
        Ok(Arc::new(Self {
            ns: Mutex::new(NameSystem::new(Arc::clone(&cfg), pool_id)),
            cfg,
            faults: Arc::default(),
            sched: Scheduler::start()?,
            nodes: RwLock::default(),
            active: AtomicUsize::new(0),
        }))
    }

    pub(crate) fn add_node(&self, node: Arc<DnCore>) {
        self.nodes.write().push(node);
    }

    pub(crate) fn node(&self, index: usize) -> Option<Arc<DnCore>> {
        self.nodes.read().get(index).cloned()
    }

    pub(crate) fn nodes(&self) -> Vec<Arc<DnCore>> {
        self.nodes.read().clone()
    }

    /// Runs something on the namespace, then sends out the commands it produced.
    pub(crate) fn with_ns<R>(self: &Arc<Self>, f: impl FnOnce(&mut NameSystem) -> R) -> R {
        let (result, commands) = {
            let mut ns = self.ns.lock();
            let result = f(&mut ns);
            (result, std::mem::take(&mut ns.commands))
        };
        for command in commands {
            let cluster = Arc::downgrade(self);
            self.sched.after(self.cfg.command_delay, move || {
                if let Some(cluster) = cluster.upgrade() {
                    cluster.execute(command);
                }
            });
        }
        result
    }

    pub(crate) fn active(&self) -> usize {
        self.active.load(Ordering::Acquire)
    }

    pub(crate) fn set_active(&self, index: usize) {
        self.active.store(index, Ordering::Release);
    }

    pub(crate) fn failover(&self) {
        if self.cfg.ha {
            self.active.fetch_xor(1, Ordering::AcqRel);
        }
    }

    /// A DataNode tells about a replica; the news takes its time, and dies with the DataNode. It
    /// tells what holds when it arrives: reports of a real DataNode never overtake each other.
    pub(crate) fn report(self: &Arc<Self>, node: usize, id: u64) {
        self.report_after(self.cfg.report_delay, node, id);
    }

    fn report_after(self: &Arc<Self>, delay: Duration, node: usize, id: u64) {
        let cluster = Arc::downgrade(self);
        self.sched.after(delay, move || {
            let Some(cluster) = cluster.upgrade() else { return };
            let Some(core) = cluster.node(node) else { return };
            if core.is_paused() {
                cluster.report_after(PAUSED_RETRY, node, id);
            } else if core.is_running()
                && let Some(replica) = core.data.get(id)
            {
                let (gs, len, finalized) = replica.reported();
                cluster.with_ns(|ns| ns.replica_reported(node, id, gs, len, finalized));
            }
        });
    }

    /// A started DataNode tells about all it has.
    pub(crate) fn block_report(self: &Arc<Self>, node: usize) {
        let Some(core) = self.node(node) else { return };
        let found: Vec<_> = core.data.all().iter().map(|r| (r.id, r.reported())).collect();
        self.with_ns(|ns| {
            ns.forget_reports_of(node);
            for (id, (gs, len, finalized)) in found {
                ns.replica_reported(node, id, gs, len, finalized);
            }
        });
    }

    pub(crate) fn node_silent(self: &Arc<Self>, node: usize, silent: bool) {
        self.with_ns(|ns| {
            if let Some(desc) = ns.nodes.get_mut(node) {
                desc.silent_since = silent.then(Instant::now);
            }
        });
    }

    fn execute(self: &Arc<Self>, command: Command) {
        match command {
            Command::Delete { node, block, gs } => {
                let Some(core) = self.node(node).filter(|c| c.is_running()) else { return };
                // Stopping a writer can take a while; the timer thread must not wait for it.
                let cluster = Arc::clone(self);
                spawn("minidfs-delete", move || {
                    if core.data.delete(block, Some(gs)).is_ok_and(|deleted| deleted) {
                        cluster.with_ns(|ns| ns.replica_deleted(node, block));
                    }
                });
            }
            Command::Recover { block, gs, recovery_id, nodes, truncate_to } => {
                let cluster = Arc::clone(self);
                spawn("minidfs-recovery", move || {
                    let done = cluster.recover(block, gs, recovery_id, &nodes, truncate_to);
                    cluster.with_ns(|ns| match done {
                        Some(done) => {
                            if ns.commit_recovery(&done).is_err() {
                                ns.recovery_failed(block, recovery_id);
                            }
                        }
                        None => ns.recovery_failed(block, recovery_id),
                    });
                });
            }
        }
    }

    /// Hadoop 3.4 BlockRecoveryWorker.RecoveryTaskContiguous: agrees on a length and makes every
    /// replica that has it final. `None` when no node could take part.
    fn recover(
        &self,
        block: u64,
        gs: u64,
        recovery_id: u64,
        nodes: &[usize],
        truncate_to: Option<u64>,
    ) -> Option<Recovered> {
        let mut found = Vec::new();
        let mut answered = 0;
        for node in nodes {
            let Some(core) = self.node(*node).filter(|c| c.is_running() && !c.is_paused()) else {
                continue;
            };
            let Ok(info) = core.data.init_recovery(block, gs, recovery_id) else { continue };
            answered += 1;
            if let Some((state, len)) = info.filter(|(_, len)| *len > 0) {
                found.push((core, state, len));
            }
        }
        if answered == 0 {
            return None;
        }
        let done = |len, delete, nodes| Recovered { block, recovery_id, len, delete, nodes };
        let rank = |s: State| match s {
            State::Finalized => 0,
            State::Rbw => 1,
            State::Rwr | State::Temporary => 2,
        };
        let Some(best) = found.iter().map(|(_, s, _)| *s).min_by_key(|s| rank(*s)) else {
            return Some(done(0, true, Vec::new()));
        };
        let of_best = found.iter().filter(|(_, s, _)| *s == best).map(|(_, _, len)| *len);
        let agreed = of_best.min().unwrap_or(0);
        let takes_part = |state: State, len: u64| match best {
            State::Finalized => len == agreed && rank(state) <= 1,
            _ => state == best,
        };
        let length = truncate_to.unwrap_or(agreed).min(agreed);
        let updated: Vec<usize> = found
            .iter()
            .filter(|(_, state, len)| takes_part(*state, *len))
            .filter(|(core, _, _)| core.data.update_recovery(block, recovery_id, length).is_ok())
            .map(|(core, _, _)| core.index)
            .collect();
        if updated.is_empty() { None } else { Some(done(length, false, updated)) }
    }

    /// Starts the lease monitor.
    pub(crate) fn watch_leases(self: &Arc<Self>) {
        let hard = self.cfg.lease_hard_limit;
        let period = (hard / 4).clamp(Duration::from_millis(20), Duration::from_secs(2));
        let cluster = Arc::downgrade(self);
        self.sched.after(period, move || {
            if let Some(cluster) = cluster.upgrade() {
                cluster.with_ns(NameSystem::check_leases);
                cluster.watch_leases();
            }
        });
    }

    /// Stops the timer and every DataNode; false when a thread did not end in time.
    pub(crate) fn stop(&self) -> bool {
        self.sched.stop();
        let nodes = std::mem::take(&mut *self.nodes.write());
        // One after the other would add up the waits.
        let stops: Vec<_> =
            nodes.into_iter().map(|node| std::thread::spawn(move || node.retire())).collect();
        stops.into_iter().all(|s| s.join().unwrap_or(false))
    }
}

fn spawn(name: &str, f: impl FnOnce() + Send + 'static) {
    // Without a thread the command is lost, as a command to a dying DataNode is.
    let _lost = std::thread::Builder::new().name(name.to_owned()).spawn(f);
}

/// One NameNode's RPC port.
pub(crate) struct NnHandler {
    pub(crate) cluster: Arc<Cluster>,
    pub(crate) index: usize,
}

impl Handler for NnHandler {
    fn protocol(&self) -> &'static str {
        CLIENT_PROTOCOL
    }

    fn call(&self, call: &Call) -> Result<Vec<u8>, RpcError> {
        let used: Vec<u64> = if call.method == "getFsStats" || call.method == "getDatanodeReport" {
            self.cluster.nodes().iter().map(|n| n.data.used_bytes()).collect()
        } else {
            Vec::new()
        };
        let ctx = Context {
            user: &call.user,
            client_ip: &call.client_ip,
            active: self.cluster.active() == self.index,
        };
        self.cluster.with_ns(|ns| {
            for (desc, bytes) in ns.nodes.iter_mut().zip(used) {
                desc.used = bytes;
            }
            ns.call(&ctx, call)
        })
    }

    fn fault(&self, call: &Call) -> Option<Fault> {
        let visit = Visit { method: &call.method, ..Visit::at(Site::Rpc, self.index) };
        self.cluster.faults.hit(&visit)
    }

    fn failover(&self) {
        self.cluster.failover();
    }
}
