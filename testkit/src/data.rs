//! Reproducible file content and SHA-256, so that a test can check any range of a file without
//! keeping it.
//!
//! The byte at offset `o` of the file with seed `s` is byte `o % 8` (least significant first) of
//! `mix(s + (o / 8 + 1) * 0x9E3779B97F4A7C15)`, where `mix` is SplitMix64's output function and
//! all arithmetic wraps at 64 bits. `testkit/hadoop/java/io/libdfs/testkit/Content.java` is the
//! same in Java.

const GAMMA: u64 = 0x9E37_79B9_7F4A_7C15;

fn word(seed: u64, index: u64) -> u64 {
    let mut z = seed.wrapping_add(index.wrapping_add(1).wrapping_mul(GAMMA));
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// Fills `buffer` with the content of `seed` from file offset `offset` (bytes).
pub fn fill(seed: u64, offset: u64, buffer: &mut [u8]) {
    let skip = (offset % 8) as usize;
    let mut index = offset / 8;
    let (head, rest) = buffer.split_at_mut(((8 - skip) % 8).min(buffer.len()));
    if !head.is_empty() {
        let bytes = word(seed, index).to_le_bytes();
        for (to, from) in head.iter_mut().zip(bytes.iter().skip(skip)) {
            *to = *from;
        }
        index += 1;
    }
    for part in rest.chunks_mut(8) {
        for (to, from) in part.iter_mut().zip(word(seed, index).to_le_bytes()) {
            *to = from;
        }
        index += 1;
    }
}

/// `length` bytes of the content of `seed` from file offset `offset`.
pub fn bytes(seed: u64, offset: u64, length: usize) -> Vec<u8> {
    let mut buffer = vec![0; length];
    fill(seed, offset, &mut buffer);
    buffer
}

/// The file offset of the first byte of `buffer` (read at `offset`) that differs from the content
/// of `seed`, or `None` when all are right.
pub fn mismatch(seed: u64, offset: u64, buffer: &[u8]) -> Option<u64> {
    let expected = bytes(seed, offset, buffer.len());
    let index = buffer.iter().zip(&expected).position(|(a, b)| a != b)?;
    Some(offset + index as u64)
}

/// The lower-case hexadecimal SHA-256 of the content of `seed` from `offset`, `length` bytes.
pub fn content_sha256(seed: u64, offset: u64, length: u64) -> String {
    const STEP_BYTES: u64 = 64 * 1024;
    let mut digest = Sha256::new();
    let mut at = 0;
    while at < length {
        let step = STEP_BYTES.min(length - at);
        digest.update(&bytes(seed, offset + at, step as usize));
        at += step;
    }
    digest.finish()
}

/// The lower-case hexadecimal SHA-256 of `data`.
pub fn sha256(data: &[u8]) -> String {
    let mut digest = Sha256::new();
    digest.update(data);
    digest.finish()
}

/// SHA-256 (FIPS 180-4) over data that comes in pieces; for tests, not for speed.
pub struct Sha256 {
    state: [u32; 8],
    pending: Vec<u8>,
    length_bytes: u64,
}

#[rustfmt::skip]
const ROUND_CONSTANTS: [u32; 64] = [
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
];

impl Default for Sha256 {
    fn default() -> Self {
        Self::new()
    }
}

impl Sha256 {
    /// An empty digest.
    pub fn new() -> Self {
        let state = [
            0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab,
            0x5be0cd19,
        ];
        Self { state, pending: Vec::new(), length_bytes: 0 }
    }

    /// Adds `data`.
    pub fn update(&mut self, data: &[u8]) {
        self.length_bytes = self.length_bytes.wrapping_add(data.len() as u64);
        self.pending.extend_from_slice(data);
        let pending = std::mem::take(&mut self.pending);
        let (blocks, rest) = pending.as_chunks::<64>();
        for block in blocks {
            self.block(block);
        }
        self.pending = rest.to_vec();
    }

    /// The digest in lower-case hexadecimal.
    pub fn finish(mut self) -> String {
        let bits = self.length_bytes.wrapping_mul(8);
        let mut end = vec![0x80u8];
        while (self.pending.len() + end.len()) % 64 != 56 {
            end.push(0);
        }
        end.extend_from_slice(&bits.to_be_bytes());
        self.update(&end);
        self.state.iter().map(|word| format!("{word:08x}")).collect()
    }

    fn block(&mut self, block: &[u8; 64]) {
        let mut w = [0u32; 64];
        for (word, bytes) in w.iter_mut().zip(block.as_chunks::<4>().0) {
            *word = u32::from_be_bytes(*bytes);
        }
        for i in 16..64 {
            let (x, y) = (w[i - 15], w[i - 2]);
            let s0 = x.rotate_right(7) ^ x.rotate_right(18) ^ (x >> 3);
            let s1 = y.rotate_right(17) ^ y.rotate_right(19) ^ (y >> 10);
            w[i] = w[i - 16].wrapping_add(s0).wrapping_add(w[i - 7]).wrapping_add(s1);
        }
        let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = self.state;
        for (word, constant) in w.iter().zip(ROUND_CONSTANTS) {
            let s1 = e.rotate_right(6) ^ e.rotate_right(11) ^ e.rotate_right(25);
            let choice = (e & f) ^ (!e & g);
            let t1 =
                h.wrapping_add(s1).wrapping_add(choice).wrapping_add(constant).wrapping_add(*word);
            let s0 = a.rotate_right(2) ^ a.rotate_right(13) ^ a.rotate_right(22);
            let majority = (a & b) ^ (a & c) ^ (b & c);
            (h, g, f, e) = (g, f, e, d.wrapping_add(t1));
            (d, c, b, a) = (c, b, a, t1.wrapping_add(s0.wrapping_add(majority)));
        }
        for (state, add) in self.state.iter_mut().zip([a, b, c, d, e, f, g, h]) {
            *state = state.wrapping_add(add);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_range_equals_the_slice_of_the_whole() {
        let whole = bytes(7, 0, 100);
        for start in 0..40 {
            for length in 0..40 {
                assert_eq!(bytes(7, start as u64, length), whole[start..start + length]);
            }
        }
        assert_ne!(whole, bytes(8, 0, 100));
    }

    #[test]
    fn mismatch_names_the_file_offset() {
        let mut range = bytes(3, 13, 50);
        assert_eq!(mismatch(3, 13, &range), None);
        range[20] ^= 1;
        assert_eq!(mismatch(3, 13, &range), Some(33));
    }

    #[test]
    fn sha256_of_the_published_examples() {
        assert_eq!(sha256(b""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
        assert_eq!(
            sha256(b"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"
        );
        assert_eq!(content_sha256(5, 9, 200_000), sha256(&bytes(5, 9, 200_000)));
    }
}
