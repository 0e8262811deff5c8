//! Heap allocations of warm operations: none. A counting allocator counts per thread, and the
//! client works on its caller's thread, so the test server in the same process does not disturb.
#![allow(clippy::unwrap_used, clippy::expect_used, unsafe_code, reason = "tests")]
use dfs::client::file_system::{CreateOptions, FileSystem};
use dfs::conf::Config;
use dfs::read::ReadOptions;
use dfs::time::Deadline;
use dfs::write::SyncMode;
use dfs_testkit::minidfs::MiniDfs;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

struct Counting;

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: every call goes to the system's allocator unchanged; the counter is a plain cell of the
// thread without a destructor, so touching it allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.with(|c| c.set(c.get() + 1));
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn limit() -> Deadline {
    Deadline::after_ms(30_000)
}

/// Allocations of this thread while `work` runs.
fn allocations(work: impl FnOnce()) -> u64 {
    let before = COUNT.with(Cell::get);
    work();
    COUNT.with(Cell::get) - before
}

fn connect(mini: &MiniDfs) -> FileSystem {
    FileSystem::connect(&Config::new(), Some(&mini.uri()), limit()).unwrap()
}

fn options() -> CreateOptions {
    CreateOptions { overwrite: true, create_parents: true, ..CreateOptions::default() }
}

#[test]
fn the_counter_counts() {
    assert_eq!(allocations(|| drop(std::hint::black_box(vec![1_u8; 100]))), 1);
}

#[test]
fn warm_writes_and_flushes_allocate_nothing() {
    let mini = MiniDfs::builder().datanodes(3).replication(3).start().unwrap();
    let fs = connect(&mini);
    let file = fs.create("/alloc/wal", &options(), limit()).unwrap();
    let record = [5; 600];
    let round = |n: usize| {
        for i in 0..n {
            file.write(&record[..100 + i % 500], limit()).unwrap();
            file.flush(SyncMode { sync: i % 7 == 0, ..SyncMode::default() }, limit()).unwrap();
        }
    };
    round(600);
    assert_eq!(allocations(|| round(1000)), 0, "hflush and hsync");
    let bulk = vec![6; 1 << 20];
    let many = |n: usize| {
        for _ in 0..n {
            file.write(&bulk, limit()).unwrap();
        }
    };
    // Warm once the most packets that are ever in flight have had their buffers, which depends on
    // how far the server falls behind: some rounds may be needed, but then nothing is allocated.
    many(12);
    let rounds: Vec<u64> = (0..8).map(|_| allocations(|| many(8))).collect();
    assert!(rounds.contains(&0), "bulk writes inside one block: {rounds:?}");
    file.close(limit()).unwrap();
    assert_eq!(fs.stats().pool.in_use_bytes, 0, "no buffer is kept after close");
}

#[test]
fn warm_reads_and_preads_allocate_nothing() {
    let mini = MiniDfs::builder().datanodes(3).replication(3).start().unwrap();
    let fs = connect(&mini);
    let file = fs.create("/alloc/data", &options(), limit()).unwrap();
    let data: Vec<u8> = (0..8 << 20_u32).map(|i| (i / 7) as u8).collect();
    file.write(&data, limit()).unwrap();
    file.close(limit()).unwrap();
    let file = fs.open("/alloc/data", ReadOptions::default(), limit()).unwrap();
    let mut buffer = vec![0; 64 << 10];
    let mut preads = |n: usize| {
        for i in 0..n {
            let offset = (i * 977_777) % (7 << 20);
            let len = [4096, 64 << 10, 33, 5000][i % 4];
            assert_eq!(file.pread(offset as u64, &mut buffer[..len], limit()).unwrap(), len);
            assert!(buffer[..len] == data[offset..offset + len]);
        }
    };
    preads(50);
    assert_eq!(allocations(|| preads(500)), 0, "preads");
    let mut at = 0;
    let mut reads = |n: usize| {
        for _ in 0..n {
            let len = file.read(&mut buffer, limit()).unwrap();
            assert!(buffer[..len] == data[at..at + len]);
            at += len;
        }
    };
    reads(10);
    assert_eq!(allocations(|| reads(60)), 0, "sequential reads inside one block");
}

#[test]
fn an_idle_log_stream_is_small_and_a_thousand_need_no_threads() {
    let mini = MiniDfs::builder().datanodes(1).replication(1).start().unwrap();
    let fs = connect(&mini);
    let threads = || {
        std::fs::read_dir("/proc/self/task")
            .unwrap()
            .filter(|t| {
                let comm = t.as_ref().unwrap().path().join("comm");
                std::fs::read_to_string(comm).is_ok_and(|name| name.starts_with("hdfs-"))
            })
            .count()
    };
    let one = CreateOptions { replication: Some(1), ..options() };
    let files: Vec<_> = (0..1000)
        .map(|i| {
            let file = fs.create(&format!("/alloc/idle/{i}"), &one, limit()).unwrap();
            for _ in 0..3 {
                file.write(&[1; 600], limit()).unwrap();
                file.flush(SyncMode::default(), limit()).unwrap();
            }
            file
        })
        .collect();
    let per_stream = fs.stats().pool.in_use_bytes / 1000;
    assert!(per_stream < 8 << 10, "{per_stream} bytes of buffers a stream");
    assert!(threads() <= 2, "keeper and lease thread, but there are {}", threads());
    assert_eq!(fs.stats().open_writers, 1000);
    drop(files);
    assert_eq!(fs.stats().pool.in_use_bytes, 0);
}
