//! The one error type of the library.
//!
//! An [`Error`] is a status number (what the C caller sees), a message that names the thing at
//! fault, and optional facts about a remote party. It is one pointer wide, so results stay small;
//! making one allocates, which is fine: errors are not the warm path.
use std::fmt;

/// Every status a call can end with; the numbers are part of the ABI and never reused.
///
/// Bands: argument -1.., local -100.., network -200.., NameNode -300.., DataNode -400..,
/// security -500.., internal -600...
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Status {
    /// An argument has a value that the call does not accept.
    InvalidArgument = -1,
    /// A required pointer argument is NULL.
    NullPointer = -2,
    /// A string argument is not UTF-8.
    BadUtf8 = -3,
    /// A path is relative or malformed.
    BadPath = -4,
    /// A flag bit is unknown, or flags contradict each other.
    BadFlags = -5,
    /// The call, option or server feature is not supported.
    Unsupported = -6,
    /// The file or file system was closed.
    Closed = -7,
    /// A handle is stale, or of another kind.
    BadHandle = -8,
    /// A configuration key or file is malformed; the message names it.
    Config = -9,
    /// An offset or length lies outside the file.
    OutOfRange = -10,
    /// The file was opened for the other direction.
    WrongMode = -11,

    /// Memory (or the buffer pool's limit) is exhausted.
    NoMemory = -100,
    /// The handle was made before a `fork`, and this is the child.
    Forked = -101,
    /// A local system call failed; the message has the errno text.
    Io = -102,
    /// The library is shutting down.
    Shutdown = -103,
    /// The call would have to wait, and was asked not to.
    WouldBlock = -104,
    /// The caller cancelled the operation.
    Cancelled = -105,

    /// A host name cannot be resolved.
    UnknownHost = -200,
    /// A connection was refused or could not be made.
    Connect = -201,
    /// A connection broke while in use.
    ConnectionLost = -202,
    /// The time limit of the call ran out.
    TimedOut = -203,
    /// The peer sent bytes that break the protocol; the message has the field.
    Protocol = -204,
    /// The peer speaks another protocol (HTTP, say).
    NotHdfs = -205,

    /// The file or directory does not exist.
    NotFound = -300,
    /// The file or directory exists already.
    Exists = -301,
    /// A component of the path is not a directory.
    NotDirectory = -302,
    /// The path is a directory, and a file is needed.
    IsDirectory = -303,
    /// The directory is not empty.
    NotEmpty = -304,
    /// Permission denied.
    Permission = -305,
    /// A namespace or space quota is exceeded.
    Quota = -306,
    /// The NameNode is in safe mode.
    SafeMode = -307,
    /// No NameNode of the service is active.
    Standby = -308,
    /// The lease is gone: somebody else took the file, or it was deleted.
    LeaseExpired = -309,
    /// Another client (or this one) is writing the file.
    LeaseHeld = -310,
    /// Lease or block recovery of the file is running; try again later.
    RecoveryInProgress = -311,
    /// The NameNode refuses the path text.
    InvalidPath = -312,
    /// A name-length or directory-size limit is exceeded.
    Limit = -313,
    /// The path is read-only (a snapshot).
    ReadOnly = -314,
    /// The NameNode has no DataNode (or no space) for a block.
    NoDataNodes = -315,
    /// The path leads through a symbolic link that the client does not follow.
    SymbolicLink = -316,
    /// The server is busy and asks for a retry.
    ServerBusy = -317,
    /// The server lacks this call.
    NoSuchMethod = -318,
    /// Any other exception of the NameNode; the error has its class and words.
    Remote = -319,
    /// The file is not complete: its blocks lack the minimum of replicas.
    NotReplicated = -320,

    /// The write pipeline failed; the file takes no more writes.
    Pipeline = -400,
    /// No replica of a block could be read.
    BlockMissing = -401,
    /// Data does not match its checksum.
    Checksum = -402,
    /// A DataNode refused the block token.
    BlockToken = -403,
    /// A DataNode answered with an error.
    DataNode = -404,

    /// Authentication failed or is not possible.
    Auth = -500,
    /// The server demands a protection that the client cannot give.
    Protection = -501,

    /// A panic was caught at the boundary; the handle is unusable.
    Panic = -600,
    /// An internal invariant does not hold.
    Internal = -601,
}

impl Status {
    /// Whether a later, identical call may succeed without anybody changing the request.
    pub fn is_retriable(self) -> bool {
        matches!(
            self,
            Status::WouldBlock
                | Status::NoMemory
                | Status::Connect
                | Status::ConnectionLost
                | Status::TimedOut
                | Status::SafeMode
                | Status::Standby
                | Status::RecoveryInProgress
                | Status::LeaseHeld
                | Status::ServerBusy
                | Status::NoDataNodes
                | Status::NotReplicated
                | Status::BlockMissing
                | Status::BlockToken
        )
    }
}

struct Inner {
    status: Status,
    message: String,
    /// Full Java class name, for an exception that a server sent.
    remote_class: Option<Box<str>>,
    /// The server's own words.
    remote_message: Option<Box<str>>,
    /// `host:port` of the server at fault.
    server: Option<Box<str>>,
    /// What was being done: "connecting", "streaming", "closing block"...
    stage: Option<&'static str>,
    /// File bytes from 0 that every replica has acknowledged.
    durable_bytes: Option<u64>,
    /// The handle is broken for good.
    fatal: bool,
    retriable: bool,
}

/// Why a call failed. Cheap to move, cloneable (a broken file returns the same error each time).
pub struct Error(Box<Inner>);

/// Result of the library's own functions.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// An error with a message that says what was attempted, on what, and what came back.
    pub fn new(status: Status, message: impl Into<String>) -> Error {
        Error(Box::new(Inner {
            status,
            message: message.into(),
            remote_class: None,
            remote_message: None,
            server: None,
            stage: None,
            durable_bytes: None,
            fatal: false,
            retriable: status.is_retriable(),
        }))
    }

    /// A failed system call, with its errno in words.
    pub fn os(what: impl fmt::Display, errno: i32) -> Error {
        Error::new(Status::Io, format!("{what}: {}", std::io::Error::from_raw_os_error(errno)))
    }

    /// Bytes from the network that break the protocol.
    pub fn protocol(message: impl Into<String>) -> Error {
        Error::new(Status::Protocol, message)
    }

    /// Adds the exception class and words of a server.
    #[must_use]
    pub fn with_remote(mut self, class: &str, words: &str) -> Error {
        self.0.remote_class = Some(class.into());
        self.0.remote_message = Some(words.into());
        self
    }

    /// Adds the server at fault, as `host:port`.
    #[must_use]
    pub fn with_server(mut self, server: &str) -> Error {
        self.0.server = Some(server.into());
        self
    }

    /// Adds the server at fault unless one is named already.
    #[must_use]
    pub fn or_server(self, server: &str) -> Error {
        if self.0.server.is_some() { self } else { self.with_server(server) }
    }

    /// Adds the stage of the operation.
    #[must_use]
    pub fn with_stage(mut self, stage: &'static str) -> Error {
        self.0.stage = Some(stage);
        self
    }

    /// Adds the number of file bytes that are certainly durable.
    #[must_use]
    pub fn with_durable(mut self, bytes: u64) -> Error {
        self.0.durable_bytes = Some(bytes);
        self
    }

    /// Marks the handle as broken for good; nothing is retriable on it.
    #[must_use]
    pub fn into_fatal(mut self) -> Error {
        self.0.fatal = true;
        self.0.retriable = false;
        self
    }

    /// Replaces the status, keeping the facts.
    #[must_use]
    pub fn with_status(mut self, status: Status) -> Error {
        self.0.status = status;
        self.0.retriable = status.is_retriable() && !self.0.fatal;
        self
    }

    /// Puts what was attempted before the message: `attempt: message`.
    #[must_use]
    pub fn context(mut self, attempt: impl fmt::Display) -> Error {
        self.0.message = format!("{attempt}: {}", self.0.message);
        self
    }

    /// The status number's meaning.
    pub fn status(&self) -> Status {
        self.0.status
    }

    /// The whole message: lower-case start, no final stop, never a secret.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Full Java class name of the server's exception.
    pub fn remote_class(&self) -> Option<&str> {
        self.0.remote_class.as_deref()
    }

    /// The server's own words.
    pub fn remote_message(&self) -> Option<&str> {
        self.0.remote_message.as_deref()
    }

    /// `host:port` of the server at fault.
    pub fn server(&self) -> Option<&str> {
        self.0.server.as_deref()
    }

    /// What was being done.
    pub fn stage(&self) -> Option<&'static str> {
        self.0.stage
    }

    /// File bytes from 0 that are certainly durable (writes only).
    pub fn durable_bytes(&self) -> Option<u64> {
        self.0.durable_bytes
    }

    /// Whether the handle is broken for good.
    pub fn is_fatal(&self) -> bool {
        self.0.fatal
    }

    /// Whether the same call may be tried again.
    pub fn is_retriable(&self) -> bool {
        self.0.retriable
    }
}

impl Clone for Error {
    fn clone(&self) -> Error {
        let i = &*self.0;
        Error(Box::new(Inner {
            status: i.status,
            message: i.message.clone(),
            remote_class: i.remote_class.clone(),
            remote_message: i.remote_message.clone(),
            server: i.server.clone(),
            stage: i.stage,
            durable_bytes: i.durable_bytes,
            fatal: i.fatal,
            retriable: i.retriable,
        }))
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}({})", self.0.status, self)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)?;
        if let Some(server) = &self.0.server
            && !self.0.message.contains(&**server)
        {
            write!(f, " [server {server}]")?;
        }
        if let Some(class) = &self.0.remote_class
            && !self.0.message.contains(&**class)
        {
            write!(f, " [{class}]")?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_is_one_pointer() {
        assert_eq!(size_of::<Result<()>>(), size_of::<usize>());
    }

    #[test]
    fn a_fatal_error_is_not_retriable() {
        let e = Error::new(Status::TimedOut, "waiting for acks");
        assert!(e.is_retriable());
        let e = e.into_fatal();
        assert!(!e.is_retriable() && e.is_fatal());
        assert!(!e.with_status(Status::Connect).is_retriable());
    }
}
