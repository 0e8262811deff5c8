//! The C examples: built as their readers build them, then run against a server.
use crate::csuite::{Context, Tally};
use crate::server::{Kind, Server};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The folder of the examples.
const FOLDER: &str = "c-examples";
/// A file of the repository that the examples copy.
const SAMPLE: &str = "LICENSE";

/// Names of the examples: every folder with a Makefile.
fn topics(root: &Path) -> Result<Vec<String>, String> {
    let folder = root.join(FOLDER);
    let entries = std::fs::read_dir(&folder).map_err(|e| format!("{FOLDER}: {e}"))?;
    let mut names: Vec<String> = entries
        .filter_map(|e| e.ok().map(|e| e.path()))
        .filter(|p| p.join("Makefile").is_file())
        .filter_map(|p| p.file_name()?.to_str().map(str::to_owned))
        .collect();
    names.sort();
    if names.is_empty() { Err(format!("{FOLDER} has no example")) } else { Ok(names) }
}

/// The command that builds one example into `out`, with an installed library and pkg-config alone.
fn build(root: &Path, pkg_config: &Path, out: &Path, topic: &str) -> Command {
    let mut command = Command::new("make");
    command.arg("--silent").arg(format!("OUT={}", out.display()));
    command.env("PKG_CONFIG_PATH", pkg_config).env_remove("MAKEFLAGS").env_remove("MFLAGS");
    command.current_dir(root.join(FOLDER).join(topic));
    command
}

/// Builds every example, and tests each.
pub(crate) fn check(context: &Context, tally: &mut Tally, uri: &str) {
    let out = context.out().join("examples");
    let topics = match topics(context.root()) {
        Ok(topics) => topics,
        Err(text) => return tally.note(FOLDER, Err(text)),
    };
    if let Err(e) = std::fs::create_dir_all(&out) {
        return tally.note(FOLDER, Err(format!("{}: {e}", out.display())));
    }
    for topic in topics {
        let command = build(context.root(), &context.pkg_config(), &out, &topic);
        let built = context.finish(command).is_ok() && out.join(&topic).is_file();
        let result = if built { Ok(()) } else { Err("it does not build".to_owned()) };
        tally.note(&format!("{FOLDER}/{topic} builds"), result);
    }
    let bench = Bench { context, out, uri };
    tally.note("wal: one thread", bench.run("wal", &["--records", "300", "--reads", "50"]));
    let threads = ["--records", "400", "--reads", "50", "--threads", "4", "--sync"];
    tally.note("wal: four threads with hsync", bench.run("wal", &threads));
    let reads = ["--create", "3000000", "--threads", "4", "--reads", "50", "--size", "5000"];
    tally.note("pread: four threads", bench.run("pread", &reads));
    tally.note("copy, cat, tail: the same bytes come back", bench.round_trip());
    tally.note("cat: a missing file is named", bench.missing_file());
}

/// Runs examples against one server.
struct Bench<'a> {
    context: &'a Context,
    out: PathBuf,
    uri: &'a str,
}

impl Bench<'_> {
    fn command(&self, topic: &str, args: &[&str]) -> Command {
        let mut command = self.context.command(&self.out.join(topic));
        // The machine's own Hadoop settings must not matter.
        command.args(args).env_remove("HADOOP_CONF_DIR").env_remove("HADOOP_HOME");
        command
    }

    /// An example with a file of its own as the last argument.
    fn run(&self, topic: &str, args: &[&str]) -> Result<(), String> {
        let url = format!("{}/{topic}-{}", self.uri, args.len());
        self.context.finish(self.command(topic, &[args, &[&url]].concat()))
    }

    /// Up to HDFS and back: `copy`, `cat`, `tail` and `copy` again agree with the local file.
    fn round_trip(&self) -> Result<(), String> {
        let local = self.context.root().join(SAMPLE);
        let wanted = std::fs::read_to_string(&local).map_err(|e| format!("{SAMPLE}: {e}"))?;
        let local = local.to_string_lossy();
        let url = format!("{}/copy of {SAMPLE}", self.uri);
        let context = self.context;
        context.finish(self.command("copy", &["--quiet", &local, &url]))?;
        same("cat", &context.output(self.command("cat", &[&url]))?, &wanted)?;
        let part =
            context.output(self.command("cat", &["--offset", "100", "--length", "50", &url]))?;
        same("cat --offset --length", &part, wanted.get(100..150).unwrap_or_default())?;
        let end = wanted.get(wanted.len() - 200..).unwrap_or_default();
        let tail = ["--bytes", "200", "--follow", &url];
        same("tail", &context.output(self.command("tail", &tail))?, end)?;
        let back = self.out.join("back");
        let back_name = back.to_string_lossy();
        context.finish(self.command("copy", &["--quiet", "--force", &url, &back_name]))?;
        let text = std::fs::read_to_string(&back).map_err(|e| format!("{back_name}: {e}"))?;
        same("copy", &text, &wanted)?;
        // A target that exists is only replaced when asked to.
        match context.finish(self.command("copy", &["--quiet", &local, &url])) {
            Ok(()) => Err("copy replaced a file without --force".to_owned()),
            Err(_) => context.finish(self.command("copy", &["--quiet", "--force", &local, &url])),
        }
    }

    fn missing_file(&self) -> Result<(), String> {
        let url = format!("{}/no such file", self.uri);
        match self.context.finish(self.command("cat", &[&url])) {
            Ok(()) => Err("cat of a missing file ended with success".to_owned()),
            Err(text) if text.contains("/no such file: ") || text.contains("/no such file\n") => {
                Ok(())
            }
            Err(text) => Err(format!("the message does not name the file: {text}")),
        }
    }
}

fn same(what: &str, got: &str, wanted: &str) -> Result<(), String> {
    if got == wanted {
        return Ok(());
    }
    Err(format!("{what}: got {} bytes, wanted {}, or others", got.len(), wanted.len()))
}

/// `cargo xtask demo [--hadoop]`: the examples against a server of their own, output shown.
///
/// # Errors
/// What went wrong, with the server's words if it was the server.
pub(crate) fn demo(root: &Path, args: &[&str]) -> Result<(), String> {
    let kind = match args {
        [] => Kind::Minidfs,
        ["--hadoop"] => Kind::Hadoop,
        _ => return Err(format!("unknown arguments {args:?}; it takes --hadoop")),
    };
    let target = crate::run::target_dir(root);
    let prefix = target.join("demo");
    let out = prefix.join("examples");
    std::fs::create_dir_all(&out).map_err(|e| format!("{}: {e}", out.display()))?;
    println!("== building {FOLDER} against the installed library");
    for topic in topics(root)? {
        show(build(root, &prefix.join("lib/pkgconfig"), &out, &topic))?;
    }
    let words = if kind == Kind::Hadoop { ", a real Hadoop cluster" } else { "" };
    println!("== starting {}{words}", kind.name());
    let server = Server::start(&target.join("release"), kind)?;
    println!("   {}", server.uri);
    // As large as one minute allows: on real Hadoop a flush takes longer.
    let records = if kind == Kind::Hadoop { "5000" } else { "20000" };
    let steps: &[(&str, &str, &[&str])] = &[
        ("a write-ahead log, one thread", "wal", &["--records", records]),
        ("the same, eight threads", "wal", &["--records", records, "--threads", "8"]),
        ("random reads", "pread", &["--create", "67108864", "--reads", "2000"]),
    ];
    for (index, (title, topic, args)) in steps.iter().enumerate() {
        let url = format!("{}/demo-{index}", server.uri);
        println!("\n== {title}\n   $ {topic} {} {url}", args.join(" "));
        let mut command = Command::new(out.join(topic));
        command.args(*args).arg(&url).env("LD_LIBRARY_PATH", prefix.join("lib"));
        command.env_remove("HADOOP_CONF_DIR").env_remove("HADOOP_HOME");
        show(command)?;
    }
    println!("\nthe programs: {}", crate::run::relative(root, &out));
    Ok(())
}

/// Runs a command with its output shown.
fn show(mut command: Command) -> Result<(), String> {
    let status = command.status().map_err(|e| format!("{command:?} cannot be run: {e}"))?;
    if status.success() { Ok(()) } else { Err(format!("{command:?}: {status}")) }
}
