//! A lane runs one schedule after the other on a cluster of its own.
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use dfs::checksum::ChecksumType;
use dfs::client::file_system::{CreateOptions, FileSystem};
use dfs::conf::Config;
use dfs::error::{Error, Status};
use dfs::time::Deadline;
use dfs::write::OutputStream;
use parking_lot::Mutex;

use super::check::{Promise, check_file};
use super::run::Counts;
use super::schedule::{AMPLE_MS, End, SIZES, Schedule};
use super::workload::{Findings, Work, distinct};
use crate::data;
use crate::minidfs::MiniDfs;

/// `dfs.client.socket-timeout` on both sides, and what each hop adds.
const SOCKET: Duration = Duration::from_millis(500);
const HOP: Duration = Duration::from_millis(200);
/// How long a healed cluster may take to be whole.
const HEAL_LIMIT: Duration = Duration::from_secs(20);

/// A cluster and its clients.
pub struct Lane {
    mini: MiniDfs,
    /// Steals leases and reads.
    thief: FileSystem,
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

impl Lane {
    pub(super) fn start(class: usize, seed: u64) -> Result<Self, String> {
        let size = SIZES.get(class).copied().unwrap_or(3);
        let builder = MiniDfs::builder().datanodes(size).ha(true).seed(seed).configure(|c| {
            c.socket_timeout = SOCKET;
            c.hop_timeout = HOP;
            c.idle_timeout = Some(Duration::from_secs(20));
            c.checksum_error_delay = Duration::from_millis(20);
            c.oob_close_delay = Duration::from_millis(20);
            c.command_delay = Duration::from_millis(1);
            c.min_block_size = 128;
            c.min_length_wait = Duration::from_millis(200);
        });
        let mini = builder.start().map_err(text)?;
        let thief = connect(&mini, &[])?;
        Ok(Self { mini, thief })
    }

    /// Makes everything work again; an error means that the cluster is beyond repair.
    fn heal(&self) -> Result<(), String> {
        self.mini.faults().clear();
        self.mini.pause_namenodes(false);
        let started = Instant::now();
        loop {
            let mut whole = true;
            for node in self.mini.datanodes() {
                node.resume();
                if node.is_changing() {
                    whole = false;
                } else if !node.is_running() {
                    whole = false;
                    let _again = node.restart();
                }
            }
            if whole {
                return Ok(());
            }
            if started.elapsed() > HEAL_LIMIT {
                return Err("the cluster does not heal".to_owned());
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Runs a schedule and checks the property.
    ///
    /// # Errors
    /// When the cluster is unfit for use; the schedule then counts as failed.
    pub(super) fn run(&self, schedule: &Schedule) -> Result<(Vec<String>, Counts), String> {
        let findings = Findings::default();
        let settings: Vec<_> = schedule.settings.iter().map(|(k, v)| (*k, v.as_str())).collect();
        let fs = connect(&self.mini, &settings)?;
        let path = format!("/chaos/{}", schedule.seed);
        let file = open(&fs, &path, schedule).map_err(text)?;
        let work = Work {
            schedule,
            mini: &self.mini,
            thief: &self.thief,
            path: &path,
            file: &file,
            write_turn: Mutex::new(()),
            acked: AtomicU64::new(schedule.before.unwrap_or(0) as u64),
            begun: AtomicU64::new(0),
            told: AtomicU64::new(0),
            findings: &findings,
        };
        if schedule.prepared {
            file.prepare(Deadline::after_ms(AMPLE_MS)).map_err(text)?;
        }
        work.run();
        let closed = self.end(schedule, &file, &findings)?;
        if closed {
            work.poll("poll after close");
            let (begun, told) = (&work.begun, &work.told);
            let (begun, told) = (begun.load(Ordering::Relaxed), told.load(Ordering::Relaxed));
            if begun != told {
                findings.violation(format!("{told} of {begun} flushes completed by the close"));
            }
        }
        let acked = work.acked.load(Ordering::Relaxed);
        // What DataNodes acknowledged outside of a flush is not promised to outlive a stolen
        // lease: a recovery that comes before they have replicas throws the block away, in Hadoop
        // too.
        let outside = if schedule.steals() { 0 } else { file.durable() };
        let promise =
            Promise { seed: schedule.seed, least: acked.max(outside), most: file.pos(), closed };
        drop(file);
        check_file(&self.mini, &self.thief, &path, promise, &findings);
        check_leaks(&fs, &findings);
        let stats = fs.stats();
        fs.close();
        let meta = self.thief.metadata().map_err(text)?;
        meta.delete(&path, false, Deadline::after_ms(AMPLE_MS)).map_err(text)?;
        let broken = findings.broken.lock().take();
        // A busy machine adds time-outs of its own.
        let single = schedule.is_mild() && stats.pipeline_faults <= 2;
        if let Some(error) = broken.as_ref().filter(|_| single) {
            findings.violation(format!("one fault broke the file: {error}"));
        }
        let counts = Counts {
            recoveries: stats.pipeline_recoveries,
            faults: stats.pipeline_faults,
            late_ms: findings.late_ms.into_inner(),
            reads: findings.reads.into_inner(),
            broken: u64::from(broken.is_some()),
            bytes: promise.most,
        };
        Ok((distinct(findings.violations.into_inner()), counts))
    }

    /// Closes or abandons the file, and heals the cluster; true when the file is closed.
    fn end(
        &self,
        schedule: &Schedule,
        file: &OutputStream,
        findings: &Findings,
    ) -> Result<bool, String> {
        let first = match schedule.end {
            End::Close { limit_ms } => Some(findings.timed("close", limit_ms, |d| file.close(d))),
            End::Background { limit_ms } => Some(close_in_background(file, limit_ms, findings)),
            End::Abandon => None,
        };
        if let Some(first) = first {
            match first {
                Ok(()) => {
                    self.heal()?;
                    return Ok(true);
                }
                Err(error) => {
                    if findings.take_error("close", error) {
                        check_broken(file, findings);
                        self.heal()?;
                        return Ok(false);
                    }
                }
            }
        }
        self.heal()?;
        if schedule.end == End::Abandon {
            return Ok(false);
        }
        match findings.timed("close after healing", AMPLE_MS, |d| file.close(d)) {
            Ok(()) => Ok(true),
            Err(error) => {
                let status = error.status();
                if !findings.take_error("close after healing", error.clone()) {
                    findings.violation(format!("close fails on a whole cluster: {error:?}"));
                }
                debug_assert_ne!(status, Status::Internal);
                Ok(false)
            }
        }
    }
}

/// Has a worker close the file, and asks until that is done.
fn close_in_background(
    file: &OutputStream,
    limit_ms: u64,
    findings: &Findings,
) -> dfs::error::Result<()> {
    findings.timed("beginning a close", 1, |_| file.close_begin(limit_ms))?;
    // The workers are shared by all schedules, so a close may wait for its turn.
    let until = Instant::now() + Duration::from_millis(limit_ms + 2 * AMPLE_MS);
    loop {
        match findings.timed("polling a close", 1, |_| file.close_poll()) {
            Ok(true) => return Ok(()),
            Ok(false) if Instant::now() > until => {
                findings.violation("a close in the background does not end");
                return file.close(Deadline::after_ms(AMPLE_MS));
            }
            Ok(false) => std::thread::sleep(Duration::from_millis(2)),
            Err(error) => return Err(error),
        }
    }
}

/// A broken file returns its error for every call.
fn check_broken(file: &OutputStream, findings: &Findings) {
    let limit = Deadline::after_ms(AMPLE_MS);
    let again: [dfs::error::Result<()>; 3] =
        [file.write(b"more", limit), file.flush(Default::default(), limit), file.close(limit)];
    for result in again {
        match result {
            Ok(()) => findings.violation("a call on a broken file succeeded"),
            Err(error) => {
                findings.take_error("a call on a broken file", error);
            }
        }
    }
}

fn check_leaks(fs: &FileSystem, findings: &Findings) {
    let started = Instant::now();
    loop {
        let stats = fs.stats();
        // The keeper may hold a dropped stream for the moment of a visit.
        if stats.pool.in_use_bytes == 0 && stats.open_writers == 0 {
            return;
        }
        if started.elapsed() > Duration::from_secs(5) {
            findings.violation(format!(
                "{} bytes of buffers and {} leases are left",
                stats.pool.in_use_bytes, stats.open_writers
            ));
            return;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn open(fs: &FileSystem, path: &str, schedule: &Schedule) -> Result<OutputStream, Error> {
    let limit = Deadline::after_ms(AMPLE_MS);
    let options = CreateOptions {
        overwrite: true,
        create_parents: true,
        replication: Some(schedule.replication),
        block_size: Some(schedule.block_size),
        bytes_per_checksum: Some(schedule.bytes_per_checksum),
        packet_bytes: Some(schedule.packet_bytes),
        checksum: Some(if schedule.crc32 { ChecksumType::Crc32 } else { ChecksumType::Crc32c }),
        sync_block: schedule.sync_block,
        fail_fast: schedule.fail_fast,
        min_replicas: schedule.min_replicas,
        ..CreateOptions::default()
    };
    let file = fs.create(path, &options, limit)?;
    let Some(before) = schedule.before else { return Ok(file) };
    file.write(&data::bytes(schedule.seed, 0, before), limit)?;
    file.close(limit)?;
    fs.append(path, schedule.seed.is_multiple_of(2), &options, limit)
}

/// A client with short limits.
fn connect(mini: &MiniDfs, settings: &[(&str, &str)]) -> Result<FileSystem, String> {
    let address = |i| mini.namenode_addr(i).map(|a| a.to_string()).unwrap_or_default();
    let (first, second) = (address(0), address(1));
    let (socket, hop) = (SOCKET.as_millis().to_string(), HOP.as_millis().to_string());
    let mut config = Config::new();
    let fixed = [
        ("dfs.nameservices", "chaos"),
        ("dfs.ha.namenodes.chaos", "a,b"),
        ("dfs.namenode.rpc-address.chaos.a", &first),
        ("dfs.namenode.rpc-address.chaos.b", &second),
        (
            "dfs.client.failover.proxy.provider.chaos",
            "org.apache.hadoop.hdfs.server.namenode.ha.ConfiguredFailoverProxyProvider",
        ),
        ("dfs.client.failover.sleep.base.millis", "3"),
        ("dfs.client.failover.sleep.max.millis", "30"),
        ("dfs.client.socket-timeout", &socket),
        ("libdfs.pipeline.hop.timeout.ms", &hop),
        ("dfs.client.datanode-restart.timeout", "250ms"),
        ("dfs.client.congestion.backoff.mean.time", "4"),
        ("dfs.client.congestion.backoff.max.time", "20"),
        // A block whose only replica died before its report keeps addBlock waiting for ever.
        ("dfs.client.block.write.locateFollowingBlock.initial.delay.ms", "60"),
        ("dfs.client.retry.window.base", "20"),
        ("dfs.client.retry.interval-ms.get-last-block-length", "20"),
    ];
    for (key, value) in fixed.iter().chain(settings) {
        config.set(key, value);
    }
    FileSystem::connect(&config, Some("hdfs://chaos"), Deadline::after_ms(AMPLE_MS)).map_err(text)
}
