//! Limits of the servers and of the format: each ends in a result, or in an error of its own.
use crate::server::{Server, bytes, create, limit, read_all};
use dfs::client::file_system::CreateOptions;
use dfs::error::Status;
use dfs::write::SyncMode;

on_every_server!(
    a_name_quota_stops_create,
    a_space_quota_breaks_the_file_at_the_block_that_exceeds_it,
    more_replicas_than_datanodes,
    blocks_that_do_not_fit_the_chunk_are_refused,
    packets_are_cut_at_blocks,
);

const FLUSH: SyncMode = SyncMode { sync: false, update_length: false, end_block: false };
const BLOCK: usize = 4096;

fn options() -> CreateOptions {
    CreateOptions { block_size: Some(BLOCK as u64), ..create() }
}

fn a_name_quota_stops_create(server: &Server) {
    let fs = server.connect();
    let meta = fs.metadata().unwrap();
    let directory = server.path("names");
    meta.mkdir(&directory, 0o755, true, limit()).unwrap();
    // The directory itself and two files.
    meta.set_quota(&directory, 3, -1, limit()).unwrap();
    let create = |name: &str| fs.create(&format!("{directory}/{name}"), &options(), limit());
    for name in ["a", "b"] {
        let file = create(name).unwrap();
        file.write(&bytes(1, 100), limit()).unwrap();
        file.close(limit()).unwrap();
    }
    let error = create("c").err().expect("create fails");
    assert_eq!(error.status(), Status::Quota, "{error}");
    assert!(error.message().contains(&directory), "{error}");
    assert!(error.remote_class().unwrap().ends_with("NSQuotaExceededException"), "{error:?}");
    assert!(!error.is_retriable());
    // What is there can be replaced.
    create("b").unwrap().close(limit()).unwrap();
    assert_eq!(fs.stats().open_writers, 0);
}

fn a_space_quota_breaks_the_file_at_the_block_that_exceeds_it(server: &Server) {
    let fs = server.connect();
    let meta = fs.metadata().unwrap();
    let path = server.path("space/file");
    let directory = path.trim_end_matches("/file");
    meta.mkdir(directory, 0o755, true, limit()).unwrap();
    // Two blocks of three replicas; one that is begun counts as full.
    meta.set_quota(directory, -1, 6 * BLOCK as i64, limit()).unwrap();
    let file = fs.create(&path, &options(), limit()).unwrap();
    let all = bytes(1, 2 * BLOCK);
    for piece in all.chunks(1000) {
        file.write(piece, limit()).unwrap();
        file.flush(FLUSH, limit()).unwrap();
    }
    let result = file.write(b"beyond", limit()).and_then(|()| file.flush(FLUSH, limit()));
    let error = result.unwrap_err();
    assert_eq!(error.status(), Status::Quota, "{error}");
    assert!(error.is_fatal() && !error.is_retriable(), "{error:?}");
    assert_eq!(error.durable_bytes(), Some(all.len() as u64));
    assert!(error.remote_class().unwrap().ends_with("DSQuotaExceededException"), "{error:?}");
    let again = [file.flush(FLUSH, limit()).unwrap_err(), file.close(limit()).unwrap_err()];
    for e in again {
        assert_eq!((e.status(), e.message()), (error.status(), error.message()));
    }
    drop(file);
    assert!(read_all(&fs, &path)[..all.len()] == all);
    let heir = server.connect();
    server.recover_lease(&heir, &path);
    server.check_file(&heir, &path, &all, 3);
    // With more room it goes on.
    meta.set_quota(directory, -1, 12 * BLOCK as i64, limit()).unwrap();
    let file = heir.append(&path, false, &options(), limit()).unwrap();
    file.write(b"beyond", limit()).unwrap();
    file.close(limit()).unwrap();
    let all = [&all[..], b"beyond"].concat();
    server.check_file(&heir, &path, &all, 3);
}

/// The pipeline is as long as there are nodes; a floor of replicas makes that an error.
fn more_replicas_than_datanodes(server: &Server) {
    let fs = server.connect();
    let path = server.path("many");
    let wanted = CreateOptions { replication: Some(7), ..options() };
    let file = fs.create(&path, &wanted, limit()).unwrap();
    let all = bytes(1, 3 * BLOCK);
    for piece in all.chunks(1500) {
        file.write(piece, limit()).unwrap();
        file.flush(FLUSH, limit()).unwrap();
        assert_eq!(file.durable(), file.pos());
        assert!(file.pipeline().is_empty() || file.pipeline().len() == 3);
    }
    file.close(limit()).unwrap();
    assert_eq!(fs.metadata().unwrap().stat(&path, limit()).unwrap().replication, 7);
    server.check_file(&fs, &path, &all, 3);

    let floor = CreateOptions { min_replicas: 4, ..wanted };
    let file = fs.create(&path, &floor, limit()).unwrap();
    file.write(&all[..1000], limit()).unwrap();
    let error = file.flush(FLUSH, limit()).unwrap_err();
    assert_eq!(error.status(), Status::Pipeline, "{error}");
    assert!(error.message().contains("3 live replicas") && !error.is_fatal(), "{error:?}");
    assert_eq!(error.durable_bytes(), Some(1000));
    file.close(limit()).unwrap();
    server.check_file(&fs, &path, &all[..1000], 3);

    let beyond = CreateOptions { replication: Some(513), ..options() };
    let error = fs.create(&path, &beyond, limit()).err().expect("create fails");
    assert_eq!(error.status(), Status::InvalidArgument, "{error}");
    assert!(error.message().contains("513"), "{error}");
    server.check_file(&fs, &path, &all[..1000], 3);
}

fn blocks_that_do_not_fit_the_chunk_are_refused(server: &Server) {
    let fs = server.connect();
    let path = server.path("odd");
    for (block, chunk) in [(1000, 512), (4096, 4095), (512, 1024), (0, 512), (4096, 0)] {
        let odd =
            CreateOptions { block_size: Some(block), bytes_per_checksum: Some(chunk), ..create() };
        let error = fs.create(&path, &odd, limit()).err().expect("create fails");
        assert_eq!(error.status(), Status::InvalidArgument, "{block} by {chunk}: {error}");
        let named = if chunk == 0 { chunk.into() } else { block };
        assert!(error.message().contains(&named.to_string()), "{block} by {chunk}: {error}");
    }
    // Only the NameNode knows the least size of a block.
    let small = CreateOptions { block_size: Some(256), bytes_per_checksum: Some(256), ..create() };
    let error = fs.create(&path, &small, limit()).err().expect("create fails");
    assert!(error.message().contains("min-block-size"), "{error}");
    assert!(!error.is_retriable());
    assert!(!fs.metadata().unwrap().exists(&path, limit()).unwrap());
    assert_eq!(fs.stats().open_writers, 0);
}

/// A packet never leaves its block, however large it may be.
fn packets_are_cut_at_blocks(server: &Server) {
    let fs = server.connect();
    let cases = [
        // Block, chunk, packet, bytes a write.
        (512, 512, 65_536, 5000),
        (1024, 512, 1 << 20, 1),
        (3072, 512, 8192, 777),
        (4096, 4096, 512, 10_000),
        (65_536, 32_768, 65_536, 50_000),
    ];
    for (block, chunk, packet, step) in cases {
        let path = server.path("packets");
        let options = CreateOptions {
            block_size: Some(block),
            bytes_per_checksum: Some(chunk),
            packet_bytes: Some(packet),
            ..create()
        };
        let all = bytes(block, (5 * block + 100).min(150_000) as usize);
        let all = &all[..all.len().min(step * 4000)];
        let file = fs.create(&path, &options, limit()).unwrap();
        for (i, piece) in all.chunks(step).enumerate() {
            file.write(piece, limit()).unwrap();
            if i % 97 == 5 {
                file.flush(FLUSH, limit()).unwrap();
                assert_eq!(file.durable(), file.pos());
            }
        }
        file.close(limit()).unwrap();
        server.check_file(&fs, &path, all, 3);
    }
    let options = CreateOptions { packet_bytes: Some(16 << 20), ..create() };
    let error = fs.create(&server.path("huge"), &options, limit()).err().expect("create fails");
    assert_eq!(error.status(), Status::InvalidArgument, "{error}");
}
