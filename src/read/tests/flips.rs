//! No single wrong bit from a DataNode ever becomes a wrong byte for the caller.
use super::scripted::{Fault, Rig, limit};
use std::sync::atomic::Ordering;

/// Bytes of the file: three packets, the last one ends in a partial chunk.
const LEN: usize = 2500;

fn flip_all(wanted: std::ops::Range<usize>, bytes: impl Iterator<Item = usize>) -> u64 {
    // Nobody avoids the node that lied before.
    let rig = Rig::with(LEN, LEN, 2, |_| {}, |config| config.dead_node_ms = 0);
    rig.nodes[0].script.lock().unwrap().packet_bytes = 1024;
    for byte in bytes {
        for bit in 0..8 {
            rig.nodes[0].fail(Fault::Flip(byte, bit), 1);
            let stream = rig.open();
            let mut buf = vec![0; wanted.len()];
            let n = stream.pread(wanted.start as u64, &mut buf, limit()).unwrap();
            assert_eq!(n, wanted.len(), "bit {bit} of byte {byte}");
            assert!(buf == rig.data[wanted.clone()], "bit {bit} of byte {byte}");
            // A connection with bytes that nobody asked for must not be used again.
            rig.ctx.peers.clear();
        }
    }
    rig.ctx.stats.failovers.load(Ordering::Relaxed)
}

#[test]
fn flips_in_the_response_and_the_headers() {
    // The response, and header and checksums of the first packet.
    let count = flip_all(0..LEN, 0..80);
    assert!(count >= 300, "most flips must be noticed: {count}");
    // Around the second packet's header, the third one's and the trailer.
    flip_all(700..LEN - 10, (1070..1130).chain(2120..2180).chain(2610..2680));
}

#[test]
fn flips_in_data_and_checksums() {
    let count = flip_all(100..2400, (50..2700).step_by(61));
    assert!(count >= 200, "{count}");
}
