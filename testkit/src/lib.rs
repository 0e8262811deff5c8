//! Test servers of libdfs.
