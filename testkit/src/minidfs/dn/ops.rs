//! BLOCK_CHECKSUM, TRANSFER_BLOCK and the reports to the NameNode.
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use dfs::proto::hdfs::op_write_block_proto::BlockConstructionStage as Stage;
use dfs::proto::hdfs::{
    BaseHeaderProto, BlockChecksumOptionsProto, BlockChecksumTypeProto, BlockOpResponseProto,
    ClientOperationHeaderProto, DnTransferAckProto, ExtendedBlockProto, OpBlockChecksumProto,
    OpBlockChecksumResponseProto, OpTransferBlockProto, OpWriteBlockProto, Status,
    StorageTypeProto,
};
use md5::{Digest, Md5};

use super::super::faults::Op;
use super::super::net::ConnReader;
use super::super::wire::{bad_data, read_delimited};
use super::dataset::{Replica, State};
use super::meta::{META_HEADER_BYTES, read_meta_header};
use super::receiver::send_op;
use super::sender::BlockSender;
use super::{DnCore, OP_WRITE_BLOCK, Session};

impl DnCore {
    /// Tells the NameNode about a replica.
    pub(super) fn report(&self, replica: &Replica) {
        if let Ok(cluster) = self.cluster() {
            cluster.report(self.index, replica.id);
        }
    }

    /// Sends a replica to another node. Hadoop 3.4 DataNode.DataTransfer#run.
    fn send_replica(
        self: &Arc<Self>,
        req: &OpTransferBlockProto,
        block: &ExtendedBlockProto,
        stage: Stage,
    ) -> io::Result<()> {
        let Some((next, rest)) = req.targets.split_first() else { return Ok(()) };
        let conn = self.connect_to(next)?;
        let mut sender = BlockSender::new(self, block, 0, block.num_bytes, true)?;
        let header = BaseHeaderProto {
            block: block.clone(),
            token: req.header.base_header.token.clone(),
            trace_info: None,
        };
        let write = OpWriteBlockProto {
            header: ClientOperationHeaderProto {
                base_header: header,
                client_name: req.header.client_name.clone(),
            },
            targets: rest.to_vec(),
            source: None,
            stage: stage as i32,
            pipeline_size: 0,
            min_bytes_rcvd: 0,
            max_bytes_rcvd: 0,
            latest_generation_stamp: 0,
            requested_checksum: sender.checksum.to_proto(),
            caching_strategy: None,
            storage_type: Some(StorageTypeProto::Disk as i32),
            target_storage_types: Vec::new(),
            allow_lazy_persist: None,
            pinning: None,
            target_pinnings: Vec::new(),
            storage_id: req.target_storage_ids.first().cloned(),
            target_storage_ids: Vec::new(),
        };
        send_op(&conn, OP_WRITE_BLOCK, &write)?;
        sender.send(self, &conn, false)?;
        let ack: DnTransferAckProto = read_delimited(&mut ConnReader(Arc::clone(&conn)))?;
        if ack.status == Status::Success as i32 {
            Ok(())
        } else {
            Err(bad_data(format!("bad connect ack, status {}", ack.status)))
        }
    }
}

impl Session {
    /// Hadoop 3.4 DataNode#transferReplicaForPipelineRecovery. A transfer that fails is only
    /// logged there, and SUCCESS is answered all the same: the client finds out when it connects.
    pub(super) fn transfer_block(&mut self, req: &OpTransferBlockProto) -> io::Result<()> {
        let wanted = &req.header.base_header.block;
        if self.refused(Op::Transfer, wanted.block_id, &req.targets)? {
            return Ok(());
        }
        let replica = self.dn.data.find(wanted)?;
        let (gs, state) = {
            let inner = replica.inner.lock();
            (inner.gs, inner.state)
        };
        let stage = match state {
            State::Rbw => Stage::TransferRbw,
            State::Finalized => Stage::TransferFinalized,
            State::Temporary | State::Rwr => {
                return Err(bad_data(format!(
                    "blk_{} is neither a RBW nor a Finalized, state={state:?}",
                    wanted.block_id
                )));
            }
        };
        if gs < wanted.generation_stamp {
            return Err(bad_data(format!(
                "{gs} = storedGS < b.getGenerationStamp(), b=blk_{}_{}",
                wanted.block_id, wanted.generation_stamp
            )));
        }
        let mut block = wanted.clone();
        block.generation_stamp = gs;
        block.num_bytes = u64::try_from(replica.visible_length()).ok();
        // See above: the result is not the client's to see.
        let _logged = self.dn.send_replica(req, &block, stage);
        self.respond(&BlockOpResponseProto {
            status: Status::Success as i32,
            ..BlockOpResponseProto::default()
        })
    }

    /// Hadoop 3.4 BlockChecksumHelper.
    pub(super) fn block_checksum(&mut self, req: &OpBlockChecksumProto) -> io::Result<()> {
        let block = &req.header.block;
        if self.refused(Op::Checksum, block.block_id, &[])? {
            return Ok(());
        }
        let options = req.block_checksum_options.unwrap_or_default();
        match self.compute_checksum(block, options) {
            Ok(answer) => self.respond(&BlockOpResponseProto {
                status: Status::Success as i32,
                checksum_response: Some(answer),
                ..BlockOpResponseProto::default()
            }),
            Err(e) => {
                let message = format!(
                    "opBlockChecksum {}:blk_{}_{} received exception {e}",
                    block.pool_id, block.block_id, block.generation_stamp
                );
                self.respond_error(Status::Error, message)
            }
        }
    }

    fn compute_checksum(
        &self,
        block: &ExtendedBlockProto,
        options: BlockChecksumOptionsProto,
    ) -> io::Result<OpBlockChecksumResponseProto> {
        let replica = self.dn.data.find(block)?;
        let visible = u64::try_from(replica.visible_length())
            .map_err(|_| bad_data("the replica is not readable"))?;
        let (data, meta) = replica.open()?;
        let checksum = read_meta_header(&meta)?;
        if checksum.size() == 0 {
            return Err(bad_data("the replica has no checksums"));
        }
        let length = block.num_bytes().min(visible);
        let chunk = checksum.chunk as u64;
        let mut sums = vec![0; usize::try_from(length.div_ceil(chunk) * 4).unwrap_or(0)];
        meta.read_exact_at(&mut sums, META_HEADER_BYTES)?;
        let tail = usize::try_from(length % chunk).unwrap_or(0);
        if tail > 0 && length < visible {
            // The last chunk is cut in two: only its front counts.
            let mut piece = vec![0; tail];
            data.read_exact_at(&mut piece, length - length % chunk)?;
            if let Some(last) = sums.last_chunk_mut::<4>() {
                *last = checksum.crc(&piece).to_be_bytes();
            }
        }
        let (per_block, bytes) = match options.block_checksum_type() {
            BlockChecksumTypeProto::Md5crc => {
                let stored = (meta.metadata()?.len() - META_HEADER_BYTES) / 4;
                (stored, Md5::digest(&sums).to_vec())
            }
            BlockChecksumTypeProto::CompositeCrc => {
                let mut crc = 0;
                let mut piece = vec![0; 64 * 1024];
                let mut at = 0;
                while at < length {
                    let count = usize::try_from(length - at).unwrap_or(usize::MAX).min(piece.len());
                    let part = piece.get_mut(..count).unwrap_or_default();
                    data.read_exact_at(part, at)?;
                    crc = checksum.crc_append(crc, part);
                    at += count as u64;
                }
                (length.div_ceil(chunk), crc.to_be_bytes().to_vec())
            }
        };
        Ok(OpBlockChecksumResponseProto {
            bytes_per_crc: u32::try_from(checksum.chunk).unwrap_or(u32::MAX),
            crc_per_block: per_block,
            block_checksum: bytes,
            crc_type: Some(checksum.kind as i32),
            block_checksum_options: Some(options),
        })
    }
}
