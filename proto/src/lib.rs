//! Protobuf messages of Hadoop, generated from `proto/wire/` by `cargo run -p xtask --features proto -- proto`.
//!
//! A crate of its own, since expanding its derives takes longer than compiling the client.
//! Nothing else lives here. Required fields are plain values: a missing one decodes as its zero
//! value, so whoever decodes a message checks what it depends on.
#![allow(missing_docs, reason = "generated; the field tables are Hadoop's own")]
#![allow(clippy::all, reason = "generated")]

/// Package `hadoop.common`: RPC headers, tokens.
pub mod common {
    include!("hadoop.common.rs");
}

/// Package `hadoop.hdfs`: NameNode and DataNode messages.
pub mod hdfs {
    include!("hadoop.hdfs.rs");
}
