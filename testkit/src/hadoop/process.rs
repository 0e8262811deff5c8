//! Child processes that cannot outlive this one.

use super::{HarnessError, Result};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError, mpsc};
use std::time::{Duration, Instant};

type SpawnRequest = (Command, mpsc::Sender<std::io::Result<Child>>);

/// Spawns from one thread that lives as long as the process.
///
/// The kernel sends the parent-death signal when the *thread* that forked ends, so a child
/// started by a test's own thread would die with that test and take a shared cluster along.
fn spawn_from_lasting_thread(command: Command) -> std::io::Result<Child> {
    static SPAWNER: OnceLock<Mutex<mpsc::Sender<SpawnRequest>>> = OnceLock::new();
    let spawner = SPAWNER.get_or_init(|| {
        let (sender, receiver) = mpsc::channel::<SpawnRequest>();
        std::thread::spawn(move || {
            for (mut command, reply) in receiver {
                // A requester that has gone away needs no answer; dropping the child leaves it to
                // the parent-death signal.
                let _ = reply.send(command.spawn());
            }
        });
        Mutex::new(sender)
    });
    let (reply, answer) = mpsc::channel();
    let gone = || std::io::Error::other("the spawning thread has ended");
    spawner
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .send((command, reply))
        .map_err(|_| gone())?;
    answer.recv().map_err(|_| gone())?
}

/// A running JVM (or one that has ended and was not yet replaced).
pub(crate) struct Process {
    name: String,
    log: PathBuf,
    child: Child,
}

impl Process {
    /// Starts `program` with `arguments`; its standard error, and output unless `pipe`, are
    /// appended to `log`. With `pipe`, standard input and output are pipes for the caller.
    pub(crate) fn start(
        name: &str,
        program: &OsStr,
        arguments: &[String],
        log: &Path,
        pipe: bool,
    ) -> Result<Self> {
        let open = || {
            File::options()
                .create(true)
                .append(true)
                .open(log)
                .map_err(|e| HarnessError::io("open the log", log, e))
        };
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "--"]).arg(program).args(arguments);
        // A user name meant for the code under test must not change who the servers run as.
        command.env_remove("HADOOP_USER_NAME").env_remove("HADOOP_PROXY_USER");
        command.stderr(open()?);
        if pipe {
            command.stdin(Stdio::piped()).stdout(Stdio::piped());
        } else {
            command.stdin(Stdio::null()).stdout(open()?);
        }
        let child = spawn_from_lasting_thread(command).map_err(|e| {
            HarnessError::new(format!("could not start {name} through setpriv (util-linux): {e}"))
        })?;
        Ok(Self { name: name.to_owned(), log: log.to_owned(), child })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// The pipes of a process started with `pipe`; the first call gets them.
    pub(crate) fn take_pipes(&mut self) -> Option<(ChildStdin, std::process::ChildStdout)> {
        Some((self.child.stdin.take()?, self.child.stdout.take()?))
    }

    /// `Some` once the process has ended.
    pub(crate) fn ended(&mut self) -> Result<Option<ExitStatus>> {
        self.child
            .try_wait()
            .map_err(|e| HarnessError::new(format!("could not wait for {}: {e}", self.name)))
    }

    /// Fails, with the end of the log, if the process has ended.
    pub(crate) fn check_running(&mut self) -> Result<()> {
        match self.ended()? {
            None => Ok(()),
            Some(status) => Err(HarnessError::new(format!(
                "{} ended ({status}); the end of its log:\n{}",
                self.name,
                self.log_tail(60)
            ))),
        }
    }

    /// SIGKILL, then waits. Works on a stopped process too.
    pub(crate) fn kill(&mut self) -> Result<()> {
        let failed = |e| HarnessError::new(format!("could not kill a process: {e}"));
        self.child.kill().map_err(failed)?;
        self.child.wait().map_err(failed)?;
        Ok(())
    }

    /// Sends a signal by name, such as `STOP`, `CONT` or `TERM`.
    pub(crate) fn signal(&mut self, signal: &str) -> Result<()> {
        self.check_running()?;
        // The shell's own kill: neither a package nor unsafe code is needed for it.
        let status = Command::new("sh")
            .args(["-c", "kill -s \"$0\" \"$1\"", signal, &self.id().to_string()])
            .status();
        match status {
            Ok(status) if status.success() && signal == "STOP" => self.await_stopped(),
            Ok(status) if status.success() => Ok(()),
            other => Err(HarnessError::new(format!(
                "could not send SIG{signal} to {} (pid {}): {other:?}",
                self.name,
                self.id()
            ))),
        }
    }

    /// SIGSTOP returns before the last thread stands still, which on a busy machine takes a while.
    fn await_stopped(&mut self) -> Result<()> {
        const LIMIT: Duration = Duration::from_secs(30);
        let tasks = PathBuf::from(format!("/proc/{}/task", self.id()));
        let begun = Instant::now();
        while begun.elapsed() < LIMIT {
            let list =
                std::fs::read_dir(&tasks).map_err(|e| HarnessError::io("list", &tasks, e))?;
            let mut runs = false;
            for task in list.flatten() {
                // A thread that has ended meanwhile runs no more. The state comes behind the name,
                // which is in parentheses and may hold anything.
                let stat = std::fs::read_to_string(task.path().join("stat")).unwrap_or_default();
                let state = stat.rsplit_once(") ").map(|(_, rest)| rest.as_bytes().first());
                runs |= !matches!(state, None | Some(Some(b'T' | b'Z' | b'X')));
            }
            if !runs {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        Err(HarnessError::new(format!("{} did not stop in {LIMIT:?}", self.name)))
    }

    /// Sets the soft limit on the size of files, bytes or `unlimited`: writes beyond it fail. The
    /// JVM ignores the signal that comes with it.
    pub(crate) fn limit_file_size(&mut self, limit: &str) -> Result<()> {
        self.check_running()?;
        let status = Command::new("prlimit")
            .args(["--pid", &self.id().to_string(), &format!("--fsize={limit}:")])
            .status();
        match status {
            Ok(status) if status.success() => Ok(()),
            other => Err(HarnessError::new(format!(
                "could not limit the file size of {} with prlimit (util-linux): {other:?}",
                self.name
            ))),
        }
    }

    /// The last `lines` lines of the log.
    pub(crate) fn log_tail(&self, lines: usize) -> String {
        tail(&self.log, lines)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Nothing is left to do about a failure here; an ended process is the usual cause.
        let _ = self.kill();
    }
}

/// The last `lines` lines of a file, at most 64 KiB of it.
pub(crate) fn tail(path: &Path, lines: usize) -> String {
    const TAIL_BYTES: u64 = 64 * 1024;
    let read = || -> std::io::Result<String> {
        let mut file = File::open(path)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES)))?;
        let mut bytes = Vec::new();
        file.take(TAIL_BYTES).read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    match read() {
        Ok(text) => {
            let all: Vec<&str> = text.lines().collect();
            let from = all.len().saturating_sub(lines);
            all.into_iter().skip(from).collect::<Vec<_>>().join("\n")
        }
        Err(e) => format!("(no log at {}: {e})", path.display()),
    }
}

/// A directory below the system's temporary one that goes when this value or the process does.
pub(crate) struct TempTree {
    path: PathBuf,
    /// A shell that waits for the end of its input, which comes when this process is gone.
    remover: Child,
}

impl TempTree {
    pub(crate) fn create() -> Result<Self> {
        static COUNTER: AtomicU64 = AtomicU64::new(0);
        let number = COUNTER.fetch_add(1, Ordering::Relaxed);
        let name = format!("libdfs-hadoop-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).map_err(|e| HarnessError::io("create", &path, e))?;
        let script = "cat >/dev/null; for i in 1 2 3 4 5; do rm -rf \"$0\" && break; sleep 1; done";
        let mut command = Command::new("sh");
        command.arg("-c").arg(script).arg(&path);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        // Its own group, so that an interrupt from the terminal does not end it first.
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let remover = command.spawn().map_err(|e| HarnessError::io("guard", &path, e))?;
        Ok(Self { path, remover })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for TempTree {
    fn drop(&mut self) {
        drop(self.remover.stdin.take());
        // The shell's exit status says nothing that a dropped value could report.
        let _ = self.remover.wait();
    }
}
