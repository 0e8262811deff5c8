//! `dfs-bench hedge`: the tail of random reads while one of three DataNodes delays a tenth of its
//! answers by 200 ms, with and without hedged reads and the order by latency.
use crate::api::Result;
use dfs::client::file_system::{CreateOptions, FileSystem};
use dfs::conf::Config;
use dfs::read::{InputStream, ReadOptions};
use dfs::time::Deadline;
use dfs_testkit::minidfs::{Fault, MiniDfs, Op, Rule, Site};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const BLOCK_BYTES: u64 = 1 << 20;
const BLOCKS: u64 = 48;
const READ_BYTES: usize = 64 << 10;
const THREADS: usize = 4;
const READS: usize = 3_000;
const LATE: Duration = Duration::from_millis(200);
const THRESHOLD_MS: &str = "20";

fn limit() -> Deadline {
    Deadline::after_ms(60_000)
}

fn words(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// Prints a table: a line for each way of reading.
pub(crate) fn run() -> Result<()> {
    println!(
        "{READS} random reads of 64 KiB by {THREADS} threads, three replicas, one DataNode late by \
         {} ms on one read in ten\n",
        LATE.as_millis()
    );
    println!("hedged  by latency  p50 ms  p95 ms  p99 ms  max ms  extra requests");
    for ranked in [false, true] {
        for hedged in [false, true] {
            line(hedged, ranked)?;
        }
    }
    Ok(())
}

fn line(hedged: bool, ranked: bool) -> Result<()> {
    let mini = MiniDfs::builder().start().map_err(words)?;
    let mut config = Config::new();
    config.set("dfs.client.hedged.read.threadpool.size", if hedged { "32" } else { "0" });
    config.set("dfs.client.hedged.read.threshold.millis", THRESHOLD_MS);
    config.set("libdfs.read.order.by.latency", if ranked { "true" } else { "false" });
    let fs = FileSystem::connect(&config, Some(&mini.uri()), limit()).map_err(words)?;
    let options = CreateOptions { block_size: Some(BLOCK_BYTES), ..CreateOptions::default() };
    let out = fs.create("/hedge", &options, limit()).map_err(words)?;
    let bytes = vec![7; BLOCK_BYTES as usize];
    for _ in 0..BLOCKS {
        out.write(&bytes, limit()).map_err(words)?;
    }
    out.close(limit()).map_err(words)?;
    mini.faults().add(Rule::new(Site::Op(Op::Read), Fault::Delay(LATE)).on(0).every(10).always());
    let file = fs.open("/hedge", ReadOptions::default(), limit()).map_err(words)?;
    let mut times = read(&file)?;
    times.sort_unstable();
    let at = |share: f64| {
        let index = (times.len() as f64 * share) as usize;
        times.get(index.min(times.len() - 1)).map_or(0.0, |t| t.as_secs_f64() * 1e3)
    };
    let stats = &fs.read_context().stats;
    let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    println!(
        "{:6}  {:10}  {:6.2}  {:6.2}  {:6.2}  {:6.1}  {:.1} % ({} of them won)",
        if hedged { "yes" } else { "no" },
        if ranked { "yes" } else { "no" },
        at(0.5),
        at(0.95),
        at(0.99),
        at(1.0),
        get(&stats.hedged_reads) as f64 * 100.0 / times.len() as f64,
        get(&stats.hedged_wins),
    );
    Ok(())
}

fn read(file: &InputStream) -> Result<Vec<Duration>> {
    let places = BLOCK_BYTES * BLOCKS - READ_BYTES as u64;
    std::thread::scope(|scope| {
        let workers: Vec<_> = (1..=THREADS as u64)
            .map(|thread| {
                scope.spawn(move || {
                    let mut buffer = vec![0; READ_BYTES];
                    let mut state = 0x9E37_79B9_7F4A_7C15_u64.wrapping_mul(thread);
                    let mut times = Vec::new();
                    for _ in 0..READS / THREADS {
                        state ^= state << 13;
                        state ^= state >> 7;
                        state ^= state << 17;
                        let begin = Instant::now();
                        file.pread(state % places, &mut buffer, limit()).map_err(words)?;
                        times.push(begin.elapsed());
                    }
                    Result::Ok(times)
                })
            })
            .collect();
        let mut all = Vec::new();
        for worker in workers {
            all.extend(worker.join().map_err(|_| "a worker thread panicked")??);
        }
        Ok(all)
    })
}
