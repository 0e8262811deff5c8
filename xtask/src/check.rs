//! `cargo xtask check`, `fix` and `tidy`.
use crate::run::{self, Step};
use crate::{elf, tidy};
use std::path::Path;
use std::time::Instant;

/// Seconds for one step on two cores, compilation from nothing included.
const STEP_LIMIT_S: u64 = 900;

/// Runs every check, shows one line each, and stops at the end only: one run shows all faults.
///
/// # Errors
/// Names the checks that failed.
pub(crate) fn check(root: &Path) -> Result<(), String> {
    let mut failed = Vec::new();
    let cargo = run::cargo_program();
    let lints = ["--", "-D", "warnings"];
    let header = ["run", "--quiet", "-p", "xtask", "--features", "header", "--", "header"];
    // Name, arguments, and those behind them.
    let steps: &[(&str, &[&str], &[&str])] = &[
        ("fmt", &["fmt", "--all", "--check"], &[]),
        ("clippy", &["clippy", "--quiet", "--workspace", "--all-targets"], &lints),
        ("header", &header, &["--check"]),
        ("doc", &["doc", "--quiet", "--no-deps", "--document-private-items", "-p", "dfs"], &[]),
    ];
    for (name, args, more) in steps {
        let mut command = vec![cargo.clone()];
        command.extend(args.iter().chain(*more).map(|s| (*s).to_owned()));
        let flags = "-D warnings -A rustdoc::private_intra_doc_links";
        let env = vec![("RUSTDOCFLAGS".to_owned(), flags.to_owned())];
        let step = Step { name, command, dir: root, env, limit_s: STEP_LIMIT_S };
        let started = Instant::now();
        let outcome = run::step(root, &step, |_| None)?;
        report(name, outcome.ok, started, &mut failed);
        if !outcome.ok {
            println!("   {}", outcome.why);
            run::show_tail(root, name, &outcome.output);
        }
    }
    type Check = fn(&Path) -> Result<(), String>;
    let own: &[(&str, Check)] =
        &[("tidy", tidy), ("symbols", elf::symbols), ("abi", |root| elf::abi(root, &[]))];
    for (name, check) in own {
        let started = Instant::now();
        let result = check(root);
        report(name, result.is_ok(), started, &mut failed);
        if let Err(text) = result {
            println!("   {}", text.replace('\n', "\n   "));
        }
    }
    if failed.is_empty() { Ok(()) } else { Err(format!("failed: {}", failed.join(", "))) }
}

fn report<'a>(name: &'a str, ok: bool, started: Instant, failed: &mut Vec<&'a str>) {
    let word = if ok { "ok" } else { "FAILED" };
    println!("check {name:<10} {word:<7} {:>5.1} s", started.elapsed().as_secs_f64());
    if !ok {
        failed.push(name);
    }
}

/// Formats the code and takes clippy's machine-applicable advice.
///
/// # Errors
/// When a tool fails.
pub(crate) fn fix(root: &Path) -> Result<(), String> {
    let clippy = ["clippy", "--fix", "--allow-dirty", "--allow-staged", "--workspace"];
    run::cargo(root, &[&clippy[..], &["--all-targets"]].concat())?;
    run::cargo(root, &["fmt", "--all"])
}

/// Checks the rules of [`tidy`].
///
/// # Errors
/// All findings, one a line.
pub(crate) fn tidy(root: &Path) -> Result<(), String> {
    let findings = tidy::check(root)?;
    if findings.is_empty() {
        return Ok(());
    }
    let lines: Vec<String> = findings.iter().map(ToString::to_string).collect();
    Err(format!("{} findings\n{}", lines.len(), lines.join("\n")))
}
