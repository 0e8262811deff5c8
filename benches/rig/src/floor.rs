//! The floor: the same requests, packets and acks as a real client on real servers, but the data
//! and its checksums are made beforehand, nothing is copied, kept for recovery or verified. No
//! client can be faster by much; what libdfs takes beyond this is its own.
mod read;
mod write;

use crate::api::{Fs, In, Log, Out, Result};
use dfs::conf::Config;
use dfs::namenode::NameNode;
use dfs::proto::hdfs;
use dfs::sys::socket::Socket;
use dfs::time::Deadline;
use prost::Message;
use std::io::IoSliceMut;
use std::sync::Arc;

const CHUNK: usize = 512;
/// Data bytes of a full packet: what Hadoop puts into its 64 KiB.
const PACKET_DATA: usize = 126 * CHUNK;
const BLOCK_BYTES: u64 = 128 << 20;

fn limit() -> Deadline {
    Deadline::after_ms(120_000)
}

fn words(error: impl std::fmt::Display) -> String {
    error.to_string()
}

struct Floor(Arc<NameNode>);

/// Connects to the NameNode.
pub(crate) fn connect(uri: &str, settings: &[(String, String)]) -> Result<Box<dyn Fs>> {
    let mut config = Config::new();
    for (key, value) in settings {
        config.set(key, value);
    }
    let authority = uri.strip_prefix("hdfs://").ok_or_else(|| format!("{uri} is not hdfs://"))?;
    let service = config.name_service(authority).map_err(words)?;
    let frozen = Arc::new(config.freeze(Some(authority)).map_err(words)?);
    let name = format!("DFSClient_floor_{}", std::process::id());
    let namenode = NameNode::new(service, frozen, name).map_err(words)?;
    namenode.get_server_defaults(limit()).map_err(words)?;
    Ok(Box::new(Floor(Arc::new(namenode))))
}

impl Fs for Floor {
    fn create(&self, path: &str, replication: u32) -> Result<Box<dyn Out>> {
        let request = hdfs::CreateRequestProto {
            src: path.to_owned(),
            masked: hdfs::FsPermissionProto { perm: 0o644 },
            client_name: String::new(),
            create_flag: hdfs::CreateFlagProto::Create as u32
                | hdfs::CreateFlagProto::Overwrite as u32,
            create_parent: true,
            replication,
            block_size: BLOCK_BYTES,
            crypto_protocol_version: Vec::new(),
            unmasked: None,
            ec_policy_name: None,
            storage_policy: None,
        };
        let status = self.0.create(request, limit()).map_err(words)?;
        let file_id = status.file_id.ok_or("the NameNode gave no file id")?;
        Ok(Box::new(write::FloorOut::new(Arc::clone(&self.0), path, file_id)))
    }

    fn create_log(&self, _: &str, _: u32, _: u64, _: bool) -> Result<Box<dyn Log>> {
        Err("the floor program writes no shared logs".to_owned())
    }

    fn open(&self, path: &str) -> Result<Box<dyn In>> {
        Ok(Box::new(read::FloorIn::open(Arc::clone(&self.0), path)?))
    }
}

/// Bytes received and not used yet.
struct Inbox {
    buffer: Vec<u8>,
    start: usize,
    end: usize,
}

impl Inbox {
    fn new(bytes: usize) -> Inbox {
        Inbox { buffer: vec![0; bytes], start: 0, end: 0 }
    }

    fn bytes(&self) -> &[u8] {
        self.buffer.get(self.start..self.end).unwrap_or_default()
    }

    /// Makes at least `n` bytes available; `n` is below the buffer's length.
    fn need(&mut self, socket: &Socket, n: usize) -> Result<()> {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        } else if self.start + n > self.buffer.len() {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        if n > self.buffer.len() {
            return Err(format!("{n} bytes are more than the floor's buffer holds"));
        }
        while self.end - self.start < n {
            let free = self.buffer.get_mut(self.end..).unwrap_or_default();
            match socket.recv(&mut [IoSliceMut::new(free)], limit()).map_err(words)? {
                0 => return Err("the DataNode closed the connection".to_owned()),
                got => self.end += got,
            }
        }
        Ok(())
    }

    /// Takes one delimited message.
    fn message(&mut self, socket: &Socket) -> Result<&[u8]> {
        self.need(socket, 1)?;
        // Acks and responses of the measured path are shorter than 128 bytes, but a response to a
        // set-up need not be.
        let (mut len, mut prefix, mut shift) = (0_usize, 0, 0);
        loop {
            self.need(socket, prefix + 1)?;
            let byte = self.bytes().get(prefix).copied().unwrap_or_default();
            len |= usize::from(byte & 0x7f) << shift;
            (prefix, shift) = (prefix + 1, shift + 7);
            if byte & 0x80 == 0 {
                break;
            }
            if shift > 21 {
                return Err("a message claims an impossible length".to_owned());
            }
        }
        self.need(socket, prefix + len)?;
        let from = self.start + prefix;
        self.start = from + len;
        Ok(self.buffer.get(from..from + len).unwrap_or_default())
    }

    /// Takes the answer to an operation's request.
    fn response(&mut self, socket: &Socket) -> Result<()> {
        let bytes = self.message(socket)?;
        let response = hdfs::BlockOpResponseProto::decode(bytes).map_err(words)?;
        dfs::wire::transfer::check_response(&response).map_err(words)
    }
}
