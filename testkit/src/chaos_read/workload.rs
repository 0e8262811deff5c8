//! The threads of a schedule, and what each of their calls must bring.
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::Scope;
use std::time::Instant;

use dfs::client::file_system::FileSystem;
use dfs::error::{Error, Result, Status};
use dfs::read::{InputStream, ReadOptions};
use dfs::time::Deadline;
use dfs::write::{OutputStream, SyncMode};
use parking_lot::Mutex;

use super::schedule::{AMPLE_MS, Action, Damage, Schedule, Step};
use crate::data;
use crate::minidfs::{MiniDfs, Rule};

/// More than this behind its limit, and a call counts as hanging, ms. A busy machine needs some.
const LATE_MS_MAX: u64 = 10_000;

/// What the threads found.
#[derive(Default)]
pub(super) struct Findings {
    pub(super) violations: Mutex<Vec<String>>,
    pub(super) calls: AtomicU64,
    pub(super) errors: AtomicU64,
    pub(super) bytes: AtomicU64,
    pub(super) late_ms: AtomicU64,
}

impl Findings {
    pub(super) fn violation(&self, text: String) {
        self.violations.lock().push(text);
    }
}

/// One schedule under way.
pub(super) struct Work<'a> {
    pub(super) schedule: &'a Schedule,
    pub(super) mini: &'a MiniDfs,
    pub(super) fs: &'a FileSystem,
    pub(super) path: &'a str,
    /// The handle that all threads share.
    pub(super) shared: &'a InputStream,
    pub(super) writer: Option<&'a OutputStream>,
    /// Bytes that a flush has acknowledged, and those that were written at all.
    pub(super) visible: AtomicU64,
    pub(super) written: AtomicU64,
    pub(super) findings: &'a Findings,
}

impl Work<'_> {
    /// Runs all threads to their ends.
    pub(super) fn run(&self) {
        std::thread::scope(|scope| {
            for script in self.schedule.threads.iter().skip(1) {
                scope.spawn(move || self.play(scope, script));
            }
            if let Some(script) = self.schedule.threads.first() {
                self.play(scope, script);
            }
        });
    }

    fn play<'s>(&'s self, scope: &'s Scope<'s, '_>, script: &[Step]) {
        let mut own = None;
        for step in script {
            let stream = own.as_ref().unwrap_or(self.shared);
            match step {
                Step::Read { len, limit_ms } => self.read(stream, *len, *limit_ms),
                Step::Seek { place } => {
                    if let Err(e) = stream.seek(stream.len() * place / 1000) {
                        self.findings.violation(format!("seek: {e}"));
                    }
                }
                Step::Pread { place, more, len, limit_ms } => {
                    let at = stream.len() * place / 1000 + more;
                    self.pread(stream, at, *len, *limit_ms);
                }
                Step::Preadv { ranges, limit_ms } => self.preadv(stream, ranges, *limit_ms),
                Step::Refresh => self.refresh(stream),
                Step::Unbuffer => stream.unbuffer(),
                Step::Reopen => own = self.open(),
                Step::Append { len } => self.append(*len),
                Step::Act(action) => self.act(scope, action),
                Step::Sleep(time) => std::thread::sleep(*time),
            }
        }
    }

    /// Runs a call and looks at its time and its error; its value if it succeeded.
    fn call<T>(&self, what: &str, ms: u64, run: impl FnOnce(Deadline) -> Result<T>) -> Option<T> {
        let begin = Instant::now();
        let result = run(Deadline::after_ms(ms));
        let took = u64::try_from(begin.elapsed().as_millis()).unwrap_or(u64::MAX);
        let late = took.saturating_sub(ms);
        self.findings.late_ms.fetch_max(late, Ordering::Relaxed);
        self.findings.calls.fetch_add(1, Ordering::Relaxed);
        if late > LATE_MS_MAX {
            self.findings.violation(format!("{what} returned {late} ms after its limit"));
        }
        match result {
            Ok(value) => Some(value),
            Err(e) => {
                self.findings.errors.fetch_add(1, Ordering::Relaxed);
                if !self.may_fail(&e, ms) {
                    self.findings.violation(format!("{what} failed after {took} ms: {e:?}"));
                }
                None
            }
        }
    }

    /// Calls with time enough must succeed while one DataNode is well.
    fn may_fail(&self, error: &Error, limit_ms: u64) -> bool {
        match error.status() {
            Status::TimedOut => limit_ms < AMPLE_MS || self.schedule.safe.is_none(),
            Status::BlockMissing => self.schedule.safe.is_none(),
            _ => false,
        }
    }

    fn compare(&self, what: &str, at: u64, bytes: &[u8]) {
        self.findings.bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        if let Some(offset) = data::mismatch(self.schedule.seed, at, bytes) {
            let len = bytes.len();
            self.findings.violation(format!("{what} at {at}+{len}: a wrong byte at {offset}"));
        }
    }

    pub(super) fn read(&self, stream: &InputStream, len: usize, limit_ms: u64) {
        let (at, end) = (stream.tell(), stream.len());
        let mut buf = vec![0xEE; len];
        let Some(n) = self.call("read", limit_ms, |d| stream.read(&mut buf, d)) else { return };
        self.compare("read", at, buf.get(..n).unwrap_or_default());
        if n == 0 && len > 0 && at < end {
            self.findings.violation(format!("read: an end at {at} of {end}"));
        }
        if stream.tell() != at + n as u64 {
            self.findings.violation(format!("read moved the cursor to {}", stream.tell()));
        }
    }

    pub(super) fn pread(&self, stream: &InputStream, at: u64, len: usize, limit_ms: u64) {
        let end = stream.len();
        let mut buf = vec![0xEE; len];
        let Some(n) = self.call("pread", limit_ms, |d| stream.pread(at, &mut buf, d)) else {
            return;
        };
        self.check_count("pread", at, len, n, end, stream.len());
        self.compare("pread", at, buf.get(..n).unwrap_or_default());
    }

    /// The end of the file may move while the call runs.
    fn check_count(&self, what: &str, at: u64, len: usize, n: usize, before: u64, after: u64) {
        let least = before.saturating_sub(at).min(len as u64);
        let most = after.saturating_sub(at).min(len as u64);
        if (n as u64) < least || n as u64 > most {
            self.findings
                .violation(format!("{what} at {at}+{len} brought {n} of {least}..={most}"));
        }
    }

    fn preadv(&self, stream: &InputStream, ranges: &[(u64, usize)], limit_ms: u64) {
        let end = stream.len();
        let mut memory: Vec<(u64, Vec<u8>)> =
            ranges.iter().map(|(place, len)| (end * place / 1000, vec![0xEE; *len])).collect();
        let counts = self.call("preadv", limit_ms, |d| {
            let mut ranges: Vec<(u64, &mut [u8])> =
                memory.iter_mut().map(|(at, buf)| (*at, &mut buf[..])).collect();
            stream.preadv(&mut ranges, d)
        });
        for ((at, buf), n) in memory.iter().zip(counts.unwrap_or_default()) {
            self.check_count("preadv", *at, buf.len(), n, end, stream.len());
            self.compare("preadv", *at, buf.get(..n).unwrap_or_default());
        }
    }

    fn refresh(&self, stream: &InputStream) {
        let least = self.visible.load(Ordering::Acquire);
        let Some(len) = self.call("refresh", AMPLE_MS, |d| stream.refresh(d)) else { return };
        let most = self.written.load(Ordering::Acquire);
        if len < least || len > most {
            self.findings.violation(format!("refresh found {len} bytes, not {least} to {most}"));
        }
    }

    pub(super) fn open(&self) -> Option<InputStream> {
        self.call("open", AMPLE_MS, |d| self.fs.open(self.path, ReadOptions::default(), d))
    }

    fn append(&self, len: usize) {
        let Some(writer) = self.writer else { return };
        let at = self.written.fetch_add(len as u64, Ordering::AcqRel);
        let bytes = data::bytes(self.schedule.seed, at, len);
        let limit = Deadline::after_ms(AMPLE_MS);
        let result = writer.write(&bytes, limit);
        let result = result.and_then(|_| writer.flush(SyncMode::default(), limit));
        match result {
            Ok(_) => self.visible.store(at + len as u64, Ordering::Release),
            Err(e) => self.findings.violation(format!("the writer failed: {e}")),
        }
    }

    fn act<'s>(&'s self, scope: &'s Scope<'s, '_>, action: &Action) {
        let node = |index: usize| self.mini.datanode(index);
        match action {
            Action::Rule { node, site, fault, skip, times } => {
                let rule = Rule::new(*site, fault.clone()).on(*node).skip(*skip).times(*times);
                self.mini.faults().add(rule);
            }
            Action::Rpc { fault, skip, times } => {
                let rule = Rule::rpc("getBlockLocations", fault.clone());
                self.mini.faults().add(rule.skip(*skip).times(*times));
            }
            Action::Kill { node: index, restart_after } => {
                let Some(node) = node(*index) else { return };
                node.kill();
                if let Some(time) = *restart_after {
                    scope.spawn(move || {
                        std::thread::sleep(time);
                        // Healing tries again.
                        let _again = node.restart();
                    });
                }
            }
            Action::Pause { node: index, time } => {
                let Some(node) = node(*index) else { return };
                node.pause();
                if let Some(time) = *time {
                    scope.spawn(move || {
                        std::thread::sleep(time);
                        node.resume();
                    });
                }
            }
            Action::DropConnections { node: index } => {
                if let Some(node) = node(*index) {
                    node.drop_connections();
                }
            }
            Action::Damage { node, block, damage } => self.damage(*node, *block, *damage),
        }
    }

    fn damage(&self, node: usize, block: usize, damage: Damage) {
        let ids = self.mini.block_ids(self.path);
        let (Some(node), Some(id)) =
            (self.mini.datanode(node), ids.get(block % ids.len().max(1)).copied())
        else {
            return;
        };
        let Some(replica) = node.replica(id) else { return };
        let part = |part: u64, of: u64| (of * part / 1000).min(of.saturating_sub(1));
        let chunks = replica.length.div_ceil(u64::from(self.schedule.bytes_per_checksum));
        // Two kinds of damage to one replica may exclude each other.
        let _done = match damage {
            Damage::Data(at) => node.corrupt_data(id, part(at, replica.length)),
            Damage::Checksum(at) => node.corrupt_meta(id, part(at, chunks)),
            // The other bit patterns mean "no checksums", which no reader could see through.
            Damage::MetaHeader if self.schedule.crc32 => node.delete_replica(id).map(|_| ()),
            Damage::MetaHeader => node.corrupt_meta_header(id),
            Damage::MetaCut(at) => node.truncate_meta(id, part(at, replica.meta.len() as u64)),
            Damage::Short(at) => node.truncate_replica(id, part(at, replica.length)),
            Damage::Gone => node.delete_replica(id).map(|_| ()),
            Damage::Stale => node.set_generation_stamp(id, 1),
        };
    }
}
