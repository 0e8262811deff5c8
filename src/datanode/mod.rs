//! Connections to DataNodes.

pub mod peer;
pub mod peer_cache;
pub mod rpc;
