//! Connections to DataNodes.

pub mod peer;
