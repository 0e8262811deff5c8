//! The sink mode.
use dfs_testkit::minidfs::MiniDfs;

use super::raw::*;

fn sink() -> MiniDfs {
    MiniDfs::builder()
        .datanodes(1)
        .replication(1)
        .block_size(1 << 20)
        .configure(|c| {
            c.sink = true;
            c.virtual_length = 3 * (1 << 20) + 12_345;
        })
        .start()
        .unwrap()
}

#[test]
fn writes_are_acked_and_forgotten() {
    let cluster = sink();
    let mut client = Client::new(&cluster);
    client.write_file("/f", 1, 1 << 20, &pattern(2_500_000));
    assert_eq!(client.info("/f").unwrap().length, 2_500_000);
    assert!(cluster.replicas("/f").is_empty());
    let id = client.create("/wal", 1, 1 << 20);
    let located = client.add_block("/wal", id, None);
    let mut w = Writer::create(&located, &client.name, 1 << 20);
    for size in [1usize, 300, 512, 70_000] {
        w.flush(&vec![1; size]);
    }
    w.end();
    let block = w.block();
    client.complete("/wal", id, Some(&block));
}

#[test]
fn virtual_files_are_zeros_with_right_checksums() {
    let cluster = sink();
    let mut client = Client::new(&cluster);
    let length = 3 * (1 << 20) + 12_345;
    assert_eq!(client.info("/virt/a/b").unwrap().length, length);
    assert!(client.read_file("/virt/a/b", 0) == vec![0; length as usize]);
    let block = client.locations("/virt/a/b").blocks[3].clone();
    let stream = connect(xfer(&block.locs[0]));
    for (offset, len) in [(0, 1), (511, 2), (12_344, 1), (0, 12_345)] {
        assert_eq!(read_on(&stream, &block.b, offset, len).unwrap(), vec![0; len as usize]);
    }
    assert!(client.info("/other").is_none());
}
