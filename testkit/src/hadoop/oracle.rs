//! Hadoop's own Java client in a process of its own, behind typed calls.

use super::config::jvm_options;
use super::line_process::LineProcess;
use super::{Artifacts, HarnessError, Result};
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

mod types;

pub use types::{
    BlockLocation, ContentSummary, FileChecksum, FileStatus, Flush, FsStatus, Locations,
    ReadRequest, ReadResult, WriteRequest,
};

use types::{Answer, decode, encode};

/// How long one command may take.
const COMMAND_LIMIT: Duration = Duration::from_secs(120);

/// What a call to the [`Oracle`] failed with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OracleError {
    /// Hadoop threw.
    Java {
        /// Full class name, such as `java.io.FileNotFoundException`.
        class: String,
        /// The exception's message.
        message: String,
    },
    /// The Java process ended, did not answer, or answered what this wrapper does not know.
    Harness(HarnessError),
}

impl OracleError {
    /// True for an exception of this class; the package may be left out.
    pub fn is(&self, class: &str) -> bool {
        match self {
            Self::Java { class: thrown, .. } => {
                thrown == class || thrown.ends_with(&format!(".{class}"))
            }
            Self::Harness(_) => false,
        }
    }
}

impl fmt::Display for OracleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Java { class, message } => write!(f, "{class}: {message}"),
            Self::Harness(e) => write!(f, "{e}"),
        }
    }
}

impl std::error::Error for OracleError {}

impl From<HarnessError> for OracleError {
    fn from(e: HarnessError) -> Self {
        Self::Harness(e)
    }
}

type OracleResult<T> = std::result::Result<T, OracleError>;

/// Hadoop's Java client (`FileSystem` of the cluster's own version). Commands run one at a time;
/// clones share the process. See `testkit/hadoop/java/io/libdfs/testkit/Oracle.java`.
#[derive(Clone)]
pub struct Oracle {
    process: Arc<LineProcess>,
    extra: Vec<(String, String)>,
}

impl Oracle {
    /// Starts the Java process with the configuration in `conf_dir`; its log and temporary files
    /// go below `directory`.
    pub fn start(artifacts: &Artifacts, conf_dir: &Path, directory: &Path) -> Result<Self> {
        let class = "io.libdfs.testkit.Oracle";
        let options = |home: &Path| jvm_options(256, false, home);
        let process =
            LineProcess::start(artifacts, class, options, conf_dir, directory, COMMAND_LIMIT)?;
        Ok(Self { process: Arc::new(process), extra: Vec::new() })
    }

    /// The same process, with commands run as another user.
    pub fn as_user(&self, user: &str) -> Self {
        self.with("user", user)
    }

    /// The same process, with a client property set for the commands.
    pub fn with_conf(&self, key: &str, value: &str) -> Self {
        self.with(&format!("conf.{key}"), value)
    }

    fn with(&self, key: &str, value: &str) -> Self {
        let mut other = self.clone();
        other.extra.push((key.to_owned(), value.to_owned()));
        other
    }

    fn call(&self, verb: &str, arguments: &[(&str, &str)]) -> OracleResult<Answer> {
        let mut line = verb.to_owned();
        let extra = self.extra.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        for (key, value) in arguments.iter().copied().chain(extra) {
            line.push_str(&format!(" {key}={}", encode(value)));
        }
        let answer = self.process.ask(&line)?;
        if let Some(fields) = answer.strip_prefix("OK") {
            return Ok(Answer::parse(fields)?);
        }
        match answer.strip_prefix("ERR ").and_then(|rest| rest.split_once(' ')) {
            Some((class, message)) => {
                Err(OracleError::Java { class: class.to_owned(), message: decode(message)? })
            }
            None => Err(HarnessError::new(format!("{line}: unknown answer {answer:?}")).into()),
        }
    }

    /// Writes a whole file and closes it.
    pub fn write(&self, path: &str, request: &WriteRequest) -> OracleResult<()> {
        self.call("write", &request.arguments(path).borrowed()).map(drop)
    }

    /// Appends `request.length` bytes; the content goes on at the file's old length.
    pub fn append(&self, path: &str, request: &WriteRequest) -> OracleResult<()> {
        self.call("append", &request.arguments(path).borrowed()).map(drop)
    }

    /// Creates a file and keeps it open, with a lease holder of its own; `length`, `chunk` and
    /// `flush` of the request are not used. Returns the handle for the calls below.
    pub fn open(&self, path: &str, request: &WriteRequest) -> OracleResult<u64> {
        self.call("open", &request.arguments(path).borrowed())?.number("handle")
    }

    /// Opens a file for append and keeps it open.
    pub fn open_append(&self, path: &str) -> OracleResult<u64> {
        self.call("open", &[("path", path), ("append", "true")])?.number("handle")
    }

    /// Writes `request.length` bytes to an open handle; returns the writer's position after it.
    pub fn put(&self, handle: u64, request: &WriteRequest) -> OracleResult<u64> {
        let arguments = request.arguments("").and("handle", handle);
        self.call("put", &arguments.borrowed())?.number("position")
    }

    /// hflush of an open handle.
    pub fn hflush(&self, handle: u64) -> OracleResult<()> {
        self.call("hflush", &[("handle", &handle.to_string())]).map(drop)
    }

    /// hsync of an open handle.
    pub fn hsync(&self, handle: u64) -> OracleResult<()> {
        self.call("hsync", &[("handle", &handle.to_string())]).map(drop)
    }

    /// Closes an open handle: the file is complete.
    pub fn close(&self, handle: u64) -> OracleResult<()> {
        self.call("close", &[("handle", &handle.to_string())]).map(drop)
    }

    /// Gives an open handle up as a crash would: the file stays open, its lease is not renewed.
    pub fn abandon(&self, handle: u64) -> OracleResult<()> {
        self.call("abandon", &[("handle", &handle.to_string())]).map(drop)
    }

    /// Reads a file or a range of it, also while it is being written.
    pub fn read(&self, path: &str, request: &ReadRequest) -> OracleResult<ReadResult> {
        let answer = self.call("read", &request.arguments(path).borrowed())?;
        ReadResult::from_answer(&answer)
    }

    /// The file checksum, of the first `length` bytes if given.
    /// `with_conf("dfs.checksum.combine.mode", "COMPOSITE_CRC")` asks for the other kind (3.1+).
    pub fn checksum(&self, path: &str, length: Option<u64>) -> OracleResult<FileChecksum> {
        let length = length.map(|n| n.to_string());
        let mut arguments = vec![("path", path)];
        arguments.extend(length.as_deref().map(|n| ("length", n)));
        let answer = self.call("checksum", &arguments)?;
        Ok(FileChecksum { algorithm: answer.text("algorithm")?, hex: answer.text("bytes")? })
    }

    /// The status of a path.
    pub fn stat(&self, path: &str) -> OracleResult<FileStatus> {
        FileStatus::parse(&self.call("stat", &[("path", path)])?.text("status")?)
    }

    /// The entries of a directory, in Hadoop's order.
    pub fn list(&self, path: &str) -> OracleResult<Vec<FileStatus>> {
        let answer = self.call("list", &[("path", path)])?;
        answer.all("status").map(FileStatus::parse).collect()
    }

    /// Blocks and their DataNodes.
    pub fn locations(&self, path: &str) -> OracleResult<Locations> {
        Locations::from_answer(&self.call("locations", &[("path", path)])?)
    }

    /// Makes a directory and its parents.
    pub fn mkdir(&self, path: &str) -> OracleResult<bool> {
        self.call("mkdir", &[("path", path)])?.flag("done")
    }

    /// Renames; with `overwrite` through rename2 with that option.
    pub fn rename(&self, from: &str, to: &str, overwrite: bool) -> OracleResult<bool> {
        let overwrite = if overwrite { "true" } else { "false" };
        let arguments = [("path", from), ("to", to), ("overwrite", overwrite)];
        self.call("rename", &arguments)?.flag("done")
    }

    /// Deletes a path, a directory with all below it; false when there is none.
    pub fn delete(&self, path: &str) -> OracleResult<bool> {
        self.call("delete", &[("path", path), ("recursive", "true")])?.flag("done")
    }

    /// Sets the replication of a file.
    pub fn set_replication(&self, path: &str, replication: u16) -> OracleResult<bool> {
        let arguments = [("path", path), ("replication", &replication.to_string())];
        self.call("setrep", &arguments)?.flag("done")
    }

    /// Sets the permission bits.
    pub fn set_permission(&self, path: &str, mode: u16) -> OracleResult<()> {
        self.call("chmod", &[("path", path), ("permission", &format!("{mode:o}"))]).map(drop)
    }

    /// Sets owner and group.
    pub fn set_owner(&self, path: &str, owner: &str, group: &str) -> OracleResult<()> {
        self.call("chown", &[("path", path), ("owner", owner), ("group", group)]).map(drop)
    }

    /// Sets modification and access time (ms since 1970); -1 leaves one as it is.
    pub fn set_times(&self, path: &str, mtime_ms: i64, atime_ms: i64) -> OracleResult<()> {
        let (mtime, atime) = (mtime_ms.to_string(), atime_ms.to_string());
        self.call("settimes", &[("path", path), ("mtime", &mtime), ("atime", &atime)]).map(drop)
    }

    /// Cuts a file; false while its last block is in recovery.
    pub fn truncate(&self, path: &str, length: u64) -> OracleResult<bool> {
        let arguments = [("path", path), ("length", &length.to_string())];
        self.call("truncate", &arguments)?.flag("done")
    }

    /// Starts lease recovery; true when the file is closed already.
    pub fn recover_lease(&self, path: &str) -> OracleResult<bool> {
        self.call("recoverlease", &[("path", path)])?.flag("done")
    }

    /// Whether a file is closed.
    pub fn is_file_closed(&self, path: &str) -> OracleResult<bool> {
        self.call("isclosed", &[("path", path)])?.flag("done")
    }

    /// Totals of a directory tree.
    pub fn content_summary(&self, path: &str) -> OracleResult<ContentSummary> {
        ContentSummary::from_answer(&self.call("summary", &[("path", path)])?)
    }

    /// Totals of the file system.
    pub fn fs_status(&self) -> OracleResult<FsStatus> {
        FsStatus::from_answer(&self.call("fsstatus", &[])?)
    }

    /// Runs one of Hadoop's command line tools by class name, such as
    /// `org.apache.hadoop.fs.FsShell` with `["-setfacl", ...]`; returns what it printed. An exit
    /// code other than 0 is an error.
    pub fn tool(&self, class: &str, arguments: &[&str]) -> OracleResult<String> {
        let mut all = vec![("class", class)];
        all.extend(arguments.iter().map(|argument| ("arg", *argument)));
        let answer = self.call("tool", &all)?;
        let (exit, out) = (answer.text("exit")?, answer.text("out")?);
        if exit == "0" {
            return Ok(out);
        }
        let end = self.process.log_tail(5);
        Err(HarnessError::new(format!("{class} {arguments:?} ended with {exit}:\n{out}\n{end}"))
            .into())
    }

    /// `hdfs dfs ARGUMENTS`.
    pub fn fs_shell(&self, arguments: &[&str]) -> OracleResult<String> {
        self.tool("org.apache.hadoop.fs.FsShell", arguments)
    }

    /// `hdfs dfsadmin ARGUMENTS`.
    pub fn dfs_admin(&self, arguments: &[&str]) -> OracleResult<String> {
        self.tool("org.apache.hadoop.hdfs.tools.DFSAdmin", arguments)
    }
}
