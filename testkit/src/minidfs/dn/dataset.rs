//! Replicas of one DataNode, on disk in HDFS's layout, with the state checks of FsDatasetImpl.
use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use dfs::proto::hdfs::ExtendedBlockProto;
use parking_lot::Mutex;

use super::meta::truncate_files;
use super::writer::WriterControl;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Copied from another DataNode, not complete yet.
    Temporary,
    /// Being written.
    Rbw,
    /// Was being written when the DataNode stopped.
    Rwr,
    Finalized,
}

impl State {
    fn name(self) -> &'static str {
        match self {
            Self::Temporary => "TEMPORARY",
            Self::Rbw => "RBW",
            Self::Rwr => "RWR",
            Self::Finalized => "FINALIZED",
        }
    }
}

/// What can change about a replica; locked for moments only.
pub(crate) struct Inner {
    pub(crate) gs: u64,
    pub(crate) state: State,
    /// Bytes received.
    pub(crate) num_bytes: u64,
    /// Bytes in the file, with their checksums in the meta file.
    pub(crate) on_disk: u64,
    /// Bytes that this node and all nodes behind it have acked.
    pub(crate) acked: u64,
    /// Bytes that an fsync has brought to the disk.
    pub(crate) synced: u64,
    /// Checksum of the last chunk at `on_disk`, while the replica grows.
    pub(crate) last_crc: Option<[u8; 4]>,
    pub(crate) data: PathBuf,
    pub(crate) meta: PathBuf,
    writer: Option<Arc<WriterControl>>,
    recovery_id: u64,
}

pub(crate) struct Replica {
    pub(crate) id: u64,
    pub(crate) inner: Mutex<Inner>,
}

impl Replica {
    /// What a report says: generation stamp, length, whether it is final.
    pub(crate) fn reported(&self) -> (u64, u64, bool) {
        let inner = self.inner.lock();
        (inner.gs, inner.num_bytes, inner.state == State::Finalized)
    }

    fn describe(&self, inner: &Inner) -> String {
        format!(
            "blk_{}_{}, {}, bytesRcvd={}, bytesOnDisk={}, bytesAcked={}",
            self.id,
            inner.gs,
            inner.state.name(),
            inner.num_bytes,
            inner.on_disk,
            inner.acked
        )
    }

    /// Makes `control` the writer, after the present one was stopped and has ended.
    fn claim(&self, control: &Arc<WriterControl>) -> io::Result<()> {
        loop {
            let old = {
                let mut inner = self.inner.lock();
                match &inner.writer {
                    Some(old) if !Arc::ptr_eq(old, control) => Arc::clone(old),
                    _ => {
                        inner.writer = Some(Arc::clone(control));
                        return Ok(());
                    }
                }
            };
            old.stop_and_wait(self.id)?;
            self.forget_writer(&old);
        }
    }

    fn forget_writer(&self, control: &Arc<WriterControl>) {
        let mut inner = self.inner.lock();
        if inner.writer.as_ref().is_some_and(|w| Arc::ptr_eq(w, control)) {
            inner.writer = None;
        }
    }

    fn stop_writer(&self) -> io::Result<()> {
        let old = self.inner.lock().writer.take();
        old.map_or(Ok(()), |old| old.stop_and_wait(self.id))
    }

    /// The writer has ended.
    pub(crate) fn release(&self, control: &Arc<WriterControl>) {
        self.forget_writer(control);
        control.set_done();
    }

    /// What readers may see; negative when nothing. Hadoop 3.4 Replica#getVisibleLength.
    pub(crate) fn visible_length(&self) -> i64 {
        let inner = self.inner.lock();
        match inner.state {
            State::Rbw => i64::try_from(inner.acked).unwrap_or(-1),
            State::Finalized => i64::try_from(inner.num_bytes).unwrap_or(-1),
            State::Temporary | State::Rwr => -1,
        }
    }

    pub(crate) fn open(&self) -> io::Result<(File, File)> {
        let inner = self.inner.lock();
        let open = |path: &Path| {
            let file = OpenOptions::new().read(true).write(true).open(path);
            file.map_err(|e| io::Error::new(e.kind(), format!("{}: {e}", path.display())))
        };
        Ok((open(&inner.data)?, open(&inner.meta)?))
    }
}

fn not_found(message: String) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, format!("ReplicaNotFoundException: {message}"))
}

fn exists(message: String) -> io::Error {
    io::Error::new(
        io::ErrorKind::AlreadyExists,
        format!("ReplicaAlreadyExistsException: {message}"),
    )
}

/// The replicas of a DataNode.
pub(crate) struct Dataset {
    pool_dir: PathBuf,
    map: Mutex<HashMap<u64, Arc<Replica>>>,
}

impl Dataset {
    pub(crate) fn new(dir: &Path, pool_id: &str) -> io::Result<Self> {
        let pool_dir = dir.join("current").join(pool_id);
        for sub in ["current/rbw", "current/finalized", "tmp"] {
            fs::create_dir_all(pool_dir.join(sub))?;
        }
        Ok(Self { pool_dir, map: Mutex::default() })
    }

    pub(crate) fn get(&self, id: u64) -> Option<Arc<Replica>> {
        self.map.lock().get(&id).cloned()
    }

    /// Hadoop 3.4 FsDatasetImpl#getReplicaInfo.
    pub(crate) fn find(&self, block: &ExtendedBlockProto) -> io::Result<Arc<Replica>> {
        self.get(block.block_id).ok_or_else(|| {
            not_found(format!(
                "Cannot append to a non-existent replica {}:blk_{}_{}",
                block.pool_id, block.block_id, block.generation_stamp
            ))
        })
    }

    pub(crate) fn all(&self) -> Vec<Arc<Replica>> {
        let mut all: Vec<_> = self.map.lock().values().cloned().collect();
        all.sort_by_key(|r| r.id);
        all
    }

    fn paths(&self, state: State, id: u64, gs: u64) -> io::Result<(PathBuf, PathBuf)> {
        let dir = match state {
            State::Temporary => self.pool_dir.join("tmp"),
            State::Rbw | State::Rwr => self.pool_dir.join("current/rbw"),
            // Hadoop 3.4 DatanodeUtil#idToBlockDir.
            State::Finalized => self
                .pool_dir
                .join("current/finalized")
                .join(format!("subdir{}", (id >> 16) & 0x1F))
                .join(format!("subdir{}", (id >> 8) & 0x1F)),
        };
        fs::create_dir_all(&dir)?;
        Ok((dir.join(format!("blk_{id}")), dir.join(format!("blk_{id}_{gs}.meta"))))
    }

    fn create(
        &self,
        state: State,
        block: &ExtendedBlockProto,
        control: &Arc<WriterControl>,
    ) -> io::Result<Arc<Replica>> {
        let (id, gs) = (block.block_id, block.generation_stamp);
        let (data, meta) = self.paths(state, id, gs)?;
        let mut map = self.map.lock();
        if let Some(old) = map.get(&id) {
            let inner = old.inner.lock();
            return Err(exists(format!(
                "Block {}:blk_{id}_{gs} already exists in state {} and thus cannot be created.",
                block.pool_id,
                inner.state.name()
            )));
        }
        File::create(&data)?;
        File::create(&meta)?;
        let inner = Inner {
            gs,
            state,
            num_bytes: 0,
            on_disk: 0,
            acked: 0,
            synced: 0,
            last_crc: None,
            data,
            meta,
            writer: Some(Arc::clone(control)),
            recovery_id: 0,
        };
        let replica = Arc::new(Replica { id, inner: Mutex::new(inner) });
        map.insert(id, Arc::clone(&replica));
        Ok(replica)
    }

    pub(crate) fn create_rbw(
        &self,
        block: &ExtendedBlockProto,
        control: &Arc<WriterControl>,
    ) -> io::Result<Arc<Replica>> {
        self.create(State::Rbw, block, control)
    }

    /// Hadoop 3.4 FsDatasetImpl#createTemporary: an older replica that was never finalized makes
    /// room.
    pub(crate) fn create_temporary(
        &self,
        block: &ExtendedBlockProto,
        control: &Arc<WriterControl>,
    ) -> io::Result<Arc<Replica>> {
        if let Some(old) = self.get(block.block_id) {
            let (gs, state) = {
                let inner = old.inner.lock();
                (inner.gs, inner.state)
            };
            if gs < block.generation_stamp && state != State::Finalized {
                old.stop_writer()?;
                self.delete(block.block_id, None)?;
            }
        }
        self.create(State::Temporary, block, control)
    }

    fn move_to(
        &self,
        replica: &Replica,
        inner: &mut Inner,
        state: State,
        gs: u64,
    ) -> io::Result<()> {
        let (data, meta) = self.paths(state, replica.id, gs)?;
        fs::rename(&inner.meta, &meta)?;
        if data != inner.data {
            fs::rename(&inner.data, &data)?;
        }
        inner.data = data;
        inner.meta = meta;
        inner.state = state;
        inner.gs = gs;
        Ok(())
    }

    /// PIPELINE_SETUP_APPEND. Hadoop 3.4 FsDatasetImpl#append.
    pub(crate) fn append(
        &self,
        block: &ExtendedBlockProto,
        new_gs: u64,
        expected: u64,
        control: &Arc<WriterControl>,
    ) -> io::Result<Arc<Replica>> {
        if new_gs < block.generation_stamp {
            return Err(io::Error::other(format!(
                "The new generation stamp {new_gs} should be greater than the replica's \
                 generation stamp {}",
                block.generation_stamp
            )));
        }
        let replica = self.find(block)?;
        {
            let inner = replica.inner.lock();
            if inner.state != State::Finalized {
                return Err(not_found(format!(
                    "Cannot append to an unfinalized replica {}",
                    replica.describe(&inner)
                )));
            }
            check_expected_length(&replica, &inner, expected)?;
        }
        replica.claim(control)?;
        let mut inner = replica.inner.lock();
        check_free(&replica, &inner)?;
        check_gs_range(&inner, block, new_gs)?;
        self.reopen(&replica, &mut inner, new_gs)?;
        drop(inner);
        Ok(replica)
    }

    fn reopen(&self, replica: &Replica, inner: &mut Inner, new_gs: u64) -> io::Result<()> {
        self.move_to(replica, inner, State::Rbw, new_gs)?;
        inner.acked = inner.num_bytes;
        inner.on_disk = inner.num_bytes;
        inner.last_crc = None;
        Ok(())
    }

    /// Hadoop 3.4 FsDatasetImpl#recoverCheck.
    fn recover_check(
        &self,
        block: &ExtendedBlockProto,
        new_gs: u64,
        expected: u64,
        control: &Arc<WriterControl>,
    ) -> io::Result<Arc<Replica>> {
        let replica = self.find(block)?;
        {
            let inner = replica.inner.lock();
            if !matches!(inner.state, State::Finalized | State::Rbw) {
                return Err(not_found(format!(
                    "Cannot recover append/close to a replica that's not FINALIZED and not RBW {}",
                    replica.describe(&inner)
                )));
            }
            check_gs_range(&inner, block, new_gs)?;
        }
        replica.claim(control)?;
        let inner = replica.inner.lock();
        check_free(&replica, &inner)?;
        check_gs_range(&inner, block, new_gs)?;
        let same = inner.num_bytes == inner.on_disk && inner.num_bytes == inner.acked;
        if inner.state == State::Rbw && !same {
            return Err(exists(format!(
                "RBW replica {}: bytesRcvd, bytesOnDisk, and bytesAcked are not the same.",
                replica.describe(&inner)
            )));
        }
        check_expected_length(&replica, &inner, expected)?;
        drop(inner);
        Ok(replica)
    }

    pub(crate) fn recover_append(
        &self,
        block: &ExtendedBlockProto,
        new_gs: u64,
        expected: u64,
        control: &Arc<WriterControl>,
    ) -> io::Result<Arc<Replica>> {
        let replica = self.recover_check(block, new_gs, expected, control)?;
        let mut inner = replica.inner.lock();
        if inner.state == State::Finalized {
            self.reopen(&replica, &mut inner, new_gs)?;
        } else {
            self.move_to(&replica, &mut inner, State::Rbw, new_gs)?;
        }
        drop(inner);
        Ok(replica)
    }

    pub(crate) fn recover_close(
        &self,
        block: &ExtendedBlockProto,
        new_gs: u64,
        expected: u64,
        control: &Arc<WriterControl>,
    ) -> io::Result<Arc<Replica>> {
        let replica = self.recover_check(block, new_gs, expected, control)?;
        let mut inner = replica.inner.lock();
        self.move_to(&replica, &mut inner, State::Finalized, new_gs)?;
        drop(inner);
        Ok(replica)
    }

    /// PIPELINE_SETUP_STREAMING_RECOVERY. Hadoop 3.4 FsDatasetImpl#recoverRbw: what was not acked
    /// is cut off.
    pub(crate) fn recover_rbw(
        &self,
        block: &ExtendedBlockProto,
        new_gs: u64,
        min: u64,
        max: u64,
        control: &Arc<WriterControl>,
    ) -> io::Result<Arc<Replica>> {
        let replica = self.find(block)?;
        {
            let inner = replica.inner.lock();
            if inner.state != State::Rbw {
                return Err(not_found(format!(
                    "Cannot recover a non-RBW replica {}",
                    replica.describe(&inner)
                )));
            }
        }
        replica.claim(control)?;
        let mut inner = replica.inner.lock();
        check_free(&replica, &inner)?;
        check_gs_range(&inner, block, new_gs)?;
        if inner.state != State::Rbw {
            return Err(not_found(format!(
                "Cannot recover a non-RBW replica {}",
                replica.describe(&inner)
            )));
        }
        if inner.acked < min || inner.num_bytes > max || inner.on_disk < inner.acked {
            return Err(not_found(format!(
                "Unmatched length replica {}: BytesAcked = {} BytesRcvd = {} are not in the range \
                 of [{min}, {max}].",
                replica.describe(&inner),
                inner.acked,
                inner.num_bytes
            )));
        }
        if inner.num_bytes > inner.acked {
            let length = inner.acked;
            truncate_files(&inner.data, &inner.meta, length)?;
            inner.num_bytes = length;
            inner.on_disk = length;
            inner.last_crc = None;
        }
        self.move_to(&replica, &mut inner, State::Rbw, new_gs)?;
        drop(inner);
        Ok(replica)
    }

    /// Makes a replica final; one that already is stays.
    pub(crate) fn finalize(&self, replica: &Replica) -> io::Result<()> {
        let mut inner = replica.inner.lock();
        if inner.state != State::Finalized {
            let gs = inner.gs;
            self.move_to(replica, &mut inner, State::Finalized, gs)?;
            inner.num_bytes = inner.on_disk;
        }
        Ok(())
    }

    pub(crate) fn convert_temporary_to_rbw(
        &self,
        replica: &Replica,
        visible: u64,
    ) -> io::Result<()> {
        let mut inner = replica.inner.lock();
        if inner.state != State::Temporary || inner.num_bytes < visible {
            return Err(exists(format!(
                "{} cannot become RBW with {visible} visible bytes",
                replica.describe(&inner)
            )));
        }
        let gs = inner.gs;
        self.move_to(replica, &mut inner, State::Rbw, gs)?;
        inner.acked = visible;
        Ok(())
    }

    /// Deletes a replica; with a generation stamp only if it is that one.
    pub(crate) fn delete(&self, id: u64, gs: Option<u64>) -> io::Result<bool> {
        let replica = {
            let mut map = self.map.lock();
            let Some(replica) = map.get(&id) else { return Ok(false) };
            if gs.is_some_and(|gs| replica.inner.lock().gs != gs) {
                return Ok(false);
            }
            map.remove(&id)
        };
        let Some(replica) = replica else { return Ok(false) };
        replica.stop_writer()?;
        let inner = replica.inner.lock();
        fs::remove_file(&inner.data)?;
        fs::remove_file(&inner.meta)?;
        Ok(true)
    }

    /// First half of a block recovery: stops the writer and says what is here.
    /// Hadoop 3.4 FsDatasetImpl#initReplicaRecovery.
    pub(crate) fn init_recovery(
        &self,
        id: u64,
        gs: u64,
        recovery_id: u64,
    ) -> io::Result<Option<(State, u64)>> {
        let Some(replica) = self.get(id) else { return Ok(None) };
        replica.stop_writer()?;
        let mut inner = replica.inner.lock();
        if inner.state == State::Temporary || inner.gs < gs {
            return Ok(None);
        }
        if inner.gs >= recovery_id || inner.recovery_id >= recovery_id {
            return Err(io::Error::other(format!(
                "THIS IS NOT SUPPOSED TO HAPPEN: replica.getGenerationStamp() >= recoveryId = \
                 {recovery_id}, replica={}",
                replica.describe(&inner)
            )));
        }
        inner.recovery_id = recovery_id;
        Ok(Some((inner.state, inner.on_disk)))
    }

    /// Second half: cuts, stamps and finalizes.
    /// Hadoop 3.4 FsDatasetImpl#updateReplicaUnderRecovery.
    pub(crate) fn update_recovery(&self, id: u64, recovery_id: u64, length: u64) -> io::Result<()> {
        let replica = self.get(id).ok_or_else(|| not_found(format!("blk_{id}")))?;
        let mut inner = replica.inner.lock();
        if inner.recovery_id != recovery_id || inner.on_disk < length {
            return Err(io::Error::other(format!(
                "recovery {recovery_id} to {length} bytes does not fit {}",
                replica.describe(&inner)
            )));
        }
        if inner.on_disk > length {
            truncate_files(&inner.data, &inner.meta, length)?;
        }
        inner.num_bytes = length;
        inner.on_disk = length;
        inner.acked = length;
        inner.last_crc = None;
        self.move_to(&replica, &mut inner, State::Finalized, recovery_id)
    }

    /// What a DataNode finds when it starts again: replicas that were being written wait for
    /// recovery, unless an upgrade restart announced itself.
    /// Hadoop 3.4 BlockPoolSlice#addToReplicasMap.
    pub(crate) fn after_restart(&self, announced: bool) -> io::Result<()> {
        for replica in self.all() {
            let mut inner = replica.inner.lock();
            inner.writer = None;
            match inner.state {
                State::Temporary => {
                    drop(inner);
                    self.delete(replica.id, None)?;
                }
                State::Rbw => {
                    // Only what the checksums vouch for counts; all of it was written together.
                    inner.num_bytes = inner.on_disk;
                    inner.acked = inner.on_disk;
                    inner.last_crc = None;
                    inner.state = if announced { State::Rbw } else { State::Rwr };
                }
                State::Rwr | State::Finalized => {}
            }
        }
        Ok(())
    }

    /// What is left after the power failed: only bytes that were synced.
    pub(crate) fn lose_unsynced(&self) -> io::Result<()> {
        for replica in self.all() {
            let mut inner = replica.inner.lock();
            if inner.on_disk > inner.synced {
                truncate_files(&inner.data, &inner.meta, inner.synced)?;
                inner.on_disk = inner.synced;
                inner.num_bytes = inner.synced;
                inner.acked = inner.acked.min(inner.synced);
            }
        }
        Ok(())
    }

    pub(crate) fn used_bytes(&self) -> u64 {
        self.all().iter().map(|r| r.inner.lock().on_disk).sum()
    }
}

/// A block recovery owns the replica from its first half to its second; a writer that came in
/// between would take it back to an older generation stamp.
/// Hadoop 3.4 ReplicaUnderRecovery.
fn check_free(replica: &Replica, inner: &Inner) -> io::Result<()> {
    if inner.recovery_id > inner.gs {
        return Err(not_found(format!("{} is under recovery", replica.describe(inner))));
    }
    Ok(())
}

fn check_gs_range(inner: &Inner, block: &ExtendedBlockProto, new_gs: u64) -> io::Result<()> {
    if inner.gs < block.generation_stamp || inner.gs > new_gs {
        return Err(not_found(format!(
            "Cannot append to a replica with unexpected generation stamp {}. Expected GS range is \
             [{}, {new_gs}].",
            inner.gs, block.generation_stamp
        )));
    }
    Ok(())
}

fn check_expected_length(replica: &Replica, inner: &Inner, expected: u64) -> io::Result<()> {
    if inner.num_bytes != expected {
        return Err(io::Error::other(format!(
            "Corrupted replica {} with a length of {} expected length is {expected}",
            replica.describe(inner),
            inner.num_bytes
        )));
    }
    Ok(())
}
