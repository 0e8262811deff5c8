//! Rules about plain text: lengths, words, links, the list of dependencies.
use super::Finding;
use std::path::{Path, PathBuf};

/// Lines of a hand-written file.
const FILE_LINES_MAX: usize = 700;
/// Columns of a line.
const LINE_COLUMNS_MAX: usize = 100;
/// Longer files, each with its reason.
const LONG_FILES: &[(&str, &str)] = &[];
/// Files with long lines, each with its reason.
const WIDE_FILES: &[(&str, &str)] = &[("src/conf/keys.rs", "a table, one key a line")];

/// Paths of the machine that somebody worked on, which mean nothing to anybody else.
const FORBIDDEN: &[&str] = &[
    concat!("/wo", "rk/"),
    concat!("/ro", "ot/"),
    concat!("/tmp/bash", "_jobs"),
    concat!("/home/", "runner/"),
];

/// Reports files and lines that are too long.
pub(crate) fn lengths(path: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let lines = text.lines().count();
    if lines > FILE_LINES_MAX && !LONG_FILES.iter().any(|(p, _)| *p == path) {
        let text = format!("{lines} lines; a file has at most {FILE_LINES_MAX}");
        findings.push(Finding::new(path, 0, text));
    }
    if WIDE_FILES.iter().any(|(p, _)| *p == path) {
        return findings;
    }
    for (index, line) in text.lines().enumerate() {
        let columns = line.chars().count();
        if columns > LINE_COLUMNS_MAX {
            let text = format!("{columns} columns; a line has at most {LINE_COLUMNS_MAX}");
            findings.push(Finding::new(path, index + 1, text));
        }
    }
    findings
}

/// Reports words that must not stand in any file.
pub(crate) fn forbidden_words(path: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, line) in text.lines().enumerate() {
        // Only where a path begins: `target/root/x` is no folder of a machine.
        let begins = |at: usize| {
            let before = line.get(..at).and_then(|l| l.chars().next_back()).unwrap_or(' ');
            !before.is_alphanumeric() && !"._-}/".contains(before)
        };
        let found = |word: &str| line.match_indices(word).any(|(at, _)| begins(at));
        for word in FORBIDDEN.iter().filter(|word| found(word)) {
            findings.push(Finding::new(path, index + 1, format!("names the folder {word}")));
        }
    }
    findings
}

/// Reports links of a Markdown file to files that do not exist.
pub(crate) fn dead_links(path: &str, text: &str, exists: impl Fn(&Path) -> bool) -> Vec<Finding> {
    let folder = Path::new(path).parent().unwrap_or(Path::new(""));
    let mut findings = Vec::new();
    let mut fenced = false;
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        }
        if fenced {
            continue;
        }
        for part in line.split("](").skip(1) {
            let target = part.split(')').next().unwrap_or("");
            let target = target.split(['#', ' ']).next().unwrap_or("");
            if target.is_empty() || target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            if !exists(&normal(&folder.join(target))) {
                findings.push(Finding::new(path, index + 1, format!("dead link to {target}")));
            }
        }
    }
    findings
}

/// Takes `.` and `..` out of a relative path.
fn normal(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            std::path::Component::ParentDir => {
                out.pop();
            }
            std::path::Component::CurDir => {}
            other => out.push(other),
        }
    }
    out
}

/// Names of the crates that a manifest depends on, workspace members (paths) left out, with lines.
pub(crate) fn dependencies(manifest: &str) -> Vec<(String, usize)> {
    let mut names = Vec::new();
    let mut inside = false;
    for (index, line) in manifest.lines().enumerate() {
        let line = line.trim();
        if let Some(section) = line.strip_prefix('[') {
            let section = section.trim_end_matches(']');
            let last = section.rsplit('.').next().unwrap_or(section);
            inside = last.ends_with("dependencies");
            // `[dependencies.name]` is a section of its own.
            let table = section.rsplit_once("dependencies.").map(|(_, name)| name);
            if let Some(name) = table.filter(|name| !name.contains('.')) {
                names.push((name.to_owned(), index + 1));
            }
        } else if inside
            && let Some((name, value)) = line.split_once('=')
            && !line.starts_with('#')
            && !value.contains("path =")
        {
            let name = name.trim().split('.').next().unwrap_or("").trim_matches('"');
            names.push((name.to_owned(), index + 1));
        }
    }
    names
}

/// Reports dependencies without a row in the table of `page`, and rows without a dependency.
pub(crate) fn undocumented_dependencies(
    manifests: &[(String, String)],
    page: &str,
    documented: &str,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    let rows: Vec<(usize, &str, &str)> = documented
        .lines()
        .enumerate()
        .filter_map(|(index, line)| {
            let mut cells = line.strip_prefix("| `")?.splitn(2, "` |");
            Some((index + 1, cells.next()?, cells.next()?))
        })
        .collect();
    let mut used = Vec::new();
    for (path, text) in manifests {
        for (name, line) in dependencies(text) {
            if !rows.iter().any(|(_, row, _)| *row == name) {
                let text = format!("{name} has no row with its reason in {page}");
                findings.push(Finding::new(path, line, text));
            }
            used.push(name);
        }
    }
    for (line, row, reason) in rows {
        if !used.iter().any(|name| name == row) {
            findings.push(Finding::new(page, line, format!("nothing depends on {row} any more")));
        } else if reason.split('|').all(|cell| cell.trim().len() < 10) {
            findings.push(Finding::new(page, line, format!("{row} has no reason")));
        }
    }
    findings
}
