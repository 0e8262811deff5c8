//! A client process: commands on standard input, one JSON line each on standard output.
use crate::api::{Fs, Result};
use crate::command::Command;
use crate::json::{Json, object};
use crate::{floor, rust_api, workload};
use std::io::{self, BufRead, Write};

/// Which client this process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// libdfs, Rust interface.
    Rust,
    /// Prebuilt packets on one socket.
    Floor,
}

/// Serves commands until standard input ends.
pub(crate) fn serve(kind: Kind) -> Result<()> {
    let mut fs: Option<Box<dyn Fs>> = None;
    let mut output = io::stdout().lock();
    for line in io::stdin().lock().lines() {
        let line = line.map_err(|e| format!("cannot read a command: {e}"))?;
        let answer = answer(kind, &mut fs, &line)
            .unwrap_or_else(|error| object([("error", format!("{line}: {error}").into())]));
        writeln!(output, "{answer}")
            .and_then(|()| output.flush())
            .map_err(|e| format!("cannot answer: {e}"))?;
    }
    Ok(())
}

fn answer(kind: Kind, fs: &mut Option<Box<dyn Fs>>, line: &str) -> Result<Json> {
    let command = Command::parse(line)?;
    if command.verb != "connect" {
        return workload::run(fs.as_deref().ok_or("not connected")?, &command);
    }
    let uri = command.text("uri")?;
    let settings: Vec<_> = command
        .args
        .iter()
        .filter_map(|(k, v)| Some((k.strip_prefix("conf.")?.to_owned(), v.clone())))
        .collect();
    *fs = Some(match kind {
        Kind::Rust => rust_api::connect(uri, &settings)?,
        Kind::Floor => floor::connect(uri, &settings)?,
    });
    Ok(object([("version", env!("CARGO_PKG_VERSION").into())]))
}
