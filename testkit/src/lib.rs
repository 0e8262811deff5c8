//! Test servers of libdfs.
#![deny(unsafe_code)]

pub mod minidfs;
