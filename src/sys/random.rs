//! Random bytes from the kernel.

/// Fills `out` with random bytes.
///
/// # Errors
/// The system's error, when neither `getrandom(2)` nor `/dev/urandom` gives any.
pub fn fill(out: &mut [u8]) -> std::io::Result<()> {
    let mut done = 0;
    while let Some(rest) = out.get_mut(done..).filter(|rest| !rest.is_empty()) {
        // SAFETY: `rest` is valid for writes of its length.
        let n = unsafe { libc::getrandom(rest.as_mut_ptr().cast(), rest.len(), 0) };
        match usize::try_from(n) {
            Ok(n) => done += n,
            Err(_) => {
                let error = std::io::Error::last_os_error();
                match error.raw_os_error() {
                    Some(libc::EINTR) => {}
                    // A kernel or a sandbox without the call.
                    Some(libc::ENOSYS | libc::EPERM) => return fill_from_device(rest),
                    _ => return Err(error),
                }
            }
        }
    }
    Ok(())
}

fn fill_from_device(out: &mut [u8]) -> std::io::Result<()> {
    use std::io::Read;
    std::fs::File::open("/dev/urandom")?.read_exact(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_fills_differ() {
        let (mut a, mut b) = ([0; 16], [0; 16]);
        fill(&mut a).unwrap();
        fill_from_device(&mut b).unwrap();
        assert!(a != b && a != [0; 16] && b != [0; 16]);
    }
}
