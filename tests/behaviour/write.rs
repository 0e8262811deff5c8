//! Writing: every checksum type, chunk and block boundary; hflush and hsync; what readers see.
use crate::server::{Server, bytes, create, limit, read_all};
use dfs::checksum::ChecksumType;
use dfs::client::file_system::CreateOptions;
use dfs::error::Status;
use dfs::read::ReadOptions;
use dfs::write::SyncMode;

const FLUSH: SyncMode = SyncMode { sync: false, update_length: false, end_block: false };

on_every_server!(
    files_of_every_size_around_chunks_packets_and_blocks,
    every_checksum_type,
    flushed_bytes_are_visible_while_the_file_is_open,
    hsync_flags,
    small_writes_and_flushes_make_one_file,
    many_threads_flush_one_file,
    replication_one,
    errors_of_create,
);

fn write_file(server: &Server, options: &CreateOptions, data: &[u8], step: usize) {
    let fs = server.connect();
    let path = server.path("file");
    let file = fs.create(&path, options, limit()).unwrap();
    for piece in data.chunks(step.max(1)) {
        file.write(piece, limit()).unwrap();
    }
    assert_eq!(file.pos(), data.len() as u64);
    file.close(limit()).unwrap();
    file.close(limit()).unwrap();
    let replication = options.replication.unwrap_or(3) as usize;
    server.check_file(&fs, &path, data, replication);
}

fn files_of_every_size_around_chunks_packets_and_blocks(server: &Server) {
    let block = 1 << 20;
    let options = CreateOptions { block_size: Some(block as u64), ..create() };
    for (i, len) in
        [0, 1, 511, 512, 513, 64512, 64513, 200_000, block - 1, block, block + 1, 3 * block + 77]
            .into_iter()
            .enumerate()
    {
        write_file(server, &options, &bytes(i as u64, len), [7777, 1 << 20, 512][i % 3]);
    }
}

fn every_checksum_type(server: &Server) {
    for (checksum, bpc) in [
        (ChecksumType::Crc32c, 512),
        (ChecksumType::Crc32, 512),
        (ChecksumType::Crc32c, 4096),
        (ChecksumType::Crc32, 1000),
        (ChecksumType::Null, 512),
        (ChecksumType::Crc32c, 1 << 20),
    ] {
        let block_size = if bpc == 1000 { 1_000_000 } else { 1 << 20 };
        let options = CreateOptions {
            checksum: Some(checksum),
            bytes_per_checksum: Some(bpc),
            block_size: Some(block_size),
            ..create()
        };
        write_file(server, &options, &bytes(9, 1_500_123), 100_000);
    }
}

fn flushed_bytes_are_visible_while_the_file_is_open(server: &Server) {
    let (fs, reader) = (server.connect(), server.connect());
    let path = server.path("open");
    let file = fs.create(&path, &create(), limit()).unwrap();
    let mut all = Vec::new();
    for i in 0..30_u64 {
        let record = bytes(i, 100 + 97 * i as usize);
        file.write(&record, limit()).unwrap();
        all.extend_from_slice(&record);
        file.flush(FLUSH, limit()).unwrap();
        assert_eq!(file.durable(), all.len() as u64);
        assert_eq!(file.pipeline().len(), 3);
        if i % 5 == 0 {
            assert!(read_all(&reader, &path) == all, "after flush {i}");
            server.check_java(&path, &all);
        }
    }
    let open = reader.open(&path, ReadOptions::default(), limit()).unwrap();
    assert_eq!(open.len(), all.len() as u64);
    file.write(b"tail", limit()).unwrap();
    file.flush(FLUSH, limit()).unwrap();
    all.extend_from_slice(b"tail");
    assert_eq!(open.refresh(limit()).unwrap(), all.len() as u64);
    let mut got = [0; 4];
    assert_eq!(open.pread(all.len() as u64 - 4, &mut got, limit()).unwrap(), 4);
    assert_eq!(&got, b"tail");
    file.close(limit()).unwrap();
    server.check_file(&fs, &path, &all, 3);
}

fn hsync_flags(server: &Server) {
    let fs = server.connect();
    let path = server.path("hsync");
    let options = CreateOptions { sync_block: true, ..create() };
    let file = fs.create(&path, &options, limit()).unwrap();
    let sync = SyncMode { sync: true, ..FLUSH };
    file.flush(sync, limit()).unwrap();
    file.write(&bytes(1, 1000), limit()).unwrap();
    file.flush(sync, limit()).unwrap();
    // Nothing new: the DataNodes still sync.
    file.flush(sync, limit()).unwrap();
    let length = SyncMode { update_length: true, ..sync };
    file.write(&bytes(2, 500), limit()).unwrap();
    file.flush(length, limit()).unwrap();
    assert_eq!(fs.metadata().unwrap().stat(&path, limit()).unwrap().length, 1500);
    let end = SyncMode { end_block: true, ..sync };
    file.write(&bytes(3, 300), limit()).unwrap();
    file.flush(end, limit()).unwrap();
    file.write(&bytes(4, 700), limit()).unwrap();
    file.close(limit()).unwrap();
    let mut all = bytes(1, 1000);
    for (seed, len) in [(2, 500), (3, 300), (4, 700)] {
        all.extend(bytes(seed, len));
    }
    server.check_file(&fs, &path, &all, 3);
    let blocks = fs.metadata().unwrap().block_locations(&path, 0, 1 << 30, limit()).unwrap();
    assert_eq!(blocks.iter().map(|b| b.length).collect::<Vec<_>>(), [1800, 700]);
}

fn small_writes_and_flushes_make_one_file(server: &Server) {
    let fs = server.connect();
    let path = server.path("wal");
    let options = CreateOptions { block_size: Some(1 << 20), ..create() };
    let file = fs.create(&path, &options, limit()).unwrap();
    let all = bytes(5, 1_300_000);
    let (mut at, mut i) = (0, 0_usize);
    while at < all.len() {
        // Sizes from 1 byte to several packets, every third flushed.
        let len = [1, 3, 600, 511, 513, 5000, 17, 130_000][i % 8].min(all.len() - at);
        file.write(&all[at..at + len], limit()).unwrap();
        at += len;
        i += 1;
        if i % 3 == 0 {
            file.flush(FLUSH, limit()).unwrap();
            assert_eq!(file.durable(), at as u64);
        }
    }
    file.close(limit()).unwrap();
    server.check_file(&fs, &path, &all, 3);
}

fn many_threads_flush_one_file(server: &Server) {
    let fs = server.connect();
    let path = server.path("threads");
    let file = fs.create(&path, &create(), limit()).unwrap();
    std::thread::scope(|scope| {
        for t in 0..8_u8 {
            let file = &file;
            scope.spawn(move || {
                for _ in 0..50 {
                    file.write(&[t; 100], limit()).unwrap();
                    let pos = file.pos();
                    file.flush(FLUSH, limit()).unwrap();
                    assert!(file.durable() >= pos.min(100));
                }
            });
        }
    });
    file.close(limit()).unwrap();
    let all = read_all(&fs, &path);
    assert_eq!(all.len(), 8 * 50 * 100);
    // Writes are whole: each record of 100 bytes is one thread's.
    for record in all.chunks(100) {
        assert!(record.iter().all(|b| *b == record[0]));
    }
    for t in 0..8_u8 {
        assert_eq!(all.iter().filter(|b| **b == t).count(), 5000);
    }
    server.check_file(&fs, &path, &all, 3);
}

fn replication_one(server: &Server) {
    let options = CreateOptions { replication: Some(1), block_size: Some(1 << 20), ..create() };
    write_file(server, &options, &bytes(6, 2_500_000), 4096);
}

fn errors_of_create(server: &Server) {
    let fs = server.connect();
    let path = server.path("exists");
    fs.create(&path, &create(), limit()).unwrap().close(limit()).unwrap();
    let status = |path: &str, options: &CreateOptions| {
        fs.create(path, options, limit()).err().expect("an error").status()
    };
    let plain = CreateOptions { create_parents: true, ..CreateOptions::default() };
    assert_eq!(status(&path, &plain), Status::Exists);
    assert_eq!(status(&format!("{path}/below"), &plain), Status::NotDirectory);
    assert_eq!(status("relative", &plain), Status::BadPath);
    let missing = format!("{}/no/such/dir", server.path("x"));
    assert_eq!(status(&missing, &CreateOptions::default()), Status::NotFound);
    let odd = CreateOptions { block_size: Some(1_000_001), ..create() };
    assert_eq!(status(&path, &odd), Status::InvalidArgument);
    let none = CreateOptions { replication: Some(0), ..create() };
    assert_eq!(status(&path, &none), Status::InvalidArgument);
    // Another client is writing it.
    let other = server.connect();
    let open = other.create(&path, &create(), limit()).unwrap();
    open.write(b"x", limit()).unwrap();
    let error = fs.create(&path, &plain, limit()).err().unwrap();
    assert!(matches!(error.status(), Status::LeaseHeld | Status::Exists), "{error:?}");
    open.close(limit()).unwrap();
    assert_eq!(open.write(b"y", limit()).unwrap_err().status(), Status::Closed);
    assert_eq!(open.flush(FLUSH, limit()).unwrap_err().status(), Status::Closed);
}
