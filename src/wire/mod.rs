//! Bytes of the protocols: bytes in, bytes out, no I/O.

pub mod packet;
pub mod transfer;
pub mod varint;
