//! Frames of Hadoop RPC (IPC version 9): bytes in, bytes out.
//!
//! A frame is a 4-byte big-endian length, a delimited header, and delimited messages that fill the
//! rest exactly. Nothing here trusts a length: the buffer grows with the bytes that really arrive.
use super::varint::{self, Fields, Value};
use crate::error::{Error, Result, Status};
use crate::proto::common::{
    IpcConnectionContextProto, RequestHeaderProto, RpcKindProto, RpcRequestHeaderProto,
    UserInformationProto, rpc_request_header_proto::OperationProto,
};
use prost::Message;

/// Call id of the connection context frame.
pub const CALL_ID_CONTEXT: i32 = -3;
/// Call id of a ping.
pub const CALL_ID_PING: i32 = -4;
/// Call id of SASL frames, in both directions.
pub const CALL_ID_SASL: i32 = -33;
/// Retry count of everything that is not a call.
const RETRY_COUNT_NONE: i32 = -1;

/// `errorDetail`: the server lacks the method.
pub const ERROR_NO_SUCH_METHOD: i32 = 2;
/// `errorDetail`: the server lacks the protocol.
pub const ERROR_NO_SUCH_PROTOCOL: i32 = 3;
/// `errorDetail`: the server speaks another RPC version.
pub const FATAL_VERSION_MISMATCH: i32 = 14;
/// `errorDetail`: the user may not connect.
pub const FATAL_UNAUTHORIZED: i32 = 15;

/// Largest request that we send, bytes; Hadoop 2.x servers refuse more than 64 MiB.
pub const REQUEST_BYTES_MAX: usize = 64 << 20;
/// Most that is kept of a server's words, bytes.
const WORDS_BYTES_MAX: usize = 64 << 10;
/// Free room offered to one receive, bytes.
const CHUNK_BYTES: usize = 16 << 10;
/// An empty buffer larger than this is given back, bytes.
const KEEP_BYTES_MAX: usize = 1 << 20;

/// 16 random bytes that name one client for the NameNode's retry cache.
pub type ClientId = [u8; 16];

fn header(call_id: i32, retry_count: i32, client_id: &ClientId) -> RpcRequestHeaderProto {
    RpcRequestHeaderProto {
        rpc_kind: Some(RpcKindProto::RpcProtocolBuffer as i32),
        rpc_op: Some(OperationProto::RpcFinalPacket as i32),
        call_id,
        client_id: client_id.to_vec(),
        retry_count: Some(retry_count),
        ..Default::default()
    }
}

/// Appends one frame made of already delimited parts.
fn put_frame(out: &mut Vec<u8>, parts: &[&[u8]]) {
    let len: usize = parts.iter().map(|p| p.len()).sum();
    // Requests are checked against REQUEST_BYTES_MAX, and headers are small.
    let len = u32::try_from(len).unwrap_or(u32::MAX);
    out.extend_from_slice(&len.to_be_bytes());
    for part in parts {
        out.extend_from_slice(part);
    }
}

/// What a client without SASL sends first: preamble and connection context.
///
/// Hadoop 3.4 Client#writeConnectionHeader: both travel with the first call, for a server that
/// refuses the user closes at once, and its answer would be lost by a second send.
#[must_use]
pub fn encode_simple_start(user: &str, protocol: &str, client_id: &ClientId) -> Vec<u8> {
    // "hrpc", version 9, service class 0, no SASL.
    let mut out = b"hrpc\x09\x00\x00".to_vec();
    let context = IpcConnectionContextProto {
        user_info: Some(UserInformationProto {
            effective_user: Some(user.to_owned()),
            real_user: None,
        }),
        protocol: Some(protocol.to_owned()),
    };
    let head = header(CALL_ID_CONTEXT, RETRY_COUNT_NONE, client_id);
    put_frame(
        &mut out,
        &[&head.encode_length_delimited_to_vec(), &context.encode_length_delimited_to_vec()],
    );
    out
}

/// A ping: a header and nothing else; no answer follows.
#[must_use]
pub fn encode_ping(client_id: &ClientId) -> Vec<u8> {
    let mut out = Vec::new();
    let head = header(CALL_ID_PING, RETRY_COUNT_NONE, client_id);
    put_frame(&mut out, &[&head.encode_length_delimited_to_vec()]);
    out
}

/// A call of `method`, whose encoded request message is `request`.
///
/// `retry_count` is 0 for the first attempt of a call and rises with each retry of the same id.
///
/// # Errors
/// `InvalidArgument` when the request is larger than servers accept.
pub fn encode_call(
    call_id: i32,
    retry_count: i32,
    client_id: &ClientId,
    protocol: &str,
    method: &str,
    request: &[u8],
) -> Result<Vec<u8>> {
    if request.len() > REQUEST_BYTES_MAX {
        return Err(Error::new(
            Status::InvalidArgument,
            format!("a request of {} bytes is larger than NameNodes accept", request.len()),
        ));
    }
    let head = header(call_id, retry_count, client_id).encode_length_delimited_to_vec();
    let name = RequestHeaderProto {
        method_name: method.to_owned(),
        declaring_class_protocol_name: protocol.to_owned(),
        client_protocol_version: 1,
    }
    .encode_length_delimited_to_vec();
    let mut prefix = [0; varint::MAX_LEN];
    let n = varint::put(&mut prefix, 0, request.len() as u64).unwrap_or(0);
    let prefix = prefix.get(..n).unwrap_or_default();
    let mut out = Vec::with_capacity(4 + head.len() + name.len() + n + request.len());
    put_frame(&mut out, &[&head, &name, prefix, request]);
    Ok(out)
}

/// An exception that a server sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RemoteException {
    /// Full Java class name; may be empty.
    pub class: String,
    /// The server's words, often with a stack trace behind the first line.
    pub words: String,
    /// `RpcErrorCodeProto`; 0 when absent.
    pub detail: i32,
    /// The server's RPC version, where it says so.
    pub ipc_version: Option<u32>,
}

/// What a response says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome<'a> {
    /// The method's response message.
    Success(&'a [u8]),
    /// Only this call failed.
    Error(RemoteException),
    /// The server closes the connection.
    Fatal(RemoteException),
}

/// One response frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response<'a> {
    /// The call; negative for what belongs to the connection.
    pub call_id: i32,
    /// Its result.
    pub outcome: Outcome<'a>,
}

/// A delimited message at the start of `bytes`, and what follows it.
fn delimited<'a>(bytes: &'a [u8], what: &str) -> Result<(&'a [u8], &'a [u8])> {
    let varint::Get::Value(len, n) = varint::get(bytes) else {
        return Err(Error::protocol(format!("the length of the {what} is cut off")));
    };
    let rest = bytes.get(n..).unwrap_or_default();
    usize::try_from(len).ok().and_then(|len| rest.split_at_checked(len)).ok_or_else(|| {
        Error::protocol(format!("a {what} of {len} bytes exceeds the {} that came", rest.len()))
    })
}

fn text(bytes: &[u8]) -> String {
    let bytes = bytes.get(..WORDS_BYTES_MAX).unwrap_or(bytes);
    String::from_utf8_lossy(bytes).into_owned()
}

/// Decodes one response frame (without its length).
///
/// # Errors
/// `Protocol`, naming the field, when the bytes are no response.
pub fn decode_response(frame: &[u8]) -> Result<Response<'_>> {
    let (head, body) = delimited(frame, "response header")?;
    let (mut call_id, mut status) = (None, None);
    let mut remote = RemoteException::default();
    let mut fields = Fields::new(head);
    while let Some((number, value)) = fields.next_field()? {
        match (number, value) {
            // The field is uint32, but −33 and its like are meant: Hadoop 3.4 SaslRpcClient.
            (1, Value::Varint(v)) => call_id = Some(v as u32 as i32),
            (2, Value::Varint(v)) => status = Some(v),
            (3, Value::Varint(v)) => remote.ipc_version = u32::try_from(v).ok(),
            (4, Value::Bytes(b)) => remote.class = text(b),
            (5, Value::Bytes(b)) => remote.words = text(b),
            (6, Value::Varint(v)) => remote.detail = i32::try_from(v).unwrap_or(0),
            _ => {}
        }
    }
    let call_id = call_id.ok_or_else(|| Error::protocol("a response header has no callId"))?;
    let outcome = match status {
        Some(0) => {
            let (message, rest) = delimited(body, "response message")?;
            leftover(rest)?;
            Outcome::Success(message)
        }
        Some(1) => Outcome::Error(remote),
        Some(2) => Outcome::Fatal(remote),
        Some(other) => {
            return Err(Error::protocol(format!("a response header has the status {other}")));
        }
        None => return Err(Error::protocol("a response header has no status")),
    };
    if !matches!(outcome, Outcome::Success(_)) {
        leftover(body)?;
    }
    Ok(Response { call_id, outcome })
}

/// Hadoop 3.4 Client#receiveRpcResponse: bytes behind the message mean that both sides disagree
/// about the frame, so nothing that follows can be trusted.
fn leftover(rest: &[u8]) -> Result<()> {
    if rest.is_empty() {
        Ok(())
    } else {
        Err(Error::protocol(format!("{} bytes are left over behind a response", rest.len())))
    }
}

/// Decodes a method's response message.
///
/// # Errors
/// `Protocol` when the bytes are not that message.
pub fn decode_message<M: Message + Default>(bytes: &[u8]) -> Result<M> {
    M::decode(bytes)
        .map_err(|e| Error::protocol(format!("the response message does not decode: {e}")))
}

/// Received bytes, cut into frames.
#[derive(Debug)]
pub struct FrameBuffer {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
    frame_bytes_max: usize,
    /// No frame came yet: odd bytes mean another protocol, not a damaged one.
    first: bool,
}

impl FrameBuffer {
    /// A buffer that accepts frames of up to `frame_bytes_max` bytes
    /// (`ipc.maximum.response.length`; 0 means as many as the length field can say).
    #[must_use]
    pub fn new(frame_bytes_max: usize) -> FrameBuffer {
        let limit = i32::MAX as usize;
        let max = if frame_bytes_max == 0 { limit } else { frame_bytes_max.min(limit) };
        FrameBuffer { bytes: Vec::new(), start: 0, end: 0, frame_bytes_max: max, first: true }
    }

    /// Whether no whole frame has been seen.
    #[must_use]
    pub fn is_first(&self) -> bool {
        self.first
    }

    /// Whether part of a frame has come.
    #[must_use]
    pub fn is_partial(&self) -> bool {
        self.end > self.start
    }

    /// Room for the next receive; never empty. Report what came with [`FrameBuffer::filled`].
    pub fn space(&mut self) -> &mut [u8] {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
            if self.bytes.len() > KEEP_BYTES_MAX {
                self.bytes = Vec::new();
            }
        } else if self.start > 0 && self.bytes.len() - self.end < CHUNK_BYTES {
            self.bytes.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        if self.bytes.len() - self.end < CHUNK_BYTES {
            // Doubling what is really there: a length alone never makes memory.
            let want = (self.end + CHUNK_BYTES).max(self.end.saturating_mul(2));
            self.bytes.resize(want, 0);
        }
        self.bytes.get_mut(self.end..).unwrap_or_default()
    }

    /// Says how many bytes of [`FrameBuffer::space`] were filled.
    pub fn filled(&mut self, n: usize) {
        debug_assert!(n <= self.bytes.len() - self.end);
        self.end = (self.end + n).min(self.bytes.len());
    }

    /// The next whole frame without its length, or `None` when more bytes are needed.
    ///
    /// # Errors
    /// `NotHdfs` when the first bytes are another protocol, `Protocol` when a length is
    /// impossible.
    pub fn next_frame(&mut self) -> Result<Option<&[u8]>> {
        let got = self.bytes.get(self.start..self.end).unwrap_or_default();
        let Some(prefix) = got.first_chunk::<4>() else { return Ok(None) };
        let len = self.check_len(*prefix)?;
        if got.len() < 4 + len {
            return Ok(None);
        }
        let from = self.start + 4;
        self.start = from + len;
        self.first = false;
        Ok(self.bytes.get(from..from + len))
    }

    fn check_len(&self, prefix: [u8; 4]) -> Result<usize> {
        let len = u32::from_be_bytes(prefix) as usize;
        if len > 0 && len <= self.frame_bytes_max && &prefix != b"HTTP" {
            return Ok(len);
        }
        if !self.first {
            return Err(Error::protocol(format!(
                "a response frame of {len} bytes (limit {}, ipc.maximum.response.length)",
                self.frame_bytes_max
            )));
        }
        let got = self.bytes.get(self.start..self.end).unwrap_or_default();
        let line = got.split(|&b| b == b'\r' || b == b'\n').next().unwrap_or_default();
        let line = line.get(..40).unwrap_or(line).escape_ascii();
        Err(not_hdfs(if &prefix == b"HTTP" {
            format!("the server answered in HTTP (\"{line}\"); this is a web port")
        } else if matches!(prefix, [0x15, 3, ..]) {
            "the server answered in TLS; this is not a NameNode's RPC port".to_owned()
        } else {
            format!("the server's answer is not Hadoop RPC (it begins with \"{line}\")")
        }))
    }
}

/// An error for a server that speaks something else.
fn not_hdfs(message: String) -> Error {
    Error::new(Status::NotHdfs, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::common::RpcResponseHeaderProto;
    use crate::proto::hdfs::GetFileInfoRequestProto;

    const ID: ClientId = *b"0123456789abcdef";

    fn frames(buffer: &mut FrameBuffer, bytes: &[u8], step: usize) -> Result<Vec<Vec<u8>>> {
        let mut out = Vec::new();
        for chunk in bytes.chunks(step) {
            buffer.space()[..chunk.len()].copy_from_slice(chunk);
            buffer.filled(chunk.len());
            while let Some(frame) = buffer.next_frame()? {
                out.push(frame.to_vec());
            }
        }
        Ok(out)
    }

    fn response(head: &RpcResponseHeaderProto, rest: &[u8]) -> Vec<u8> {
        let mut out = head.encode_length_delimited_to_vec();
        out.extend_from_slice(rest);
        out
    }

    #[test]
    fn the_start_is_what_java_sends() {
        let bytes = encode_simple_start("u", "p", &ID);
        // Taken apart by hand from RpcHeader.proto and IpcConnectionContext.proto.
        let mut expect =
            b"hrpc\x09\x00\x00\x00\x00\x00\x26\x1a\x08\x02\x10\x00\x18\x05\x22\x10".to_vec();
        expect.extend_from_slice(&ID);
        expect.extend_from_slice(b"\x28\x01\x08\x12\x03\x0a\x01u\x1a\x01p");
        expect[10] = u8::try_from(expect.len() - 11).unwrap();
        assert_eq!(bytes, expect);
    }

    #[test]
    fn a_call_has_three_delimited_parts() {
        let request = GetFileInfoRequestProto { src: "/a".into() }.encode_to_vec();
        let bytes = encode_call(7, 2, &ID, "proto", "getFileInfo", &request).unwrap();
        assert_eq!(u32::from_be_bytes(bytes[..4].try_into().unwrap()) as usize, bytes.len() - 4);
        let mut rest = &bytes[4..];
        let head = RpcRequestHeaderProto::decode_length_delimited(&mut rest).unwrap();
        assert_eq!((head.call_id, head.retry_count, head.rpc_kind), (7, Some(2), Some(2)));
        assert_eq!((head.rpc_op, head.client_id), (Some(0), ID.to_vec()));
        let name = RequestHeaderProto::decode_length_delimited(&mut rest).unwrap();
        assert_eq!((name.method_name.as_str(), name.client_protocol_version), ("getFileInfo", 1));
        let got = GetFileInfoRequestProto::decode_length_delimited(&mut rest).unwrap();
        assert!(got.src == "/a" && rest.is_empty());
        // An empty request is still a delimited message.
        let bytes = encode_call(7, 0, &ID, "proto", "m", &[]).unwrap();
        assert_eq!(bytes.last(), Some(&0));
        assert!(encode_call(7, 0, &ID, "p", "m", &vec![0; REQUEST_BYTES_MAX + 1]).is_err());
    }

    #[test]
    fn frames_come_whole_whatever_the_pieces() {
        let big = vec![9; 100_000];
        let mut bytes = vec![0, 0, 0, 2, 1, 2, 0, 1, 0x86, 0xa0];
        bytes.extend_from_slice(&big);
        bytes.extend_from_slice(&[0, 0, 0, 1, 5]);
        for step in [1, 3, 4, 1000, CHUNK_BYTES] {
            let got = frames(&mut FrameBuffer::new(1 << 20), &bytes, step).unwrap();
            assert_eq!(got, [vec![1, 2], big.clone(), vec![5]]);
        }
    }

    #[test]
    fn impossible_lengths_and_other_protocols_are_told_apart() {
        let http = b"HTTP/1.1 404 Not Found\r\nContent-type: text/plain\r\n";
        let e = frames(&mut FrameBuffer::new(0), http, 50).unwrap_err();
        assert_eq!(e.status(), Status::NotHdfs);
        assert!(e.message().contains("HTTP/1.1 404 Not Found"), "{e}");
        let e = frames(&mut FrameBuffer::new(1 << 27), b"SSH-2.0-OpenSSH\r\n", 50).unwrap_err();
        assert_eq!(e.status(), Status::NotHdfs);
        let e = frames(&mut FrameBuffer::new(1 << 27), &[0x15, 3, 3, 0, 2, 2], 50).unwrap_err();
        assert!(e.message().contains("TLS"), "{e}");
        let e = frames(&mut FrameBuffer::new(10), &[0, 0, 0, 1, 7, 0, 0, 0, 11], 50).unwrap_err();
        assert_eq!(e.status(), Status::Protocol);
        assert!(frames(&mut FrameBuffer::new(10), &[0, 0, 0, 0], 50).is_err());
    }

    #[test]
    fn a_claimed_length_makes_no_memory() {
        let mut buffer = FrameBuffer::new(1 << 30);
        assert!(frames(&mut buffer, &[0x30, 0, 0, 0, 1], 5).unwrap().is_empty());
        assert!(buffer.space().len() <= 2 * CHUNK_BYTES);
    }

    #[test]
    fn responses() {
        let mut head =
            RpcResponseHeaderProto { call_id: 0xffff_ffdf, status: 0, ..Default::default() };
        let got = response(&head, &[3, 1, 2, 3]);
        let got = decode_response(&got).unwrap();
        assert_eq!(got, Response { call_id: -33, outcome: Outcome::Success(&[1, 2, 3]) });
        assert!(decode_response(&response(&head, &[3, 1, 2, 3, 4])).is_err());
        assert!(decode_response(&response(&head, &[3, 1, 2])).is_err());
        assert!(decode_response(&response(&head, &[])).is_err());
        head.status = 1;
        head.exception_class_name = Some("java.io.IOException".into());
        head.error_msg = Some("no\n\tat x".into());
        head.error_detail = Some(1);
        let got = response(&head, &[]);
        let Outcome::Error(e) = decode_response(&got).unwrap().outcome else { panic!() };
        assert_eq!((e.class.as_str(), e.words.as_str()), ("java.io.IOException", "no\n\tat x"));
        assert!(decode_response(&response(&head, &[0])).is_err());
        head.status = 3;
        assert!(decode_response(&response(&head, &[])).is_err());
        for bad in [&[][..], &[0], &[2, 8, 1], &[2, 16, 0], &[200, 1], &[1, 8]] {
            assert!(decode_response(bad).is_err(), "{bad:?}");
        }
    }
}
