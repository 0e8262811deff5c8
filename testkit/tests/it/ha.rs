//! Two NameNodes over one namespace, and the retry cache.
use dfs::proto::common::HaServiceStateProto;
use dfs::proto::hdfs::*;
use dfs_testkit::minidfs::{Fault, MiniDfs, Rule};

use super::raw::*;

fn cluster() -> MiniDfs {
    MiniDfs::builder().datanodes(1).replication(1).ha(true).start().unwrap()
}

fn state(client: &mut Client) -> HaServiceStateProto {
    let answer: HaServiceStateResponseProto =
        client.rpc.call("getHAServiceState", &HaServiceStateRequestProto {}).unwrap();
    answer.state()
}

#[test]
fn the_standby_says_so() {
    let cluster = cluster();
    let mut first = Client::on(&cluster, 0, "tester");
    let mut second = Client::on(&cluster, 1, "tester");
    assert_eq!(state(&mut first), HaServiceStateProto::Active);
    assert_eq!(state(&mut second), HaServiceStateProto::Standby);
    first.create("/f", 1, 1024);
    let req = GetFileInfoRequestProto { src: "/f".to_owned() };
    let error = second.rpc.call::<GetFileInfoResponseProto>("getFileInfo", &req).unwrap_err();
    assert_eq!(error.class, "org.apache.hadoop.ipc.StandbyException");
    assert!(error.message.starts_with("Operation category READ is not supported in state standby"));
    cluster.set_active(1);
    assert!(second.info("/f").is_some());
    assert!(first.rpc.call::<GetFileInfoResponseProto>("getFileInfo", &req).is_err());
}

#[test]
fn a_retried_call_gets_its_first_answer_even_from_the_other_namenode() {
    let cluster = cluster();
    let rule = cluster.faults().add(Rule::rpc("create", Fault::CloseAfter));
    let mut client = Client::on(&cluster, 0, "tester");
    let req = client.create_request("/f", 1, 1024);
    let id = Rpc::call_id();
    client.rpc.send("create", &req, id, 0);
    assert!(client.rpc.receive::<CreateResponseProto>().is_err(), "the answer is lost");
    assert_eq!(rule.fired(), 1);
    cluster.set_active(1);
    let client_id = client.rpc.client_id.clone();
    client.rpc = Client::on(&cluster, 1, "tester").rpc;
    client.rpc.client_id = client_id;
    client.rpc.send("create", &req, id, 1);
    let (answered, answer) = client.rpc.receive::<CreateResponseProto>().unwrap();
    assert_eq!(answered, id);
    let file = answer.unwrap().fs.unwrap().file_id();
    assert_eq!(cluster.retry_cache_hits(), 1);
    client.complete("/f", file, None);
    let fresh = client.rpc.call::<CreateResponseProto>("create", &req).unwrap_err();
    assert!(fresh.is("FileAlreadyExistsException"), "another call id is another call");
    let delete = DeleteRequestProto { src: "/f".to_owned(), recursive: false };
    for retry in 0..2 {
        client.rpc.send("delete", &delete, 77_777, retry);
        assert!(client.rpc.receive::<DeleteResponseProto>().unwrap().1.unwrap().result);
    }
    assert!(!client.rpc.call::<DeleteResponseProto>("delete", &delete).unwrap().result);
}

#[test]
fn the_retry_cache_wants_whole_client_ids() {
    let cluster = cluster();
    let mut client = Client::on(&cluster, 0, "tester");
    client.rpc.client_id.truncate(8);
    let req = client.create_request("/f", 1, 1024);
    let error = client.rpc.call::<CreateResponseProto>("create", &req).unwrap_err();
    assert!(error.is("IllegalArgumentException"), "{error:?}");
}

#[test]
fn a_rule_flips_the_active_at_the_nth_call() {
    let cluster = cluster();
    cluster.faults().add(Rule::rpc("msync", Fault::Failover).skip(2));
    let mut client = Client::on(&cluster, 0, "tester");
    let mut sync = || client.rpc.call::<MsyncResponseProto>("msync", &MsyncRequestProto {}).is_ok();
    assert_eq!([sync(), sync(), sync(), sync()], [true, true, false, false]);
    assert_eq!(cluster.active(), 1);
}

#[test]
fn safe_mode_after_a_start_asks_for_a_retry() {
    let cluster = cluster();
    cluster.set_startup_safe_mode(true);
    let mut client = Client::on(&cluster, 0, "tester");
    let req = client.create_request("/f", 1, 1024);
    let error = client.rpc.call::<CreateResponseProto>("create", &req).unwrap_err();
    assert_eq!(error.class, "org.apache.hadoop.ipc.RetriableException");
    cluster.set_startup_safe_mode(false);
    client.create("/f", 1, 1024);
}
