//! A scripted DataNode and a scripted NameNode.
use crate::buf::BufferPool;
use crate::checksum::{self, ChecksumType};
use crate::conf::{ClientConfig, Config};
use crate::datanode::peer_cache::PeerCache;
use crate::error::{Error, Result, Status};
use crate::proto::hdfs::hdfs_file_status_proto::FileType;
use crate::proto::hdfs::{
    BlockOpResponseProto, ChecksumProto, DatanodeIdProto, ExtendedBlockProto, HdfsFileStatusProto,
    LocatedBlockProto, LocatedBlocksProto, OpReadBlockProto, ReadOpChecksumInfoProto,
    Status as DnStatus,
};
use crate::read::located::tests::located;
use crate::read::{InputStream, Locations, ReadContext, ReadOptions};
use crate::time::Deadline;
use crate::wire::packet::{MAX_HEADER_LEN, PacketHeader, encode_header};
use prost::Message;
use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What goes wrong in an operation. Packet k is the one that holds byte k * `packet_bytes` of the
/// block, or begins behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    None,
    /// One bit of the last chunk of packet k is flipped.
    BadChunk(usize),
    /// The same, in the checksum.
    BadSum(usize),
    /// The connection is closed before packet k.
    CloseAt(usize),
    /// The connection is closed in the middle of packet k's data.
    CloseInside(usize),
    /// Nothing comes from packet k on.
    StallAt(usize),
    /// The trailer comes instead of packet k.
    EarlyLast(usize),
    /// Packet k says that it lies one packet further.
    WrongOffset(usize),
    /// Packet k is sent twice.
    Repeat(usize),
    /// Packet k is left out, with consecutive numbers.
    Omit(usize),
    /// The data length in packet k's header is larger than the body.
    LongData(usize),
    /// One more packet follows the last one.
    Extra,
    /// The response has this status and a message.
    Refuse(DnStatus),
    /// The response claims chunks of this size.
    ChunkSize(u32),
    /// The connection is closed instead of a response.
    CloseAtOnce,
    /// The trailer never comes.
    NoTrailer,
    /// The response is an HTTP error.
    Http,
    /// This bit of this byte of all that is sent is flipped.
    Flip(usize, u8),
}

/// One READ_BLOCK request as it came.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub(super) request: OpReadBlockProto,
}

pub(super) struct Script {
    /// Data of each block by id.
    pub(super) blocks: HashMap<u64, Vec<u8>>,
    /// The fault, and how many operations it hits.
    pub(super) fault: (Fault, usize),
    pub(super) packet_bytes: usize,
    pub(super) chunk: usize,
    pub(super) checksum: ChecksumType,
    /// Close the connection after so many operations.
    pub(super) ops_per_connection: usize,
    /// Send so many bytes at a time.
    pub(super) piece_bytes: usize,
    /// Wait before each answer.
    pub(super) delay: Duration,
}

pub(super) struct DataNode {
    pub(super) addr: String,
    pub(super) script: Arc<Mutex<Script>>,
    pub(super) seen: Arc<Mutex<Vec<Seen>>>,
    /// Read statuses as they came.
    pub(super) statuses: Arc<Mutex<Vec<u8>>>,
    /// Connections that were accepted.
    pub(super) connections: Arc<AtomicUsize>,
}

impl DataNode {
    pub(super) fn start(blocks: &[(u64, Vec<u8>)]) -> DataNode {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let script = Script {
            blocks: blocks.iter().cloned().collect(),
            fault: (Fault::None, 0),
            packet_bytes: 64 << 10,
            chunk: 512,
            checksum: ChecksumType::Crc32c,
            ops_per_connection: usize::MAX,
            piece_bytes: usize::MAX,
            delay: Duration::ZERO,
        };
        let node = DataNode {
            addr: listener.local_addr().unwrap().to_string(),
            script: Arc::new(Mutex::new(script)),
            seen: Arc::default(),
            statuses: Arc::default(),
            connections: Arc::default(),
        };
        let (script, seen) = (Arc::clone(&node.script), Arc::clone(&node.seen));
        let (statuses, connections) = (Arc::clone(&node.statuses), Arc::clone(&node.connections));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(stream) = stream else { return };
                connections.fetch_add(1, Ordering::SeqCst);
                let (script, seen) = (Arc::clone(&script), Arc::clone(&seen));
                let statuses = Arc::clone(&statuses);
                std::thread::spawn(move || serve(stream, &script, &seen, &statuses));
            }
        });
        node
    }

    pub(super) fn fail(&self, fault: Fault, times: usize) {
        self.script.lock().unwrap().fault = (fault, times);
    }

    pub(super) fn requests(&self) -> usize {
        self.seen.lock().unwrap().len()
    }

    pub(super) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    /// The read statuses, once there are `count` of them.
    pub(super) fn wait_statuses(&self, count: usize) -> Vec<u8> {
        for _ in 0..500 {
            if self.statuses.lock().unwrap().len() >= count {
                break;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        self.statuses.lock().unwrap().clone()
    }
}

fn read_varint(stream: &mut TcpStream) -> Option<usize> {
    let mut value = 0;
    for shift in 0..5 {
        let mut byte = [0];
        stream.read_exact(&mut byte).ok()?;
        value |= usize::from(byte[0] & 0x7f) << (7 * shift);
        if byte[0] < 0x80 {
            return Some(value);
        }
    }
    None
}

fn serve(
    mut stream: TcpStream,
    script: &Mutex<Script>,
    seen: &Mutex<Vec<Seen>>,
    statuses: &Mutex<Vec<u8>>,
) {
    stream.set_nodelay(true).unwrap();
    let mut ops = 0;
    loop {
        let mut head = [0; 3];
        if stream.read_exact(&mut head).is_err() {
            return;
        }
        assert_eq!(head, [0, 28, 81]);
        let len = read_varint(&mut stream).unwrap();
        let mut message = vec![0; len];
        stream.read_exact(&mut message).unwrap();
        let request = OpReadBlockProto::decode(&message[..]).unwrap();
        seen.lock().unwrap().push(Seen { request: request.clone() });
        let (fault, reply, last_op, piece, delay) = {
            let mut script = script.lock().unwrap();
            let fault = if script.fault.1 > 0 { script.fault.0 } else { Fault::None };
            script.fault.1 = script.fault.1.saturating_sub(1);
            ops += 1;
            let last_op = ops >= script.ops_per_connection;
            let reply = reply(&script, &request, fault);
            (fault, reply, last_op, script.piece_bytes, script.delay)
        };
        std::thread::sleep(delay);
        for piece in reply.chunks(piece) {
            if stream.write_all(piece).is_err() {
                return;
            }
            if piece.len() < reply.len() {
                std::thread::yield_now();
            }
        }
        match fault {
            Fault::StallAt(_) | Fault::NoTrailer => {
                // Until the client gives up.
                let _ = stream.read(&mut [0; 64]);
                return;
            }
            Fault::CloseAt(_)
            | Fault::CloseInside(_)
            | Fault::CloseAtOnce
            | Fault::Refuse(_)
            | Fault::Http => return,
            // A reader that was made to wait for more shall not wait long.
            Fault::Flip(..) => stream.shutdown(std::net::Shutdown::Write).unwrap_or(()),
            _ => {}
        }
        let mut status = [0; 3];
        if stream.read_exact(&mut status).is_err() {
            return;
        }
        assert_eq!(status[..2], [2, 8]);
        statuses.lock().unwrap().push(status[2]);
        if last_op {
            return;
        }
    }
}

fn packet(
    out: &mut Vec<u8>,
    script: &Script,
    offset: usize,
    seqno: i64,
    data: &[u8],
    body_less: usize,
) -> (usize, usize) {
    let with_sums = script.checksum != ChecksumType::Null;
    let sums_len = if with_sums { data.len().div_ceil(script.chunk) * 4 } else { 0 };
    let header = PacketHeader {
        offset_in_block: offset as i64,
        seqno,
        last: data.is_empty(),
        data_len: data.len() as i32,
        sync: false,
    };
    let mut bytes = [0; MAX_HEADER_LEN];
    let start = encode_header(&mut bytes, &header, sums_len - body_less.min(sums_len));
    out.extend_from_slice(&bytes[start..]);
    let sums_at = out.len();
    out.resize(sums_at + sums_len, 0);
    checksum::sum_chunks(script.checksum, script.chunk, data, &mut out[sums_at..]);
    let data_at = out.len();
    out.extend_from_slice(data);
    (sums_at, data_at)
}

fn delimited(response: &BlockOpResponseProto) -> Vec<u8> {
    response.encode_length_delimited_to_vec()
}

/// All bytes that the DataNode sends for a request.
fn reply(script: &Script, request: &OpReadBlockProto, fault: Fault) -> Vec<u8> {
    let mut out = right_or_wrong_reply(script, request, fault);
    if let Fault::Flip(byte, bit) = fault
        && let Some(byte) = out.get_mut(byte)
    {
        *byte ^= 1 << bit;
    }
    out
}

fn right_or_wrong_reply(script: &Script, request: &OpReadBlockProto, fault: Fault) -> Vec<u8> {
    match fault {
        Fault::CloseAtOnce => return Vec::new(),
        Fault::Http => return b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(),
        Fault::Refuse(status) => {
            return delimited(&BlockOpResponseProto {
                status: status as i32,
                message: Some("refused by script".into()),
                ..Default::default()
            });
        }
        _ => {}
    }
    let id = request.header.base_header.block.block_id;
    let data = script.blocks.get(&id).map_or(&[][..], |d| &d[..]);
    let (from, len) = (request.offset as usize, request.len as usize);
    if from + len > data.len() {
        return delimited(&BlockOpResponseProto {
            status: DnStatus::Error as i32,
            message: Some(format!(
                "Offset {from} and length {len} don't match block {id} ( blockLen {} )",
                data.len()
            )),
            ..Default::default()
        });
    }
    let mut plain = None;
    let script = if request.send_checksums() {
        script
    } else {
        plain.insert(Script {
            blocks: HashMap::new(),
            fault: script.fault,
            packet_bytes: script.packet_bytes,
            chunk: 512,
            checksum: ChecksumType::Null,
            ops_per_connection: 0,
            piece_bytes: usize::MAX,
            delay: Duration::ZERO,
        })
    };
    let start = from - from % script.chunk;
    let end = (from + len).div_ceil(script.chunk) * script.chunk;
    let end = end.min(data.len());
    let chunk = match fault {
        Fault::ChunkSize(n) => n,
        _ => script.chunk as u32,
    };
    let mut out = delimited(&BlockOpResponseProto {
        status: DnStatus::Success as i32,
        read_op_checksum_info: Some(ReadOpChecksumInfoProto {
            checksum: ChecksumProto {
                r#type: script.checksum.id() as i32,
                bytes_per_checksum: chunk,
            },
            chunk_offset: start as u64,
        }),
        ..Default::default()
    });
    let (mut at, mut seqno) = (start, 0);
    while at < end {
        let n = script.packet_bytes.min(end - at);
        let k = at / script.packet_bytes;
        let data = &data[at..at + n];
        match fault {
            Fault::CloseAt(i) | Fault::StallAt(i) if i == k => return out,
            Fault::EarlyLast(i) if i == k => break,
            Fault::Omit(i) if i == k => {
                at += n;
                continue;
            }
            _ => {}
        }
        let said = if fault == Fault::WrongOffset(k) { at + n } else { at };
        let less = if fault == Fault::LongData(k) { 4 } else { 0 };
        let (sums_at, data_at) = packet(&mut out, script, said, seqno, data, less);
        seqno += 1;
        match fault {
            Fault::BadChunk(i) if i == k => out[data_at + n - 1] ^= 4,
            Fault::BadSum(i) if i == k => out[sums_at] ^= 4,
            Fault::CloseInside(i) if i == k => {
                out.truncate(data_at + n / 2);
                return out;
            }
            Fault::Repeat(i) if i == k => {
                packet(&mut out, script, at, seqno - 1, data, 0);
            }
            _ => {}
        }
        at += n;
    }
    if fault == Fault::Extra {
        packet(&mut out, script, at, seqno, &[7; 512], 0);
        seqno += 1;
    }
    if fault != Fault::NoTrailer {
        packet(&mut out, script, at, seqno, &[], 0);
    }
    out
}

/// A NameNode that knows one file.
pub(super) struct Names {
    pub(super) answer: Mutex<Result<LocatedBlocksProto>>,
    /// Answers that come before `answer`, first one first.
    pub(super) earlier: Mutex<Vec<Result<LocatedBlocksProto>>>,
    pub(super) info: Mutex<Option<HdfsFileStatusProto>>,
    pub(super) reports: Mutex<Vec<LocatedBlockProto>>,
    pub(super) calls: AtomicUsize,
    /// Answer of a DataNode (by its address) about the length of its replica.
    pub(super) lengths: Mutex<HashMap<String, Vec<Result<u64>>>>,
    /// Send only the blocks of the range that was asked for.
    pub(super) by_range: bool,
}

impl Locations for Names {
    fn client_name(&self) -> &str {
        "DFSClient_test"
    }

    fn get_file_info(&self, _src: &str, _d: Deadline) -> Result<Option<HdfsFileStatusProto>> {
        Ok(self.info.lock().unwrap().clone())
    }

    fn get_block_locations(
        &self,
        _src: &str,
        offset: u64,
        length: u64,
        _d: Deadline,
    ) -> Result<LocatedBlocksProto> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        let mut earlier = self.earlier.lock().unwrap();
        if !earlier.is_empty() {
            return earlier.remove(0);
        }
        let mut answer = self.answer.lock().unwrap().clone()?;
        if self.by_range {
            let inside = |b: &LocatedBlockProto| {
                b.offset < offset + length && b.offset + b.b.num_bytes() > offset
            };
            answer.blocks.retain(inside);
        }
        Ok(answer)
    }

    fn report_bad_blocks(&self, blocks: Vec<LocatedBlockProto>, _d: Deadline) -> Result<()> {
        self.reports.lock().unwrap().extend(blocks);
        Ok(())
    }

    fn replica_visible_length(
        &self,
        id: &DatanodeIdProto,
        _block: &ExtendedBlockProto,
        _d: Deadline,
    ) -> Result<u64> {
        let mut lengths = self.lengths.lock().unwrap();
        let answers = lengths.get_mut(&id.datanode_uuid);
        match answers {
            Some(list) if list.len() > 1 => list.remove(0),
            Some(list) => list[0].clone(),
            None => Err(Error::new(Status::Connect, "no such DataNode in the script")),
        }
    }
}

impl Names {
    pub(super) fn new(blocks: Vec<LocatedBlockProto>) -> Names {
        let file_length = blocks.iter().map(|b| b.b.num_bytes()).sum();
        let last_block = blocks.last().cloned();
        let answer = LocatedBlocksProto {
            file_length,
            blocks,
            last_block,
            is_last_block_complete: true,
            ..Default::default()
        };
        Names {
            answer: Mutex::new(Ok(answer)),
            earlier: Mutex::default(),
            info: Mutex::default(),
            reports: Mutex::default(),
            calls: AtomicUsize::new(0),
            lengths: Mutex::default(),
            by_range: false,
        }
    }

    pub(super) fn directory() -> HdfsFileStatusProto {
        HdfsFileStatusProto { file_type: FileType::IsDir as i32, ..Default::default() }
    }
}

/// Bytes that differ between any two places of a file.
pub(super) fn pattern(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut out = Vec::with_capacity(len + 8);
    while out.len() < len {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        out.extend_from_slice(&state.to_le_bytes());
    }
    out.truncate(len);
    out
}

/// A file of equal blocks (the last one may be shorter) on some DataNodes, all with all blocks.
pub(super) struct Rig {
    pub(super) nodes: Vec<DataNode>,
    pub(super) names: Arc<Names>,
    pub(super) ctx: Arc<ReadContext>,
    pub(super) data: Vec<u8>,
}

impl Rig {
    pub(super) fn new(len: usize, block: usize, replicas: usize) -> Rig {
        Rig::with(len, block, replicas, |_| {}, |_| {})
    }

    pub(super) fn with(
        len: usize,
        block: usize,
        replicas: usize,
        names: impl FnOnce(&mut Names),
        tune: impl FnOnce(&mut ClientConfig),
    ) -> Rig {
        let data = pattern(len, len as u64);
        let blocks: Vec<(u64, Vec<u8>)> =
            data.chunks(block).enumerate().map(|(i, d)| (i as u64 + 1, d.to_vec())).collect();
        let nodes: Vec<DataNode> = (0..replicas).map(|_| DataNode::start(&blocks)).collect();
        let addrs: Vec<&str> = nodes.iter().map(|n| &*n.addr).collect();
        let place = |(i, (id, d)): (usize, &(u64, Vec<u8>))| {
            located(*id, (i * block) as u64, d.len() as u64, &addrs)
        };
        let mut scripted = Names::new(blocks.iter().enumerate().map(place).collect());
        names(&mut scripted);
        let names = Arc::new(scripted);
        let mut config = config();
        tune(&mut config);
        let config = Arc::new(config);
        let pool = BufferPool::new(64 << 20, Duration::from_secs(1));
        let peers = Arc::new(PeerCache::new(&config));
        let ctx = Arc::new(ReadContext::new(Arc::clone(&names), config, pool, peers));
        Rig { nodes, names, ctx, data }
    }

    pub(super) fn open(&self) -> InputStream {
        self.try_open().unwrap()
    }

    pub(super) fn try_open(&self) -> Result<InputStream> {
        InputStream::open(Arc::clone(&self.ctx), "/f", ReadOptions::default(), limit())
    }

    /// Reads the whole file with `read`, in calls of `step` bytes.
    pub(super) fn read_all(&self, stream: &InputStream, step: usize) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        let mut buf = vec![0; step];
        loop {
            match stream.read(&mut buf, limit())? {
                0 => return Ok(out),
                n => out.extend_from_slice(&buf[..n]),
            }
        }
    }
}

/// A watchdog: far above what any test needs.
pub(super) fn limit() -> Deadline {
    Deadline::after_ms(20_000)
}

/// Hadoop's defaults with short pauses and the NameNode's order.
fn config() -> ClientConfig {
    let mut config = Config::new().freeze(None).unwrap();
    config.socket_timeout_ms = 5000;
    config.socketcache_expiry_ms = 60_000;
    config.retry_window_base_ms = 5;
    config.last_block_length_interval_ms = 5;
    // On a busy machine any node may be slow for a moment; these tests count requests.
    config.order_by_latency = false;
    config
}
