//! A Java program that answers one line for every line it is given.

use super::artifacts::java_tool;
use super::process::{Process, tail};
use super::{Artifacts, HarnessError, Result};
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::ChildStdin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError, mpsc};
use std::time::Duration;

struct Pipes {
    input: ChildStdin,
    answers: mpsc::Receiver<String>,
    process: Process,
}

/// The process; lines go through it one at a time, whatever the number of callers.
pub(crate) struct LineProcess {
    pipes: Mutex<Pipes>,
    name: String,
    home: PathBuf,
    limit: Duration,
}

impl LineProcess {
    /// Runs the main class `class` with the client configuration of `conf_dir`; `options` are the
    /// JVM's. Its log and temporary files go below `directory`. An answer may take `limit`.
    pub(crate) fn start(
        artifacts: &Artifacts,
        class: &str,
        options: impl FnOnce(&Path) -> Vec<String>,
        conf_dir: &Path,
        directory: &Path,
        limit: Duration,
    ) -> Result<Self> {
        static COUNTER: AtomicU32 = AtomicU32::new(0);
        let short = class.rsplit('.').next().unwrap_or(class);
        let name = format!("{short}-{}", COUNTER.fetch_add(1, Ordering::Relaxed));
        let home = directory.join(&name);
        fs::create_dir_all(&home).map_err(|e| HarnessError::io("create", &home, e))?;
        let mut arguments = options(&home);
        arguments.push("-cp".into());
        arguments.push(format!("{}:{}", artifacts.class_path(), conf_dir.display()));
        arguments.push(class.into());
        let log = home.join("log");
        let mut process = Process::start(&name, &java_tool("java"), &arguments, &log, true)?;
        let (input, output) = process
            .take_pipes()
            .ok_or_else(|| HarnessError::new(format!("{name} was started without pipes")))?;
        let (sender, answers) = mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(std::io::Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        let pipes = Mutex::new(Pipes { input, answers, process });
        let this = Self { pipes, name, home, limit };
        let ready = this.next_line(None)?;
        if !ready.starts_with("READY ") {
            return Err(HarnessError::new(format!("{} began with {ready:?}", this.name)));
        }
        Ok(this)
    }

    /// Sends a command and returns the answer.
    pub(crate) fn ask(&self, command: &str) -> Result<String> {
        self.next_line(Some(command))
    }

    /// The last `lines` lines of what the program has logged.
    pub(crate) fn log_tail(&self, lines: usize) -> String {
        tail(&self.home.join("log"), lines)
    }

    /// The process id.
    pub(crate) fn id(&self) -> u32 {
        self.pipes.lock().unwrap_or_else(PoisonError::into_inner).process.id()
    }

    fn failed(&self, what: &str) -> HarnessError {
        let end = self.log_tail(40);
        HarnessError::new(format!("{} {what}; its log ends with:\n{end}", self.name))
    }

    /// Sends `command` if any and waits for a line. The process is killed when none comes in
    /// time, since later answers could not be told apart.
    fn next_line(&self, command: Option<&str>) -> Result<String> {
        let mut pipes = self.pipes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(command) = command {
            let sent = writeln!(pipes.input, "{command}").and_then(|()| pipes.input.flush());
            sent.map_err(|e| self.failed(&format!("takes no command ({e})")))?;
        }
        match pipes.answers.recv_timeout(self.limit) {
            Ok(line) => Ok(line),
            Err(mpsc::RecvTimeoutError::Disconnected) => Err(self.failed("has ended")),
            Err(mpsc::RecvTimeoutError::Timeout) => {
                pipes.process.kill()?;
                let command = command.unwrap_or("its start");
                Err(self.failed(&format!("did not answer in {:?}: {command}", self.limit)))
            }
        }
    }
}
