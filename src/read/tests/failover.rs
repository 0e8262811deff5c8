//! Reads that meet a bad replica, one test a fault.
use super::scripted::{Fault, Rig, limit};
use crate::error::Status;
use crate::proto::hdfs::Status as DnStatus;
use crate::read::located::tests::located;
use crate::time::Deadline;
use std::sync::atomic::Ordering;
use std::time::Instant;

const BLOCK: usize = 262_144;

/// Reads a file of one block whose first replica has a fault in every operation, in all ways; the
/// result must always be right. Returns the rig of the pread.
fn survives(len: usize, fault: Fault, tries: usize) -> Rig {
    for step in [len, 4096, 100_000] {
        let rig = Rig::new(len, BLOCK, 3);
        rig.nodes[0].fail(fault, tries);
        let stream = rig.open();
        assert!(rig.read_all(&stream, step).unwrap() == rig.data, "{fault:?} by {step}");
    }
    let rig = Rig::new(len, BLOCK, 3);
    rig.nodes[0].fail(fault, tries);
    let stream = rig.open();
    let mut buf = vec![0; len];
    assert_eq!(stream.pread(0, &mut buf, limit()).unwrap(), len);
    assert!(buf == rig.data, "{fault:?}");
    assert_eq!(rig.nodes[0].requests(), 1, "a failed replica is not asked again: {fault:?}");
    assert_eq!(rig.nodes[1].requests(), 1);
    assert_eq!(rig.nodes[2].requests(), 0);
    // The stream remembers, and asks the good node at once.
    stream.pread(0, &mut buf, limit()).unwrap();
    assert_eq!(rig.nodes[0].requests(), 1);
    rig
}

#[test]
fn a_bad_chunk_moves_to_the_next_replica_and_is_reported() {
    for fault in [Fault::BadChunk(1), Fault::BadChunk(0), Fault::BadChunk(3), Fault::BadSum(2)] {
        let rig = survives(BLOCK, fault, usize::MAX);
        let reports = rig.names.reports.lock().unwrap();
        assert_eq!(reports.len(), 1);
        assert_eq!(reports[0].b.block_id, 1);
        assert_eq!(reports[0].locs.len(), 1);
        assert_eq!(reports[0].locs[0].id.datanode_uuid, rig.nodes[0].addr);
        assert_eq!(rig.ctx.stats.checksum_failures.load(Ordering::Relaxed), 1);
    }
}

#[test]
fn a_bad_partial_last_chunk_is_noticed() {
    for len in [1000, 300, 1, 513] {
        let rig = survives(len, Fault::BadChunk(0), usize::MAX);
        assert_eq!(rig.names.reports.lock().unwrap().len(), 1, "{len}");
    }
}

#[test]
fn breaks_and_lies_move_to_the_next_replica() {
    for fault in [
        Fault::CloseAt(0),
        Fault::CloseAt(1),
        Fault::CloseInside(2),
        Fault::EarlyLast(0),
        Fault::EarlyLast(2),
        Fault::WrongOffset(0),
        Fault::WrongOffset(1),
        Fault::Repeat(1),
        Fault::Omit(1),
        Fault::LongData(1),
        Fault::Refuse(DnStatus::Error),
        Fault::Refuse(DnStatus::ErrorInvalid),
        Fault::ChunkSize(0),
        Fault::ChunkSize(1 << 25),
        Fault::ChunkSize(500),
        Fault::CloseAtOnce,
        Fault::Http,
    ] {
        let rig = survives(BLOCK, fault, usize::MAX);
        assert!(rig.names.reports.lock().unwrap().is_empty(), "{fault:?}");
    }
}

#[test]
fn a_stall_ends_at_the_socket_timeout() {
    let rig = Rig::with(BLOCK, BLOCK, 2, |_| {}, |c| c.socket_timeout_ms = 100);
    rig.nodes[0].fail(Fault::StallAt(1), usize::MAX);
    let stream = rig.open();
    let begin = Instant::now();
    let mut buf = vec![0; BLOCK];
    stream.pread(0, &mut buf, limit()).unwrap();
    assert!(buf == rig.data);
    assert!(begin.elapsed().as_millis() >= 100 && begin.elapsed().as_millis() < 2000);
    let again = rig.open();
    assert!(rig.read_all(&again, 1000).unwrap() == rig.data);
}

#[test]
fn the_callers_deadline_names_node_and_stage() {
    let rig = Rig::new(BLOCK, BLOCK, 1);
    rig.nodes[0].fail(Fault::StallAt(1), usize::MAX);
    let stream = rig.open();
    let mut buf = vec![0; BLOCK];
    let error = stream.pread(0, &mut buf, Deadline::after_ms(60)).unwrap_err();
    assert_eq!(error.status(), Status::TimedOut);
    assert_eq!(error.server(), Some(&*rig.nodes[0].addr));
    assert_eq!(error.stage(), Some("reading data"));
    assert!(error.message().contains("/f") && error.message().contains("blk_1_1001"), "{error}");
    let mut small = vec![0; 70_000];
    let n = stream.read(&mut small, Deadline::after_ms(60)).unwrap();
    assert_eq!(n, 65_536, "what came before the stall is delivered");
    assert!(small[..n] == rig.data[..n]);
    let error = stream.read(&mut small, Deadline::after_ms(60)).unwrap_err();
    assert_eq!(error.status(), Status::TimedOut);
}

#[test]
fn a_missing_trailer_or_an_extra_packet_costs_only_the_connection() {
    for fault in [Fault::NoTrailer, Fault::Extra] {
        let rig = Rig::new(10_000, BLOCK, 2);
        rig.nodes[0].fail(fault, 1);
        let stream = rig.open();
        let mut buf = vec![0; 10_000];
        stream.pread(0, &mut buf, limit()).unwrap();
        assert!(buf == rig.data);
        assert_eq!(rig.ctx.peers.stats().idle, 0, "{fault:?}");
        stream.pread(0, &mut buf, limit()).unwrap();
        assert_eq!((rig.nodes[0].connections(), rig.nodes[1].connections()), (2, 0));
    }
}

#[test]
fn all_replicas_corrupt_is_an_error_and_no_report() {
    let rig = Rig::new(BLOCK, BLOCK, 3);
    for node in &rig.nodes {
        node.fail(Fault::BadChunk(1), usize::MAX);
    }
    let stream = rig.open();
    let mut buf = vec![0; BLOCK];
    let error = stream.pread(0, &mut buf, limit()).unwrap_err();
    assert_eq!(error.status(), Status::BlockMissing);
    for node in &rig.nodes {
        assert!(error.message().contains(&node.addr), "{error}");
        assert_eq!(node.requests(), 1, "never retried on the same node");
    }
    assert!(error.message().contains("blk_1_1001") && error.message().contains("/f"), "{error}");
    assert!(error.message().contains("does not match"), "{error}");
    assert!(rig.names.reports.lock().unwrap().is_empty());
    assert_eq!(stream.read(&mut buf, limit()).unwrap(), 65_536);
    assert!(buf[..65_536] == rig.data[..65_536]);
    let error = stream.read(&mut buf, limit()).unwrap_err();
    assert_eq!(error.status(), Status::BlockMissing);
}

#[test]
fn replicas_that_are_reported_late_are_found() {
    let rig = Rig::new(1000, BLOCK, 2);
    rig.nodes[0].fail(Fault::BadChunk(0), usize::MAX);
    // Right after the file was closed the NameNode knows one replica only, for two more calls.
    let mut early = rig.names.answer.lock().unwrap().clone().unwrap();
    early.blocks[0].locs.truncate(1);
    early.last_block = early.blocks.last().cloned();
    rig.names.earlier.lock().unwrap().extend([Ok(early.clone()), Ok(early.clone()), Ok(early)]);
    let stream = rig.open();
    let mut buf = [0; 1000];
    stream.pread(0, &mut buf, limit()).unwrap();
    assert!(buf[..] == rig.data);
    assert_eq!((rig.nodes[0].requests(), rig.nodes[1].requests()), (1, 1));
    assert_eq!(rig.names.reports.lock().unwrap().len(), 1);
}

#[test]
fn the_only_replica_is_reported_when_corrupt() {
    let rig = Rig::new(1000, BLOCK, 1);
    rig.nodes[0].fail(Fault::BadChunk(0), usize::MAX);
    let stream = rig.open();
    let mut buf = [0; 1000];
    assert_eq!(stream.pread(0, &mut buf, limit()).unwrap_err().status(), Status::BlockMissing);
    assert_eq!(rig.names.reports.lock().unwrap().len(), 1);
}

#[test]
fn dead_nodes_are_tried_again_after_a_refetch() {
    let rig = Rig::new(1000, BLOCK, 2);
    // Both refuse twice: round 1 and 2 fail, round 3 works.
    for node in &rig.nodes {
        node.fail(Fault::Refuse(DnStatus::Error), 2);
    }
    let stream = rig.open();
    let mut buf = [0; 1000];
    stream.pread(0, &mut buf, limit()).unwrap();
    assert!(buf[..] == rig.data);
    assert_eq!(rig.nodes[0].requests(), 3);
    assert_eq!(rig.names.calls.load(Ordering::SeqCst), 3);
    for node in &rig.nodes {
        node.fail(Fault::Refuse(DnStatus::Error), usize::MAX);
    }
    let error = stream.pread(0, &mut buf, limit()).unwrap_err();
    assert_eq!(error.status(), Status::BlockMissing);
    assert!(error.is_retriable() && error.message().contains("refused by script"), "{error}");
    assert_eq!(rig.nodes[1].requests(), 2 + 4, "four rounds");
}

#[test]
fn connect_failures_move_on_and_are_named() {
    // A port that no test of this process can get.
    let closed = "127.0.0.1:1";
    let rig = Rig::new(1000, BLOCK, 1);
    let two = located(1, 0, 1000, &[closed, &rig.nodes[0].addr]);
    rig.names.answer.lock().unwrap().as_mut().unwrap().blocks = vec![two.clone()];
    rig.names.answer.lock().unwrap().as_mut().unwrap().last_block = Some(two);
    let stream = rig.open();
    let mut buf = [0; 1000];
    stream.pread(0, &mut buf, limit()).unwrap();
    assert!(buf[..] == rig.data);
    let rig = Rig::new(1000, BLOCK, 1);
    let one = located(1, 0, 1000, &[closed]);
    rig.names.answer.lock().unwrap().as_mut().unwrap().blocks = vec![one.clone()];
    rig.names.answer.lock().unwrap().as_mut().unwrap().last_block = Some(one);
    let stream = rig.open();
    let error = stream.pread(0, &mut buf, limit()).unwrap_err();
    assert!(error.message().contains(closed) && error.message().contains("connecting"), "{error}");
}

#[test]
fn a_refused_token_is_fetched_anew_once() {
    let rig = Rig::new(1000, BLOCK, 2);
    rig.nodes[0].fail(Fault::Refuse(DnStatus::ErrorAccessToken), 1);
    let stream = rig.open();
    {
        let mut answer = rig.names.answer.lock().unwrap();
        let answer = answer.as_mut().unwrap();
        answer.blocks[0].block_token.identifier = vec![1, 2, 3];
        answer.last_block = answer.blocks.last().cloned();
    }
    let mut buf = [0; 1000];
    stream.pread(0, &mut buf, limit()).unwrap();
    assert_eq!((rig.nodes[0].requests(), rig.nodes[1].requests()), (2, 0));
    assert_eq!(rig.names.calls.load(Ordering::SeqCst), 2);
    let seen = rig.nodes[0].seen.lock().unwrap();
    let token = seen[1].request.header.base_header.token.clone().unwrap();
    assert_eq!(token.identifier, [1, 2, 3]);
    drop(seen);
    rig.nodes[0].fail(Fault::Refuse(DnStatus::ErrorAccessToken), usize::MAX);
    stream.pread(0, &mut buf, limit()).unwrap();
    assert_eq!((rig.nodes[0].requests(), rig.nodes[1].requests()), (4, 1));
}

#[test]
fn stale_cached_connections_blame_nobody() {
    let rig = Rig::new(100_000, BLOCK, 2);
    let stream = rig.open();
    let mut buf = vec![0; 100_000];
    stream.pread(0, &mut buf, limit()).unwrap();
    // The node closes when it sees the next request on the kept connection.
    rig.nodes[0].fail(Fault::CloseAtOnce, 1);
    stream.pread(0, &mut buf, limit()).unwrap();
    assert!(buf == rig.data);
    assert_eq!((rig.nodes[0].connections(), rig.nodes[1].connections()), (2, 0));
    assert_eq!(rig.ctx.stats.stale_peers.load(Ordering::Relaxed), 1);
    assert_eq!(rig.ctx.stats.failovers.load(Ordering::Relaxed), 0);
    // The node closes after each operation: the probe sees it.
    rig.nodes[0].script.lock().unwrap().ops_per_connection = 1;
    for _ in 0..5 {
        stream.pread(0, &mut buf, limit()).unwrap();
        rig.nodes[0].wait_statuses(rig.nodes[0].requests() - 1);
    }
    assert_eq!(rig.nodes[1].connections(), 0);
    assert_eq!(rig.ctx.stats.failovers.load(Ordering::Relaxed), 0);
}

#[test]
fn a_broken_stream_reconnects_to_its_node_once() {
    let rig = Rig::new(BLOCK, BLOCK, 2);
    rig.nodes[0].fail(Fault::CloseAt(2), 1);
    let stream = rig.open();
    assert!(rig.read_all(&stream, 4096).unwrap() == rig.data);
    assert_eq!((rig.nodes[0].requests(), rig.nodes[1].requests()), (2, 0));
    assert_eq!(rig.nodes[0].seen.lock().unwrap()[1].request.offset, 131_072);
    // Always: the second break moves on.
    let rig = Rig::new(BLOCK, BLOCK, 2);
    rig.nodes[0].fail(Fault::CloseAt(1), usize::MAX);
    let stream = rig.open();
    assert!(rig.read_all(&stream, 4096).unwrap() == rig.data);
    assert_eq!((rig.nodes[0].requests(), rig.nodes[1].requests()), (2, 1));
}

#[test]
fn a_replaced_block_list_is_an_error() {
    let rig = Rig::new(1000, BLOCK, 1);
    rig.nodes[0].fail(Fault::Refuse(DnStatus::Error), usize::MAX);
    let stream = rig.open();
    let other = located(99, 0, 1000, &[&rig.nodes[0].addr]);
    {
        let mut answer = rig.names.answer.lock().unwrap();
        let answer = answer.as_mut().unwrap();
        (answer.blocks, answer.last_block) = (vec![other.clone()], Some(other));
    }
    let mut buf = [0; 1000];
    let error = stream.pread(0, &mut buf, limit()).unwrap_err();
    assert!(error.message().starts_with("Blocklist for /f has changed"), "{error}");
    *rig.names.answer.lock().unwrap() =
        Err(crate::error::Error::new(Status::NotFound, "File does not exist: /f"));
    assert_eq!(stream.pread(0, &mut buf, limit()).unwrap_err().status(), Status::NotFound);
}

#[test]
fn closing_ends_a_waiting_read() {
    for whole in [false, true] {
        let rig = Rig::with(BLOCK, BLOCK, 1, |_| {}, |c| c.socket_timeout_ms = 60_000);
        rig.nodes[0].fail(Fault::StallAt(0), usize::MAX);
        let stream = rig.open();
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| stream.pread(0, &mut [0; 4096], limit()));
            while rig.nodes[0].requests() == 0 {
                std::thread::yield_now();
            }
            if whole {
                rig.ctx.close()
            } else {
                stream.close()
            }
            assert_eq!(waiter.join().unwrap().unwrap_err().status(), Status::Closed);
        });
    }
}
