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
    each: impl FnMut(u32) -> bool,
) -> bool {
    assert!(available());
    // SAFETY: the CPU has SSE 4.2, as just asserted.
    unsafe { for_each_group(chunk_len, data, each) }
}

/// The loop of [`for_each_crc32c`], compiled as one function with the lanes.
///
/// # Safety
/// The CPU has SSE 4.2.
#[target_feature(enable = "sse4.2")]
fn for_each_group(chunk_len: usize, data: &[u8], mut each: impl FnMut(u32) -> bool) -> bool {
    let mut groups = data.chunks_exact(chunk_len.saturating_mul(LANES));
    for group in groups.by_ref() {
        let (a, rest) = group.split_at(chunk_len);
        let (b, c) = rest.split_at(chunk_len);
        let [a, b, c] = crc32c_lanes(a, b, c);
        if !(each(a) && each(b) && each(c)) {
            return false;
        }
    }
    let mut rest = groups.remainder();
    if rest.len() >= chunk_len.saturating_mul(2) {
        let (a, after) = rest.split_at(chunk_len);
        let (b, tail) = after.split_at(chunk_len);
        // Two chains take as long as three, so the third lane may repeat one.
        let [a, b, _] = crc32c_lanes(a, b, b);
        if !(each(a) && each(b)) {
            return false;
        }
        rest = tail;
    }
    rest.chunks(chunk_len).all(|chunk| each(crc32c::crc32c(chunk)))
}

/// CRC-32C of three slices of one length.
///
/// # Safety
/// The CPU has SSE 4.2.
#[target_feature(enable = "sse4.2")]
#[inline]
fn crc32c_lanes(a: &[u8], b: &[u8], c: &[u8]) -> [u32; LANES] {
    debug_assert!(a.len() == b.len() && b.len() == c.len());
    let mut crcs = [u64::from(u32::MAX); LANES];
    // Zipped arrays of fixed size: no bounds check is left in the loop, and it is unrolled.
    let (a_blocks, a_rest) = a.as_chunks::<64>();
    let (b_blocks, b_rest) = b.as_chunks::<64>();
    let (c_blocks, c_rest) = c.as_chunks::<64>();
    for ((a, b), c) in a_blocks.iter().zip(b_blocks).zip(c_blocks) {
        crcs = crc32c_words(crcs, a, b, c);
    }
    crcs = crc32c_words(crcs, a_rest, b_rest, c_rest);
    let mut sums = crcs.map(|crc| crc as u32);
    for (sum, rest) in sums.iter_mut().zip([a_rest, b_rest, c_rest]) {
        for byte in rest.as_chunks::<8>().1 {
            *sum = _mm_crc32_u8(*sum, *byte);
        }
    }
    sums.map(|sum| !sum)
}

/// Continues three raw (not inverted) values over the whole 8-byte words of three slices.
///
/// # Safety
/// The CPU has SSE 4.2.
#[target_feature(enable = "sse4.2")]
#[inline]
fn crc32c_words(crcs: [u64; LANES], a: &[u8], b: &[u8], c: &[u8]) -> [u64; LANES] {
    let [mut crc_a, mut crc_b, mut crc_c] = crcs;
    let words = a.as_chunks::<8>().0.iter().zip(b.as_chunks::<8>().0).zip(c.as_chunks::<8>().0);
    for ((a, b), c) in words {
        crc_a = _mm_crc32_u64(crc_a, u64::from_le_bytes(*a));
        crc_b = _mm_crc32_u64(crc_b, u64::from_le_bytes(*b));
        crc_c = _mm_crc32_u64(crc_c, u64::from_le_bytes(*c));
    }
    [crc_a, crc_b, crc_c]
}
