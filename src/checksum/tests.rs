use super::ChecksumType::{Crc32, Crc32c, Null};
use super::*;

/// Bit by bit, straight from the definition.
fn reference(ty: ChecksumType, data: &[u8]) -> u32 {
    let polynomial = match ty {
        Null => return 0,
        Crc32 => 0xEDB8_8320_u32,
        Crc32c => 0x82F6_3B78,
    };
    let mut crc = u32::MAX;
    for &byte in data {
        crc ^= u32::from(byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ polynomial } else { crc >> 1 };
        }
    }
    !crc
}

fn bytes(len: usize) -> Vec<u8> {
    let mut state = 0x9E37_79B9_u32;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state as u8
    };
    (0..len).map(|_| next()).collect()
}

fn sums(ty: ChecksumType, bytes_per_checksum: usize, data: &[u8]) -> Vec<u8> {
    let mut sums = vec![0xAA; data.len().div_ceil(bytes_per_checksum) * ty.sum_len()];
    sum_chunks(ty, bytes_per_checksum, data, &mut sums);
    sums
}

fn reference_sums(ty: ChecksumType, bytes_per_checksum: usize, data: &[u8]) -> Vec<u8> {
    data.chunks(bytes_per_checksum).flat_map(|c| reference(ty, c).to_be_bytes()).collect()
}

#[test]
fn ids_and_names_are_hadoops() {
    for (ty, id, name, len) in
        [(Null, 0, "NULL", 0), (Crc32, 1, "CRC32", 4), (Crc32c, 2, "CRC32C", 4)]
    {
        assert_eq!((ty.id(), ty.name(), ty.sum_len()), (id, name, len));
        assert_eq!(ChecksumType::from_id(id), Some(ty));
    }
    assert_eq!(ChecksumType::from_id(3), None);
    assert_eq!(ChecksumType::from_id(u32::MAX), None);
}

#[test]
fn known_vectors() {
    assert_eq!(update(Crc32, 0, b"123456789"), 0xCBF4_3926);
    assert_eq!(update(Crc32c, 0, b"123456789"), 0xE306_9283);
    // RFC 3720 B.4.
    assert_eq!(update(Crc32c, 0, &[0; 32]), 0x8A91_36AA);
    assert_eq!(update(Crc32c, 0, &[0xFF; 32]), 0x62A8_AB43);
    let rising: Vec<u8> = (0..32).collect();
    assert_eq!(update(Crc32c, 0, &rising), 0x46DD_794E);
    assert_eq!(update(Null, 7, b"abc"), 0);
}

#[test]
fn every_short_length_at_every_alignment() {
    let data = bytes(1100 + 8);
    for ty in [Crc32, Crc32c] {
        for len in 0..=1100 {
            let at = len % 8;
            let part = &data[at..at + len];
            assert_eq!(update(ty, 0, part), reference(ty, part), "{ty:?} length {len}");
        }
    }
}

#[test]
fn running_updates_equal_the_whole() {
    let data = bytes(3000);
    for ty in [Crc32, Crc32c] {
        for step in [1, 3, 8, 100, 511, 512, 2999] {
            let crc = data.chunks(step).fold(0, |crc, part| update(ty, crc, part));
            assert_eq!(crc, reference(ty, &data), "{ty:?} step {step}");
        }
    }
}

#[test]
fn chunk_sums_for_all_tails_and_alignments() {
    let data = bytes(4200);
    for ty in [Crc32, Crc32c] {
        // 512 with 0 to 8 chunks and every kind of tail; odd sizes; sizes below one word.
        for (bpc, lens) in [
            (512, (0..4200).step_by(61).chain(510..515).chain(1535..1540).collect::<Vec<_>>()),
            (1, vec![0, 1, 2, 3, 4, 5, 6, 7]),
            (7, (0..60).collect()),
            (100, (0..700).step_by(7).collect()),
            (513, vec![0, 512, 513, 514, 1026, 1027, 1539, 1540, 4000]),
            (100_000, vec![0, 1, 4200]),
            (usize::MAX, vec![0, 1, 4200]),
        ] {
            for len in lens {
                let at = (len % 9).min(data.len() - len);
                let part = &data[at..at + len];
                let sums = sums(ty, bpc, part);
                assert_eq!(sums, reference_sums(ty, bpc, part), "{ty:?} {bpc} x {len}");
                assert_eq!(verify_chunks(ty, bpc, part, &sums), Ok(()));
            }
        }
    }
}

#[test]
fn the_first_bad_chunk_is_named() {
    for ty in [Crc32, Crc32c] {
        for chunks in 1..9 {
            let good = bytes(512 * (chunks - 1) + 300);
            let sums = sums(ty, 512, &good);
            for bad in 0..chunks {
                let mut data = good.clone();
                for byte in data.iter_mut().skip(bad * 512 + 299).step_by(512) {
                    *byte ^= 1;
                }
                assert_eq!(verify_chunks(ty, 512, &data, &sums), Err(bad));
                let mut flipped = sums.clone();
                flipped[bad * 4 + 3] ^= 0x80;
                assert_eq!(verify_chunks(ty, 512, &good, &flipped), Err(bad));
            }
        }
    }
}

#[test]
fn missing_sums_fail_and_surplus_sums_do_not() {
    let data = bytes(2048);
    let mut all = sums(Crc32c, 512, &data);
    for len in 0..16 {
        assert_eq!(verify_chunks(Crc32c, 512, &data, &all[..len]), Err(len / 4));
    }
    all.extend([1, 2, 3, 4]);
    assert_eq!(verify_chunks(Crc32c, 512, &data, &all), Ok(()));
    assert_eq!(verify_chunks(Crc32c, 512, &[], &[]), Ok(()));
    assert_eq!(verify_chunks(Crc32c, 0, &data, &all), Err(0));
    assert_eq!(verify_chunks(Crc32c, 0, &[], &[]), Ok(()));
}

#[test]
fn null_has_no_sums() {
    let data = bytes(700);
    let mut sums = [];
    sum_chunks(Null, 512, &data, &mut sums);
    assert_eq!(verify_chunks(Null, 512, &data, &sums), Ok(()));
    assert_eq!(combine(Null, 1, 2, 3), 0);
}

#[test]
#[cfg(debug_assertions)]
#[should_panic(expected = "length of sums")]
fn debug_builds_refuse_a_wrong_sums_length() {
    sum_chunks(Crc32c, 512, &[0; 1024], &mut [0; 4]);
}

#[test]
fn combine_joins_any_two_parts() {
    let data = bytes(1500);
    for ty in [Crc32, Crc32c] {
        let whole = reference(ty, &data);
        for cut in (0..=1500).step_by(50).chain([1, 7, 1499]) {
            let (a, b) = data.split_at(cut);
            let joined = combine(ty, update(ty, 0, a), update(ty, 0, b), b.len() as u64);
            assert_eq!(joined, whole, "{ty:?} cut at {cut}");
        }
    }
}

#[test]
fn combine_takes_lengths_beyond_32_bits() {
    // Joining A with B and then C equals joining A with BC, for lengths that no buffer could have.
    for ty in [Crc32, Crc32c] {
        let (a, b, c) = (0x1234_5678, 0x9ABC_DEF0, 0x0F1E_2D3C);
        for (len_b, len_c) in [(1 << 33, 3), (5, 1 << 40), ((1 << 62) + 12_345, (1 << 62) + 1)] {
            let left = combine(ty, combine(ty, a, b, len_b), c, len_c);
            let right = combine(ty, a, combine(ty, b, c, len_c), len_b + len_c);
            assert_eq!(left, right, "{ty:?} {len_b} {len_c}");
        }
    }
}

#[test]
#[cfg(target_arch = "x86_64")]
fn the_lanes_agree_with_the_crate() {
    if !x86_64::available() {
        // Nothing to compare on such a CPU: the crate is what runs.
        return;
    }
    let data = bytes(2000);
    for len in [0, 1, 8, 9, 100, 512, 513] {
        let chunk = |i: usize| &data[i * 600..i * 600 + len];
        let mut found = Vec::new();
        let joined = [chunk(0), chunk(1), chunk(2)].concat();
        if len > 0 {
            assert!(x86_64::for_each_crc32c(len, &joined, |crc| {
                found.push(crc);
                true
            }));
            assert_eq!(found, (0..3).map(|i| crc32c::crc32c(chunk(i))).collect::<Vec<_>>());
        }
    }
}
