//! Reads that meet no fault.
use super::scripted::{Rig, limit};
use crate::checksum::ChecksumType;
use crate::error::Status;
use crate::read::{InputStream, ReadOptions};
use crate::time::Deadline;
use std::sync::Arc;
use std::sync::atomic::Ordering;

#[test]
fn any_range_by_pread_and_all_of_it_by_read() {
    let rig = Rig::new(700_000, 262_144, 1);
    let stream = rig.open();
    assert_eq!(stream.len(), 700_000);
    let ranges = [
        (0, 1),
        (0, 4096),
        (4096, 4096),
        (511, 2),
        (100, 5000),
        (1, 700_000),
        (262_143, 2),
        (262_144, 262_144),
        (131_072, 65_536),
        (131_073, 65_535),
        (699_999, 1),
        (699_000, 5000),
        (600_000, 200_000),
        (65_000, 70_000),
    ];
    for (offset, len) in ranges {
        let mut buf = vec![0xaa; len];
        let n = stream.pread(offset, &mut buf, limit()).unwrap();
        let end = (offset as usize + len).min(700_000);
        assert_eq!(n, end - offset as usize, "{offset}+{len}");
        assert!(buf[..n] == rig.data[offset as usize..end], "{offset}+{len}");
        assert!(buf[n..].iter().all(|b| *b == 0xaa));
    }
    for step in [1 << 20, 65_536, 65_535, 4096, 777, 100] {
        stream.seek(0).unwrap();
        assert!(rig.read_all(&stream, step).unwrap() == rig.data, "{step}");
        assert_eq!((stream.tell(), stream.available()), (700_000, 0));
    }
    let statuses = rig.nodes[0].wait_statuses(rig.nodes[0].requests());
    assert!(statuses.iter().all(|s| *s == 6), "CHECKSUM_OK each time: {statuses:?}");
    // The next block is asked for while the current one is read.
    assert!(rig.nodes[0].connections() <= 2);
}

#[test]
fn odd_chunk_sizes_packet_sizes_and_checksum_types() {
    let all = [ChecksumType::Crc32, ChecksumType::Crc32c, ChecksumType::Null];
    for (chunk, packet) in
        [(512, 512), (512, 1024), (100, 700), (1, 3), (4096, 8192), (65_536, 1 << 20)]
    {
        for ty in all {
            let rig = Rig::new(20_001, 9_999, 1);
            {
                let mut script = rig.nodes[0].script.lock().unwrap();
                (script.chunk, script.packet_bytes, script.checksum) = (chunk, packet, ty);
            }
            let stream = rig.open();
            for (offset, len) in [(0, 20_001), (1, 20_000), (5_000, 101), (9_998, 3), (99, 2)] {
                let mut buf = vec![0; len];
                assert_eq!(stream.pread(offset, &mut buf, limit()).unwrap(), len);
                assert!(buf == rig.data[offset as usize..offset as usize + len]);
            }
            for step in [7, 512, 5_000, 30_000] {
                stream.seek(0).unwrap();
                assert!(rig.read_all(&stream, step).unwrap() == rig.data, "{chunk} {packet}");
            }
        }
    }
}

#[test]
fn senseless_ranges() {
    let rig = Rig::new(1000, 1000, 1);
    let stream = rig.open();
    let mut buf = [0; 16];
    assert_eq!(stream.pread(1000, &mut buf, limit()).unwrap(), 0);
    assert_eq!(stream.pread(u64::MAX, &mut buf, limit()).unwrap(), 0);
    assert_eq!(stream.pread(u64::MAX - 3, &mut buf, limit()).unwrap(), 0);
    assert_eq!(stream.pread(5, &mut [], limit()).unwrap(), 0);
    assert_eq!(stream.read(&mut [], limit()).unwrap(), 0);
    assert_eq!(stream.preadv(&mut [], limit()).unwrap(), Vec::<usize>::new());
    assert_eq!(stream.seek(1001).unwrap_err().status(), Status::OutOfRange);
    assert_eq!(stream.seek(u64::MAX).unwrap_err().status(), Status::OutOfRange);
    stream.seek(1000).unwrap();
    assert_eq!(stream.read(&mut buf, limit()).unwrap(), 0);
    assert_eq!(rig.nodes[0].requests(), 0);
    let late = Deadline::after_ms(1);
    std::thread::sleep(std::time::Duration::from_millis(3));
    let error = stream.pread(0, &mut buf, late).unwrap_err();
    assert_eq!(error.status(), Status::TimedOut);
    stream.close();
    assert_eq!(stream.pread(0, &mut buf, limit()).unwrap_err().status(), Status::Closed);
    assert_eq!(stream.read(&mut buf, limit()).unwrap_err().status(), Status::Closed);
    assert_eq!(stream.seek(0).unwrap_err().status(), Status::Closed);
}

#[test]
fn seeks_skip_when_near_and_reconnect_when_far() {
    let rig = Rig::new(1 << 20, 1 << 20, 1);
    let stream = rig.open();
    let mut buf = vec![0; 1000];
    let mut check = |at: u64| {
        stream.seek(at).unwrap();
        assert_eq!(stream.read(&mut buf, limit()).unwrap(), 1000);
        assert!(buf == rig.data[at as usize..at as usize + 1000], "{at}");
    };
    for at in [0, 1000, 50_000, 65_535, 66_800, 190_000, 320_000, 321_001] {
        check(at);
    }
    assert_eq!(rig.nodes[0].requests(), 1);
    check(600_000);
    assert_eq!(rig.nodes[0].requests(), 2);
    check(100);
    assert_eq!(rig.nodes[0].requests(), 3);
    // Near the end of the block the rest is drained, and the connection lives on.
    check(950_000);
    let connections = rig.nodes[0].connections();
    check(0);
    assert_eq!(rig.nodes[0].connections(), connections);
    let statuses = rig.nodes[0].wait_statuses(1);
    assert_eq!(statuses, [0], "SUCCESS: not every checksum was looked at");
}

#[test]
fn preads_share_connections_and_run_beside_read() {
    let rig = Rig::new(1 << 20, 300_000, 2);
    let stream = rig.open();
    std::thread::scope(|scope| {
        for t in 0..8_usize {
            let (stream, rig) = (&stream, &rig);
            scope.spawn(move || {
                let mut buf = vec![0; 5000];
                for i in 0..100_usize {
                    let at = (t * 131_071 + i * 77_773) % ((1 << 20) - 5000);
                    assert_eq!(stream.pread(at as u64, &mut buf, limit()).unwrap(), 5000);
                    assert!(buf == rig.data[at..at + 5000]);
                }
            });
        }
        assert!(rig.read_all(&stream, 10_000).unwrap() == rig.data);
    });
    let stats = rig.ctx.peers.stats();
    // Eight readers, and a sequential one that asks early for its next block.
    assert!(rig.nodes[0].connections() <= 10, "{}", rig.nodes[0].connections());
    assert!(stats.hits > 700 && stats.stale == 0, "{stats:?}");
    assert_eq!(rig.nodes[1].connections(), 0);
}

#[test]
fn near_ranges_are_fetched_together() {
    let rig = Rig::new(600_000, 300_000, 1);
    let stream = rig.open();
    let wanted: [(u64, usize); 7] = [
        (250_000, 100),
        (0, 1000),
        (1000, 24),
        (60_000, 10_000),
        (299_990, 20),
        (599_000, 5000),
        (700_000, 10),
    ];
    let mut memory: Vec<Vec<u8>> = wanted.iter().map(|(_, n)| vec![0; *n]).collect();
    let mut ranges: Vec<(u64, &mut [u8])> =
        wanted.iter().zip(&mut memory).map(|((at, _), m)| (*at, &mut m[..])).collect();
    let counts = stream.preadv(&mut ranges, limit()).unwrap();
    assert_eq!(counts, [100, 1000, 24, 10_000, 20, 1000, 0]);
    for ((at, _), (memory, n)) in wanted.iter().zip(memory.iter().zip(counts)) {
        let at = (*at as usize).min(600_000);
        assert!(memory[..n] == rig.data[at..at + n], "{at}");
    }
    // 0..70000, 250000..300000, 300000..300010, 599000..600000.
    assert_eq!(rig.nodes[0].requests(), 4);
    // Overlapping ranges are separate requests, and right.
    let (mut a, mut b) = ([0; 1000], [0; 1000]);
    stream.preadv(&mut [(500, &mut a[..]), (600, &mut b[..])], limit()).unwrap();
    assert!(a == rig.data[500..1500] && b == rig.data[600..1600]);
}

#[test]
fn without_verification_no_checksums_travel() {
    let rig = Rig::new(100_000, 100_000, 1);
    let options =
        ReadOptions { verify_checksum: false, readahead: Some(1 << 20), drop_behind: Some(true) };
    let stream = InputStream::open(Arc::clone(&rig.ctx), "/f", options, limit()).unwrap();
    let mut buf = vec![0; 5000];
    stream.pread(77, &mut buf, limit()).unwrap();
    assert!(buf == rig.data[77..5077]);
    let request = rig.nodes[0].seen.lock().unwrap()[0].request.clone();
    assert_eq!(request.send_checksums, Some(false));
    let strategy = request.caching_strategy.unwrap();
    assert_eq!((strategy.readahead, strategy.drop_behind), (Some(1 << 20), Some(true)));
    assert_eq!(request.header.client_name, "DFSClient_test");
    stream.set_readahead(None);
    stream.set_drop_behind(None);
    stream.pread(77, &mut buf, limit()).unwrap();
    let strategy = rig.nodes[0].seen.lock().unwrap()[1].request.caching_strategy.unwrap();
    assert_eq!((strategy.readahead, strategy.drop_behind), (None, None));
    assert_eq!(rig.nodes[0].wait_statuses(2), [0, 0]);
}

#[test]
fn locations_come_in_ranges_on_demand() {
    let rig = Rig::with(
        1_000_000,
        100_000,
        1,
        |names| names.by_range = true,
        |config| config.read_prefetch_bytes = 250_000,
    );
    let stream = rig.open();
    let calls = || rig.names.calls.load(Ordering::SeqCst);
    assert_eq!(calls(), 1);
    let mut buf = vec![0; 1000];
    stream.pread(290_000, &mut buf, limit()).unwrap();
    assert_eq!(calls(), 1);
    stream.pread(500_000, &mut buf, limit()).unwrap();
    stream.pread(510_000, &mut buf, limit()).unwrap();
    stream.pread(700_000, &mut buf, limit()).unwrap();
    assert_eq!(calls(), 2);
    assert!(rig.read_all(&stream, 50_000).unwrap() == rig.data);
}

/// Opening asks for the first blocks only, and later reads for what they need: neither grows with
/// the file.
#[test]
fn a_file_of_100000_blocks_costs_one_call_to_open_and_one_for_each_far_read() {
    let rig = Rig::with(
        100_000,
        1,
        1,
        |names| names.by_range = true,
        |config| config.read_prefetch_bytes = 10,
    );
    let stream = rig.open();
    let calls = || rig.names.calls.load(Ordering::SeqCst);
    assert_eq!((calls(), stream.len()), (1, 100_000));
    let mut byte = [0];
    for i in 1..=20 {
        let at = i * 4_999;
        assert_eq!(stream.pread(at as u64, &mut byte, limit()).unwrap(), 1);
        assert_eq!(byte[0], rig.data[at]);
        assert_eq!(calls(), 1 + i);
    }
    // The last byte, then again what is known already.
    assert_eq!(stream.pread(99_999, &mut byte, limit()).unwrap(), 1);
    let known = calls();
    assert_eq!(stream.pread(4_999, &mut byte, limit()).unwrap(), 1);
    assert_eq!(calls(), known);
}
