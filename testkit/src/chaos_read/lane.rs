//! A lane runs one schedule after the other on a cluster of its own.
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use dfs::checksum::ChecksumType;
use dfs::client::file_system::{CreateOptions, FileSystem};
use dfs::conf::Config;
use dfs::read::ReadOptions;
use dfs::time::Deadline;
use dfs::write::{OutputStream, SyncMode};

use super::run::Counts;
use super::schedule::{AMPLE_MS, NODES, Schedule};
use super::workload::{Findings, Work};
use crate::data;
use crate::minidfs::MiniDfs;

/// How long a cluster may take to be whole, and resources to come back.
const SETTLE_LIMIT: Duration = Duration::from_secs(20);

/// A cluster and its clients.
pub struct Lane {
    mini: MiniDfs,
    /// Makes and removes the files.
    owner: FileSystem,
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

fn ample() -> Deadline {
    Deadline::after_ms(AMPLE_MS)
}

fn connect(mini: &MiniDfs, settings: &[(&'static str, String)]) -> Result<FileSystem, String> {
    let mut config = Config::new();
    for (key, value) in settings {
        config.set(key, value);
    }
    FileSystem::connect(&config, Some(&mini.uri()), ample()).map_err(text)
}

fn wait_for(what: &str, done: impl Fn() -> bool) -> Result<(), String> {
    let started = Instant::now();
    while !done() {
        if started.elapsed() > SETTLE_LIMIT {
            return Err(what.to_owned());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

impl Lane {
    pub(super) fn start(seed: u64) -> Result<Self, String> {
        let builder = MiniDfs::builder().datanodes(NODES).seed(seed).configure(|c| {
            c.socket_timeout = Duration::from_secs(20);
            c.idle_timeout = Some(Duration::from_secs(20));
            c.min_block_size = 128;
            c.min_length_wait = Duration::from_millis(200);
            // Some connections go stale before the client expects it.
            c.keepalive = Duration::from_millis(if seed.is_multiple_of(3) { 30 } else { 4000 });
            c.read_packet_bytes = if seed.is_multiple_of(2) { 64 * 1024 } else { 4096 };
        });
        let mini = builder.start().map_err(text)?;
        let owner = connect(&mini, &[])?;
        Ok(Self { mini, owner })
    }

    /// Makes everything work again, except for what is on the disks.
    fn heal(&self) -> Result<(), String> {
        self.mini.faults().clear();
        wait_for("the cluster does not heal", || {
            let mut whole = true;
            for node in self.mini.datanodes() {
                node.resume();
                let well = !node.is_changing() && (node.is_running() || node.restart().is_ok());
                whole &= well;
            }
            whole
        })
    }

    fn create(&self, path: &str, schedule: &Schedule) -> Result<OutputStream, String> {
        let options = CreateOptions {
            create_parents: true,
            replication: Some(NODES as u32),
            block_size: Some(schedule.block_size),
            bytes_per_checksum: Some(schedule.bytes_per_checksum),
            checksum: schedule.crc32.then_some(ChecksumType::Crc32),
            ..CreateOptions::default()
        };
        let file = self.owner.create(path, &options, ample()).map_err(text)?;
        let bytes = data::bytes(schedule.seed, 0, schedule.length);
        file.write(&bytes, ample()).map_err(text)?;
        if schedule.tail {
            file.flush(SyncMode::default(), ample()).map_err(text)?;
            return Ok(file);
        }
        file.close(ample()).map_err(text)?;
        let meta = self.owner.metadata().map_err(text)?;
        // One replica of each block is enough to close, but here all count.
        wait_for("replicas are not reported", || {
            let blocks = meta.block_locations(path, 0, u64::MAX >> 1, ample());
            blocks.is_ok_and(|blocks| blocks.iter().all(|b| b.replicas.len() == NODES))
        })?;
        Ok(file)
    }

    /// Runs a schedule and checks the property.
    ///
    /// # Errors
    /// When the cluster is unfit for use; the schedule then counts as failed.
    pub(super) fn run(&self, schedule: &Schedule) -> Result<(Vec<String>, Counts), String> {
        let findings = Findings::default();
        let path = format!("/chaos-read/{}", schedule.seed);
        let file = self.create(&path, schedule)?;
        let fs = connect(&self.mini, &schedule.settings)?;
        let shared = fs.open(&path, ReadOptions::default(), ample()).map_err(text)?;
        let length = AtomicU64::new(schedule.length as u64);
        let work = Work {
            schedule,
            mini: &self.mini,
            fs: &fs,
            path: &path,
            shared: &shared,
            writer: schedule.tail.then_some(&file),
            visible: AtomicU64::new(length.load(Ordering::Relaxed)),
            written: length,
            findings: &findings,
        };
        work.run();
        self.heal()?;
        self.read_back(&work);
        drop(shared);
        let stats = &fs.read_context().stats;
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (failovers, hedged) = (get(&stats.failovers), get(&stats.hedged_reads));
        let checksum_failures = get(&stats.checksum_failures);
        self.check_leaks(fs, schedule.tail, &findings);
        if schedule.tail {
            file.close(ample()).map_err(text)?;
        }
        drop(file);
        let meta = self.owner.metadata().map_err(text)?;
        meta.delete(&path, false, ample()).map_err(text)?;
        let violations = findings.violations.into_inner();
        let counts = Counts {
            calls: findings.calls.into_inner(),
            errors: findings.errors.into_inner(),
            bytes: findings.bytes.into_inner(),
            failovers,
            hedged,
            checksum_failures,
            late_ms: findings.late_ms.into_inner(),
        };
        Ok((violations, counts))
    }

    /// After the faults, old and new handles read all of it: in any case nothing wrong.
    fn read_back(&self, work: &Work<'_>) {
        let fresh = work.open();
        for stream in fresh.iter().chain([work.shared]) {
            work.pread(stream, 0, usize::try_from(stream.len()).unwrap_or(0), AMPLE_MS);
            if let Err(e) = stream.seek(0) {
                work.findings.violation(format!("seek: {e}"));
            }
            // Calls of odd sizes, until the end or an error that is allowed.
            while stream.tell() < stream.len() {
                let before = stream.tell();
                work.read(stream, 7777, AMPLE_MS);
                if stream.tell() == before {
                    break;
                }
            }
        }
    }

    /// Buffers come back when the handles are gone, connections with the file system.
    fn check_leaks(&self, fs: FileSystem, tail: bool, findings: &Findings) {
        let used = fs.stats().pool.in_use_bytes;
        if used != 0 {
            findings.violation(format!("{used} bytes of buffers are still in use"));
        }
        let stats = fs.read_context().peers.stats();
        let capacity = fs.config().socketcache_capacity as u64;
        if stats.idle > capacity {
            findings.violation(format!("{} idle connections, not {capacity}", stats.idle));
        }
        fs.close();
        drop(fs);
        let open = || self.mini.datanodes().iter().map(|n| n.open_connections()).sum::<usize>();
        // The writer of a tail keeps its pipeline: each hop counts at both of its DataNodes.
        let pipeline = if tail { 2 * NODES - 1 } else { 0 };
        if wait_for("", || open() <= pipeline).is_err() {
            findings.violation(format!("{} connections stay open", open()));
        }
    }
}
