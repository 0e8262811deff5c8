package io.libdfs.hadoop;

import io.libdfs.DfsException;
import java.io.EOFException;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InterruptedIOException;
import java.net.ConnectException;
import java.net.SocketTimeoutException;
import java.net.UnknownHostException;
import java.nio.channels.ClosedChannelException;
import org.apache.hadoop.fs.ChecksumException;
import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.ParentNotDirectoryException;
import org.apache.hadoop.hdfs.BlockMissingException;
import org.apache.hadoop.hdfs.protocol.DSQuotaExceededException;
import org.apache.hadoop.hdfs.protocol.NSQuotaExceededException;
import org.apache.hadoop.hdfs.protocol.QuotaByStorageTypeExceededException;
import org.apache.hadoop.hdfs.protocol.SnapshotAccessControlException;
import org.apache.hadoop.hdfs.protocol.UnresolvedPathException;
import org.apache.hadoop.ipc.RemoteException;
import org.apache.hadoop.security.AccessControlException;

/** Errors of libdfs as the exceptions that callers of HDFS expect. */
final class Exceptions {
  // Numbers of include/dfs.h.
  static final int UNSUPPORTED = -6;
  static final int CLOSED = -7;
  static final int OUT_OF_RANGE = -10;
  static final int UNKNOWN_HOST = -200;
  static final int CONNECT = -201;
  static final int TIMED_OUT = -203;
  static final int NOT_FOUND = -300;
  static final int EXISTS = -301;
  static final int NOT_DIRECTORY = -302;
  static final int IS_DIRECTORY = -303;
  static final int PERMISSION = -305;
  static final int SYMBOLIC_LINK = -316;
  static final int BLOCK_MISSING = -401;
  static final int CHECKSUM = -402;
  static final int AUTH = -500;
  static final int PROTECTION = -501;

  private Exceptions() {}

  /** Whether the stock client may be able to do what libdfs cannot. */
  static boolean isForStockClient(IOException e) {
    DfsException cause = DfsException.of(e);
    if (cause == null) {
      return false;
    }
    int status = cause.status();
    return status == UNSUPPORTED
        || status == SYMBOLIC_LINK
        || status == AUTH
        || status == PROTECTION;
  }

  /** The exception that the stock client would throw, or one of a common class with our text. */
  static IOException translate(IOException e, String path) {
    DfsException cause = DfsException.of(e);
    if (cause == null || e instanceof InterruptedIOException) {
      return e;
    }
    IOException translated = ofServer(cause);
    if (translated == null) {
      translated = ofClient(cause, path);
    }
    if (translated != cause && translated.getCause() == null) {
      translated.initCause(cause);
    }
    return translated;
  }

  /** What the server threw. The classes are those that the stock client unwraps. */
  private static IOException ofServer(DfsException cause) {
    if (cause.remoteClass() == null) {
      return null;
    }
    RemoteException remote = new RemoteException(cause.remoteClass(), cause.remoteMessage());
    return remote.unwrapRemoteException(
        AccessControlException.class,
        DSQuotaExceededException.class,
        NSQuotaExceededException.class,
        QuotaByStorageTypeExceededException.class,
        FileAlreadyExistsException.class,
        FileNotFoundException.class,
        ParentNotDirectoryException.class,
        SnapshotAccessControlException.class,
        UnresolvedPathException.class);
  }

  private static IOException ofClient(DfsException cause, String path) {
    String text = cause.getMessage();
    switch (cause.status()) {
      case CLOSED:
        return new ClosedChannelException();
      case OUT_OF_RANGE:
        return new EOFException(text);
      case UNKNOWN_HOST:
        return new UnknownHostException(text);
      case CONNECT:
        return new ConnectException(text);
      case TIMED_OUT:
        return new SocketTimeoutException(text);
      case NOT_FOUND:
      case IS_DIRECTORY:
        return new FileNotFoundException(text);
      case EXISTS:
        return new FileAlreadyExistsException(text);
      case NOT_DIRECTORY:
        return new ParentNotDirectoryException(text);
      case PERMISSION:
        return new AccessControlException(text);
      case BLOCK_MISSING:
        return new BlockMissingException(path, text, -1);
      case CHECKSUM:
        return new ChecksumException(text, -1);
      default:
        return cause;
    }
  }
}
