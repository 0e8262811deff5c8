//! Settings: Hadoop's XML files, the application's own values, and the typed result.
//!
//! [`Config`] collects raw values as Java's `Configuration` does; [`Config::freeze`] turns them
//! into the [`ClientConfig`] of one client. `keys` is the one table of honoured keys and defaults.
pub mod client_config;
mod config;
mod expand;
mod freeze;
pub mod keys;
mod name_service;
mod value;
mod xml;

pub use client_config::{ChecksumType, ClientConfig, NameService, ReplacePolicy};
pub use config::Config;
