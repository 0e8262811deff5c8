//! libdfs: a native HDFS client.
//!
//! The core is synchronous and driven by the caller's thread. Layers, from the bottom: `error`,
//! `time`, `log`, `sys`, `buf`, `checksum`; `proto`, `wire`, `conf`; `net`, `keeper`;
//! `ipc`; `namenode`, `datanode`; `read`, `write`; `client`; `capi`. A module imports
//! lower layers only (a test checks it). ARCHITECTURE.md has the threads and the lock order.
#![deny(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used))]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

#[cfg(all(feature = "capi", panic = "abort"))]
compile_error!("the C boundary turns panics into statuses, so it needs panic = \"unwind\"");

pub use dfs_proto as proto;

pub mod buf;
#[cfg(feature = "capi")]
mod capi;
pub mod checksum;
pub mod client;
pub mod conf;
pub mod datanode;
pub mod error;
pub mod ipc;
pub mod keeper;
pub mod log;
pub mod namenode;
pub mod net;
pub mod read;
pub mod sys;
pub mod time;
pub mod wire;
pub mod write;
