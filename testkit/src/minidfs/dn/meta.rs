//! Meta files: header and checksums beside a block file.
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::super::wire::{Checksum, bad_data};

/// Version, checksum type, bytes per checksum.
pub(crate) const META_HEADER_BYTES: u64 = 7;

/// Parses the header of a meta file.
pub(crate) fn read_meta_header(meta: &File) -> io::Result<Checksum> {
    let mut header = [0u8; 7];
    meta.read_exact_at(&mut header, 0)?;
    if header[..2] != [0, 1] {
        return Err(bad_data("unknown version of a meta file"));
    }
    let chunk = u32::from_be_bytes([header[3], header[4], header[5], header[6]]);
    Checksum::new(i32::from(header[2]), chunk)
}

pub(crate) fn write_meta_header(meta: &File, checksum: Checksum) -> io::Result<()> {
    let mut header = vec![0, 1, checksum.kind as u8];
    header.extend_from_slice(&u32::try_from(checksum.chunk).unwrap_or(u32::MAX).to_be_bytes());
    meta.write_all_at(&header, 0)
}

/// Cuts data and checksums; the last chunk gets a new checksum from the data that is left.
/// Hadoop 3.4 FsDatasetUtil#truncateBlock.
pub(crate) fn truncate_files(data: &Path, meta: &Path, length: u64) -> io::Result<()> {
    let data = OpenOptions::new().read(true).write(true).open(data)?;
    let meta = OpenOptions::new().read(true).write(true).open(meta)?;
    let checksum = read_meta_header(&meta)?;
    data.set_len(length)?;
    let chunk = u64::try_from(checksum.chunk).unwrap_or(u64::MAX);
    let size = u64::try_from(checksum.size()).unwrap_or(0);
    meta.set_len(META_HEADER_BYTES + length.div_ceil(chunk) * size)?;
    let partial = usize::try_from(length % chunk).unwrap_or(0);
    if partial > 0 && size > 0 {
        let mut tail = vec![0; partial];
        data.read_exact_at(&mut tail, length - length % chunk)?;
        let at = META_HEADER_BYTES + length / chunk * size;
        meta.write_all_at(&checksum.crc(&tail).to_be_bytes(), at)?;
    }
    Ok(())
}
