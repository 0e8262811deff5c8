//! The measured work, the same for every client of this program. Creating files and connecting
//! lie outside the measured part unless they are what is measured.
use crate::api::{Fs, In, Out, Result};
use crate::command::Command;
use crate::json::{Json, object};
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
        "small" => small(fs, command),
        "delete" => fs.delete(command.text("path")?).map(|()| object([])),
        verb => Err(format!("unknown command {verb}")),
    }
}

/// Measures one stretch of work.
struct Meter {
    at: Instant,
    usage: sys::Usage,
    allocations: (u64, u64),
}

impl Meter {
    fn start() -> Meter {
        let (usage, allocations) = (sys::usage(), sys::allocations());
        Meter { at: Instant::now(), usage, allocations }
    }

    /// The answer for `ops` operations with these latencies (ns) that moved `bytes`.
    fn stop(self, ops: u64, bytes: u64, latencies: Vec<Vec<u32>>) -> Json {
        let wall_s = self.at.elapsed().as_secs_f64();
        let (now, before) = (sys::usage(), self.usage);
        let (count, allocated) = sys::allocations();
        let mut all: Vec<u32> = latencies.concat();
        all.sort_unstable();
        let mut members = vec![
            ("wall_s", wall_s),
            ("user_s", now.user_s - before.user_s),
            ("sys_s", now.system_s - before.system_s),
            ("vcsw", (now.voluntary_switches - before.voluntary_switches) as f64),
            ("ivcsw", (now.involuntary_switches - before.involuntary_switches) as f64),
            ("allocs", (count - self.allocations.0) as f64),
            ("alloc_bytes", (allocated - self.allocations.1) as f64),
            ("ops", ops as f64),
            ("bytes", bytes as f64),
        ];
        if !all.is_empty() {
            for (name, quantile) in [("p50_us", 0.5), ("p99_us", 0.99), ("p999_us", 0.999)] {
                members.push((name, at_quantile(&all, quantile)));
            }
            members.push(("max_us", at_quantile(&all, 1.0)));
        }
        Json::Object(members.into_iter().map(|(k, v)| (k.to_owned(), Json::from(v))).collect())
    }
}

/// Microseconds at a quantile of sorted nanoseconds.
fn at_quantile(sorted: &[u32], quantile: f64) -> f64 {
    let last = sorted.len().saturating_sub(1);
    let index = (last as f64 * quantile).round() as usize;
    sorted.get(index.min(last)).map_or(0.0, |ns| f64::from(*ns) / 1e3)
}

/// Runs `work` and notes how long it took, nanoseconds.
fn timed<T>(latencies: &mut Vec<u32>, work: impl FnOnce() -> Result<T>) -> Result<T> {
    let at = Instant::now();
    let value = work()?;
    latencies.push(u32::try_from(at.elapsed().as_nanos()).unwrap_or(u32::MAX));
    Ok(value)
}

/// Does `work` on each of `states`, each on a thread of its own (on this one if there is only
/// one), and measures all together. Starting a thread takes 20 us, which is part of it.
fn measured<T: Send>(
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
fn payload(len: usize) -> Vec<u8> {
    (0..len as u32).map(|i| (i.wrapping_mul(0x9E37_79B1) >> 24) as u8).collect()
}

/// `n` times: write `len` bytes and hflush, spread over `threads` files of `repl` replicas.
fn hflush(fs: &dyn Fs, command: &Command) -> Result<Json> {
    let (path, n, len) = (command.text("path")?, command.size("n")?, command.size("len")?);
    let (threads, repl) = (command.size("threads")?.max(1), replication(command)?);
    let record = payload(len);
    let mut files: Vec<Box<dyn Out>> = Vec::new();
    for i in 0..threads {
        let mut file = fs.create(&format!("{path}-{i}"), repl)?;
        for _ in 0..WARM_FLUSHES {
            file.write(&record)?;
            file.hflush()?;
        }
        files.push(file);
    }
    let each = n / threads;
    let (meter, latencies) = measured(&mut files, |_, file| {
        let mut latencies = Vec::with_capacity(each);
        for _ in 0..each {
            timed(&mut latencies, || {
                file.write(&record)?;
                file.hflush()
            })?;
        }
        Ok(latencies)
    })?;
    let ops = (each * threads) as u64;
    let answer = meter.stop(ops, ops * len as u64, latencies);
    for (i, mut file) in files.into_iter().enumerate() {
        file.close()?;
        fs.delete(&format!("{path}-{i}"))?;
    }
    Ok(answer)
}

fn replication(command: &Command) -> Result<u32> {
    u32::try_from(command.number("repl")?).map_err(|e| format!("repl: {e}"))
}

/// One file of `size` bytes by writes of `buf`, from the first write to the end of close.
fn write(fs: &dyn Fs, command: &Command) -> Result<Json> {
    let (path, size, len) = (command.text("path")?, command.number("size")?, command.size("buf")?);
    let bytes = payload(len);
    let mut file = fs.create(path, replication(command)?)?;
    let meter = Meter::start();
    let mut left = size;
    while left > 0 {
        let take = usize::try_from(left).map_or(len, |left| left.min(len));
        file.write(bytes.get(..take).unwrap_or_default())?;
        left -= take as u64;
    }
    let at = Instant::now();
    file.close()?;
    let close_s = at.elapsed().as_secs_f64();
    let mut answer = meter.stop(1, size, Vec::new());
    if let Json::Object(members) = &mut answer {
        members.push(("close_s".to_owned(), close_s.into()));
    }
    Ok(answer)
}

/// A whole file by reads of `buf` bytes, open included.
fn read(fs: &dyn Fs, command: &Command) -> Result<Json> {
    let mut buffer = vec![1; command.size("buf")?];
    let meter = Meter::start();
    let file = fs.open(command.text("path")?)?;
    let (mut total, mut ops) = (0, 0);
    loop {
        match file.read(&mut buffer)? {
            0 => break,
            n => total += n as u64,
        }
        ops += 1;
    }
    let answer = meter.stop(ops, total, Vec::new());
    if total != file.len() {
        return Err(format!("read {total} bytes of a file of {}", file.len()));
    }
    Ok(answer)
}

/// `n` reads of `len` bytes at random offsets of one open file, by `threads` threads.
fn pread(fs: &dyn Fs, command: &Command) -> Result<Json> {
    let (n, len) = (command.size("n")?, command.size("len")?);
    let threads = command.size("threads")?.max(1);
    let file: Arc<dyn In> = Arc::from(fs.open(command.text("path")?)?);
    let places = file.len().checked_sub(len as u64).ok_or("the file is shorter than one read")? + 1;
    let mut buffers = vec![vec![1; len]; threads];
    let each = n / threads;
    let (meter, latencies) = measured(&mut buffers, |i, buffer| {
        // xorshift64 from a fixed seed: every client reads the same places.
        let mut state = 0x9E37_79B9_7F4A_7C15_u64.wrapping_mul(i as u64 + 1);
        let mut latencies = Vec::with_capacity(each);
        for _ in 0..each {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            timed(&mut latencies, || file.pread(state % places, buffer))?;
        }
        Ok(latencies)
    })?;
    let ops = (each * threads) as u64;
    Ok(meter.stop(ops, ops * len as u64, latencies))
}

/// `n` files of `len` bytes below `path`: create, write, close.
fn small(fs: &dyn Fs, command: &Command) -> Result<Json> {
    let (path, n) = (command.text("path")?, command.size("n")?);
    let (bytes, repl) = (payload(command.size("len")?), replication(command)?);
    let (meter, latencies) = measured(&mut [()], |_, ()| {
        let mut latencies = Vec::with_capacity(n);
        for i in 0..n {
            let name = format!("{path}/{i}");
            timed(&mut latencies, || {
                let mut file = fs.create(&name, repl)?;
                file.write(&bytes)?;
                file.close()
            })?;
        }
        Ok(latencies)
    })?;
    let answer = meter.stop(n as u64, (n * bytes.len()) as u64, latencies);
    fs.delete(path)?;
    Ok(answer)
}
