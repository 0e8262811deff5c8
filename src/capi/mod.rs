//! The C API: `include/dfs.h` is generated from this folder (`cargo xtask header`), so the
//! documentation of its items is written for readers of C.
//!
//! `handle.rs` turns C handles into objects, `boundary.rs` is the wall that every call passes;
//! the other files are one section of the header each and hold no `unsafe` code.
//!
//! Threads: every function may be called on any thread; objects synchronise inside.
#![allow(unsafe_code, reason = "follows the raw pointers of C callers, and exports symbols")]
#![allow(unreachable_pub, reason = "the functions are exported to C, and cbindgen wants them pub")]
#![allow(
    non_camel_case_types,
    reason = "C types bear their C names, so that the documentation reads the same in both"
)]

mod boundary;
mod checksum;
mod config;
mod error;
mod file;
mod file_system;
mod flush;
mod handle;
mod list;
mod locations;
mod log;
mod metadata;
mod open;
mod read;
mod stats;
mod status;
mod version;
mod write;
