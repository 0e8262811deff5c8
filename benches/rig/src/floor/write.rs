//! The floor of writing: one pipeline, packets made beforehand.
use super::{BLOCK_BYTES, CHUNK, Inbox, PACKET_DATA, limit, words};
use crate::api::{Out, Result};
use dfs::datanode::peer;
use dfs::namenode::NameNode;
use dfs::proto::hdfs;
use dfs::proto::hdfs::op_write_block_proto::BlockConstructionStage;
use dfs::sys::socket::Socket;
use dfs::wire::packet::{self, MAX_HEADER_LEN, PacketHeader};
use dfs::wire::transfer::{Op, encode_op};
use std::io::IoSlice;
use std::sync::Arc;
use std::time::Duration;

/// Hadoop's limit of packets without ack.
const WINDOW: usize = 80;

struct Block {
    id: hdfs::ExtendedBlockProto,
    nodes: usize,
    socket: Socket,
    acks: Inbox,
    seqno: i64,
    /// Block offset behind the last byte sent.
    sent: usize,
    unacked: usize,
}

/// A file whose every byte is 0, whatever is written.
pub(super) struct FloorOut {
    namenode: Arc<NameNode>,
    path: String,
    file_id: u64,
    data: Vec<u8>,
    /// Sums of the full chunks of a packet.
    sums: Vec<u8>,
    /// Sum of the first `i` bytes of a chunk.
    partial: Vec<[u8; 4]>,
    block: Option<Block>,
    previous: Option<hdfs::ExtendedBlockProto>,
    pending: usize,
}

impl FloorOut {
    pub(super) fn new(namenode: Arc<NameNode>, path: &str, file_id: u64) -> FloorOut {
        let data = vec![0; PACKET_DATA];
        let mut sums = vec![0; PACKET_DATA / CHUNK * 4];
        let crc = dfs::checksum::ChecksumType::Crc32c;
        dfs::checksum::sum_chunks(crc, CHUNK, &data, &mut sums);
        let partial = (0..CHUNK)
            .map(|n| dfs::checksum::update(crc, 0, data.get(..n).unwrap_or_default()).to_be_bytes())
            .collect();
        let path = path.to_owned();
        let (block, previous) = (None, None);
        FloorOut { namenode, path, file_id, data, sums, partial, block, previous, pending: 0 }
    }

    /// The current block, allocated and connected.
    fn block(&mut self) -> Result<&mut Block> {
        if self.block.is_none() {
            self.block = Some(self.allocate()?);
        }
        self.block.as_mut().ok_or_else(|| "no block".to_owned())
    }

    fn allocate(&self) -> Result<Block> {
        let previous = self.previous.as_ref();
        let mut tries = 0;
        let located = loop {
            let answer =
                self.namenode.add_block(&self.path, previous, &[], self.file_id, &[], &[], limit());
            match answer {
                Ok(located) => break located,
                Err(e) if e.status() == dfs::error::Status::NotReplicated && tries < 1000 => {
                    tries += 1;
                    std::thread::sleep(Duration::from_millis(1));
                }
                Err(e) => return Err(words(e)),
            }
        };
        let first = located.locs.first().ok_or("the NameNode named no DataNode")?;
        let config = self.namenode.config();
        let socket = peer::connect(&first.id, config, limit()).map_err(words)?.socket;
        let request = request(&located, self.namenode.client_name());
        let mut bytes = Vec::new();
        encode_op(Op::WriteBlock, &request, &mut bytes);
        socket.send_all(&mut [IoSlice::new(&bytes)], limit()).map_err(words)?;
        let mut acks = Inbox::new(4096);
        acks.response(&socket)?;
        let (id, nodes) = (located.b, located.locs.len());
        Ok(Block { id, nodes, socket, acks, seqno: 0, sent: 0, unacked: 0 })
    }

    /// Sends one packet that ends `fresh` bytes further; fewer than a packet's worth.
    fn send(&mut self, fresh: usize, last: bool) -> Result<()> {
        self.block()?;
        let FloorOut { block, data, sums, partial, .. } = self;
        let block = block.as_mut().ok_or("no block")?;
        while block.unacked >= WINDOW {
            block.take_ack()?;
        }
        let carry = if fresh == 0 { 0 } else { block.sent % CHUNK };
        let (len, end) = (carry + fresh, block.sent + fresh);
        let header = PacketHeader {
            offset_in_block: (block.sent - carry) as i64,
            seqno: block.seqno,
            last,
            data_len: len as i32,
            sync: false,
        };
        let (full, rest) = (len / CHUNK * 4, len % CHUNK);
        let tail: &[u8] = match rest {
            0 => &[],
            n => partial.get(n).map_or(&[], |sum| sum.as_slice()),
        };
        let mut bytes = [0; MAX_HEADER_LEN];
        let start = packet::encode_header(&mut bytes, &header, full + tail.len());
        let mut parts = [
            IoSlice::new(bytes.get(start..).unwrap_or_default()),
            IoSlice::new(sums.get(..full).unwrap_or_default()),
            IoSlice::new(tail),
            IoSlice::new(data.get(..len).ok_or("a packet is too long")?),
        ];
        block.socket.send_all(&mut parts, limit()).map_err(words)?;
        block.seqno += 1;
        block.unacked += 1;
        block.sent = end;
        Ok(())
    }

    fn end_block(&mut self) -> Result<()> {
        self.send(0, true)?;
        if let Some(mut block) = self.block.take() {
            block.take_all_acks()?;
            let mut id = block.id;
            id.num_bytes = Some(block.sent as u64);
            self.previous = Some(id);
        }
        Ok(())
    }

    /// Sends full packets, and with `all` the rest too.
    fn push(&mut self, all: bool) -> Result<()> {
        while self.pending >= PACKET_DATA || (all && self.pending > 0) {
            let block = self.block()?;
            let left = BLOCK_BYTES as usize - block.sent;
            let room = PACKET_DATA - block.sent % CHUNK;
            let fresh = self.pending.min(room).min(left);
            self.send(fresh, false)?;
            self.pending -= fresh;
            if fresh == left {
                self.end_block()?;
            }
        }
        Ok(())
    }
}

impl Block {
    fn take_ack(&mut self) -> Result<()> {
        let ack = packet::decode_ack(self.acks.message(&self.socket)?).map_err(words)?;
        if ack.count != self.nodes || (0..ack.count).any(|i| ack.status(i) != 0) {
            return Err(format!("a packet failed: {ack:?}"));
        }
        self.unacked -= 1;
        Ok(())
    }

    fn take_all_acks(&mut self) -> Result<()> {
        while self.unacked > 0 {
            self.take_ack()?;
        }
        Ok(())
    }
}

impl Out for FloorOut {
    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.pending += bytes.len();
        self.push(false)
    }

    fn hflush(&mut self) -> Result<()> {
        self.push(true)?;
        self.block.as_mut().map_or(Ok(()), Block::take_all_acks)
    }

    fn close(&mut self) -> Result<()> {
        self.push(true)?;
        if self.block.is_some() {
            self.end_block()?;
        }
        for _ in 0..1000 {
            let last = self.previous.as_ref();
            if self.namenode.complete(&self.path, last, self.file_id, limit()).map_err(words)? {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Err(format!("{} was not completed", self.path))
    }
}

fn request(located: &hdfs::LocatedBlockProto, client_name: &str) -> hdfs::OpWriteBlockProto {
    let disk = hdfs::StorageTypeProto::Disk as i32;
    let types = |i: usize| located.storage_types.get(i).copied().unwrap_or(disk);
    let nodes = located.locs.len();
    hdfs::OpWriteBlockProto {
        header: hdfs::ClientOperationHeaderProto {
            base_header: hdfs::BaseHeaderProto {
                block: located.b.clone(),
                token: Some(located.block_token.clone()),
                trace_info: None,
            },
            client_name: client_name.to_owned(),
        },
        targets: located.locs.iter().skip(1).cloned().collect(),
        source: None,
        stage: BlockConstructionStage::PipelineSetupCreate as i32,
        pipeline_size: nodes as u32,
        min_bytes_rcvd: 0,
        max_bytes_rcvd: 0,
        latest_generation_stamp: 0,
        requested_checksum: hdfs::ChecksumProto {
            r#type: dfs::checksum::ChecksumType::Crc32c.id() as i32,
            bytes_per_checksum: CHUNK as u32,
        },
        caching_strategy: Some(hdfs::CachingStrategyProto { drop_behind: None, readahead: None }),
        storage_type: Some(types(0)),
        target_storage_types: (1..nodes).map(types).collect(),
        allow_lazy_persist: Some(false),
        pinning: Some(false),
        target_pinnings: vec![false; nodes.saturating_sub(1)],
        storage_id: located.storage_i_ds.first().cloned(),
        target_storage_ids: located.storage_i_ds.iter().skip(1).cloned().collect(),
    }
}
