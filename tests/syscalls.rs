//! System calls per warm operation, counted by strace in a process of its own: one send and at most
//! two receives for an hflush, no thread switch (no futex), few calls for a pread.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]
use dfs_testkit::minidfs::MiniDfs;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

const COUNT: usize = 200;

fn example() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT
        .get_or_init(|| {
            // A run of this one test does not build examples.
            let built = Command::new(env!("CARGO"))
                // The features of the whole workspace: other ones would replace libdfs.rlib under
                // the tests that run.
                .args(["build", "--quiet", "--workspace", "--example", "flush_loop"])
                .status();
            assert!(built.expect("cargo runs").success(), "building the example");
            // target/<profile>/deps/syscalls-… → target/<profile>/examples/flush_loop
            let exe = std::env::current_exe().unwrap();
            exe.parent().unwrap().parent().unwrap().join("examples/flush_loop")
        })
        .clone()
}

/// Calls of the main thread between the two marks, and the number of threads of the client.
fn trace(args: &[&str]) -> (BTreeMap<String, usize>, usize) {
    let mini = MiniDfs::builder().datanodes(1).replication(1).start().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("trace");
    let output = Command::new("strace")
        .args(["-f", "-qq", "-o"])
        .arg(&log)
        .arg(example())
        .args([&mini.uri(), &COUNT.to_string(), "600"])
        .args(args)
        .output()
        .expect("strace is installed (make setup)");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = std::fs::read_to_string(&log).unwrap();
    let main = text.split_whitespace().next().unwrap().to_owned();
    let mut calls = BTreeMap::new();
    let mut inside = false;
    let mut threads = std::collections::BTreeSet::new();
    for line in text.lines() {
        let (pid, rest) = line.split_once(' ').unwrap();
        threads.insert(pid.to_owned());
        let rest = rest.trim_start();
        // "<... recvmsg resumed>" and "name(" both end in the call's name; count beginnings only.
        let Some((name, _)) = rest.split_once('(') else { continue };
        if pid != main || rest.starts_with('<') || rest.starts_with("---") {
            continue;
        }
        if name == "getppid" {
            inside = !inside;
        } else if inside {
            *calls.entry(name.to_owned()).or_insert(0) += 1;
        }
    }
    assert!(!calls.is_empty(), "no call between the marks:\n{text}");
    (calls, threads.len())
}

#[test]
fn an_hflush_is_one_send_and_at_most_two_receives_on_the_calling_thread() {
    let (calls, threads) = trace(&[]);
    let get = |name: &str| calls.get(name).copied().unwrap_or(0);
    assert_eq!(get("sendmsg"), COUNT, "{calls:?}");
    assert!(get("recvmsg") + get("poll") <= 2 * COUNT, "{calls:?}");
    assert_eq!(get("futex"), 0, "{calls:?}");
    let other: usize = calls
        .iter()
        .filter(|(name, _)| !["sendmsg", "recvmsg", "poll"].contains(&name.as_str()))
        .map(|(_, n)| n)
        .sum();
    assert!(other <= 2, "other calls: {calls:?}");
    assert!(threads <= 3, "caller, keeper and lease thread, but there are {threads}");
}

#[test]
fn a_pread_is_few_calls() {
    let (calls, _) = trace(&["pread"]);
    let total: usize = calls.values().sum();
    // Request, answer (up to three receives: response, header, data), read status; the cached
    // connection was used a moment ago and is not probed.
    assert!(total <= 5 * COUNT, "{calls:?}");
    assert_eq!(calls.get("connect"), None, "{calls:?}");
    assert_eq!(calls.get("futex"), None, "{calls:?}");
}
