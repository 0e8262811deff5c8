//! `cargo xtask fuzz-seeds`: the seed inputs of the fuzz targets, built by hand from the message
//! definitions in `proto/wire/`, so that a fuzzer starts behind the first checks.
use std::path::Path;

/// Writes `fuzz/corpus/<target>/<seed>`; inputs that a fuzzer found stay.
///
/// # Errors
/// A file that cannot be written.
pub(crate) fn write(root: &Path) -> Result<(), String> {
    let mut count = 0;
    for (target, seeds) in all() {
        let folder = root.join("fuzz/corpus").join(target);
        std::fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        for (name, bytes) in seeds {
            let path = folder.join(name);
            std::fs::write(&path, bytes).map_err(|e| format!("{}: {e}", path.display()))?;
            count += 1;
        }
    }
    println!("{count} seeds in fuzz/corpus/");
    Ok(())
}

type Seeds = Vec<(&'static str, Vec<u8>)>;

fn all() -> Vec<(&'static str, Seeds)> {
    vec![
        ("varint_fields", varint_fields()),
        ("rpc_response", rpc_response()),
        ("rpc_frames", rpc_frames()),
        ("packet_header", packet_header()),
        ("pipeline_ack", pipeline_ack()),
        ("op_response", op_response()),
        ("packet_stream", packet_stream()),
        ("config_xml", config_xml()),
        ("config_value", config_value()),
    ]
}

fn varint(mut value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
    out
}

/// A field of wire type 0.
fn number(field: u8, value: u64) -> Vec<u8> {
    [vec![field << 3], varint(value)].concat()
}

/// A field of wire type 2.
fn bytes(field: u8, value: &[u8]) -> Vec<u8> {
    [vec![field << 3 | 2], delimited(value)].concat()
}

fn delimited(message: &[u8]) -> Vec<u8> {
    [varint(message.len() as u64), message.to_vec()].concat()
}

/// A frame with its four bytes of length.
fn frame(body: &[u8]) -> Vec<u8> {
    [&(body.len() as u32).to_be_bytes()[..], body].concat()
}

fn varint_fields() -> Seeds {
    let all_types = [
        number(1, 300),
        vec![2 << 3 | 1, 1, 2, 3, 4, 5, 6, 7, 8],
        bytes(3, b"text"),
        vec![4 << 3 | 5, 1, 2, 3, 4],
    ];
    vec![
        ("empty", Vec::new()),
        ("all-types", all_types.concat()),
        ("longest-varint", vec![0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]),
        ("overlong-zero", vec![0x80, 0x80, 0]),
        ("cut-off", vec![0x08, 0x80]),
        ("length-beyond-end", vec![1 << 3 | 2, 0xff, 0xff, 0xff, 0xff, 0x0f]),
    ]
}

fn success() -> Vec<u8> {
    let head = [number(1, 7), number(2, 0), number(3, 9)].concat();
    let answer = bytes(1, &[number(1, 4096), number(3, 0), number(5, 1)].concat());
    [delimited(&head), delimited(&answer)].concat()
}

fn failure(status: u64, call_id: u64) -> Vec<u8> {
    let head = [
        number(1, call_id),
        number(2, status),
        bytes(4, b"org.apache.hadoop.ipc.StandbyException"),
        bytes(5, b"Operation category READ is not supported in state standby\n\tat x"),
        number(6, 1),
        bytes(7, &[7; 16]),
    ];
    delimited(&head.concat())
}

fn rpc_response() -> Seeds {
    vec![
        ("success", success()),
        ("error", failure(1, 7)),
        ("fatal", failure(2, 0xffff_ffff)),
        ("sasl-call-id", failure(0, 0xffff_ffdf)),
        ("no-status", delimited(&number(1, 7))),
        ("left-over", [success(), vec![0]].concat()),
    ]
}

fn rpc_frames() -> Seeds {
    let two = [frame(&success()), frame(&failure(1, 8))].concat();
    vec![
        ("two-byte-by-byte", [vec![1], two.clone()].concat()),
        ("two-in-threes", [vec![3], two.clone()].concat()),
        ("cut-off", [vec![16], two[..two.len() - 5].to_vec()].concat()),
        ("too-long", [&[255][..], &[0x7f, 0, 0, 0, 1]].concat()),
        ("http", [&[9][..], b"HTTP/1.1 404 Not Found\r\n\r\n"].concat()),
        ("tls", vec![2, 0x15, 3, 3, 0, 2, 2, 50]),
        ("empty-frame", vec![4, 0, 0, 0, 1, 5, 0, 0, 0, 0]),
    ]
}

/// Prefix and header proto of a packet, as in Hadoop's `PacketHeader`.
fn header(offset: i64, seqno: i64, last: bool, data: i32, sums: i32) -> Vec<u8> {
    let mut proto = vec![0x09];
    proto.extend_from_slice(&offset.to_le_bytes());
    proto.push(0x11);
    proto.extend_from_slice(&seqno.to_le_bytes());
    proto.extend_from_slice(&[0x18, u8::from(last), 0x25]);
    proto.extend_from_slice(&data.to_le_bytes());
    let mut out = (4 + data + sums).to_be_bytes().to_vec();
    out.extend_from_slice(&(proto.len() as u16).to_be_bytes());
    out.extend_from_slice(&proto);
    out
}

fn packet_header() -> Seeds {
    let mut sync = header(4096, 3, false, 512, 4);
    sync[5] += 2;
    sync.extend_from_slice(&[0x28, 1]);
    vec![
        ("data", header(4096, 3, false, 512, 4)),
        ("sync", sync),
        ("last", header(1000, 9, true, 0, 0)),
        ("heartbeat", header(0, -1, false, 0, 0)),
        ("negative-offset", header(-5, 0, false, 1, 4)),
        ("huge", [&[0x7f, 0xff, 0xff, 0xff, 0, 25][..], &header(0, 0, false, 1, 4)[6..]].concat()),
    ]
}

fn pipeline_ack() -> Seeds {
    let zigzag = |n: i64| ((n << 1) ^ (n >> 63)) as u64;
    let seqno = |n| number(1, zigzag(n));
    let three = [number(2, 0), number(2, 0), number(2, 1)].concat();
    vec![
        ("three-nodes", [seqno(5), three.clone(), number(3, 1_000_000)].concat()),
        ("flags", [seqno(5), three, bytes(4, &[0x60, 0x81, 0x02, 0x00])].concat()),
        ("packed-replies", [seqno(5), bytes(2, &[0, 0, 0])].concat()),
        ("restart", [seqno(-2), number(2, 8)].concat()),
        ("heartbeat", [seqno(-1), number(2, 0)].concat()),
        ("no-seqno", number(2, 0)),
        ("many", [seqno(5), number(2, 0).repeat(65)].concat()),
    ]
}

/// `BlockOpResponseProto` with readOpChecksumInfo.
fn read_response(kind: u64, chunk: u64, offset: u64) -> Vec<u8> {
    let checksum = [number(1, kind), number(2, chunk)].concat();
    [number(1, 0), bytes(4, &[bytes(1, &checksum), number(2, offset)].concat())].concat()
}

fn op_response() -> Seeds {
    let link = bytes(2, b"10.0.0.1:9866");
    vec![
        ("write-success", [number(1, 0), bytes(2, b"")].concat()),
        ("bad-link", [number(1, 1), link, bytes(5, b"Got error, status=ERROR")].concat()),
        ("token", [number(1, 5), bytes(5, b"Block token is expired")].concat()),
        ("unknown-status", number(1, 77)),
        ("read-success", read_response(2, 512, 1024)),
        ("no-status", bytes(5, b"words")),
    ]
}

fn packet_stream() -> Seeds {
    // Bytes 1000 to 1700: chunks of 512 from 512 on, four bytes of checksum each.
    let start = [10, 7];
    let body = |data: usize, sums: usize| vec![0; data + sums];
    let first = [header(512, 0, false, 1024, 8), body(1024, 8)].concat();
    let second = [header(1536, 1, false, 512, 4), body(512, 4)].concat();
    let trailer = header(2048, 2, true, 0, 0);
    let head = |kind| [start.to_vec(), delimited(&read_response(kind, 512, 512))].concat();
    let bare = [header(512, 0, false, 1536, 0), body(1536, 0), header(2048, 1, true, 0, 0)];
    vec![
        ("two-packets", [head(2), first.clone(), second.clone(), trailer.clone()].concat()),
        ("no-checksums", [head(0), bare.concat()].concat()),
        ("cut-off", [head(2), first.clone(), second[..40].to_vec()].concat()),
        ("too-early-trailer", [head(2), first.clone(), header(1536, 1, true, 0, 0)].concat()),
        ("repeated-packet", [head(2), first.clone(), first].concat()),
        ("refused", [start.to_vec(), delimited(&number(1, 5))].concat()),
        ("chunk-of-zero", [start.to_vec(), delimited(&read_response(2, 0, 0))].concat()),
        ("trailer-first", [head(2), trailer].concat()),
    ]
}

fn config_xml() -> Seeds {
    let property = "<property><name>dfs.replication</name><value>3</value></property>";
    let site = format!("<?xml version=\"1.0\"?>\n<configuration>\n{property}\n</configuration>\n");
    let include = "<configuration xmlns:xi=\"http://www.w3.org/2001/XInclude\">\
        <xi:include href=\"none.xml\"><xi:fallback><property name=\"a\" value=\"b\"/>\
        </xi:fallback></xi:include></configuration>";
    let own = "<configuration><include href=\"site.xml\"/></configuration>";
    let entities = "<!DOCTYPE c [<!ENTITY a \"b\">]><configuration>&a;</configuration>";
    let attributes = "<configuration><property name=\"fs.defaultFS\" final=\"true\"\
        value=\"hdfs://${user.name}:8020\"/></configuration>";
    vec![
        ("site", site.into_bytes()),
        ("include", include.into()),
        ("includes-itself", own.into()),
        ("entities", entities.into()),
        ("attributes", attributes.into()),
        ("final", b"<property><name>a</name><final>true</final></property>".to_vec()),
        ("wrong-root", b"<html/>".to_vec()),
        ("cut-off", b"<configuration><property><name>".to_vec()),
        ("encoding", b"<?xml version=\"1.0\" encoding=\"ISO-8859-1\"?><configuration/>".to_vec()),
        ("deep", [b"<configuration>".to_vec(), b"<a>".repeat(40)].concat()),
    ]
}

fn config_value() -> Seeds {
    let values = [
        ("integer", "128"),
        ("size", "64k"),
        ("time", "30s"),
        ("flag", "true"),
        ("word", "COMPOSITE_CRC"),
        ("umask", "u=rwx,g=rx,o="),
        ("retry", "10000,6,60000,10"),
        ("variable", "${dfs.blocksize}${env.HOME:-x}"),
        ("hosts", "nn1.example:8020,[::1]:9000"),
        ("uri", "hdfs://ns1/path"),
        ("negative", "-1"),
        ("huge", "9223372036854775808"),
    ];
    let mut seeds: Seeds = Vec::new();
    for (index, (name, value)) in values.into_iter().enumerate() {
        // Spread over the key table; mutation brings the rest.
        seeds.push((name, [&[(index * 7) as u8][..], value.as_bytes()].concat()));
    }
    seeds
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_corpus_holds_these_seeds() {
        for (target, seeds) in all() {
            for (name, bytes) in seeds {
                let path = crate::root().join("fuzz/corpus").join(target).join(name);
                let found = std::fs::read(&path).unwrap_or_default();
                assert!(found == bytes, "{}: run cargo xtask fuzz-seeds", path.display());
            }
        }
    }
}
