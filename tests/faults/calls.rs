//! Every call that a repetition could spoil, and what can happen to it at the NameNode: lost on
//! its way there or back, refused by a standby or by a server whose queue is full, slow. With two
//! NameNodes the caller notices nothing; with one it gets an error that a later call cures.
use crate::namenode::{METHODS, ha_rig, small_blocks, write_with};
use crate::rig::{FLUSH, Log, Rig, ample, is_passing, wait_for};
use dfs::client::file_system::CreateOptions;
use dfs::client::metadata::Metadata;
use dfs::error::{Result, Status};
use dfs_testkit::minidfs::{Fault, Rule};
use std::time::Duration;

const STANDBY: &str = "org.apache.hadoop.ipc.StandbyException";
const RETRIABLE: &str = "org.apache.hadoop.ipc.RetriableException";

/// What a NameNode with a full call queue answers (`ipc.PORT.backoff.enable`); some close the
/// connection behind it.
fn too_busy(disconnect: bool) -> Fault {
    let message = "Server too busy - disconnecting".to_owned();
    Fault::Throw { class: RETRIABLE.to_owned(), message, fatal: disconnect }
}

/// What a client with two NameNodes lives through.
fn passing_faults() -> Vec<Fault> {
    vec![
        Fault::Close,
        Fault::CloseAfter,
        Fault::throw(STANDBY, "Operation category WRITE is not supported in state standby"),
        too_busy(false),
        too_busy(true),
        Fault::Failover,
        Fault::DelayAfter(Duration::from_millis(30)),
    ]
}

/// Something done once, in a directory of its own where there is `old`, a file of two blocks.
struct Scene<'a> {
    rig: &'a Rig,
    meta: Metadata,
    old: Log,
    dir: String,
}

impl Scene<'_> {
    fn create(&self) {
        let file = self.rig.fs.create(&format!("{}/f", self.dir), &small_blocks(), ample());
        file.expect("create").close(ample()).unwrap();
    }

    fn append(&self) {
        let mut log = self.rig.reopen(&self.old);
        log.record(500).unwrap();
        log.file.close(ample()).unwrap();
        self.rig.check_closed(&log, 3);
    }

    fn rename(&self) {
        let (old, new) = (self.old.file.path(), format!("{}/new", self.dir));
        self.meta.rename(old, &new, false, ample()).expect("rename");
        assert!(!self.meta.exists(old, ample()).unwrap());
        assert_eq!(self.rig.read(&new).len() as u64, self.old.len);
    }

    fn delete(&self) {
        assert!(self.meta.delete(self.old.file.path(), false, ample()).expect("delete"));
        assert!(!self.meta.exists(self.old.file.path(), ample()).unwrap());
    }

    fn mkdir(&self) {
        self.meta.mkdir(&format!("{}/a", self.dir), 0o755, true, ample()).expect("mkdir");
    }

    fn concat(&self) {
        let mut log = self.rig.create_with(&small_blocks());
        let bytes = log.next(4096);
        log.write_bytes(&bytes, ample()).unwrap();
        log.file.close(ample()).unwrap();
        // The sources must lie beside the target.
        let source = format!("{}/source", self.old.file.path().rsplit_once('/').unwrap().0);
        self.meta.rename(log.file.path(), &source, true, ample()).unwrap();
        self.meta.concat(self.old.file.path(), &[&source], ample()).expect("concat");
        let read = self.rig.read(self.old.file.path());
        assert_eq!(read.len() as u64, self.old.len + 4096);
        assert!(read.ends_with(&bytes));
        assert!(!self.meta.exists(&source, ample()).unwrap());
    }

    fn truncate(&self) {
        assert!(self.meta.truncate(self.old.file.path(), 4096, ample()).expect("truncate"));
        assert_eq!(self.rig.read(self.old.file.path()).len(), 4096);
    }

    /// Into a block: a repetition meets the recovery that the first one began, or its result.
    fn truncate_inside(&self) {
        let path = self.old.file.path();
        if let Err(e) = self.meta.truncate(path, 1000, ample()) {
            assert!([Status::LeaseHeld, Status::RecoveryInProgress].contains(&e.status()), "{e}");
        }
        wait_for("the cut", || self.meta.is_file_closed(path, ample()).unwrap());
        assert_eq!(self.rig.read(path).len(), 1000);
    }

    fn recover_lease(&self) {
        let mut log = self.rig.create();
        log.record(700).unwrap();
        let path = log.file.path().to_owned();
        drop(log);
        if !self.meta.recover_lease(&path, ample()).expect("recoverLease") {
            wait_for("the recovery", || self.meta.is_file_closed(&path, ample()).unwrap());
        }
        assert_eq!(self.rig.read(&path).len(), 700);
    }

    fn attributes(&self) {
        let path = self.old.file.path();
        self.meta.set_replication(path, 2, ample()).expect("setReplication");
        self.meta.set_permission(path, 0o640, ample()).expect("setPermission");
        self.meta.set_owner(path, Some("o"), None, ample()).expect("setOwner");
        self.meta.set_times(path, Some(123_000), None, ample()).expect("setTimes");
        let status = self.meta.stat(path, ample()).unwrap();
        assert_eq!((status.replication, status.mode, status.mtime_ms), (2, 0o640, 123_000));
        assert_eq!(status.owner, "o");
    }
}

type Act = fn(&Scene<'_>);

const ACTS: &[(&str, Act)] = &[
    ("create", |s| s.create()),
    ("complete", |s| s.create()),
    ("append", |s| s.append()),
    ("rename2", |s| s.rename()),
    ("delete", |s| s.delete()),
    ("mkdirs", |s| s.mkdir()),
    ("concat", |s| s.concat()),
    ("truncate", |s| s.truncate()),
    ("truncate", |s| s.truncate_inside()),
    ("recoverLease", |s| s.recover_lease()),
    ("setReplication", |s| s.attributes()),
    ("setPermission", |s| s.attributes()),
    ("setOwner", |s| s.attributes()),
    ("setTimes", |s| s.attributes()),
];

/// Runs an act with a fault at its call; the answers that came from the retry cache.
fn run(rig: &Rig, method: &str, fault: &Fault, act: Act) -> u64 {
    let mut old = rig.create_with(&small_blocks());
    old.record(2 * 4096).unwrap();
    old.file.close(ample()).unwrap();
    rig.wait_reported(&old, 3);
    let dir = format!("{}-dir", old.file.path());
    let meta = rig.fs.metadata().unwrap();
    meta.mkdir(&dir, 0o755, true, ample()).unwrap();
    let scene = Scene { rig, meta, old, dir };
    let before = rig.mini.retry_cache_hits();
    let rule = rig.mini.faults().add(Rule::rpc(method, fault.clone()));
    act(&scene);
    assert_eq!(rule.fired(), 1, "{method} {fault:?}");
    rig.mini.faults().clear();
    rig.mini.retry_cache_hits() - before
}

#[test]
fn every_call_has_one_result_whatever_happens_to_it() {
    let rig = ha_rig();
    for (method, act) in ACTS {
        for fault in passing_faults() {
            let hits = run(&rig, method, &fault, *act);
            let cached = ["create", "append", "rename2", "delete", "concat"].contains(method);
            let wanted = u64::from(cached && fault == Fault::CloseAfter);
            assert_eq!(hits, wanted, "{method} {fault:?}");
        }
    }
    rig.check_leaks();
}

/// With one NameNode, too, a lost answer is asked for again.
#[test]
fn one_namenode_answers_a_lost_call_again() {
    let rig = Rig::new(3);
    for (method, act) in ACTS {
        for fault in [Fault::Close, Fault::CloseAfter] {
            run(&rig, method, &fault, *act);
        }
    }
    rig.check_leaks();
}

#[test]
fn a_writer_lives_through_standby_and_busy_namenodes() {
    let standby = || Fault::throw(STANDBY, "not active");
    for method in METHODS {
        for fault in [standby(), too_busy(false), too_busy(true)] {
            let rig = ha_rig();
            let rule = rig.mini.faults().add(Rule::rpc(method, fault).times(3));
            let log = write_with(&rig);
            rig.finish(log, 2);
            assert_eq!(rule.fired(), 3, "{method}");
        }
    }
}

/// Repeats until it succeeds; every failure asks for that.
fn again(status: Status, mut call: impl FnMut() -> Result<()>) -> u32 {
    for failures in 0..50 {
        match call() {
            Ok(()) => return failures,
            result => {
                assert!(is_passing(&result), "{result:?}");
                assert_eq!(result.unwrap_err().status(), status);
            }
        }
    }
    panic!("it never succeeds");
}

/// One NameNode, and no retry policy: the caller decides.
#[test]
fn a_busy_or_passive_namenode_leaves_the_file_usable() {
    let cases = [
        (too_busy(false), Status::ServerBusy),
        (too_busy(true), Status::ServerBusy),
        (Fault::throw(STANDBY, "not active"), Status::Standby),
    ];
    for method in METHODS.into_iter().filter(|m| *m != "create") {
        for (fault, status) in cases.clone() {
            let rig = Rig::new(3);
            let mut log = rig.create_with(&small_blocks());
            let rule = rig.mini.faults().add(Rule::rpc(method, fault).times(2));
            let mut failures = 0;
            for round in 0..3 {
                let end = log.len + 2000;
                failures += again(status, || {
                    let rest = (end - log.file.pos()) as usize;
                    let bytes = log.next(rest);
                    log.write_bytes(&bytes, ample())
                });
                failures += again(status, || log.flush());
                assert_eq!(log.file.durable(), log.len);
                if round == 0 {
                    let node = rig.index_of(&log, 0);
                    let site = dfs_testkit::minidfs::Site::PacketReceived;
                    rig.mini.faults().add(Rule::new(site, Fault::Close).on(node));
                }
            }
            failures += again(status, || log.file.close(ample()));
            assert_eq!((rule.fired(), failures), (2, 2), "{method}");
            rig.finish(log, 2);
        }
    }
}

#[test]
fn safe_mode_is_an_error_that_passes() {
    let rig = Rig::new(3);
    let meta = rig.fs.metadata().unwrap();
    let mut log = rig.create_with(&small_blocks());
    log.record(1000).unwrap();
    meta.set_safe_mode(true, ample()).unwrap();
    // Acks need no NameNode.
    log.record(1000).unwrap();
    let bytes = log.next(9000);
    let result = log.write_bytes(&bytes, ample()).and_then(|()| log.flush());
    let error = result.unwrap_err();
    assert_eq!(error.status(), Status::SafeMode, "{error:?}");
    assert!(error.is_retriable() && !error.is_fatal(), "{error:?}");
    assert_eq!(error.durable_bytes(), Some(log.file.durable()));
    assert_eq!(log.file.close(ample()).unwrap_err().status(), Status::SafeMode);
    let error = rig.fs.create("/no", &CreateOptions::default(), ample()).err().unwrap();
    assert_eq!(error.status(), Status::SafeMode);
    assert!(meta.delete(log.file.path(), false, ample()).is_err());
    meta.set_safe_mode(false, ample()).unwrap();
    log.flush().unwrap();
    log.record(1000).unwrap();
    rig.finish(log, 3);
}

/// With two NameNodes a start-up is waited out, inside the caller's limit.
#[test]
fn a_namenode_that_starts_up_under_a_writer_is_waited_for() {
    let rig = ha_rig();
    let mut log = rig.create_with(&small_blocks());
    log.record(1000).unwrap();
    rig.mini.set_startup_safe_mode(true);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            wait_for("calls that are refused", || rig.mini.call_count("addBlock") > 3);
            rig.mini.set_startup_safe_mode(false);
        });
        log.record(9000).unwrap();
    });
    rig.check_acked(&log);
    rig.finish(log, 3);
}

#[test]
fn failovers_of_slow_namenodes() {
    let rig = ha_rig();
    for (i, method) in METHODS.into_iter().enumerate() {
        let slow = Fault::DelayAfter(Duration::from_millis(60));
        rig.mini.faults().add(Rule::rpc(method, slow).times(2));
        rig.mini.faults().add(Rule::rpc(method, Fault::Failover).skip(2 + i as u64 % 2));
    }
    let log = write_with(&rig);
    log.file.flush(FLUSH, ample()).unwrap();
    rig.finish(log, 2);
}
