//! The jars of one Hadoop version and the harness's own Java programs, below `target/hadoop/`.

use super::{HarnessError, Result};
use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The Hadoop version used when `DFS_HADOOP` is not set.
pub const DEFAULT_VERSION: &str = "3.5.0";

/// Everything needed to run Java programs of one Hadoop version.
#[derive(Clone, Debug)]
pub struct Artifacts {
    version: String,
    class_path: String,
}

impl Artifacts {
    /// The version asked for by `DFS_HADOOP`, or [`DEFAULT_VERSION`].
    pub fn wanted_version() -> String {
        match std::env::var("DFS_HADOOP") {
            Ok(version) if !version.is_empty() => version,
            _ => DEFAULT_VERSION.to_owned(),
        }
    }

    /// Makes what is missing or out of date: resolves the jars with Maven, compiles the Java
    /// sources. Later calls take milliseconds and need no network. Processes wait for each other.
    pub fn prepare(version: &str) -> Result<Self> {
        let fits = version.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b));
        if !fits || !version.starts_with(['2', '3']) {
            return Err(HarnessError::new(format!(
                "DFS_HADOOP must be a Hadoop 2 or 3 version such as {DEFAULT_VERSION}, \
                 not {version:?}"
            )));
        }
        let home = target_directory().join("hadoop").join(version);
        fs::create_dir_all(&home).map_err(|e| HarnessError::io("create", &home, e))?;
        let lock_path = home.join("lock");
        let lock =
            File::create(&lock_path).map_err(|e| HarnessError::io("create", &lock_path, e))?;
        lock.lock().map_err(|e| HarnessError::io("lock", &lock_path, e))?;

        let sources = source_directory();
        let pom = read(&sources.join("pom.xml"))?;
        resolve_jars(version, &home, &sources, &pom)?;
        let jars = jars_of(&home.join("lib"))?;
        let own_jar = compile(&home, &sources, &jars, &pom)?;
        let mut class_path = own_jar.display().to_string();
        for jar in &jars {
            class_path.push(':');
            class_path.push_str(&jar.display().to_string());
        }
        Ok(Self { version: version.to_owned(), class_path })
    }

    /// The Hadoop version, such as `3.5.0`.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The Java class path: the harness's jar first, then Hadoop's, separated by `:`.
    pub fn class_path(&self) -> &str {
        &self.class_path
    }
}

/// The `java` (or `javac`, `jar`) program: of `JAVA_HOME` if that is set.
pub(crate) fn java_tool(name: &str) -> OsString {
    match std::env::var_os("JAVA_HOME") {
        Some(home) if !home.is_empty() => Path::new(&home).join("bin").join(name).into(),
        _ => name.into(),
    }
}

fn source_directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("hadoop")
}

fn target_directory() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(directory) if !directory.is_empty() => PathBuf::from(directory),
        _ => Path::new(env!("CARGO_MANIFEST_DIR")).join("../target"),
    }
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).map_err(|e| HarnessError::io("read", path, e))
}

/// True when `stamp` says that its step was done with the same input.
fn is_current(stamp: &Path, input: &str) -> bool {
    fs::read_to_string(stamp).is_ok_and(|text| text == input)
}

fn write_stamp(stamp: &Path, input: &str) -> Result<()> {
    fs::write(stamp, input).map_err(|e| HarnessError::io("write", stamp, e))
}

fn fresh_directory(path: &Path) -> Result<()> {
    if path.exists() {
        fs::remove_dir_all(path).map_err(|e| HarnessError::io("remove", path, e))?;
    }
    fs::create_dir_all(path).map_err(|e| HarnessError::io("create", path, e))
}

fn resolve_jars(version: &str, home: &Path, sources: &Path, pom: &str) -> Result<()> {
    let lib = home.join("lib");
    let stamp = home.join("lib.stamp");
    if is_current(&stamp, pom) {
        return Ok(());
    }
    let run = |offline: bool| {
        fresh_directory(&lib)?;
        let mut command = Command::new("mvn");
        command.args(["-B", "-q", "-f"]).arg(sources.join("pom.xml"));
        command.arg("-P").arg(if version.starts_with('2') { "line2" } else { "line3" });
        command.arg(format!("-Dhadoop.version={version}"));
        command.arg("dependency:copy-dependencies");
        command.arg(format!("-DoutputDirectory={}", lib.display()));
        if offline {
            command.arg("-o");
        }
        run_tool(command, "Maven (Debian package maven)")
    };
    // Offline first: it is fast and works on a machine that has resolved them before.
    if run(true).is_err() {
        run(false)?;
    }
    write_stamp(&stamp, pom)
}

fn jars_of(lib: &Path) -> Result<Vec<PathBuf>> {
    let mut jars = files_below(lib)?;
    jars.retain(|path| path.extension().is_some_and(|e| e == "jar"));
    if jars.is_empty() {
        return Err(HarnessError::new(format!("Maven left no jar in {}", lib.display())));
    }
    Ok(jars)
}

/// All files below `directory`, sorted, so that class paths are the same on every machine.
fn files_below(directory: &Path) -> Result<Vec<PathBuf>> {
    let failed = |e| HarnessError::io("list", directory, e);
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.is_dir() {
            files.extend(files_below(&path)?);
        } else {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// Compiles the Java sources against `jars` and packs them with the resources.
fn compile(home: &Path, sources: &Path, jars: &[PathBuf], pom: &str) -> Result<PathBuf> {
    let java_files = files_below(&sources.join("java"))?;
    let resources = sources.join("resources");
    let mut input = pom.to_owned();
    for path in java_files.iter().chain(&files_below(&resources)?) {
        input.push_str(&read(path)?);
    }
    let jar_path = home.join("testkit.jar");
    let stamp = home.join("testkit.stamp");
    if is_current(&stamp, &input) && jar_path.exists() {
        return Ok(jar_path);
    }
    let classes = home.join("classes");
    fresh_directory(&classes)?;
    let list: Vec<String> = jars.iter().map(|jar| jar.display().to_string()).collect();
    let mut javac = Command::new(java_tool("javac"));
    // Java 8 is what Hadoop 2.7 to 3.4 run on; the programs keep to it.
    javac.args(["--release", "8", "-Xlint:-options", "-nowarn", "-encoding", "UTF-8"]);
    javac.arg("-d").arg(&classes).arg("-cp").arg(list.join(":")).args(&java_files);
    run_tool(javac, "javac (Debian package openjdk-17-jdk-headless)")?;
    let mut jar = Command::new(java_tool("jar"));
    jar.arg("cf").arg(&jar_path);
    jar.arg("-C").arg(&classes).arg(".").arg("-C").arg(&resources).arg(".");
    run_tool(jar, "jar (Debian package openjdk-17-jdk-headless)")?;
    write_stamp(&stamp, &input)?;
    Ok(jar_path)
}

/// Runs to the end; the error holds the command and the end of what it printed.
fn run_tool(mut command: Command, what: &str) -> Result<()> {
    let output = command
        .output()
        .map_err(|e| HarnessError::new(format!("could not run {what}, needed for Hadoop: {e}")))?;
    if output.status.success() {
        return Ok(());
    }
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.push_str(&String::from_utf8_lossy(&output.stderr));
    let lines: Vec<&str> = text.lines().collect();
    let from = lines.len().saturating_sub(30);
    let end = lines.into_iter().skip(from).collect::<Vec<_>>().join("\n");
    Err(HarnessError::new(format!("{command:?} failed ({}):\n{end}", output.status)))
}
