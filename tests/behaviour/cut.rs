//! Files that are cut or joined, and then go on.
use crate::server::{Server, bytes, create, limit, read_all, wait_for};
use dfs::client::file_system::{CreateOptions, FileSystem};
use dfs::error::Status;
use dfs::write::SyncMode;

on_every_server!(
    truncate_then_append,
    truncate_is_refused_where_it_makes_no_sense,
    concat_then_append,
    concat_is_refused_where_it_makes_no_sense,
);

const FLUSH: SyncMode = SyncMode { sync: false, update_length: false, end_block: false };
const BLOCK: usize = 4096;

fn options() -> CreateOptions {
    CreateOptions { block_size: Some(BLOCK as u64), ..create() }
}

/// Appends some records to a closed file of these bytes.
fn go_on(server: &Server, fs: &FileSystem, path: &str, mut all: Vec<u8>) {
    server.wait_reported(fs, path, 3);
    let file = fs.append(path, false, &options(), limit()).unwrap();
    assert_eq!(file.pos(), all.len() as u64);
    for (seed, len) in [(1, 3), (2, 700), (3, 5000)] {
        let more = bytes(seed, len);
        file.write(&more, limit()).unwrap();
        all.extend_from_slice(&more);
        file.flush(FLUSH, limit()).unwrap();
        assert_eq!(file.durable(), all.len() as u64);
    }
    file.close(limit()).unwrap();
    server.check_file(fs, path, &all, 3);
}

/// To a chunk's end, into a chunk, to a block's end, into an earlier block, to nothing.
fn truncate_then_append(server: &Server) {
    let fs = server.connect();
    let whole = bytes(7, 2 * BLOCK + 1808);
    let cut = |length: usize| {
        let path = server.path(&format!("cut-{length}"));
        server.write_file(&fs, &path, &options(), &whole);
        let meta = fs.metadata().unwrap();
        let done = meta.truncate(&path, length as u64, limit()).unwrap();
        // Only a cut at a block's end needs no recovery of the last block.
        let ends = [0, BLOCK, 2 * BLOCK, whole.len()].contains(&length);
        assert_eq!(done, ends, "truncate to {length}");
        if !done {
            match fs.append(&path, false, &options(), limit()) {
                // Cut by now.
                Ok(file) => file.close(limit()).unwrap(),
                Err(error) => {
                    let wanted = [Status::RecoveryInProgress, Status::LeaseHeld];
                    assert!(wanted.contains(&error.status()), "{length}: {error:?}");
                }
            }
            wait_for("the cut", || meta.is_file_closed(&path, limit()).unwrap());
        }
        assert!(read_all(&fs, &path) == whole[..length], "after truncate to {length}");
        server.check_file(&fs, &path, &whole[..length], 3);
        go_on(server, &fs, &path, whole[..length].to_vec());
    };
    std::thread::scope(|scope| {
        for length in [2 * BLOCK + 1536, 2 * BLOCK + 1000, BLOCK + 512, BLOCK + 1, 77] {
            scope.spawn(move || cut(length));
        }
        for length in [whole.len(), 2 * BLOCK, BLOCK, 0] {
            cut(length);
        }
    });
}

fn truncate_is_refused_where_it_makes_no_sense(server: &Server) {
    let fs = server.connect();
    let meta = fs.metadata().unwrap();
    let path = server.path("short");
    server.write_file(&fs, &path, &options(), &bytes(1, 100));
    let status = |path: &str, length| meta.truncate(path, length, limit()).unwrap_err().status();
    assert_eq!(status(&path, 101), Status::InvalidArgument);
    assert_eq!(status(&server.path("missing"), 0), Status::NotFound);
    let open = fs.append(&path, false, &options(), limit()).unwrap();
    open.write(b"more", limit()).unwrap();
    open.flush(FLUSH, limit()).unwrap();
    let other = server.connect().metadata().unwrap();
    let error = other.truncate(&path, 50, limit()).unwrap_err();
    assert_eq!(error.status(), Status::LeaseHeld, "{error}");
    open.close(limit()).unwrap();
    assert_eq!(meta.stat(&path, limit()).unwrap().length, 104);
}

fn concat_then_append(server: &Server) {
    let fs = server.connect();
    let meta = fs.metadata().unwrap();
    let directory = server.path("concat");
    let part = |i: usize| format!("{directory}/{i}");
    // Up to 2.7 every block but the last source's last must be full.
    let lengths = [2 * BLOCK, BLOCK, 3 * BLOCK, BLOCK + 1234];
    let mut all = Vec::new();
    for (i, length) in lengths.into_iter().enumerate() {
        let content = bytes(i as u64, length);
        server.write_file(&fs, &part(i), &options(), &content);
        all.extend(content);
    }
    let sources = [part(1), part(2), part(3)];
    let sources: Vec<&str> = sources.iter().map(String::as_str).collect();
    meta.concat(&part(0), &sources, limit()).unwrap();
    for source in sources {
        assert!(!meta.exists(source, limit()).unwrap());
    }
    assert!(read_all(&fs, &part(0)) == all);
    server.check_file(&fs, &part(0), &all, 3);
    go_on(server, &fs, &part(0), all);
}

fn concat_is_refused_where_it_makes_no_sense(server: &Server) {
    let fs = server.connect();
    let meta = fs.metadata().unwrap();
    let (a, b) = (server.path("a"), server.path("b"));
    for path in [&a, &b] {
        server.write_file(&fs, path, &options(), &bytes(1, BLOCK));
    }
    let missing = format!("{}/missing", a.trim_end_matches("/a"));
    let error = meta.concat(&a, &[&missing], limit()).unwrap_err();
    assert_eq!(error.status(), Status::NotFound, "{error}");
    // Itself, nothing, and a file of another directory.
    for sources in [&[a.as_str()][..], &[][..], &[b.as_str()][..]] {
        let error = meta.concat(&a, sources, limit()).unwrap_err();
        assert_eq!(error.status(), Status::InvalidArgument, "{sources:?}: {error}");
    }
    server.check_file(&fs, &a, &bytes(1, BLOCK), 3);
}
