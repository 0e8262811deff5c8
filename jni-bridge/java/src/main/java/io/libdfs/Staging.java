package io.libdfs;

import java.nio.ByteBuffer;
import java.util.ArrayDeque;

/**
 * Direct buffers in which streams gather small writes, so that these cross no JNI boundary. They are
 * reused, since the JVM makes and frees direct memory slowly.
 */
final class Staging {
  /** Bytes of a buffer: some log entries; what is larger gains nothing from staging. */
  static final int BYTES = 8 << 10;

  /** Free buffers kept: 2 MiB. */
  private static final int KEPT_MAX = 256;

  private static final ArrayDeque<ByteBuffer> FREE = new ArrayDeque<>();

  private Staging() {}

  static ByteBuffer take() {
    synchronized (FREE) {
      ByteBuffer buffer = FREE.poll();
      if (buffer != null) {
        return buffer;
      }
    }
    return ByteBuffer.allocateDirect(BYTES);
  }

  /** The caller must have forgotten the buffer. */
  static void give(ByteBuffer buffer) {
    buffer.clear();
    synchronized (FREE) {
      if (FREE.size() < KEPT_MAX) {
        FREE.push(buffer);
      }
    }
  }
}
