//! Exceptions of the NameNode: Hadoop's class names behind short constructors.
use super::super::rpc::RpcError;

pub(crate) type NnResult<T> = Result<T, RpcError>;

macro_rules! exceptions {
    ($($name:ident => $class:literal;)*) => {
        $(pub(crate) fn $name(message: impl Into<String>) -> RpcError {
            RpcError::new($class, message)
        })*
    };
}

exceptions! {
    io => "java.io.IOException";
    file_not_found => "java.io.FileNotFoundException";
    illegal_argument => "java.lang.IllegalArgumentException";
    assertion => "java.lang.AssertionError";
    unsupported => "java.lang.UnsupportedOperationException";
    hadoop_illegal_argument => "org.apache.hadoop.HadoopIllegalArgumentException";
    file_already_exists => "org.apache.hadoop.fs.FileAlreadyExistsException";
    parent_not_directory => "org.apache.hadoop.fs.ParentNotDirectoryException";
    not_empty => "org.apache.hadoop.fs.PathIsNotEmptyDirectoryException";
    invalid_path => "org.apache.hadoop.fs.InvalidPathException";
    component_too_long =>
        "org.apache.hadoop.hdfs.protocol.FSLimitException$PathComponentTooLongException";
    access_control => "org.apache.hadoop.security.AccessControlException";
    already_being_created => "org.apache.hadoop.hdfs.protocol.AlreadyBeingCreatedException";
    recovery_in_progress => "org.apache.hadoop.hdfs.protocol.RecoveryInProgressException";
    lease_expired => "org.apache.hadoop.hdfs.server.namenode.LeaseExpiredException";
    not_replicated_yet => "org.apache.hadoop.hdfs.server.namenode.NotReplicatedYetException";
    safe_mode => "org.apache.hadoop.hdfs.server.namenode.SafeModeException";
    standby => "org.apache.hadoop.ipc.StandbyException";
    retriable => "org.apache.hadoop.ipc.RetriableException";
    ns_quota => "org.apache.hadoop.hdfs.protocol.NSQuotaExceededException";
    ds_quota => "org.apache.hadoop.hdfs.protocol.DSQuotaExceededException";
    unregistered_node => "org.apache.hadoop.hdfs.protocol.UnregisteredNodeException";
}
