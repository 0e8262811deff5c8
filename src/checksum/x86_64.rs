//! CRC-32C of several equally long chunks at once with the SSE 4.2 instruction.
//!
//! The instruction takes 8 bytes a cycle but needs 3 cycles for its result, so one chain runs at a
//! third of the possible speed. Neighbouring chunks are independent chains, need no combination
//! afterwards, and are exactly what a packet consists of.
use std::arch::x86_64::{_mm_crc32_u8, _mm_crc32_u64};

/// Chunks in flight: the latency of the instruction, in cycles, on every CPU that has it.
const LANES: usize = 3;

/// Whether this CPU has SSE 4.2; one cached load.
#[inline]
pub(super) fn available() -> bool {
    std::arch::is_x86_feature_detected!("sse4.2")
}

/// Calls `each` with the CRC-32C of every `chunk_len` bytes of `data` in order, the last chunk may
/// be short, until it returns false; true if none did. `chunk_len` is not 0, and [`available`].
#[inline]
pub(super) fn for_each_crc32c(
    chunk_len: usize,
    data: &[u8],
    mut each: impl FnMut(u32) -> bool,
) -> bool {
    debug_assert!(available());
    let group_len = chunk_len.saturating_mul(LANES);
    let mut groups = data.chunks_exact(group_len);
    for group in groups.by_ref() {
        let (a, rest) = group.split_at(chunk_len);
        let (b, c) = rest.split_at(chunk_len);
        // SAFETY: the caller found SSE 4.2 with `available`.
        let sums = unsafe { crc32c_lanes([a, b, c]) };
        if !sums.into_iter().all(&mut each) {
            return false;
        }
    }
    let mut rest = groups.remainder();
    if rest.len() >= chunk_len.saturating_mul(2) {
        let (pair, tail) = rest.split_at(chunk_len * 2);
        let (a, b) = pair.split_at(chunk_len);
        // SAFETY: the caller found SSE 4.2 with `available`.
        let sums = unsafe { crc32c_lanes([a, b]) };
        if !sums.into_iter().all(&mut each) {
            return false;
        }
        rest = tail;
    }
    rest.chunks(chunk_len).all(|chunk| each(crc32c::crc32c(chunk)))
}

/// CRC-32C of `N` slices of one length. The slices are read within their own bounds whatever the
/// lengths; unequal ones would only give sums of their common prefix.
///
/// # Safety
/// The CPU has SSE 4.2.
#[target_feature(enable = "sse4.2")]
fn crc32c_lanes<const N: usize>(chunks: [&[u8]; N]) -> [u32; N] {
    debug_assert!(chunks.iter().all(|c| c.len() == chunks[0].len()));
    let parts = chunks.map(|chunk| chunk.as_chunks::<8>());
    let words = parts.iter().map(|(words, _)| words.len()).min().unwrap_or(0);
    // Slices of one known length let the loop below run without bounds checks.
    let heads = parts.map(|(words_of_lane, _)| &words_of_lane[..words]);
    let mut crcs = [u64::from(u32::MAX); N];
    for i in 0..words {
        for (crc, head) in crcs.iter_mut().zip(&heads) {
            *crc = _mm_crc32_u64(*crc, u64::from_le_bytes(head[i]));
        }
    }
    let mut sums = crcs.map(|crc| crc as u32);
    for (sum, (_, tail)) in sums.iter_mut().zip(&parts) {
        for byte in *tail {
            *sum = _mm_crc32_u8(*sum, *byte);
        }
    }
    sums.map(|sum| !sum)
}
