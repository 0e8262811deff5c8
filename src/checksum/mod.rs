//! Chunk checksums: CRC-32 and CRC-32C of each `dfs.bytes-per-checksum` bytes.
//!
//! Nothing here allocates, blocks or keeps state. On x86_64 CRC-32C of several chunks is computed
//! in one pass (`x86_64.rs`), since a 512-byte chunk alone leaves the CPU waiting for the latency
//! of its CRC instruction; one running value, CRC-32 and other CPUs go through the crates
//! `crc32c` and `crc32fast`, which choose instructions or tables at run time.
//! `benches/checksum.rs` compares the candidates.
mod combine;
#[cfg(test)]
mod tests;
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code, reason = "calls a function that needs SSE 4.2, after the check for it")]
mod x86_64;

/// Bytes of one stored sum, whatever its type (types without sums take none).
const SUM_BYTES: usize = 4;

/// Checksum type; the ids are those of the wire and of the block meta file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ChecksumType {
    /// No checksums.
    Null = 0,
    /// zlib's CRC-32.
    Crc32 = 1,
    /// CRC-32C (Castagnoli).
    Crc32c = 2,
}

impl ChecksumType {
    /// Bytes that one chunk's sum takes on the wire: 4, or 0 without checksums.
    pub fn sum_len(self) -> usize {
        match self {
            ChecksumType::Null => 0,
            ChecksumType::Crc32 | ChecksumType::Crc32c => SUM_BYTES,
        }
    }

    /// The type of a wire or meta-file id; `None` for ids that Hadoop does not write to files.
    pub fn from_id(id: u32) -> Option<ChecksumType> {
        // Hadoop 3.4 DataChecksum.Type: 3 and 4 (DEFAULT, MIXED) never describe one block's data.
        match id {
            0 => Some(ChecksumType::Null),
            1 => Some(ChecksumType::Crc32),
            2 => Some(ChecksumType::Crc32c),
            _ => None,
        }
    }

    /// The id on the wire (`ChecksumTypeProto`) and in the meta file.
    pub fn id(self) -> u32 {
        self as u32
    }

    /// The name in `dfs.checksum.type`: `NULL`, `CRC32` or `CRC32C`.
    pub fn name(self) -> &'static str {
        match self {
            ChecksumType::Null => "NULL",
            ChecksumType::Crc32 => "CRC32",
            ChecksumType::Crc32c => "CRC32C",
        }
    }
}

/// Continues the finalised value `crc` of earlier bytes over `data`; start with 0, so
/// `update(ty, 0, whole)` is the CRC of `whole`. `Null` gives 0.
#[inline]
pub fn update(ty: ChecksumType, crc: u32, data: &[u8]) -> u32 {
    match ty {
        ChecksumType::Null => 0,
        ChecksumType::Crc32 => {
            let mut hasher = crc32fast::Hasher::new_with_initial(crc);
            hasher.update(data);
            hasher.finalize()
        }
        ChecksumType::Crc32c => crc32c::crc32c_append(crc, data),
    }
}

/// CRC of bytes A followed by B from the CRCs of both and the byte length of B. `Null` gives 0.
pub fn combine(ty: ChecksumType, crc_a: u32, crc_b: u32, len_b: u64) -> u32 {
    match ty {
        ChecksumType::Null => 0,
        ChecksumType::Crc32 => combine::CRC32.combine(crc_a, crc_b, len_b),
        ChecksumType::Crc32c => combine::CRC32C.combine(crc_a, crc_b, len_b),
    }
}

/// Writes the big-endian sum of each `bytes_per_checksum` bytes of `data` (the last chunk may be
/// short) to `sums`, which holds exactly `sum_len` bytes per chunk.
///
/// A `sums` that is too short receives the sums that fit; one that is too long keeps its rest, and
/// `bytes_per_checksum` 0 writes nothing. These are caller errors, which debug builds assert.
pub fn sum_chunks(ty: ChecksumType, bytes_per_checksum: usize, data: &[u8], sums: &mut [u8]) {
    if ty == ChecksumType::Null {
        return;
    }
    debug_assert!(bytes_per_checksum > 0, "bytes per checksum is 0");
    debug_assert_eq!(Some(sums.len()), sums_len(bytes_per_checksum, data.len()), "length of sums");
    let (slots, _) = sums.as_chunks_mut::<SUM_BYTES>();
    let mut slots = slots.iter_mut();
    for_each_sum(ty, bytes_per_checksum, data, |crc| match slots.next() {
        Some(slot) => {
            *slot = crc.to_be_bytes();
            true
        }
        None => false,
    });
}

/// Compares each chunk of `data` with its stored sum; same layout as [`sum_chunks`].
///
/// # Errors
/// The index of the first chunk that does not match or that `sums` has no sum for. Surplus sums
/// are ignored. `bytes_per_checksum` 0 fails with index 0 unless `data` is empty.
pub fn verify_chunks(
    ty: ChecksumType,
    bytes_per_checksum: usize,
    data: &[u8],
    sums: &[u8],
) -> Result<(), usize> {
    if ty == ChecksumType::Null || data.is_empty() {
        return Ok(());
    }
    if bytes_per_checksum == 0 {
        return Err(0);
    }
    let mut good_chunks = 0;
    let (slots, _) = sums.as_chunks::<SUM_BYTES>();
    let mut slots = slots.iter();
    let done = for_each_sum(ty, bytes_per_checksum, data, |crc| match slots.next() {
        Some(slot) if *slot == crc.to_be_bytes() => {
            good_chunks += 1;
            true
        }
        _ => false,
    });
    if done { Ok(()) } else { Err(good_chunks) }
}

/// Bytes of the sums of `data_len` bytes; `None` for a chunk size of 0 or on overflow.
fn sums_len(bytes_per_checksum: usize, data_len: usize) -> Option<usize> {
    if bytes_per_checksum == 0 {
        return None;
    }
    data_len.div_ceil(bytes_per_checksum).checked_mul(SUM_BYTES)
}

/// Calls `each` with the sum of every chunk in order until it returns false; true if none did.
/// A chunk size of 0 has no chunks.
#[inline]
fn for_each_sum(
    ty: ChecksumType,
    bytes_per_checksum: usize,
    data: &[u8],
    mut each: impl FnMut(u32) -> bool,
) -> bool {
    if bytes_per_checksum == 0 {
        return true;
    }
    #[cfg(target_arch = "x86_64")]
    if ty == ChecksumType::Crc32c && x86_64::available() {
        return x86_64::for_each_crc32c(bytes_per_checksum, data, each);
    }
    data.chunks(bytes_per_checksum).all(|chunk| each(update(ty, 0, chunk)))
}
