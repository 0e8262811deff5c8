//! Limits of this machine that no client can beat, and the choice of the write path's copy step.
use crate::api::Result;
use dfs::checksum::{ChecksumType, sum_chunks};
use std::hint::black_box;
use std::time::{Duration, Instant};

const CHUNK: usize = 512;
const PACKET: usize = 126 * CHUNK;
const ROUND: Duration = Duration::from_millis(2);
const ROUNDS: usize = 40;

/// GB/s of the best round of `run`, which handles `bytes` a call: others only disturb.
fn speed(bytes: usize, mut run: impl FnMut()) -> f64 {
    (0..ROUNDS)
        .map(|_| {
            let (at, mut calls) = (Instant::now(), 0_u32);
            while at.elapsed() < ROUND {
                run();
                calls += 1;
            }
            bytes as f64 * f64::from(calls) / at.elapsed().as_secs_f64() / 1e9
        })
        .fold(0.0, f64::max)
}

/// A buffer whose usable part begins at `offset` modulo 4096.
struct Placed {
    memory: Vec<u8>,
    start: usize,
}

impl Placed {
    fn new(len: usize, offset: usize) -> Placed {
        let memory = vec![1; len + 8192];
        let base = memory.as_ptr() as usize;
        Placed { start: (4096 - base % 4096) % 4096 + offset, memory }
    }

    fn from(&mut self, len: usize) -> &mut [u8] {
        &mut self.memory[self.start..self.start + len]
    }
}

/// Copies a packet's data in pieces of `step` bytes and sums the chunks of each piece right after.
fn copy_and_sum(from: &[u8], to: &mut [u8], sums: &mut [u8], step: usize) {
    let per_step = step / CHUNK * 4;
    let pieces = from.chunks(step).zip(to.chunks_mut(step)).zip(sums.chunks_mut(per_step));
    for ((from, to), sums) in pieces {
        to.copy_from_slice(from);
        sum_chunks(ChecksumType::Crc32c, CHUNK, black_box(to), sums);
    }
}

/// What is done with each piece.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Task {
    Copy,
    CopyAndSum,
}

fn work(task: Task, from: &[u8], to: &mut [u8], sums: &mut [u8], step: usize) {
    if task == Task::CopyAndSum {
        return copy_and_sum(from, to, sums, step);
    }
    for (from, to) in from.chunks(step).zip(to.chunks_mut(step)) {
        to.copy_from_slice(from);
        black_box(to);
    }
}

const TASKS: [(&str, Task); 2] =
    [("copy", Task::Copy), ("copy, then CRC-32C of 512-byte chunks", Task::CopyAndSum)];
const STEPS: [usize; 11] = [512, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 16384, 32768, PACKET];

/// Prints the tables.
pub(crate) fn run() -> Result<()> {
    println!("GB/s of copying packets of {PACKET} bytes in pieces (rows)\n");
    println!("Columns: how far the destination lies above the source modulo 4096; all in cache.");
    // Destinations as pooled buffers have them (64 bytes apart), and around the bad distance.
    let places = [0, 16, 32, 48, 64, 512, 560, 1024, 2048, 4080];
    let mut sums = vec![0; PACKET / CHUNK * 4];
    for (title, task) in TASKS {
        header(title, &places);
        for step in STEPS {
            print!("{step:>7}");
            for place in places {
                let (mut from, mut to) = (Placed::new(PACKET, 0), Placed::new(PACKET, place));
                let (from, to) = (from.from(PACKET), to.from(PACKET));
                let run = || work(task, black_box(&*from), to, &mut sums, step);
                print!("{:>7.1}", speed(PACKET, run));
            }
            println!();
        }
    }
    println!("\nColumns: packets in flight, each in a buffer of its own; the source is 1 MiB.");
    let windows = [1, 2, 4, 8, 16, 32, 80];
    let source = vec![1; 1 << 20];
    for (title, task) in TASKS {
        header(title, &windows);
        for step in STEPS {
            print!("{step:>7}");
            for window in windows {
                let mut ring: Vec<Placed> = (0..window).map(|_| Placed::new(PACKET, 512)).collect();
                let mut packets = source.chunks_exact(PACKET).cycle();
                let mut next = 0;
                let run = || {
                    let to = ring[next].from(PACKET);
                    let from = packets.next().unwrap_or_default();
                    work(task, black_box(from), to, &mut sums, step);
                    next = (next + 1) % window;
                };
                print!("{:>7.1}", speed(PACKET, run));
            }
            println!();
        }
    }
    Ok(())
}

fn header(title: &str, columns: &[usize]) {
    print!("\n{title}\n  piece");
    columns.iter().for_each(|column| print!("{column:>7}"));
    println!();
}
