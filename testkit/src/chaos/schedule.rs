//! What happens in one schedule, made from its seed.
use std::time::Duration;

use dfs::proto::hdfs::Status;
use dfs::write::SyncMode;

use crate::minidfs::rng::Rng;
use crate::minidfs::{Fault, Op, Site};

/// Cluster sizes; a seed belongs to the cluster at its remainder.
pub(super) const SIZES: [usize; 3] = [3, 4, 5];
/// The limit of calls that should come to an end by themselves, ms.
pub(super) const AMPLE_MS: u64 = 30_000;

/// Something that goes wrong.
#[derive(Clone, Debug)]
pub(super) enum Action {
    /// A rule at the node with this position in the pipeline of the moment (or this index, while
    /// there is none), behind `skip` visits.
    Rule {
        position: usize,
        site: Site,
        fault: Fault,
        skip: u64,
        times: u64,
    },
    /// A rule at calls of a NameNode method.
    Rpc {
        method: &'static str,
        fault: Fault,
        skip: u64,
        times: u64,
    },
    Kill {
        position: usize,
        restart_after: Option<Duration>,
    },
    Pause {
        position: usize,
        time: Duration,
    },
    Restart {
        position: usize,
        down: Duration,
    },
    DropConnections {
        position: usize,
    },
    Failover,
    DropNameNodeConnections,
    PauseNameNodes(Duration),
    Steal,
}

/// What a thread does next.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Write {
        len: usize,
        limit_ms: u64,
    },
    Flush {
        mode: SyncMode,
        limit_ms: u64,
    },
    /// Writes what needs no waiting.
    WriteAtOnce {
        len: usize,
    },
    /// Begins a flush.
    Begin {
        sync: bool,
    },
    /// Waits for the flush that was begun last.
    Wait {
        limit_ms: u64,
    },
    /// Asks which flushes completed.
    Poll,
    Act(Action),
    Read,
    Sleep(Duration),
}

/// How the file ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// Closed while the faults still act, if need be again afterwards.
    Close {
        /// Limit of the first attempt.
        limit_ms: u64,
    },
    /// Closed on a worker thread, which may take that long; if need be again afterwards.
    Background {
        /// Limit of the first attempt.
        limit_ms: u64,
    },
    /// Dropped without close.
    Abandon,
}

/// One schedule.
#[derive(Clone, Debug)]
pub struct Schedule {
    pub(super) seed: u64,
    pub(super) settings: Vec<(&'static str, String)>,
    pub(super) replication: u32,
    pub(super) block_size: u64,
    pub(super) bytes_per_checksum: u32,
    pub(super) packet_bytes: usize,
    pub(super) crc32: bool,
    pub(super) sync_block: bool,
    pub(super) fail_fast: bool,
    pub(super) min_replicas: u32,
    /// The pipeline is built before the first write.
    pub(super) prepared: bool,
    /// Bytes of a first, undisturbed life of the file; the schedule then appends.
    pub(super) before: Option<usize>,
    pub(super) threads: Vec<Vec<Step>>,
    pub(super) end: End,
}

impl Schedule {
    /// The schedule of a seed.
    pub fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed.wrapping_mul(0xD6E8_FEB8_6659_FD93) ^ 0x5EED);
        let r = &mut rng;
        let bytes_per_checksum = *pick(r, &[512, 512, 512, 128, 4096]);
        let block_size = u64::from(bytes_per_checksum) * *pick(r, &[1, 2, 4, 8, 16, 64, 128, 2048]);
        let replication = *pick(r, &[3, 3, 3, 3, 2, 1]);
        let trouble = below(r, 5);
        // Few blocks: each costs servers and client more than everything else.
        let bytes_max = usize::try_from(block_size * (1 + r.next() % 5)).unwrap_or(usize::MAX);
        let mut threads: Vec<Vec<Step>> =
            (0..*pick(r, &[1, 1, 1, 2, 3])).map(|_| steps(r, bytes_max)).collect();
        for _ in 0..trouble {
            let action = action(r);
            let script = &mut threads[0];
            let at = below(r, script.len() + 1);
            script.insert(at, Step::Act(action));
        }
        let mut this = Self {
            seed,
            settings: settings(r),
            replication,
            block_size,
            bytes_per_checksum,
            packet_bytes: *pick(r, &[65536, 65536, 1024, 4096, 1 << 20]),
            crc32: chance(r, 20),
            sync_block: chance(r, 20),
            fail_fast: chance(r, 5),
            min_replicas: if chance(r, 10) { 2 } else { 0 },
            prepared: false,
            before: chance(r, 20).then(|| 1 + below(r, 5000)),
            threads,
            end: match below(r, 10) {
                0 => End::Abandon,
                1 | 2 => End::Close { limit_ms: 5 + r.next() % 200 },
                _ => End::Close { limit_ms: AMPLE_MS },
            },
        };
        this.wait_less(&mut Rng::new(seed ^ 0x71C_4E75));
        this.leave_corruption_alone();
        this
    }

    /// Has some schedules use the calls that never wait.
    fn wait_less(&mut self, r: &mut Rng) {
        self.prepared = chance(r, 25);
        if let End::Close { limit_ms } = self.end
            && chance(r, 25)
        {
            self.end = End::Background { limit_ms };
        }
        if !chance(r, 35) {
            return;
        }
        for script in &mut self.threads {
            let steps = std::mem::take(script);
            for step in steps {
                match step {
                    Step::Flush { mode, limit_ms } if chance(r, 70) => {
                        script.push(Step::Begin { sync: mode.sync });
                        match below(r, 4) {
                            0 => script.push(Step::Wait { limit_ms }),
                            1 | 2 => script.push(Step::Poll),
                            _ => {}
                        }
                    }
                    Step::Write { len, .. } if chance(r, 40) => {
                        script.push(Step::WriteAtOnce { len });
                    }
                    step => script.push(step),
                }
            }
        }
    }

    /// Only the last DataNode of a pipeline looks at checksums, in Hadoop as here: if it is lost
    /// together with the writer, recovery of the lease keeps corrupt bytes that others hold. The
    /// writer of corrupted packets must therefore come through.
    fn leave_corruption_alone(&mut self) {
        let corrupts = |a: &Action| {
            matches!(a, Action::Rule { fault: Fault::CorruptData(_) | Fault::CorruptChecksum, .. })
        };
        if !self.actions().any(corrupts) {
            return;
        }
        let mut first = true;
        for script in &mut self.threads {
            script.retain(|step| match step {
                Step::Act(action) if corrupts(action) => std::mem::replace(&mut first, false),
                Step::Act(Action::Rpc { fault, .. }) => {
                    matches!(fault, Fault::Delay(_) | Fault::DelayAfter(_))
                }
                Step::Act(_) => false,
                _ => true,
            });
            for step in script {
                if let Step::Act(Action::Rule { times, .. }) = step {
                    *times = 1;
                }
            }
        }
        for (key, value) in &mut self.settings {
            if key.ends_with("best-effort") {
                "true".clone_into(value);
            }
        }
        self.fail_fast = false;
        self.end = End::Close { limit_ms: AMPLE_MS };
    }

    fn actions(&self) -> impl Iterator<Item = &Action> {
        self.threads.iter().flatten().filter_map(|s| match s {
            Step::Act(action) => Some(action),
            _ => None,
        })
    }

    /// Whether the lease is stolen.
    pub(super) fn steals(&self) -> bool {
        self.actions().any(|a| matches!(a, Action::Steal))
    }

    /// Whether nothing happens that may cost a file more than one DataNode: the writer must then
    /// come through.
    pub(super) fn is_mild(&self) -> bool {
        let spoils = |a: &&Action| {
            !matches!(
                a,
                Action::Rpc { fault: Fault::Delay(_) | Fault::DelayAfter(_), .. }
                    | Action::DropNameNodeConnections
                    | Action::PauseNameNodes(_)
                    | Action::Failover
            )
        };
        let corrupts = |a: &Action| {
            matches!(a, Action::Rule { fault: Fault::CorruptData(_) | Fault::CorruptChecksum, .. })
        };
        self.replication == 3
            && !self.fail_fast
            && self.min_replicas == 0
            && !self.steals()
            && self.actions().filter(spoils).count() <= 1
            && !self.actions().any(corrupts)
            && self.settings.iter().any(|(k, v)| k.ends_with("best-effort") && v == "true")
    }
}

fn below(r: &mut Rng, bound: usize) -> usize {
    r.below(bound)
}

fn pick<'a, T>(r: &mut Rng, items: &'a [T]) -> &'a T {
    &items[r.below(items.len())]
}

fn chance(r: &mut Rng, percent: usize) -> bool {
    r.below(100) < percent
}

fn millis(r: &mut Rng, low: u64, high: u64) -> Duration {
    Duration::from_millis(low + r.next() % (high - low))
}

fn settings(r: &mut Rng) -> Vec<(&'static str, String)> {
    const REPLACE: [&str; 4] = [
        "dfs.client.block.write.replace-datanode-on-failure.policy",
        "dfs.client.block.write.replace-datanode-on-failure.best-effort",
        "dfs.client.block.write.replace-datanode-on-failure.min-replication",
        "dfs.client.write.max-packets-in-flight",
    ];
    vec![
        (REPLACE[0], (*pick(r, &["DEFAULT", "ALWAYS", "NEVER"])).to_owned()),
        (REPLACE[1], (!chance(r, 25)).to_string()),
        (REPLACE[2], (*pick(r, &["0", "0", "1", "2"])).to_owned()),
        (REPLACE[3], (*pick(r, &["80", "80", "80", "1", "3"])).to_owned()),
        ("dfs.client.mark.slownode.as.badnode.threshold", (*pick(r, &["10", "3", "0"])).to_owned()),
        (
            "dfs.client.write.exclude.nodes.cache.expiry.interval.millis",
            (*pick(r, &["600000", "50"])).to_owned(),
        ),
    ]
}

fn limit(r: &mut Rng) -> u64 {
    match below(r, 8) {
        0 => 2 + r.next() % 40,
        1 => 50 + r.next() % 300,
        _ => AMPLE_MS,
    }
}

/// Writes, flushes, reads of one thread.
fn steps(r: &mut Rng, mut bytes_left: usize) -> Vec<Step> {
    let count = 2 + below(r, 14);
    let flushes = *pick(r, &[90, 50, 15]);
    let mut steps = Vec::new();
    for _ in 0..count {
        let len: usize = match below(r, 10) {
            0..=3 => 1 + below(r, 100),
            4..=6 => 1 + below(r, 1500),
            7 => *pick(r, &[511, 512, 513, 1024, 4096]),
            8 => 1 + below(r, 20_000),
            _ => 1 + below(r, 100_000),
        };
        let len = len.min(bytes_left);
        bytes_left -= len;
        steps.push(Step::Write { len, limit_ms: limit(r) });
        if chance(r, flushes) {
            let mode = SyncMode {
                sync: chance(r, 20),
                update_length: chance(r, 10),
                end_block: chance(r, 5),
            };
            steps.push(Step::Flush { mode, limit_ms: limit(r) });
        }
        match below(r, 20) {
            0 => steps.push(Step::Read),
            1 => steps.push(Step::Sleep(millis(r, 1, 15))),
            _ => {}
        }
    }
    steps
}

fn action(r: &mut Rng) -> Action {
    let position = below(r, 3);
    match below(r, 20) {
        0 => Action::Kill { position, restart_after: None },
        1 => Action::Kill { position, restart_after: Some(millis(r, 1, 300)) },
        2 if chance(r, 50) => Action::Pause { position, time: millis(r, 1, 2500) },
        2 => Action::Pause { position, time: millis(r, 1, 100) },
        3 => Action::Restart { position, down: millis(r, 1, 400) },
        4 => Action::DropConnections { position },
        5 => Action::Failover,
        6 => Action::DropNameNodeConnections,
        7 => Action::PauseNameNodes(millis(r, 1, 300)),
        8 if chance(r, 50) => Action::Steal,
        8..=10 => rpc_action(r),
        _ => {
            let (site, fault) = node_fault(r);
            let times = if chance(r, 85) { 1 } else { 1 + r.next() % 4 };
            Action::Rule { position, site, fault, skip: r.next() % 6, times }
        }
    }
}

fn rpc_action(r: &mut Rng) -> Action {
    let method = pick(
        r,
        &[
            "addBlock",
            "complete",
            "fsync",
            "updateBlockForPipeline",
            "updatePipeline",
            "getAdditionalDatanode",
            "abandonBlock",
            "getBlockLocations",
        ],
    );
    let fault = match below(r, 5) {
        0 => Fault::Close,
        1 | 2 => Fault::CloseAfter,
        3 => Fault::Delay(millis(r, 1, 150)),
        _ => Fault::DelayAfter(millis(r, 1, 150)),
    };
    Action::Rpc { method, fault, skip: r.next() % 3, times: 1 + r.next() % 3 }
}

fn node_fault(r: &mut Rng) -> (Site, Fault) {
    match below(r, 6) {
        0 => {
            let fault = match below(r, 6) {
                0 => Fault::Close,
                1 => Fault::Delay(millis(r, 1, 200)),
                2 => Fault::Refuse { status: Status::Error, message: "chaos".to_owned() },
                3 => Fault::access_token(),
                4 => Fault::BadLink(below(r, 3)),
                _ => Fault::CutAfter { received: Some(r.next() % 5000), sent: None },
            };
            (Site::Op(Op::Write), fault)
        }
        1 => {
            let fault = if chance(r, 50) {
                Fault::Close
            } else {
                Fault::Refuse { status: Status::Error, message: "chaos".to_owned() }
            };
            (Site::Op(Op::Transfer), fault)
        }
        2 | 3 => {
            let fault = match below(r, 8) {
                0 => Fault::Close,
                1 => Fault::Delay(millis(r, 1, 200)),
                2 => Fault::CorruptData(below(r, 5000)),
                3 => Fault::CorruptChecksum,
                4 => Fault::DiskFull,
                5 => Fault::KillNode,
                6 => Fault::CutAfter { received: Some(r.next() % 3000), sent: None },
                _ => Fault::RestartNode { down: millis(r, 1, 300) },
            };
            (Site::PacketReceived, fault)
        }
        _ => {
            let fault = match below(r, 11) {
                0 => Fault::Close,
                1 => Fault::Delay(millis(r, 1, 200)),
                2 => Fault::LoseAck,
                3 => Fault::RepeatAck,
                4 => Fault::AckSeqno(i64::try_from(r.next() % 40).unwrap_or(0)),
                5 => Fault::AckStatus { index: below(r, 3), status: Status::Error },
                6 => Fault::AckFlag(3 << 5),
                7 => Fault::AckFlag(2 << 7),
                8 => Fault::OobRestart,
                9 => Fault::CutAfter { received: None, sent: Some(r.next() % 60) },
                _ => Fault::KillNode,
            };
            (Site::Ack, fault)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_always_the_same_schedule() {
        for seed in 0..200 {
            let (a, b) = (Schedule::new(seed), Schedule::new(seed));
            assert_eq!(format!("{a:?}"), format!("{b:?}"));
            assert_eq!(a.block_size % u64::from(a.bytes_per_checksum), 0);
        }
        assert_ne!(format!("{:?}", Schedule::new(1)), format!("{:?}", Schedule::new(2)));
    }

    #[test]
    fn every_kind_of_trouble_occurs() {
        let all = (0..3000).map(Schedule::new).fold(String::new(), |mut all, s| {
            for action in s.actions() {
                all += &format!("{action:?}\n");
            }
            all
        });
        for kind in [
            "Kill ",
            "Pause ",
            "Restart ",
            "DropConnections",
            "Failover",
            "DropNameNode",
            "PauseNameNodes",
            "Steal",
            "CorruptData",
            "DiskFull",
            "LoseAck",
            "RepeatAck",
            "OobRestart",
            "RestartNode",
            "CutAfter",
            "CloseAfter",
            "KillNode",
            "AckStatus",
        ] {
            assert!(all.contains(kind), "{kind}");
        }
        assert!((0..300).map(Schedule::new).filter(Schedule::is_mild).count() > 20);
        let all = (0..300).map(Schedule::new).fold(String::new(), |all, s| all + &format!("{s:?}"));
        for kind in ["WriteAtOnce", "Begin", "Wait", "Poll", "Background", "prepared: true"] {
            assert!(all.contains(kind), "{kind}");
        }
    }
}
