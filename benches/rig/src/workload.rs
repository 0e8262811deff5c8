//! The measured work, the same for every client of this program. Creating files and connecting
//! lie outside the measured part unless they are what is measured.
use crate::api::{Fs, In, Out, Result};
use crate::command::Command;
use crate::json::Json;
use crate::logs;
use crate::sys;
use std::sync::Arc;
use std::time::Instant;

/// Flushes before the measured part, which set up the pipeline.
const WARM_FLUSHES: usize = 20;

/// Runs a command on a connected client.
pub(crate) fn run(fs: &dyn Fs, command: &Command) -> Result<Json> {
    match command.verb.as_str() {
        "hflush" => hflush(fs, command),
        "write" => write(fs, command),
        "read" => read(fs, command),
        "pread" => pread(fs, command),
        "ycsb" => crate::ycsb::run(fs, command),
        "create" => create(fs, command),
        "commit" => logs::commit(fs, command),
        "turn" => logs::turn(fs, command),
        "roll" => logs::roll(fs, command),
        verb => Err(format!("unknown command {verb}")),
    }
}

/// Measures one stretch of work.
pub(crate) struct Meter {
    at: Instant,
    usage: sys::Usage,
    allocations: (u64, u64),
}

impl Meter {
    pub(crate) fn start() -> Meter {
        let (usage, allocations) = (sys::usage(), sys::allocations());
        Meter { at: Instant::now(), usage, allocations }
    }

    /// The answer for `count` operations of `bytes` each that took so long (ns).
    pub(crate) fn stop(self, op: &str, count: u64, bytes: u64, latencies: Vec<Vec<u32>>) -> Json {
        let wall_s = self.at.elapsed().as_secs_f64();
        let (now, before) = (sys::usage(), self.usage);
        let (allocations, allocated) = sys::allocations();
        let mut all: Vec<u32> = latencies.concat();
        all.sort_unstable();
        let mut members = vec![
            ("wall_s", wall_s),
            ("cpu_s", now.user_s + now.system_s - before.user_s - before.system_s),
            ("user_s", now.user_s - before.user_s),
            ("sys_s", now.system_s - before.system_s),
            ("vcsw", (now.voluntary_switches - before.voluntary_switches) as f64),
            ("ivcsw", (now.involuntary_switches - before.involuntary_switches) as f64),
            ("allocs", (allocations - self.allocations.0) as f64),
            ("alloc_bytes_per_op", (allocated - self.allocations.1) as f64 / count as f64),
            ("count", count as f64),
            ("bytes", bytes as f64),
        ];
        if !all.is_empty() {
            for (name, quantile) in
                [("p50_us", 0.5), ("p95_us", 0.95), ("p99_us", 0.99), ("p999_us", 0.999)]
            {
                members.push((name, at_quantile(&all, quantile)));
            }
            members.push(("max_us", at_quantile(&all, 1.0)));
        }
        let members = members.into_iter().map(|(k, v)| (k.to_owned(), Json::from(v)));
        Json::Object([("op".to_owned(), op.into())].into_iter().chain(members).collect())
    }
}

/// Microseconds at a quantile of sorted nanoseconds.
fn at_quantile(sorted: &[u32], quantile: f64) -> f64 {
    let last = sorted.len().saturating_sub(1);
    let index = (last as f64 * quantile).round() as usize;
    sorted.get(index.min(last)).map_or(0.0, |ns| f64::from(*ns) / 1e3)
}

/// Runs `work` and notes how long it took, nanoseconds.
pub(crate) fn timed<T>(latencies: &mut Vec<u32>, work: impl FnOnce() -> Result<T>) -> Result<T> {
    let at = Instant::now();
    let value = work()?;
    latencies.push(u32::try_from(at.elapsed().as_nanos()).unwrap_or(u32::MAX));
    Ok(value)
}

/// Does `work` on each of `states`, each on a thread of its own (on this one if there is only
/// one), and measures all together. Starting a thread takes 20 us, which is part of it.
pub(crate) fn measured<T: Send>(
    states: &mut [T],
    work: impl Fn(usize, &mut T) -> Result<Vec<u32>> + Sync,
) -> Result<(Meter, Vec<Vec<u32>>)> {
    let meter = Meter::start();
    if let [state] = states {
        let latencies = work(0, state)?;
        return Ok((meter, vec![latencies]));
    }
    let work = &work;
    let latencies = std::thread::scope(|scope| {
        let workers: Vec<_> = states
            .iter_mut()
            .enumerate()
            .map(|(i, state)| scope.spawn(move || work(i, state)))
            .collect();
        let ended = workers.into_iter().map(|worker| {
            worker.join().unwrap_or_else(|_| Err("a worker thread panicked".to_owned()))
        });
        ended.collect::<Result<Vec<_>>>()
    })?;
    Ok((meter, latencies))
}

/// Bytes that compress and hash like any others.
pub(crate) fn payload(len: usize) -> Vec<u8> {
    (0..len as u32).map(|i| (i.wrapping_mul(0x9E37_79B1) >> 24) as u8).collect()
}

/// `count` times on each of `streams` files: write `bytes` bytes and hflush.
fn hflush(fs: &dyn Fs, command: &Command) -> Result<Json> {
    let (path, count, len) =
        (command.text("path")?, command.size("count")?, command.size("bytes")?);
    let (streams, repl) = (command.number_or("streams", 1)?.max(1), replication(command)?);
    let record = payload(len);
    let mut files: Vec<Box<dyn Out>> = Vec::new();
    for i in 0..streams {
        let mut file = fs.create(&format!("{path}-{i}"), repl)?;
        for _ in 0..WARM_FLUSHES {
            file.write(&record)?;
            file.hflush()?;
        }
        files.push(file);
    }
    let (meter, latencies) = measured(&mut files, |_, file| {
        let mut latencies = Vec::with_capacity(count);
        for _ in 0..count {
            timed(&mut latencies, || {
                file.write(&record)?;
                file.hflush()
            })?;
        }
        Ok(latencies)
    })?;
    let answer = meter.stop("hflush", count as u64 * streams, len as u64, latencies);
    for mut file in files {
        file.close()?;
    }
    Ok(answer)
}

pub(crate) fn replication(command: &Command) -> Result<u32> {
    u32::try_from(command.number_or("replication", 3)?).map_err(|e| format!("replication: {e}"))
}

/// One file of `length` bytes by writes of `buffer`, create and close included.
fn write(fs: &dyn Fs, command: &Command) -> Result<Json> {
    let (path, size, len) =
        (command.text("path")?, command.number("length")?, command.size("buffer")?);
    let (bytes, repl) = (payload(len), replication(command)?);
    let meter = Meter::start();
    let mut file = fs.create(path, repl)?;
    let mut left = size;
    while left > 0 {
        let take = usize::try_from(left).map_or(len, |left| left.min(len));
        file.write(bytes.get(..take).unwrap_or_default())?;
        left -= take as u64;
    }
    let at = Instant::now();
    file.close()?;
    let close_s = at.elapsed().as_secs_f64();
    let mut answer = meter.stop("write", 1, size, Vec::new());
    if let Json::Object(members) = &mut answer {
        members.push(("close_s".to_owned(), close_s.into()));
    }
    Ok(answer)
}

/// A whole file by reads of `buffer` bytes, open included.
fn read(fs: &dyn Fs, command: &Command) -> Result<Json> {
    let mut buffer = vec![1; command.size("buffer")?];
    let meter = Meter::start();
    let file = fs.open(command.text("path")?)?;
    let mut total = 0;
    loop {
        match file.read(&mut buffer)? {
            0 => break,
            n => total += n as u64,
        }
    }
    let answer = meter.stop("read", 1, total, Vec::new());
    if total != file.len() {
        return Err(format!("read {total} bytes of a file of {}", file.len()));
    }
    Ok(answer)
}

/// `count` reads of `bytes` bytes by each of `threads` threads, at random offsets of one open file.
fn pread(fs: &dyn Fs, command: &Command) -> Result<Json> {
    let (count, len) = (command.size("count")?, command.size("bytes")?);
    let threads = command.number_or("threads", 1)?.clamp(1, 1024) as usize;
    let file: Arc<dyn In> = Arc::from(fs.open(command.text("path")?)?);
    let places = file.len().checked_sub(len as u64).ok_or("the file is shorter than one read")? + 1;
    let mut buffers = vec![vec![1; len]; threads];
    let (meter, latencies) = measured(&mut buffers, |i, buffer| {
        // xorshift64 from a fixed seed: every client reads the same places.
        let mut state = 0x9E37_79B9_7F4A_7C15_u64.wrapping_mul(i as u64 + 1);
        let mut latencies = Vec::with_capacity(count);
        for _ in 0..count {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            timed(&mut latencies, || file.pread(state % places, buffer))?;
        }
        Ok(latencies)
    })?;
    Ok(meter.stop("pread", (count * threads) as u64, len as u64, latencies))
}

/// `count` files of `bytes` bytes: create, write, close.
fn create(fs: &dyn Fs, command: &Command) -> Result<Json> {
    let (path, count) = (command.text("path")?, command.size("count")?);
    let (bytes, repl) = (payload(command.size("bytes")?), replication(command)?);
    let (meter, latencies) = measured(&mut [()], |_, ()| {
        let mut latencies = Vec::with_capacity(count);
        for i in 0..count {
            let name = format!("{path}-{i}");
            timed(&mut latencies, || {
                let mut file = fs.create(&name, repl)?;
                file.write(&bytes)?;
                file.close()
            })?;
        }
        Ok(latencies)
    })?;
    Ok(meter.stop("create", count as u64, bytes.len() as u64, latencies))
}
