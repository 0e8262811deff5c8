//! Handles of DataNodes and their replicas, for tests.
use std::fs;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::Duration;

use super::dn::DnCore;
use super::dn::dataset::{Replica, State};
use super::dn::meta::{META_HEADER_BYTES, truncate_files};

/// Where a meta file has the type of its checksums, behind the version.
const META_TYPE_AT: u64 = 2;

/// State of a replica on a DataNode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplicaState {
    /// Being copied from another DataNode.
    Temporary,
    /// Being written by a client.
    Rbw,
    /// Was being written when its DataNode stopped; waits for recovery.
    Rwr,
    /// Complete.
    Finalized,
}

/// A replica as it is on a DataNode.
#[derive(Clone, Debug)]
pub struct ReplicaInfo {
    /// Index of the DataNode.
    pub datanode: usize,
    /// Block id.
    pub block_id: u64,
    /// Generation stamp.
    pub generation_stamp: u64,
    /// State.
    pub state: ReplicaState,
    /// Bytes received.
    pub length: u64,
    /// Bytes acked, which readers may see.
    pub acked: u64,
    /// Content of the block file.
    pub bytes: Vec<u8>,
    /// Content of the meta file.
    pub meta: Vec<u8>,
}

/// Handle of a DataNode.
pub struct DataNode(pub(super) Arc<DnCore>);

fn missing(id: u64) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, format!("no replica of block {id}"))
}

impl DataNode {
    /// Index in the cluster.
    pub fn index(&self) -> usize {
        self.0.index
    }

    /// `ip:port` for data transfer.
    pub fn xfer_addr(&self) -> String {
        self.0.xfer_addr()
    }

    /// Port of the IPC server.
    pub fn ipc_port(&self) -> u16 {
        u16::try_from(self.0.id().ipc_port).unwrap_or(0)
    }

    /// The DataNode's uuid.
    pub fn uuid(&self) -> String {
        self.0.id().datanode_uuid
    }

    /// Kills the node: closes its ports and all connections, and waits for its threads. False
    /// when a thread did not end in time.
    pub fn kill(&self) -> bool {
        self.0.kill()
    }

    /// Kills the node as a power failure does: bytes that no hsync covered are gone.
    ///
    /// # Errors
    ///
    /// When a thread did not end in time or files cannot be cut.
    pub fn power_loss(&self) -> io::Result<()> {
        self.0.power_loss()
    }

    /// Starts a killed (or running) node again on its old ports. Replicas that were being
    /// written wait for recovery, as after the crash of a real DataNode.
    ///
    /// # Errors
    ///
    /// When ports cannot be opened again or files cannot be read.
    pub fn restart(&self) -> io::Result<()> {
        self.0.restart(false)
    }

    /// Restarts as `dfsadmin -shutdownDatanode upgrade` does: OOB_RESTART acks on every
    /// pipeline, then down for `down`, then back with replicas that can still be written.
    ///
    /// # Errors
    ///
    /// As [`DataNode::restart`].
    pub fn restart_for_upgrade(&self, down: Duration) -> io::Result<()> {
        self.0.restart_for_upgrade(down)
    }

    /// Whether the node runs.
    pub fn is_running(&self) -> bool {
        self.0.is_running()
    }

    /// Whether a fault rule that fired is about to kill or restart the node.
    pub fn is_changing(&self) -> bool {
        self.0.is_changing()
    }

    /// Stops reading and answering; connections stay, and new ones are accepted.
    pub fn pause(&self) {
        self.0.pause();
    }

    /// Ends a pause.
    pub fn resume(&self) {
        self.0.resume();
    }

    /// Closes every connection without stopping the node.
    pub fn drop_connections(&self) {
        self.0.conns.shutdown_all();
        self.0.ipc_conns.shutdown_all();
    }

    /// Connections open now on the xfer port, those to other DataNodes included.
    pub fn open_connections(&self) -> usize {
        self.0.conns.open_count()
    }

    /// Connections that the xfer port has accepted so far.
    pub fn accepted_connections(&self) -> u64 {
        self.0.conns.accepted()
    }

    /// Connections that the IPC port has accepted so far.
    pub fn accepted_ipc_connections(&self) -> u64 {
        self.0.ipc_conns.accepted()
    }

    /// Number of reads that ended with the status CHECKSUM_OK.
    pub fn verified_reads(&self) -> u64 {
        self.0.verified_reads()
    }

    /// Block ids of all replicas.
    pub fn block_ids(&self) -> Vec<u64> {
        self.0.data.all().iter().map(|r| r.id).collect()
    }

    /// A replica with its bytes; none when the node has none or its files cannot be read.
    pub fn replica(&self, block_id: u64) -> Option<ReplicaInfo> {
        let replica = self.0.data.get(block_id)?;
        let inner = replica.inner.lock();
        Some(ReplicaInfo {
            datanode: self.0.index,
            block_id,
            generation_stamp: inner.gs,
            state: match inner.state {
                State::Temporary => ReplicaState::Temporary,
                State::Rbw => ReplicaState::Rbw,
                State::Rwr => ReplicaState::Rwr,
                State::Finalized => ReplicaState::Finalized,
            },
            length: inner.num_bytes,
            acked: inner.acked,
            bytes: fs::read(&inner.data).ok()?,
            meta: fs::read(&inner.meta).ok()?,
        })
    }

    fn find(&self, block_id: u64) -> io::Result<Arc<Replica>> {
        self.0.data.get(block_id).ok_or_else(|| missing(block_id))
    }

    /// Flips one bit of a stored byte.
    ///
    /// # Errors
    ///
    /// Without such a replica, or beyond its end.
    pub fn corrupt_data(&self, block_id: u64, offset: u64) -> io::Result<()> {
        flip(&self.find(block_id)?.open()?.0, offset)
    }

    /// Flips one bit of the stored checksum of a chunk.
    ///
    /// # Errors
    ///
    /// Without such a replica, or beyond its end.
    pub fn corrupt_meta(&self, block_id: u64, chunk: u64) -> io::Result<()> {
        flip(&self.find(block_id)?.open()?.1, META_HEADER_BYTES + chunk * 4)
    }

    /// Flips one bit of the meta file's header: of the type of its checksums.
    ///
    /// # Errors
    ///
    /// Without such a replica.
    pub fn corrupt_meta_header(&self, block_id: u64) -> io::Result<()> {
        flip(&self.find(block_id)?.open()?.1, META_TYPE_AT)
    }

    /// Cuts the meta file to this length, and nothing else.
    ///
    /// # Errors
    ///
    /// Without such a replica, or when its file cannot be cut.
    pub fn truncate_meta(&self, block_id: u64, length: u64) -> io::Result<()> {
        let replica = self.find(block_id)?;
        let path = replica.inner.lock().meta.clone();
        fs::File::options().write(true).open(path)?.set_len(length)
    }

    /// Cuts a replica, its checksums and what the node knows of it, without telling the NameNode.
    ///
    /// # Errors
    ///
    /// Without such a replica, or when its files cannot be cut.
    pub fn truncate_replica(&self, block_id: u64, length: u64) -> io::Result<()> {
        let replica = self.find(block_id)?;
        let mut inner = replica.inner.lock();
        truncate_files(&inner.data, &inner.meta, length)?;
        inner.num_bytes = length;
        inner.on_disk = length;
        inner.acked = inner.acked.min(length);
        Ok(())
    }

    /// Deletes a replica without telling the NameNode.
    ///
    /// # Errors
    ///
    /// When its writer does not stop or its files cannot be removed.
    pub fn delete_replica(&self, block_id: u64) -> io::Result<bool> {
        self.0.data.delete(block_id, None)
    }

    /// Changes the generation stamp that a replica has in memory.
    ///
    /// # Errors
    ///
    /// Without such a replica.
    pub fn set_generation_stamp(&self, block_id: u64, gs: u64) -> io::Result<()> {
        self.find(block_id)?.inner.lock().gs = gs;
        Ok(())
    }
}

fn flip(file: &fs::File, offset: u64) -> io::Result<()> {
    let mut byte = [0u8; 1];
    file.read_exact_at(&mut byte, offset)?;
    byte[0] ^= 1;
    file.write_all_at(&byte, offset)
}
