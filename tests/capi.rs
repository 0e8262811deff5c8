//! The C API from outside: C programs compiled against the header and the shared library, the
//! examples, a Python program with bare ctypes, the exported symbols and the header itself.
//!
//! Each behavioural test runs on `minidfs` and on real Hadoop.
use dfs_testkit::hadoop::Cluster;
use dfs_testkit::minidfs::MiniDfs;
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Longest time that one program may run: none needs more than some seconds on an idle machine.
const LIMIT: Duration = Duration::from_secs(240);

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The directory with the shared library that cargo built for this test.
fn library_dir() -> PathBuf {
    let exe = std::env::current_exe().expect("own path");
    let dir = exe.parent().expect("a directory").to_owned();
    assert!(dir.join("libdfs.so").exists(), "no libdfs.so in {}", dir.display());
    dir
}

/// A directory for the programs of this run, with `dfs.pc` for pkg-config.
fn work_dir() -> &'static Path {
    static DIR: OnceLock<tempfile::TempDir> = OnceLock::new();
    DIR.get_or_init(|| {
        let dir = tempfile::Builder::new().prefix("capi-").tempdir().expect("a directory");
        let lib = library_dir();
        let text = format!(
            "Name: dfs\nDescription: libdfs\nVersion: {}\nCflags: -I{}\n\
             Libs: -L{lib} -ldfs -Wl,-rpath,{lib}\n",
            env!("CARGO_PKG_VERSION"),
            root().join("include").display(),
            lib = lib.display()
        );
        std::fs::write(dir.path().join("dfs.pc"), text).expect("dfs.pc");
        // The library has its SONAME in it; cargo makes no file of that name.
        let link = lib.join("libdfs.so.0");
        match std::os::unix::fs::symlink("libdfs.so", &link) {
            Err(e) if e.kind() != std::io::ErrorKind::AlreadyExists => panic!("{link:?}: {e}"),
            _ => {}
        }
        dir
    })
    .path()
}

/// What a program printed.
struct Output {
    success: bool,
    stdout: Vec<u8>,
    stderr: String,
}

/// Runs a command to its end, within the limit.
fn output_of(command: &mut Command) -> Output {
    let shown = format!("{command:?}");
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|e| panic!("{shown}: {e}"));
    let mut stdout = child.stdout.take().expect("piped");
    let mut stderr = child.stderr.take().expect("piped");
    let out = std::thread::spawn(move || {
        let mut all = Vec::new();
        stdout.read_to_end(&mut all).map(|_| all)
    });
    let err = std::thread::spawn(move || {
        let mut all = String::new();
        stderr.read_to_string(&mut all).map(|_| all)
    });
    let started = Instant::now();
    let status = loop {
        match child.try_wait().expect("waiting") {
            Some(status) => break status,
            None if started.elapsed() > LIMIT => {
                child.kill().expect("killing");
                child.wait().expect("waiting");
                let text = err.join().expect("reader").unwrap_or_default();
                panic!("{shown} did not end within {LIMIT:?}\n{text}");
            }
            None => std::thread::sleep(Duration::from_millis(10)),
        }
    };
    Output {
        success: status.success(),
        stdout: out.join().expect("reader").expect("reading"),
        stderr: err.join().expect("reader").expect("reading"),
    }
}

/// Runs a command that must succeed.
fn run(command: &mut Command) -> String {
    let output = output_of(command);
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.success, "{command:?} failed\n{stdout}\n{}", output.stderr);
    stdout
}

const WARNINGS: [&str; 4] = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"];

/// Compiles a program of tests/capi against the shared library.
fn compile(compiler: &str, source: &str, variant: &str, flags: &[&str]) -> PathBuf {
    let program = work_dir().join(format!("{source}-{variant}"));
    let lib = library_dir();
    let mut command = Command::new(compiler);
    command.args(WARNINGS).args(flags).arg("-g").arg("-I").arg(root().join("include"));
    if compiler == "c++" {
        command.args(["-x", "c++"]);
    }
    command.arg(root().join(format!("tests/capi/{source}.c")));
    command.args(["-x", "none", "-o"]).arg(&program).arg("-L").arg(&lib);
    command.args(["-ldfs", "-pthread"]).arg(format!("-Wl,-rpath,{}", lib.display()));
    run(&mut command);
    program
}

/// A program that finds no configuration but its arguments.
fn program(path: impl AsRef<Path>) -> Command {
    let mut command = Command::new(path.as_ref());
    command.env_remove("HADOOP_CONF_DIR").env_remove("HADOOP_HOME");
    command
}

/// The server under test.
struct Server {
    uri: String,
}

impl Server {
    fn minidfs() -> Server {
        static SHARED: OnceLock<MiniDfs> = OnceLock::new();
        let start = || MiniDfs::builder().datanodes(3).replication(3).start();
        Server { uri: SHARED.get_or_init(|| start().expect("minidfs starts")).uri() }
    }

    fn hadoop() -> Server {
        Server { uri: Cluster::shared().expect("real Hadoop starts").uri() }
    }

    /// A directory that no other test uses.
    fn directory(&self) -> String {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        format!("/capi-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

macro_rules! on_every_server {
    ($($name:ident),* $(,)?) => {
        mod on_minidfs {
            $(#[test] fn $name() { super::$name(&super::Server::minidfs()); })*
        }
        mod on_hadoop {
            $(#[test] fn $name() { super::$name(&super::Server::hadoop()); })*
        }
    };
}

on_every_server!(
    every_call_works,
    a_forked_child_starts_afresh,
    calls_that_never_wait,
    bare_ctypes_work,
    warm_calls_allocate_nothing,
    the_log_example,
    the_reading_examples,
    the_copying_examples,
);

#[test]
fn the_header_is_that_of_the_sources() {
    let mut command = Command::new(env!("CARGO"));
    command.args(["run", "--quiet", "-p", "xtask", "--features", "header", "--"]);
    command.args(["header", "--check"]).current_dir(root());
    // Building the generator may take longer than the programs of this file.
    let status = command.stdin(Stdio::null()).status().expect("cargo runs");
    assert!(status.success(), "include/dfs.h is not what src/capi says");
}

#[test]
fn the_header_compiles_as_every_dialect() {
    for (compiler, standard) in
        [("cc", "c99"), ("cc", "c11"), ("cc", "c17"), ("c++", "c++11"), ("c++", "c++17")]
    {
        let flag = format!("-std={standard}");
        let built = compile(compiler, "version", standard, &[&flag]);
        run(program(built).arg(env!("CARGO_PKG_VERSION")));
    }
}

/// Names of the functions that the header declares.
fn declared() -> BTreeSet<String> {
    let header = std::fs::read_to_string(root().join("include/dfs.h")).expect("the header");
    let lines = header
        .lines()
        .filter(|line| !line.starts_with([' ', '/', '#', '}']) && !line.starts_with("typedef"));
    let names = lines.filter_map(|line| {
        let (before, _) = line.split_once('(')?;
        let name = before.rsplit([' ', '*']).next()?;
        name.starts_with("dfs_").then(|| name.to_owned())
    });
    names.collect()
}

#[test]
fn exactly_the_declared_functions_are_exported() {
    let library = library_dir().join("libdfs.so");
    let listing = run(Command::new("nm").args(["-D", "--defined-only"]).arg(&library));
    let exported: BTreeSet<String> = listing
        .lines()
        .filter_map(|line| line.split_whitespace().last())
        .map(str::to_owned)
        .collect();
    let declared = declared();
    assert!(declared.len() > 60, "the header declares {declared:?}");
    assert_eq!(exported, declared);
}

#[test]
fn every_function_says_what_it_promises() {
    let header = std::fs::read_to_string(root().join("include/dfs.h")).expect("the header");
    for name in declared() {
        let at = header.find(&format!("{name}(")).filter(|_| true);
        let declaration = header
            .match_indices(&format!("{name}("))
            .map(|(at, _)| at)
            .find(|&at| header[..at].rsplit('\n').next().is_some_and(|line| !line.contains("* ")))
            .or(at)
            .expect("declared");
        let comment = header[..declaration].rsplit("/**").next().unwrap_or_default();
        for word in ["Thread", "lock", "Since 0.1."] {
            assert!(comment.contains(word), "the comment of {name} lacks {word:?}");
        }
    }
}

/// Serves each connection with a function, for as long as the process runs.
fn listen(serve: impl Fn(TcpStream) + Send + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("its address").port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            serve(stream.expect("a connection"));
        }
    });
    port
}

/// A server that answers the first bytes with `answer` and closes.
fn answer_with(answer: &'static [u8]) -> u16 {
    listen(move |mut stream| {
        let mut first = [0; 4096];
        // The peer may be gone already, which is as good.
        if stream.read(&mut first).is_ok_and(|n| n > 0) {
            let _gone = stream.write_all(answer);
        }
    })
}

#[test]
fn bad_input_has_its_own_status_and_names_the_culprit() {
    let built = compile("cc", "bad_input", "c11", &["-std=c11"]);
    let refused = {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        listener.local_addr().expect("its address").port()
    };
    let http = answer_with(
        b"HTTP/1.1 404 Not Found\r\nContent-Type: application/octet-stream\r\n\r\nnot here",
    );
    let garbage = answer_with(b"\x13\x37\xde\xad\xbe\xef\x00\xff garbage \x80\x81 garbage garbage");
    let kept = std::sync::Mutex::new(Vec::new());
    let silent = listen(move |stream| kept.lock().expect("not poisoned").push(stream));
    let mut command = program(built);
    command.arg(Server::minidfs().uri).arg(work_dir());
    for port in [refused, http, garbage, silent] {
        command.arg(port.to_string());
    }
    run(&mut command);
}

fn every_call_works(server: &Server) {
    let built = compile("cc", "round_trip", &server.directory()[1..], &["-std=c11"]);
    run(program(built).arg(&server.uri).arg(server.directory()));
}

#[test]
fn address_sanitizer_finds_nothing() {
    let server = Server::minidfs();
    let flags = ["-std=c11", "-fsanitize=address", "-fno-omit-frame-pointer"];
    for source in ["round_trip", "fork", "races", "tickets"] {
        let built = compile("cc", source, "asan", &flags);
        let mut command = program(built);
        command.env("ASAN_OPTIONS", "detect_leaks=1:exitcode=99");
        run(command.arg(&server.uri).arg(server.directory()));
    }
}

fn calls_that_never_wait(server: &Server) {
    let built = compile("cc", "tickets", &server.directory()[1..], &["-std=c11"]);
    run(program(built).arg(&server.uri).arg(server.directory()));
}

fn a_forked_child_starts_afresh(server: &Server) {
    let built = compile("cc", "fork", &server.directory()[1..], &["-std=c11"]);
    run(program(built).arg(&server.uri).arg(server.directory()));
}

fn warm_calls_allocate_nothing(server: &Server) {
    let built = compile("cc", "allocations", &server.directory()[1..], &["-std=c11"]);
    run(program(built).arg(&server.uri).arg(server.directory()));
}

fn bare_ctypes_work(server: &Server) {
    let mut command = program("python3");
    command.arg(root().join("tests/python/bare_ctypes.py")).arg(library_dir().join("libdfs.so"));
    let printed = run(command.arg(&server.uri).arg(server.directory()));
    assert!(printed.contains("works with ctypes"), "{printed}");
}

/// Builds an example as its Makefile does, once.
fn example(name: &str) -> PathBuf {
    static BUILT: OnceLock<()> = OnceLock::new();
    BUILT.get_or_init(|| {
        for name in ["wal", "tail", "pread", "copy", "cat"] {
            let mut make = Command::new("make");
            make.arg("-C").arg(root().join("c-examples").join(name));
            make.arg(format!("OUT={}", work_dir().display())).arg("CFLAGS=-O1 -g -Werror");
            run(make.env("PKG_CONFIG_PATH", work_dir()));
        }
    });
    work_dir().join(name)
}

#[test]
fn examples_explain_themselves() {
    for name in ["wal", "tail", "pread", "copy", "cat"] {
        let help = run(program(example(name)).arg("--help"));
        assert!(help.starts_with(&format!("usage: {name} ")), "{help}");
        let bad = output_of(program(example(name)).arg("--nonsense"));
        assert!(!bad.success && bad.stderr.contains("bad option --nonsense"), "{}", bad.stderr);
        let none = output_of(&mut program(example(name)));
        assert!(!none.success && none.stderr.contains("usage"), "{}", none.stderr);
    }
}

fn the_log_example(server: &Server) {
    let url = format!("{}{}/wal", server.uri, server.directory());
    for threads in ["1", "4"] {
        let mut command = program(example("wal"));
        let printed = run(command
            .args(["--records", "300", "--reads", "50", "--threads", threads])
            .arg(&url));
        for words in
            ["hflush   300", "p99", "verified 300 records", "pread    50", "pool ", "300 flushes"]
        {
            assert!(printed.contains(words), "no {words:?} in\n{printed}");
        }
    }
    let missing = output_of(program(example("wal")).arg("hdfs://127.0.0.1:1/x"));
    assert!(!missing.success && missing.stderr.contains("DFS_E_CONNECT"), "{}", missing.stderr);
}

fn the_reading_examples(server: &Server) {
    let url = format!("{}{}/random", server.uri, server.directory());
    let mut command = program(example("pread"));
    command.args(["--create", "3000000", "--threads", "4", "--reads", "50", "--size", "5000"]);
    let printed = run(command.arg(&url));
    assert!(printed.contains("200 reads of 5000 bytes on 4 threads"), "{printed}");
    assert!(printed.contains("p99"), "{printed}");
}

fn the_copying_examples(server: &Server) {
    let data: Vec<u8> = (0..2_500_000_u32).map(|i| ((i * 31) >> 3) as u8).collect();
    let directory = server.directory();
    let local = work_dir().join(format!("{}-in", &directory[1..]));
    let back = work_dir().join(format!("{}-out", &directory[1..]));
    std::fs::write(&local, &data).expect("a file");
    let url = format!("{}{directory}/copied", server.uri);
    let copy = || program(example("copy"));
    run(copy().args(["--block-size", "1048576", "--replication", "2"]).arg(&local).arg(&url));
    let exists = output_of(copy().arg(&local).arg(&url));
    assert!(!exists.success && exists.stderr.contains("DFS_E_EXISTS"), "{}", exists.stderr);
    run(copy().arg("--force").arg(&local).arg(&url));
    run(copy().arg(&url).arg(&back));
    assert!(std::fs::read(&back).expect("the copy") == data, "the copy differs");
    let exists = output_of(copy().arg(&url).arg(&back));
    assert!(!exists.success && exists.stderr.contains("exists"), "{}", exists.stderr);

    let cat =
        output_of(program(example("cat")).args(["--offset", "1000", "--length", "5000"]).arg(&url));
    assert!(cat.success && cat.stdout == data[1000..6000], "{}", cat.stderr);
    let missing = output_of(program(example("cat")).arg(format!("{url}-none")));
    assert!(!missing.success && missing.stderr.contains("DFS_E_NOT_FOUND"), "{}", missing.stderr);
    let tail = output_of(program(example("tail")).args(["--bytes", "777", "--follow"]).arg(&url));
    assert!(tail.success && tail.stdout == data[data.len() - 777..], "{}", tail.stderr);
}

#[test]
fn tail_follows_a_growing_file() {
    use dfs::client::file_system::{CreateOptions, FileSystem};
    use dfs::time::Deadline;
    let server = Server::minidfs();
    let limit = || Deadline::after(Duration::from_secs(60));
    let config = dfs::conf::Config::new();
    let fs = FileSystem::connect(&config, Some(&server.uri), limit()).expect("connecting");
    let path = format!("{}/growing", server.directory());
    let options = CreateOptions { create_parents: true, ..CreateOptions::default() };
    let out = fs.create(&path, &options, limit()).expect("a file");
    let write = |text: &str| {
        out.write(text.as_bytes(), limit()).expect("writing");
        out.flush(dfs::write::SyncMode::default(), limit()).expect("flushing");
    };
    write("first\n");
    let mut child = program(example("tail"))
        .args(["--follow", "--interval", "20"])
        .arg(format!("{}{path}", server.uri))
        .stdout(Stdio::piped())
        .spawn()
        .expect("tail runs");
    let mut printed = child.stdout.take().expect("piped");
    let mut got = vec![0; 6];
    printed.read_exact(&mut got).expect("the first line");
    for i in 0..5 {
        let line = format!("line {i}\n");
        write(&line);
        let mut got = vec![0; line.len()];
        printed.read_exact(&mut got).expect("a line");
        assert_eq!(got, line.as_bytes());
    }
    out.close(limit()).expect("closing");
    let mut rest = Vec::new();
    printed.read_to_end(&mut rest).expect("the end");
    assert!(rest.is_empty() && child.wait().expect("waiting").success());
}

/// What `dfs_fs_close` and `dfs_shutdown` promise, where a DataNode that stands still can be had.
#[test]
fn closing_a_file_system_ends_calls_that_wait() {
    use dfs::client::file_system::{CreateOptions, FileSystem};
    use dfs::error::Status;
    use dfs::time::Deadline;
    let mini = MiniDfs::builder().datanodes(1).replication(1).start().expect("minidfs starts");
    let limit = || Deadline::after(Duration::from_secs(60));
    let config = dfs::conf::Config::new();
    let fs = FileSystem::connect(&config, Some(&mini.uri()), limit()).expect("connecting");
    let out = fs.create("/waits", &CreateOptions::default(), limit()).expect("a file");
    let flush = || out.flush(dfs::write::SyncMode::default(), limit());
    out.write(b"durable", limit()).expect("writing");
    flush().expect("flushing");
    let datanode = mini.datanode(0).expect("a DataNode");
    datanode.pause();
    out.write(b"not so", limit()).expect("writing");
    std::thread::scope(|scope| {
        let (tell, told) = std::sync::mpsc::channel();
        scope.spawn(move || tell.send(flush()));
        let early = told.recv_timeout(Duration::from_millis(300));
        assert!(early.is_err(), "the flush does not wait: {early:?}");
        fs.close();
        let result = told.recv_timeout(Duration::from_secs(20)).expect("the flush ends");
        let error = result.expect_err("the flush fails");
        assert_eq!(error.status(), Status::Closed, "{error}");
        assert_eq!(error.durable_bytes(), Some(7));
    });
    datanode.resume();
}
