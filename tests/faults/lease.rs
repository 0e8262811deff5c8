//! The lease is lost: the file was deleted or taken over under its writer.
use crate::rig::{FLUSH, Rig, ample, wait_for};
use dfs::client::file_system::CreateOptions;
use dfs::error::{Error, Status};
use dfs::write::SyncMode;

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
