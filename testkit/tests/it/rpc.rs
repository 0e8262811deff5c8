//! The RPC server: what it accepts, what it refuses, and how.
use std::io::{Read, Write};

use dfs::proto::common::rpc_response_header_proto::{RpcErrorCodeProto as Code, RpcStatusProto};
use dfs::proto::common::rpc_sasl_proto::{SaslAuth, SaslState};
use dfs::proto::common::*;
use dfs::proto::hdfs::*;
use dfs_testkit::minidfs::MiniDfs;
use prost::Message;

use super::raw::*;

const PREAMBLE: &[u8] = b"hrpc\x09\x00\x00";

fn cluster() -> MiniDfs {
    MiniDfs::builder().datanodes(1).start().unwrap()
}

/// Sends bytes, expects one FATAL answer and the end of the connection.
#[track_caller]
fn fatal(cluster: &MiniDfs, bytes: &[u8]) -> RpcResponseHeaderProto {
    let mut stream = connect(cluster.namenode_addr(0).unwrap());
    stream.write_all(bytes).unwrap();
    let (header, body) = read_response(&mut stream).unwrap();
    assert!(body.is_empty());
    assert_eq!(header.status(), RpcStatusProto::Fatal, "{header:?}");
    assert_eq!(stream.read(&mut [0]).unwrap(), 0);
    header
}

fn out_of_band(call_id: i32) -> Vec<u8> {
    frame(&[rpc_header(call_id, &[], -1).encode_length_delimited_to_vec()])
}

fn call_frame(
    header: &RpcRequestHeaderProto,
    method: &str,
    protocol: &str,
    version: u64,
) -> Vec<u8> {
    let request = RequestHeaderProto {
        method_name: method.to_owned(),
        declaring_class_protocol_name: protocol.to_owned(),
        client_protocol_version: version,
    };
    frame(&[
        header.encode_length_delimited_to_vec(),
        request.encode_length_delimited_to_vec(),
        vec![0],
    ])
}

fn with_context(rest: &[u8]) -> Vec<u8> {
    [PREAMBLE, &context("tester", CLIENT_PROTOCOL), rest].concat()
}

#[test]
fn a_wrong_version_is_answered_in_the_present_format() {
    let cluster = cluster();
    let header = fatal(&cluster, b"hrpc\x0a\x00\x00");
    assert_eq!(header.error_detail(), Code::FatalVersionMismatch);
    assert_eq!(header.exception_class_name(), "org.apache.hadoop.ipc.RPC$VersionMismatch");
    assert!(header.error_msg().starts_with("Server IPC version 9 cannot communicate"));
    fatal(&cluster, b"xxxx\x09\x00\x00");
    fatal(&cluster, b"hrpc\x09\x00\x07");
    let mut stream = connect(cluster.namenode_addr(0).unwrap());
    stream.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    let mut page = String::new();
    stream.read_to_string(&mut page).unwrap();
    assert!(page.starts_with("HTTP/1.1 404"));
}

#[test]
fn headers_out_of_order_are_fatal() {
    let cluster = cluster();
    let good = rpc_header(1, &[1; 16], 0);
    let no_context = [PREAMBLE, &call_frame(&good, "msync", CLIENT_PROTOCOL, 1)].concat();
    let header = fatal(&cluster, &no_context);
    assert_eq!(header.error_detail(), Code::FatalInvalidRpcHeader);
    assert!(header.error_msg().contains("Connection context not established"));
    assert_eq!(header.call_id, 1);
    let twice = with_context(&context("tester", CLIENT_PROTOCOL));
    assert!(fatal(&cluster, &twice).error_msg().contains("already processed"));
    assert!(fatal(&cluster, &with_context(&out_of_band(-7))).error_msg().contains("#-7"));
    assert!(fatal(&cluster, &with_context(&out_of_band(-33))).error_msg().contains("SASL"));
    let no_op = RpcRequestHeaderProto { rpc_op: None, ..good.clone() };
    let bytes = with_context(&call_frame(&no_op, "msync", CLIENT_PROTOCOL, 1));
    assert!(fatal(&cluster, &bytes).error_msg().contains("No rpc op"));
    let no_kind = RpcRequestHeaderProto { rpc_kind: None, ..good.clone() };
    let bytes = with_context(&call_frame(&no_kind, "msync", CLIENT_PROTOCOL, 1));
    assert!(fatal(&cluster, &bytes).error_msg().contains("No rpc kind"));
    let protocol = [PREAMBLE, &context("tester", "org.example.Other")].concat();
    assert!(fatal(&cluster, &protocol).error_msg().contains("Unknown protocol"));
    let nobody = [PREAMBLE, &context("", CLIENT_PROTOCOL)].concat();
    assert_eq!(fatal(&cluster, &nobody).error_detail(), Code::FatalUnauthorized);
    let no_body = frame(&[
        good.encode_length_delimited_to_vec(),
        RequestHeaderProto {
            method_name: "msync".to_owned(),
            declaring_class_protocol_name: CLIENT_PROTOCOL.to_owned(),
            client_protocol_version: 1,
        }
        .encode_length_delimited_to_vec(),
    ]);
    assert_eq!(
        fatal(&cluster, &with_context(&no_body)).error_detail(),
        Code::FatalDeserializingRequest
    );
}

#[test]
fn oversized_frames_close_the_connection_without_a_word() {
    let cluster = cluster();
    for length in [(129u32 << 20).to_be_bytes(), (-1i32).to_be_bytes()] {
        let mut stream = connect(cluster.namenode_addr(0).unwrap());
        stream.write_all(&with_context(&length)).unwrap();
        assert_eq!(stream.read(&mut [0]).unwrap(), 0);
    }
}

#[test]
fn errors_of_a_call_leave_the_connection_open() {
    let cluster = cluster();
    let mut rpc = Rpc::new(cluster.namenode_addr(0).unwrap(), CLIENT_PROTOCOL, "tester");
    let error = rpc.call::<MsyncResponseProto>("noSuchThing", &MsyncRequestProto {}).unwrap_err();
    assert_eq!(error.class, "org.apache.hadoop.ipc.RpcNoSuchMethodException");
    assert_eq!(error.detail, Code::ErrorNoSuchMethod as i32);
    assert!(!error.fatal);
    assert!(error.message.starts_with("Unknown method noSuchThing called on"));
    assert!(error.message.contains("\n\tat "), "a stack trace follows");
    for (protocol, version, detail) in [
        ("org.example.Other", 1, Code::ErrorNoSuchProtocol),
        (CLIENT_PROTOCOL, 2, Code::ErrorRpcVersionMismatch),
    ] {
        let bytes = call_frame(&rpc_header(9, &[1; 16], 0), "msync", protocol, version);
        rpc.stream.write_all(&bytes).unwrap();
        let (id, answer) = rpc.receive::<MsyncResponseProto>().unwrap();
        assert_eq!((id, answer.unwrap_err().detail), (9, detail as i32));
    }
    rpc.stream.write_all(&out_of_band(-4)).unwrap();
    rpc.call::<MsyncResponseProto>("msync", &MsyncRequestProto {}).unwrap();
}

#[test]
fn calls_can_be_pipelined() {
    let cluster = cluster();
    let mut rpc = Rpc::new(cluster.namenode_addr(0).unwrap(), CLIENT_PROTOCOL, "tester");
    for id in 100..200 {
        rpc.send("msync", &MsyncRequestProto {}, id, 0);
    }
    let mut ids: Vec<i32> =
        (0..100).map(|_| rpc.receive::<MsyncResponseProto>().unwrap().0).collect();
    ids.sort_unstable();
    assert_eq!(ids, (100..200).collect::<Vec<_>>());
    assert_eq!(cluster.call_count("msync"), 100);
}

#[test]
fn a_sasl_client_is_offered_simple() {
    let cluster = cluster();
    let sasl = |message: &RpcSaslProto| {
        frame(&[
            rpc_header(-33, &[], -1).encode_length_delimited_to_vec(),
            message.encode_length_delimited_to_vec(),
        ])
    };
    let negotiate = RpcSaslProto { state: SaslState::Negotiate as i32, ..Default::default() };
    let mut stream = connect(cluster.namenode_addr(0).unwrap());
    stream.write_all(&[b"hrpc\x09\x00\xdf", sasl(&negotiate).as_slice()].concat()).unwrap();
    let (header, body) = read_response(&mut stream).unwrap();
    assert_eq!(header.call_id as i32, -33);
    let offer = RpcSaslProto::decode_length_delimited(body.as_slice()).unwrap();
    assert_eq!(offer.state(), SaslState::Negotiate);
    assert_eq!(offer.auths.len(), 1);
    assert_eq!(offer.auths[0].method, "SIMPLE");
    let initiate = RpcSaslProto {
        state: SaslState::Initiate as i32,
        auths: vec![SaslAuth { challenge: None, ..offer.auths[0].clone() }],
        ..Default::default()
    };
    let call = call_frame(&rpc_header(3, &[1; 16], 0), "msync", CLIENT_PROTOCOL, 1);
    let bytes = [sasl(&initiate), context("tester", CLIENT_PROTOCOL), call].concat();
    stream.write_all(&bytes).unwrap();
    let (header, _) = read_response(&mut stream).unwrap();
    assert_eq!((header.call_id, header.status()), (3, RpcStatusProto::Success));
    let early = [b"hrpc\x09\x00\xdf", context("tester", CLIENT_PROTOCOL).as_slice()].concat();
    assert!(fatal(&cluster, &early).error_msg().contains("during SASL negotiation"));
}
