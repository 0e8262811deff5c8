//! The C suite: the installed tree as others use it, by pkg-config, CMake and the examples.
//!
//! What the functions do is tested in `tests/capi.rs`, against the library where cargo puts it.
use crate::run;
use crate::server::{Kind, Server};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Stands for this program in a suite's command.
pub(crate) const SELF: &str = "xtask-itself";
/// How the suite is started.
pub(crate) const COMMAND: &[&str] = &[SELF, "c-suite"];

/// Seconds for one compiler run or program.
const PROGRAM_LIMIT_S: u64 = 120;
/// Flags of every compiler run.
const STRICT: &[&str] = &["-Wall", "-Wextra", "-Werror", "-pedantic", "-pthread"];
/// A program that needs nothing but the library itself.
const VERSION_PROGRAM: &str = "\
#include <dfs.h>
#include <dfs.h>
#include <stdio.h>

int main(void) {
  if (dfs_version() != DFS_VERSION_NUMBER) {
    fprintf(stderr, \"header %d, library %d\\n\", (int)DFS_VERSION_NUMBER, (int)dfs_version());
    return 1;
  }
  return 0;
}
";

const CMAKE_PROJECT: &str = "\
cmake_minimum_required(VERSION 3.13)
project(uses_dfs C)
find_package(Dfs @VERSION@ EXACT REQUIRED)
add_executable(shared version.c)
target_link_libraries(shared PRIVATE Dfs::dfs)
add_executable(static version.c)
target_link_libraries(static PRIVATE Dfs::static)
";

/// What every test needs.
pub(crate) struct Context {
    root: PathBuf,
    /// Scratch folder, `c-suite` in the target folder.
    out: PathBuf,
    /// The installed tree.
    prefix: PathBuf,
}

/// Runs all C tests; ends with the count.
///
/// # Errors
/// When the installed tree or the server cannot be made. Failing tests are counted instead.
pub(crate) fn run_all(root: &Path) -> Result<(), String> {
    let out = run::target_dir(root).join("c-suite");
    if out.exists() {
        std::fs::remove_dir_all(&out).map_err(|e| format!("{}: {e}", out.display()))?;
    }
    std::fs::create_dir_all(&out).map_err(|e| format!("{}: {e}", out.display()))?;
    let prefix = out.join("prefix");
    crate::install::install(root, &prefix, "dev")?;
    let context = Context { root: root.to_owned(), out, prefix };
    let mut tally = Tally::default();
    context.installed_tree(&mut tally);
    let server = Server::start(&run::target_dir(root).join("debug"), Kind::Minidfs)?;
    crate::examples::check(&context, &mut tally, &server.uri);
    drop(server);
    println!("{} passed, {} failed", tally.passed, tally.failed);
    if tally.failed == 0 { Ok(()) } else { Err("C tests failed".to_owned()) }
}

/// Counts and reports.
#[derive(Default)]
pub(crate) struct Tally {
    passed: u64,
    failed: u64,
}

impl Tally {
    /// Takes the result of one test.
    pub(crate) fn note(&mut self, name: &str, result: Result<(), String>) {
        match result {
            Ok(()) => {
                self.passed += 1;
                println!("-- {name}: ok");
            }
            Err(text) => {
                self.failed += 1;
                println!("-- {name}: FAILED");
                for line in text.lines() {
                    println!("   | {line}");
                }
            }
        }
    }
}

impl Context {
    /// Linked dynamically and statically by pkg-config and by CMake.
    fn installed_tree(&self, tally: &mut Tally) {
        let source = self.write("version.c", VERSION_PROGRAM);
        let built = |statically| {
            let source = source.clone()?;
            let name = if statically { "version-static" } else { "version-shared" };
            let program = self.compile(&source, name, statically)?;
            self.finish(self.command(&program))
        };
        tally.note("pkg-config, shared", built(false));
        tally.note("pkg-config, static", built(true));
        tally.note("CMake package", self.cmake());
    }

    fn cmake(&self) -> Result<(), String> {
        let folder = self.out.join("cmake");
        std::fs::create_dir_all(&folder).map_err(|e| e.to_string())?;
        let version = run::version(&self.root)?;
        self.write("cmake/version.c", VERSION_PROGRAM)?;
        self.write("cmake/CMakeLists.txt", &CMAKE_PROJECT.replace("@VERSION@", &version))?;
        let mut configure = Command::new("cmake");
        configure.arg("-S").arg(&folder).arg("-B").arg(folder.join("build"));
        configure.arg(format!("-DCMAKE_PREFIX_PATH={}", self.prefix.display()));
        self.finish(configure)?;
        let mut build = Command::new("cmake");
        build.arg("--build").arg(folder.join("build"));
        self.finish(build)?;
        self.finish(self.command(&folder.join("build/shared")))?;
        self.finish(self.command(&folder.join("build/static")))
    }

    /// Compiles and links one file against the installed tree, as its pkg-config file says.
    fn compile(&self, source: &Path, name: &str, statically: bool) -> Result<PathBuf, String> {
        let mut query = Command::new("pkg-config");
        query.args(["--cflags", "--libs", "dfs"]);
        if statically {
            query.arg("--static");
        }
        let flags = self.output(query)?;
        let flags: Vec<String> = flags
            .split_whitespace()
            // The archive, or the linker would prefer the shared library beside it.
            .map(|f| if statically && f == "-ldfs" { "-l:libdfs.a" } else { f })
            .map(str::to_owned)
            .collect();
        let program = self.out.join(name);
        let mut command = Command::new("cc");
        command.args(STRICT).args(["-std=c11", "-g"]).arg(source);
        command.args(flags).arg("-o").arg(&program);
        self.finish(command)?;
        Ok(program)
    }

    /// A command that finds the installed library.
    pub(crate) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.env("LD_LIBRARY_PATH", self.prefix.join("lib"));
        command
    }

    /// The root of the repository.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Where pkg-config finds the installed library.
    pub(crate) fn pkg_config(&self) -> PathBuf {
        self.prefix.join("lib/pkgconfig")
    }

    /// The scratch folder.
    pub(crate) fn out(&self) -> &Path {
        &self.out
    }

    fn write(&self, name: &str, text: &str) -> Result<PathBuf, String> {
        let path = self.out.join(name);
        std::fs::write(&path, text).map_err(|e| format!("{}: {e}", path.display()))?;
        Ok(path)
    }

    /// Runs a command to its end, within the limit.
    ///
    /// # Errors
    /// The command, how it ended and everything it printed.
    pub(crate) fn finish(&self, command: Command) -> Result<(), String> {
        self.output(command).map(drop)
    }

    /// As [`Context::finish`], with what it printed on standard output.
    pub(crate) fn output(&self, command: Command) -> Result<String, String> {
        let mut limited = Command::new("timeout");
        limited.args(["--kill-after=10", &PROGRAM_LIMIT_S.to_string()]);
        limited.arg(command.get_program()).args(command.get_args());
        for (key, value) in command.get_envs() {
            match value {
                Some(value) => limited.env(key, value),
                None => limited.env_remove(key),
            };
        }
        limited.env("PKG_CONFIG_PATH", self.pkg_config());
        // A fault of the library itself shows where it happened.
        limited.env("RUST_BACKTRACE", "1");
        limited.current_dir(command.get_current_dir().unwrap_or(&self.root));
        let output = limited
            .stdin(Stdio::null())
            .output()
            .map_err(|e| format!("{command:?} cannot be run: {e}"))?;
        let Output { status, stdout, stderr } = output;
        let stdout = String::from_utf8_lossy(&stdout).into_owned();
        if status.success() {
            return Ok(stdout);
        }
        let why = match status.code() {
            Some(124 | 137) => format!("ended after its limit of {PROGRAM_LIMIT_S} s"),
            _ => status.to_string(),
        };
        Err(format!("{command:?}: {why}\n{stdout}{}", String::from_utf8_lossy(&stderr)))
    }
}
