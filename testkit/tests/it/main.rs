//! Tests of minidfs itself, driven by a raw client that knows nothing but the wire formats.
mod basic;
mod raw;
mod sink;
