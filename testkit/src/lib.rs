//! Test servers of libdfs: `minidfs` with fault injection, and real Hadoop.

pub mod campaign;
pub mod chaos;
pub mod chaos_read;
pub mod data;
pub mod hadoop;
pub mod minidfs;
