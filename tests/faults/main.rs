//! The write path under faults, each at a fixed place: every byte that a flush acknowledged is on
//! every DataNode of the pipeline and readable, nothing is invented, every call ends in time, and
//! nothing leaks. `hadoop` does the same to a real cluster with signals.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

mod append;
mod calls;
mod close;
mod congestion;
mod deadlines;
mod ha;
mod hadoop;
mod lease;
mod namenode;
mod options;
mod random;
mod replace;
mod restart;
mod rig;
mod setup;
mod streaming;
mod threads;
mod tickets;
