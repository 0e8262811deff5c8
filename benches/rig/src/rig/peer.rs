//! Client processes: one command line in, one answer line out.
use super::options::Options;
use super::server::Server;
use crate::api::Result;
use crate::command::{Command, decode};
use crate::json::Json;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// How long one command may take.
const COMMAND_LIMIT: Duration = Duration::from_secs(300);

/// A running client.
pub(super) struct Peer {
    name: String,
    child: Child,
    input: Option<ChildStdin>,
    answers: mpsc::Receiver<String>,
    uri: String,
    version: String,
    log: PathBuf,
}

/// The command line of a client, or why there is none.
type Available = std::result::Result<Vec<String>, String>;

/// Names and command lines of the clients that the options ask for.
pub(super) fn commands(options: &Options, server: &Server) -> Result<Vec<(String, Available)>> {
    let exe = std::env::current_exe().map_err(|e| format!("where is this program? {e}"))?;
    let lib = library(options, &exe)?.display().to_string();
    let own = |args: &[&str]| -> Available {
        let exe = exe.display().to_string();
        Ok([exe].into_iter().chain(args.iter().map(|a| (*a).to_owned())).collect())
    };
    let mut all = vec![
        ("libdfs".to_owned(), own(&["client", "--lib", &lib])),
        ("java".to_owned(), server.java_client()),
        ("floor".to_owned(), own(&["floor"])),
    ];
    if cfg!(feature = "hdfs-native") {
        all.push(("hdfs-native".to_owned(), own(&["client", "--hdfs-native"])));
    }
    all.extend(options.peers.iter().map(|(name, command)| (name.clone(), Ok(command.clone()))));
    all.retain(|(name, _)| options.wants(name));
    Ok(all)
}

/// The shared library to measure: the one that is asked for, else the one that was built with this
/// program, which cargo leaves in `deps` beside it.
fn library(options: &Options, exe: &Path) -> Result<PathBuf> {
    let path = options.lib.clone().unwrap_or_else(|| exe.with_file_name("deps/libdfs.so"));
    if path.is_file() { Ok(path) } else { Err(format!("no library at {}", path.display())) }
}

impl Peer {
    /// Starts a client for the file system `uri` and waits until it is ready; its standard error
    /// goes to `NAME.log` in `directory`.
    pub(super) fn start(
        name: &str,
        command: &[String],
        uri: &str,
        directory: &Path,
    ) -> Result<Peer> {
        let log = directory.join(format!("{name}.log"));
        let file = File::options().create(true).append(true).open(&log);
        let file = file.map_err(|e| format!("{}: {e}", log.display()))?;
        let (program, args) = command.split_first().ok_or("a client's command is empty")?;
        let mut child = std::process::Command::new(program)
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(file)
            .spawn()
            .map_err(|e| format!("cannot start {name} ({program}): {e}"))?;
        let input = child.stdin.take();
        let output = child.stdout.take().ok_or("a client has no output")?;
        let (sender, answers) = mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(std::io::Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        let (name, uri) = (name.to_owned(), uri.to_owned());
        let mut peer = Peer { name, child, input, answers, uri, version: String::new(), log };
        let line = peer.line("being started")?;
        let version = line.strip_prefix("READY ");
        peer.version = version.ok_or_else(|| format!("{} began with {line:?}", peer.name))?.into();
        Ok(peer)
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn version(&self) -> &str {
        &self.version
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    fn about(&self, what: impl std::fmt::Display) -> String {
        format!("{}: {what} (see {})", self.name, self.log.display())
    }

    fn line(&self, after: &str) -> Result<String> {
        let got = self.answers.recv_timeout(COMMAND_LIMIT);
        got.map_err(|e| self.about(format_args!("no answer after {after}: {e}")))
    }

    /// Runs one command.
    pub(super) fn call(&mut self, command: &Command) -> Result<Json> {
        let command = command.clone().with("conf.fs.defaultFS", &self.uri);
        let input = self.input.as_mut().ok_or("a client has no input")?;
        let sent = writeln!(input, "{command}").and_then(|()| input.flush());
        sent.map_err(|e| self.about(format_args!("cannot send a command: {e}")))?;
        let line = self.line(&command.to_string())?;
        match line.strip_prefix("ERR ") {
            Some(error) => Err(self.about(decode(error).unwrap_or_else(|_| error.to_owned()))),
            None => Json::parse(&line).map_err(|e| self.about(format_args!("{e} in {line}"))),
        }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // The end of its input ends a client; one that hangs is killed. A failure means that it
        // has ended already.
        drop(self.input.take());
        for _ in 0..50 {
            if matches!(self.child.try_wait(), Ok(Some(_)) | Err(_)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let _killed = self.child.kill();
        let _ended = self.child.wait();
    }
}

impl Server {
    /// The command line of Hadoop's own client.
    fn java_client(&self) -> Available {
        let class_path = self.class_path()?;
        let java = std::env::var("JAVA_HOME")
            .map_or_else(|_| "java".to_owned(), |home| format!("{home}/bin/java"));
        let words = ["-Xms1g", "-Xmx1g", "-Djava.net.preferIPv4Stack=true", "-cp"];
        let mut command = vec![java];
        command.extend(words.map(str::to_owned));
        command.push(class_path.to_owned());
        command.push("io.libdfs.testkit.BenchClient".to_owned());
        Ok(command)
    }
}
