//! What the shared library shows to a linker: exported symbols, SONAME, flags.
use crate::run;
use std::path::{Path, PathBuf};

/// The SONAME; the number rises only when the ABI breaks.
const SONAME: &str = "libdfs.so.0";
/// The list of exported functions of this release.
const ABI_LIST: &str = "abi/symbols.txt";

/// Builds the library as `cargo build` does and returns its path. The development profile exports
/// the same symbols as a release and is there already after the tests were built.
fn library(root: &Path) -> Result<PathBuf, String> {
    run::cargo(root, &["build", "--quiet", "-p", "dfs"])?;
    Ok(run::target_dir(root).join("debug/libdfs.so"))
}

/// Checks that exactly `dfs_*` leaves the library, its SONAME, and that dlclose cannot unload it.
///
/// # Errors
/// Names what is wrong.
pub(crate) fn symbols(root: &Path) -> Result<(), String> {
    let path = library(root)?;
    let path = path.to_string_lossy();
    let exported = exported(&run::capture("nm", &["-D", "--defined-only", &path], root)?);
    let dynamic = run::capture("readelf", &["-d", "-W", &path], root)?;
    let mut faults = judge_symbols(&exported);
    faults.extend(judge_dynamic(&dynamic));
    if faults.is_empty() { Ok(()) } else { Err(faults.join("\n")) }
}

/// Compares the exported functions with the list; `--update` writes the list.
///
/// # Errors
/// Names each function that was added or lost.
pub(crate) fn abi(root: &Path, args: &[&str]) -> Result<(), String> {
    let update = match args {
        [] => false,
        ["--update"] => true,
        _ => return Err(format!("unknown arguments {args:?}; it takes --update")),
    };
    let path = library(root)?;
    let text = run::capture("nm", &["-D", "--defined-only", &path.to_string_lossy()], root)?;
    let now = exported(&text);
    let list = root.join(ABI_LIST);
    if update {
        let folder = list.parent().unwrap_or(root);
        std::fs::create_dir_all(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        let text = now.join("\n") + "\n";
        return std::fs::write(&list, text).map_err(|e| format!("{ABI_LIST}: {e}"));
    }
    let text = std::fs::read_to_string(&list)
        .map_err(|e| format!("{ABI_LIST}: {e}; `cargo xtask abi --update` writes it"))?;
    let faults = compare(&text, &now);
    if faults.is_empty() { Ok(()) } else { Err(faults.join("\n")) }
}

/// Names in the output of `nm -D --defined-only`, sorted.
fn exported(nm: &str) -> Vec<String> {
    let mut names: Vec<String> = nm
        .lines()
        .filter_map(|line| line.split_whitespace().nth(2))
        .map(|name| name.split('@').next().unwrap_or(name).to_owned())
        .collect();
    names.sort();
    names
}

fn judge_symbols(exported: &[String]) -> Vec<String> {
    let strange = exported.iter().filter(|name| !name.starts_with("dfs_"));
    let mut faults: Vec<String> =
        strange.map(|name| format!("{name} is exported; only dfs_* may be")).collect();
    if exported.is_empty() {
        faults.push("the library exports nothing".to_owned());
    }
    faults
}

/// Judges the output of `readelf -d -W`.
fn judge_dynamic(dynamic: &str) -> Vec<String> {
    let mut faults = Vec::new();
    let soname = dynamic.lines().find(|line| line.contains("(SONAME)")).unwrap_or("no SONAME");
    if !soname.contains(&format!("[{SONAME}]")) {
        faults.push(format!("the SONAME is not {SONAME}: {}", soname.trim()));
    }
    let flags = dynamic.lines().filter(|line| line.contains("(FLAGS_1)"));
    if !flags.flat_map(str::split_whitespace).any(|word| word == "NODELETE") {
        faults.push("the flag NODELETE is not set, so dlclose would unload the library".to_owned());
    }
    faults
}

/// Differences between the list and what is exported now.
fn compare(list: &str, now: &[String]) -> Vec<String> {
    let old: Vec<&str> = list.lines().map(str::trim).filter(|l| !l.is_empty()).collect();
    let lost = old.iter().filter(|name| !now.iter().any(|n| n == *name)).map(|name| {
        format!("{name} is in {ABI_LIST} but no longer exported: that breaks programs built before")
    });
    let added = now
        .iter()
        .filter(|name| !old.contains(&name.as_str()))
        .map(|name| format!("{name} is new; `cargo xtask abi --update` takes it into {ABI_LIST}"));
    lost.chain(added).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DYNAMIC: &str = " 0x0e (SONAME)  Library soname: [libdfs.so.0]\n \
        0x6ffffffb (FLAGS_1)   Flags: NOW NODELETE\n";

    #[test]
    fn only_our_prefix_is_exported() {
        let names = exported("0000 T dfs_open\n0001 T dfs_close@@V\n0002 T helper\n");
        assert_eq!(names, ["dfs_close", "dfs_open", "helper"]);
        assert_eq!(judge_symbols(&names).len(), 1);
        assert_eq!(judge_symbols(&names[..2]).len(), 0);
        assert_eq!(judge_symbols(&[]).len(), 1);
    }

    #[test]
    fn soname_and_flags() {
        assert_eq!(judge_dynamic(DYNAMIC).len(), 0);
        assert_eq!(judge_dynamic(&DYNAMIC.replace("so.0", "so.1")).len(), 1);
        assert_eq!(judge_dynamic(&DYNAMIC.replace(" NODELETE", "")).len(), 1);
        assert_eq!(judge_dynamic("").len(), 2);
    }

    #[test]
    fn lost_and_added_functions_are_named() {
        let now = ["dfs_a".to_owned(), "dfs_c".to_owned()];
        let faults = compare("dfs_a\ndfs_b\n", &now);
        assert_eq!(faults.len(), 2);
        assert!(faults[0].starts_with("dfs_b") && faults[1].starts_with("dfs_c"));
        assert_eq!(compare("dfs_a\ndfs_c\n", &now).len(), 0);
    }
}
