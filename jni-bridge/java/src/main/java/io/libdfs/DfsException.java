package io.libdfs;

import java.io.IOException;

/**
 * A failed call of libdfs: what was attempted, on what, and what came back.
 *
 * <p>Files that do not exist are reported as {@link java.io.FileNotFoundException} and interrupts as
 * {@link java.io.InterruptedIOException}, both with this exception as cause.
 */
public class DfsException extends IOException {
  private static final long serialVersionUID = 1L;

  // The numbers of include/dfs.h that the Java half looks at.
  static final int INVALID_ARGUMENT = -1;
  static final int NULL_POINTER = -2;
  static final int BAD_PATH = -4;
  static final int UNSUPPORTED = -6;
  static final int CLOSED = -7;
  static final int OUT_OF_RANGE = -10;
  static final int TIMED_OUT = -203;
  static final int NOT_FOUND = -300;

  private final int status;
  private final String remoteClass;
  private final String remoteMessage;
  private final String server;
  private final long durableBytes;
  private final boolean fatal;
  private final boolean retriable;

  /** Called by the native half. */
  DfsException(
      int status,
      String message,
      String remoteClass,
      String remoteMessage,
      String server,
      long durableBytes,
      boolean fatal,
      boolean retriable) {
    super(message);
    this.status = status;
    this.remoteClass = remoteClass;
    this.remoteMessage = remoteMessage;
    this.server = server;
    this.durableBytes = durableBytes;
    this.fatal = fatal;
    this.retriable = retriable;
  }

  DfsException(int status, String message) {
    this(status, message, null, null, null, -1, false, false);
  }

  /** The status number, a {@code DFS_E_} constant of {@code dfs.h}. */
  public int status() {
    return status;
  }

  /** Full class name of the exception that the server sent, or null. */
  public String remoteClass() {
    return remoteClass;
  }

  /** The server's own words, or null. */
  public String remoteMessage() {
    return remoteMessage;
  }

  /** {@code host:port} of the server at fault, or null. */
  public String server() {
    return server;
  }

  /** File bytes from 0 that every replica has acknowledged; -1 when that is not known. */
  public long durableBytes() {
    return durableBytes;
  }

  /** Whether the stream is broken for good. */
  public boolean isFatal() {
    return fatal;
  }

  /** Whether the same call may be tried again. */
  public boolean isRetriable() {
    return retriable;
  }

  /** The libdfs exception behind an exception of this package's classes, or null. */
  public static DfsException of(Throwable thrown) {
    for (Throwable t = thrown; t != null; t = t.getCause()) {
      if (t instanceof DfsException) {
        return (DfsException) t;
      }
    }
    return null;
  }
}
