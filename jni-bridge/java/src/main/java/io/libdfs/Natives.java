package io.libdfs;

import java.nio.ByteBuffer;

/**
 * The native methods; {@code JNI_OnLoad} registers them. Handles, never pointers, cross the
 * boundary: a stale one is recognised. {@code interrupt} is the flag of the calling thread.
 */
final class Natives {
  // Flags of create.
  static final int OVERWRITE = 1;
  static final int CREATE_PARENTS = 1 << 1;
  static final int SYNC_BLOCK = 1 << 2;
  static final int NO_LOCAL_WRITE = 1 << 3;
  static final int IGNORE_LOCALITY = 1 << 4;
  static final int SHOULD_REPLICATE = 1 << 5;
  static final int FAIL_FAST = 1 << 6;
  static final int APPEND = 1 << 7;
  static final int NEW_BLOCK = 1 << 8;

  // Bits of flush.
  static final int FLUSH_SYNC = 1;
  static final int FLUSH_UPDATE_LENGTH = 1 << 1;
  static final int FLUSH_END_BLOCK = 1 << 2;

  // Values of load.
  static final int LOAD_NOTHING = 0;
  static final int LOAD_ENVIRONMENT = 1;
  static final int LOAD_DIRECTORY = 2;

  private Natives() {}

  static native String version();

  static native void free(long handle);

  static native long liveHandles();

  static native int interruptFlag();

  static native void setInterruptFlag(int flag, boolean on);

  static native void setLogLevel(int level);

  static native String takeLogLine(int waitMs);

  /** Panics inside, for the test that the JVM survives it. */
  static native void panic();

  static native long connect(
      String uri, int load, String directory, String[] pairs, long timeoutMs, int interrupt)
      throws DfsException;

  static native void closeFileSystem(long fs) throws DfsException;

  static native String uri(long fs) throws DfsException;

  static native void statistics(long fs, long[] values) throws DfsException;

  static native Object[] stat(long fs, String path, long timeoutMs, int interrupt)
      throws DfsException;

  static native Object[] list(long fs, String path, long timeoutMs, int interrupt)
      throws DfsException;

  static native void mkdir(
      long fs, String path, int mode, boolean parents, long timeoutMs, int interrupt)
      throws DfsException;

  static native boolean delete(
      long fs, String path, boolean recursive, long timeoutMs, int interrupt) throws DfsException;

  static native void rename(
      long fs, String from, String to, boolean overwrite, long timeoutMs, int interrupt)
      throws DfsException;

  static native boolean truncate(long fs, String path, long length, long timeoutMs, int interrupt)
      throws DfsException;

  static native boolean recoverLease(long fs, String path, long timeoutMs, int interrupt)
      throws DfsException;

  static native boolean isFileClosed(long fs, String path, long timeoutMs, int interrupt)
      throws DfsException;

  static native long create(
      long fs,
      String path,
      int flags,
      int mode,
      int replication,
      long blockSize,
      int bytesPerChecksum,
      int checksum,
      int packetBytes,
      int dropBehind,
      String favoredNodes,
      int minReplicas,
      long timeoutMs,
      int interrupt)
      throws DfsException;

  static native void write(
      long stream, ByteBuffer direct, int offset, int length, long timeoutMs, int interrupt)
      throws DfsException;

  static native void writeArray(
      long stream, byte[] array, int offset, int length, long timeoutMs, int interrupt)
      throws DfsException;

  static native void flush(long stream, int mode, long timeoutMs, int interrupt)
      throws DfsException;

  static native void closeOutput(long stream, long timeoutMs, int interrupt) throws DfsException;

  static native long outputPosition(long stream) throws DfsException;

  static native long durable(long stream) throws DfsException;

  static native String[] pipeline(long stream) throws DfsException;

  static native long open(
      long fs,
      String path,
      boolean verify,
      long readahead,
      int dropBehind,
      long timeoutMs,
      int interrupt)
      throws DfsException;

  static native int read(
      long stream, ByteBuffer direct, int offset, int length, long timeoutMs, int interrupt)
      throws DfsException;

  static native int readArray(
      long stream, byte[] array, int offset, int length, long timeoutMs, int interrupt)
      throws DfsException;

  static native int pread(
      long stream,
      long position,
      ByteBuffer direct,
      int offset,
      int length,
      long timeoutMs,
      int interrupt)
      throws DfsException;

  static native int preadArray(
      long stream,
      long position,
      byte[] array,
      int offset,
      int length,
      long timeoutMs,
      int interrupt)
      throws DfsException;

  static native void preadVector(
      long stream,
      long[] positions,
      int[] lengths,
      ByteBuffer[] directs,
      int[] done,
      long timeoutMs,
      int interrupt)
      throws DfsException;

  static native void seek(long stream, long position) throws DfsException;

  static native long inputPosition(long stream) throws DfsException;

  static native long inputLength(long stream) throws DfsException;

  static native long refresh(long stream, long timeoutMs, int interrupt) throws DfsException;

  static native void setReadahead(long stream, long bytes) throws DfsException;

  static native void setDropBehind(long stream, int drop) throws DfsException;

  static native void unbuffer(long stream) throws DfsException;

  static native void closeInput(long stream) throws DfsException;
}
