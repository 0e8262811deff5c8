//! Calls that something happens to.
use crate::{create_request, fails, limit, metadata, mini, mini_ha};
use dfs::checksum::{self, ChecksumType};
use dfs::client::file_system::{CreateOptions, FileSystem};
use dfs::client::lease_renewer::LeaseRenewer;
use dfs::conf::Config;
use dfs::error::{Error, Status};
use dfs::keeper::Renewed as _;
use dfs::time::Deadline;
use dfs::write::{LeaseHolder, LeaseRegistry as _};
use dfs_testkit::data;
use dfs_testkit::minidfs::{Fault, MiniDfs, Op, Rule, Site};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

fn cluster() -> MiniDfs {
    MiniDfs::builder().datanodes(1).replication(1).start().unwrap()
}

fn pair() -> MiniDfs {
    MiniDfs::builder().datanodes(1).replication(1).ha(true).start().unwrap()
}

#[test]
fn a_lost_answer_is_asked_for_again_and_comes_from_the_retry_cache() {
    let cluster = cluster();
    let nn = mini(&cluster, &[]);
    let m = metadata(&nn);
    m.mkdir("/d", 0o755, true, limit()).unwrap();
    for method in ["create", "rename2", "delete"] {
        cluster.faults().add(Rule::rpc(method, Fault::CloseAfter));
    }
    // Each would fail if the NameNode carried it out twice.
    let id = nn.create(create_request("/d/f"), limit()).unwrap().file_id();
    assert!(nn.complete("/d/f", None, id, limit()).unwrap());
    m.rename("/d/f", "/d/g", false, limit()).unwrap();
    assert!(m.delete("/d/g", false, limit()).unwrap());
    assert_eq!(cluster.retry_cache_hits(), 3);
}

#[test]
fn connections_that_the_namenode_closed_cost_nothing() {
    let cluster = cluster();
    let m = metadata(&mini(&cluster, &[]));
    for round in 0..5 {
        m.mkdir(&format!("/r{round}"), 0o755, true, limit()).unwrap();
        cluster.drop_namenode_connections();
    }
    assert_eq!(cluster.retry_cache_hits(), 0);
    assert_eq!(cluster.call_count("mkdirs"), 5);
}

#[test]
fn calls_follow_the_active_namenode() {
    let cluster = pair();
    let nn = mini_ha(&cluster, &[]);
    let m = metadata(&nn);
    for round in 0..4 {
        cluster.set_active(round % 2);
        m.mkdir(&format!("/r{round}"), 0o755, true, limit()).unwrap();
    }
    // The NameNode loses its role while it has the call.
    cluster.faults().add(Rule::rpc("create", Fault::Failover));
    let id = nn.create(create_request("/f"), limit()).unwrap().file_id();
    // It carries the call out, and the answer gets lost with its role.
    cluster.faults().add(Rule::rpc("delete", Fault::CloseAfter));
    assert!(nn.complete("/f", None, id, limit()).unwrap());
    assert!(m.delete("/f", false, limit()).unwrap());
    assert_eq!(cluster.retry_cache_hits(), 1);
}

#[test]
fn many_threads_live_through_failovers() {
    let cluster = pair();
    let m = metadata(&mini_ha(&cluster, &[]));
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let m = &m;
            scope.spawn(move || {
                for i in 0..40 {
                    m.mkdir(&format!("/t{thread}/{i}"), 0o755, true, limit()).unwrap();
                }
            });
        }
        for round in 1..10 {
            std::thread::sleep(Duration::from_millis(10));
            cluster.set_active(round % 2);
            if round % 3 == 0 {
                cluster.drop_namenode_connections();
            }
        }
    });
    for thread in 0..8 {
        let entries = m.list(&format!("/t{thread}"), limit()).unwrap().collect(limit()).unwrap();
        assert_eq!(entries.len(), 40);
    }
}

#[test]
fn a_namenode_that_starts_up_is_waited_for() {
    let cluster = pair();
    let m = metadata(&mini_ha(&cluster, &[("dfs.client.retry.max.attempts", "1000")]));
    cluster.set_startup_safe_mode(true);
    fails(
        m.mkdir("/short", 0o755, true, Deadline::after_ms(1000)),
        Status::SafeMode,
        "attempts on 2 NameNodes",
    );
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(200));
            cluster.set_startup_safe_mode(false);
        });
        m.mkdir("/long", 0o755, true, limit()).unwrap();
    });
}

#[test]
fn a_silent_namenode_ends_calls_in_time_and_is_usable_again() {
    let cluster = cluster();
    let m = metadata(&mini(&cluster, &[]));
    m.mkdir("/a", 0o755, true, limit()).unwrap();
    cluster.pause_namenodes(true);
    let begun = Instant::now();
    fails(m.stat("/a", Deadline::after_ms(300)), Status::TimedOut, "getFileInfo /a");
    assert!(begun.elapsed() < Duration::from_secs(5));
    cluster.pause_namenodes(false);
    m.stat("/a", limit()).unwrap();
    let slow = metadata(&mini(&cluster, &[("ipc.client.rpc-timeout.ms", "200")]));
    cluster.faults().add(Rule::rpc("getFileInfo", Fault::Delay(Duration::from_secs(2))));
    fails(slow.stat("/a", Deadline::NONE), Status::TimedOut, "no answer from server");
    slow.stat("/a", limit()).unwrap();
}

#[test]
fn answers_in_other_languages_are_named() {
    let cluster = cluster();
    cluster.faults().add(Rule::rpc("getFileInfo", Fault::http()));
    let m = metadata(&mini(&cluster, &[]));
    let e = fails(m.stat("/", limit()), Status::NotHdfs, "HTTP");
    assert_eq!(e.server(), Some(cluster.uri().trim_start_matches("hdfs://")));
    m.stat("/", limit()).unwrap();
    cluster.faults().add(Rule::rpc("getFileInfo", Fault::oversized_frame(1 << 30)));
    fails(m.stat("/", limit()), Status::Protocol, "1073741824 bytes");
    m.stat("/", limit()).unwrap();
}

#[test]
fn exceptions_keep_class_words_and_server() {
    let cluster = cluster();
    let m = metadata(&mini(&cluster, &[]));
    for (class, status) in [
        ("org.apache.hadoop.security.AccessControlException", Status::Permission),
        ("org.apache.hadoop.hdfs.protocol.DSQuotaExceededException", Status::Quota),
        ("org.apache.hadoop.hdfs.server.namenode.SafeModeException", Status::SafeMode),
        ("org.apache.hadoop.ipc.StandbyException", Status::Standby),
        ("java.lang.NullPointerException", Status::Remote),
    ] {
        cluster.faults().add(Rule::rpc("mkdirs", Fault::throw(class, "because of a test")));
        let e = fails(m.mkdir("/d", 0o755, true, limit()), status, "because of a test");
        assert!(e.message().starts_with("mkdirs /d: "), "{e}");
        assert_eq!(e.remote_class(), Some(class));
        assert!(e.server().is_some());
    }
    m.mkdir("/d", 0o755, true, limit()).unwrap();
}

#[test]
fn file_checksums_survive_dead_datanodes_and_old_tokens() {
    let cluster = MiniDfs::builder().datanodes(3).replication(3).start().unwrap();
    let mut config = Config::new();
    config.set("dfs.checksum.combine.mode", "COMPOSITE_CRC");
    let fs = FileSystem::connect(&config, Some(&cluster.uri()), limit()).unwrap();
    let bytes = data::bytes(5, 0, 150_000);
    let options = CreateOptions { block_size: Some(65_536), ..Default::default() };
    let file = fs.create("/f", &options, limit()).unwrap();
    file.write(&bytes, limit()).unwrap();
    file.close(limit()).unwrap();
    let m = fs.metadata().unwrap();
    let crc = |n: usize| checksum::update(ChecksumType::Crc32c, 0, &bytes[..n]).to_be_bytes();
    let sum = |n: u64| m.checksum("/f", Some(n), limit()).unwrap().bytes;
    assert_eq!(sum(1 << 40), crc(bytes.len()));
    assert_eq!(sum(65_536), crc(65_536));
    assert_eq!(sum(70_001), crc(70_001));
    // A refused token is worth one more look at the NameNode, for each block.
    let asked = cluster.call_count("getBlockLocations");
    let refused = cluster.faults().add(Rule::new(Site::Op(Op::Checksum), Fault::access_token()));
    assert_eq!(sum(1 << 40), crc(bytes.len()));
    assert_eq!((refused.fired(), cluster.call_count("getBlockLocations")), (1, asked + 2));
    cluster.faults().add(Rule::new(Site::Op(Op::Checksum), Fault::access_token()).times(2));
    fails(m.checksum("/f", None, limit()), Status::BlockToken, "checksum of /f");
    // Any replica will do, and none is an error that says so.
    let closed = Rule::new(Site::Op(Op::Checksum), Fault::Close).times(2);
    cluster.faults().add(closed);
    assert_eq!(sum(1 << 40), crc(bytes.len()));
    for node in cluster.datanodes() {
        node.kill();
    }
    fails(m.checksum("/f", None, limit()), Status::Connect, "no replica of blk_");
}

#[test]
fn a_closed_client_says_so() {
    let cluster = cluster();
    let nn = mini(&cluster, &[]);
    nn.renew_lease(limit()).unwrap();
    cluster.pause_namenodes(true);
    std::thread::scope(|scope| {
        let call = scope.spawn(|| nn.get_file_info("/", Deadline::NONE));
        std::thread::sleep(Duration::from_millis(100));
        nn.close();
        fails(call.join().unwrap(), Status::Closed, "closed");
    });
    cluster.pause_namenodes(false);
    fails(nn.get_file_info("/", limit()), Status::Closed, "closed");
}

/// A file whose lease is renewed, and what it was told.
#[derive(Default)]
struct Holder {
    lost: Mutex<Option<Error>>,
    closed: AtomicBool,
}

impl LeaseHolder for Holder {
    fn lease_lost(&self, why: &Error) {
        *self.lost.lock().unwrap() = Some(why.clone());
    }

    fn file_system_closed(&self) {
        self.closed.store(true, Ordering::Release);
    }
}

#[test]
fn leases_are_renewed_while_files_are_open_and_lost_after_the_hard_limit() {
    let cluster = cluster();
    let nn = mini(&cluster, &[]);
    let renewer = LeaseRenewer::new(Arc::clone(&nn));
    let begin = Instant::now();
    let at = |seconds| begin + Duration::from_secs(seconds);
    // No file, no call.
    renewer.renew(at(100));
    assert_eq!(cluster.call_count("renewLease"), 0);
    let holder = Arc::new(Holder::default());
    let weak: Weak<dyn LeaseHolder> = Arc::downgrade(&holder) as _;
    let id = renewer.begin(weak.clone());
    // Half of the soft limit of 60 s, and again.
    for (seconds, calls) in [(1, 0), (29, 0), (31, 1), (60, 1), (62, 2), (63, 2), (93, 3)] {
        renewer.renew(at(seconds));
        assert_eq!(cluster.call_count("renewLease"), calls, "after {seconds} s");
    }
    // Refused: tried again every second, and the file knows nothing until the hard limit.
    let class = "org.apache.hadoop.security.AccessControlException";
    let refusal = cluster.faults().add(Rule::rpc("renewLease", Fault::throw(class, "no")).always());
    for (i, seconds) in [124, 125, 126, 1200, 1292].into_iter().enumerate() {
        renewer.renew(at(seconds));
        assert_eq!(refusal.fired(), i as u64 + 1);
        assert!(holder.lost.lock().unwrap().is_none(), "after {seconds} s");
    }
    renewer.renew(at(1294));
    let error = holder.lost.lock().unwrap().take().expect("the lease is lost");
    assert_eq!(error.status(), Status::Permission, "{error}");
    assert_eq!(renewer.open_files(), 0);
    renewer.end(id);
    // The next file starts afresh.
    refusal.disarm();
    let id = renewer.begin(weak);
    let calls = cluster.call_count("renewLease");
    renewer.renew(Instant::now() + Duration::from_secs(31));
    assert_eq!(cluster.call_count("renewLease"), calls + 1);
    renewer.close();
    assert!(holder.closed.load(Ordering::Acquire));
    renewer.end(id);
    assert!(holder.lost.lock().unwrap().is_none());
}
