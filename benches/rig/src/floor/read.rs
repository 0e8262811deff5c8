//! The floor of reading: requests, packets received and passed over, nothing verified or copied.
use super::{Inbox, limit, words};
use crate::api::{In, Result};
use dfs::datanode::peer;
use dfs::namenode::NameNode;
use dfs::proto::hdfs;
use dfs::sys::socket::Socket;
use dfs::wire::packet::{self, PREFIX_LEN};
use dfs::wire::transfer::{encode_read_block, read_block_header};
use prost::Message;
use std::io::IoSlice;
use std::sync::{Arc, Mutex, PoisonError};

/// Holds any packet that a DataNode sends, and many of the usual ones.
const BUFFER_BYTES: usize = 256 * 1024;
const PACKET_MAX: usize = 16 << 20;

struct Conn {
    server: String,
    socket: Socket,
    inbox: Inbox,
}

/// An operation under way.
struct Operation {
    conn: Conn,
    /// Bytes of the current packet's data that were not passed over yet.
    packet_left: usize,
    /// Bytes to pass over in all.
    left: u64,
}

pub(super) struct FloorIn {
    namenode: Arc<NameNode>,
    blocks: Vec<(hdfs::LocatedBlockProto, Vec<u8>)>,
    len: u64,
    idle: Mutex<Vec<Conn>>,
    cursor: Mutex<(u64, Option<Operation>)>,
}

impl FloorIn {
    pub(super) fn open(namenode: Arc<NameNode>, path: &str) -> Result<FloorIn> {
        let all = u64::MAX >> 1;
        let located = namenode.get_block_locations(path, 0, all, limit()).map_err(words)?;
        let name = namenode.client_name();
        let blocks = located
            .blocks
            .into_iter()
            .map(|block| {
                let header = read_block_header(&block.b, &block.block_token, name);
                (block, header)
            })
            .collect();
        let (idle, cursor) = (Mutex::default(), Mutex::new((0, None)));
        Ok(FloorIn { namenode, blocks, len: located.file_length, idle, cursor })
    }

    /// Starts reading up to `wanted` bytes from `offset`, but not over the block's end.
    fn start(&self, offset: u64, wanted: u64) -> Result<Operation> {
        let holds = |b: &hdfs::LocatedBlockProto| b.offset..b.offset + b.b.num_bytes();
        let found = self.blocks.iter().find(|(block, _)| holds(block).contains(&offset));
        let (block, header) = found.ok_or_else(|| format!("no block at {offset}"))?;
        let len = wanted.min(holds(block).end - offset);
        let node = block.locs.first().ok_or("a block has no DataNode")?;
        let mut conn = self.connection(&node.id)?;
        let mut request = [0; 1024];
        let n =
            encode_read_block(&mut request, header, offset - block.offset, len, true, None, None);
        let request = n.and_then(|n| request.get(..n)).ok_or("a request is too long")?;
        conn.socket.send_all(&mut [IoSlice::new(request)], limit()).map_err(words)?;
        conn.inbox.response(&conn.socket)?;
        Ok(Operation { conn, packet_left: 0, left: len })
    }

    fn connection(&self, id: &hdfs::DatanodeIdProto) -> Result<Conn> {
        let server = peer::ip_port(id);
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(i) = idle.iter().position(|c| c.server == server) {
            return Ok(idle.swap_remove(i));
        }
        drop(idle);
        let socket = peer::connect(id, self.namenode.config(), limit()).map_err(words)?.socket;
        Ok(Conn { server, socket, inbox: Inbox::new(BUFFER_BYTES) })
    }

    fn end(&self, mut operation: Operation) -> Result<()> {
        operation.finish()?;
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.push(operation.conn);
        Ok(())
    }
}

impl Operation {
    /// Passes over up to `wanted` bytes.
    fn pass(&mut self, wanted: usize) -> Result<usize> {
        if self.packet_left == 0 {
            self.packet_left = self.next_packet()?;
        }
        let Conn { socket, inbox, .. } = &mut self.conn;
        inbox.need(socket, 1)?;
        let n = wanted.min(self.packet_left).min(inbox.bytes().len());
        inbox.start += n;
        self.packet_left -= n;
        // The DataNode sends whole chunks, so the last packet may hold more than was asked for.
        self.left = self.left.saturating_sub(n as u64);
        Ok(n)
    }

    /// Takes header and checksums of the next packet; returns its data bytes.
    fn next_packet(&mut self) -> Result<usize> {
        let Conn { socket, inbox, .. } = &mut self.conn;
        inbox.need(socket, PREFIX_LEN)?;
        let mut prefix = [0; PREFIX_LEN];
        prefix.copy_from_slice(inbox.bytes().get(..PREFIX_LEN).unwrap_or_default());
        let (body, header_len) = packet::decode_prefix(prefix, PACKET_MAX).map_err(words)?;
        inbox.need(socket, PREFIX_LEN + header_len)?;
        let header = inbox.bytes().get(PREFIX_LEN..PREFIX_LEN + header_len).unwrap_or_default();
        let data = packet::decode_header(header).map_err(words)?.data_len as usize;
        let sums = body.checked_sub(data).ok_or("a packet is shorter than its data")?;
        let skip = PREFIX_LEN + header_len + sums;
        inbox.need(socket, skip)?;
        inbox.start += skip;
        Ok(data)
    }

    /// Passes over what is left (a DataNode sends whole chunks, so it may be more than was asked
    /// for), takes the empty last packet and says that all is well.
    fn finish(&mut self) -> Result<()> {
        loop {
            while self.packet_left > 0 {
                self.pass(usize::MAX)?;
            }
            self.packet_left = self.next_packet()?;
            if self.packet_left == 0 {
                break;
            }
        }
        let status = hdfs::ClientReadStatusProto { status: hdfs::Status::ChecksumOk as i32 };
        let bytes = status.encode_length_delimited_to_vec();
        self.conn.socket.send_all(&mut [IoSlice::new(&bytes)], limit()).map_err(words)
    }
}

impl In for FloorIn {
    fn len(&self) -> u64 {
        self.len
    }

    fn read(&self, buf: &mut [u8]) -> Result<usize> {
        let mut cursor = self.cursor.lock().unwrap_or_else(PoisonError::into_inner);
        let (at, operation) = &mut *cursor;
        let mut done = 0;
        while done < buf.len() && *at < self.len {
            if operation.is_none() {
                *operation = Some(self.start(*at, u64::MAX)?);
            }
            let Some(running) = operation.as_mut() else { break };
            let room = (buf.len() - done).min(usize::try_from(running.left).unwrap_or(usize::MAX));
            let n = running.pass(room)?;
            done += n;
            *at += n as u64;
            if running.left == 0
                && let Some(ended) = operation.take()
            {
                self.end(ended)?;
            }
        }
        Ok(done)
    }

    fn pread(&self, offset: u64, buf: &mut [u8]) -> Result<()> {
        let mut done = 0;
        while done < buf.len() as u64 {
            let operation = self.start(offset + done, buf.len() as u64 - done)?;
            done += operation.left;
            self.end(operation)?;
        }
        Ok(())
    }
}
