//! What a user sees, checked on `minidfs` and on real Hadoop by the same code.
//!
//! Each behaviour is a function over a [`server::Server`]; the macro below makes one test of it per
//! server. After every write the DataNodes' own files are compared with what was written, on real
//! Hadoop also what the Java client reads.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

#[macro_use]
mod server;
mod append;
mod cut;
mod idle;
mod lease;
mod limits;
mod write;
