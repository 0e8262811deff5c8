//! Every fault does what it says, as often as it says.
use std::io::{Read, Write};
use std::time::{Duration, Instant};

use dfs::proto::hdfs::op_write_block_proto::BlockConstructionStage as Stage;
use dfs::proto::hdfs::*;
use dfs_testkit::minidfs::{BadHeader, Fault, MiniDfs, Op, ReplicaState, Rule, Site};

use super::raw::*;

const BLOCK: u64 = 1 << 20;

fn cluster(datanodes: usize) -> MiniDfs {
    MiniDfs::builder()
        .datanodes(datanodes)
        .block_size(BLOCK)
        .configure(|c| {
            c.checksum_error_delay = Duration::from_millis(100);
            c.oob_close_delay = Duration::from_millis(100);
        })
        .start()
        .unwrap()
}

fn open(client: &mut Client, replication: u32) -> (LocatedBlockProto, Writer) {
    let id = client.create("/f", replication, BLOCK);
    let located = client.add_block("/f", id, None);
    let writer = Writer::create(&located, &client.name, BLOCK);
    (located, writer)
}

/// One closed file on one node, and its block.
fn stored(cluster: &MiniDfs, data: &[u8]) -> LocatedBlockProto {
    let mut client = Client::new(cluster);
    client.write_file("/f", 1, BLOCK, data);
    client.locations("/f").blocks.remove(0)
}

fn read_all(block: &LocatedBlockProto) -> std::io::Result<Vec<u8>> {
    read_block(&block.locs[0], &block.b, 0, block.b.num_bytes())
}

#[test]
fn acks_can_be_lost_repeated_delayed_and_altered() {
    let cluster = cluster(1);
    let add = |seqno, fault| {
        cluster.faults().add(Rule::new(Site::Ack, fault).seqno(seqno));
    };
    add(0, Fault::LoseAck);
    add(1, Fault::RepeatAck);
    add(2, Fault::AckSeqno(77));
    add(3, Fault::AckStatus { index: 0, status: Status::Error });
    add(4, Fault::AckFlag(3 << 5));
    add(5, Fault::Delay(Duration::from_millis(120)));
    add(6, Fault::OobRestart);
    add(7, Fault::Close);
    let mut client = Client::new(&cluster);
    let (_, mut w) = open(&mut client, 1);
    for _ in 0..5 {
        w.data(&pattern(512), false);
    }
    let seen: Vec<_> =
        (0..5).map(|_| w.ack().unwrap()).map(|a| (a.seqno, a.reply[0], a.flag[0])).collect();
    let error = Status::Error as i32;
    assert_eq!(seen[..4], [(1, 0, 0), (1, 0, 0), (77, 0, 0), (3, error, error as u32)]);
    assert_eq!(seen[4], (4, 0, 0x60));
    let before = Instant::now();
    w.flush(&pattern(512));
    assert!(before.elapsed() >= Duration::from_millis(120));
    w.data(&pattern(512), false);
    let oob = w.ack().unwrap();
    assert_eq!((oob.seqno, oob.reply), (-2, vec![Status::OobRestart as i32]));
    w.good_ack(6);
    w.data(&pattern(512), false);
    assert!(w.ack().is_err());
    assert!(cluster.faults().report().iter().all(|(_, fired)| *fired == 1));
}

#[test]
fn an_error_in_the_middle_is_passed_up_at_its_index() {
    let cluster = cluster(3);
    let mut client = Client::new(&cluster);
    let (located, mut w) = open(&mut client, 3);
    let index = |i: usize| {
        cluster
            .datanodes()
            .iter()
            .position(|d| d.uuid() == located.locs[i].id.datanode_uuid)
            .unwrap()
    };
    let fault = Fault::AckStatus { index: 0, status: Status::Error };
    cluster.faults().add(Rule::new(Site::Ack, fault).on(index(2)));
    w.data(&pattern(10), false);
    assert_eq!(w.ack().unwrap().reply, [0, 0, Status::Error as i32]);
    cluster.faults().add(Rule::new(Site::Ack, Fault::OobRestart).on(index(1)));
    w.data(&pattern(10), false);
    let oob = w.ack().unwrap();
    assert_eq!((oob.seqno, oob.reply), (-2, vec![0, Status::OobRestart as i32]));
    w.good_ack(1);
}

#[test]
fn corruption_on_the_way_in_ends_at_the_node_before() {
    for fault in [Fault::CorruptData(100), Fault::CorruptChecksum] {
        let cluster = cluster(2);
        let mut client = Client::new(&cluster);
        let (located, mut w) = open(&mut client, 2);
        let last =
            cluster.datanodes().iter().position(|d| d.uuid() == located.locs[1].id.datanode_uuid);
        cluster.faults().add(Rule::new(Site::PacketReceived, fault).on(last.unwrap()).seqno(1));
        w.flush(&pattern(512));
        w.data(&pattern(512), false);
        assert!(w.ack().is_err(), "the first node ends itself");
    }
}

#[test]
fn a_full_disk_ends_the_write_without_a_word() {
    let cluster = cluster(1);
    let rule = cluster.faults().add(Rule::new(Site::PacketReceived, Fault::DiskFull).skip(1));
    let mut client = Client::new(&cluster);
    let (_, mut w) = open(&mut client, 1);
    w.flush(&pattern(512));
    w.data(&pattern(512), false);
    assert!(w.ack().is_err());
    assert_eq!(rule.fired(), 1);
    assert_eq!(cluster.replicas("/f")[0].bytes.len(), 512);
}

#[test]
fn refused_writes() {
    let cluster = cluster(2);
    let mut client = Client::new(&cluster);
    let id = client.create("/f", 2, BLOCK);
    let located = client.add_block("/f", id, None);
    let attempt = || {
        Writer::setup(&Setup {
            block: &located.b,
            nodes: &located.locs,
            client: "w",
            stage: Stage::PipelineSetupCreate,
            new_gs: 0,
            min: 0,
            max: 0,
        })
        .unwrap()
        .1
    };
    let first = xfer(&located.locs[0]).to_string();
    let second = xfer(&located.locs[1]).to_string();
    let node = cluster.datanodes().iter().position(|d| d.xfer_addr() == first).unwrap();
    let add = |fault| cluster.faults().add(Rule::new(Site::Op(Op::Write), fault).on(node));
    add(Fault::access_token());
    let ack = attempt();
    assert_eq!((ack.status(), ack.first_bad_link()), (Status::ErrorAccessToken, first.as_str()));
    add(Fault::BadLink(0));
    let ack = attempt();
    assert_eq!((ack.status(), ack.first_bad_link()), (Status::Error, second.as_str()));
    add(Fault::Refuse { status: Status::OobRestart, message: String::new() });
    assert_eq!(attempt().status(), Status::OobRestart);
    assert_eq!(attempt().status(), Status::Success);
}

#[test]
fn reads_fail_in_every_way() {
    let cluster = cluster(1);
    let data = pattern(300_000);
    let block = stored(&cluster, &data);
    let with = |site, fault, skip| {
        let rule = cluster.faults().add(Rule::new(site, fault).skip(skip));
        let result = read_all(&block);
        assert_eq!(rule.fired(), 1);
        rule.disarm();
        // What still runs for this read must not fire the next rule.
        wait_for(|| cluster.datanode(0).unwrap().open_connections() == 0);
        result
    };
    let sent = Site::PacketSent;
    let text = |r: std::io::Result<Vec<u8>>| r.unwrap_err().to_string();
    assert!(text(with(sent, Fault::CorruptData(5), 2)).contains("checksum mismatch"));
    assert!(text(with(sent, Fault::CorruptChecksum, 0)).contains("checksum mismatch"));
    assert!(text(with(sent, Fault::EndEarly, 1)).contains("only 65536 bytes"));
    assert!(text(with(sent, Fault::ReadHeader(BadHeader::Oversized), 0)).contains("payload"));
    assert!(text(with(sent, Fault::ReadHeader(BadHeader::Negative), 0)).contains("payload"));
    with(sent, Fault::ReadHeader(BadHeader::Garbage), 0).unwrap_err();
    with(sent, Fault::ReadHeader(BadHeader::DataLen), 0).unwrap_err();
    with(sent, Fault::Close, 3).unwrap_err();
    let op = Site::Op(Op::Read);
    assert!(text(with(op, Fault::access_token(), 0)).contains("ErrorAccessToken"));
    with(op, Fault::Close, 0).unwrap_err();
    with(op, Fault::CutAfter { received: None, sent: Some(100_000) }, 0).unwrap_err();
    with(Site::Accept, Fault::CutAfter { received: Some(2), sent: None }, 0).unwrap_err();
    with(Site::Accept, Fault::Close, 0).unwrap_err();
    assert!(read_all(&block).unwrap() == data);
    for (site, fault) in [
        (sent, Fault::Delay(Duration::from_millis(80))),
        (op, Fault::Delay(Duration::from_millis(80))),
    ] {
        let before = Instant::now();
        assert!(with(site, fault, 0).unwrap() == data);
        assert!(before.elapsed() >= Duration::from_millis(80));
    }
    for bad in [BadHeader::Seqno, BadHeader::Offset] {
        cluster.faults().add(Rule::new(sent, Fault::ReadHeader(bad)));
        let mut stream = connect(xfer(&block.locs[0]));
        stream.write_all(&read_request(&block.b, 0, 1000, true)).unwrap();
        let _: BlockOpResponseProto = read_delimited(&mut stream).unwrap();
        let header = read_packet(&mut stream).unwrap().header;
        let expected = if bad == BadHeader::Seqno { (1, 0) } else { (0, 512) };
        assert_eq!((header.seqno, header.offset_in_block), expected);
    }
}

#[test]
fn stored_replicas_can_be_spoilt() {
    let cluster = cluster(1);
    let data = pattern(5000);
    let block = stored(&cluster, &data);
    let node = cluster.datanode(0).unwrap();
    let id = block.b.block_id;
    node.corrupt_data(id, 4000).unwrap();
    assert!(read_all(&block).unwrap_err().to_string().contains("checksum mismatch"));
    node.corrupt_data(id, 4000).unwrap();
    assert!(read_all(&block).unwrap() == data);
    node.corrupt_meta(id, 9).unwrap();
    assert!(read_all(&block).is_err());
    node.corrupt_meta(id, 9).unwrap();
    node.truncate_replica(id, 3000).unwrap();
    assert!(read_all(&block).unwrap_err().to_string().contains("blockLen 3000"));
    assert!(read_block(&block.locs[0], &block.b, 0, 3000).unwrap() == data[..3000]);
    let gs = block.b.generation_stamp;
    node.set_generation_stamp(id, gs - 1).unwrap();
    assert!(read_all(&block).unwrap_err().to_string().contains("gen stamp"));
    node.set_generation_stamp(id, gs + 1).unwrap();
    assert!(read_block(&block.locs[0], &block.b, 0, 10).is_ok(), "a newer one is fine");
    node.set_generation_stamp(id, gs).unwrap();
    assert!(node.delete_replica(id).unwrap());
    assert!(read_all(&block).unwrap_err().to_string().contains("Replica not found"));
}

#[test]
fn reported_corruption_hides_a_replica_until_all_are_corrupt() {
    let cluster = cluster(2);
    let mut client = Client::new(&cluster);
    client.write_file("/f", 2, BLOCK, &pattern(10));
    client.wait_replicated("/f", 2);
    let block = client.locations("/f").blocks.remove(0);
    let mut report = |nodes: &[DatanodeInfoProto]| {
        let bad = LocatedBlockProto { locs: nodes.to_vec(), ..block.clone() };
        let req = ReportBadBlocksRequestProto { blocks: vec![bad] };
        client.rpc.call::<ReportBadBlocksResponseProto>("reportBadBlocks", &req).unwrap();
        let b = client.locations("/f").blocks.remove(0);
        (b.locs.len(), b.corrupt)
    };
    assert_eq!(report(&block.locs[..1]), (1, false));
    assert_eq!(report(&block.locs[1..]), (2, true));
}

#[test]
fn a_paused_node_holds_everything_until_it_resumes() {
    let cluster = cluster(1);
    let data = pattern(1000);
    let block = stored(&cluster, &data);
    let node = cluster.datanode(0).unwrap();
    node.pause();
    let mut stream = connect(xfer(&block.locs[0]));
    stream.set_read_timeout(Some(Duration::from_millis(150))).unwrap();
    stream.write_all(&read_request(&block.b, 0, 1000, true)).unwrap();
    assert!(stream.read(&mut [0]).is_err(), "nothing comes");
    node.resume();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let answer: BlockOpResponseProto = read_delimited(&mut stream).unwrap();
    assert_eq!(answer.status(), Status::Success);
}

#[test]
fn a_killed_node_refuses_and_comes_back_with_its_replicas() {
    let cluster = cluster(1);
    let data = pattern(1000);
    let block = stored(&cluster, &data);
    let node = cluster.datanode(0).unwrap();
    assert!(node.kill());
    assert!(!node.is_running());
    assert!(std::net::TcpStream::connect(xfer(&block.locs[0])).is_err());
    node.restart().unwrap();
    assert!(read_all(&block).unwrap() == data);
}

#[test]
fn a_node_can_be_killed_and_paused_by_a_packet() {
    let cluster = cluster(2);
    let mut client = Client::new(&cluster);
    let rule = cluster.faults().add(Rule::new(Site::PacketReceived, Fault::KillNode).seqno(1));
    let (_, mut w) = open(&mut client, 1);
    w.flush(&pattern(512));
    w.data(&pattern(512), false);
    assert!(w.ack().is_err());
    assert_eq!(rule.fired(), 1);
    wait_for(|| cluster.datanodes().iter().filter(|d| d.is_running()).count() == 1);
}

#[test]
fn an_announced_restart_keeps_the_replica_writable() {
    let cluster = cluster(1);
    let mut client = Client::new(&cluster);
    let id = client.create("/f", 1, BLOCK);
    let located = client.add_block("/f", id, None);
    let mut w = Writer::create(&located, &client.name, BLOCK);
    w.flush(&pattern(600));
    let fault = Fault::RestartNode { down: Duration::from_millis(50) };
    cluster.faults().add(Rule::new(Site::PacketReceived, fault).seqno(-1));
    w.send(&packet(0, -1, false, false, &[]));
    let mut acks = Vec::new();
    while let Ok(ack) = w.ack() {
        acks.push((ack.seqno, ack.reply));
    }
    assert!(acks.contains(&(-2, vec![Status::OobRestart as i32])), "{acks:?}");
    let node = cluster.datanode(0).unwrap();
    wait_for(|| node.is_running() && std::net::TcpStream::connect(xfer(&located.locs[0])).is_ok());
    let replica = node.replica(located.b.block_id).unwrap();
    assert_eq!((replica.state, replica.acked), (ReplicaState::Rbw, 600));
}

#[test]
fn calls_fail_in_every_way() {
    let cluster = cluster(1);
    let addr = cluster.namenode_addr(0).unwrap();
    let fresh = || Rpc::new(addr, CLIENT_PROTOCOL, "tester");
    let sync = |rpc: &mut Rpc| {
        rpc.send("msync", &MsyncRequestProto {}, 5, 0);
        rpc.receive::<MsyncResponseProto>()
    };
    let add = |fault, times| cluster.faults().add(Rule::rpc("msync", fault).times(times));
    let rule = add(Fault::throw("org.example.Oops", "told you"), 2);
    let mut rpc = fresh();
    for _ in 0..2 {
        let error = sync(&mut rpc).unwrap().1.unwrap_err();
        assert_eq!((error.class.as_str(), error.fatal), ("org.example.Oops", false));
        assert!(error.message.starts_with("told you"));
    }
    assert!(sync(&mut rpc).unwrap().1.is_ok());
    assert_eq!((rule.fired(), rule.seen()), (2, 3));
    assert_eq!(cluster.call_count("msync"), 1, "a thrown call does not run");
    rule.disarm();
    let fatal = Fault::Throw { class: "F".to_owned(), message: "f".to_owned(), fatal: true };
    add(fatal, 1);
    let mut rpc = fresh();
    assert!(sync(&mut rpc).unwrap().1.unwrap_err().fatal);
    assert_eq!(rpc.stream.read(&mut [0]).unwrap(), 0);
    add(Fault::Close, 1);
    assert!(sync(&mut fresh()).is_err());
    assert_eq!(cluster.call_count("msync"), 1);
    add(Fault::CloseAfter, 1);
    assert!(sync(&mut fresh()).is_err());
    assert_eq!(cluster.call_count("msync"), 2);
    for (fault, expected) in [
        (Fault::http(), b"HTTP".as_slice()),
        (Fault::oversized_frame(0x7FFF_0000), &[0x7F, 0xFF, 0, 0]),
        (Fault::RawReply(vec![1, 2, 3]), &[1, 2, 3]),
    ] {
        add(fault, 1);
        let mut rpc = fresh();
        rpc.send("msync", &MsyncRequestProto {}, 5, 0);
        let mut all = Vec::new();
        rpc.stream.read_to_end(&mut all).unwrap();
        assert!(all.starts_with(expected), "{all:?}");
    }
    for fault in
        [Fault::Delay(Duration::from_millis(100)), Fault::DelayAfter(Duration::from_millis(100))]
    {
        add(fault, 1);
        let mut rpc = fresh();
        rpc.send("msync", &MsyncRequestProto {}, 1, 0);
        rpc.send("msync", &MsyncRequestProto {}, 2, 0);
        let order = [0; 2].map(|_| rpc.receive::<MsyncResponseProto>().unwrap().0);
        assert_eq!(order, [2, 1], "a slow call is overtaken");
    }
}

#[test]
fn paused_namenodes_and_dropped_connections() {
    let cluster = cluster(1);
    let mut client = Client::new(&cluster);
    client.info("/");
    cluster.pause_namenodes(true);
    client.rpc.stream.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    client.rpc.send("msync", &MsyncRequestProto {}, 1, 0);
    assert!(client.rpc.receive::<MsyncResponseProto>().is_err());
    cluster.pause_namenodes(false);
    client.rpc.stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    assert!(client.rpc.receive::<MsyncResponseProto>().is_ok());
    let (open, accepted) = cluster.namenode_connections();
    assert_eq!((open, accepted), (1, 1));
    cluster.drop_namenode_connections();
    assert_eq!(client.rpc.stream.read(&mut [0]).unwrap(), 0);
}

#[test]
fn the_same_seed_places_blocks_alike() {
    let places = |seed| {
        let cluster = MiniDfs::builder().datanodes(6).seed(seed).start().unwrap();
        let mut client = Client::new(&cluster);
        let id = client.create("/f", 3, BLOCK);
        let located = client.add_block("/f", id, None);
        located.locs.iter().map(|l| l.id.datanode_uuid.clone()).collect::<Vec<_>>()
    };
    assert_eq!(places(7), places(7));
    assert_ne!(places(7), places(8));
}

#[test]
fn a_cluster_in_full_use_stops_quickly_and_leaves_nothing() {
    let cluster = cluster(3);
    let mut client = Client::new(&cluster);
    let (_, mut w) = open(&mut client, 3);
    w.flush(&pattern(100));
    let dir = cluster.dir().to_owned();
    assert!(dir.exists());
    cluster.datanode(1).unwrap().pause();
    let long = Fault::Delay(Duration::from_secs(600));
    cluster.faults().add(Rule::new(Site::PacketReceived, long.clone()));
    w.data(&pattern(100), false);
    let slow = cluster.faults().add(Rule::rpc("msync", long));
    client.rpc.send("msync", &MsyncRequestProto {}, 1, 0);
    wait_for(|| slow.fired() == 1);
    let before = Instant::now();
    drop(cluster);
    assert!(before.elapsed() < Duration::from_secs(3));
    assert!(!dir.exists());
}
