//! A file system as the bindings use it.

pub mod checksum;
pub mod file_system;
pub mod lease_renewer;
pub mod listing;
pub mod metadata;
pub mod path;
pub mod status;
