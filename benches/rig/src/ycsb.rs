//! A load like YCSB's workload C on an HBase-like store: many threads read blocks of one file whose
//! popularity follows Zipf's law, mostly whole pages, sometimes small pieces.
use crate::api::{Fs, In, Result};
use crate::command::Command;
use crate::json::Json;
use crate::workload::{measured, timed};
use std::sync::Arc;

/// YCSB's constant.
const EXPONENT: f64 = 0.99;
const PAGE_BYTES: usize = 64 << 10;
const SMALL_BYTES: usize = 4 << 10;
/// Of 100 reads, those of a page.
const PAGES: u64 = 90;
/// Spreads popular blocks over the file; a prime that divides no sensible number of blocks.
const SCATTER: usize = 7919;

/// Cumulated shares of the ranks 0, 1, 2...
fn zipf(count: usize) -> Vec<f64> {
    let weights = (1..=count).map(|rank| (rank as f64).powf(-EXPONENT));
    let sums: Vec<f64> = weights
        .scan(0.0, |sum, weight| {
            *sum += weight;
            Some(*sum)
        })
        .collect();
    let total = sums.last().copied().unwrap_or(1.0);
    sums.into_iter().map(|sum| sum / total).collect()
}

/// xorshift64.
fn next(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

/// `count` reads of one thread; their latencies.
fn read(
    file: &dyn In,
    shares: &[f64],
    block: usize,
    seed: u64,
    count: usize,
    buffer: &mut [u8],
) -> Result<Vec<u32>> {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64.wrapping_mul(seed) | 1;
    let mut latencies = Vec::with_capacity(count);
    for _ in 0..count {
        let share = (next(&mut state) >> 11) as f64 / (1_u64 << 53) as f64;
        let rank = shares.partition_point(|sum| *sum < share).min(shares.len() - 1);
        let at = (rank * SCATTER % shares.len() * block) as u64;
        let len = if next(&mut state) % 100 < PAGES { PAGE_BYTES } else { SMALL_BYTES };
        let place = at + next(&mut state) % (block - len + 1) as u64;
        let buffer = buffer.get_mut(..len).unwrap_or_default();
        timed(&mut latencies, || file.pread(place, buffer))?;
    }
    Ok(latencies)
}

/// `count` reads by each of `threads` threads from one open file of `blocks` blocks of `block`
/// bytes.
pub(crate) fn run(fs: &dyn Fs, command: &Command) -> Result<Json> {
    let (count, blocks) = (command.size("count")?, command.size("blocks")?.max(1));
    let block = command.size("block")?;
    let threads = command.number_or("threads", 1)?.clamp(1, 1024) as usize;
    let file: Arc<dyn In> = Arc::from(fs.open(command.text("path")?)?);
    if block < PAGE_BYTES || file.len() < (blocks * block) as u64 {
        return Err(format!("{blocks} blocks of {block} bytes are not in {} bytes", file.len()));
    }
    let shares = zipf(blocks);
    let mut buffers = vec![vec![1; PAGE_BYTES]; threads];
    // Connections and locations are there before the measured part.
    let warm = count.div_ceil(10);
    measured(&mut buffers, |i, buffer| read(&*file, &shares, block, !(i as u64), warm, buffer))?;
    let before = fs.connects();
    let (meter, latencies) = measured(&mut buffers, |i, buffer| {
        read(&*file, &shares, block, i as u64 + 1, count, buffer)
    })?;
    let bytes = (PAGES as usize * PAGE_BYTES + (100 - PAGES as usize) * SMALL_BYTES) / 100;
    let mut answer = meter.stop("ycsb", (count * threads) as u64, bytes as u64, latencies);
    if let (Json::Object(members), Some(before), Some(after)) = (&mut answer, before, fs.connects())
    {
        members.push(("connects".to_owned(), ((after - before) as f64).into()));
    }
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_follow_zipf_and_sum_up() {
        let shares = zipf(1000);
        assert!((shares[999] - 1.0).abs() < 1e-9);
        assert!(shares.windows(2).all(|pair| pair[0] < pair[1]));
        // The first of 1,000 gets 13 %, the first ten 39 %.
        assert!((0.12..0.14).contains(&shares[0]), "{}", shares[0]);
        assert!((0.36..0.41).contains(&shares[9]), "{}", shares[9]);
    }
}
