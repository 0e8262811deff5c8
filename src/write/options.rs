//! How a file is written.
use crate::checksum::ChecksumType;
use crate::error::{Error, Result, Status};

/// How a file is written; fixed when it is opened.
#[derive(Clone, Debug)]
pub struct StreamOptions {
    /// Bytes of a block; a multiple of `bytes_per_checksum`.
    pub block_size: u64,
    /// Wanted replicas.
    pub replication: u32,
    /// Checksum type asked of the DataNodes.
    pub checksum: ChecksumType,
    /// Bytes per checksum.
    pub bytes_per_checksum: u32,
    /// Cap of a packet on the wire, bytes.
    pub packet_bytes: usize,
    /// End-of-block packets carry the sync flag (Java's SYNC_BLOCK create flag).
    pub sync_block: bool,
    /// Drop-behind hint for the DataNodes.
    pub drop_behind: Option<bool>,
    /// `AddBlockFlagProto` values for every addBlock.
    pub add_block_flags: Vec<i32>,
    /// Preferred DataNodes as `ip:port`.
    pub favored_nodes: Vec<String>,
    /// Any pipeline fault breaks the file at once, for a log that rather rolls than waits.
    pub fail_fast: bool,
    /// A flush fails when fewer DataNodes than this are in the pipeline; 0 = no floor.
    pub min_replicas: u32,
}

/// Checks that the options of a stream fit together.
///
/// # Errors
/// `InvalidArgument`, naming the key and the value.
pub fn check_options(options: &StreamOptions) -> Result<()> {
    let bad = |text: String| Err(Error::new(Status::InvalidArgument, text));
    let bpc = u64::from(options.bytes_per_checksum);
    if bpc == 0 || bpc > 8 << 20 {
        return bad(format!("dfs.bytes-per-checksum {bpc} is not in 1..=8388608"));
    }
    if options.block_size == 0 || !options.block_size.is_multiple_of(bpc) {
        return bad(format!(
            "block size {} is not a multiple of dfs.bytes-per-checksum {bpc}",
            options.block_size
        ));
    }
    // The DataNode refuses packets above 16 MiB, header and checksums included.
    if options.packet_bytes > 15 << 20 {
        return bad(format!(
            "dfs.client-write-packet-size {} exceeds 15 MiB",
            options.packet_bytes
        ));
    }
    if options.replication == 0 || options.replication > 512 {
        return bad(format!("replication {} is not in 1..=512", options.replication));
    }
    Ok(())
}
