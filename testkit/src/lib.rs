//! Test servers of libdfs.

pub mod data;
pub mod hadoop;
pub mod minidfs;
