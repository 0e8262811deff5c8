//! Appending to files whose last chunk and block end anywhere.
use crate::server::{Server, bytes, create, limit};
use dfs::client::file_system::CreateOptions;
use dfs::error::Status;
use dfs::write::SyncMode;

on_every_server!(
    append_continues_any_last_block,
    append_with_a_new_block,
    append_of_what_is_open_or_missing,
);

const FLUSH: SyncMode = SyncMode { sync: false, update_length: false, end_block: false };

fn options() -> CreateOptions {
    CreateOptions { block_size: Some(1 << 20), ..create() }
}

fn append_continues_any_last_block(server: &Server) {
    let fs = server.connect();
    for len in [0, 1, 511, 512, 1000, (1 << 20) - 10, 1 << 20, (1 << 20) + 700] {
        let path = server.path("append");
        let mut all = bytes(1, len);
        let file = fs.create(&path, &options(), limit()).unwrap();
        file.write(&all, limit()).unwrap();
        file.close(limit()).unwrap();
        server.wait_reported(&fs, &path, 3);
        // Nothing appended: nothing changes.
        fs.append(&path, false, &options(), limit()).unwrap().close(limit()).unwrap();
        let file = fs.append(&path, false, &options(), limit()).unwrap();
        assert_eq!(file.pos(), len as u64);
        for (seed, more) in [(2, 3), (3, 5), (4, 600), (5, 2000), (6, 150_000)] {
            let more = bytes(seed, more);
            file.write(&more, limit()).unwrap();
            all.extend_from_slice(&more);
            file.flush(FLUSH, limit()).unwrap();
            assert_eq!(file.durable(), all.len() as u64);
        }
        file.close(limit()).unwrap();
        server.check_file(&fs, &path, &all, 3);
    }
}

fn append_with_a_new_block(server: &Server) {
    let fs = server.connect();
    let path = server.path("new-block");
    let mut all = bytes(1, 700);
    let file = fs.create(&path, &options(), limit()).unwrap();
    file.write(&all, limit()).unwrap();
    file.close(limit()).unwrap();
    let file = fs.append(&path, true, &options(), limit()).unwrap();
    let more = bytes(2, 900);
    file.write(&more, limit()).unwrap();
    all.extend_from_slice(&more);
    file.close(limit()).unwrap();
    server.check_file(&fs, &path, &all, 3);
    let blocks = fs.metadata().unwrap().block_locations(&path, 0, 1 << 30, limit()).unwrap();
    assert_eq!(blocks.iter().map(|b| b.length).collect::<Vec<_>>(), [700, 900]);
}

fn append_of_what_is_open_or_missing(server: &Server) {
    let fs = server.connect();
    let path = server.path("held");
    let open = fs.create(&path, &options(), limit()).unwrap();
    open.write(b"x", limit()).unwrap();
    let other = server.connect();
    let error = other.append(&path, false, &options(), limit()).err().unwrap();
    assert_eq!(error.status(), Status::LeaseHeld, "{error:?}");
    open.close(limit()).unwrap();
    let error = fs.append(&server.path("missing"), false, &options(), limit()).err().unwrap();
    assert_eq!(error.status(), Status::NotFound, "{error:?}");
}
