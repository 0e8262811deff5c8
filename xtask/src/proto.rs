//! Generates `proto/src/*.rs` from `proto/wire/*.proto`, without a `protoc` on the machine.
use std::path::Path;

/// Writes the generated messages below `root/proto/src`.
pub(crate) fn generate(root: &Path) -> Result<(), String> {
    let dir = root.join("proto/wire");
    let mut files: Vec<_> = std::fs::read_dir(&dir)
        .map_err(|e| format!("{}: {e}", dir.display()))?
        .filter_map(|entry| entry.ok().map(|e| e.path()))
        .filter(|path| path.extension().is_some_and(|e| e == "proto"))
        .collect();
    files.sort();
    let set = protox::compile(&files, [&dir]).map_err(|e| e.to_string())?;
    let out = root.join("proto/src");
    std::fs::create_dir_all(&out).map_err(|e| e.to_string())?;
    prost_build::Config::new().out_dir(&out).compile_fds(set).map_err(|e| e.to_string())?;
    Ok(())
}
