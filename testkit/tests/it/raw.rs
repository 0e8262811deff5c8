//! A raw HDFS client: builds and checks every byte itself.
use std::io::{self, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use dfs::proto::common::rpc_response_header_proto::RpcStatusProto;
use dfs::proto::common::*;
use dfs::proto::hdfs::op_write_block_proto::BlockConstructionStage as Stage;
use dfs::proto::hdfs::*;
use dfs_testkit::minidfs::MiniDfs;
use prost::Message;

pub(crate) const CLIENT_PROTOCOL: &str = "org.apache.hadoop.hdfs.protocol.ClientProtocol";
pub(crate) const DATANODE_PROTOCOL: &str = "org.apache.hadoop.hdfs.protocol.ClientDatanodeProtocol";
static NEXT_CALL: AtomicI32 = AtomicI32::new(0);
static NEXT_CLIENT: AtomicU64 = AtomicU64::new(1);

#[derive(Debug, Clone)]
pub(crate) struct Remote {
    pub(crate) class: String,
    pub(crate) message: String,
    pub(crate) fatal: bool,
    pub(crate) detail: i32,
}

impl Remote {
    pub(crate) fn is(&self, class: &str) -> bool {
        self.class.ends_with(class)
    }
}

pub(crate) fn connect(addr: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(addr).unwrap();
    stream.set_nodelay(true).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream
}

pub(crate) fn rpc_header(call_id: i32, client_id: &[u8], retry: i32) -> RpcRequestHeaderProto {
    RpcRequestHeaderProto {
        rpc_kind: Some(RpcKindProto::RpcProtocolBuffer as i32),
        rpc_op: Some(0),
        call_id,
        client_id: client_id.to_vec(),
        retry_count: Some(retry),
        ..Default::default()
    }
}

pub(crate) fn frame(parts: &[Vec<u8>]) -> Vec<u8> {
    let body: Vec<u8> = parts.concat();
    let mut out = (body.len() as u32).to_be_bytes().to_vec();
    out.extend(body);
    out
}

pub(crate) fn context(user: &str, protocol: &str) -> Vec<u8> {
    let context = IpcConnectionContextProto {
        user_info: Some(UserInformationProto {
            effective_user: Some(user.to_owned()),
            real_user: None,
        }),
        protocol: Some(protocol.to_owned()),
    };
    frame(&[
        rpc_header(-3, &[], -1).encode_length_delimited_to_vec(),
        context.encode_length_delimited_to_vec(),
    ])
}

/// A response frame: header and what follows it.
pub(crate) fn read_response(r: &mut impl Read) -> io::Result<(RpcResponseHeaderProto, Vec<u8>)> {
    let mut len = [0u8; 4];
    r.read_exact(&mut len)?;
    let mut body = vec![0; u32::from_be_bytes(len) as usize];
    r.read_exact(&mut body)?;
    let mut rest = body.as_slice();
    let header = RpcResponseHeaderProto::decode_length_delimited(&mut rest).unwrap();
    Ok((header, rest.to_vec()))
}

pub(crate) struct Rpc {
    pub(crate) stream: TcpStream,
    pub(crate) client_id: Vec<u8>,
    protocol: &'static str,
}

impl Rpc {
    pub(crate) fn new(addr: SocketAddr, protocol: &'static str, user: &str) -> Self {
        let mut stream = connect(addr);
        let mut bytes = b"hrpc\x09\x00\x00".to_vec();
        bytes.extend(context(user, protocol));
        stream.write_all(&bytes).unwrap();
        let id = NEXT_CLIENT.fetch_add(1, Ordering::Relaxed);
        let client_id = [id.to_be_bytes(), [7; 8]].concat();
        Self { stream, client_id, protocol }
    }

    pub(crate) fn send(&mut self, method: &str, req: &impl Message, call_id: i32, retry: i32) {
        let header = RequestHeaderProto {
            method_name: method.to_owned(),
            declaring_class_protocol_name: self.protocol.to_owned(),
            client_protocol_version: 1,
        };
        let bytes = frame(&[
            rpc_header(call_id, &self.client_id, retry).encode_length_delimited_to_vec(),
            header.encode_length_delimited_to_vec(),
            req.encode_length_delimited_to_vec(),
        ]);
        self.stream.write_all(&bytes).unwrap();
    }

    pub(crate) fn receive<R: Message + Default>(&mut self) -> io::Result<(i32, Result<R, Remote>)> {
        let (header, body) = read_response(&mut self.stream)?;
        let call_id = header.call_id as i32;
        if header.status() == RpcStatusProto::Success {
            let mut rest = body.as_slice();
            let message = R::decode_length_delimited(&mut rest).unwrap();
            assert!(rest.is_empty(), "bytes behind the answer");
            return Ok((call_id, Ok(message)));
        }
        assert!(body.is_empty());
        Ok((
            call_id,
            Err(Remote {
                class: header.exception_class_name().to_owned(),
                message: header.error_msg().to_owned(),
                fatal: header.status() == RpcStatusProto::Fatal,
                detail: header.error_detail() as i32,
            }),
        ))
    }

    pub(crate) fn call_id() -> i32 {
        NEXT_CALL.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn call<R: Message + Default>(
        &mut self,
        method: &str,
        req: &impl Message,
    ) -> Result<R, Remote> {
        let id = Self::call_id();
        self.send(method, req, id, 0);
        let (answered, result) = self.receive().unwrap();
        assert_eq!(answered, id);
        result
    }
}

/// A client with a name, on the NameNode with this index.
pub(crate) struct Client {
    pub(crate) rpc: Rpc,
    pub(crate) name: String,
}

impl Client {
    pub(crate) fn new(cluster: &MiniDfs) -> Self {
        Self::on(cluster, 0, "tester")
    }

    pub(crate) fn on(cluster: &MiniDfs, namenode: usize, user: &str) -> Self {
        let addr = cluster.namenode_addr(namenode).unwrap();
        let rpc = Rpc::new(addr, CLIENT_PROTOCOL, user);
        let name =
            format!("DFSClient_NONMAPREDUCE_{}_1", NEXT_CLIENT.fetch_add(1, Ordering::Relaxed));
        Self { rpc, name }
    }

    pub(crate) fn create_request(
        &self,
        src: &str,
        replication: u32,
        block_size: u64,
    ) -> CreateRequestProto {
        CreateRequestProto {
            src: src.to_owned(),
            masked: FsPermissionProto { perm: 0o644 },
            client_name: self.name.clone(),
            create_flag: 1,
            create_parent: true,
            replication,
            block_size,
            ..Default::default()
        }
    }

    pub(crate) fn create(&mut self, src: &str, replication: u32, block_size: u64) -> u64 {
        let req = self.create_request(src, replication, block_size);
        let answer: CreateResponseProto = self.rpc.call("create", &req).unwrap();
        answer.fs.unwrap().file_id()
    }

    pub(crate) fn try_add_block(
        &mut self,
        src: &str,
        file_id: u64,
        previous: Option<&ExtendedBlockProto>,
        exclude: &[DatanodeInfoProto],
    ) -> Result<LocatedBlockProto, Remote> {
        let req = AddBlockRequestProto {
            src: src.to_owned(),
            client_name: self.name.clone(),
            previous: previous.cloned(),
            exclude_nodes: exclude.to_vec(),
            file_id: Some(file_id),
            ..Default::default()
        };
        self.rpc.call::<AddBlockResponseProto>("addBlock", &req).map(|a| a.block)
    }

    pub(crate) fn add_block(
        &mut self,
        src: &str,
        file_id: u64,
        previous: Option<&ExtendedBlockProto>,
    ) -> LocatedBlockProto {
        self.try_add_block(src, file_id, previous, &[]).unwrap()
    }

    pub(crate) fn try_complete(
        &mut self,
        src: &str,
        file_id: u64,
        last: Option<&ExtendedBlockProto>,
    ) -> Result<bool, Remote> {
        let req = CompleteRequestProto {
            src: src.to_owned(),
            client_name: self.name.clone(),
            last: last.cloned(),
            file_id: Some(file_id),
        };
        self.rpc.call::<CompleteResponseProto>("complete", &req).map(|a| a.result)
    }

    /// Repeats until the answer is true, as writers do.
    pub(crate) fn complete(&mut self, src: &str, file_id: u64, last: Option<&ExtendedBlockProto>) {
        let deadline = Instant::now() + Duration::from_secs(10);
        while !self.try_complete(src, file_id, last).unwrap() {
            assert!(Instant::now() < deadline, "complete of {src} stays false");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    pub(crate) fn locations(&mut self, src: &str) -> LocatedBlocksProto {
        let req = GetBlockLocationsRequestProto {
            src: src.to_owned(),
            offset: 0,
            length: i64::MAX as u64,
        };
        let answer: GetBlockLocationsResponseProto =
            self.rpc.call("getBlockLocations", &req).unwrap();
        answer.locations.unwrap()
    }

    pub(crate) fn info(&mut self, src: &str) -> Option<HdfsFileStatusProto> {
        let req = GetFileInfoRequestProto { src: src.to_owned() };
        self.rpc.call::<GetFileInfoResponseProto>("getFileInfo", &req).unwrap().fs
    }

    /// Waits until the NameNode knows that many replicas of every block.
    pub(crate) fn wait_replicated(&mut self, src: &str, count: usize) {
        wait_for(|| self.locations(src).blocks.iter().all(|b| b.locs.len() == count));
    }

    /// Writes a whole file of `data`.
    pub(crate) fn write_file(&mut self, src: &str, replication: u32, block_size: u64, data: &[u8]) {
        let id = self.create(src, replication, block_size);
        let mut last = None;
        for part in data.chunks(block_size as usize) {
            let located = loop {
                match self.try_add_block(src, id, last.as_ref(), &[]) {
                    Err(e) if e.is("NotReplicatedYetException") => {
                        std::thread::sleep(Duration::from_millis(2));
                    }
                    other => break other.unwrap(),
                }
            };
            let mut w = Writer::create(&located, &self.name, block_size);
            w.write_block(part);
            last = Some(w.block());
        }
        self.complete(src, id, last.as_ref());
    }

    /// Reads a whole file, each block from the location with this index (modulo their count).
    pub(crate) fn read_file(&mut self, src: &str, choice: usize) -> Vec<u8> {
        let located = self.locations(src);
        let mut data = Vec::new();
        for block in &located.blocks {
            let node = &block.locs[choice % block.locs.len()];
            data.extend(read_block(node, &block.b, 0, block.b.num_bytes()).unwrap());
        }
        data
    }
}

pub(crate) fn xfer(node: &DatanodeInfoProto) -> SocketAddr {
    format!("{}:{}", node.id.ip_addr, node.id.xfer_port).parse().unwrap()
}

pub(crate) fn base(block: &ExtendedBlockProto) -> BaseHeaderProto {
    let token = TokenProto {
        identifier: vec![],
        password: vec![],
        kind: String::new(),
        service: String::new(),
    };
    BaseHeaderProto { block: block.clone(), token: Some(token), trace_info: None }
}

pub(crate) fn op(code: u8, message: &impl Message) -> Vec<u8> {
    let mut bytes = vec![0, 28, code];
    bytes.extend(message.encode_length_delimited_to_vec());
    bytes
}

pub(crate) fn read_delimited<M: Message + Default>(r: &mut impl Read) -> io::Result<M> {
    let mut len = 0usize;
    for shift in (0..).step_by(7) {
        let mut b = [0u8; 1];
        r.read_exact(&mut b)?;
        len |= usize::from(b[0] & 0x7f) << shift;
        if b[0] & 0x80 == 0 {
            break;
        }
    }
    let mut body = vec![0; len];
    r.read_exact(&mut body)?;
    Ok(M::decode(body.as_slice()).unwrap())
}

pub(crate) fn crcs(data: &[u8], chunk: usize) -> Vec<u8> {
    data.chunks(chunk).flat_map(|c| crc32c::crc32c(c).to_be_bytes()).collect()
}

/// A packet with correct checksums.
pub(crate) fn packet(offset: u64, seqno: i64, last: bool, sync: bool, data: &[u8]) -> Vec<u8> {
    packet_with(offset, seqno, last, sync, data, &crcs(data, 512))
}

pub(crate) fn packet_with(
    offset: u64,
    seqno: i64,
    last: bool,
    sync: bool,
    data: &[u8],
    sums: &[u8],
) -> Vec<u8> {
    let header = PacketHeaderProto {
        offset_in_block: offset as i64,
        seqno,
        last_packet_in_block: last,
        data_len: data.len() as i32,
        sync_block: sync.then_some(true),
    }
    .encode_to_vec();
    let mut out = ((4 + sums.len() + data.len()) as u32).to_be_bytes().to_vec();
    out.extend((header.len() as u16).to_be_bytes());
    out.extend(header);
    out.extend(sums);
    out.extend(data);
    out
}

/// The client's end of a pipeline.
pub(crate) struct Writer {
    pub(crate) stream: TcpStream,
    pub(crate) input: BufReader<TcpStream>,
    pub(crate) block: ExtendedBlockProto,
    pub(crate) nodes: Vec<DatanodeInfoProto>,
    pub(crate) seqno: i64,
    pub(crate) sent: u64,
}

pub(crate) struct Setup<'a> {
    pub(crate) block: &'a ExtendedBlockProto,
    pub(crate) nodes: &'a [DatanodeInfoProto],
    pub(crate) client: &'a str,
    pub(crate) stage: Stage,
    pub(crate) new_gs: u64,
    pub(crate) min: u64,
    pub(crate) max: u64,
}

impl Writer {
    pub(crate) fn setup(s: &Setup<'_>) -> io::Result<(Self, BlockOpResponseProto)> {
        let stream = connect(xfer(&s.nodes[0]));
        let req = OpWriteBlockProto {
            header: ClientOperationHeaderProto {
                base_header: base(s.block),
                client_name: s.client.to_owned(),
            },
            targets: s.nodes[1..].to_vec(),
            stage: s.stage as i32,
            pipeline_size: s.nodes.len() as u32,
            min_bytes_rcvd: s.min,
            max_bytes_rcvd: s.max,
            latest_generation_stamp: s.new_gs,
            requested_checksum: ChecksumProto { r#type: 2, bytes_per_checksum: 512 },
            caching_strategy: Some(CachingStrategyProto::default()),
            storage_type: Some(1),
            target_storage_types: vec![1; s.nodes.len() - 1],
            ..Default::default()
        };
        (&stream).write_all(&op(80, &req))?;
        let mut input = BufReader::new(stream.try_clone()?);
        let ack: BlockOpResponseProto = read_delimited(&mut input)?;
        let mut block = s.block.clone();
        if s.new_gs != 0 {
            block.generation_stamp = s.new_gs;
        }
        let nodes = s.nodes.to_vec();
        Ok((Self { stream, input, block, nodes, seqno: 0, sent: s.min }, ack))
    }

    pub(crate) fn create(located: &LocatedBlockProto, client: &str, block_size: u64) -> Self {
        let mut block = located.b.clone();
        block.num_bytes = Some(block_size);
        let (writer, ack) = Self::setup(&Setup {
            block: &block,
            nodes: &located.locs,
            client,
            stage: Stage::PipelineSetupCreate,
            new_gs: 0,
            min: 0,
            max: 0,
        })
        .unwrap();
        assert_eq!(ack.status(), Status::Success, "{ack:?}");
        assert_eq!(ack.first_bad_link(), "");
        writer
    }

    /// The block with its acked length, as `complete` wants it.
    pub(crate) fn block(&self) -> ExtendedBlockProto {
        ExtendedBlockProto { num_bytes: Some(self.sent), ..self.block.clone() }
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    /// Sends data from the chunk boundary on, as Java does after an hflush.
    pub(crate) fn data(&mut self, data: &[u8], sync: bool) {
        let bytes = packet(self.sent, self.seqno, false, sync, data);
        self.send(&bytes);
        self.sent += data.len() as u64;
        self.seqno += 1;
    }

    pub(crate) fn ack(&mut self) -> io::Result<PipelineAckProto> {
        read_delimited(&mut self.input)
    }

    pub(crate) fn good_ack(&mut self, seqno: i64) {
        let ack = self.ack().unwrap();
        assert_eq!(ack.seqno, seqno);
        assert_eq!(ack.reply, vec![0; self.nodes.len()]);
        assert_eq!(ack.flag.len(), self.nodes.len());
    }

    pub(crate) fn flush(&mut self, data: &[u8]) {
        let seqno = self.seqno;
        self.data(data, false);
        self.good_ack(seqno);
    }

    pub(crate) fn end(&mut self) {
        let seqno = self.seqno;
        let bytes = packet(self.sent, seqno, true, false, &[]);
        self.send(&bytes);
        self.good_ack(seqno);
        let mut rest = Vec::new();
        self.input.read_to_end(&mut rest).unwrap();
        assert!(rest.is_empty());
    }

    pub(crate) fn write_block(&mut self, data: &[u8]) {
        for part in data.chunks(64512) {
            self.data(part, false);
        }
        for seqno in 0..self.seqno {
            self.good_ack(seqno);
        }
        self.end();
    }
}

pub(crate) fn read_request(
    block: &ExtendedBlockProto,
    offset: u64,
    len: u64,
    sums: bool,
) -> Vec<u8> {
    op(
        81,
        &OpReadBlockProto {
            header: ClientOperationHeaderProto {
                base_header: base(block),
                client_name: "reader".to_owned(),
            },
            offset,
            len,
            send_checksums: Some(sums),
            caching_strategy: Some(CachingStrategyProto::default()),
        },
    )
}

#[derive(Debug)]
pub(crate) struct ReadPacket {
    pub(crate) header: PacketHeaderProto,
    pub(crate) sums: Vec<u8>,
    pub(crate) data: Vec<u8>,
}

pub(crate) fn read_packet(r: &mut impl Read) -> io::Result<ReadPacket> {
    let mut lens = [0u8; 6];
    r.read_exact(&mut lens)?;
    let plen = u32::from_be_bytes(lens[..4].try_into().unwrap()) as usize;
    let hlen = u16::from_be_bytes(lens[4..].try_into().unwrap()) as usize;
    if plen > 1 << 24 {
        return Err(io::Error::other(format!("payload length {plen}")));
    }
    let mut header = vec![0; hlen];
    r.read_exact(&mut header)?;
    let header = PacketHeaderProto::decode(header.as_slice()).map_err(io::Error::other)?;
    let mut body = vec![0; plen - 4];
    r.read_exact(&mut body)?;
    let data_len = usize::try_from(header.data_len).map_err(io::Error::other)?;
    if data_len > body.len() {
        return Err(io::Error::other("data length"));
    }
    let data = body.split_off(body.len() - data_len);
    Ok(ReadPacket { header, sums: body, data })
}

/// Reads a range over a fresh connection and checks everything that can be checked.
pub(crate) fn read_block(
    node: &DatanodeInfoProto,
    block: &ExtendedBlockProto,
    offset: u64,
    len: u64,
) -> io::Result<Vec<u8>> {
    let stream = connect(xfer(node));
    read_on(&stream, block, offset, len)
}

pub(crate) fn read_on(
    stream: &TcpStream,
    block: &ExtendedBlockProto,
    offset: u64,
    len: u64,
) -> io::Result<Vec<u8>> {
    let mut stream = stream;
    stream.write_all(&read_request(block, offset, len, true))?;
    let response: BlockOpResponseProto = read_delimited(&mut stream)?;
    if response.status() != Status::Success {
        return Err(io::Error::other(format!("{:?} {}", response.status(), response.message())));
    }
    let info = response.read_op_checksum_info.unwrap();
    let chunk = u64::from(info.checksum.bytes_per_checksum);
    assert_eq!(info.chunk_offset, offset - offset % chunk);
    let mut data = Vec::new();
    let mut seqno = 0;
    loop {
        let p = read_packet(&mut stream)?;
        assert_eq!(p.header.seqno, seqno);
        assert_eq!(p.header.offset_in_block as u64, info.chunk_offset + data.len() as u64);
        seqno += 1;
        if p.header.last_packet_in_block {
            assert_eq!(p.header.data_len, 0);
            break;
        }
        if p.sums != crcs(&p.data, chunk as usize) {
            return Err(io::Error::other("checksum mismatch"));
        }
        data.extend(p.data);
    }
    let status = ClientReadStatusProto { status: Status::ChecksumOk as i32 };
    stream.write_all(&status.encode_length_delimited_to_vec())?;
    let skip = (offset - info.chunk_offset) as usize;
    if data.len() < skip + len as usize {
        return Err(io::Error::other(format!("only {} bytes came", data.len())));
    }
    Ok(data[skip..skip + len as usize].to_vec())
}

/// Bytes that differ everywhere.
pub(crate) fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| ((i * 7) ^ (i >> 8) ^ (i >> 16)) as u8).collect()
}

/// Waits for something that other threads bring about.
#[track_caller]
pub(crate) fn wait_for(mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !condition() {
        assert!(Instant::now() < deadline, "it does not happen");
        std::thread::sleep(Duration::from_millis(2));
    }
}
