//! Connections to DataNodes.

pub mod peer;
pub mod rpc;
