//! Developer commands: `cargo xtask <command>`; without a command it lists them.
use std::path::{Path, PathBuf};
use std::process::ExitCode;

mod check;
mod count;
mod csuite;
mod elf;
mod examples;
#[cfg(feature = "header")]
mod header;
mod install;
#[cfg(feature = "proto")]
mod proto;
mod run;
mod seeds;
mod server;
mod suites;
mod tidy;

/// Name, arguments, what it does.
const COMMANDS: &[(&str, &str, &str)] = &[
    ("check", "", "formatting, clippy, header, documentation, tidy, symbols"),
    ("fix", "", "formats the code and takes clippy's machine-applicable advice"),
    ("test", "[suite…]", "all test suites, or the named ones; ends with the sum"),
    ("test-c", "", "the C suite: the installed library by pkg-config, CMake, examples"),
    ("test-py", "", "the Python suite"),
    ("tidy", "", "layers, unsafe code, lengths, links, dependencies"),
    ("symbols", "", "what libdfs.so exports, its SONAME and its flags"),
    ("abi", "[--update]", "compares the exported functions with abi/symbols.txt"),
    ("header", "[--check]", "generates include/dfs.h from src/capi, or compares"),
    ("proto", "", "generates proto/src from proto/wire"),
    ("fuzz-seeds", "", "writes the seed inputs of fuzz/corpus/"),
    ("demo", "[--hadoop]", "runs the C examples against minidfs, or against real Hadoop"),
    ("dist", "", "target/dist/libdfs-<version>-<machine>.tar.gz"),
];

/// The root of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new(".")).to_owned()
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let (command, rest) = args.split_first().map_or(("", &[][..]), |(c, r)| (*c, r));
    match dispatch(command, rest, &root()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => {
            eprintln!("xtask {command}: {text}");
            ExitCode::FAILURE
        }
    }
}

fn dispatch(command: &str, rest: &[&str], root: &Path) -> Result<(), String> {
    let known = COMMANDS.iter().find(|(name, ..)| *name == command);
    if known.is_some_and(|(_, takes, _)| takes.is_empty()) && !rest.is_empty() {
        return Err(format!("it takes no arguments, but got {rest:?}"));
    }
    match command {
        "check" => check::check(root),
        "fix" => check::fix(root),
        "test" => suites::test(root, rest),
        "test-c" => suites::test(root, &["c"]),
        "test-py" => suites::test(root, &["python"]),
        "tidy" => check::tidy(root),
        "symbols" => elf::symbols(root),
        "abi" => elf::abi(root, rest),
        #[cfg(feature = "proto")]
        "proto" => proto::generate(root),
        #[cfg(not(feature = "proto"))]
        "proto" => run::cargo(root, &["run", "-p", "xtask", "--features", "proto", "--", "proto"]),
        #[cfg(feature = "header")]
        "header" => header::generate(root, is_check(rest)?),
        // The generator stays out of ordinary builds of this program.
        #[cfg(not(feature = "header"))]
        "header" => {
            let args = ["run", "--quiet", "-p", "xtask", "--features", "header", "--", "header"];
            run::cargo(
                root,
                &[&args[..], if is_check(rest)? { &["--check"] } else { &[] }].concat(),
            )
        }
        "fuzz-seeds" => seeds::write(root),

        "demo" => examples::demo(root, rest),
        // Internal: `test c` runs it as a program of its own, for the log and the limit.
        "c-suite" => csuite::run_all(root),
        "dist" => install::dist(root),
        "" | "help" | "--help" => {
            help();
            Ok(())
        }
        _ => Err("no such command; `cargo xtask` lists them".to_owned()),
    }
}

/// Whether the arguments ask for a comparison only.
fn is_check(args: &[&str]) -> Result<bool, String> {
    match args {
        [] => Ok(false),
        ["--check"] => Ok(true),
        _ => Err(format!("unknown arguments {args:?}; it takes --check")),
    }
}

fn help() {
    println!("cargo xtask <command>:");
    for (name, takes, what) in COMMANDS {
        println!("  {:<20} {what}", format!("{name} {takes}"));
    }
    println!("test suites: {}", suites::names().join(", "));
}
