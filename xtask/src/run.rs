//! Runs programs: quietly, with a log file and a time limit.
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// Lines of a log shown after a failure.
const TAIL_LINES: usize = 60;

/// A program to run, with everything that describes it to a reader.
pub(crate) struct Step<'a> {
    /// Short name, also of the log: `ci/<name>.log in the target folder`.
    pub(crate) name: &'a str,
    /// Program and arguments.
    pub(crate) command: Vec<String>,
    /// Folder to run in.
    pub(crate) dir: &'a Path,
    /// More environment variables.
    pub(crate) env: Vec<(String, String)>,
    /// Seconds after which it is ended and counts as failed.
    pub(crate) limit_s: u64,
}

/// How a step ended.
pub(crate) struct Outcome {
    /// It exited with 0 in time.
    pub(crate) ok: bool,
    /// Everything it printed, both streams.
    pub(crate) output: String,
    /// The reason, for a failure.
    pub(crate) why: String,
}

/// The folder of the logs.
pub(crate) fn log_dir(root: &Path) -> PathBuf {
    target_dir(root).join("ci")
}

/// Runs a step with its output in a log file. Lines for which `progress` returns a text are shown
/// while it runs.
///
/// # Errors
/// When the log cannot be written or the program is not there; not for a failing program.
pub(crate) fn step(
    root: &Path,
    step: &Step<'_>,
    progress: impl Fn(&str) -> Option<String>,
) -> Result<Outcome, String> {
    let dir = log_dir(root);
    std::fs::create_dir_all(&dir).map_err(|e| format!("{}: {e}", dir.display()))?;
    let path = dir.join(format!("{}.log", step.name));
    let mut log = File::create(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    let started = Instant::now();
    // `timeout` of coreutils ends the whole process group, so that no server outlives its test.
    // The shell joins both streams, in order.
    let mut child = Command::new("timeout")
        .args(["--kill-after=10", &format!("{}", step.limit_s)])
        .args(["sh", "-c", "exec \"$@\" 2>&1", "sh"])
        .args(&step.command)
        .envs(step.env.iter().map(|(k, v)| (k, v)))
        .current_dir(step.dir)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|e| format!("timeout (Debian package coreutils) cannot be run: {e}"))?;
    let mut output = String::new();
    if let Some(stdout) = child.stdout.take() {
        for line in BufReader::new(stdout).split(b'\n') {
            let line = line.map_err(|e| format!("{}: {e}", step.name))?;
            let line = String::from_utf8_lossy(&line);
            writeln!(log, "{line}").map_err(|e| format!("{}: {e}", path.display()))?;
            output.push_str(&line);
            output.push('\n');
            if let Some(text) = progress(&line) {
                println!("   {text}");
            }
        }
    }
    let status = child.wait().map_err(|e| format!("{}: {e}", step.name))?;
    let why = match status.code() {
        Some(0) => String::new(),
        Some(124 | 137) if started.elapsed().as_secs() >= step.limit_s => {
            format!("ended after its limit of {} s", step.limit_s)
        }
        _ => format!("ended with {status}"),
    };
    Ok(Outcome { ok: status.success(), output, why })
}

/// Shows the end of a failed step's log and where the rest is.
pub(crate) fn show_tail(root: &Path, name: &str, output: &str) {
    let lines: Vec<&str> = output.lines().collect();
    let from = lines.len().saturating_sub(TAIL_LINES);
    for line in lines.iter().skip(from) {
        println!("   | {line}");
    }
    let path = log_dir(root).join(format!("{name}.log"));
    println!("   (all of it: {})", relative(root, &path));
}

/// `path` from `root`, for messages.
pub(crate) fn relative(root: &Path, path: &Path) -> String {
    path.strip_prefix(root).unwrap_or(path).display().to_string()
}

/// Runs cargo with its output shown.
///
/// # Errors
/// When it fails.
pub(crate) fn cargo(root: &Path, args: &[&str]) -> Result<(), String> {
    let status = Command::new(cargo_program())
        .args(args)
        .current_dir(root)
        .status()
        .map_err(|e| format!("cargo cannot be run: {e}"))?;
    if status.success() { Ok(()) } else { Err(format!("cargo {}: {status}", args.join(" "))) }
}

/// Where cargo builds.
pub(crate) fn target_dir(root: &Path) -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(folder) if !folder.is_empty() => root.join(folder),
        _ => root.join("target"),
    }
}

/// The cargo that runs us.
pub(crate) fn cargo_program() -> String {
    std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned())
}

/// What a program prints.
///
/// # Errors
/// When it is missing or fails; its last words included.
pub(crate) fn capture(program: &str, args: &[&str], dir: &Path) -> Result<String, String> {
    let output = Command::new(program)
        .args(args)
        .current_dir(dir)
        .output()
        .map_err(|e| format!("{program} cannot be run: {e}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    Err(format!("{program} {}: {}\n{}", args.join(" "), output.status, text.trim_end()))
}

/// Version of the workspace, from Cargo.toml.
///
/// # Errors
/// When the file has none.
pub(crate) fn version(root: &Path) -> Result<String, String> {
    let text = std::fs::read_to_string(root.join("Cargo.toml")).map_err(|e| e.to_string())?;
    text.lines()
        .find_map(|line| line.strip_prefix("version = \"")?.strip_suffix('"'))
        .map(str::to_owned)
        .ok_or_else(|| "Cargo.toml has no version".to_owned())
}
