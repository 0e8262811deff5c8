//! dfs-bench: measures libdfs against other HDFS clients on the same servers (docs/benchmarks.md).
mod api;
mod c_api;
mod client;
mod command;
mod floor;
mod hedge;
mod json;
mod logs;
mod micro;
#[cfg(feature = "hdfs-native")]
mod native;
mod rig;
mod rust_api;
mod sink;
mod sys;
mod workload;
mod ycsb;

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: sys::Counting = sys::Counting;

const USAGE: &str = "usage: dfs-bench COMMAND

  run [OPTIONS]    measures; `run --help` has the options
  hedge            the tail of reads from minidfs while a DataNode is late now and then
  micro            limits of this machine, without any server
  client --lib P   libdfs through the C functions of the shared library P: commands on
                   standard input; client --rust: through the Rust interface;
                   client --hdfs-native: that crate, in a build with the feature hdfs-native
  floor            the floor: prebuilt packets, commands on standard input
  sink             a sink server until standard input ends";

/// Data of test servers goes to memory unless TMPDIR says otherwise: no disk in any number.
fn keep_data_in_memory() {
    if std::env::var_os("TMPDIR").is_none() && std::path::Path::new("/dev/shm").is_dir() {
        // SAFETY: called at the start of main, when no other thread runs.
        unsafe { std::env::set_var("TMPDIR", "/dev/shm") };
    }
}

fn main() -> ExitCode {
    keep_data_in_memory();
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let result = match args[..] {
        ["client", "--lib", path] => client::Kind::c(path).and_then(|kind| client::serve(&kind)),
        ["client", "--rust"] => client::serve(&client::Kind::Rust),
        #[cfg(feature = "hdfs-native")]
        ["client", "--hdfs-native"] => client::serve(&client::Kind::HdfsNative),
        ["floor"] => client::serve(&client::Kind::Floor),
        ["hedge"] => hedge::run(),
        ["micro"] => micro::run(),
        ["sink"] => sink::serve(1),
        ["run", ref options @ ..] if options.contains(&"--help") => {
            println!("{}", rig::USAGE);
            Ok(())
        }
        ["run", ref options @ ..] => rig::run(options),
        _ => Err(USAGE.to_owned()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("dfs-bench: {error}");
            ExitCode::FAILURE
        }
    }
}
