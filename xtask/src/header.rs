//! `cargo xtask header`: writes include/dfs.h from the documentation and signatures of src/capi.
use std::path::Path;

/// Files of src/capi in the order of the header's sections.
const SOURCES: [&str; 16] = [
    "status",
    "error",
    "version",
    "log",
    "config",
    "file_system",
    "open",
    "file",
    "write",
    "flush",
    "read",
    "metadata",
    "list",
    "locations",
    "checksum",
    "stats",
];

/// Generates the header, and writes it unless `check` is set.
///
/// # Errors
/// What cbindgen or the file system says; with `check`, also that the file differs.
pub(crate) fn generate(root: &Path, check: bool) -> Result<(), String> {
    let wanted = header(root)?;
    let path = root.join("include/dfs.h");
    let present = std::fs::read_to_string(&path).unwrap_or_default();
    if wanted == present {
        return Ok(());
    }
    if check {
        let differs = wanted.lines().zip(present.lines()).position(|(a, b)| a != b);
        let line = differs.unwrap_or(wanted.lines().count().min(present.lines().count())) + 1;
        return Err(format!(
            "{} differs from src/capi at line {line}; run: cargo run -p xtask --features header \
             -- header",
            path.display()
        ));
    }
    let error = |e: std::io::Error| format!("{}: {e}", path.display());
    std::fs::create_dir_all(root.join("include")).map_err(error)?;
    std::fs::write(&path, wanted).map_err(error)
}

fn header(root: &Path) -> Result<String, String> {
    let mut config = cbindgen::Config::from_file(root.join("cbindgen.toml"))?;
    let macros = version_macros(env!("CARGO_PKG_VERSION"))?;
    config.after_includes = Some(macros + &config.after_includes.unwrap_or_default());
    let mut builder = cbindgen::Builder::new().with_config(config);
    for name in SOURCES {
        builder = builder.with_src(root.join(format!("src/capi/{name}.rs")));
    }
    let bindings = builder.generate().map_err(|e| e.to_string())?;
    let mut text = Vec::new();
    bindings.write(&mut text);
    let text = String::from_utf8(text).map_err(|e| e.to_string())?;
    Ok(tidy(&text))
}

/// Puts comments of one line on one line, and negative numbers into parentheses.
fn tidy(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let mut out = String::new();
    let mut rest = lines.as_slice();
    while let Some((&line, behind)) = rest.split_first() {
        let indent = line.len() - line.trim_start().len();
        let words = behind.first().and_then(|next| next.trim_start().strip_prefix("* "));
        let ends = behind.get(1).is_some_and(|end| end.trim() == "*/");
        if let (Some(words), true, "/**") = (words, ends, line.trim()) {
            out.push_str(&format!("{:indent$}/** {words} */\n", ""));
            rest = &rest[3..];
            continue;
        }
        match line.strip_prefix("#define ").and_then(|define| define.split_once(" -")) {
            Some((name, number)) if number.bytes().all(|b| b.is_ascii_digit()) => {
                out.push_str(&format!("#define {name} (-{number})\n"));
            }
            _ => {
                out.push_str(line);
                out.push('\n');
            }
        }
        rest = behind;
    }
    out
}

/// The macros of the version; the whole workspace has one version, so xtask's is the library's.
fn version_macros(version: &str) -> Result<String, String> {
    let parts: Vec<&str> = version.split(['.', '-', '+']).take(3).collect();
    let &[major, minor, patch] = parts.as_slice() else {
        return Err(format!("the version {version} has not three parts"));
    };
    Ok(format!(
        "
/** Version of this header: major part. */
#define DFS_VERSION_MAJOR {major}
/** Version of this header: minor part. */
#define DFS_VERSION_MINOR {minor}
/** Version of this header: patch part. */
#define DFS_VERSION_PATCH {patch}
/** Version of this header as one number, to be compared with dfs_version(). */
#define DFS_VERSION_NUMBER \\
  (DFS_VERSION_MAJOR * 10000 + DFS_VERSION_MINOR * 100 + DFS_VERSION_PATCH)
/** Version of this header as a text, to be compared with dfs_version_string(). */
#define DFS_VERSION_STRING \"{version}\"
"
    ))
}
