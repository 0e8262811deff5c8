package io.libdfs;

import java.io.IOException;
import java.io.OutputStream;
import java.nio.ByteBuffer;

/**
 * A file being written. Any number of threads may use it: writes take turns, and {@link #hflush}
 * waits without holding them up. Every wait ends with {@link java.io.InterruptedIOException} when
 * its thread is interrupted; the stream stays usable then, and the call may be repeated.
 */
public final class DfsOutputStream extends OutputStream {
  private final String path;
  private final long handle;
  private final long timeoutMs;
  private final Leaks.Guard guard;
  private final boolean failFast;

  // All below under the stream's own lock.
  private ByteBuffer staging;
  /** Bytes of the file that native code has taken. */
  private long taken;
  private boolean closed;

  DfsOutputStream(String path, long handle, long timeoutMs, boolean failFast)
      throws DfsException {
    this.path = path;
    this.handle = handle;
    this.timeoutMs = timeoutMs;
    this.failFast = failFast;
    this.taken = Natives.outputPosition(handle);
    this.guard = Leaks.watch(this, handle, "the output stream of " + path);
  }

  /** The path that was opened. */
  public String path() {
    return path;
  }

  private void checkOpen() throws DfsException {
    if (closed) {
      throw new DfsException(DfsException.CLOSED, path + " is closed");
    }
  }

  private ByteBuffer staging() {
    ByteBuffer buffer = staging;
    if (buffer == null) {
      buffer = Staging.take();
      staging = buffer;
    }
    return buffer;
  }

  @Override
  public synchronized void write(int b) throws IOException {
    checkOpen();
    ByteBuffer buffer = staging();
    if (!buffer.hasRemaining()) {
      drain();
    }
    buffer.put((byte) b);
  }

  @Override
  public synchronized void write(byte[] bytes, int offset, int length) throws IOException {
    checkRange(offset, length, bytes.length);
    checkOpen();
    ByteBuffer buffer = staging();
    if (length > buffer.remaining()) {
      drain();
      if (length >= buffer.capacity()) {
        writeNow(bytes, null, offset, length);
        return;
      }
    }
    buffer.put(bytes, offset, length);
  }

  /**
   * Writes what remains in the buffer and moves its position to its limit. Direct buffers are not
   * copied on the Java side.
   */
  public synchronized void write(ByteBuffer bytes) throws IOException {
    int length = bytes.remaining();
    checkOpen();
    ByteBuffer buffer = staging();
    if (length > buffer.remaining()) {
      drain();
      if (length >= buffer.capacity() && (bytes.isDirect() || bytes.hasArray())) {
        if (bytes.isDirect()) {
          writeNow(null, bytes, bytes.position(), length);
        } else {
          writeNow(bytes.array(), null, bytes.arrayOffset() + bytes.position(), length);
        }
        bytes.position(bytes.limit());
        return;
      }
    }
    while (bytes.remaining() > buffer.remaining()) {
      ByteBuffer part = bytes.duplicate();
      part.limit(part.position() + buffer.remaining());
      bytes.position(part.limit());
      buffer.put(part);
      drain();
    }
    buffer.put(bytes);
  }

  private static void checkRange(int offset, int length, int capacity) {
    if ((offset | length) < 0 || length > capacity - offset) {
      throw new IndexOutOfBoundsException(
          length + " bytes from " + offset + " do not lie in an array of " + capacity);
    }
  }

  /** Hands the staged bytes to native code. After a failure the rest of them stays staged. */
  private void drain() throws IOException {
    ByteBuffer buffer = staging;
    if (buffer == null || buffer.position() == 0) {
      return;
    }
    Interrupts interrupts = Interrupts.begin();
    try {
      Natives.write(handle, buffer, 0, buffer.position(), timeoutMs, interrupts.flag);
      taken += buffer.position();
      buffer.clear();
    } catch (DfsException e) {
      long now = Natives.outputPosition(handle);
      buffer.flip();
      buffer.position((int) (now - taken));
      buffer.compact();
      taken = now;
      throw interrupts.explain(e);
    } finally {
      interrupts.end();
    }
  }

  private void writeNow(byte[] array, ByteBuffer direct, int offset, int length)
      throws IOException {
    Interrupts interrupts = Interrupts.begin();
    try {
      if (array != null) {
        Natives.writeArray(handle, array, offset, length, timeoutMs, interrupts.flag);
      } else {
        Natives.write(handle, direct, offset, length, timeoutMs, interrupts.flag);
      }
      taken += length;
    } catch (DfsException e) {
      long now = Natives.outputPosition(handle);
      IOException failure = interrupts.explain(e);
      if (failure instanceof java.io.InterruptedIOException) {
        ((java.io.InterruptedIOException) failure).bytesTransferred = (int) (now - taken);
      }
      taken = now;
      throw failure;
    } finally {
      interrupts.end();
    }
  }

  /** Does nothing, as for HDFS streams everywhere; {@link #hflush} is what makes bytes safe. */
  @Override
  public void flush() {}

  /** Returns when all bytes written before are acknowledged by every DataNode of the pipeline. */
  public void hflush() throws IOException {
    flush(0);
  }

  /** Like {@link #hflush}, and the DataNodes have synced the block to their disks. */
  public void hsync() throws IOException {
    flush(Natives.FLUSH_SYNC);
  }

  /**
   * {@link #hsync} with options.
   *
   * @param updateLength the NameNode learns the length, so that it shows in the file's status
   * @param endBlock the block ends here
   */
  public void hsync(boolean updateLength, boolean endBlock) throws IOException {
    flush(
        Natives.FLUSH_SYNC
            | (updateLength ? Natives.FLUSH_UPDATE_LENGTH : 0)
            | (endBlock ? Natives.FLUSH_END_BLOCK : 0));
  }

  private void flush(int mode) throws IOException {
    synchronized (this) {
      checkOpen();
      drain();
    }
    Interrupts interrupts = Interrupts.begin();
    try {
      Natives.flush(handle, mode, timeoutMs, interrupts.flag);
    } catch (DfsException e) {
      throw interrupts.explain(e);
    } finally {
      interrupts.end();
    }
  }

  /**
   * Flushes, ends the last block and completes the file. After an interrupt or a time limit it may be
   * called again; after any other failure the file is abandoned.
   */
  @Override
  public synchronized void close() throws IOException {
    if (closed) {
      return;
    }
    boolean open = false;
    Interrupts interrupts = null;
    try {
      drain();
      interrupts = Interrupts.begin();
      Natives.closeOutput(handle, timeoutMs, interrupts.flag);
    } catch (IOException e) {
      DfsException cause = DfsException.of(e);
      open = cause != null && cause.status() == DfsException.TIMED_OUT && !cause.isFatal();
      throw interrupts == null || e != cause ? e : interrupts.explain(cause);
    } finally {
      if (interrupts != null) {
        interrupts.end();
      }
      if (!open) {
        release();
      }
    }
  }

  /** Forgets the file: nothing more is sent; what was not flushed is lost. Does not wait. */
  public synchronized void abandon() {
    if (!closed) {
      release();
    }
  }

  private void release() {
    closed = true;
    guard.dismiss();
    Natives.free(handle);
    ByteBuffer buffer = staging;
    staging = null;
    if (buffer != null) {
      Staging.give(buffer);
    }
  }

  /** Bytes of the file so far: what was there before and what was written, flushed or not. */
  public synchronized long position() {
    return taken + (staging == null ? 0 : staging.position());
  }

  /** Bytes of the file from 0 that all DataNodes have acknowledged. */
  public long durableBytes() throws IOException {
    return Natives.durable(handle);
  }

  /** {@code ip:port} of the DataNodes of the current block, first node first. */
  public String[] pipeline() throws IOException {
    return Natives.pipeline(handle);
  }

  /** Whether the first fault breaks the file. */
  public boolean isFailFast() {
    return failFast;
  }
}
