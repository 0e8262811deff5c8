//! The layers of `src/`: a module imports lower layers only, and never its neighbours in its own
//! layer (layer 0 may). ARCHITECTURE.md explains the table.
use super::Finding;
use super::source::Source;

/// Layer of each module at the root of `src/`.
pub(crate) const LAYERS: &[(&str, u8)] = &[
    ("error", 0),
    ("sys", 0),
    ("log", 0),
    ("time", 0),
    ("buf", 0),
    ("checksum", 0),
    ("proto", 1),
    ("wire", 1),
    ("erasure", 1),
    ("conf", 1),
    ("net", 2),
    ("keeper", 2),
    ("security", 2),
    ("ipc", 3),
    ("namenode", 4),
    ("datanode", 4),
    ("read", 5),
    ("write", 5),
    ("client", 6),
    ("capi", 7),
];

/// Imports against the rule, each with its reason.
pub(crate) const EXCEPTIONS: &[(&str, &str, &str)] = &[
    ("wire", "proto", "frames carry generated messages; proto imports nothing"),
    ("security", "net", "SASL negotiates over a transport"),
];

/// `capi` imports these and nothing else below the client.
pub(crate) const CAPI_IMPORTS: &[&str] = &[
    "client", "read", "write", "conf", "error", "log", "checksum", "buf", "sys", "time", "keeper",
];

/// What a file named `*_state.rs` must not mention, as path beginnings.
const STATE_FORBIDDEN: &[(&str, &str)] = &[
    ("std::net", "a socket"),
    ("std::os::unix::net", "a socket"),
    ("std::thread", "a thread"),
    ("std::time::SystemTime", "the clock"),
    ("std::fs", "a file"),
    ("crate::sys", "the system"),
    ("crate::net", "a socket"),
    ("crate::keeper", "a thread"),
    ("crate::log", "the log"),
    ("crate::dfs_log", "the log"),
    ("crate::time::now", "the clock"),
    ("crate::time::wall_ms", "the clock"),
    ("parking_lot", "a lock"),
];

/// A path that a file mentions, as written out from the root of the crate or of another crate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mention {
    /// Segments, such as `crate`, `wire`, `packet`.
    pub(crate) path: Vec<String>,
    /// Line, from 1.
    pub(crate) line: usize,
    /// Inside `#[cfg(test)]`.
    pub(crate) test: bool,
}

/// The module at the root of `src/` that a file belongs to; empty for `lib.rs`.
pub(crate) fn module_of(path: &str) -> &str {
    let rest = path.strip_prefix("src/").unwrap_or(path);
    let first = rest.split('/').next().unwrap_or(rest);
    if first == "lib.rs" { "" } else { first.strip_suffix(".rs").unwrap_or(first) }
}

/// Number of modules that a file lies deep: 1 for `src/log.rs` and `src/wire/mod.rs`, 2 for
/// `src/wire/packet.rs`.
fn depth_of(path: &str) -> usize {
    let rest = path.strip_prefix("src/").unwrap_or(path);
    let segments = rest.split('/').count();
    if rest == "lib.rs" || rest.ends_with("/mod.rs") { segments - 1 } else { segments }
}

/// The layer of a module.
fn layer(module: &str) -> Option<u8> {
    LAYERS.iter().find(|(name, _)| *name == module).map(|(_, layer)| *layer)
}

/// Reports imports against the layer table.
pub(crate) fn check_file(path: &str, code: &Source) -> Vec<Finding> {
    let from = module_of(path);
    if from.is_empty() || is_test_file(path) {
        return Vec::new();
    }
    let Some(own) = layer(from) else {
        let text = format!("module {from} has no layer; add it to xtask/src/tidy/layers.rs");
        return vec![Finding::new(path, 0, text)];
    };
    let mut findings = Vec::new();
    for mention in mentions(path, code) {
        if mention.test || mention.path.first().is_none_or(|s| s != "crate") {
            continue;
        }
        let Some(to) = mention.path.get(1).map(String::as_str) else { continue };
        // Macros stand at the root of the crate.
        let to = if to == "dfs_log" { "log" } else { to };
        if to == from {
            continue;
        }
        let Some(other) = layer(to) else {
            let text = format!("crate::{to} is no module of the layer table");
            findings.push(Finding::new(path, mention.line, text));
            continue;
        };
        if let Some(text) = judge((from, own), (to, other)) {
            findings.push(Finding::new(path, mention.line, text));
        }
    }
    findings
}

/// Why `from` may not import `to`; `None` if it may.
fn judge((from, own): (&str, u8), (to, other): (&str, u8)) -> Option<String> {
    if EXCEPTIONS.iter().any(|(f, t, _)| (*f, *t) == (from, to)) {
        return None;
    }
    if other > own {
        return Some(format!("{from} (layer {own}) imports {to} (layer {other}) from above"));
    }
    if other == own && own != 0 {
        return Some(format!("{from} imports its neighbour {to}, both in layer {own}"));
    }
    if from == "capi" && !CAPI_IMPORTS.contains(&to) {
        return Some(format!("capi imports {to}; it may import {}", CAPI_IMPORTS.join(", ")));
    }
    None
}

/// Files that hold tests only.
pub(crate) fn is_test_file(path: &str) -> bool {
    path.starts_with("src/testing/") || path.ends_with("/tests.rs") || path.contains("/tests/")
}

/// Reports what a pure state machine must not touch.
pub(crate) fn check_state_machine(path: &str, code: &Source) -> Vec<Finding> {
    if !path.ends_with("_state.rs") {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for mention in mentions(path, code).into_iter().filter(|m| !m.test) {
        let text = mention.path.join("::");
        for (start, what) in STATE_FORBIDDEN {
            let hit = text.strip_prefix(start).is_some_and(|r| r.is_empty() || r.starts_with("::"));
            if hit {
                let text = format!("{text} touches {what}; a *_state.rs file is pure");
                findings.push(Finding::new(path, mention.line, text));
            }
        }
        if text.ends_with("Instant::now") {
            findings.push(Finding::new(path, mention.line, "Instant::now reads the clock"));
        }
    }
    findings
}

/// Every path of two segments or more in the file, `use` groups taken apart, and `super` resolved
/// as far as it reaches the root of the crate.
pub(crate) fn mentions(path: &str, code: &Source) -> Vec<Mention> {
    let mut found = Vec::new();
    let mut at = 0;
    // Inline modules around the current token, for `super`: brace depth at which each ends.
    let mut inline = Vec::new();
    let mut braces = 0_usize;
    while at < code.tokens.len() {
        match code.word(at) {
            "mod" if code.word(at + 2) == "{" => {
                inline.push(braces);
                braces += 1;
                at += 3;
            }
            "{" => (braces, at) = (braces + 1, at + 1),
            "}" => {
                braces = braces.saturating_sub(1);
                if inline.last() == Some(&braces) {
                    inline.pop();
                }
                at += 1;
            }
            word if is_path_start(word) && code.word(at + 1) == "::" => {
                let depth = depth_of(path) + inline.len();
                at = collect(code, at, &[], depth, &mut found);
            }
            _ => at += 1,
        }
    }
    found
}

fn is_path_start(word: &str) -> bool {
    word.chars().next().is_some_and(|c| c.is_alphabetic() || c == '_')
}

/// Reads one path (or a `{…}` group of paths) that starts at token `at`; returns the token behind.
fn collect(
    code: &Source,
    mut at: usize,
    prefix: &[String],
    depth: usize,
    found: &mut Vec<Mention>,
) -> usize {
    let mut path = prefix.to_vec();
    let first = at;
    loop {
        if code.word(at) == "{" {
            at += 1;
            while at < code.tokens.len() && code.word(at) != "}" {
                let before = at;
                at = collect(code, at, &path, depth, found);
                if code.word(at) == "," {
                    at += 1;
                }
                // Anything unexpected (`as x`, attributes) is stepped over.
                at = at.max(before + 1);
            }
            return at + 1;
        }
        if !is_path_start(code.word(at)) {
            break;
        }
        path.push(code.word(at).to_owned());
        at += 1;
        if code.word(at) != "::" {
            break;
        }
        at += 1;
    }
    if path.len() > 1
        && let Some(token) = code.tokens.get(first)
    {
        let path = resolve(path, depth);
        found.push(Mention { path, line: token.line, test: token.test });
    }
    at.max(first + 1)
}

/// Turns `super::…` that reaches the root of the crate into `crate::…`.
fn resolve(path: Vec<String>, depth: usize) -> Vec<String> {
    let start = usize::from(path.first().is_some_and(|s| s == "self"));
    let supers = path.iter().skip(start).take_while(|s| *s == "super").count();
    if supers == 0 || supers != depth {
        return path;
    }
    let rest = path.into_iter().skip(start + supers);
    std::iter::once("crate".to_owned()).chain(rest).collect()
}
