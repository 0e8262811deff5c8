//! Opening, and files that are being written.
use super::scripted::{Fault, Names, Rig, limit};
use crate::error::{Error, Status};
use crate::proto::hdfs::{ErasureCodingPolicyProto, FileEncryptionInfoProto};
use crate::read::located::tests::located;
use std::sync::atomic::Ordering;

/// Makes the last block of a rig's file one that is being written, of which the NameNode knows no
/// byte, and whose length the nodes answer as given.
fn open_last(rig: &Rig, answers: &[(usize, Vec<crate::error::Result<u64>>)]) {
    let mut answer = rig.names.answer.lock().unwrap();
    let answer = answer.as_mut().unwrap();
    let mut last = answer.blocks.pop().unwrap();
    answer.file_length -= last.b.num_bytes();
    last.b.num_bytes = Some(0);
    answer.last_block = Some(last);
    answer.is_last_block_complete = false;
    answer.under_construction = true;
    let mut lengths = rig.names.lengths.lock().unwrap();
    for (node, list) in answers {
        lengths.insert(rig.nodes[*node].addr.clone(), list.clone());
    }
}

fn remote(status: Status, class: &str) -> Error {
    Error::new(status, "scripted").with_remote(class, "scripted")
}

#[test]
fn the_visible_length_counts_and_grows() {
    let rig = Rig::new(250_000, 100_000, 2);
    open_last(&rig, &[(0, vec![Ok(20_000), Ok(50_000)])]);
    let stream = rig.open();
    assert_eq!(stream.len(), 220_000);
    assert!(rig.read_all(&stream, 7777).unwrap() == rig.data[..220_000]);
    let mut buf = vec![0; 1000];
    assert_eq!(stream.pread(219_500, &mut buf, limit()).unwrap(), 500);
    // The tail: ask again, read on.
    assert_eq!(stream.refresh(limit()).unwrap(), 250_000);
    assert_eq!(stream.available(), 30_000);
    assert!(rig.read_all(&stream, 7777).unwrap() == rig.data[220_000..]);
    let seen = rig.nodes[0].seen.lock().unwrap();
    assert!(seen.iter().all(|s| s.request.offset + s.request.len <= 100_000));
}

#[test]
fn a_chunk_that_changes_during_the_read_gets_another_chance() {
    let rig = Rig::new(1000, 1000, 2);
    open_last(&rig, &[(0, vec![Ok(1000)])]);
    for node in &rig.nodes {
        node.fail(Fault::BadChunk(0), 2);
    }
    let mut buf = [0; 1000];
    rig.open().pread(0, &mut buf, limit()).unwrap();
    assert!(buf[..] == rig.data);
    assert_eq!(rig.nodes[0].requests(), 3);
    assert!(rig.names.reports.lock().unwrap().is_empty());
    for node in &rig.nodes {
        node.fail(Fault::BadChunk(0), usize::MAX);
    }
    let error = rig.open().pread(0, &mut buf, limit()).unwrap_err();
    assert_eq!(error.status(), Status::BlockMissing);
}

#[test]
fn a_completed_block_is_read_on() {
    let rig = Rig::new(250_000, 100_000, 1);
    let complete = rig.names.answer.lock().unwrap().clone();
    open_last(&rig, &[(0, vec![Ok(1)])]);
    let stream = rig.open();
    assert_eq!(stream.len(), 200_001);
    *rig.names.answer.lock().unwrap() = complete;
    assert_eq!(stream.refresh(limit()).unwrap(), 250_000);
    assert!(rig.read_all(&stream, 100_000).unwrap() == rig.data);
}

#[test]
fn a_new_block_without_replicas_has_length_0() {
    let rig = Rig::new(250_000, 100_000, 2);
    let missing = || {
        let class = "org.apache.hadoop.hdfs.server.datanode.ReplicaNotFoundException";
        vec![Err(remote(Status::NotFound, class))]
    };
    open_last(&rig, &[(0, missing()), (1, missing())]);
    assert_eq!(rig.open().len(), 200_000);
    // Without locations too.
    let rig = Rig::new(250_000, 100_000, 1);
    open_last(&rig, &[]);
    rig.names.answer.lock().unwrap().as_mut().unwrap().last_block.as_mut().unwrap().locs.clear();
    assert_eq!(rig.open().len(), 200_000);
}

#[test]
fn an_unknown_length_is_an_error_and_not_0() {
    let rig = Rig::new(250_000, 100_000, 2);
    let missing = Err(remote(Status::NotFound, "x.ReplicaNotFoundException"));
    open_last(&rig, &[(0, vec![missing]), (1, vec![Err(Error::new(Status::Connect, "refused"))])]);
    let error = rig.try_open().err().unwrap();
    assert!(error.message().contains("Cannot obtain block length"), "{error}");
    assert!(error.message().contains("/f") && error.message().contains("refused"), "{error}");
}

#[test]
fn a_node_that_is_not_ready_is_asked_again() {
    let rig = Rig::new(250_000, 100_000, 2);
    let busy = || Err(remote(Status::Remote, "org.apache.hadoop.ipc.RetriableException"));
    let down = Err(Error::new(Status::Connect, "refused"));
    open_last(&rig, &[(0, vec![busy(), Ok(50_000)]), (1, vec![down])]);
    assert_eq!(rig.open().len(), 250_000);
}

#[test]
fn locations_of_the_last_block_are_waited_for() {
    let rig = Rig::new(250_000, 100_000, 1);
    open_last(&rig, &[(0, vec![Ok(50_000)])]);
    let ready = rig.names.answer.lock().unwrap().clone();
    let mut early = ready.clone().unwrap();
    let last = early.last_block.as_mut().unwrap();
    last.locs.clear();
    last.b.num_bytes = Some(10);
    rig.names.earlier.lock().unwrap().extend([Ok(early.clone()), Ok(early.clone())]);
    assert_eq!(rig.open().len(), 250_000);
    assert_eq!(rig.names.calls.load(Ordering::SeqCst), 3);
    *rig.names.answer.lock().unwrap() = Ok(early);
    let error = rig.try_open().err().unwrap();
    assert!(error.message().contains("Could not obtain the last block"), "{error}");
    assert_eq!(rig.names.calls.load(Ordering::SeqCst), 7);
}

#[test]
fn what_cannot_be_read_says_why() {
    let rig = Rig::new(1000, 1000, 1);
    let missing = Error::new(Status::NotFound, "File does not exist: /f");
    *rig.names.answer.lock().unwrap() = Err(missing);
    let error = rig.try_open().err().unwrap();
    assert_eq!(error.status(), Status::NotFound);
    *rig.names.info.lock().unwrap() = Some(Names::directory());
    let error = rig.try_open().err().unwrap();
    assert_eq!(error.status(), Status::IsDirectory);
    assert!(error.message().contains("path is a directory"), "{error}");

    let rig = Rig::new(1000, 1000, 1);
    {
        let mut answer = rig.names.answer.lock().unwrap();
        answer.as_mut().unwrap().ec_policy = Some(ErasureCodingPolicyProto {
            name: Some("RS-6-3-1024k".into()),
            id: 1,
            ..Default::default()
        });
    }
    let error = rig.try_open().err().unwrap();
    assert_eq!(error.status(), Status::Unsupported);
    assert!(error.message().contains("RS-6-3-1024k"), "{error}");

    let rig = Rig::new(1000, 1000, 1);
    rig.names.answer.lock().unwrap().as_mut().unwrap().file_encryption_info =
        Some(FileEncryptionInfoProto::default());
    let error = rig.try_open().err().unwrap();
    assert_eq!(error.status(), Status::Unsupported);
    assert!(error.message().contains("encrypted"), "{error}");

    let rig = Rig::new(1000, 1000, 1);
    let mut hole = located(1, 0, 1000, &[]);
    hole.b.num_bytes = Some(1000);
    {
        let mut answer = rig.names.answer.lock().unwrap();
        let answer = answer.as_mut().unwrap();
        (answer.blocks, answer.last_block) = (vec![hole.clone()], Some(hole));
    }
    let error = rig.open().pread(0, &mut [0; 10], limit()).unwrap_err();
    assert_eq!(error.status(), Status::BlockMissing);
    assert!(error.message().contains("knows no DataNode"), "{error}");
}

#[test]
fn a_writer_may_give_up_a_block_without_bytes_for_another_one() {
    let rig = Rig::new(250_000, 100_000, 2);
    let gone = || Err(remote(Status::NotFound, "ReplicaNotFoundException"));
    open_last(&rig, &[(0, vec![gone(), Ok(50_000)]), (1, vec![gone()])]);
    let stream = rig.open();
    assert_eq!(stream.len(), 200_000);
    let rename = |from: u64, to: u64| {
        let mut answer = rig.names.answer.lock().unwrap();
        let last = answer.as_mut().unwrap().last_block.as_mut().unwrap();
        assert_eq!(last.b.block_id, from);
        last.b.block_id = to;
    };
    rename(3, 7);
    assert_eq!(stream.refresh(limit()).unwrap(), 250_000);
    // With bytes that somebody may have read, it is another file.
    rename(7, 8);
    let error = stream.refresh(limit()).unwrap_err();
    assert!(error.message().starts_with("Blocklist for /f has changed"), "{error}");
}
