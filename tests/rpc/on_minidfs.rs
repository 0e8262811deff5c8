//! Calls without faults.
use crate::{create_request, fails, limit, metadata, mini};
use dfs::client::status::FileKind;
use dfs::error::Status;
use dfs_testkit::minidfs::MiniDfs;

fn cluster() -> MiniDfs {
    MiniDfs::builder().datanodes(1).replication(1).list_limit(3).start().unwrap()
}

#[test]
fn directories_are_made_listed_renamed_and_deleted() {
    let cluster = cluster();
    let m = metadata(&mini(&cluster, &[("fs.permissions.umask-mode", "027")]));
    m.mkdir("/a/b/c", 0o777, true, limit()).unwrap();
    m.mkdir("/a/b/c", 0o777, false, limit()).unwrap();
    let status = m.stat("/a/b/c/", limit()).unwrap();
    assert_eq!((status.path.as_str(), status.kind), ("/a/b/c", FileKind::Directory));
    assert_eq!(status.mode, 0o750);
    fails(m.stat("/a/x", limit()), Status::NotFound, "/a/x");
    fails(m.mkdir("/no/b", 0o777, false, limit()), Status::NotFound, "/no");
    fails(m.stat("a", limit()), Status::BadPath, "\"a\"");
    for i in 0..10 {
        m.mkdir(&format!("/a/n{i}"), 0o755, false, limit()).unwrap();
    }
    let entries = m.list("/a", limit()).unwrap().collect(limit()).unwrap();
    let names: Vec<_> = entries.iter().map(|e| e.name()).collect();
    assert_eq!(names, ["b", "n0", "n1", "n2", "n3", "n4", "n5", "n6", "n7", "n8", "n9"]);
    assert_eq!(entries[1].path, "/a/n0");
    fails(m.list("/nope", limit()), Status::NotFound, "/nope");
    m.rename("/a/n0", "/a/z", false, limit()).unwrap();
    fails(m.rename("/a/n0", "/a/y", false, limit()), Status::NotFound, "/a/n0");
    fails(m.rename("/a/n1", "/a/z", false, limit()), Status::Exists, "/a/z");
    m.rename("/a/n1", "/a/z", true, limit()).unwrap();
    fails(m.delete("/a", false, limit()), Status::NotEmpty, "/a");
    assert!(m.delete("/a", true, limit()).unwrap());
    assert!(!m.delete("/a", true, limit()).unwrap());
    assert!(!m.exists("/a", limit()).unwrap());
}

#[test]
fn a_file_goes_through_its_life() {
    let cluster = cluster();
    let nn = mini(&cluster, &[]);
    let m = metadata(&nn);
    let status = nn.create(create_request("/f"), limit()).unwrap();
    let id = status.file_id();
    assert!(id > 0);
    let other = mini(&cluster, &[]);
    fails(other.create(create_request("/f"), limit()), Status::LeaseHeld, "create /f");
    assert!(!m.is_file_closed("/f", limit()).unwrap());
    let block = nn.add_block("/f", None, &[], id, &[], &[], limit()).unwrap();
    assert_eq!((block.locs.len(), block.offset), (1, 0));
    fails(
        other.add_block("/f", None, &[], id, &[], &[], limit()),
        Status::LeaseExpired,
        "addBlock /f",
    );
    let newer = nn.update_block_for_pipeline(&block.b, limit()).unwrap();
    assert!(newer.b.generation_stamp > block.b.generation_stamp);
    nn.fsync("/f", id, -1, limit()).unwrap();
    nn.abandon_block("/f", &block.b, id, limit()).unwrap();
    nn.renew_lease(limit()).unwrap();
    assert!(nn.complete("/f", None, id, limit()).unwrap());
    assert!(m.is_file_closed("/f", limit()).unwrap());
    fails(nn.create(create_request("/f"), limit()), Status::Exists, "/f");
    let status = m.stat("/f", limit()).unwrap();
    assert_eq!((status.kind, status.length, status.file_id), (FileKind::File, 0, id));
    assert_eq!((status.replication, status.block_size), (1, 1 << 20));
    let listed = m.list("/f", limit()).unwrap().collect(limit()).unwrap();
    assert_eq!(listed, [status]);
    assert!(m.block_locations("/f", 0, u64::MAX, limit()).unwrap().is_empty());
    fails(m.block_locations("/", 0, 1, limit()), Status::IsDirectory, "/");
}

#[test]
fn attributes_are_set_and_read_back() {
    let cluster = cluster();
    let nn = mini(&cluster, &[]);
    let m = metadata(&nn);
    let id = nn.create(create_request("/d/f"), limit()).unwrap().file_id();
    nn.complete("/d/f", None, id, limit()).unwrap();
    m.set_permission("/d/f", 0o1640, limit()).unwrap();
    fails(m.set_permission("/d/f", 0o4640, limit()), Status::InvalidArgument, "4640");
    m.set_times("/d/f", Some(123_456), None, limit()).unwrap();
    m.set_owner("/d/f", Some("o"), Some("g"), limit()).unwrap();
    fails(m.set_owner("/d/f", None, None, limit()), Status::InvalidArgument, "/d/f");
    m.set_replication("/d/f", 2, limit()).unwrap();
    fails(m.set_replication("/d", 2, limit()), Status::IsDirectory, "/d");
    fails(m.set_replication("/x", 2, limit()), Status::NotFound, "/x");
    let status = m.stat("/d/f", limit()).unwrap();
    assert_eq!((status.mode, status.mtime_ms, status.replication), (0o1640, 123_456, 2));
    assert_eq!((status.owner.as_str(), status.group.as_str()), ("o", "g"));
    m.set_quota("/d", 10, -1, limit()).unwrap();
    let summary = m.content_summary("/d", limit()).unwrap();
    assert_eq!((summary.file_count, summary.directory_count), (1, 1));
    assert_eq!((summary.quota, summary.space_quota), (10, -1));
    assert!(m.fs_status(limit()).unwrap().capacity > 0);
    assert_eq!(m.server_defaults(limit()).unwrap().replication, 1);
    let before = cluster.call_count("getServerDefaults");
    m.server_defaults(limit()).unwrap();
    assert_eq!(cluster.call_count("getServerDefaults"), before);
    assert!(!m.in_safe_mode(limit()).unwrap());
    assert_eq!(nn.get_datanode_report(2, limit()).unwrap().len(), 1);
    assert_eq!(nn.get_preferred_block_size("/d/f", limit()).unwrap(), 1 << 20);
}

#[test]
fn many_threads_use_one_connection() {
    let cluster = cluster();
    let m = metadata(&mini(&cluster, &[]));
    std::thread::scope(|scope| {
        for thread in 0..16 {
            let m = &m;
            scope.spawn(move || {
                for i in 0..50 {
                    let path = format!("/t{thread}/d{i}");
                    m.mkdir(&path, 0o755, true, limit()).unwrap();
                    assert_eq!(m.stat(&path, limit()).unwrap().path, path);
                }
            });
        }
    });
    assert_eq!(cluster.namenode_connections().1, 1);
}
