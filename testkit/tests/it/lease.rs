//! Leases, their recovery, truncate, and the checks of addBlock and complete.
use std::time::Duration;

use dfs::proto::hdfs::*;
use dfs_testkit::minidfs::{MiniDfs, ReplicaState};

use super::raw::*;

const BLOCK: u64 = 1 << 20;

fn cluster() -> MiniDfs {
    MiniDfs::builder().block_size(BLOCK).start().unwrap()
}

impl Client {
    fn recover_lease(&mut self, src: &str) -> Result<bool, Remote> {
        let req = RecoverLeaseRequestProto { src: src.to_owned(), client_name: self.name.clone() };
        self.rpc.call::<RecoverLeaseResponseProto>("recoverLease", &req).map(|r| r.result)
    }

    fn is_closed(&mut self, src: &str) -> bool {
        let req = IsFileClosedRequestProto { src: src.to_owned() };
        self.rpc.call::<IsFileClosedResponseProto>("isFileClosed", &req).unwrap().result
    }

    fn truncate(&mut self, src: &str, new_length: u64) -> Result<bool, Remote> {
        let req = TruncateRequestProto {
            src: src.to_owned(),
            new_length,
            client_name: self.name.clone(),
        };
        self.rpc.call::<TruncateResponseProto>("truncate", &req).map(|r| r.result)
    }
}

/// A file with an open block of `data`, acked.
fn open_file(client: &mut Client, src: &str, data: &[u8]) -> (u64, Writer) {
    let id = client.create(src, 3, BLOCK);
    let located = client.add_block(src, id, None);
    let mut w = Writer::create(&located, &client.name, BLOCK);
    w.flush(data);
    (id, w)
}

#[test]
fn recover_lease_closes_an_abandoned_file_with_its_acked_bytes() {
    let cluster = cluster();
    let mut writer = Client::new(&cluster);
    let mut thief = Client::new(&cluster);
    let data = pattern(1700);
    let (id, mut w) = open_file(&mut writer, "/wal", &data);
    assert!(!thief.recover_lease("/wal").unwrap());
    wait_for(|| thief.recover_lease("/wal").unwrap());
    assert!(thief.is_closed("/wal"));
    assert_eq!(thief.info("/wal").unwrap().length, 1700);
    for choice in 0..3 {
        assert!(thief.read_file("/wal", choice) == data);
    }
    let gs = thief.locations("/wal").blocks[0].b.generation_stamp;
    assert!(gs > w.block.generation_stamp);
    for r in cluster.replicas("/wal") {
        assert_eq!((r.state, r.generation_stamp), (ReplicaState::Finalized, gs));
    }
    assert!(w.ack().is_err(), "the old pipeline is gone");
    let block = w.block();
    let late = writer.try_complete("/wal", id, Some(&block)).unwrap_err();
    assert!(late.is("LeaseExpiredException"), "{late:?}");
    let late = writer.try_add_block("/wal", id, Some(&block), &[]).unwrap_err();
    assert!(late.is("LeaseExpiredException"), "{late:?}");
}

#[test]
fn recovery_takes_the_shortest_of_the_growing_replicas() {
    let cluster = cluster();
    let mut writer = Client::new(&cluster);
    let data = pattern(2048);
    let (_, w) = open_file(&mut writer, "/wal", &data);
    let id = w.block.block_id;
    drop(w);
    wait_for(|| cluster.datanodes().iter().all(|d| d.open_connections() == 0));
    cluster.datanode(1).unwrap().truncate_replica(id, 1000).unwrap();
    wait_for(|| writer.recover_lease("/wal").unwrap());
    assert_eq!(writer.info("/wal").unwrap().length, 1000);
    let replicas = cluster.replicas("/wal");
    assert_eq!(replicas.len(), 3);
    for r in replicas {
        assert!(r.bytes == data[..1000] && r.meta[7..] == crcs(&data[..1000], 512));
    }
}

#[test]
fn a_crashed_node_has_a_replica_that_waits_for_recovery() {
    let cluster = cluster();
    let mut writer = Client::new(&cluster);
    let (_, w) = open_file(&mut writer, "/wal", &pattern(700));
    let node = cluster.datanode(0).unwrap();
    assert!(node.kill());
    node.restart().unwrap();
    assert_eq!(node.replica(w.block.block_id).unwrap().state, ReplicaState::Rwr);
    wait_for(|| writer.recover_lease("/wal").unwrap());
    assert!(writer.read_file("/wal", 0) == pattern(700));
    // It took no part, so its replica goes.
    wait_for(|| node.replica(w.block.block_id).is_none());
}

#[test]
fn soft_and_hard_limits() {
    let cluster = MiniDfs::builder()
        .block_size(BLOCK)
        .lease_hard_limit(Duration::from_secs(3600))
        .start()
        .unwrap();
    let mut writer = Client::new(&cluster);
    let mut other = Client::new(&cluster);
    let (_, _w) = open_file(&mut writer, "/f", &pattern(10));
    let create = other.create_request("/f", 1, BLOCK);
    let early = other.rpc.call::<CreateResponseProto>("create", &create).unwrap_err();
    assert!(early.is("AlreadyBeingCreatedException"), "{early:?}");
    assert!(cluster.age_lease("/f", Duration::from_secs(61)));
    let late = other.rpc.call::<CreateResponseProto>("create", &create).unwrap_err();
    assert!(late.is("RecoveryInProgressException"), "{late:?}");
    wait_for(|| other.is_closed("/f"));
    let (_, _w) = open_file(&mut writer, "/g", &pattern(10));
    assert_eq!(cluster.lease_holders(), [writer.name.clone()]);
    assert!(cluster.age_lease("/g", Duration::from_secs(3601)));
    wait_for(|| other.is_closed("/g"));
    assert!(other.read_file("/g", 0) == pattern(10));
    assert!(cluster.lease_holders().is_empty());
}

#[test]
fn renewing_keeps_the_lease() {
    let cluster = cluster();
    let mut writer = Client::new(&cluster);
    let (_, _w) = open_file(&mut writer, "/f", &pattern(10));
    cluster.age_lease("/f", Duration::from_secs(61));
    let req = RenewLeaseRequestProto { client_name: writer.name.clone(), namespaces: vec![] };
    writer.rpc.call::<RenewLeaseResponseProto>("renewLease", &req).unwrap();
    let mut other = Client::new(&cluster);
    let create = other.create_request("/f", 1, BLOCK);
    let error = other.rpc.call::<CreateResponseProto>("create", &create).unwrap_err();
    assert!(error.is("AlreadyBeingCreatedException"), "{error:?}");
}

#[test]
fn previous_has_to_be_the_last_block() {
    let cluster =
        MiniDfs::builder().block_size(1024).report_delay(Duration::from_secs(600)).start().unwrap();
    let mut c = Client::new(&cluster);
    let id = c.create("/f", 1, 1024);
    let first = c.add_block("/f", id, None);
    let again = c.add_block("/f", id, None);
    assert_eq!((&again.b, again.locs.len()), (&first.b, first.locs.len()), "a retry");
    let mut w = Writer::create(&first, &c.name, 1024);
    w.write_block(&pattern(1024));
    let stale = ExtendedBlockProto { generation_stamp: 1, ..w.block() };
    let error = c.try_add_block("/f", id, Some(&stale), &[]).unwrap_err();
    assert!(error.message.contains("does not match actual last block"), "{error:?}");
    let second = c.add_block("/f", id, Some(&w.block()));
    assert_eq!(second.offset, 1024);
    let mut w2 = Writer::create(&second, &c.name, 1024);
    w2.write_block(&pattern(1024));
    assert!(!c.try_complete("/f", id, Some(&w2.block())).unwrap(), "not reported yet");
    let error = c.try_add_block("/f", id, Some(&w2.block()), &[]).unwrap_err();
    assert!(error.is("NotReplicatedYetException"), "{error:?}");
    let other = Client::new(&cluster);
    c.name = other.name;
    let error = c.try_add_block("/f", id, Some(&w2.block()), &[]).unwrap_err();
    assert!(error.is("LeaseExpiredException"), "{error:?}");
}

#[test]
fn complete_checks_the_last_block_and_may_be_repeated() {
    let cluster = cluster();
    let mut c = Client::new(&cluster);
    let (id, mut w) = open_file(&mut c, "/f", &pattern(100));
    w.end();
    let last = w.block();
    let wrong = ExtendedBlockProto { generation_stamp: last.generation_stamp + 1, ..last.clone() };
    let error = c.try_complete("/f", id, Some(&wrong)).unwrap_err();
    assert!(error.message.contains("mismatching GS"), "{error:?}");
    let foreign = ExtendedBlockProto { pool_id: "BP-1".to_owned(), ..last.clone() };
    let error = c.try_complete("/f", id, Some(&foreign)).unwrap_err();
    assert!(error.message.contains("Unexpected BlockPoolId"), "{error:?}");
    c.complete("/f", id, Some(&last));
    assert!(c.try_complete("/f", id, Some(&last)).unwrap());
    let error = c.try_complete("/f", id, Some(&wrong)).unwrap_err();
    assert!(error.is("LeaseExpiredException"), "{error:?}");
    let error = c.try_complete("/none", 0, None).unwrap_err();
    assert!(error.is("FileNotFoundException"), "{error:?}");
}

#[test]
fn a_file_can_be_renamed_while_it_is_written() {
    let cluster = cluster();
    let mut c = Client::new(&cluster);
    let (id, mut w) = open_file(&mut c, "/old", &pattern(100));
    let req = RenameRequestProto { src: "/old".to_owned(), dst: "/new".to_owned() };
    assert!(c.rpc.call::<RenameResponseProto>("rename", &req).unwrap().result);
    w.end();
    let last = w.block();
    c.complete("/old", id, Some(&last));
    assert!(c.read_file("/new", 0) == pattern(100));
}

#[test]
fn truncate_on_and_off_block_boundaries() {
    let cluster = MiniDfs::builder().block_size(1024).start().unwrap();
    let mut c = Client::new(&cluster);
    let data = pattern(3000);
    c.write_file("/f", 3, 1024, &data);
    c.wait_replicated("/f", 3);
    let error = c.truncate("/f", 3001).unwrap_err();
    assert!(error.message.contains("Current size: 3000"), "{error:?}");
    assert!(c.truncate("/f", 3000).unwrap());
    assert!(c.truncate("/f", 2048).unwrap());
    assert!(c.is_closed("/f"));
    assert!(!c.truncate("/f", 1300).unwrap());
    wait_for(|| c.is_closed("/f"));
    assert_eq!(c.info("/f").unwrap().length, 1300);
    for choice in 0..3 {
        assert!(c.read_file("/f", choice) == data[..1300]);
    }
    for r in cluster.replicas("/f").iter().skip(3) {
        assert!(r.meta[7..] == crcs(&data[1024..1300], 512));
    }
}

#[test]
fn fsync_tells_the_namenode_the_length() {
    let cluster = cluster();
    let mut c = Client::new(&cluster);
    let (id, _w) = open_file(&mut c, "/f", &pattern(333));
    assert_eq!(c.info("/f").unwrap().length, 0);
    let req = FsyncRequestProto {
        src: "/f".to_owned(),
        client: c.name.clone(),
        last_block_length: Some(333),
        file_id: Some(id),
    };
    c.rpc.call::<FsyncResponseProto>("fsync", &req).unwrap();
    assert_eq!(c.info("/f").unwrap().length, 333);
    let located = c.locations("/f");
    assert_eq!((located.file_length, located.last_block.unwrap().b.num_bytes()), (0, 333));
}

#[test]
fn synced_bytes_survive_a_power_failure_of_all_nodes() {
    let cluster = cluster();
    let mut c = Client::new(&cluster);
    let data = pattern(1500);
    let (_, mut w) = open_file(&mut c, "/f", &data[..500]);
    let sync = packet(0, 1, false, true, &data[..1000]);
    w.send(&sync);
    w.good_ack(1);
    let flush = packet(512, 2, false, false, &data[512..1500]);
    w.send(&flush);
    w.good_ack(2);
    for node in cluster.datanodes() {
        node.power_loss().unwrap();
        node.restart().unwrap();
    }
    wait_for(|| c.recover_lease("/f").unwrap());
    assert_eq!(c.info("/f").unwrap().length, 1000);
    assert!(c.read_file("/f", 0) == data[..1000]);
}
