//! Repository rules that neither the compiler nor clippy checks.
//!
//! Used twice: by `cargo xtask tidy`, and by `tests/tidy.rs`, so that `cargo test` fails too. Each
//! rule is a function from text to [`Finding`]s, which the same test feeds with bad examples.
use std::fmt;
use std::path::{Path, PathBuf};

pub(crate) mod files;
pub(crate) mod layers;
pub(crate) mod source;
pub(crate) mod text;

/// One broken rule at one place.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    /// Path from the root of the repository.
    pub(crate) file: String,
    /// Line, from 1; 0 for the file as a whole.
    pub(crate) line: usize,
    /// What is wrong, and what would be right.
    pub(crate) text: String,
}

impl Finding {
    /// A finding at `line` of `file`.
    pub(crate) fn new(file: &str, line: usize, text: impl Into<String>) -> Finding {
        Finding { file: file.to_owned(), line, text: text.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.line, self.text)
    }
}

/// Checks the whole repository below `root`.
///
/// # Errors
/// A file that cannot be listed or read.
pub(crate) fn check(root: &Path) -> Result<Vec<Finding>, String> {
    let mut findings = Vec::new();
    let tracked = files::tracked(root)?;
    for path in &tracked {
        let Some(text) = files::read_text(root, path)? else { continue };
        findings.extend(text::forbidden_words(path, &text));
        if path.ends_with(".md") {
            let exists = |target: &Path| root.join(target).exists();
            findings.extend(text::dead_links(path, &text, exists));
        }
        if is_rust_source(path) {
            findings.extend(check_rust(path, &text));
        }
    }
    findings.extend(check_dependencies(root, &tracked)?);
    findings.sort();
    Ok(findings)
}

/// Rust files that people write; proto/src is generated.
fn is_rust_source(path: &str) -> bool {
    path.ends_with(".rs") && !path.starts_with("proto/src/")
}

/// All rules for one Rust file.
pub(crate) fn check_rust(path: &str, text: &str) -> Vec<Finding> {
    let code = source::Source::new(text);
    let mut findings = text::lengths(path, text);
    findings.extend(source::unsafe_places(path, &code));
    findings.extend(source::safety_comments(path, &code));
    findings.extend(source::banned_macros(path, &code));
    if path.starts_with("src/") {
        findings.extend(layers::check_file(path, &code));
        findings.extend(layers::check_state_machine(path, &code));
    }
    findings
}

fn check_dependencies(root: &Path, tracked: &[String]) -> Result<Vec<Finding>, String> {
    let page = "docs/dependencies.md";
    let documented =
        files::read_text(root, page)?.ok_or_else(|| format!("{page} is missing or not UTF-8"))?;
    let mut manifests = Vec::new();
    for path in tracked.iter().filter(|p| PathBuf::from(p).ends_with("Cargo.toml")) {
        if let Some(text) = files::read_text(root, path)? {
            manifests.push((path.clone(), text));
        }
    }
    Ok(text::undocumented_dependencies(&manifests, page, &documented))
}
