//! Interrupts: a flag for each Java thread, which ends the waits of its calls.
//!
//! Java hands the number of a flag to every call that may wait, and sets the flag when the thread
//! is interrupted. A call that ends for it ends as with a deadline that passed: the stream stays
//! usable, and calling again goes on where it stopped.
use dfs::error::{Error, Result, Status};
use dfs::time::Deadline;
use parking_lot::RwLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// Flags are given back by Java when their thread is gone, so there are as many as threads that
/// ever ran at the same time.
const FLAGS_MAX: usize = 1 << 20;

static FLAGS: RwLock<Vec<&'static AtomicBool>> = RwLock::new(Vec::new());

/// Makes a flag and returns its number.
///
/// # Errors
/// `NoMemory` when a million threads have one.
pub(crate) fn create() -> Result<i32> {
    let mut flags = FLAGS.write();
    if flags.len() >= FLAGS_MAX {
        let text = format!("{FLAGS_MAX} threads use the library at once");
        return Err(Error::new(Status::NoMemory, text));
    }
    flags.push(Box::leak(Box::new(AtomicBool::new(false))));
    i32::try_from(flags.len() - 1).map_err(|_| Error::new(Status::Internal, "too many flags"))
}

fn flag(number: i32) -> Result<&'static AtomicBool> {
    let flags = FLAGS.read();
    let flag = usize::try_from(number).ok().and_then(|n| flags.get(n).copied());
    flag.ok_or_else(|| {
        Error::new(Status::InvalidArgument, format!("there is no interrupt flag {number}"))
    })
}

/// Sets or clears a flag.
///
/// # Errors
/// `InvalidArgument` for a number that was never given out.
pub(crate) fn set(number: i32, on: bool) -> Result<()> {
    flag(number)?.store(on, Ordering::Release);
    Ok(())
}

/// The deadline of a call: `timeout_ms` from now (0: none), or when the flag is set.
///
/// # Errors
/// `InvalidArgument` for a flag that was never given out, or a negative time.
pub(crate) fn deadline(timeout_ms: i64, number: i32) -> Result<Deadline> {
    let ms = u64::try_from(timeout_ms).map_err(|_| {
        let text = format!("the time limit {timeout_ms} ms is negative");
        Error::new(Status::InvalidArgument, text)
    })?;
    Ok(Deadline::after_ms(ms).with_cancel(flag(number)?))
}
