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

/// A value that exists once per process: a forked child gets a fresh one, since the parent's may
/// be locked by a thread that the child does not have. The parent's copy is leaked in the child.
pub struct PerProcess<T> {
    slot: std::sync::atomic::AtomicPtr<(u32, T)>,
}

impl<T> PerProcess<T> {
    /// An empty slot, for a `static`.
    #[must_use]
    pub const fn new() -> PerProcess<T> {
        PerProcess { slot: std::sync::atomic::AtomicPtr::new(std::ptr::null_mut()) }
    }

    /// The value of this process, made by `make` on first use.
    pub fn get(&self, make: impl FnOnce() -> T) -> &T {
        let generation = generation();
        let mut current = self.slot.load(Ordering::Acquire);
        // SAFETY: a non-null pointer came from Box::into_raw below and is never freed.
        if let Some((born, value)) = unsafe { current.as_ref() }
            && *born == generation
        {
            return value;
        }
        let fresh = Box::into_raw(Box::new((generation, make())));
        loop {
            match self.slot.compare_exchange(current, fresh, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => {
                    // SAFETY: just made; never freed from here on.
                    let (_, value) = unsafe { &*fresh };
                    return value;
                }
                Err(other) => {
                    // SAFETY: as for the first load.
                    if let Some((born, value)) = unsafe { other.as_ref() }
                        && *born == generation
                    {
                        // SAFETY: `fresh` was never published, so we still own it.
                        drop(unsafe { Box::from_raw(fresh) });
                        return value;
                    }
                    current = other;
                }
            }
        }
    }
}

impl<T> Default for PerProcess<T> {
    fn default() -> Self {
        PerProcess::new()
    }
}
