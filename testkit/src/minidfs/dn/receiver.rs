//! WRITE_BLOCK: set-up of the chain, then packets to the mirror and to the disk.
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use dfs::proto::hdfs::op_write_block_proto::BlockConstructionStage as Stage;
use dfs::proto::hdfs::{BlockOpResponseProto, ExtendedBlockProto, OpWriteBlockProto, Status};

use super::super::faults::{Fault, Op, Site, Visit};
use super::super::net::{Conn, ConnReader};
use super::super::wire::{Checksum, Packet, bad_data, read_delimited, write_delimited};
use super::dataset::Replica;
use super::responder::{Pending, Pipeline};
use super::store::Store;
use super::writer::WriterControl;
use super::{OP_WRITE_BLOCK, Session, TRANSFER_VERSION};

/// Who writes and how, as the request says.
struct Plan {
    stage: Stage,
    /// A DataNode copies the block: no acks, the replica is final at the end.
    from_node: bool,
    /// A client has the block copied to this node during its recovery.
    transfer: bool,
    checksum: Checksum,
    /// The block with the generation stamp that its replica has now.
    block: ExtendedBlockProto,
}

impl Session {
    /// Hadoop 3.4 DataXceiver#writeBlock.
    pub(super) fn write_block(&mut self, req: &OpWriteBlockProto) -> io::Result<()> {
        let plan = Plan::new(req)?;
        let requested = &req.header.base_header.block;
        if requested.pool_id != self.dn.pool_id {
            return Err(bad_data(format!("unknown block pool {}", requested.pool_id)));
        }
        if self.refused(Op::Write, requested.block_id, &req.targets)? {
            self.flush_and_close();
            return Ok(());
        }
        let control = WriterControl::new(&self.conn);
        let opened = self.open_replica(req, &plan, &control);
        let replica = match opened {
            Ok(replica) => replica,
            Err(e) => {
                // It may have become the writer before the check that failed.
                match self.dn.data.get(requested.block_id) {
                    Some(replica) => replica.release(&control),
                    None => control.set_done(),
                }
                return Err(e);
            }
        };
        let result = self.write_replica(req, plan, &replica, &control);
        replica.release(&control);
        result
    }

    fn open_replica(
        &self,
        req: &OpWriteBlockProto,
        plan: &Plan,
        control: &Arc<WriterControl>,
    ) -> io::Result<Arc<Replica>> {
        let block = &req.header.base_header.block;
        let (gs, min, max) = (req.latest_generation_stamp, req.min_bytes_rcvd, req.max_bytes_rcvd);
        let data = &self.dn.data;
        if plan.from_node || plan.transfer {
            return data.create_temporary(block, control);
        }
        match plan.stage {
            Stage::PipelineSetupCreate => data.create_rbw(block, control),
            Stage::PipelineSetupStreamingRecovery => data.recover_rbw(block, gs, min, max, control),
            Stage::PipelineSetupAppend => data.append(block, gs, min, control),
            Stage::PipelineSetupAppendRecovery => data.recover_append(block, gs, min, control),
            Stage::PipelineCloseRecovery => data.recover_close(block, gs, min, control),
            other => Err(bad_data(format!(
                "Unsupported stage {} while receiving block blk_{} from {}",
                other.as_str_name(),
                block.block_id,
                self.conn.peer()
            ))),
        }
    }

    fn write_replica(
        &mut self,
        req: &OpWriteBlockProto,
        plan: Plan,
        replica: &Arc<Replica>,
        control: &Arc<WriterControl>,
    ) -> io::Result<()> {
        let create = plan.from_node || plan.transfer || plan.stage == Stage::PipelineSetupCreate;
        let closing = !plan.from_node && plan.stage == Stage::PipelineCloseRecovery;
        let store = if closing { None } else { Some(Store::open(replica, create, plan.checksum)?) };
        if !plan.from_node && !plan.transfer && !closing {
            self.dn.report(replica);
        }
        let (mirror, status, bad_link) = self.connect_mirror(req, &plan, control)?;
        if !plan.from_node && !plan.transfer {
            self.respond(&BlockOpResponseProto {
                status,
                first_bad_link: Some(bad_link),
                ..BlockOpResponseProto::default()
            })?;
        }
        let Some(store) = store else {
            self.dn.report(replica);
            return Ok(());
        };
        let pipeline = Pipeline::new(&self.dn, &self.conn, mirror, replica, control);
        let mut receiver = Receiver {
            session: self,
            pipeline: Arc::clone(&pipeline),
            store,
            acks: !plan.from_node && !plan.transfer,
            plan,
            packet: Packet::default(),
            scratch: Vec::new(),
        };
        let result = receiver.receive();
        if result.is_err() {
            receiver.clean_up();
        }
        result
    }

    /// Connects to the next node, forwards the request and reads its connect ack.
    fn connect_mirror(
        &self,
        req: &OpWriteBlockProto,
        plan: &Plan,
        control: &WriterControl,
    ) -> io::Result<(Option<Arc<Conn>>, i32, String)> {
        let success = Status::Success as i32;
        let Some((next, rest)) = req.targets.split_first() else {
            return Ok((None, success, String::new()));
        };
        let attempt = || -> io::Result<(Arc<Conn>, i32, String)> {
            let conn = self.dn.connect_to(next)?;
            control.add(&conn);
            let hops = u32::try_from(req.targets.len()).unwrap_or(u32::MAX);
            let extra = self.dn.cfg.hop_timeout.saturating_mul(hops);
            conn.set_read_timeout(Some(self.dn.cfg.socket_timeout.saturating_add(extra)))?;
            let mut forward = req.clone();
            forward.targets = rest.to_vec();
            forward.storage_type = req.target_storage_types.first().copied();
            forward.target_storage_types =
                req.target_storage_types.iter().skip(1).copied().collect();
            forward.storage_id = req.target_storage_ids.first().cloned();
            forward.target_storage_ids = req.target_storage_ids.iter().skip(1).cloned().collect();
            send_op(&conn, OP_WRITE_BLOCK, &forward)?;
            if plan.from_node {
                return Ok((conn, success, String::new()));
            }
            let ack: BlockOpResponseProto = read_delimited(&mut ConnReader(Arc::clone(&conn)))?;
            Ok((conn, ack.status, ack.first_bad_link.unwrap_or_default()))
        };
        match attempt() {
            Ok((conn, status, bad_link)) => Ok((Some(conn), status, bad_link)),
            Err(e) if plan.from_node => {
                // A copy goes on without its next node.
                drop(e);
                Ok((None, success, String::new()))
            }
            Err(e) => {
                self.respond(&BlockOpResponseProto {
                    status: Status::Error as i32,
                    first_bad_link: Some(format!("{}:{}", next.id.ip_addr, next.id.xfer_port)),
                    ..BlockOpResponseProto::default()
                })?;
                self.flush_and_close();
                Err(e)
            }
        }
    }
}

impl Plan {
    fn new(req: &OpWriteBlockProto) -> io::Result<Self> {
        let stage = Stage::try_from(req.stage)
            .map_err(|_| bad_data(format!("unknown stage {}", req.stage)))?;
        let transfer = matches!(stage, Stage::TransferRbw | Stage::TransferFinalized);
        if transfer && !req.targets.is_empty() {
            return Err(bad_data(format!(
                "{} does not support multiple targets",
                stage.as_str_name()
            )));
        }
        if req.target_storage_types.len() != req.targets.len()
            && !req.target_storage_types.is_empty()
        {
            return Err(bad_data(format!(
                "{} target storage types for {} targets",
                req.target_storage_types.len(),
                req.targets.len()
            )));
        }
        let checksum = Checksum::new(
            req.requested_checksum.r#type,
            req.requested_checksum.bytes_per_checksum,
        )?;
        let mut block = req.header.base_header.block.clone();
        let setup = matches!(
            stage,
            Stage::PipelineSetupAppend
                | Stage::PipelineSetupAppendRecovery
                | Stage::PipelineSetupStreamingRecovery
                | Stage::PipelineCloseRecovery
        );
        if setup {
            block.generation_stamp = req.latest_generation_stamp;
        }
        let from_node = req.header.client_name.is_empty();
        Ok(Self { stage, from_node, transfer: transfer && !from_node, checksum, block })
    }
}

/// Sends an operation header in one write.
pub(super) fn send_op(conn: &Conn, op: u8, message: &impl prost::Message) -> io::Result<()> {
    use std::io::Write as _;
    let mut bytes = TRANSFER_VERSION.to_be_bytes().to_vec();
    bytes.push(op);
    bytes.extend_from_slice(&message.encode_length_delimited_to_vec());
    (&*conn).write_all(&bytes)
}

/// The receiving thread of a WRITE_BLOCK. Hadoop 3.4 BlockReceiver.
struct Receiver<'a> {
    session: &'a mut Session,
    pipeline: Arc<Pipeline>,
    store: Store,
    /// A client waits for acks.
    acks: bool,
    plan: Plan,
    packet: Packet,
    scratch: Vec<u8>,
}

impl Receiver<'_> {
    fn receive(&mut self) -> io::Result<()> {
        let responder = if self.acks {
            self.session.dn.register_pipeline(&self.pipeline);
            let pipeline = Arc::clone(&self.pipeline);
            let name = format!("minidfs-dn{}-acks", self.session.dn.index);
            let thread =
                std::thread::Builder::new().name(name).spawn(move || pipeline.respond())?;
            Some(thread)
        } else {
            None
        };
        let mut result = self.receive_packets();
        if result.is_ok() && self.acks && !self.pipeline.drain() {
            result = Err(io::Error::other("the responder failed"));
        }
        if result.is_err() {
            self.pipeline.abort();
        }
        if let Some(thread) = responder {
            let _panicked = thread.join();
        }
        result?;
        if self.acks { Ok(()) } else { self.finish_copy() }
    }

    fn receive_packets(&mut self) -> io::Result<()> {
        loop {
            self.packet.read(&mut self.session.input)?;
            self.apply_faults()?;
            if self.receive_packet()? {
                return Ok(());
            }
        }
    }

    fn apply_faults(&mut self) -> io::Result<()> {
        let dn = &self.session.dn;
        let visit = Visit {
            seqno: self.packet.header.seqno,
            block: self.plan.block.block_id,
            ..Visit::at(Site::PacketReceived, dn.index)
        };
        match dn.common_fault(dn.hit(&visit), &self.session.conn)? {
            Some(Fault::CorruptData(index)) => {
                let data = self.packet.data_mut();
                let index = index % data.len().max(1);
                if let Some(byte) = data.get_mut(index) {
                    *byte ^= 1;
                }
            }
            Some(Fault::CorruptChecksum) => {
                if let Some(byte) = self.packet.checksums_mut().first_mut() {
                    *byte ^= 1;
                }
            }
            Some(Fault::DiskFull) => {
                return Err(io::Error::new(
                    io::ErrorKind::StorageFull,
                    "No space left on device (fault rule)",
                ));
            }
            _ => {}
        }
        Ok(())
    }

    /// Whether this node has to look at the checksums: the last one does, and every one that
    /// copies or translates.
    fn verifies(&self) -> bool {
        self.pipeline.mirror.is_none()
            || self.plan.from_node
            || self.store.checksum != self.plan.checksum
    }

    /// One packet; true after the last one. Hadoop 3.4 BlockReceiver#receivePacket.
    fn receive_packet(&mut self) -> io::Result<bool> {
        let header = self.packet.header;
        let replica = Arc::clone(&self.pipeline.replica);
        let offset = u64::try_from(header.offset_in_block)
            .map_err(|_| bad_data(format!("negative offset {}", header.offset_in_block)))?;
        let len = self.packet.data().len();
        let end = offset + len as u64;
        {
            let mut inner = replica.inner.lock();
            if offset > inner.num_bytes {
                return Err(bad_data(format!(
                    "Received an out-of-sequence packet for blk_{} from {} at offset {offset}. \
                     Expecting packet starting at {}",
                    replica.id,
                    self.session.conn.peer(),
                    inner.num_bytes
                )));
            }
            inner.num_bytes = inner.num_bytes.max(end);
        }
        let sync = header.sync_block();
        let pending = Pending {
            seqno: header.seqno,
            last: header.last_packet_in_block,
            end,
            status: Status::Success,
        };
        let ack_early = self.acks && !sync && !self.verifies();
        // Hadoop acks before its disk write here. The last packet finalizes the replica, which
        // must hold all data by then, so it waits in any case: it carries none itself.
        if ack_early {
            self.pipeline.enqueue(pending);
        }
        self.mirror();
        if header.last_packet_in_block || len == 0 {
            if header.last_packet_in_block && len > 0 {
                return Err(bad_data(format!("the last packet of blk_{} has data", replica.id)));
            }
            if sync {
                self.store.sync(&replica)?;
            }
        } else {
            self.store_packet(&replica, pending)?;
            if sync {
                self.store.sync(&replica)?;
            }
        }
        if self.acks && !ack_early {
            self.pipeline.enqueue(pending);
        }
        Ok(header.last_packet_in_block)
    }

    fn mirror(&mut self) {
        let pipeline = &self.pipeline;
        if let Some(mirror) = &pipeline.mirror
            && !pipeline.mirror_error.load(Ordering::Acquire)
            && self.packet.write(&mut &**mirror, &mut self.scratch).is_err()
        {
            pipeline.break_mirror();
        }
    }

    fn store_packet(&mut self, replica: &Replica, pending: Pending) -> io::Result<()> {
        let len = self.packet.data().len();
        let expected = self.store.checksum.bytes_for(len);
        let received = self.packet.checksums().len();
        if received > 0 && received != expected {
            return Err(bad_data(format!(
                "Invalid checksum length: received length is {received} but expected length is \
                 {expected}"
            )));
        }
        let mut sums = self.packet.checksums().to_vec();
        if received > 0 && self.verifies() {
            let checksum = self.plan.checksum;
            if checksum.first_mismatch(self.packet.data(), &sums).is_some() {
                self.answer_checksum_error(pending);
                return Err(bad_data(format!(
                    "Terminating due to a checksum error while writing blk_{} from {}",
                    replica.id,
                    self.session.conn.peer()
                )));
            }
        }
        if received == 0 || self.store.checksum.kind != self.plan.checksum.kind {
            sums = self.store.checksum.compute(self.packet.data());
        }
        self.store.write(replica, &self.packet, &sums)
    }

    fn answer_checksum_error(&self, mut pending: Pending) {
        if self.acks {
            pending.status = Status::ErrorChecksum;
            self.pipeline.enqueue(pending);
            self.pipeline.control.sleep(self.session.dn.cfg.checksum_error_delay);
        }
    }

    /// A copy has no acks: its end makes the replica visible.
    fn finish_copy(&mut self) -> io::Result<()> {
        let replica = &self.pipeline.replica;
        let visible = replica.inner.lock().num_bytes;
        if self.plan.stage == Stage::TransferRbw {
            self.session.dn.data.convert_temporary_to_rbw(replica, visible)?;
        } else {
            self.session.dn.data.finalize(replica)?;
        }
        self.session.dn.report(replica);
        if self.plan.transfer {
            let mut out = &*self.session.conn;
            let done =
                BlockOpResponseProto { status: Status::Success as i32, ..Default::default() };
            write_delimited(&mut out, &done)?;
        }
        Ok(())
    }

    /// An unfinished copy is worth nothing.
    fn clean_up(&self) {
        if !self.acks {
            let replica = &self.pipeline.replica;
            replica.release(&self.pipeline.control);
            // What cannot be deleted now goes at the next start.
            let _kept = self.session.dn.data.delete(replica.id, None);
        }
    }
}
