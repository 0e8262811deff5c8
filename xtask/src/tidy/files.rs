//! Which files belong to the repository.
use std::path::Path;
use std::process::Command;

/// Paths of the tracked files (and of new ones that git does not ignore), from the root, sorted.
///
/// # Errors
/// When git is missing or `root` is no work tree.
pub(crate) fn tracked(root: &Path) -> Result<Vec<String>, String> {
    let output = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output()
        .map_err(|e| format!("git cannot be run: {e}"))?;
    if !output.status.success() {
        return Err(format!("git ls-files: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let mut paths: Vec<String> =
        text.split('\0').filter(|p| !p.is_empty()).map(str::to_owned).collect();
    // A file that was just deleted stays in the index until it is committed.
    paths.retain(|p| root.join(p).is_file());
    paths.sort();
    paths.dedup();
    Ok(paths)
}

/// The text of a file; `None` when it is missing or binary.
///
/// # Errors
/// When it exists and cannot be read.
pub(crate) fn read_text(root: &Path, path: &str) -> Result<Option<String>, String> {
    match std::fs::read(root.join(path)) {
        Ok(bytes) => Ok(String::from_utf8(bytes).ok()),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(format!("{path}: {e}")),
    }
}
