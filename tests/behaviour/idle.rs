//! Files that stay open without traffic.
use crate::server::{Server, bytes, create, limit};
use dfs::write::SyncMode;
use std::time::Duration;

on_every_server!(an_idle_writer_keeps_its_pipeline_by_heartbeats);

/// The DataNodes (real ones wait 60 s) would not give up in so short a test; the heartbeats and
/// their acks are what counts, and that writing goes on behind them.
fn an_idle_writer_keeps_its_pipeline_by_heartbeats(server: &Server) {
    let fs = server.connect_with(&[("dfs.client.socket-timeout", "2000")]);
    let path = server.path("idle");
    let file = fs.create(&path, &create(), limit()).unwrap();
    let mut all = bytes(1, 700);
    file.write(&all, limit()).unwrap();
    file.flush(SyncMode::default(), limit()).unwrap();
    std::thread::sleep(Duration::from_millis(4500));
    let beats = fs.stats().heartbeats;
    assert!(beats >= 2, "{beats} heartbeats in 4.5 s of silence");
    let more = bytes(2, 900);
    file.write(&more, limit()).unwrap();
    file.flush(SyncMode::default(), limit()).unwrap();
    all.extend_from_slice(&more);
    assert_eq!(fs.stats().pipeline_faults, 0);
    file.close(limit()).unwrap();
    server.check_file(&fs, &path, &all, 3);
}
