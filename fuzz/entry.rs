//! One function for each decoder of foreign bytes: it feeds the decoder and checks what must hold
//! of every answer. Shared by the libFuzzer targets (`targets/`) and `tests/fuzz_corpus.rs`.
//!
//! A function returns for every input; a panic is a bug in the decoder.
#![allow(dead_code, reason = "a libFuzzer target uses one function only")]
use dfs::conf::{Config, keys};
use dfs::proto::hdfs::{BlockOpResponseProto, GetBlockLocationsResponseProto};
use dfs::wire::packet::{self, PREFIX_LEN};
use dfs::wire::rpc_frame::{self, FrameBuffer, Outcome};
use dfs::wire::varint::{self, Fields, Get, Value};

// The state machine is private to the library. It is pure, so compiling it here again tests the
// same code; its `crate::…` paths are those of the modules that each user re-exports at its root.
#[path = "../src/read/block_state.rs"]
mod block_state;

/// One decoder by name.
pub(crate) type Target = (&'static str, fn(&[u8]));

/// All of them; the names are those of `targets/` and `corpus/`.
pub(crate) const TARGETS: &[Target] = &[
    ("varint_fields", varint_fields),
    ("rpc_response", rpc_response),
    ("rpc_frames", rpc_frames),
    ("packet_header", packet_header),
    ("pipeline_ack", pipeline_ack),
    ("op_response", op_response),
    ("packet_stream", packet_stream),
    ("config_xml", config_xml),
    ("config_value", config_value),
];

/// Packet limit of the tests, bytes: that of `dfs.data.transfer.max.packet.size`.
const PACKET_BYTES_MAX: usize = 16 << 20;

/// Varints and protobuf fields.
pub(crate) fn varint_fields(data: &[u8]) {
    if let Get::Value(value, len) = varint::get(data) {
        assert!(len >= 1 && len <= data.len() && len <= varint::MAX_LEN);
        let mut out = [0; varint::MAX_LEN];
        let end = varint::put(&mut out, 0, value).unwrap();
        assert_eq!(end, varint::len(value), "length of {value}");
        assert_eq!(varint::get(&out[..end]), Get::Value(value, end));
        assert!(end <= len, "the shortest form of {value} is longer than the received one");
    }
    let mut fields = Fields::new(data);
    let mut seen = 0;
    while let Ok(Some((_, value))) = fields.next_field() {
        if let Value::Bytes(bytes) = value {
            seen += bytes.len();
        }
        assert!(seen <= data.len(), "fields hold more bytes than the message");
    }
}

/// One RPC response frame.
pub(crate) fn rpc_response(data: &[u8]) {
    if let Ok(response) = rpc_frame::decode_response(data)
        && let Outcome::Success(message) = response.outcome
    {
        assert!(message.len() < data.len());
        // Errors are fine; the message may be of any method.
        drop(rpc_frame::decode_message::<GetBlockLocationsResponseProto>(message));
    }
}

/// A stream of RPC frames: the first byte says in which pieces it arrives, which must not matter.
pub(crate) fn rpc_frames(data: &[u8]) {
    let Some((&step, stream)) = data.split_first() else { return };
    let limit = 1 << 16;
    let whole = frames(stream, usize::MAX, limit);
    let pieces = frames(stream, usize::from(step).max(1), limit);
    assert_eq!(whole, pieces, "frames depend on how the bytes arrive");
    assert!(whole.0.iter().all(|frame| !frame.is_empty() && frame.len() <= limit));
}

/// The frames of `stream`, and whether it ended with an error.
fn frames(stream: &[u8], step: usize, limit: usize) -> (Vec<Vec<u8>>, bool) {
    let mut buffer = FrameBuffer::new(limit);
    let mut out = Vec::new();
    let mut rest = stream;
    while !rest.is_empty() {
        let space = buffer.space();
        assert!(!space.is_empty(), "no room for the next receive");
        let n = rest.len().min(step).min(space.len());
        space[..n].copy_from_slice(&rest[..n]);
        buffer.filled(n);
        rest = &rest[n..];
        loop {
            match buffer.next_frame() {
                Ok(Some(frame)) => out.push(frame.to_vec()),
                Ok(None) => break,
                Err(_) => return (out, true),
            }
        }
    }
    (out, false)
}

/// Prefix and header of a data packet.
pub(crate) fn packet_header(data: &[u8]) {
    let Some((prefix, rest)) = data.split_first_chunk::<PREFIX_LEN>() else { return };
    let Ok((body, header_len)) = packet::decode_prefix(*prefix, PACKET_BYTES_MAX) else { return };
    assert!(body <= PACKET_BYTES_MAX && (1..=packet::MAX_PROTO_LEN).contains(&header_len));
    let Ok(header) = packet::decode_header(rest.get(..header_len).unwrap_or(rest)) else { return };
    assert!(header.data_len >= 0 && header.offset_in_block >= 0);
    let mut out = [0; packet::MAX_HEADER_LEN];
    let start = packet::encode_header(&mut out, &header, 0);
    let again = packet::decode_header(&out[start + PREFIX_LEN..]).unwrap();
    assert_eq!(again, header, "a header changes when it is encoded again");
}

/// A pipeline ack.
pub(crate) fn pipeline_ack(data: &[u8]) {
    if let Ok(ack) = packet::decode_ack(data) {
        assert!(ack.count <= packet::MAX_REPLIES);
        // Asked for one node more than there is.
        for i in 0..=ack.count {
            assert!(ack.status(i) <= 0xf);
            let (_, _) = (ack.congested(i), ack.slow(i));
        }
    }
}

/// The answer to a data transfer operation.
pub(crate) fn op_response(data: &[u8]) {
    if let Ok(response) = rpc_frame::decode_message::<BlockOpResponseProto>(data)
        && let Err(error) = dfs::wire::transfer::check_response(&response)
    {
        assert!(!error.message().is_empty());
    }
}

/// Everything that a DataNode sends for one READ_BLOCK: byte 0 and 1 choose the request, then
/// come the delimited response and packets.
pub(crate) fn packet_stream(data: &[u8]) {
    let Some((&[start, len], mut rest)) = data.split_first_chunk::<2>() else { return };
    let (start, len) = (u64::from(start) * 100, u64::from(len) * 100 + 1);
    let mut state = block_state::BlockState::new(start, len);
    let Get::Value(message_len, n) = varint::get(rest) else { return };
    let Some(response) = usize::try_from(message_len)
        .ok()
        .and_then(|message_len| rest.get(n..n.checked_add(message_len)?))
    else {
        return;
    };
    rest = &rest[n + response.len()..];
    let Ok(response) = rpc_frame::decode_message::<BlockOpResponseProto>(response) else { return };
    if state.on_response(&response).is_err() {
        return;
    }
    let chunk = state.bytes_per_checksum() as u64;
    let first = state.next_offset();
    assert!(chunk > 0 && first <= start && start - first < chunk);
    let mut delivered = 0;
    while let Some((prefix, after)) = rest.split_first_chunk::<PREFIX_LEN>() {
        let Ok((body, header_len)) = packet::decode_prefix(*prefix, PACKET_BYTES_MAX) else {
            return;
        };
        let Some(header) = after.get(..header_len) else { return };
        let Ok(header) = packet::decode_header(header) else { return };
        let Ok(shape) = state.on_header(body, &header) else { return };
        assert_eq!(shape.sums_len + shape.data_len, body);
        assert_eq!(shape.offset, first + delivered, "a gap or an overlap");
        delivered += shape.data_len as u64;
        assert_eq!(state.next_offset(), first + delivered);
        assert!(first + delivered < start + len + chunk, "more than was asked for");
        if state.is_finished() {
            assert!(state.data_complete() && first + delivered >= start + len);
            assert!(state.on_header(body, &header).is_err(), "something follows the trailer");
            return;
        }
        let Some(next) = after.get(header_len + body..) else { return };
        rest = next;
    }
}

/// A configuration file.
pub(crate) fn config_xml(data: &[u8]) {
    // A folder of its own, or an include could read what other processes left there.
    let folder = scratch_folder();
    let path = folder.join("site.xml");
    std::fs::write(&path, data)
        .or_else(|_| std::fs::create_dir_all(&folder).and_then(|()| std::fs::write(&path, data)))
        .unwrap();
    let mut config = Config::new();
    if let Err(error) = config.load_file(&path) {
        let text = error.message();
        assert!(text.contains("site.xml"), "the error does not name the file: {text}");
    }
    drop(config.default_fs());
}

/// Where [`config_xml`] keeps its file; whoever calls it removes the folder at the end.
pub(crate) fn scratch_folder() -> std::path::PathBuf {
    std::env::temp_dir().join(format!("dfs-fuzz-{}", std::process::id()))
}

/// One value of one key: byte 0 chooses the key, the rest is the value.
pub(crate) fn config_value(data: &[u8]) {
    let Some((&index, value)) = data.split_first() else { return };
    let Ok(value) = std::str::from_utf8(value) else { return };
    let count = keys::all().count();
    let key = keys::all().nth(usize::from(index) % count).unwrap();
    let mut config = Config::new();
    // Else the outcome would depend on who runs this.
    config.set(keys::HADOOP_SECURITY_AUTHENTICATION.name, "simple");
    config.set(key.name, value);
    if let Err(error) = config.freeze(Some("ns1")) {
        let text = error.message();
        assert!(!text.is_empty());
    }
    drop(config.default_fs());
    drop(config.name_service("ns1"));
    drop(config.name_service(value));
}
