//! What a server's exception means: class name to status and retry rule.
use super::retry::{Cause, Failed};
use crate::error::{Error, Status};
use crate::wire::rpc_frame::{self, RemoteException};

/// Statuses of exceptions by full class name, for one exact class each.
const CLASSES: &[(&str, Status)] = &[
    ("java.io.FileNotFoundException", Status::NotFound),
    ("java.nio.file.NoSuchFileException", Status::NotFound),
    ("org.apache.hadoop.fs.PathNotFoundException", Status::NotFound),
    ("org.apache.hadoop.hdfs.server.datanode.ReplicaNotFoundException", Status::NotFound),
    ("org.apache.hadoop.fs.FileAlreadyExistsException", Status::Exists),
    ("org.apache.hadoop.fs.PathExistsException", Status::Exists),
    ("org.apache.hadoop.fs.ParentNotDirectoryException", Status::NotDirectory),
    ("org.apache.hadoop.fs.PathIsNotDirectoryException", Status::NotDirectory),
    ("org.apache.hadoop.fs.PathIsDirectoryException", Status::IsDirectory),
    ("org.apache.hadoop.fs.PathIsNotEmptyDirectoryException", Status::NotEmpty),
    ("org.apache.hadoop.security.AccessControlException", Status::Permission),
    ("org.apache.hadoop.fs.permission.AccessControlException", Status::Permission),
    ("org.apache.hadoop.fs.PathPermissionException", Status::Permission),
    ("org.apache.hadoop.fs.PathAccessDeniedException", Status::Permission),
    ("org.apache.hadoop.hdfs.protocol.SnapshotAccessControlException", Status::ReadOnly),
    ("org.apache.hadoop.hdfs.protocol.QuotaExceededException", Status::Quota),
    ("org.apache.hadoop.hdfs.protocol.NSQuotaExceededException", Status::Quota),
    ("org.apache.hadoop.hdfs.protocol.DSQuotaExceededException", Status::Quota),
    ("org.apache.hadoop.hdfs.protocol.QuotaByStorageTypeExceededException", Status::Quota),
    ("org.apache.hadoop.hdfs.server.namenode.SafeModeException", Status::SafeMode),
    ("org.apache.hadoop.ipc.StandbyException", Status::Standby),
    ("org.apache.hadoop.ipc.ObserverRetryOnActiveException", Status::Standby),
    ("org.apache.hadoop.ipc.RetriableException", Status::ServerBusy),
    ("org.apache.hadoop.hdfs.server.namenode.LeaseExpiredException", Status::LeaseExpired),
    ("org.apache.hadoop.hdfs.protocol.AlreadyBeingCreatedException", Status::LeaseHeld),
    ("org.apache.hadoop.hdfs.protocol.RecoveryInProgressException", Status::RecoveryInProgress),
    ("org.apache.hadoop.hdfs.server.namenode.NotReplicatedYetException", Status::NotReplicated),
    ("org.apache.hadoop.fs.InvalidPathException", Status::InvalidPath),
    (
        "org.apache.hadoop.hdfs.protocol.FSLimitException$PathComponentTooLongException",
        Status::Limit,
    ),
    (
        "org.apache.hadoop.hdfs.protocol.FSLimitException$MaxDirectoryItemsExceededException",
        Status::Limit,
    ),
    ("org.apache.hadoop.fs.UnresolvedLinkException", Status::SymbolicLink),
    ("org.apache.hadoop.hdfs.protocol.UnresolvedPathException", Status::SymbolicLink),
    ("org.apache.hadoop.HadoopIllegalArgumentException", Status::InvalidArgument),
    ("java.lang.IllegalArgumentException", Status::InvalidArgument),
    ("java.lang.UnsupportedOperationException", Status::Unsupported),
    ("org.apache.hadoop.hdfs.server.namenode.UnsupportedActionException", Status::Unsupported),
    ("org.apache.hadoop.hdfs.UnknownCryptoProtocolVersionException", Status::Unsupported),
    ("org.apache.hadoop.hdfs.UnknownCipherSuiteException", Status::Unsupported),
    ("org.apache.hadoop.security.token.SecretManager$InvalidToken", Status::Auth),
    ("org.apache.hadoop.security.authorize.AuthorizationException", Status::Auth),
    ("javax.security.sasl.SaslException", Status::Auth),
    ("org.apache.hadoop.ipc.RpcNoSuchMethodException", Status::NoSuchMethod),
    ("org.apache.hadoop.ipc.RpcNoSuchProtocolException", Status::NotHdfs),
    ("org.apache.hadoop.ipc.RPC$VersionMismatch", Status::NotHdfs),
    ("org.apache.hadoop.ipc.Server$IncompatibleVersionException", Status::NotHdfs),
];

/// Turns an exception into an error: the message is the first line of the server's words, the
/// class and all words are kept, `server` is the one at fault.
#[must_use]
pub fn failed(remote: &RemoteException, server: &str) -> Failed {
    let status = status(remote);
    let first = first_line(remote);
    let message = match remote.detail {
        rpc_frame::FATAL_VERSION_MISMATCH => match remote.ipc_version {
            Some(v) => format!("server {server} speaks RPC version {v}, and we 9: {first}"),
            None => format!("server {server} speaks another RPC version: {first}"),
        },
        rpc_frame::ERROR_NO_SUCH_PROTOCOL => {
            format!("server {server} is of another kind (port of another service?): {first}")
        }
        _ if is_simple_refused(remote) => {
            format!("server {server} requires Kerberos or token authentication: {first}")
        }
        _ => first.to_owned(),
    };
    let error =
        Error::new(status, message).with_remote(&remote.class, &remote.words).with_server(server);
    Failed::new(cause(remote), error)
}

fn first_line(remote: &RemoteException) -> &str {
    let line = remote.words.lines().map(str::trim).find(|line| !line.is_empty());
    match line {
        Some(line) => line,
        None if remote.class.is_empty() => "the server reported an error without words",
        None => &remote.class,
    }
}

fn is_simple_refused(remote: &RemoteException) -> bool {
    remote.words.contains("SIMPLE authentication is not enabled")
}

fn status(remote: &RemoteException) -> Status {
    match remote.detail {
        rpc_frame::ERROR_NO_SUCH_METHOD => return Status::NoSuchMethod,
        rpc_frame::ERROR_NO_SUCH_PROTOCOL | rpc_frame::FATAL_VERSION_MISMATCH => {
            return Status::NotHdfs;
        }
        rpc_frame::FATAL_UNAUTHORIZED => return Status::Auth,
        _ if is_simple_refused(remote) => return Status::Auth,
        _ => {}
    }
    let known = CLASSES.iter().find(|(class, _)| *class == remote.class).map(|(_, s)| *s);
    match known {
        // Hadoop 3.4 INodeFile#valueOf: a directory where a file is needed is "not found" in
        // class, and only the words tell.
        Some(Status::NotFound) if remote.words.starts_with("Path is not a file") => {
            Status::IsDirectory
        }
        // Hadoop 3.4 FSNamesystem#newSafemodeException: on HA the safe mode of start-up is wrapped.
        Some(Status::ServerBusy) if remote.words.contains("SafeModeException") => Status::SafeMode,
        Some(status) => status,
        None => status_by_words(remote),
    }
}

/// Exceptions of general classes that only their words tell apart.
fn status_by_words(remote: &RemoteException) -> Status {
    let says = |words: &str| remote.words.contains(words);
    // Hadoop 3.4 BlockManager#chooseTarget4NewBlock and its 2.x wording.
    if says("could only be written to") || says("could only be replicated to") {
        Status::NoDataNodes
    // Hadoop 2.7 INode#asDirectory: a file among the parents of a new one.
    } else if says("Current inode is not a directory") {
        Status::NotDirectory
    // Hadoop 3.4 FSDirRenameOp#validateOverwrite, which has no classes of its own.
    } else if says("rename destination directory is not empty") {
        Status::NotEmpty
    } else if says("must both be directories") {
        Status::Exists
    // Hadoop 3.4 FSNamesystem#checkUCBlock, with its wording up to 3.1: somebody else had the block
    // of a writer closed.
    } else if says("Unexpected BlockUCState") || says("not under Construction") {
        Status::LeaseExpired
    // The same: its file was deleted, and the block with it.
    } else if says("is not under construction.")
        || (remote.words.starts_with("BP-") && says(" does not exist."))
    {
        Status::NotFound
    } else if says("Name node is in safe mode") {
        Status::SafeMode
    } else {
        Status::Remote
    }
}

fn cause(remote: &RemoteException) -> Cause {
    match remote.class.as_str() {
        "org.apache.hadoop.ipc.StandbyException"
        | "org.apache.hadoop.ipc.ObserverRetryOnActiveException" => Cause::Standby,
        "org.apache.hadoop.ipc.RetriableException" => Cause::Retriable,
        "org.apache.hadoop.hdfs.server.namenode.SafeModeException" => Cause::SafeMode,
        _ => Cause::Final,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn remote(class: &str, words: &str, detail: i32) -> Failed {
        let remote =
            RemoteException { class: class.into(), words: words.into(), detail, ipc_version: None };
        failed(&remote, "nn:8020")
    }

    #[test]
    fn the_first_line_is_the_message_and_the_rest_is_kept() {
        let f = remote(
            "java.io.FileNotFoundException",
            "File does not exist: /a\n\tat org.apache.hadoop.x",
            1,
        );
        assert_eq!((f.cause, f.error.status()), (Cause::Final, Status::NotFound));
        assert_eq!(f.error.message(), "File does not exist: /a");
        assert_eq!(f.error.remote_class(), Some("java.io.FileNotFoundException"));
        assert!(f.error.remote_message().unwrap().contains("\tat "));
        assert_eq!(f.error.server(), Some("nn:8020"));
    }

    #[test]
    fn words_decide_where_the_class_does_not() {
        for (class, words, status) in [
            ("java.io.FileNotFoundException", "Path is not a file: /d", Status::IsDirectory),
            (
                "java.io.IOException",
                "File /f could only be written to 0 of the 1 minReplication nodes.",
                Status::NoDataNodes,
            ),
            (
                "org.apache.hadoop.ipc.RetriableException",
                "org.apache.hadoop.hdfs.server.namenode.SafeModeException: Cannot create",
                Status::SafeMode,
            ),
            (
                "java.io.IOException",
                "Source /f and destination /d must both be directories",
                Status::Exists,
            ),
            ("java.io.IOException", "something", Status::Remote),
            ("com.example.New", "", Status::Remote),
        ] {
            assert_eq!(remote(class, words, 1).error.status(), status, "{class} {words}");
        }
        assert_eq!(remote("com.example.New", "\n", 1).error.message(), "com.example.New");
    }

    #[test]
    fn a_server_that_wants_more_than_simple_says_so() {
        let f = remote(
            "org.apache.hadoop.security.AccessControlException",
            "SIMPLE authentication is not enabled.  Available:[TOKEN, KERBEROS]",
            15,
        );
        assert_eq!(f.error.status(), Status::Auth);
        assert!(f.error.message().contains("requires Kerberos"), "{}", f.error);
        let f = remote("org.apache.hadoop.ipc.RpcNoSuchMethodException", "no m", 2);
        assert_eq!(f.error.status(), Status::NoSuchMethod);
        let f = remote("org.apache.hadoop.ipc.Server$IncompatibleVersionException", "v", 14);
        assert_eq!(f.error.status(), Status::NotHdfs);
    }

    #[test]
    fn every_class_has_one_meaning() {
        for (i, (class, _)) in CLASSES.iter().enumerate() {
            assert!(CLASSES[i + 1..].iter().all(|(other, _)| other != class), "{class}");
        }
        assert_eq!(remote("org.apache.hadoop.ipc.StandbyException", "s", 1).cause, Cause::Standby);
    }
}
