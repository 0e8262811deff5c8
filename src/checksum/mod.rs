//! placeholder
/// Checksum type; the ids are those of the wire and of the block meta file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ChecksumType {
    /// No checksums.
    Null = 0,
    /// zlib's CRC-32.
    Crc32 = 1,
    /// CRC-32C (Castagnoli).
    Crc32c = 2,
}
