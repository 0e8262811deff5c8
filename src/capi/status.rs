//! Status numbers.
use std::ffi::{CStr, c_char};

/// Success.
pub const DFS_OK: i32 = 0;

/// An argument has a value that the call does not accept; the message names both.
pub const DFS_E_INVALID_ARGUMENT: i32 = -1;
/// A required pointer argument is NULL; the message names it.
pub const DFS_E_NULL_POINTER: i32 = -2;
/// A string argument is not UTF-8; the message names it.
pub const DFS_E_BAD_UTF8: i32 = -3;
/// A path is relative or malformed; the message has it.
pub const DFS_E_BAD_PATH: i32 = -4;
/// A flag bit is unknown, or flags contradict each other.
pub const DFS_E_BAD_FLAGS: i32 = -5;
/// The call, option or server feature is not supported.
pub const DFS_E_UNSUPPORTED: i32 = -6;
/// The file or file system was closed.
pub const DFS_E_CLOSED: i32 = -7;
/// A handle was freed, is of another kind, or is none.
pub const DFS_E_BAD_HANDLE: i32 = -8;
/// A configuration key or file is malformed; the message names it.
pub const DFS_E_CONFIG: i32 = -9;
/// An offset or length lies outside the file.
pub const DFS_E_OUT_OF_RANGE: i32 = -10;
/// The file was opened for the other direction.
pub const DFS_E_WRONG_MODE: i32 = -11;

/// Memory, or the limit of the buffer pool (`libdfs.buffer.pool.max.bytes`), is exhausted.
pub const DFS_E_NO_MEMORY: i32 = -100;
/// The handle was made before a fork, and this is the child.
pub const DFS_E_FORKED: i32 = -101;
/// A local system call failed; the message has the errno in words.
pub const DFS_E_IO: i32 = -102;
/// The library is shutting down.
pub const DFS_E_SHUTDOWN: i32 = -103;
/// The call would have to wait, and must not.
pub const DFS_E_WOULD_BLOCK: i32 = -104;
/// The operation was cancelled.
pub const DFS_E_CANCELLED: i32 = -105;

/// A host name cannot be resolved.
pub const DFS_E_UNKNOWN_HOST: i32 = -200;
/// A connection was refused or could not be made.
pub const DFS_E_CONNECT: i32 = -201;
/// A connection broke while in use.
pub const DFS_E_CONNECTION_LOST: i32 = -202;
/// The time limit of the call ran out.
pub const DFS_E_TIMED_OUT: i32 = -203;
/// The server sent bytes that break the protocol; the message has the field.
pub const DFS_E_PROTOCOL: i32 = -204;
/// The server speaks another protocol, such as HTTP.
pub const DFS_E_NOT_HDFS: i32 = -205;

/// The file or directory does not exist.
pub const DFS_E_NOT_FOUND: i32 = -300;
/// The file or directory exists already.
pub const DFS_E_EXISTS: i32 = -301;
/// A component of the path is not a directory.
pub const DFS_E_NOT_DIRECTORY: i32 = -302;
/// The path is a directory, and a file is needed.
pub const DFS_E_IS_DIRECTORY: i32 = -303;
/// The directory is not empty.
pub const DFS_E_NOT_EMPTY: i32 = -304;
/// Permission denied.
pub const DFS_E_PERMISSION: i32 = -305;
/// A namespace or space quota is exceeded.
pub const DFS_E_QUOTA: i32 = -306;
/// The NameNode is in safe mode.
pub const DFS_E_SAFE_MODE: i32 = -307;
/// No NameNode of the service is active.
pub const DFS_E_STANDBY: i32 = -308;
/// The lease is gone: somebody else took the file, or it was deleted.
pub const DFS_E_LEASE_EXPIRED: i32 = -309;
/// Another client, or this one, is writing the file.
pub const DFS_E_LEASE_HELD: i32 = -310;
/// Lease or block recovery of the file is running; try again later.
pub const DFS_E_RECOVERY_IN_PROGRESS: i32 = -311;
/// The NameNode refuses the path.
pub const DFS_E_INVALID_PATH: i32 = -312;
/// A limit on name lengths or directory sizes is exceeded.
pub const DFS_E_LIMIT: i32 = -313;
/// The path is read-only (a snapshot).
pub const DFS_E_READ_ONLY: i32 = -314;
/// The NameNode has no DataNode, or no space, for a block.
pub const DFS_E_NO_DATANODES: i32 = -315;
/// The path leads through a symbolic link, which the client does not follow.
pub const DFS_E_SYMBOLIC_LINK: i32 = -316;
/// The server is busy and asks for a retry.
pub const DFS_E_SERVER_BUSY: i32 = -317;
/// The server lacks this call.
pub const DFS_E_NO_SUCH_METHOD: i32 = -318;
/// Any other exception of the NameNode; the error has its class and words.
pub const DFS_E_REMOTE: i32 = -319;
/// The file is not complete: its blocks lack the minimum of replicas.
pub const DFS_E_NOT_REPLICATED: i32 = -320;

/// The write pipeline failed; the file takes no more writes.
pub const DFS_E_PIPELINE: i32 = -400;
/// No replica of a block could be read.
pub const DFS_E_BLOCK_MISSING: i32 = -401;
/// Data does not match its checksum.
pub const DFS_E_CHECKSUM: i32 = -402;
/// A DataNode refused the block token.
pub const DFS_E_BLOCK_TOKEN: i32 = -403;
/// A DataNode answered with an error.
pub const DFS_E_DATANODE: i32 = -404;

/// Authentication failed or is not possible.
pub const DFS_E_AUTH: i32 = -500;
/// The server demands a protection that the client cannot give.
pub const DFS_E_PROTECTION: i32 = -501;

/// An internal error (panic) was caught; the handle can only be freed.
pub const DFS_E_PANIC: i32 = -600;
/// An internal invariant does not hold.
pub const DFS_E_INTERNAL: i32 = -601;

macro_rules! names {
    ($($name:ident $status:ident,)+) => {
        /// The name of every number.
        const NAMES: &[(i32, &CStr)] = &[
            (DFS_OK, c"DFS_OK"),
            $(($name, {
                const NAME: &str = concat!(stringify!($name), "\0");
                match CStr::from_bytes_with_nul(NAME.as_bytes()) {
                    Ok(name) => name,
                    Err(_) => panic!("a name has a NUL"),
                }
            }),)+
        ];

        /// The number of every status. A status that this list lacks does not compile.
        #[cfg(test)]
        const fn number(status: crate::error::Status) -> i32 {
            match status {
                $(crate::error::Status::$status => $name,)+
            }
        }

        #[cfg(test)]
        const ALL: &[crate::error::Status] = &[$(crate::error::Status::$status,)+];
    };
}

names! {
    DFS_E_INVALID_ARGUMENT InvalidArgument,
    DFS_E_NULL_POINTER NullPointer,
    DFS_E_BAD_UTF8 BadUtf8,
    DFS_E_BAD_PATH BadPath,
    DFS_E_BAD_FLAGS BadFlags,
    DFS_E_UNSUPPORTED Unsupported,
    DFS_E_CLOSED Closed,
    DFS_E_BAD_HANDLE BadHandle,
    DFS_E_CONFIG Config,
    DFS_E_OUT_OF_RANGE OutOfRange,
    DFS_E_WRONG_MODE WrongMode,
    DFS_E_NO_MEMORY NoMemory,
    DFS_E_FORKED Forked,
    DFS_E_IO Io,
    DFS_E_SHUTDOWN Shutdown,
    DFS_E_WOULD_BLOCK WouldBlock,
    DFS_E_CANCELLED Cancelled,
    DFS_E_UNKNOWN_HOST UnknownHost,
    DFS_E_CONNECT Connect,
    DFS_E_CONNECTION_LOST ConnectionLost,
    DFS_E_TIMED_OUT TimedOut,
    DFS_E_PROTOCOL Protocol,
    DFS_E_NOT_HDFS NotHdfs,
    DFS_E_NOT_FOUND NotFound,
    DFS_E_EXISTS Exists,
    DFS_E_NOT_DIRECTORY NotDirectory,
    DFS_E_IS_DIRECTORY IsDirectory,
    DFS_E_NOT_EMPTY NotEmpty,
    DFS_E_PERMISSION Permission,
    DFS_E_QUOTA Quota,
    DFS_E_SAFE_MODE SafeMode,
    DFS_E_STANDBY Standby,
    DFS_E_LEASE_EXPIRED LeaseExpired,
    DFS_E_LEASE_HELD LeaseHeld,
    DFS_E_RECOVERY_IN_PROGRESS RecoveryInProgress,
    DFS_E_INVALID_PATH InvalidPath,
    DFS_E_LIMIT Limit,
    DFS_E_READ_ONLY ReadOnly,
    DFS_E_NO_DATANODES NoDataNodes,
    DFS_E_SYMBOLIC_LINK SymbolicLink,
    DFS_E_SERVER_BUSY ServerBusy,
    DFS_E_NO_SUCH_METHOD NoSuchMethod,
    DFS_E_REMOTE Remote,
    DFS_E_NOT_REPLICATED NotReplicated,
    DFS_E_PIPELINE Pipeline,
    DFS_E_BLOCK_MISSING BlockMissing,
    DFS_E_CHECKSUM Checksum,
    DFS_E_BLOCK_TOKEN BlockToken,
    DFS_E_DATANODE DataNode,
    DFS_E_AUTH Auth,
    DFS_E_PROTECTION Protection,
    DFS_E_PANIC Panic,
    DFS_E_INTERNAL Internal,
}

/// Name of a status, such as "DFS_E_NOT_FOUND"; NULL for a number that this version does not
/// have. Never freed.
///
/// Threads: any, concurrent. Does not block. Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_status_name(status: i32) -> *const c_char {
    let found = NAMES.iter().find(|(number, _)| *number == status);
    found.map_or(std::ptr::null(), |(_, name)| name.as_ptr())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_equal_the_core_statuses() {
        for &status in ALL {
            assert_eq!(number(status), status as i32, "{status:?}");
        }
        for (index, (number, name)) in NAMES.iter().enumerate() {
            let same = NAMES.iter().filter(|(other, _)| other == number).count();
            assert_eq!(same, 1, "{name:?} shares its number");
            assert_eq!(*number == 0, index == 0);
        }
    }

    #[test]
    fn the_page_on_errors_has_every_status() {
        let page = include_str!("../../docs/errors.md");
        for &status in ALL {
            let number = status as i32;
            let (_, name) = NAMES.iter().find(|(n, _)| *n == number).unwrap();
            let start = format!("| `{}` | {number} |", name.to_str().unwrap());
            let row = page.lines().find(|line| line.starts_with(&start));
            let row = row.unwrap_or_else(|| panic!("no row {start}"));
            // The bands of the caller's mistakes and of defects have no column for it.
            if (-599..=-100).contains(&number) {
                let retry = if status.is_retriable() { "yes" } else { "no" };
                assert!(row.starts_with(&format!("{start} {retry} |")), "{row}");
            }
        }
    }
}
