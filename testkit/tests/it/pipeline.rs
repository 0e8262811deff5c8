//! Pipeline recovery, append, block transfer, and what DataNodes refuse.
use std::time::Duration;

use dfs::proto::hdfs::op_write_block_proto::BlockConstructionStage as Stage;
use dfs::proto::hdfs::*;
use dfs_testkit::minidfs::{MiniDfs, ReplicaState};

use super::raw::*;

const BLOCK: u64 = 1 << 20;

fn cluster(datanodes: usize) -> MiniDfs {
    MiniDfs::builder()
        .datanodes(datanodes)
        .block_size(BLOCK)
        .configure(|c| c.checksum_error_delay = Duration::from_millis(300))
        .start()
        .unwrap()
}

fn open(client: &mut Client, src: &str, replication: u32) -> (u64, LocatedBlockProto, Writer) {
    let id = client.create(src, replication, BLOCK);
    let located = client.add_block(src, id, None);
    let writer = Writer::create(&located, &client.name, BLOCK);
    (id, located, writer)
}

fn index_of(cluster: &MiniDfs, node: &DatanodeInfoProto) -> usize {
    cluster.datanodes().iter().position(|d| d.uuid() == node.id.datanode_uuid).unwrap()
}

impl Client {
    fn new_gs(&mut self, block: &ExtendedBlockProto) -> Result<u64, Remote> {
        let req = UpdateBlockForPipelineRequestProto {
            block: block.clone(),
            client_name: self.name.clone(),
        };
        let answer: UpdateBlockForPipelineResponseProto =
            self.rpc.call("updateBlockForPipeline", &req)?;
        Ok(answer.block.b.generation_stamp)
    }

    fn update_pipeline(
        &mut self,
        old: &ExtendedBlockProto,
        new: &ExtendedBlockProto,
        nodes: &[DatanodeInfoProto],
    ) -> Result<(), Remote> {
        let storage =
            |n: &DatanodeInfoProto| n.id.datanode_uuid.replace("00000000-0000", "DS-00000000-0000");
        let req = UpdatePipelineRequestProto {
            client_name: self.name.clone(),
            old_block: old.clone(),
            new_block: new.clone(),
            new_nodes: nodes.iter().map(|n| n.id.clone()).collect(),
            storage_i_ds: nodes.iter().map(storage).collect(),
        };
        self.rpc.call::<UpdatePipelineResponseProto>("updatePipeline", &req).map(|_| ())
    }
}

#[test]
fn streaming_recovery_keeps_acked_bytes_and_drops_the_rest() {
    let cluster = cluster(3);
    let mut client = Client::new(&cluster);
    let (id, located, mut w) = open(&mut client, "/f", 3);
    let data = pattern(5000);
    w.flush(&data[..2048]);
    let dead = index_of(&cluster, &located.locs[2]);
    assert!(cluster.datanode(dead).unwrap().kill());
    w.data(&data[2048..3072], false);
    let ack = w.ack().unwrap();
    assert_eq!(ack.seqno, -2);
    assert_eq!(ack.reply[..2], [0, 0], "the first node and its neighbour are fine");
    assert_ne!(*ack.reply.last().unwrap(), 0);
    let old = ExtendedBlockProto { num_bytes: Some(2048), ..w.block.clone() };
    let gs = client.new_gs(&old).unwrap();
    assert!(gs > old.generation_stamp);
    let (mut w, ack) = Writer::setup(&Setup {
        block: &old,
        nodes: &located.locs[..2],
        client: &client.name,
        stage: Stage::PipelineSetupStreamingRecovery,
        new_gs: gs,
        min: 2048,
        max: 3072,
    })
    .unwrap();
    assert_eq!(ack.status(), Status::Success);
    let replica = cluster.datanode(index_of(&cluster, &located.locs[0])).unwrap();
    let replica = replica.replica(old.block_id).unwrap();
    assert_eq!((replica.length, replica.generation_stamp), (2048, gs));
    client.update_pipeline(&old, &w.block(), &located.locs[..2]).unwrap();
    w.flush(&data[2048..]);
    w.end();
    let last = w.block();
    client.complete("/f", id, Some(&last));
    assert!(client.read_file("/f", 0) == data);
    // The third node comes back with a stale replica, which has to go.
    cluster.datanode(dead).unwrap().restart().unwrap();
    wait_for(|| cluster.replicas("/f").len() == 2);
    assert!(cluster.replicas("/f").iter().all(|r| r.generation_stamp == gs));
}

#[test]
fn close_recovery_finalizes_without_packets() {
    let cluster = cluster(2);
    let mut client = Client::new(&cluster);
    let (id, located, mut w) = open(&mut client, "/f", 2);
    w.flush(&pattern(600));
    cluster.datanode(index_of(&cluster, &located.locs[0])).unwrap().drop_connections();
    let old = w.block();
    let gs = client.new_gs(&old).unwrap();
    let (w, ack) = Writer::setup(&Setup {
        block: &old,
        nodes: &located.locs,
        client: &client.name,
        stage: Stage::PipelineCloseRecovery,
        new_gs: gs,
        min: 600,
        max: 600,
    })
    .unwrap();
    assert_eq!(ack.status(), Status::Success);
    client.update_pipeline(&old, &w.block(), &located.locs).unwrap();
    let last = w.block();
    client.complete("/f", id, Some(&last));
    assert!(cluster.replicas("/f").iter().all(|r| r.state == ReplicaState::Finalized));
    assert!(client.read_file("/f", 1) == pattern(600));
}

#[test]
fn append_continues_a_partial_chunk_alone() {
    let cluster = cluster(3);
    let mut client = Client::new(&cluster);
    let data = pattern(3000);
    client.write_file("/f", 3, BLOCK, &data[..1300]);
    client.wait_replicated("/f", 3);
    let located = append(&mut client, "/f").unwrap().block.unwrap();
    assert_eq!((located.offset, located.b.num_bytes()), (0, 1300));
    let gs = client.new_gs(&located.b).unwrap();
    let setup = Setup {
        block: &located.b,
        nodes: &located.locs,
        client: &client.name,
        stage: Stage::PipelineSetupAppend,
        new_gs: gs,
        min: 1300,
        max: 1300,
    };
    let (mut w, ack) = Writer::setup(&setup).unwrap();
    assert_eq!(ack.status(), Status::Success);
    client.update_pipeline(&located.b, &w.block(), &located.locs).unwrap();
    let used = 1300 % 512;
    let boundary = 1300 - used + 512;
    // Two pieces into the partial chunk: the node recomputes its checksum each time.
    w.flush(&data[1300..1400]);
    w.flush(&data[1400..boundary]);
    w.flush(&data[boundary..]);
    w.end();
    let id = client.info("/f").unwrap().file_id();
    let last = w.block();
    client.complete("/f", id, Some(&last));
    for (choice, r) in cluster.replicas("/f").iter().enumerate() {
        assert!(r.bytes == data);
        assert!(r.meta[7..] == crcs(&data, 512));
        assert!(client.read_file("/f", choice) == data);
    }
}

#[test]
fn append_recovery_after_a_failed_setup() {
    let cluster = cluster(2);
    let mut client = Client::new(&cluster);
    let data = pattern(1024);
    client.write_file("/f", 2, BLOCK, &data[..512]);
    client.wait_replicated("/f", 2);
    let located = append(&mut client, "/f").unwrap().block.unwrap();
    let gs = client.new_gs(&located.b).unwrap();
    let setup = |stage, new_gs| Setup {
        block: &located.b,
        nodes: &located.locs,
        client: "w",
        stage,
        new_gs,
        min: 512,
        max: 512,
    };
    let (w, _) = Writer::setup(&setup(Stage::PipelineSetupAppend, gs)).unwrap();
    drop(w);
    let gs = client.new_gs(&located.b).unwrap();
    let (mut w, ack) = Writer::setup(&setup(Stage::PipelineSetupAppendRecovery, gs)).unwrap();
    assert_eq!(ack.status(), Status::Success);
    client.update_pipeline(&located.b, &w.block(), &located.locs).unwrap();
    w.flush(&data[512..]);
    w.end();
    let id = client.info("/f").unwrap().file_id();
    let last = w.block();
    client.complete("/f", id, Some(&last));
    assert!(client.read_file("/f", 0) == data);
}

fn append(client: &mut Client, src: &str) -> Result<AppendResponseProto, Remote> {
    let req =
        AppendRequestProto { src: src.to_owned(), client_name: client.name.clone(), flag: Some(4) };
    client.rpc.call("append", &req)
}

#[test]
fn append_of_a_full_or_missing_last_block_has_no_block() {
    let cluster = cluster(1);
    let mut client = Client::new(&cluster);
    client.write_file("/full", 1, 1024, &pattern(1024));
    assert!(append(&mut client, "/full").unwrap().block.is_none());
    let id = client.info("/full").unwrap().file_id();
    let located = client.add_block("/full", id, None);
    assert_eq!(located.offset, 1024);
    let again = append(&mut client, "/full").unwrap_err();
    assert!(again.is("AlreadyBeingCreatedException"), "{again:?}");
    let missing = append(&mut client, "/none").unwrap_err();
    assert!(missing.is("java.io.FileNotFoundException"), "{missing:?}");
    let req = AppendRequestProto {
        src: "/part".to_owned(),
        client_name: client.name.clone(),
        flag: Some(4 | 32),
    };
    client.write_file("/part", 1, 1024, &pattern(10));
    let answer: AppendResponseProto = client.rpc.call("append", &req).unwrap();
    let block = answer.block.unwrap();
    assert_eq!((block.b.num_bytes(), block.locs.len()), (10, 0));
    let id = answer.stat.unwrap().file_id();
    let next = client.add_block("/part", id, Some(&block.b));
    assert_eq!(next.offset, 10);
}

#[test]
fn a_replacement_node_gets_the_acked_bytes() {
    let cluster = cluster(4);
    let mut client = Client::new(&cluster);
    let (id, located, mut w) = open(&mut client, "/f", 3);
    let data = pattern(4000);
    w.flush(&data[..1111]);
    let dead = index_of(&cluster, &located.locs[0]);
    assert!(cluster.datanode(dead).unwrap().kill());
    assert!(w.ack().is_err());
    let old = w.block();
    let storage =
        |n: &DatanodeInfoProto| n.id.datanode_uuid.replace("00000000-0000", "DS-00000000-0000");
    let req = GetAdditionalDatanodeRequestProto {
        src: "/f".to_owned(),
        blk: old.clone(),
        existings: located.locs[1..].to_vec(),
        excludes: located.locs[..1].to_vec(),
        num_additional_nodes: 1,
        client_name: client.name.clone(),
        existing_storage_uuids: located.locs[1..].iter().map(storage).collect(),
        file_id: Some(id),
    };
    let answer: GetAdditionalDatanodeResponseProto =
        client.rpc.call("getAdditionalDatanode", &req).unwrap();
    let nodes = answer.block.locs;
    assert_eq!(nodes.len(), 3);
    let fresh = nodes.iter().find(|n| !located.locs.iter().any(|l| l.id == n.id)).unwrap();
    let transfer = OpTransferBlockProto {
        header: ClientOperationHeaderProto {
            base_header: base(&old),
            client_name: client.name.clone(),
        },
        targets: vec![fresh.clone()],
        target_storage_types: vec![1],
        target_storage_ids: vec![],
    };
    let mut stream = connect(xfer(&located.locs[1]));
    std::io::Write::write_all(&mut stream, &op(86, &transfer)).unwrap();
    let done: BlockOpResponseProto = read_delimited(&mut stream).unwrap();
    assert_eq!(done.status(), Status::Success);
    let copy = cluster.datanode(index_of(&cluster, fresh)).unwrap();
    let copy = copy.replica(old.block_id).unwrap();
    assert_eq!((copy.state, copy.acked), (ReplicaState::Rbw, 1111));
    assert_eq!(copy.bytes, data[..1111]);
    let gs = client.new_gs(&old).unwrap();
    let (mut w, ack) = Writer::setup(&Setup {
        block: &old,
        nodes: &nodes,
        client: &client.name,
        stage: Stage::PipelineSetupStreamingRecovery,
        new_gs: gs,
        min: 1111,
        max: 1111,
    })
    .unwrap();
    assert_eq!(ack.status(), Status::Success);
    client.update_pipeline(&old, &w.block(), &nodes).unwrap();
    let bytes = packet(1024, 0, false, true, &data[1024..]);
    w.send(&bytes);
    w.good_ack(0);
    w.seqno = 1;
    w.sent = 4000;
    w.end();
    let last = w.block();
    client.complete("/f", id, Some(&last));
    for choice in 0..3 {
        assert!(client.read_file("/f", choice) == data);
    }
}

#[test]
fn an_unreachable_node_is_named_as_first_bad_link() {
    let cluster = cluster(3);
    let mut client = Client::new(&cluster);
    let id = client.create("/f", 3, BLOCK);
    let located = client.add_block("/f", id, None);
    assert!(cluster.datanode(index_of(&cluster, &located.locs[2])).unwrap().kill());
    let setup = Setup {
        block: &located.b,
        nodes: &located.locs,
        client: &client.name,
        stage: Stage::PipelineSetupCreate,
        new_gs: 0,
        min: 0,
        max: 0,
    };
    let (_, ack) = Writer::setup(&setup).unwrap();
    assert_eq!(ack.status(), Status::Error);
    assert_eq!(ack.first_bad_link(), xfer(&located.locs[2]).to_string());
    let abandon = AbandonBlockRequestProto {
        b: located.b.clone(),
        src: "/f".to_owned(),
        holder: client.name.clone(),
        file_id: Some(id),
    };
    client.rpc.call::<AbandonBlockResponseProto>("abandonBlock", &abandon).unwrap();
    let next = client.try_add_block("/f", id, None, &located.locs[2..]).unwrap();
    assert_ne!(next.b.block_id, located.b.block_id);
    assert_eq!(next.locs.len(), 2);
    let none = client.rpc.call::<AbandonBlockResponseProto>("abandonBlock", &abandon);
    assert!(none.is_ok(), "abandoning again changes nothing");
    let all = client.try_add_block("/f", id, None, &located.locs).unwrap();
    assert_eq!(all.b, next.b, "the same previous block means a retry");
}

#[test]
fn a_wrong_checksum_is_found_by_the_last_node_only() {
    let cluster = cluster(1);
    let mut client = Client::new(&cluster);
    let (_, _, mut w) = open(&mut client, "/f", 1);
    let data = pattern(1000);
    let bytes = packet_with(0, 0, false, false, &data, &[0; 8]);
    w.send(&bytes);
    let ack = w.ack().unwrap();
    assert_eq!((ack.seqno, ack.reply), (0, vec![Status::ErrorChecksum as i32]));
    assert!(w.ack().is_err());
}

/// What a node refuses shows as a closed connection.
fn refused(bytes: &[u8]) -> bool {
    let cluster = cluster(1);
    let mut client = Client::new(&cluster);
    let (_, _, mut w) = open(&mut client, "/f", 1);
    w.flush(&pattern(100));
    w.send(bytes);
    let closed = w.ack().is_err();
    let replica = cluster.replicas("/f").remove(0);
    assert_eq!(replica.bytes, pattern(100));
    closed
}

#[test]
fn bad_packets_end_the_write() {
    let data = pattern(2000);
    assert!(refused(&packet(101, 1, false, false, &data[..10])), "a hole");
    assert!(refused(&packet(100, 1, false, false, &data[..600])), "many chunks, unaligned");
    assert!(refused(&packet(100, 1, false, false, &data[..500])), "crosses a chunk boundary");
    assert!(refused(&packet_with(0, 1, false, false, &data[..600], &[0; 4])), "too few checksums");
    let mut long = packet(100, 1, false, false, &data[..10]);
    long[..4].copy_from_slice(&(17u32 << 20).to_be_bytes());
    assert!(refused(&long), "longer than 16 MiB");
    let mut negative = packet(100, 1, false, false, &data[..10]);
    negative[..4].copy_from_slice(&(-5i32).to_be_bytes());
    assert!(refused(&negative), "negative length");
    assert!(refused(&packet(100, 1, true, false, &data[..10])), "data in the last packet");
}

#[test]
fn heartbeats_empty_syncs_and_resent_bytes() {
    let cluster = cluster(3);
    let mut client = Client::new(&cluster);
    let (id, _, mut w) = open(&mut client, "/f", 3);
    let data = pattern(1500);
    let beat = packet(0, -1, false, false, &[]);
    w.send(&beat);
    w.good_ack(-1);
    w.flush(&data[..1200]);
    let sync = packet(1200, 1, false, true, &[]);
    w.send(&sync);
    w.good_ack(1);
    // Bytes that are already there, then some of both.
    for (offset, end) in [(0, 1200), (512, 1024), (512, 1500)] {
        let seqno = 2 + offset as i64;
        let bytes = packet(offset as u64, seqno, false, false, &data[offset..end]);
        w.send(&bytes);
        w.good_ack(seqno);
    }
    w.send(&beat);
    w.good_ack(-1);
    w.sent = 1500;
    w.seqno = 9;
    w.end();
    let last = w.block();
    client.complete("/f", id, Some(&last));
    for r in cluster.replicas("/f") {
        assert_eq!((r.bytes, &r.meta[7..]), (data.clone(), crcs(&data, 512).as_slice()));
    }
}

#[test]
fn requests_that_make_no_sense_are_refused() {
    let cluster = cluster(1);
    let mut client = Client::new(&cluster);
    client.write_file("/f", 1, BLOCK, &pattern(700));
    let located = client.locations("/f").blocks[0].clone();
    let try_setup = |stage, block: &ExtendedBlockProto, new_gs, min, max| {
        Writer::setup(&Setup { block, nodes: &located.locs, client: "w", stage, new_gs, min, max })
            .is_err()
    };
    let gs = located.b.generation_stamp;
    let newer = ExtendedBlockProto { generation_stamp: gs + 5, ..located.b.clone() };
    let other = ExtendedBlockProto { block_id: 5, ..located.b.clone() };
    let pool = ExtendedBlockProto { pool_id: "BP-x".to_owned(), ..located.b.clone() };
    assert!(try_setup(Stage::PipelineSetupCreate, &located.b, 0, 0, 0), "exists");
    assert!(try_setup(Stage::PipelineSetupAppend, &located.b, gs + 1, 699, 699), "length");
    assert!(try_setup(Stage::PipelineSetupAppend, &other, gs + 1, 700, 700), "missing");
    assert!(try_setup(Stage::PipelineSetupStreamingRecovery, &located.b, gs + 1, 0, 700), "final");
    assert!(try_setup(Stage::PipelineSetupAppendRecovery, &newer, gs + 6, 700, 700), "stamp");
    assert!(try_setup(Stage::PipelineCloseRecovery, &located.b, gs + 1, 701, 701), "length");
    assert!(try_setup(Stage::DataStreaming, &other, gs, 0, 0), "no request stage");
    assert!(try_setup(Stage::PipelineSetupCreate, &pool, 0, 0, 0), "block pool");
    assert!(client.read_file("/f", 0) == pattern(700), "and nothing happened");
}

#[test]
fn block_checksums() {
    let cluster = cluster(1);
    let mut client = Client::new(&cluster);
    let data = pattern(1300);
    client.write_file("/f", 1, BLOCK, &data);
    let located = client.locations("/f").blocks[0].clone();
    let ask = |len: u64, kind: BlockChecksumTypeProto| {
        let block = ExtendedBlockProto { num_bytes: Some(len), ..located.b.clone() };
        let req = OpBlockChecksumProto {
            header: base(&block),
            block_checksum_options: Some(BlockChecksumOptionsProto {
                block_checksum_type: Some(kind as i32),
                stripe_length: None,
            }),
        };
        let mut stream = connect(xfer(&located.locs[0]));
        std::io::Write::write_all(&mut stream, &op(85, &req)).unwrap();
        let answer: BlockOpResponseProto = read_delimited(&mut stream).unwrap();
        answer.checksum_response.unwrap()
    };
    for len in [1300usize, 1000, 512] {
        let md5 = ask(len as u64, BlockChecksumTypeProto::Md5crc);
        assert_eq!(md5.block_checksum.len(), 16);
        assert_eq!((md5.bytes_per_crc, md5.crc_per_block), (512, 3));
        let whole = ask(len as u64, BlockChecksumTypeProto::CompositeCrc);
        assert_eq!(whole.block_checksum, crc32c::crc32c(&data[..len]).to_be_bytes());
    }
}

#[test]
fn an_empty_client_name_means_a_copy_without_acks() {
    let cluster = cluster(1);
    let mut client = Client::new(&cluster);
    let id = client.create("/f", 1, BLOCK);
    let located = client.add_block("/f", id, None);
    let request = OpWriteBlockProto {
        header: ClientOperationHeaderProto {
            base_header: base(&located.b),
            client_name: String::new(),
        },
        stage: Stage::PipelineSetupCreate as i32,
        pipeline_size: 1,
        requested_checksum: ChecksumProto { r#type: 2, bytes_per_checksum: 512 },
        ..Default::default()
    };
    let data = pattern(700);
    let bytes =
        [op(80, &request), packet(0, 0, false, false, &data), packet(700, 1, true, false, &[])];
    let mut stream = connect(xfer(&located.locs[0]));
    std::io::Write::write_all(&mut stream, &bytes.concat()).unwrap();
    let mut rest = Vec::new();
    std::io::Read::read_to_end(&mut stream, &mut rest).unwrap();
    assert!(rest.is_empty(), "neither connect ack nor acks");
    let replica = cluster.replicas("/f").remove(0);
    assert!(replica.state == ReplicaState::Finalized && replica.bytes == data);
}
