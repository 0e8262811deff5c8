//! What a write-ahead log does: many threads that commit, blocks that turn, files that roll.
use crate::api::{Fs, Log, Result};
use crate::command::Command;
use crate::json::Json;
use crate::workload::{Meter, measured, payload, replication, timed};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// Flushes before the measured part, which set up the pipeline.
const WARM_FLUSHES: usize = 20;

fn warm(log: &dyn Log, record: &[u8]) -> Result<()> {
    for _ in 0..WARM_FLUSHES {
        log.append(record)?;
        log.sync()?;
    }
    Ok(())
}

/// `threads` threads append `count` records each to one log and wait until each is flushed.
pub(crate) fn commit(fs: &dyn Fs, command: &Command) -> Result<Json> {
    let (count, len) = (command.size("count")?, command.size("bytes")?);
    let threads = command.number_or("threads", 50)?.clamp(1, 1024) as usize;
    let record = payload(len);
    let log = fs.create_log(command.text("path")?, replication(command)?, 0, false)?;
    warm(&*log, &record)?;
    let (meter, latencies) = measured(&mut vec![(); threads], |_, ()| {
        let mut latencies = Vec::with_capacity(count);
        for _ in 0..count {
            timed(&mut latencies, || {
                log.append(&record)?;
                log.sync()
            })?;
        }
        Ok(latencies)
    })?;
    let answer = meter.stop("commit", (count * threads) as u64, len as u64, latencies);
    log.end()?;
    Ok(answer)
}

/// Records into one file of `count` blocks; the latencies are those of each block's slowest
/// append with its flush.
pub(crate) fn turn(fs: &dyn Fs, command: &Command) -> Result<Json> {
    let (count, len) = (command.size("count")?, command.size("bytes")?);
    let block = command.number("blocksize")?;
    let record = payload(len);
    let log = fs.create_log(command.text("path")?, replication(command)?, block, false)?;
    warm(&*log, &record)?;
    let meter = Meter::start();
    let mut at = (WARM_FLUSHES * len) as u64;
    let mut slowest = Vec::with_capacity(count);
    let mut flushes = Vec::new();
    while slowest.len() < count {
        timed(&mut flushes, || {
            log.append(&record)?;
            log.sync()
        })?;
        at += len as u64;
        // A turn may strike the flush before the boundary or the one behind it.
        if at % block >= 2 * len as u64 && at % block < 3 * len as u64 && at > block {
            slowest.push(flushes.iter().copied().max().unwrap_or(0));
            flushes.clear();
        }
    }
    let answer = meter.stop("turn", count as u64, block, vec![slowest]);
    log.end()?;
    Ok(answer)
}

/// A log that is replaced `count` times, each `every` records, while one thread goes on writing:
/// another thread opens and prepares the next file, the writer switches between two records, and
/// the old file is closed in the background. The latencies are the longest time between two acks
/// around each change.
pub(crate) fn roll(fs: &dyn Fs, command: &Command) -> Result<Json> {
    let (path, count, len) =
        (command.text("path")?, command.size("count")?, command.size("bytes")?);
    let (every, repl) = (command.size("every")?, replication(command)?);
    let record = payload(len);
    let next: Mutex<Option<Result<Box<dyn Log>>>> = Mutex::new(None);
    let over = AtomicBool::new(false);
    let mut log = fs.create_log(path, repl, 0, true)?;
    warm(&*log, &record)?;
    let mut old = Vec::with_capacity(count);
    let meter = Meter::start();
    let mut gaps = Vec::with_capacity(count);
    let result = std::thread::scope(|scope| {
        let (next, over) = (&next, &over);
        let roller = scope.spawn(move || {
            let mut name = 0;
            while !over.load(Ordering::Acquire) {
                std::thread::park();
                if over.load(Ordering::Acquire) {
                    break;
                }
                let file = fs.create_log(&format!("{path}.{name}"), repl, 0, true);
                name += 1;
                if let Ok(mut next) = next.lock() {
                    *next = Some(file);
                }
            }
        });
        let mut work = || -> Result<()> {
            for _ in 0..count {
                roller.thread().unpark();
                let (mut longest, mut since, mut switched) = (0, 0, false);
                let mut last = Instant::now();
                // Until the change has settled.
                while since < every {
                    log.append(&record)?;
                    log.sync()?;
                    let now = Instant::now();
                    longest = longest.max(now.duration_since(last).as_nanos());
                    last = now;
                    since += usize::from(switched);
                    let ready = if switched {
                        None
                    } else {
                        next.lock().ok().and_then(|mut next| next.take())
                    };
                    if let Some(file) = ready {
                        let before = std::mem::replace(&mut log, file?);
                        before.close_later()?;
                        old.push(before);
                        switched = true;
                    }
                }
                gaps.push(u32::try_from(longest).unwrap_or(u32::MAX));
            }
            Ok(())
        };
        let result = work();
        over.store(true, Ordering::Release);
        roller.thread().unpark();
        result
    });
    result?;
    let answer = meter.stop("roll", count as u64, (len * every) as u64, vec![gaps]);
    for log in old.iter().chain([&log]) {
        log.end()?;
    }
    Ok(answer)
}
