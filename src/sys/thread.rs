//! Background threads: named, with all signals blocked, so that a host's handlers never run there.
#![allow(clippy::disallowed_methods, reason = "this is the place that starts threads")]

/// Starts a thread with the given name (at most 15 bytes) and a small fixed stack.
///
/// # Errors
/// The system's error when no thread can be made.
pub fn spawn(
    name: &'static str,
    body: impl FnOnce() + Send + 'static,
) -> std::io::Result<std::thread::JoinHandle<()>> {
    // The mask is inherited, so it is set around the creation: no signal can slip in between.
    // SAFETY: sigset_t is plain old data, for which all zeroes is a valid value.
    let mut all: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: as above.
    let mut old: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: `all` is a valid set to fill.
    unsafe { libc::sigfillset(&mut all) };
    // SAFETY: both sets are valid for the call.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut old) };
    let handle =
        std::thread::Builder::new().name(name.to_owned()).stack_size(256 * 1024).spawn(body);
    // SAFETY: `old` was filled by the call above.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &old, std::ptr::null_mut()) };
    handle
}

/// Id of the calling thread, for the client name.
pub fn id() -> u64 {
    // SAFETY: gettid has no preconditions.
    let tid = unsafe { libc::gettid() };
    u64::try_from(tid).unwrap_or(0)
}
