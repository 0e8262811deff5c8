//! Writing, reading and naming files.
use std::io::{Read, Write};
use std::time::{Duration, Instant};

use dfs::proto::hdfs::*;
use dfs_testkit::minidfs::{MiniDfs, ReplicaState};

use super::raw::*;

fn cluster() -> MiniDfs {
    MiniDfs::builder().block_size(1 << 20).start().unwrap()
}

#[test]
fn a_file_of_several_blocks_reads_back_from_every_node() {
    let cluster = cluster();
    let mut client = Client::new(&cluster);
    let data = pattern(2 * 262_144 + 777);
    client.write_file("/dir/file", 3, 262_144, &data);
    let info = client.info("/dir/file").unwrap();
    assert_eq!(
        (info.length, info.block_replication(), info.blocksize()),
        (data.len() as u64, 3, 262_144)
    );
    let located = client.locations("/dir/file");
    assert!(!located.under_construction && located.is_last_block_complete);
    assert_eq!(located.blocks.len(), 3);
    for choice in 0..3 {
        assert!(client.read_file("/dir/file", choice) == data);
    }
    // The others report within moments.
    let deadline = Instant::now() + Duration::from_secs(5);
    while client.locations("/dir/file").blocks.iter().any(|b| b.locs.len() < 3) {
        assert!(Instant::now() < deadline);
    }
    let replicas = cluster.replicas("/dir/file");
    assert_eq!(replicas.len(), 9);
    for r in &replicas {
        assert_eq!(r.state, ReplicaState::Finalized);
        assert_eq!(r.meta[..7], [0, 1, 2, 0, 0, 2, 0]);
        assert_eq!(r.meta[7..], crcs(&r.bytes, 512));
    }
}

#[test]
fn hflushed_bytes_are_visible_before_close() {
    let cluster = cluster();
    let mut client = Client::new(&cluster);
    let id = client.create("/wal", 3, 1 << 20);
    let located = client.add_block("/wal", id, None);
    let mut w = Writer::create(&located, &client.name, 1 << 20);
    let data = pattern(1500);
    w.flush(&data[..1000]);
    let open = client.locations("/wal");
    assert!(open.under_construction && !open.is_last_block_complete);
    assert_eq!(open.file_length, 0);
    let last = open.last_block.unwrap();
    assert_eq!(last.locs.len(), 3);
    for node in &last.locs {
        let addr = format!("127.0.0.1:{}", node.id.ipc_port).parse().unwrap();
        let mut rpc = Rpc::new(addr, DATANODE_PROTOCOL, "reader");
        let req = GetReplicaVisibleLengthRequestProto { block: last.b.clone() };
        let visible: GetReplicaVisibleLengthResponseProto =
            rpc.call("getReplicaVisibleLength", &req).unwrap();
        assert_eq!(visible.length, 1000);
        assert_eq!(read_block(node, &last.b, 3, 997).unwrap(), data[3..1000]);
    }
    // The partial chunk again from its start, with one checksum over all of it.
    let at = w.seqno;
    let bytes = packet(512, at, false, false, &data[512..1500]);
    w.send(&bytes);
    w.good_ack(at);
    w.seqno += 1;
    w.sent = 1500;
    assert_eq!(read_block(&last.locs[2], &last.b, 0, 1500).unwrap(), data);
    w.end();
    let block = w.block();
    client.complete("/wal", id, Some(&block));
    assert!(client.read_file("/wal", 1) == data);
    assert_eq!(cluster.replicas("/wal")[0].meta[7..], crcs(&data, 512));
}

#[test]
fn an_idle_read_connection_is_reused_then_closed() {
    let cluster = MiniDfs::builder().keepalive(Duration::from_millis(200)).start().unwrap();
    let mut client = Client::new(&cluster);
    let data = pattern(200_000);
    client.write_file("/f", 1, 1 << 20, &data);
    let block = client.locations("/f").blocks[0].clone();
    let port = format!(":{}", block.locs[0].id.xfer_port);
    let node = cluster.datanodes().iter().find(|d| d.xfer_addr().ends_with(&port)).unwrap();
    let accepted = node.accepted_connections();
    let mut stream = connect(xfer(&block.locs[0]));
    for (offset, len) in [(0, 200_000), (511, 2), (70_000, 100_001), (199_999, 1)] {
        let got = read_on(&stream, &block.b, offset, len).unwrap();
        assert_eq!(got, data[offset as usize..(offset + len) as usize]);
    }
    assert_eq!(node.accepted_connections(), accepted + 1);
    let deadline = Instant::now() + Duration::from_secs(5);
    while node.verified_reads() < 4 {
        assert!(Instant::now() < deadline);
    }
    let mut byte = [0u8; 1];
    assert_eq!(stream.read(&mut byte).unwrap(), 0);
}

#[test]
fn reads_beyond_the_end_and_without_checksums() {
    let cluster = cluster();
    let mut client = Client::new(&cluster);
    let data = pattern(1000);
    client.write_file("/f", 1, 1 << 20, &data);
    let block = client.locations("/f").blocks[0].clone();
    let error = read_block(&block.locs[0], &block.b, 500, 501).unwrap_err().to_string();
    assert!(error.contains("Offset 500 and length 501 don't match block"), "{error}");
    let mut newer = block.b.clone();
    newer.generation_stamp += 1;
    let error = read_block(&block.locs[0], &newer, 0, 1).unwrap_err().to_string();
    assert!(error.contains("gen stamp"), "{error}");
    let mut stream = connect(xfer(&block.locs[0]));
    stream.write_all(&read_request(&block.b, 600, 10, false)).unwrap();
    let response: BlockOpResponseProto = read_delimited(&mut stream).unwrap();
    let info = response.read_op_checksum_info.unwrap();
    assert_eq!((info.checksum.r#type, info.checksum.bytes_per_checksum), (0, 512));
    let p = read_packet(&mut stream).unwrap();
    assert!(p.sums.is_empty());
    assert_eq!(p.data, data[512..1000]);
    assert!(read_packet(&mut stream).unwrap().header.last_packet_in_block);
}
