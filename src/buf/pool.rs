//! The buffer pool: size classes, a cap in bytes, a bounded wait, idle memory given back.
//!
//! A class holds buffers of one power of two, from 1 KiB to 16 MiB. Taking and returning a buffer
//! is one short lock of the class; streams keep their current buffer, so a WAL that flushes small
//! records touches the pool once or twice a flush and never the allocator.
use crate::error::{Error, Result, Status};
use crate::time::{Deadline, now};
use parking_lot::{Condvar, Mutex};
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Alignment of every buffer, bytes: a cache line, which also suits the checksum instructions.
const ALIGN: usize = 64;
/// log2 of the smallest class.
const MIN_SHIFT: u32 = 10;
/// log2 of the largest class: the packet limit of the DataNode.
const MAX_SHIFT: u32 = 24;
const CLASSES: usize = (MAX_SHIFT - MIN_SHIFT + 1) as usize;

/// Counters of a pool, one consistent-enough snapshot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolStats {
    /// Bytes in buffers that are handed out.
    pub in_use_bytes: u64,
    /// Bytes in free buffers.
    pub free_bytes: u64,
    /// Highest sum of both.
    pub peak_bytes: u64,
    /// Buffers taken from a free list.
    pub hits: u64,
    /// Buffers that had to be allocated.
    pub misses: u64,
    /// Times that a taker had to wait at the cap.
    pub waits: u64,
}

struct Free {
    memory: NonNull<u8>,
    since: Instant,
}

// SAFETY: a free buffer is plain memory that nobody else references.
unsafe impl Send for Free {}

struct Shared {
    classes: [Mutex<Vec<Free>>; CLASSES],
    cap_bytes: usize,
    wait: Duration,
    total_bytes: AtomicUsize,
    free_bytes: AtomicUsize,
    peak_bytes: AtomicUsize,
    hits: AtomicU64,
    misses: AtomicU64,
    waits: AtomicU64,
    waiting: AtomicUsize,
    gate: Mutex<()>,
    returned: Condvar,
}

/// A pool of packet buffers, shared by every stream of a file system. Cloning shares it.
#[derive(Clone)]
pub struct BufferPool(Arc<Shared>);

/// A buffer on loan; dropping it gives it back. All bytes are initialised (old contents remain).
pub struct PooledBuf {
    memory: NonNull<u8>,
    class: u8,
    pool: Arc<Shared>,
}

// SAFETY: the buffer owns its memory exclusively until it is dropped.
unsafe impl Send for PooledBuf {}
// SAFETY: a shared reference only reads.
unsafe impl Sync for PooledBuf {}

fn class_of(bytes: usize) -> Option<usize> {
    let shift = bytes.max(1).next_power_of_two().trailing_zeros().max(MIN_SHIFT);
    (shift <= MAX_SHIFT).then_some((shift - MIN_SHIFT) as usize)
}

const fn class_bytes(class: usize) -> usize {
    1 << (class as u32 + MIN_SHIFT)
}

fn layout(class: usize) -> Option<Layout> {
    Layout::from_size_align(class_bytes(class), ALIGN).ok()
}

impl BufferPool {
    /// A pool that holds at most `cap_bytes` (handed out and free) and lets a taker wait up to
    /// `wait` for a return when the cap is reached.
    pub fn new(cap_bytes: usize, wait: Duration) -> BufferPool {
        BufferPool(Arc::new(Shared {
            classes: [const { Mutex::new(Vec::new()) }; CLASSES],
            cap_bytes,
            wait,
            total_bytes: AtomicUsize::new(0),
            free_bytes: AtomicUsize::new(0),
            peak_bytes: AtomicUsize::new(0),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
            waits: AtomicU64::new(0),
            waiting: AtomicUsize::new(0),
            gate: Mutex::new(()),
            returned: Condvar::new(),
        }))
    }

    /// A buffer of at least `bytes` bytes (at most 16 MiB), waiting at the cap until `deadline` or
    /// the pool's own limit.
    ///
    /// # Errors
    /// `NoMemory` when the cap holds until then, `InvalidArgument` above 16 MiB.
    pub fn take(&self, bytes: usize, deadline: Deadline) -> Result<PooledBuf> {
        let Some(class) = class_of(bytes) else {
            return Err(Error::new(
                Status::InvalidArgument,
                format!("a buffer of {bytes} bytes exceeds the limit of 16 MiB"),
            ));
        };
        let shared = &self.0;
        if let Some(free) = shared.classes[class].lock().pop() {
            shared.hits.fetch_add(1, Ordering::Relaxed);
            shared.free_bytes.fetch_sub(class_bytes(class), Ordering::Relaxed);
            return Ok(self.wrap(free.memory, class));
        }
        self.take_slow(class, deadline)
    }

    #[cold]
    fn take_slow(&self, class: usize, deadline: Deadline) -> Result<PooledBuf> {
        let shared = &self.0;
        let bytes = class_bytes(class);
        if self.reserve(bytes) || (self.trim_bytes(bytes) && self.reserve(bytes)) {
            return self.allocate(class);
        }
        shared.waits.fetch_add(1, Ordering::Relaxed);
        let limit = deadline.min(Deadline::after(shared.wait));
        shared.waiting.fetch_add(1, Ordering::SeqCst);
        let mut gate = shared.gate.lock();
        let result = loop {
            if let Some(free) = shared.classes[class].lock().pop() {
                shared.hits.fetch_add(1, Ordering::Relaxed);
                shared.free_bytes.fetch_sub(bytes, Ordering::Relaxed);
                break Ok(self.wrap(free.memory, class));
            }
            if self.reserve(bytes) || (self.trim_bytes(bytes) && self.reserve(bytes)) {
                break self.allocate(class);
            }
            if limit.passed() {
                break Err(Error::new(
                    Status::NoMemory,
                    format!(
                        "the buffer pool's {} bytes (libdfs.buffer.pool.max.bytes) are in use; \
                         no {bytes}-byte buffer came back in time",
                        shared.cap_bytes
                    ),
                ));
            }
            // Wakes at least every 100 ms: a return between our look and our wait is then late,
            // not lost.
            let slice = Deadline::after_ms(100).min(limit);
            if let Some(at) = slice.instant() {
                shared.returned.wait_until(&mut gate, at);
            }
        };
        drop(gate);
        shared.waiting.fetch_sub(1, Ordering::SeqCst);
        result
    }

    fn reserve(&self, bytes: usize) -> bool {
        let shared = &self.0;
        let fits = |total: usize| total.checked_add(bytes).filter(|t| *t <= shared.cap_bytes);
        match shared.total_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits) {
            Ok(before) => {
                shared.peak_bytes.fetch_max(before + bytes, Ordering::Relaxed);
                true
            }
            Err(_) => false,
        }
    }

    fn allocate(&self, class: usize) -> Result<PooledBuf> {
        let memory = layout(class).and_then(|layout| {
            // SAFETY: the layout has a non-zero size. Zeroed memory makes every byte initialised,
            // so the buffer may be handed out as a slice.
            NonNull::new(unsafe { alloc_zeroed(layout) })
        });
        match memory {
            Some(memory) => {
                self.0.misses.fetch_add(1, Ordering::Relaxed);
                Ok(self.wrap(memory, class))
            }
            None => {
                self.0.total_bytes.fetch_sub(class_bytes(class), Ordering::Relaxed);
                Err(Error::new(
                    Status::NoMemory,
                    format!("the system has no {} bytes for a buffer", class_bytes(class)),
                ))
            }
        }
    }

    fn wrap(&self, memory: NonNull<u8>, class: usize) -> PooledBuf {
        PooledBuf { memory, class: class as u8, pool: Arc::clone(&self.0) }
    }

    /// Frees free buffers of any class until `bytes` are gone; whether enough were found.
    fn trim_bytes(&self, bytes: usize) -> bool {
        let mut freed = 0;
        for class in (0..CLASSES).rev() {
            while freed < bytes {
                let Some(free) = self.0.classes[class].lock().pop() else { break };
                self.0.release(free.memory, class);
                freed += class_bytes(class);
            }
        }
        freed >= bytes
    }

    /// Gives back to the system what has been free for `idle` or longer.
    pub fn trim_idle(&self, idle: Duration) {
        let Some(limit) = now().checked_sub(idle) else { return };
        for class in 0..CLASSES {
            loop {
                let mut list = self.0.classes[class].lock();
                // The list is a stack: its bottom is what has been free longest.
                let old = list.first().is_some_and(|free| free.since <= limit);
                if !old {
                    break;
                }
                let free = list.remove(0);
                drop(list);
                self.0.release(free.memory, class);
            }
        }
    }

    /// The counters.
    pub fn stats(&self) -> PoolStats {
        let shared = &self.0;
        let free = shared.free_bytes.load(Ordering::Relaxed);
        let total = shared.total_bytes.load(Ordering::Relaxed);
        PoolStats {
            in_use_bytes: total.saturating_sub(free) as u64,
            free_bytes: free as u64,
            peak_bytes: shared.peak_bytes.load(Ordering::Relaxed) as u64,
            hits: shared.hits.load(Ordering::Relaxed),
            misses: shared.misses.load(Ordering::Relaxed),
            waits: shared.waits.load(Ordering::Relaxed),
        }
    }
}

impl Shared {
    /// Frees one buffer that was on a free list.
    fn release(&self, memory: NonNull<u8>, class: usize) {
        self.free_bytes.fetch_sub(class_bytes(class), Ordering::Relaxed);
        self.free_memory(memory, class);
    }

    fn free_memory(&self, memory: NonNull<u8>, class: usize) {
        if let Some(layout) = layout(class) {
            // SAFETY: `memory` came from `alloc_zeroed` with this very layout, and its only owner
            // (a free list or the pool's drop) has just given it up.
            unsafe { dealloc(memory.as_ptr(), layout) };
        }
        self.total_bytes.fetch_sub(class_bytes(class), Ordering::Relaxed);
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        for class in 0..CLASSES {
            let list = std::mem::take(&mut *self.classes[class].lock());
            for free in list {
                self.free_memory(free.memory, class);
            }
        }
    }
}

impl PooledBuf {
    /// Size of the buffer, bytes (its class, so possibly more than was asked for).
    pub fn capacity(&self) -> usize {
        class_bytes(self.class as usize)
    }
}

impl Deref for PooledBuf {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: `memory` is valid for the class's size, initialised when it was allocated, and
        // owned by us.
        unsafe { std::slice::from_raw_parts(self.memory.as_ptr(), self.capacity()) }
    }
}

impl DerefMut for PooledBuf {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`; `&mut self` makes the access exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.memory.as_ptr(), self.capacity()) }
    }
}

impl Drop for PooledBuf {
    fn drop(&mut self) {
        let class = self.class as usize;
        let shared = &self.pool;
        shared.free_bytes.fetch_add(class_bytes(class), Ordering::Relaxed);
        shared.classes[class].lock().push(Free { memory: self.memory, since: now() });
        if shared.waiting.load(Ordering::SeqCst) > 0 {
            shared.returned.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(cap: usize) -> BufferPool {
        BufferPool::new(cap, Duration::from_millis(40))
    }

    #[test]
    fn classes_are_powers_of_two_and_buffers_come_back() {
        let pool = pool(1 << 20);
        let buffer = pool.take(1500, Deadline::NONE).unwrap();
        assert_eq!(buffer.capacity(), 2048);
        assert_eq!(buffer.as_ptr() as usize % ALIGN, 0);
        let first = buffer.as_ptr() as usize;
        drop(buffer);
        let again = pool.take(2048, Deadline::NONE).unwrap();
        assert_eq!(again.as_ptr() as usize, first);
        let stats = pool.stats();
        assert_eq!((stats.hits, stats.misses, stats.in_use_bytes), (1, 1, 2048));
        assert!(pool.take((16 << 20) + 1, Deadline::NONE).is_err());
    }

    #[test]
    fn at_the_cap_a_taker_waits_a_bounded_time_and_is_served_by_a_return() {
        let pool = pool(4096);
        let a = pool.take(4096, Deadline::NONE).unwrap();
        let error = pool.take(1024, Deadline::NONE).err().unwrap();
        assert_eq!(error.status(), Status::NoMemory);
        assert!(error.message().contains("libdfs.buffer.pool.max.bytes"));
        let other = pool.clone();
        let waiter = std::thread::spawn(move || other.take(1024, Deadline::NONE).map(drop));
        drop(a);
        waiter.join().unwrap().unwrap();
        assert!(pool.stats().waits >= 1);
        assert!(pool.stats().peak_bytes <= 4096);
    }

    #[test]
    fn idle_memory_is_given_back() {
        let pool = pool(1 << 20);
        drop(pool.take(65536, Deadline::NONE).unwrap());
        assert_eq!(pool.stats().free_bytes, 65536);
        pool.trim_idle(Duration::from_secs(60));
        assert_eq!(pool.stats().free_bytes, 65536);
        pool.trim_idle(Duration::ZERO);
        assert_eq!(pool.stats().free_bytes, 0);
        assert_eq!(pool.stats().in_use_bytes, 0);
    }
}
