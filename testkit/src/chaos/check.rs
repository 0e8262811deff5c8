//! The property, checked when a schedule is over and the cluster is whole again.
use std::time::{Duration, Instant};

use dfs::client::file_system::FileSystem;
use dfs::read::ReadOptions;
use dfs::time::Deadline;

use super::schedule::AMPLE_MS;
use super::workload::Findings;
use crate::data;
use crate::minidfs::{MiniDfs, ReplicaInfo, ReplicaState};

/// Bytes of a meta file before its checksums.
const META_HEADER_BYTES: usize = 7;

/// What the file must hold.
#[derive(Clone, Copy, Debug)]
pub(super) struct Promise {
    pub(super) seed: u64,
    /// Bytes that were acknowledged.
    pub(super) least: u64,
    /// Bytes that were written.
    pub(super) most: u64,
    /// The writer closed the file: all bytes are there.
    pub(super) closed: bool,
}

/// Checks a file that nobody writes any more.
pub(super) fn check_file(
    mini: &MiniDfs,
    fs: &FileSystem,
    path: &str,
    promise: Promise,
    findings: &Findings,
) {
    if !promise.closed
        && let Err(why) = recover(fs, path)
    {
        let state = describe(mini, path);
        findings.violation(format!("the lease cannot be recovered: {why}; {state}"));
        return;
    }
    let (least, most) = (promise.least, promise.most);
    let length = check_replicas(mini, path, promise.seed, findings);
    let fits = length >= least && length <= most && (!promise.closed || length == most);
    if !fits {
        findings.violation(format!(
            "{length} bytes at the end; {least} acknowledged, {most} written, closed: {}",
            promise.closed
        ));
    }
    match read(fs, path) {
        Ok(bytes) => {
            if bytes.len() as u64 != length {
                let n = bytes.len();
                findings.violation(format!("a reader gets {n} bytes, replicas hold {length}"));
            }
            if let Some(at) = data::mismatch(promise.seed, 0, &bytes) {
                findings.violation(format!("a reader gets a wrong byte at {at}"));
            }
        }
        Err(e) => findings.violation(format!("the file cannot be read: {e:?}")),
    }
}

/// Has the NameNode close the file; an error has its last words.
fn recover(fs: &FileSystem, path: &str) -> Result<(), String> {
    let started = Instant::now();
    let meta = fs.metadata().map_err(|e| e.to_string())?;
    loop {
        let answer = meta.recover_lease(path, Deadline::after_ms(AMPLE_MS));
        if let Ok(true) = answer {
            return Ok(());
        }
        if started.elapsed() > Duration::from_secs(40) {
            return Err(answer.map_or_else(|e| e.to_string(), |_| "in progress".to_owned()));
        }
        std::thread::sleep(Duration::from_millis(3));
    }
}

/// Blocks and replicas of a file, for a report.
fn describe(mini: &MiniDfs, path: &str) -> String {
    let mut text = String::new();
    for id in mini.block_ids(path) {
        text += &format!("block {id}: {:?}", mini.block_state(id));
        for r in mini.datanodes().iter().filter_map(|d| d.replica(id)) {
            text += &format!(
                ", node {}: stamp {} {:?} {} bytes {} acked",
                r.datanode, r.generation_stamp, r.state, r.length, r.acked
            );
        }
        text += "; ";
    }
    text
}

fn read(fs: &FileSystem, path: &str) -> dfs::error::Result<Vec<u8>> {
    let limit = Deadline::after_ms(AMPLE_MS);
    let file = fs.open(path, ReadOptions::default(), limit)?;
    let mut bytes = vec![0; usize::try_from(file.len()).unwrap_or(0) + 1];
    let n = file.pread(0, &mut bytes, limit)?;
    bytes.truncate(n);
    Ok(bytes)
}

/// Looks into the files of every replica that counts; returns the length of the file.
fn check_replicas(mini: &MiniDfs, path: &str, seed: u64, findings: &Findings) -> u64 {
    let mut at = 0;
    for id in mini.block_ids(path) {
        let Some((stamp, len, complete)) = mini.block_state(id) else { continue };
        if !complete {
            findings.violation(format!("block {id} is not complete"));
        }
        let expected = data::bytes(seed, at, usize::try_from(len).unwrap_or(0));
        let mut good = 0;
        for replica in mini.datanodes().iter().filter_map(|d| d.replica(id)) {
            if replica.generation_stamp == stamp && replica.state == ReplicaState::Finalized {
                good += 1;
                check_replica(&replica, &expected, at, findings);
            }
        }
        if good == 0 {
            findings.violation(format!("block {id} of {len} bytes at {at} has no replica"));
        }
        at += len;
    }
    at
}

fn check_replica(replica: &ReplicaInfo, expected: &[u8], at: u64, findings: &Findings) {
    let name = format!("replica of block {} on node {}", replica.block_id, replica.datanode);
    if replica.bytes.len() != expected.len() {
        let (n, m) = (replica.bytes.len(), expected.len());
        findings.violation(format!("{name}: {n} bytes instead of {m}"));
        return;
    }
    if let Some(index) = replica.bytes.iter().zip(expected).position(|(a, b)| a != b) {
        findings.violation(format!("{name}: a wrong byte at {}", at + index as u64));
    }
    let Some((header, sums)) = replica.meta.split_at_checked(META_HEADER_BYTES) else {
        findings.violation(format!("{name}: a meta file of {} bytes", replica.meta.len()));
        return;
    };
    let chunk = u32::from_be_bytes([header[3], header[4], header[5], header[6]]) as usize;
    let sum = |bytes: &[u8]| match header[2] {
        1 => crc32fast::hash(bytes),
        _ => crc32c::crc32c(bytes),
    };
    let wanted: Vec<u8> =
        expected.chunks(chunk.max(1)).flat_map(|c| sum(c).to_be_bytes()).collect();
    if wanted != sums {
        findings.violation(format!("{name}: checksums that do not belong to its bytes"));
    }
}
