//! Settings.
pub mod client_config;
