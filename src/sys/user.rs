//! Name of the operating-system user.
use std::ffi::CStr;

/// Login name of the effective user, if the system knows one.
pub fn name() -> Option<String> {
    let mut buffer = vec![0_i8 as libc::c_char; 16 * 1024];
    // SAFETY: `passwd` is plain old data, for which all zeroes is a valid value.
    let mut entry: libc::passwd = unsafe { std::mem::zeroed() };
    let mut found: *mut libc::passwd = std::ptr::null_mut();
    // SAFETY: geteuid has no preconditions.
    let uid = unsafe { libc::geteuid() };
    // SAFETY: every pointer is valid for the call, and `buffer` has the stated length.
    let rc =
        unsafe { libc::getpwuid_r(uid, &mut entry, buffer.as_mut_ptr(), buffer.len(), &mut found) };
    if rc != 0 || found.is_null() || entry.pw_name.is_null() {
        return None;
    }
    // SAFETY: on success pw_name points at a NUL-terminated string inside `buffer`, which lives.
    let name = unsafe { CStr::from_ptr(entry.pw_name) };
    name.to_str().ok().map(str::to_owned)
}
