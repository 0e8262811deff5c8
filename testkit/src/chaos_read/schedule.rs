//! What happens in one schedule, made from its seed.
use std::time::Duration;

use dfs::proto::hdfs::Status;

use crate::minidfs::rng::Rng;
use crate::minidfs::{BadHeader, Fault, Op, Site};

/// DataNodes of a cluster, all with all blocks.
pub(super) const NODES: usize = 3;
/// Longest file, bytes.
const LENGTH_MAX: usize = 2 << 20;
/// The limit of calls that have time enough, ms.
pub(super) const AMPLE_MS: u64 = 30_000;

/// Damage of a replica on the disk of its DataNode.
#[derive(Clone, Copy, Debug)]
pub(super) enum Damage {
    /// A bit of the byte at this part of 1000 of the block.
    Data(u64),
    /// A bit of the checksum of the chunk at this part of 1000.
    Checksum(u64),
    /// The header of the meta file.
    MetaHeader,
    /// The meta file ends at this part of 1000.
    MetaCut(u64),
    /// The replica is shorter than the NameNode thinks.
    Short(u64),
    /// The replica is gone, which the NameNode does not know: a stale location.
    Gone,
    /// The replica is of an older generation.
    Stale,
}

/// Something that goes wrong.
#[derive(Clone, Debug)]
pub(super) enum Action {
    Rule { node: usize, site: Site, fault: Fault, skip: u64, times: u64 },
    Rpc { fault: Fault, skip: u64, times: u64 },
    Kill { node: usize, restart_after: Option<Duration> },
    Pause { node: usize, time: Option<Duration> },
    DropConnections { node: usize },
    Damage { node: usize, block: usize, damage: Damage },
}

/// What a thread does next. Places are parts of 1000 of the file's length, to hit blocks of any
/// file, with some bytes more.
#[derive(Clone, Debug)]
pub(super) enum Step {
    /// At the cursor; the first thread only.
    Read {
        len: usize,
        limit_ms: u64,
    },
    /// The first thread only.
    Seek {
        place: u64,
    },
    Pread {
        place: u64,
        more: u64,
        len: usize,
        limit_ms: u64,
    },
    Preadv {
        ranges: Vec<(u64, usize)>,
        limit_ms: u64,
    },
    Refresh,
    Unbuffer,
    /// Goes on with a new handle; not the first thread.
    Reopen,
    /// Writes and flushes some bytes more; the first thread, if the file is open for writing.
    Append {
        len: usize,
    },
    Act(Action),
    Sleep(Duration),
}

/// One schedule.
#[derive(Clone, Debug)]
pub struct Schedule {
    pub(super) seed: u64,
    pub(super) settings: Vec<(&'static str, String)>,
    pub(super) length: usize,
    pub(super) block_size: u64,
    pub(super) bytes_per_checksum: u32,
    pub(super) crc32: bool,
    /// The file is being written while it is read.
    pub(super) tail: bool,
    /// The DataNode that nothing happens to.
    pub(super) safe: Option<usize>,
    pub(super) threads: Vec<Vec<Step>>,
}

fn pick<'a, T>(r: &mut Rng, items: &'a [T]) -> &'a T {
    &items[r.below(items.len())]
}

fn chance(r: &mut Rng, percent: u64) -> bool {
    r.next() % 100 < percent
}

fn millis(r: &mut Rng, low: u64, high: u64) -> Duration {
    Duration::from_millis(low + r.next() % (high - low))
}

impl Schedule {
    /// The schedule of a seed.
    pub fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed.wrapping_mul(0xA24B_AED4_963E_E407) ^ 0x4EAD);
        let r = &mut rng;
        let bytes_per_checksum = *pick(r, &[512, 512, 512, 128, 4096]);
        let block_size = u64::from(bytes_per_checksum) * *pick(r, &[1, 4, 16, 64, 256, 512]);
        let length = match r.below(8) {
            0 => 1 + r.below(2000),
            _ => 1 + r.below(usize::try_from(block_size * 4).unwrap_or(LENGTH_MAX)),
        };
        let length = length.min(LENGTH_MAX);
        let tail = chance(r, 15);
        let safe = chance(r, 85).then(|| r.below(NODES));
        let trouble = r.below(6);
        let count = *pick(r, &[1, 1, 2, 3]);
        let mut threads: Vec<Vec<Step>> = (0..count).map(|i| steps(r, i == 0, tail)).collect();
        for _ in 0..trouble {
            let action = action(r, safe, tail);
            let first = &mut threads[0];
            let at = r.below(first.len() + 1);
            first.insert(at, Step::Act(action));
        }
        let crc32 = chance(r, 20);
        Self {
            seed,
            settings: settings(r),
            length,
            block_size,
            bytes_per_checksum,
            crc32,
            tail,
            safe,
            threads,
        }
    }

    #[cfg(test)]
    fn actions(&self) -> impl Iterator<Item = &Action> {
        self.threads.iter().flatten().filter_map(|step| match step {
            Step::Act(action) => Some(action),
            _ => None,
        })
    }
}

fn settings(r: &mut Rng) -> Vec<(&'static str, String)> {
    let mut set = vec![
        ("dfs.client.socket-timeout", (*pick(r, &["150", "300"])).to_owned()),
        ("dfs.client.retry.window.base", (*pick(r, &["1", "10"])).to_owned()),
        ("libdfs.datanode.dead.ms", (*pick(r, &["0", "20", "1000", "10000"])).to_owned()),
        ("dfs.client.socketcache.capacity", (*pick(r, &["512", "512", "2", "0"])).to_owned()),
        ("dfs.client.cached.conn.retry", (*pick(r, &["3", "3", "1", "0"])).to_owned()),
        ("dfs.client.read.prefetch.size", (*pick(r, &["1", "10000", "1000000"])).to_owned()),
    ];
    if chance(r, 50) {
        set.push(("dfs.client.hedged.read.threadpool.size", (*pick(r, &["1", "8"])).to_owned()));
        let threshold = *pick(r, &["1", "10", "60"]);
        set.push(("dfs.client.hedged.read.threshold.millis", threshold.to_owned()));
    }
    set
}

fn limit(r: &mut Rng) -> u64 {
    match r.below(10) {
        0 => 2 + r.next() % 40,
        1 => 50 + r.next() % 300,
        _ => AMPLE_MS,
    }
}

fn length(r: &mut Rng) -> usize {
    match r.below(8) {
        0 => r.below(3),
        1..=3 => 1 + r.below(1500),
        4 => *pick(r, &[511, 512, 513, 4096, 65_536]),
        5 | 6 => 1 + r.below(30_000),
        _ => 1 + r.below(400_000),
    }
}

fn steps(r: &mut Rng, first: bool, tail: bool) -> Vec<Step> {
    let count = 2 + r.below(12);
    let mut steps = Vec::new();
    for _ in 0..count {
        if tail && first && chance(r, 60) {
            steps.push(Step::Append { len: 1 + r.below(4000) });
        }
        if tail && chance(r, 50) {
            steps.push(Step::Refresh);
        }
        let place = r.next() % 1010;
        steps.push(match r.below(20) {
            0..=6 if first => Step::Read { len: length(r), limit_ms: limit(r) },
            7 | 8 if first => Step::Seek { place: place.min(1000) },
            9..=11 => {
                let ranges = (0..1 + r.below(12)).map(|_| (r.next() % 1010, length(r) / 8));
                Step::Preadv { ranges: ranges.collect(), limit_ms: limit(r) }
            }
            12 => Step::Unbuffer,
            13 if !first => Step::Reopen,
            14 => Step::Sleep(millis(r, 1, 30)),
            _ => {
                let more = r.next() % 700;
                Step::Pread { place, more, len: length(r), limit_ms: limit(r) }
            }
        });
    }
    steps
}

/// A DataNode that may suffer.
fn victim(r: &mut Rng, safe: Option<usize>) -> usize {
    let node = r.below(NODES);
    if Some(node) == safe { (node + 1) % NODES } else { node }
}

fn action(r: &mut Rng, safe: Option<usize>, tail: bool) -> Action {
    let node = victim(r, safe);
    // A writer has its own schedules; here it must get through.
    if tail {
        return read_rule(r, node, false);
    }
    match r.below(20) {
        0 => Action::Kill { node, restart_after: None },
        1 => Action::Kill { node, restart_after: Some(millis(r, 1, 200)) },
        2 => Action::Pause { node, time: None },
        3 => Action::Pause { node, time: Some(millis(r, 1, 400)) },
        4 => Action::DropConnections { node: r.below(NODES) },
        5 => {
            let fault = match r.below(2) {
                0 => Fault::Delay(millis(r, 1, 100)),
                _ => Fault::DelayAfter(millis(r, 1, 100)),
            };
            Action::Rpc { fault, skip: r.next() % 2, times: 1 + r.next() % 2 }
        }
        6..=10 => Action::Damage { node, block: r.below(5), damage: damage(r) },
        _ => read_rule(r, node, true),
    }
}

fn damage(r: &mut Rng) -> Damage {
    let part = r.next() % 1000;
    match r.below(10) {
        0..=2 => Damage::Data(part),
        3 | 4 => Damage::Checksum(part),
        5 => Damage::MetaHeader,
        6 => Damage::MetaCut(part),
        7 => Damage::Short(part),
        8 => Damage::Gone,
        _ => Damage::Stale,
    }
}

fn read_rule(r: &mut Rng, node: usize, corrupts: bool) -> Action {
    let header = [
        BadHeader::Oversized,
        BadHeader::Negative,
        BadHeader::Garbage,
        BadHeader::Seqno,
        BadHeader::Offset,
        BadHeader::DataLen,
    ];
    let (site, fault) = match r.below(16) {
        0 => (Site::Accept, Fault::Close),
        1 => (Site::Accept, Fault::CutAfter { received: None, sent: Some(r.next() % 70_000) }),
        2 => (Site::Accept, Fault::Delay(millis(r, 1, 300))),
        3 => (Site::Op(Op::Read), Fault::Close),
        4 => (Site::Op(Op::Read), Fault::Delay(millis(r, 1, 300))),
        5 => {
            let status = *pick(r, &[Status::Error, Status::ErrorInvalid, Status::ErrorUnsupported]);
            (Site::Op(Op::Read), Fault::Refuse { status, message: "chaos".to_owned() })
        }
        6 => (Site::Op(Op::Read), Fault::access_token()),
        7 => {
            let sent = Some(r.next() % 3000);
            (Site::Op(Op::Read), Fault::CutAfter { received: None, sent })
        }
        8 => (Site::PacketSent, Fault::Close),
        9 => (Site::PacketSent, Fault::Delay(millis(r, 1, 300))),
        10 => (Site::PacketSent, Fault::EndEarly),
        11 | 12 => (Site::PacketSent, Fault::ReadHeader(*pick(r, &header))),
        13 if corrupts => (Site::PacketSent, Fault::CorruptData(r.below(70_000))),
        14 if corrupts => (Site::PacketSent, Fault::CorruptChecksum),
        15 if corrupts => (Site::PacketSent, pick(r, &[Fault::KillNode, Fault::PauseNode]).clone()),
        _ => (Site::Op(Op::Read), Fault::Close),
    };
    let times = if chance(r, 60) { 1 } else { 1 + r.next() % 20 };
    Action::Rule { node, site, fault, skip: r.next() % 5, times }
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
    fn every_kind_of_trouble_occurs_and_spares_the_safe_node() {
        let mut all = String::new();
        for schedule in (0..3000).map(Schedule::new) {
            for action in schedule.actions() {
                all += &format!("{action:?}\n");
                let node = match action {
                    Action::Rule { node, .. }
                    | Action::Kill { node, .. }
                    | Action::Pause { node, .. }
                    | Action::Damage { node, .. } => Some(*node),
                    Action::DropConnections { .. } | Action::Rpc { .. } => None,
                };
                assert!(node.is_none() || node != schedule.safe, "{schedule:?}");
            }
        }
        for kind in [
            "Kill ",
            "Pause ",
            "DropConnections",
            "Rpc",
            "Data(",
            "Checksum(",
            "MetaHeader",
            "MetaCut",
            "Short",
            "Gone",
            "Stale",
            "CutAfter",
            "Refuse",
            "ErrorAccessToken",
            "EndEarly",
            "ReadHeader",
            "CorruptData",
            "CorruptChecksum",
            "KillNode",
            "PauseNode",
            "Delay",
        ] {
            assert!(all.contains(kind), "{kind}");
        }
    }
}
