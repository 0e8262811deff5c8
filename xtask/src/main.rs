//! Developer commands: `cargo xtask <command>`.
use std::path::{Path, PathBuf};
use std::process::ExitCode;

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
        other => Err(format!("unknown command {other:?}; commands: proto")),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => {
            eprintln!("xtask: {text}");
            ExitCode::FAILURE
        }
    }
}
