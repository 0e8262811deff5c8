package io.libdfs;

import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.nio.ByteBuffer;

/**
 * A file being read. {@code read} and {@code seek} share a cursor; positional reads touch it not and
 * run on any number of threads at once. {@link #close} ends calls that are running, within half a
 * second. Waits end when their thread is interrupted.
 */
public final class DfsInputStream extends InputStream {
  private final String path;
  private final long handle;
  private final long timeoutMs;
  private final Leaks.Guard guard;
  private final byte[] one = new byte[1];
  private volatile boolean closed;
  /** The cursor when the stream was closed. */
  private volatile long last;

  DfsInputStream(String path, long handle, long timeoutMs) {
    this.path = path;
    this.handle = handle;
    this.timeoutMs = timeoutMs;
    this.guard = Leaks.watch(this, handle, "the input stream of " + path);
  }

  /** The path that was opened. */
  public String path() {
    return path;
  }

  private void checkOpen() throws DfsException {
    if (closed) {
      throw new DfsException(DfsException.CLOSED, "Stream closed: " + path);
    }
  }

  private static void checkRange(int offset, int length, int capacity) {
    if ((offset | length) < 0 || length > capacity - offset) {
      throw new IndexOutOfBoundsException(
          length + " bytes from " + offset + " do not lie in an array of " + capacity);
    }
  }

  @Override
  public int read() throws IOException {
    synchronized (one) {
      int n = read(one, 0, 1);
      return n < 0 ? -1 : one[0] & 0xff;
    }
  }

  /** Reads at the cursor until the array is full or the file ends; -1 at its end. */
  @Override
  public int read(byte[] bytes, int offset, int length) throws IOException {
    checkRange(offset, length, bytes.length);
    checkOpen();
    if (length == 0) {
      return 0;
    }
    Interrupts interrupts = Interrupts.begin();
    try {
      int n = Natives.readArray(handle, bytes, offset, length, timeoutMs, interrupts.flag);
      return n == 0 ? -1 : n;
    } catch (DfsException e) {
      throw interrupts.explain(e);
    } finally {
      interrupts.end();
    }
  }

  /** Reads at the cursor into what remains of the buffer; -1 at the end of the file. */
  public int read(ByteBuffer buffer) throws IOException {
    checkOpen();
    int length = buffer.remaining();
    if (length == 0) {
      return 0;
    }
    if (!buffer.isDirect()) {
      int n = read(array(buffer), buffer.arrayOffset() + buffer.position(), length);
      buffer.position(buffer.position() + Math.max(n, 0));
      return n;
    }
    checkWritable(buffer);
    Interrupts interrupts = Interrupts.begin();
    try {
      int n = Natives.read(handle, buffer, buffer.position(), length, timeoutMs, interrupts.flag);
      buffer.position(buffer.position() + n);
      return n == 0 ? -1 : n;
    } catch (DfsException e) {
      throw interrupts.explain(e);
    } finally {
      interrupts.end();
    }
  }

  private static void checkWritable(ByteBuffer buffer) {
    if (buffer.isReadOnly()) {
      throw new java.nio.ReadOnlyBufferException();
    }
  }

  private static byte[] array(ByteBuffer buffer) {
    checkWritable(buffer);
    return buffer.array();
  }

  /** Reads at a position, whatever the cursor: fewer bytes only at the end of the file, -1 there. */
  public int read(long position, byte[] bytes, int offset, int length) throws IOException {
    checkRange(offset, length, bytes.length);
    checkPosition(position);
    checkOpen();
    if (length == 0) {
      return 0;
    }
    Interrupts interrupts = Interrupts.begin();
    try {
      int n =
          Natives.preadArray(handle, position, bytes, offset, length, timeoutMs, interrupts.flag);
      return n == 0 ? -1 : n;
    } catch (DfsException e) {
      throw interrupts.explain(e);
    } finally {
      interrupts.end();
    }
  }

  /** The same into what remains of a buffer, whose position moves. */
  public int read(long position, ByteBuffer buffer) throws IOException {
    checkPosition(position);
    checkOpen();
    int length = buffer.remaining();
    if (length == 0) {
      return 0;
    }
    if (!buffer.isDirect()) {
      int n = read(position, array(buffer), buffer.arrayOffset() + buffer.position(), length);
      buffer.position(buffer.position() + Math.max(n, 0));
      return n;
    }
    checkWritable(buffer);
    Interrupts interrupts = Interrupts.begin();
    try {
      int n =
          Natives.pread(
              handle, position, buffer, buffer.position(), length, timeoutMs, interrupts.flag);
      buffer.position(buffer.position() + n);
      return n == 0 ? -1 : n;
    } catch (DfsException e) {
      throw interrupts.explain(e);
    } finally {
      interrupts.end();
    }
  }

  /**
   * Reads several ranges, near ones with one request. Each buffer must be direct; it is filled from
   * its index 0.
   *
   * @return bytes read of each range, fewer than wanted only at the end of the file
   */
  public int[] readVector(long[] positions, int[] lengths, ByteBuffer[] directs)
      throws IOException {
    checkOpen();
    int[] done = new int[positions.length];
    Interrupts interrupts = Interrupts.begin();
    try {
      Natives.preadVector(handle, positions, lengths, directs, done, timeoutMs, interrupts.flag);
      return done;
    } catch (DfsException e) {
      throw interrupts.explain(e);
    } finally {
      interrupts.end();
    }
  }

  private void checkPosition(long position) throws EOFException {
    if (position < 0) {
      throw new EOFException("position " + position + " of " + path + " is negative");
    }
  }

  /** Moves the cursor. */
  public void seek(long position) throws IOException {
    checkPosition(position);
    checkOpen();
    Natives.seek(handle, position);
  }

  /** The cursor; of a closed stream, where it was. */
  public long position() {
    if (!closed) {
      try {
        return Natives.inputPosition(handle);
      } catch (DfsException closedMeanwhile) {
        // The position of the end was noted first.
      }
    }
    return last;
  }

  @Override
  public long skip(long count) throws IOException {
    if (count <= 0) {
      return 0;
    }
    checkOpen();
    long at = Natives.inputPosition(handle);
    long to = Math.min(Natives.inputLength(handle), at + Math.min(count, Long.MAX_VALUE - at));
    if (to <= at) {
      return 0;
    }
    Natives.seek(handle, to);
    return to - at;
  }

  @Override
  public int available() throws IOException {
    checkOpen();
    long left = Natives.inputLength(handle) - Natives.inputPosition(handle);
    return (int) Math.min(Math.max(left, 0), Integer.MAX_VALUE);
  }

  /** Length of the file as last known, also of one that is being written. */
  public long length() throws IOException {
    checkOpen();
    return Natives.inputLength(handle);
  }

  /** Asks for the length of a file that may be growing; later reads go up to it. */
  public long refresh() throws IOException {
    checkOpen();
    Interrupts interrupts = Interrupts.begin();
    try {
      return Natives.refresh(handle, timeoutMs, interrupts.flag);
    } catch (DfsException e) {
      throw interrupts.explain(e);
    } finally {
      interrupts.end();
    }
  }

  /** Bytes that DataNodes read ahead; null: the configured value. */
  public void setReadahead(Long bytes) throws IOException {
    checkOpen();
    Natives.setReadahead(handle, bytes == null ? -1 : bytes);
  }

  /** Whether DataNodes drop what was read from their page cache; null: the configured value. */
  public void setDropBehind(Boolean drop) throws IOException {
    checkOpen();
    Natives.setDropBehind(handle, drop == null ? -1 : drop ? 1 : 0);
  }

  /** Gives back the connection that sequential reads keep; the cursor stays. */
  public void unbuffer() throws IOException {
    if (!closed) {
      Natives.unbuffer(handle);
    }
  }

  /** Closes the file; calls that run end with an exception. */
  @Override
  public void close() throws IOException {
    synchronized (guard) {
      if (closed) {
        return;
      }
      last = Natives.inputPosition(handle);
      closed = true;
    }
    guard.dismiss();
    Natives.closeInput(handle);
  }
}
