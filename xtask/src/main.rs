//! Developer commands: `cargo xtask <command>`.
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[cfg(feature = "header")]
mod header;
#[cfg(feature = "proto")]
mod proto;

/// The root of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the root").to_owned()
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let result = match args.first().map(String::as_str) {
        #[cfg(feature = "proto")]
        Some("proto") => proto::generate(&root()),
        #[cfg(not(feature = "proto"))]
        Some("proto") => {
            Err(format!("{}: run cargo run -p xtask --features proto -- proto", root().display()))
        }
        #[cfg(feature = "header")]
        Some("header") => match args.get(1).map(String::as_str) {
            None => header::generate(&root(), false),
            Some("--check") => header::generate(&root(), true),
            Some(other) => Err(format!("header: unknown option {other:?}; options: --check")),
        },
        #[cfg(not(feature = "header"))]
        Some("header") => {
            Err("run cargo run -p xtask --features header -- header [--check]".to_owned())
        }
        other => Err(format!("unknown command {other:?}; commands: header, proto")),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => {
            eprintln!("xtask: {text}");
            ExitCode::FAILURE
        }
    }
}
