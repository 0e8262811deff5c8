//! Hadoop RPC: one connection to each NameNode, shared by all threads, and the rules for retries.
//!
//! No thread belongs to it: whoever waits for an answer reads for everybody (`connection`).
//! `call_state` and `retry` decide without any I/O; `failover` puts the parts together.

pub mod call_state;
pub mod connection;
pub mod endpoint;
pub mod failover;
pub mod remote;
pub mod retry;

#[cfg(test)]
mod scripted;
#[cfg(test)]
mod tests;
