//! A Rust file split into code and comments, and the rules about unsafe code and macros.
use super::Finding;

/// Folders and files that may hold `unsafe`, each with its reason.
const UNSAFE_ALLOWED: &[(&str, &str)] = &[
    ("src/sys/", "wraps libc"),
    ("src/buf/", "hands out uninitialised pool memory"),
    ("src/checksum/", "SIMD intrinsics"),
    ("src/erasure/", "SIMD intrinsics"),
    ("src/capi/", "the C boundary"),
    ("src/security/gssapi", "a C library loaded at run time"),
    ("src/datanode/shm", "memory shared with a DataNode"),
    ("jni-bridge/src/", "the JVM boundary"),
    ("compat/", "the C boundary of libhdfs"),
    ("tests/", "a counting allocator, and C functions called as C does"),
    ("benches/", "a counting allocator, getrusage"),
    ("testkit/src/bin/", "signals"),
    ("testkit/src/hadoop/process", "pre_exec, kill"),
    ("testkit/tests/", "calls libc"),
];

/// Macros that must not stay in code, each with its reason and where it is allowed.
const BANNED_MACROS: &[(&str, &str, Place)] = &[
    ("todo", "unfinished code", Place::Nowhere),
    ("unimplemented", "unfinished code", Place::Nowhere),
    ("dbg", "a debugging aid", Place::Nowhere),
    ("println", "the library writes to no stream; use dfs_log!", Place::OutsideLibrary),
    ("eprintln", "the library writes to no stream; use dfs_log!", Place::OutsideLibrary),
    ("print", "the library writes to no stream; use dfs_log!", Place::OutsideLibrary),
    ("eprint", "the library writes to no stream; use dfs_log!", Place::OutsideLibrary),
];

/// Where a macro may be used.
enum Place {
    Nowhere,
    /// In programs, benches and tests.
    OutsideLibrary,
}

/// A Rust file in which comments and the insides of literals are blanked out.
pub(crate) struct Source {
    /// The lines as written.
    pub(crate) lines: Vec<String>,
    /// Words and punctuation, in order, without comments and literals.
    pub(crate) tokens: Vec<Token>,
}

/// A word or one punctuation sign (`::` counts as one).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) text: String,
    /// Line, from 1.
    pub(crate) line: usize,
    /// Inside an item marked `#[cfg(test)]`.
    pub(crate) test: bool,
}

impl Source {
    /// Splits `text`.
    pub(crate) fn new(text: &str) -> Source {
        let mut tokens = tokenize(&blank(text));
        mark_tests(&mut tokens);
        Source { lines: text.lines().map(str::to_owned).collect(), tokens }
    }

    /// Text of token `index`; empty past the end.
    pub(crate) fn word(&self, index: usize) -> &str {
        self.tokens.get(index).map_or("", |t| t.text.as_str())
    }
}

/// Replaces comments and the insides of string and character literals by spaces.
fn blank(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while let Some(&c) = chars.get(at) {
        let previous = at.checked_sub(1).and_then(|i| chars.get(i)).copied().unwrap_or(' ');
        let end = match c {
            '/' if chars.get(at + 1) == Some(&'/') => line_end(&chars, at),
            '/' if chars.get(at + 1) == Some(&'*') => comment_end(&chars, at),
            '"' => string_end(&chars, at),
            'r' if !is_word(previous) || previous == 'b' || previous == 'c' => {
                raw_string_end(&chars, at).unwrap_or(at)
            }
            '\'' => char_end(&chars, at).unwrap_or(at),
            _ => at,
        };
        if end == at {
            out.push(c);
            at += 1;
        } else {
            out.extend(chars[at..end].iter().map(|&c| if c == '\n' { '\n' } else { ' ' }));
            at = end;
        }
    }
    out
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn line_end(chars: &[char], at: usize) -> usize {
    (at..chars.len()).find(|&i| chars[i] == '\n').unwrap_or(chars.len())
}

fn comment_end(chars: &[char], at: usize) -> usize {
    let (mut depth, mut i) = (0, at);
    while i < chars.len() {
        match (chars[i], chars.get(i + 1)) {
            ('/', Some('*')) => (depth, i) = (depth + 1, i + 2),
            ('*', Some('/')) => (depth, i) = (depth - 1, i + 2),
            _ => i += 1,
        }
        if depth == 0 {
            break;
        }
    }
    i
}

fn string_end(chars: &[char], at: usize) -> usize {
    let mut i = at + 1;
    while i < chars.len() {
        match chars[i] {
            '\\' => i += 2,
            '"' => return i + 1,
            _ => i += 1,
        }
    }
    chars.len()
}

/// The end of `r"…"` or `r#"…"#` at `at`; `None` if it is none.
fn raw_string_end(chars: &[char], at: usize) -> Option<usize> {
    let hashes = chars[at + 1..].iter().take_while(|&&c| c == '#').count();
    if chars.get(at + 1 + hashes) != Some(&'"') {
        return None;
    }
    let mut i = at + 2 + hashes;
    while i < chars.len() {
        let closed = chars[i] == '"'
            && chars[i + 1..].iter().take(hashes).filter(|&&c| c == '#').count() == hashes;
        if closed {
            return Some(i + 1 + hashes);
        }
        i += 1;
    }
    Some(chars.len())
}

/// The end of a character literal at `at`; `None` for a lifetime.
fn char_end(chars: &[char], at: usize) -> Option<usize> {
    if chars.get(at + 1) == Some(&'\\') {
        let close = (at + 3..chars.len()).find(|&i| chars[i] == '\'')?;
        return Some(close + 1);
    }
    (chars.get(at + 2) == Some(&'\'')).then_some(at + 3)
}

fn tokenize(code: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    for (index, line) in code.lines().enumerate() {
        let mut rest = line;
        while let Some(c) = rest.chars().next() {
            let len = if is_word(c) {
                rest.find(|c| !is_word(c)).unwrap_or(rest.len())
            } else if rest.starts_with("::") {
                2
            } else {
                c.len_utf8()
            };
            let (text, tail) = rest.split_at(len);
            if !c.is_whitespace() {
                tokens.push(Token { text: text.to_owned(), line: index + 1, test: false });
            }
            rest = tail;
        }
    }
    tokens
}

/// Marks the item behind each `#[cfg(test)]`, up to its closing brace or semicolon.
fn mark_tests(tokens: &mut [Token]) {
    const ATTRIBUTE: [&str; 7] = ["#", "[", "cfg", "(", "test", ")", "]"];
    let mut at = 0;
    while at + ATTRIBUTE.len() <= tokens.len() {
        if !(0..ATTRIBUTE.len()).all(|i| tokens[at + i].text == ATTRIBUTE[i]) {
            at += 1;
            continue;
        }
        let mut depth = 0_i32;
        let mut end = at + ATTRIBUTE.len();
        while end < tokens.len() {
            match tokens[end].text.as_str() {
                "{" | "(" | "[" => depth += 1,
                "}" | ")" | "]" => depth -= 1,
                _ => {}
            }
            let text = tokens[end].text.as_str();
            end += 1;
            if depth == 0 && (text == "}" || text == ";") {
                break;
            }
        }
        for token in &mut tokens[at..end] {
            token.test = true;
        }
        at = end;
    }
}

/// Reports `unsafe` outside the places that may hold it.
pub(crate) fn unsafe_places(path: &str, code: &Source) -> Vec<Finding> {
    if UNSAFE_ALLOWED.iter().any(|(prefix, _)| path.starts_with(prefix)) {
        return Vec::new();
    }
    let places: Vec<&str> = UNSAFE_ALLOWED.iter().map(|(prefix, _)| *prefix).collect();
    code.tokens
        .iter()
        .filter(|t| t.text == "unsafe")
        .map(|t| {
            let text = format!("unsafe code may only stand in {}", places.join(", "));
            Finding::new(path, t.line, text)
        })
        .collect()
}

/// Reports an unsafe block or impl without a `SAFETY:` comment right above, and an `unsafe fn`
/// without a `# Safety` section.
pub(crate) fn safety_comments(path: &str, code: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, token) in code.tokens.iter().enumerate() {
        if token.text != "unsafe" {
            continue;
        }
        let next = code.word(index + 1);
        let after = code.word(index + 2);
        let (wanted, what) = match next {
            "{" => ("SAFETY:", "an unsafe block"),
            "impl" => ("SAFETY:", "an unsafe impl"),
            // Not for a pointer type (`unsafe fn(…)`), nor for a method that a trait declares.
            "fn" if after != "(" && is_public(code, index) => ("# Safety", "an unsafe fn"),
            _ => continue,
        };
        if !comment_above(code, token.line, wanted) {
            let text = format!("{what} needs a comment with {wanted:?} right above");
            findings.push(Finding::new(path, token.line, text));
        }
    }
    findings
}

/// Whether the item whose `unsafe` is token `index` is `pub`, or `pub(…)`.
fn is_public(code: &Source, index: usize) -> bool {
    let before = |n: usize| index.checked_sub(n).map_or("", |i| code.word(i));
    let start = if before(1) == "const" { 2 } else { 1 };
    before(start) == "pub" || before(start) == ")" && before(start + 3) == "pub"
}

/// Whether the line itself or the comments, attributes and statement lines above hold `wanted`.
fn comment_above(code: &Source, line: usize, wanted: &str) -> bool {
    let own = code.lines.get(line - 1).map_or("", String::as_str);
    if own.contains(wanted) {
        return true;
    }
    // The start of the statement may lie a few lines up; behind it, comments and attributes.
    let mut code_lines = 0;
    for text in code.lines.iter().take(line - 1).rev().map(|l| l.trim()) {
        if text.starts_with("//") {
            if text.contains(wanted) {
                return true;
            }
        } else if text.starts_with("#[") || text.ends_with(']') && !text.contains('=') {
            continue;
        } else {
            code_lines += 1;
            let ends = text.ends_with(';') || text.ends_with('}') || text.is_empty();
            if ends || code_lines > 4 {
                return false;
            }
        }
    }
    false
}

/// Reports macros that must not stay in code.
pub(crate) fn banned_macros(path: &str, code: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    let library = path.starts_with("src/") || path.starts_with("jni-bridge/src/");
    for (index, token) in code.tokens.iter().enumerate() {
        if code.word(index + 1) != "!" || code.word(index + 2) == "=" {
            continue;
        }
        for (name, reason, place) in BANNED_MACROS {
            let allowed = match place {
                Place::Nowhere => false,
                Place::OutsideLibrary => !library || token.test,
            };
            if token.text == *name && !allowed {
                findings.push(Finding::new(path, token.line, format!("{name}!: {reason}")));
            }
        }
    }
    findings
}
