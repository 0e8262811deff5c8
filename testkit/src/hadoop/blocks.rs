//! Replica files in a DataNode's storage directory.

use super::{HarnessError, Result};
use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

/// Where a DataNode keeps a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplicaState {
    /// Being written (directory `rbw`; after a DataNode's restart also waiting for recovery).
    Rbw,
    /// Complete (directory `finalized`).
    Finalized,
    /// Being copied from another DataNode (directory `tmp`).
    Temporary,
}

/// One replica on disk: its block file and, when there is one, its checksum (meta) file.
#[derive(Clone, Debug)]
pub struct ReplicaFile {
    /// Block id.
    pub block_id: i64,
    /// Generation stamp, from the meta file's name; `None` while there is no meta file.
    pub generation_stamp: Option<u64>,
    /// State, by directory.
    pub state: ReplicaState,
    /// Bytes in the block file.
    pub length: u64,
    /// The block file.
    pub path: PathBuf,
    /// The meta file: a header of 7 bytes, then 4 bytes a chunk.
    pub meta: Option<PathBuf>,
}

impl ReplicaFile {
    /// Inverts all bits of the byte at `offset` of the block file, so that its checksum is wrong.
    pub fn corrupt_data(&self, offset: u64) -> Result<()> {
        invert(&self.path, offset)
    }

    /// Inverts all bits of the byte at `offset` of the meta file.
    pub fn corrupt_meta(&self, offset: u64) -> Result<()> {
        match &self.meta {
            Some(meta) => invert(meta, offset),
            None => Err(HarnessError::new(format!("{} has no meta file", self.path.display()))),
        }
    }

    /// Cuts the block file to `length` bytes and leaves the meta file as it is.
    pub fn cut_data(&self, length: u64) -> Result<()> {
        let file = File::options()
            .write(true)
            .open(&self.path)
            .map_err(|e| HarnessError::io("open", &self.path, e))?;
        file.set_len(length).map_err(|e| HarnessError::io("cut", &self.path, e))
    }

    /// Deletes block and meta file behind the DataNode's back.
    pub fn delete(&self) -> Result<()> {
        fs::remove_file(&self.path).map_err(|e| HarnessError::io("remove", &self.path, e))?;
        match &self.meta {
            Some(meta) => fs::remove_file(meta).map_err(|e| HarnessError::io("remove", meta, e)),
            None => Ok(()),
        }
    }
}

fn invert(path: &Path, offset: u64) -> Result<()> {
    let run = || -> std::io::Result<()> {
        let file = File::options().read(true).write(true).open(path)?;
        let mut byte = [0];
        file.read_exact_at(&mut byte, offset)?;
        byte[0] = !byte[0];
        file.write_all_at(&byte, offset)
    };
    run().map_err(|e| HarnessError::io("corrupt", path, e))
}

/// All replicas below a DataNode's data directory, ordered by block id.
///
/// Files come and go while the DataNode runs: one that vanishes between listing and looking is
/// left out.
pub(crate) fn replicas(data_directory: &Path) -> Result<Vec<ReplicaFile>> {
    let mut found = Vec::new();
    let current = data_directory.join("current");
    for pool in entries(&current)? {
        if !pool.file_name().is_some_and(|name| name.to_string_lossy().starts_with("BP-")) {
            continue;
        }
        let below = pool.join("current");
        collect(&below.join("rbw"), ReplicaState::Rbw, &mut found)?;
        collect(&below.join("finalized"), ReplicaState::Finalized, &mut found)?;
        collect(&pool.join("tmp"), ReplicaState::Temporary, &mut found)?;
    }
    found.sort_by_key(|replica| replica.block_id);
    Ok(found)
}

/// The paths in a directory; none when it does not exist (yet, or any more).
fn entries(directory: &Path) -> Result<Vec<PathBuf>> {
    match fs::read_dir(directory) {
        Ok(list) => list
            .map(|entry| entry.map(|e| e.path()))
            .collect::<std::io::Result<Vec<_>>>()
            .map_err(|e| HarnessError::io("list", directory, e)),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(e) => Err(HarnessError::io("list", directory, e)),
    }
}

fn collect(directory: &Path, state: ReplicaState, found: &mut Vec<ReplicaFile>) -> Result<()> {
    let paths = entries(directory)?;
    let mut metas = Vec::new();
    for path in &paths {
        if let Some((id, stamp)) = meta_name(path) {
            metas.push((id, stamp, path.clone()));
        }
    }
    for path in paths {
        if path.is_dir() {
            collect(&path, state, found)?;
            continue;
        }
        let Some(block_id) = block_name(&path) else { continue };
        let Ok(attributes) = fs::metadata(&path) else { continue };
        let meta = metas.iter().find(|(id, _, _)| *id == block_id);
        found.push(ReplicaFile {
            block_id,
            generation_stamp: meta.map(|(_, stamp, _)| *stamp),
            state,
            length: attributes.len(),
            path,
            meta: meta.map(|(_, _, path)| path.clone()),
        });
    }
    Ok(())
}

/// `blk_ID`.
fn block_name(path: &Path) -> Option<i64> {
    path.file_name()?.to_str()?.strip_prefix("blk_")?.parse().ok()
}

/// `blk_ID_STAMP.meta`.
fn meta_name(path: &Path) -> Option<(i64, u64)> {
    let name = path.file_name()?.to_str()?.strip_prefix("blk_")?.strip_suffix(".meta")?;
    let (id, stamp) = name.rsplit_once('_')?;
    Some((id.parse().ok()?, stamp.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_replica_files() {
        assert_eq!(block_name(Path::new("/d/blk_1073741825")), Some(1_073_741_825));
        assert_eq!(block_name(Path::new("/d/blk_-9223372036854775792")), Some(i64::MIN + 16));
        assert_eq!(block_name(Path::new("/d/blk_1_1001.meta")), None);
        assert_eq!(meta_name(Path::new("/d/blk_-16_1001.meta")), Some((-16, 1001)));
        assert_eq!(meta_name(Path::new("/d/blk_16")), None);
    }
}
