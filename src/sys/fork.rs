//! Detects that we run in a forked child, where sockets and locks of the parent must not be used.
use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

static GENERATION: AtomicU32 = AtomicU32::new(0);
static INSTALL: Once = Once::new();

extern "C" fn in_child() {
    // Only async-signal-safe work is allowed here: one atomic add.
    GENERATION.fetch_add(1, Ordering::Relaxed);
}

/// Counts the forks between the process that first called this and ours. A handle remembers the
/// value at its birth; a different one later means that the handle belongs to the parent.
#[inline]
pub fn generation() -> u32 {
    if !INSTALL.is_completed() {
        install();
    }
    GENERATION.load(Ordering::Relaxed)
}

#[cold]
fn install() {
    INSTALL.call_once(|| {
        // SAFETY: `in_child` is a static function that only touches an atomic. The library is
        // linked with -z nodelete, so it stays mapped for as long as the handler may run.
        unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    });
}
