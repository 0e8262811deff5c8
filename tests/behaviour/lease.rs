//! Files that several clients want to write, and writers whose file is taken away.
use crate::server::{Server, bytes, create, limit, read_all, wait_for};
use dfs::client::file_system::{CreateOptions, FileSystem};
use dfs::error::{Error, Status};
use dfs::write::{OutputStream, SyncMode};
use std::time::{Duration, Instant};

on_every_server!(
    an_abandoned_file_is_recovered_and_goes_on,
    a_file_that_is_written_is_nobody_elses,
    a_stolen_lease_breaks_the_writer_and_keeps_the_bytes,
    an_overwritten_file_breaks_its_writer,
    a_deleted_file_or_parent_breaks_its_writer,
    a_renamed_file_is_written_on,
);

const FLUSH: SyncMode = SyncMode { sync: false, update_length: false, end_block: false };

fn options() -> CreateOptions {
    CreateOptions { block_size: Some(4096), ..create() }
}

/// An open file with `len` acknowledged bytes.
fn open(fs: &FileSystem, path: &str, len: usize) -> OutputStream {
    let file = fs.create(path, &options(), limit()).unwrap();
    file.write(&bytes(1, len), limit()).unwrap();
    file.flush(FLUSH, limit()).unwrap();
    assert_eq!(file.durable(), len as u64);
    file
}

fn append_error(fs: &FileSystem, path: &str) -> Error {
    fs.append(path, false, &options(), limit()).err().expect("append fails")
}

/// The lengths around chunks and blocks at which a file may be left.
const LENGTHS: [usize; 5] = [1, 512, 1300, 4096, 10_000];

fn an_abandoned_file_is_recovered_and_goes_on(server: &Server) {
    let (gone, heir, third) = (server.connect(), server.connect(), server.connect());
    let meta = heir.metadata().unwrap();
    let recover = |len: usize| {
        let path = server.path(&format!("abandoned-{len}"));
        drop(open(&gone, &path, len));
        // Abandoned or not, the lease still counts.
        assert_eq!(append_error(&heir, &path).status(), Status::LeaseHeld);
        if !meta.recover_lease(&path, limit()).unwrap() {
            // No second call of recoverLease follows, see Server::recover_lease.
            match third.append(&path, false, &options(), limit()) {
                // Recovered by now.
                Ok(file) => file.close(limit()).unwrap(),
                Err(error) => {
                    let wanted = [Status::RecoveryInProgress, Status::LeaseHeld];
                    assert!(wanted.contains(&error.status()), "{error:?}");
                    assert!(error.is_retriable() && !error.is_fatal(), "{error:?}");
                }
            }
        }
        wait_for("the recovery", || meta.is_file_closed(&path, limit()).unwrap());
        let mut all = bytes(1, len);
        assert!(read_all(&heir, &path) == all, "{len} acknowledged bytes");
        server.check_java(&path, &all);
        let file = heir.append(&path, false, &options(), limit()).unwrap();
        assert_eq!(file.pos(), len as u64);
        let more = bytes(2, 3000);
        file.write(&more, limit()).unwrap();
        file.flush(FLUSH, limit()).unwrap();
        file.close(limit()).unwrap();
        all.extend(more);
        server.check_file(&heir, &path, &all, 1);
    };
    std::thread::scope(|scope| {
        for len in LENGTHS {
            scope.spawn(move || recover(len));
        }
    });
}

/// Two file systems of one process are two clients; one alone is its own rival too.
fn a_file_that_is_written_is_nobody_elses(server: &Server) {
    let (mine, other) = (server.connect(), server.connect());
    let path = server.path("mine");
    let file = open(&mine, &path, 1300);
    let plain = CreateOptions { overwrite: false, ..options() };
    for rival in [&other, &mine] {
        let error = rival.create(&path, &plain, limit()).err().expect("create fails");
        assert_eq!(error.status(), Status::LeaseHeld, "{error}");
        assert!(error.remote_class().unwrap().ends_with("AlreadyBeingCreatedException"));
        let error = append_error(rival, &path);
        assert_eq!(error.status(), Status::LeaseHeld, "{error}");
        assert!(error.is_retriable() && error.message().contains(&path), "{error}");
    }
    // The writer notices nothing.
    file.write(&bytes(2, 5000), limit()).unwrap();
    file.flush(FLUSH, limit()).unwrap();
    file.close(limit()).unwrap();
    let error = other.create(&path, &plain, limit()).err().expect("create fails");
    assert_eq!(error.status(), Status::Exists, "{error}");
    let mut all = bytes(1, 1300);
    all.extend(bytes(2, 5000));
    server.check_file(&other, &path, &all, 3);
}

/// Writes on until the writer notices; servers take their time to stop it.
fn until_broken(file: &OutputStream, mode: SyncMode) -> Error {
    let started = Instant::now();
    while started.elapsed() < Duration::from_secs(60) {
        let result = file.write(&[7; 1000], limit()).and_then(|()| file.flush(mode, limit()));
        if let Err(error) = result {
            return error;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("the writer of {} notices nothing", file.path());
}

/// The same error for good, with a status that says that the file is no longer ours.
fn check_lost(file: &OutputStream, error: &Error) {
    assert!([Status::LeaseExpired, Status::NotFound].contains(&error.status()), "{error:?}");
    assert!(error.is_fatal() && !error.is_retriable(), "{error:?}");
    assert!(error.message().contains(file.path()), "{error}");
    assert_eq!(error.durable_bytes(), Some(file.durable()), "{error:?}");
    let again = [
        file.write(b"x", limit()).unwrap_err(),
        file.flush(FLUSH, limit()).unwrap_err(),
        file.close(limit()).unwrap_err(),
        file.close(limit()).unwrap_err(),
    ];
    for e in again {
        assert_eq!((e.status(), e.message()), (error.status(), error.message()));
    }
}

fn a_stolen_lease_breaks_the_writer_and_keeps_the_bytes(server: &Server) {
    let (victim, thief) = (server.connect(), server.connect());
    let steal = |len: usize, close: bool| {
        let path = server.path(&format!("stolen-{len}"));
        let file = open(&victim, &path, len);
        server.recover_lease(&thief, &path);
        let error = if close {
            file.write(&[7; 10], limit()).and_then(|()| file.close(limit())).unwrap_err()
        } else {
            until_broken(&file, FLUSH)
        };
        check_lost(&file, &error);
        assert!(file.durable() >= len as u64);
        assert!(read_all(&thief, &path) == bytes(1, len), "{len} acknowledged bytes");
        server.check_java(&path, &bytes(1, len));
        // The thief may go on, and the victim does not get in the way.
        let other = thief.append(&path, false, &options(), limit()).unwrap();
        other.write(b"mine", limit()).unwrap();
        other.close(limit()).unwrap();
        check_lost(&file, &error);
        let mut all = bytes(1, len);
        all.extend_from_slice(b"mine");
        server.check_file(&thief, &path, &all, 1);
    };
    std::thread::scope(|scope| {
        for len in LENGTHS {
            scope.spawn(move || steal(len, false));
        }
        steal(700, true);
    });
    assert_eq!(victim.stats().open_writers, 0);
}

fn an_overwritten_file_breaks_its_writer(server: &Server) {
    let (old, new) = (server.connect(), server.connect());
    for mode in [None, Some(FLUSH), Some(SyncMode { update_length: true, ..FLUSH })] {
        let path = server.path("overwritten");
        let file = open(&old, &path, 1000);
        let other = open(&new, &path, 2000);
        let error = match mode {
            None => file.close(limit()).unwrap_err(),
            Some(mode) => until_broken(&file, mode),
        };
        check_lost(&file, &error);
        other.write(b"end", limit()).unwrap();
        other.close(limit()).unwrap();
        let mut all = bytes(1, 2000);
        all.extend_from_slice(b"end");
        server.check_file(&new, &path, &all, 3);
    }
}

fn a_deleted_file_or_parent_breaks_its_writer(server: &Server) {
    let fs = server.connect();
    let meta = server.connect().metadata().unwrap();
    for parent in [false, true] {
        // Before the first block, in a block, at a block's end, and found out by close.
        for (len, close) in [(0, false), (0, true), (1000, false), (4096, false), (1000, true)] {
            let path = server.path("deleted");
            let file = open(&fs, &path, len);
            let target = if parent { path.trim_end_matches("/deleted") } else { &path };
            assert!(meta.delete(target, true, limit()).unwrap());
            let error =
                if close { file.close(limit()).unwrap_err() } else { until_broken(&file, FLUSH) };
            check_lost(&file, &error);
            assert!(!meta.exists(&path, limit()).unwrap());
        }
    }
    assert_eq!(fs.stats().open_writers, 0);
}

/// HDFS knows an open file by its id.
fn a_renamed_file_is_written_on(server: &Server) {
    let fs = server.connect();
    let meta = fs.metadata().unwrap();
    let (path, target) = (server.path("before"), server.path("after"));
    meta.mkdir(target.trim_end_matches("/after"), 0o755, true, limit()).unwrap();
    let file = open(&fs, &path, 1000);
    meta.rename(&path, &target, false, limit()).unwrap();
    // Beyond the block, so that every call of a writer is made.
    for seed in 2..5 {
        file.write(&bytes(seed, 3000), limit()).unwrap();
        file.flush(FLUSH, limit()).unwrap();
    }
    file.close(limit()).unwrap();
    let mut all = bytes(1, 1000);
    (2..5).for_each(|seed| all.extend(bytes(seed, 3000)));
    wait_for("the new name", || meta.exists(&target, limit()).unwrap());
    assert!(!meta.exists(&path, limit()).unwrap());
    server.check_file(&fs, &target, &all, 3);
}
