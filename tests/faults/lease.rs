//! The lease is lost: the file was deleted or taken over under its writer.
use crate::rig::{FLUSH, Rig, ample, wait_for};
use dfs::client::file_system::CreateOptions;
use dfs::error::{Error, Status};
use dfs::write::SyncMode;
use std::time::Duration;

fn small_blocks() -> CreateOptions {
    CreateOptions { block_size: Some(4096), ..Default::default() }
}

/// Goes on until the writer notices.
fn until_broken(log: &mut crate::rig::Log) -> Error {
    for _ in 0..20 {
        if let Err(error) = log.write(1000).and_then(|()| log.flush()) {
            return error;
        }
    }
    panic!("the writer did not notice that it lost its lease");
}

#[test]
fn a_deleted_file_breaks_its_writer() {
    let rig = Rig::new(3);
    let mut log = rig.create_with(&small_blocks());
    log.record(1000).unwrap();
    assert!(rig.fs.metadata().unwrap().delete(log.file.path(), false, ample()).unwrap());
    let error = until_broken(&mut log);
    log.check_broken(&error);
    drop(log);
    rig.check_leaks();
}

#[test]
fn a_deleted_file_is_noticed_by_a_flush_that_tells_the_length_and_by_close() {
    let rig = Rig::new(3);
    for close in [false, true] {
        let mut log = rig.create();
        log.record(1000).unwrap();
        assert!(rig.fs.metadata().unwrap().delete(log.file.path(), false, ample()).unwrap());
        let error = if close {
            log.file.close(ample()).unwrap_err()
        } else {
            log.file.flush(SyncMode { update_length: true, ..FLUSH }, ample()).unwrap_err()
        };
        assert!([Status::LeaseExpired, Status::NotFound].contains(&error.status()), "{error:?}");
        log.check_broken(&error);
    }
    rig.check_leaks();
}

#[test]
fn a_stolen_lease_breaks_the_writer_and_keeps_the_bytes() {
    for len in [500, 4096, 9000] {
        let rig = Rig::new(3);
        let mut log = rig.create_with(&small_blocks());
        log.record(len).unwrap();
        // Bytes that nobody acknowledged may be kept or not.
        log.write(300).unwrap();
        let thief = crate::rig::client(&rig.mini, &[]);
        let meta = thief.metadata().unwrap();
        wait_for("the theft", || meta.recover_lease(log.file.path(), ample()).unwrap_or(false));
        let error = until_broken(&mut log);
        log.check_broken(&error);
        rig.recover(&log);
        // The thief goes on where the file ends.
        let file =
            thief.append(log.file.path(), false, &CreateOptions::default(), ample()).unwrap();
        assert!(file.pos() >= len as u64);
        file.close(ample()).unwrap();
        drop((log, file));
        rig.check_leaks();
    }
}

#[test]
fn a_file_created_anew_by_another_client_stays_the_others() {
    let rig = Rig::new(3);
    let mut log = rig.create();
    log.record(1000).unwrap();
    let thief = crate::rig::client(&rig.mini, &[]);
    let options = CreateOptions { overwrite: true, ..Default::default() };
    let other = thief.create(log.file.path(), &options, ample()).unwrap();
    other.write(b"mine", ample()).unwrap();
    other.flush(FLUSH, ample()).unwrap();
    let error = log.file.close(ample()).unwrap_err();
    log.check_broken(&error);
    other.close(ample()).unwrap();
    assert_eq!(rig.read(log.file.path()), b"mine");
    drop((log, other));
    rig.check_leaks();
}

/// The writer is gone and its lease past the soft limit: whoever wants the file next gets it, after
/// the recovery that the first attempt starts.
#[test]
fn an_unrenewed_lease_is_taken_over_by_append() {
    let builder =
        crate::rig::cluster(3).configure(|c| c.command_delay = Duration::from_millis(200));
    let rig = Rig::of(builder, &[]);
    let mut log = rig.create_with(&small_blocks());
    log.record(5000).unwrap();
    let path = log.file.path().to_owned();
    let heir = crate::rig::client(&rig.mini, &[]);
    let append = || heir.append(&path, false, &CreateOptions::default(), ample());
    assert_eq!(append().err().unwrap().status(), Status::LeaseHeld);
    assert!(rig.mini.age_lease(&path, Duration::from_secs(61)));
    // The first call starts the recovery, the next one meets it.
    for _ in 0..2 {
        let error = append().err().unwrap();
        assert_eq!(error.status(), Status::RecoveryInProgress, "{error:?}");
        assert!(error.is_retriable() && !error.is_fatal());
        assert!(error.message().contains(&path), "{error}");
    }
    let plain = CreateOptions::default();
    let error = heir.create(&path, &plain, ample()).err().unwrap();
    assert_eq!(error.status(), Status::RecoveryInProgress, "{error:?}");
    let meta = heir.metadata().unwrap();
    wait_for("the recovery", || meta.is_file_closed(&path, ample()).unwrap());
    let error = heir.create(&path, &plain, ample()).err().unwrap();
    assert_eq!(error.status(), Status::Exists, "{error:?}");
    let file = append().unwrap();
    assert_eq!(file.pos(), 5000);
    file.write(b"more", ample()).unwrap();
    file.close(ample()).unwrap();
    // The old writer lives, and learns it.
    let error = until_broken(&mut log);
    log.check_broken(&error);
    let read = rig.read(&path);
    assert_eq!(read.len(), 5004);
    assert_eq!(dfs_testkit::data::mismatch(log.seed(), 0, &read[..5000]), None);
    drop((log, file));
    rig.check_leaks();
}

/// Past the hard limit the NameNode closes the file by itself.
#[test]
fn a_lease_past_the_hard_limit_ends_the_file() {
    let rig = Rig::of(crate::rig::cluster(3).lease_hard_limit(Duration::from_secs(100)), &[]);
    let mut log = rig.create_with(&small_blocks());
    log.record(5000).unwrap();
    log.write(10).unwrap();
    assert!(rig.mini.age_lease(log.file.path(), Duration::from_secs(101)));
    let meta = rig.fs.metadata().unwrap();
    wait_for("the NameNode to act", || meta.is_file_closed(log.file.path(), ample()).unwrap());
    let error = until_broken(&mut log);
    assert!([Status::LeaseExpired, Status::NotFound].contains(&error.status()), "{error:?}");
    log.check_broken(&error);
    rig.recover(&log);
    drop(log);
    rig.check_leaks();
}

#[test]
fn a_deleted_parent_breaks_the_writer_at_every_place() {
    for len in [0, 100, 4096, 6000] {
        for close in [false, true] {
            let rig = Rig::new(3);
            let mut log = rig.create_with(&small_blocks());
            if len > 0 {
                log.record(len).unwrap();
            }
            assert!(rig.fs.metadata().unwrap().delete("/faults", true, ample()).unwrap());
            let error =
                if close { log.file.close(ample()).unwrap_err() } else { until_broken(&mut log) };
            assert_eq!(error.status(), Status::NotFound, "{error:?}");
            log.check_broken(&error);
            let options = CreateOptions::default();
            let error = rig.fs.create("/faults/x", &options, ample()).err().unwrap();
            assert_eq!(error.status(), Status::NotFound, "{error:?}");
            drop(log);
            rig.check_leaks();
        }
    }
}

#[test]
fn files_of_others_are_not_written() {
    let builder = crate::rig::cluster(3).configure(|c| {
        c.superuser = Some("hdfs".to_owned());
        let read_only = |_: &str, _: &str, path: &str| !path.starts_with("/sealed/");
        c.permission_hook = Some(std::sync::Arc::new(read_only));
    });
    let rig = Rig::of(builder, &[]);
    rig.fs.metadata().unwrap().mkdir("/sealed", 0o755, true, ample()).unwrap();
    let options = CreateOptions { overwrite: true, ..Default::default() };
    let refused = [
        rig.fs.create("/sealed/f", &options, ample()).err().unwrap(),
        rig.fs.append("/sealed/f", false, &options, ample()).err().unwrap(),
    ];
    for error in refused {
        assert_eq!(error.status(), Status::Permission, "{error:?}");
        assert!(error.message().contains("/sealed/f") && !error.is_retriable(), "{error:?}");
    }
    rig.check_leaks();
}
