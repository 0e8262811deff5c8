//! Tests of minidfs itself, driven by a raw client that knows nothing but the wire formats.
mod basic;
mod faults;
mod ha;
mod lease;
mod namespace;
mod pipeline;
mod raw;
mod rpc;
mod sink;
