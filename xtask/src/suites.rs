//! The test suites: each runs with a log, a time limit and a count; the sum ends the output.
use crate::count::{self, Count, Format};
use crate::csuite;
use crate::run::{self, Step};
use std::path::Path;
use std::time::Instant;

/// One suite. It belongs to the run as soon as its folder is there.
struct Suite {
    name: &'static str,
    /// Folder or file without which there is no such suite.
    needs: &'static str,
    format: Format,
    /// Limit on two cores, compilation from nothing included.
    limit_s: u64,
    /// Builds first, so that a compiler error shows as one; may be empty.
    build: &'static [&'static str],
    command: &'static [&'static str],
    /// Runs only when it is named.
    by_name: bool,
}

const SUITES: &[Suite] = &[
    Suite {
        name: "rust",
        needs: "Cargo.toml",
        format: Format::Cargo,
        limit_s: 1500,
        build: &["cargo", "test", "--workspace", "--no-run"],
        command: &["cargo", "test", "--workspace", "--no-fail-fast"],
        by_name: false,
    },
    Suite {
        name: "c",
        needs: "c-examples",
        format: Format::Plain,
        limit_s: 600,
        build: &["cargo", "build", "-p", "dfs", "-p", "dfs-testkit", "--lib", "--bins"],
        command: csuite::COMMAND,
        by_name: false,
    },
    Suite {
        name: "python",
        needs: "python/tests",
        format: Format::Unittest,
        limit_s: 300,
        build: &["cargo", "build", "-p", "dfs", "-p", "dfs-testkit", "--lib", "--bins"],
        command: &["python3", "-m", "unittest", "discover", "-v", "-s", "tests"],
        by_name: false,
    },
    Suite {
        name: "java",
        needs: "jni-bridge/java/pom.xml",
        format: Format::Surefire,
        limit_s: 900,
        build: &["cargo", "build", "-p", "dfs-jni", "-p", "dfs-testkit"],
        command: &["mvn", "-B", "-f", "jni-bridge/java/pom.xml", "verify"],
        by_name: false,
    },
    Suite {
        name: "hbase",
        needs: "jni-bridge/hbase/pom.xml",
        format: Format::Surefire,
        limit_s: 900,
        // The java suite before it has built the native half.
        build: &["mvn", "-B", "-q", "-f", "jni-bridge/java/pom.xml", "compile"],
        command: &["mvn", "-B", "-f", "jni-bridge/hbase/pom.xml", "verify"],
        // Minutes, and all of HBase's jars.
        by_name: true,
    },
];

/// Names of the suites.
pub(crate) fn names() -> Vec<&'static str> {
    SUITES.iter().map(|s| s.name).collect()
}

/// Runs the named suites, or all that are there and need not be named; prints the sum as the
/// last line.
///
/// # Errors
/// When a test failed, was skipped, or none ran.
pub(crate) fn test(root: &Path, wanted: &[&str]) -> Result<(), String> {
    if let Some(name) = wanted.iter().find(|name| !names().contains(*name)) {
        return Err(format!("no suite {name}; there are {}", names().join(", ")));
    }
    let mut sum = Count::default();
    let mut bad = Vec::new();
    for suite in SUITES {
        let there = root.join(suite.needs).exists();
        let chosen =
            if wanted.is_empty() { there && !suite.by_name } else { wanted.contains(&suite.name) };
        if !chosen {
            continue;
        }
        if !there {
            return Err(format!("suite {}: {} is missing", suite.name, suite.needs));
        }
        let started = Instant::now();
        let (count, fault) = run_suite(root, suite)?;
        let Count { passed, failed, skipped } = count;
        println!(
            "== {}: {passed} passed, {failed} failed, {skipped} skipped ({} s){}",
            suite.name,
            started.elapsed().as_secs(),
            fault.as_deref().map(|f| format!(": {f}")).unwrap_or_default()
        );
        sum.add(count);
        // A suite that broke down without a failing test counts as one.
        if let Some(fault) = fault {
            bad.push(format!("{}: {fault}", suite.name));
            sum.failed += u64::from(failed + skipped == 0);
        }
    }
    // A skipped test is a failure: what was to be tested was not.
    println!("{} passed, {} failed", sum.passed, sum.failed + sum.skipped);
    if bad.is_empty() { Ok(()) } else { Err(bad.join("; ")) }
}

/// Runs one suite; the second part of the answer says what was wrong with it as a whole.
fn run_suite(root: &Path, suite: &Suite) -> Result<(Count, Option<String>), String> {
    let log = run::log_dir(root).join(format!("{}.log", suite.name));
    println!("== {} (log: {})", suite.name, run::relative(root, &log));
    if !suite.build.is_empty() {
        let name = format!("{}-build", suite.name);
        let outcome = run::step(root, &step(root, suite, &name, suite.build), |_| None)?;
        if !outcome.ok {
            run::show_tail(root, &name, &outcome.output);
            return Ok((Count::default(), Some(format!("the build {}", outcome.why))));
        }
    }
    let format = suite.format;
    let outcome = run::step(root, &step(root, suite, suite.name, suite.command), |line| {
        progress(format, line)
    })?;
    let count = count::read(format, &outcome.output);
    let fault = judge(count, outcome.ok, &outcome.why);
    if fault.is_some() {
        show_failures(format, &outcome.output);
        run::show_tail(root, suite.name, &outcome.output);
    }
    Ok((count, fault))
}

fn step<'a>(root: &'a Path, suite: &Suite, name: &'a str, command: &[&str]) -> Step<'a> {
    let program = |word: &&str| match *word {
        "cargo" => run::cargo_program(),
        // A suite before this one may have built us anew: the system then says that our own file
        // is deleted, and its place holds the new one.
        csuite::SELF => std::env::current_exe().map_or_else(
            |_| "xtask".to_owned(),
            |p| p.to_string_lossy().trim_end_matches(" (deleted)").to_owned(),
        ),
        other => other.to_owned(),
    };
    let command = command.iter().map(program).collect();
    // Tests wait on servers more than on the processor.
    let env = vec![("RUST_BACKTRACE".to_owned(), "1".to_owned())];
    Step { name, command, dir: root, env, limit_s: suite.limit_s }
}

/// Why a suite counts as failed; `None` if it is fine.
fn judge(count: Count, ok: bool, why: &str) -> Option<String> {
    if count.failed > 0 {
        Some("tests failed".to_owned())
    } else if count.skipped > 0 {
        Some("tests were skipped".to_owned())
    } else if !ok {
        Some(why.to_owned())
    } else if count.passed == 0 {
        Some("no test ran".to_owned())
    } else {
        None
    }
}

/// The lines worth showing while a suite runs.
fn progress(format: Format, line: &str) -> Option<String> {
    let text = line.trim();
    match format {
        Format::Cargo => {
            // "Running tests/it/main.rs (target/debug/deps/it-0123)": without the hash.
            if let Some(rest) = text.strip_prefix("Running ") {
                return Some(rest.split(" (").next().unwrap_or(rest).to_owned());
            }
            let shown = text.starts_with("Doc-tests ") || text.contains(" has been running for");
            shown.then(|| text.to_owned())
        }
        Format::Surefire => {
            text.contains("Tests run:").then(|| text.trim_start_matches("[INFO] ").to_owned())
        }
        Format::Plain => text.strip_prefix("-- ").map(str::to_owned),
        Format::Unittest => None,
    }
}

/// Shows every failing or ignored test by name, since the end of a log may show others.
fn show_failures(format: Format, output: &str) {
    let marks: &[&str] = match format {
        Format::Cargo => &[" ... FAILED", " ... ignored", "panicked at "],
        Format::Unittest => &["FAIL: ", "ERROR: ", " ... skipped"],
        Format::Surefire => &["<<< FAILURE!", "<<< ERROR!"],
        Format::Plain => &["FAILED"],
    };
    for line in output.lines().filter(|l| marks.iter().any(|m| l.contains(m))).take(40) {
        println!("   {}", line.trim());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_passes_silently() {
        let count = |passed, failed, skipped| Count { passed, failed, skipped };
        assert_eq!(judge(count(3, 0, 0), true, ""), None);
        assert!(judge(count(3, 1, 0), false, "x").is_some());
        assert!(judge(count(3, 0, 1), true, "").is_some());
        assert!(judge(count(0, 0, 0), true, "").is_some());
        assert_eq!(judge(count(3, 0, 0), false, "killed").as_deref(), Some("killed"));
    }

    #[test]
    fn progress_shows_test_binaries() {
        let line = "     Running tests/tidy.rs (target/debug/deps/tidy-12)";
        assert_eq!(progress(Format::Cargo, line).as_deref(), Some("tests/tidy.rs"));
        assert_eq!(progress(Format::Cargo, "test a ... ok"), None);
    }
}
