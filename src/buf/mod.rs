//! Packet buffers.
#![allow(unsafe_code, reason = "the pool owns raw, aligned memory")]

mod pool;

pub use pool::{BufferPool, PoolStats, PooledBuf};
