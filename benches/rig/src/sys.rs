//! What the rig asks the system for: CPU time, affinity, allocation counts.
use std::alloc::{GlobalAlloc, Layout, System};
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU64, Ordering};

/// CPU and switches of this process so far.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Usage {
    pub(crate) user_s: f64,
    pub(crate) system_s: f64,
    pub(crate) voluntary_switches: u64,
    pub(crate) involuntary_switches: u64,
}

/// getrusage of this process, ended threads included.
pub(crate) fn usage() -> Usage {
    let mut raw = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the pointer is valid for the write of one rusage; RUSAGE_SELF cannot fail.
    unsafe { libc::getrusage(libc::RUSAGE_SELF, raw.as_mut_ptr()) };
    // SAFETY: zeroes are a valid rusage, and the call only wrote valid values over them.
    let raw = unsafe { raw.assume_init() };
    let seconds = |t: libc::timeval| t.tv_sec as f64 + t.tv_usec as f64 / 1e6;
    Usage {
        user_s: seconds(raw.ru_utime),
        system_s: seconds(raw.ru_stime),
        voluntary_switches: raw.ru_nvcsw as u64,
        involuntary_switches: raw.ru_nivcsw as u64,
    }
}

/// Lets every thread of a process run on `cpus` only; threads that it starts later inherit that.
pub(crate) fn set_affinity(pid: u32, cpus: &[usize]) -> std::io::Result<()> {
    // SAFETY: cpu_set_t is plain old data, for which all zeroes is the empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    for &cpu in cpus {
        // SAFETY: the set is a valid cpu_set_t; CPU_SET ignores nothing below CPU_SETSIZE (1024).
        unsafe { libc::CPU_SET(cpu, &mut set) };
    }
    for task in std::fs::read_dir(format!("/proc/{pid}/task"))? {
        let Some(tid) = task?.file_name().to_str().and_then(|t| t.parse().ok()) else { continue };
        // SAFETY: the set is valid and its size is given.
        let rc = unsafe { libc::sched_setaffinity(tid, size_of_val(&set), &set) };
        let error = std::io::Error::last_os_error();
        // A thread may end between the listing and the call.
        if rc != 0 && error.raw_os_error() != Some(libc::ESRCH) {
            return Err(error);
        }
    }
    Ok(())
}

/// TCP connections that this host (or container) has opened so far, whoever did: on an idle machine
/// those of the client at work.
pub(crate) fn tcp_opens() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/net/snmp").ok()?;
    let mut lines = text.lines().filter(|line| line.starts_with("Tcp:"));
    let (names, values) = (lines.next()?, lines.next()?);
    let place = names.split_whitespace().position(|name| name == "ActiveOpens")?;
    values.split_whitespace().nth(place)?.parse().ok()
}

/// Number of CPUs that are there.
pub(crate) fn cpu_count() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// Counts allocations, so that a client can tell how many an operation takes.
pub(crate) struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);
static ALLOCATED_BYTES: AtomicU64 = AtomicU64::new(0);

/// Allocations and their bytes so far.
pub(crate) fn allocations() -> (u64, u64) {
    (ALLOCATIONS.load(Ordering::Relaxed), ALLOCATED_BYTES.load(Ordering::Relaxed))
}

fn count(bytes: usize) {
    ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
    ALLOCATED_BYTES.fetch_add(bytes as u64, Ordering::Relaxed);
}

// SAFETY: every call goes to the system allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        count(bytes);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.realloc(memory, layout, bytes) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(memory, layout) };
    }
}
