//! Names, attributes, listings, quotas, and the exceptions they come with.
use dfs::proto::hdfs::*;
use dfs_testkit::minidfs::MiniDfs;

use super::raw::*;

fn cluster() -> MiniDfs {
    MiniDfs::builder().datanodes(1).list_limit(3).start().unwrap()
}

impl Client {
    fn mkdir(&mut self, src: &str, parents: bool) -> Result<bool, Remote> {
        let req = MkdirsRequestProto {
            src: src.to_owned(),
            masked: FsPermissionProto { perm: 0o750 },
            create_parent: parents,
            unmasked: None,
        };
        self.rpc.call::<MkdirsResponseProto>("mkdirs", &req).map(|r| r.result)
    }

    fn touch(&mut self, src: &str) {
        let id = self.create(src, 1, 1024);
        self.complete(src, id, None);
    }

    fn list(&mut self, src: &str, after: &str) -> Option<(Vec<String>, u32)> {
        let req = GetListingRequestProto {
            src: src.to_owned(),
            start_after: after.as_bytes().to_vec(),
            need_location: false,
        };
        let answer: GetListingResponseProto = self.rpc.call("getListing", &req).unwrap();
        answer.dir_list.map(|l| {
            let name = |s: &HdfsFileStatusProto| String::from_utf8(s.path.clone()).unwrap();
            (l.partial_listing.iter().map(name).collect(), l.remaining_entries)
        })
    }

    fn rename(&mut self, src: &str, dst: &str) -> bool {
        let req = RenameRequestProto { src: src.to_owned(), dst: dst.to_owned() };
        self.rpc.call::<RenameResponseProto>("rename", &req).unwrap().result
    }

    fn rename2(&mut self, src: &str, dst: &str, overwrite_dest: bool) -> Result<(), Remote> {
        let req = Rename2RequestProto {
            src: src.to_owned(),
            dst: dst.to_owned(),
            overwrite_dest,
            move_to_trash: None,
        };
        self.rpc.call::<Rename2ResponseProto>("rename2", &req).map(|_| ())
    }

    fn delete(&mut self, src: &str, recursive: bool) -> Result<bool, Remote> {
        let req = DeleteRequestProto { src: src.to_owned(), recursive };
        self.rpc.call::<DeleteResponseProto>("delete", &req).map(|r| r.result)
    }

    fn quota(&mut self, path: &str, ns: u64, ds: u64) -> Result<(), Remote> {
        let req = SetQuotaRequestProto {
            path: path.to_owned(),
            namespace_quota: ns,
            storagespace_quota: ds,
            storage_type: None,
        };
        self.rpc.call::<SetQuotaResponseProto>("setQuota", &req).map(|_| ())
    }

    fn try_create(&mut self, req: &CreateRequestProto) -> Result<CreateResponseProto, Remote> {
        self.rpc.call("create", req)
    }
}

#[track_caller]
fn expect<T: std::fmt::Debug>(result: Result<T, Remote>, class: &str, text: &str) {
    let error = result.unwrap_err();
    assert!(error.is(class), "{error:?}");
    assert!(error.message.contains(text), "{error:?}");
}

#[test]
fn directories() {
    let cluster = cluster();
    let mut c = Client::new(&cluster);
    assert!(c.mkdir("/a/b/c", true).unwrap());
    assert!(c.mkdir("/a/b/c", true).unwrap(), "again");
    let info = c.info("/a/b/c").unwrap();
    assert_eq!(
        (info.file_type(), info.permission.perm),
        (hdfs_file_status_proto::FileType::IsDir, 0o750)
    );
    assert_eq!((info.owner.as_str(), info.path.len()), ("tester", 0));
    expect(c.mkdir("/x/y", false), "java.io.FileNotFoundException", "/x");
    c.touch("/a/f");
    expect(c.mkdir("/a/f", true), "fs.FileAlreadyExistsException", "not a directory");
    expect(c.mkdir("/a/f/g", true), "fs.ParentNotDirectoryException", "/a/f (is not a directory)");
    expect(c.mkdir("/a//b", true), "InvalidPathException", "/a//b");
    expect(c.mkdir(&format!("/{}", "n".repeat(256)), true), "PathComponentTooLongException", "255");
    expect(c.mkdir(&"/d".repeat(1001), true), "java.io.IOException", "Pathname too long");
    expect(c.mkdir("a", true), "InvalidPathException", "a");
    let req = GetFileInfoRequestProto { src: "a".to_owned() };
    expect(
        c.rpc.call::<GetFileInfoResponseProto>("getFileInfo", &req),
        "AssertionError",
        "Absolute",
    );
    assert!(c.info("/nothing/here").is_none());
    let id = c.info("/a").unwrap().file_id();
    assert_eq!(c.info(&format!("/.reserved/.inodes/{id}/b")).unwrap().children_num(), 1);
}

#[test]
fn listings_come_in_pages() {
    let cluster = cluster();
    let mut c = Client::new(&cluster);
    for name in ["e", "a", "d", "b", "c", "ä", "Z"] {
        c.touch(&format!("/dir/{name}"));
    }
    let (mut names, mut left) = c.list("/dir", "").unwrap();
    assert_eq!((names.len(), left), (3, 4));
    while left > 0 {
        let (page, rest) = c.list("/dir", names.last().unwrap()).unwrap();
        names.extend(page);
        left = rest;
    }
    assert_eq!(names, ["Z", "a", "b", "c", "d", "e", "ä"]);
    assert_eq!(c.list("/dir/a", "").unwrap(), (vec![String::new()], 0));
    assert!(c.list("/missing", "").is_none());
}

#[test]
fn create_checks() {
    let cluster = cluster();
    let mut c = Client::new(&cluster);
    let good = c.create_request("/d/f", 1, 1024);
    assert_eq!(c.try_create(&good).unwrap().fs.unwrap().block_replication(), 1);
    let mut other = Client::new(&cluster);
    let theirs = other.create_request("/d/f", 1, 1024);
    expect(other.try_create(&theirs), "AlreadyBeingCreatedException", "currently owned by");
    expect(c.try_create(&good), "AlreadyBeingCreatedException", "already the current lease holder");
    let id = c.info("/d/f").unwrap().file_id();
    c.complete("/d/f", id, None);
    expect(c.try_create(&good), "fs.FileAlreadyExistsException", "already exists");
    expect(
        c.try_create(&CreateRequestProto { src: "/d".to_owned(), ..good.clone() }),
        "FileAlreadyExistsException",
        "as a directory",
    );
    let fresh = CreateRequestProto { src: "/n/f".to_owned(), ..good.clone() };
    expect(
        c.try_create(&CreateRequestProto { create_parent: false, ..fresh.clone() }),
        "FileNotFoundException",
        "/n",
    );
    expect(
        c.try_create(&CreateRequestProto { create_flag: 2, ..fresh.clone() }),
        "FileNotFoundException",
        "Can't overwrite",
    );
    expect(
        c.try_create(&CreateRequestProto { block_size: 511, ..fresh.clone() }),
        "java.io.IOException",
        "511 < 512",
    );
    expect(
        c.try_create(&CreateRequestProto { replication: 0, ..fresh.clone() }),
        "java.io.IOException",
        "minimum",
    );
    expect(
        c.try_create(&CreateRequestProto { replication: 513, ..fresh.clone() }),
        "java.io.IOException",
        "maximum of 512",
    );
    expect(
        c.try_create(&CreateRequestProto { client_name: String::new(), ..fresh }),
        "IllegalArgumentException",
        "client name",
    );
    let over = CreateRequestProto { create_flag: 3, ..theirs };
    assert_ne!(other.try_create(&over).unwrap().fs.unwrap().file_id(), id);
}

#[test]
fn renames() {
    let cluster = cluster();
    let mut c = Client::new(&cluster);
    c.touch("/a/f");
    c.touch("/b/g");
    assert!(!c.rename("/missing", "/x"));
    assert!(!c.rename("/a/f", "/b/g"), "the target exists");
    assert!(!c.rename("/a/f", "/none/x"), "no parent");
    assert!(!c.rename("/a", "/a/inside"));
    assert!(c.rename("/a/f", "/a/f"));
    assert!(c.rename("/a/f", "/b"), "into the directory");
    assert!(c.info("/b/f").is_some() && c.info("/a/f").is_none());
    expect(c.rename2("/missing", "/x", false), "FileNotFoundException", "source");
    expect(c.rename2("/b/f", "/b/g", false), "FileAlreadyExistsException", "already exists");
    expect(c.rename2("/b/f", "/b/f", false), "FileAlreadyExistsException", "the same");
    expect(c.rename2("/b", "/b/x", false), "java.io.IOException", "under source");
    expect(c.rename2("/b/f", "/none/x", false), "FileNotFoundException", "parent");
    expect(c.rename2("/a", "/b", true), "java.io.IOException", "not empty");
    expect(c.rename2("/b/f", "/a", true), "java.io.IOException", "both");
    c.rename2("/b/f", "/b/g", true).unwrap();
    assert_eq!(c.list("/b", "").unwrap().0, ["g"]);
}

#[test]
fn deletes_take_blocks_with_them() {
    let cluster = cluster();
    let mut c = Client::new(&cluster);
    c.write_file("/d/f", 1, 1 << 20, &pattern(100));
    expect(c.delete("/d", false), "PathIsNotEmptyDirectoryException", "non empty");
    assert!(!c.delete("/none", true).unwrap());
    assert!(!c.delete("/", true).unwrap());
    assert_eq!(cluster.datanode(0).unwrap().block_ids().len(), 1);
    assert!(c.delete("/d", true).unwrap());
    assert!(c.info("/d").is_none());
    wait_for(|| cluster.datanode(0).unwrap().block_ids().is_empty());
}

#[test]
fn attributes() {
    let cluster = cluster();
    let mut c = Client::new(&cluster);
    c.write_file("/f", 1, 1 << 20, &pattern(100));
    let src = || "/f".to_owned();
    let perm =
        SetPermissionRequestProto { src: src(), permission: FsPermissionProto { perm: 0o1600 } };
    c.rpc.call::<SetPermissionResponseProto>("setPermission", &perm).unwrap();
    let owner =
        SetOwnerRequestProto { src: src(), username: Some("me".to_owned()), groupname: None };
    c.rpc.call::<SetOwnerResponseProto>("setOwner", &owner).unwrap();
    let times = SetTimesRequestProto { src: src(), mtime: 1234, atime: u64::MAX };
    c.rpc.call::<SetTimesResponseProto>("setTimes", &times).unwrap();
    let more = SetReplicationRequestProto { src: src(), replication: 4 };
    assert!(c.rpc.call::<SetReplicationResponseProto>("setReplication", &more).unwrap().result);
    let info = c.info("/f").unwrap();
    assert_eq!(
        (info.permission.perm, info.owner.as_str(), info.group.as_str()),
        (0o1600, "me", "supergroup")
    );
    assert_eq!((info.modification_time, info.block_replication()), (1234, 4));
    let none = SetReplicationRequestProto { src: "/none".to_owned(), replication: 1 };
    assert!(!c.rpc.call::<SetReplicationResponseProto>("setReplication", &none).unwrap().result);
    let bsize: GetPreferredBlockSizeResponseProto = c
        .rpc
        .call("getPreferredBlockSize", &GetPreferredBlockSizeRequestProto { filename: src() })
        .unwrap();
    assert_eq!(bsize.bsize, 1 << 20);
    let defaults: GetServerDefaultsResponseProto =
        c.rpc.call("getServerDefaults", &GetServerDefaultsRequestProto {}).unwrap();
    assert_eq!(defaults.server_defaults.bytes_per_checksum, 512);
    let stats: GetFsStatsResponseProto =
        c.rpc.call("getFsStats", &GetFsStatusRequestProto {}).unwrap();
    assert_eq!((stats.used, stats.missing_blocks), (100, 0));
}

#[test]
fn quotas() {
    let cluster = cluster();
    let mut c = Client::new(&cluster);
    c.mkdir("/q", true).unwrap();
    c.quota("/q", 3, 5000).unwrap();
    c.touch("/q/a");
    c.touch("/q/b");
    let third = c.create_request("/q/c", 1, 1024);
    expect(c.try_create(&third), "NSQuotaExceededException", "quota=3 file count=4");
    c.delete("/q/b", true).unwrap();
    c.write_file("/q/c", 1, 1024, &pattern(1024));
    let req = GetContentSummaryRequestProto { path: "/q".to_owned() };
    let sum =
        c.rpc.call::<GetContentSummaryResponseProto>("getContentSummary", &req).unwrap().summary;
    assert_eq!((sum.file_count, sum.directory_count, sum.length), (2, 1, 1024));
    assert_eq!((sum.quota, sum.space_quota, sum.space_consumed), (3, 5000, 1024));
    c.delete("/q/a", true).unwrap();
    let id = c.create("/q/big", 1, 4096);
    expect(c.try_add_block("/q/big", id, None, &[]), "DSQuotaExceededException", "quota = 5000");
    c.quota("/q", u64::MAX, u64::MAX).unwrap();
    c.try_add_block("/q/big", id, None, &[]).unwrap();
    expect(c.quota("/q", 0, 1), "IllegalArgumentException", "Illegal value");
}

#[test]
fn concat_joins_closed_files() {
    let cluster = cluster();
    let mut c = Client::new(&cluster);
    let data = pattern(3000);
    c.write_file("/d/a", 1, 1024, &data[..1024]);
    c.write_file("/d/b", 1, 1024, &data[1024..]);
    let concat = |srcs: &[&str]| ConcatRequestProto {
        trg: "/d/a".to_owned(),
        srcs: srcs.iter().map(|s| (*s).to_owned()).collect(),
    };
    let call =
        |c: &mut Client, srcs: &[&str]| c.rpc.call::<ConcatResponseProto>("concat", &concat(srcs));
    expect(call(&mut c, &[]), "HadoopIllegalArgumentException", "empty");
    expect(call(&mut c, &["/d/a"]), "HadoopIllegalArgumentException", "same with the target");
    expect(call(&mut c, &["/d/b", "/d/b"]), "HadoopIllegalArgumentException", "are the same");
    call(&mut c, &["/d/b"]).unwrap();
    assert!(c.info("/d/b").is_none());
    assert!(c.read_file("/d/a", 0) == data);
}

#[test]
fn safe_mode_and_permissions() {
    let cluster = MiniDfs::builder()
        .datanodes(1)
        .configure(|c| {
            c.superuser = Some("tester".to_owned());
            c.permission_hook =
                Some(std::sync::Arc::new(|_, method, path| method != "create" || path != "/no"));
        })
        .start()
        .unwrap();
    let mut root = Client::new(&cluster);
    let mut user = Client::on(&cluster, 0, "joe");
    let req = user.create_request("/no", 1, 1024);
    expect(user.try_create(&req), "AccessControlException", "Permission denied: user=joe");
    expect(user.quota("/", 1, 1), "AccessControlException", "Superuser");
    root.touch("/no");
    let enter = SetSafeModeRequestProto {
        action: SafeModeActionProto::SafemodeEnter as i32,
        checked: None,
    };
    assert!(root.rpc.call::<SetSafeModeResponseProto>("setSafeMode", &enter).unwrap().result);
    expect(user.mkdir("/x", true), "SafeModeException", "Name node is in safe mode");
    assert!(user.info("/no").is_some());
    let leave = SetSafeModeRequestProto {
        action: SafeModeActionProto::SafemodeLeave as i32,
        checked: None,
    };
    assert!(!root.rpc.call::<SetSafeModeResponseProto>("setSafeMode", &leave).unwrap().result);
    assert!(user.mkdir("/x", true).unwrap());
}
