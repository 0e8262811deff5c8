//! libFuzzer target, see `entry.rs`.
#![no_main]
#[path = "../entry.rs"]
mod entry;
// For the sources that entry.rs compiles again.
use dfs::{checksum, error, proto, wire};

libfuzzer_sys::fuzz_target!(|data: &[u8]| entry::rpc_frames(data));
