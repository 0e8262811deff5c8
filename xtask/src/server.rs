//! Servers for examples and C tests: `minidfs`, or a real Hadoop cluster, as child processes.
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// Which server to start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The small HDFS of the testkit.
    Minidfs,
    /// Hadoop's own NameNode and DataNodes.
    Hadoop,
}

impl Kind {
    /// Program of the testkit, the word its ready line starts with, and the seconds it may take.
    fn program(self) -> (&'static str, &'static str, u64) {
        match self {
            Kind::Minidfs => ("minidfs", "minidfs ready ", 30),
            // The first start resolves Hadoop's jars.
            Kind::Hadoop => ("hadoop-cluster", "hadoop ready ", 600),
        }
    }

    /// The name of the program.
    pub(crate) fn name(self) -> &'static str {
        self.program().0
    }
}

/// A running server; it stops when this is dropped, or when this process dies, since its standard
/// input then closes.
pub(crate) struct Server {
    child: Child,
    /// `hdfs://host:port`.
    pub(crate) uri: String,
}

impl Server {
    /// Starts the program of `kind` in `bin_dir` and waits until it is ready.
    ///
    /// # Errors
    /// When it cannot be started, ends, or is not ready in time; with what it said.
    pub(crate) fn start(bin_dir: &Path, kind: Kind) -> Result<Server, String> {
        let (name, word, limit_s) = kind.program();
        let path = bin_dir.join(name);
        let mut child = Command::new(&path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|e| format!("{} cannot be started: {e}", path.display()))?;
        let (send, lines) = mpsc::channel();
        if let Some(stdout) = child.stdout.take() {
            std::thread::spawn(move || {
                // Read to the end, so that the server never blocks on a full pipe.
                for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                    // Nobody listens any more once the server is ready.
                    let _ = send.send(line);
                }
            });
        }
        let (words_send, words) = mpsc::channel();
        if let Some(mut stderr) = child.stderr.take() {
            std::thread::spawn(move || {
                let mut text = String::new();
                // What could be read is what there is to show.
                let _ = stderr.read_to_string(&mut text);
                let _ = words_send.send(text);
            });
        }
        let mut server = Server { child, uri: String::new() };
        let until = std::time::Instant::now() + Duration::from_secs(limit_s);
        loop {
            let left = until.saturating_duration_since(std::time::Instant::now());
            match lines.recv_timeout(left) {
                Ok(line) => {
                    if let Some(uri) = line.strip_prefix(word) {
                        uri.trim().clone_into(&mut server.uri);
                        return Ok(server);
                    }
                }
                Err(why) => {
                    let timed_out = why == mpsc::RecvTimeoutError::Timeout;
                    server.stop();
                    let said = words.recv_timeout(Duration::from_secs(5)).unwrap_or_default();
                    let what = if timed_out {
                        format!("was not ready within {limit_s} s")
                    } else {
                        "ended before it was ready".to_owned()
                    };
                    return Err(format!("{name} {what}\n{}", said.trim_end()));
                }
            }
        }
    }

    fn stop(&mut self) {
        // Closing its standard input asks it to stop; it has five seconds.
        drop(self.child.stdin.take());
        for _ in 0..100 {
            if let Ok(Some(_)) = self.child.try_wait() {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        // It may have ended in this moment.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}
