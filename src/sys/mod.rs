//! Safe wrappers over the system calls that the library uses. Together with the C boundary, the
//! buffers and the checksums, the only places with `unsafe`.
#![allow(unsafe_code, reason = "the wrappers over libc live here")]

pub mod fork;
pub mod random;
pub mod socket;
pub mod thread;
pub mod user;
