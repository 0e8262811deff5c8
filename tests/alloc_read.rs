//! Warm reads allocate nothing: counted by the allocator, on the reading thread only.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]
#![allow(unsafe_code, reason = "a global allocator that counts")]
use dfs::client::file_system::{CreateOptions, FileSystem};
use dfs::conf::Config;
use dfs::read::ReadOptions;
use dfs::time::Deadline;
use dfs_testkit::minidfs::MiniDfs;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static COUNT: Cell<usize> = const { Cell::new(0) };
}

struct Counting;

fn count() {
    // The thread's storage may be gone while the thread ends.
    let _ = COUNT.try_with(|c| c.set(c.get() + 1));
}

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(ptr, layout) }
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        count();
        // SAFETY: the caller keeps the contract of `realloc`.
        unsafe { System.realloc(ptr, layout, new_size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn limit() -> Deadline {
    Deadline::after_ms(30_000)
}

/// Allocations of this thread during `body`.
fn allocations(body: impl FnOnce()) -> usize {
    let before = COUNT.get();
    body();
    COUNT.get() - before
}

const LEN: usize = 4 << 20;

#[test]
fn warm_reads_allocate_nothing() {
    assert!(allocations(|| drop(std::hint::black_box(Box::new(1_u8)))) == 1, "the count works");
    let mini = MiniDfs::builder().datanodes(1).replication(1).start().unwrap();
    let fs = FileSystem::connect(&Config::new(), Some(&mini.uri()), limit()).unwrap();
    let options = CreateOptions {
        replication: Some(1),
        block_size: Some(1 << 20),
        ..CreateOptions::default()
    };
    let data: Vec<u8> = (0..LEN).map(|i| (i * 7 + i / 251) as u8).collect();
    let file = fs.create("/warm", &options, limit()).unwrap();
    file.write(&data, limit()).unwrap();
    file.close(limit()).unwrap();

    let file = fs.open("/warm", ReadOptions::default(), limit()).unwrap();
    let mut buf = vec![0; 300_000];
    // Aligned, unaligned, tiny, large, across a block boundary.
    let ranges =
        [(0, 4096), (4096, 65_536), (777, 5000), (99, 1), (123_456, 300_000), (1_000_000, 100_000)];
    let mut preads = || {
        for (offset, len) in ranges {
            let n = file.pread(offset as u64, &mut buf[..len], limit()).unwrap();
            assert!(n == len && buf[..n] == data[offset..offset + n]);
        }
    };
    preads();
    let counted = allocations(|| (0..50).for_each(|_| preads()));
    assert_eq!(counted, 0, "allocations of 300 warm preads");

    // The whole file, four blocks of it, in calls of several sizes.
    let mut reads = |step: usize| {
        file.seek(0).unwrap();
        let mut at = 0;
        while at < LEN {
            let n = file.read(&mut buf[..step], limit()).unwrap();
            assert!(n > 0 && buf[..n] == data[at..at + n]);
            at += n;
        }
    };
    reads(1000);
    reads(200_000);
    for step in [1000, 4096, 65_536, 200_000] {
        assert_eq!(allocations(|| reads(step)), 0, "allocations of warm reads by {step}");
    }
}
