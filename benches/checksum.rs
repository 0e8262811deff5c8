//! Speed of the chunk checksums in GB/s against the crates one could use: `cargo bench --bench
//! checksum`. Data stays in the level-2 cache, as a packet's does right after it was copied.
#![allow(clippy::print_stdout, reason = "a bench prints its figures")]
use dfs::checksum::{ChecksumType, sum_chunks, verify_chunks};
use std::hint::black_box;
use std::time::{Duration, Instant};

const DATA_BYTES: usize = 64 * 1024;
const ROUNDS: usize = 300;
const ROUND: Duration = Duration::from_micros(500);

/// A crate's function for one chunk.
type Crc = fn(&[u8]) -> u32;

/// Best round of `run` over the whole data, as GB/s.
fn measure(mut run: impl FnMut()) -> f64 {
    let mut best = f64::MAX;
    for _ in 0..ROUNDS {
        let start = Instant::now();
        let mut passes = 0_u32;
        while start.elapsed() < ROUND {
            for _ in 0..16 {
                run();
            }
            passes += 16;
        }
        best = best.min(start.elapsed().as_secs_f64() / f64::from(passes));
    }
    DATA_BYTES as f64 / best / 1e9
}

/// Sums written chunk by chunk with a crate's own function.
fn per_chunk(chunk: usize, data: &[u8], sums: &mut [u8], crc: Crc) {
    for (chunk, slot) in data.chunks(chunk).zip(sums.chunks_exact_mut(4)) {
        slot.copy_from_slice(&crc(chunk).to_be_bytes());
    }
}

fn verify_per_chunk(chunk: usize, data: &[u8], sums: &[u8], crc: Crc) -> bool {
    data.chunks(chunk).zip(sums.chunks_exact(4)).all(|(c, sum)| crc(c).to_be_bytes() == sum)
}

fn row(name: &str, chunk: usize, compute: f64, verify: f64) {
    println!("{name:28} {chunk:7} {compute:9.2} {verify:9.2}");
}

fn main() {
    let data: Vec<u8> =
        (0..DATA_BYTES as u32).map(|i| (i.wrapping_mul(0x9E37_79B1) >> 24) as u8).collect();
    let mut copy = vec![0; DATA_BYTES];
    println!(
        "memcpy {:.2} GB/s",
        measure(|| black_box(&mut copy).copy_from_slice(black_box(&data)))
    );
    println!("{:28} {:>7} {:>9} {:>9}", "GB/s", "chunk", "compute", "verify");
    for chunk in [512, 4096, 65536] {
        let mut sums = vec![0; DATA_BYTES / chunk * 4];
        for ty in [ChecksumType::Crc32c, ChecksumType::Crc32] {
            let compute = measure(|| sum_chunks(ty, chunk, black_box(&data), black_box(&mut sums)));
            let verify = measure(|| {
                verify_chunks(ty, chunk, black_box(&data), black_box(&sums)).expect("sums match");
            });
            row(&format!("dfs {}", ty.name()), chunk, compute, verify);
            let crates: [(&str, Crc); 2] = match ty {
                ChecksumType::Crc32c => {
                    [("crate crc32c", crc32c::crc32c), ("crate crc-fast", crc_fast::crc32_iscsi)]
                }
                _ => [
                    ("crate crc32fast", crc32fast::hash),
                    ("crate crc-fast", crc_fast::crc32_iso_hdlc),
                ],
            };
            for (name, crc) in crates {
                let compute =
                    measure(|| per_chunk(chunk, black_box(&data), black_box(&mut sums), crc));
                let verify = measure(|| {
                    assert!(verify_per_chunk(chunk, black_box(&data), black_box(&sums), crc));
                });
                row(&format!("{name} {}", ty.name()), chunk, compute, verify);
            }
        }
    }
}
