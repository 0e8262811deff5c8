//! Bytes of the protocols: bytes in, bytes out, no I/O.

pub mod packet;
pub mod rpc_frame;
pub mod transfer;
pub mod varint;
