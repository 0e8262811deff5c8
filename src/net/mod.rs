//! Names, connections, and what their failures are called.

pub mod tcp;
