//! The sink server as a process of its own, so that its CPU time and its core are its own.
use crate::api::Result;
use dfs_testkit::minidfs::MiniDfs;
use std::io::{self, Read, Write};

/// What the sink serves below `/virt`, bytes a file.
pub(crate) const VIRTUAL_BYTES: u64 = 1 << 30;

/// Serves until standard input ends; prints the URI first.
pub(crate) fn serve(datanodes: usize) -> Result<()> {
    let cluster = MiniDfs::builder()
        .datanodes(datanodes)
        .replication(1)
        .configure(|c| {
            c.sink = true;
            c.virtual_length = VIRTUAL_BYTES;
        })
        .start()
        .map_err(|e| format!("the sink does not start: {e}"))?;
    let mut output = io::stdout().lock();
    writeln!(output, "{}", cluster.uri())
        .and_then(|()| output.flush())
        .map_err(|e| format!("cannot tell the sink's URI: {e}"))?;
    let mut rest = Vec::new();
    io::stdin().read_to_end(&mut rest).map_err(|e| format!("cannot read standard input: {e}"))?;
    Ok(())
}
