//! Limits of this machine that no client can beat, and the choice of the write path's copy step.
use crate::api::Result;
use dfs::checksum::{ChecksumType, sum_chunks};
use std::hint::black_box;
use std::time::{Duration, Instant};

const CHUNK: usize = 512;
const PACKET: usize = 126 * CHUNK;
const ROUND: Duration = Duration::from_millis(2);
const ROUNDS: usize = 40;

/// GB/s of the median round of `run`, which handles `bytes` a call.
fn speed(bytes: usize, mut run: impl FnMut()) -> f64 {
    let mut rounds: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let (at, mut calls) = (Instant::now(), 0_u32);
            while at.elapsed() < ROUND {
                run();
                calls += 1;
            }
            bytes as f64 * f64::from(calls) / at.elapsed().as_secs_f64() / 1e9
        })
        .collect();
    rounds.sort_unstable_by(f64::total_cmp);
    rounds.get(ROUNDS / 2).copied().unwrap_or_default()
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

/// Copies a packet's data in pieces of `step` and sums the chunks of each piece right after.
fn copy_and_sum(from: &[u8], to: &mut [u8], sums: &mut [u8], step: usize) {
    let per_step = step / CHUNK * 4;
    let pieces = from.chunks(step).zip(to.chunks_mut(step)).zip(sums.chunks_mut(per_step));
    for ((from, to), sums) in pieces {
        to.copy_from_slice(from);
        sum_chunks(ChecksumType::Crc32c, CHUNK, black_box(to), sums);
    }
}

/// Prints the tables.
pub(crate) fn run() -> Result<()> {
    let steps = [512, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 16384, 32768, PACKET];
    // Destinations as pooled buffers have them (64 bytes apart), and around the bad distance.
    let places = [0, 16, 32, 64, 504, 512, 560, 1024, 2048, 4080];
    println!("GB/s of copying {PACKET} bytes that are in cache, by piece (rows) and by how far the");
    println!("destination lies above the source modulo 4096 (columns)\n");
    for (title, sum) in [("copy", false), ("copy, then CRC-32C of 512-byte chunks", true)] {
        print!("{title}\n{:>7}", "piece");
        places.iter().for_each(|place| print!("{place:>7}"));
        println!();
        for step in steps {
            print!("{step:>7}");
            for place in places {
                let mut from = Placed::new(PACKET, 0);
                let mut to = Placed::new(PACKET, place);
                let from = from.from(PACKET);
                let to = to.from(PACKET);
                let mut sums = vec![0; PACKET / CHUNK * 4];
                let gbs = speed(PACKET, || {
                    if sum {
                        copy_and_sum(black_box(from), to, &mut sums, step);
                    } else {
                        for (from, to) in black_box(&*from).chunks(step).zip(to.chunks_mut(step)) {
                            to.copy_from_slice(from);
                            black_box(to);
                        }
                    }
                });
                print!("{gbs:>7.1}");
            }
            println!();
        }
        println!();
    }
    Ok(())
}
