//! The NameNode's calls against `minidfs`, with faults, and against real Hadoop, with Hadoop's own
//! client to compare.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

mod faults;
mod on_hadoop;
mod on_minidfs;

use dfs::client::metadata::Metadata;
use dfs::conf::Config;
use dfs::error::{Error, Status};
use dfs::namenode::NameNode;
use dfs::proto::hdfs::{CreateRequestProto, FsPermissionProto};
use dfs::time::Deadline;
use dfs_testkit::minidfs::MiniDfs;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Far more than any call here takes.
fn limit() -> Deadline {
    Deadline::after_ms(30_000)
}

/// A client of `authority`, with settings on top.
fn client(mut config: Config, authority: &str, settings: &[(&str, &str)]) -> Arc<NameNode> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    for (key, value) in settings {
        config.set(key, value);
    }
    let service = config.name_service(authority).unwrap();
    let frozen = Arc::new(config.freeze(Some(authority)).unwrap());
    let name = format!("rpc-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    Arc::new(NameNode::new(service, frozen, name).unwrap())
}

fn mini(cluster: &MiniDfs, settings: &[(&str, &str)]) -> Arc<NameNode> {
    client(Config::new(), cluster.uri().trim_start_matches("hdfs://"), settings)
}

/// A client of both NameNodes, which waits little between attempts.
fn mini_ha(cluster: &MiniDfs, settings: &[(&str, &str)]) -> Arc<NameNode> {
    let mut config = Config::new();
    config.set("dfs.nameservices", "ns");
    config.set("dfs.ha.namenodes.ns", "a,b");
    for (i, id) in ["a", "b"].iter().enumerate() {
        let addr = cluster.namenode_addr(i).unwrap().to_string();
        config.set(&format!("dfs.namenode.rpc-address.ns.{id}"), &addr);
    }
    config.set(
        "dfs.client.failover.proxy.provider.ns",
        "org.apache.hadoop.hdfs.server.namenode.ha.ConfiguredFailoverProxyProvider",
    );
    config.set("dfs.client.failover.sleep.base.millis", "5");
    config.set("dfs.client.failover.sleep.max.millis", "50");
    client(config, "ns", settings)
}

fn metadata(namenode: &Arc<NameNode>) -> Metadata {
    Metadata::new(Arc::clone(namenode))
}

/// A plain create (CREATE, no overwrite) with parents.
fn create_request(src: &str) -> CreateRequestProto {
    CreateRequestProto {
        src: src.into(),
        masked: FsPermissionProto { perm: 0o644 },
        create_flag: 1,
        create_parent: true,
        replication: 1,
        block_size: 1 << 20,
        ..Default::default()
    }
}

#[track_caller]
fn fails<T: std::fmt::Debug>(result: Result<T, Error>, status: Status, words: &str) -> Error {
    let e = result.unwrap_err();
    assert_eq!(e.status(), status, "{e}");
    assert!(e.to_string().contains(words), "{e}");
    e
}
