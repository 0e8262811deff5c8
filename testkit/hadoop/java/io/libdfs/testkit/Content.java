package io.libdfs.testkit;

/**
 * Reproducible file content, the same as {@code dfs_testkit::data} in Rust: the byte at offset o
 * of the file with seed s is byte o % 8 (least significant first) of mix(s + (o / 8 + 1) * GAMMA),
 * where mix is SplitMix64's output function. Any range can be made without what lies before it.
 */
final class Content {
  private static final long GAMMA = 0x9E3779B97F4A7C15L;

  private Content() {}

  private static long word(long seed, long index) {
    long z = seed + (index + 1) * GAMMA;
    z = (z ^ (z >>> 30)) * 0xBF58476D1CE4E5B9L;
    z = (z ^ (z >>> 27)) * 0x94D049BB133111EBL;
    return z ^ (z >>> 31);
  }

  /** Fills {@code buffer[start, start + length)} with the content from file offset {@code at}. */
  static void fill(long seed, long at, byte[] buffer, int start, int length) {
    long offset = at;
    int i = start;
    int end = start + length;
    while (i < end) {
      int skip = (int) (offset & 7);
      long bits = word(seed, offset >>> 3) >>> (8 * skip);
      for (int b = skip; b < 8 && i < end; b++) {
        buffer[i++] = (byte) bits;
        bits >>>= 8;
        offset++;
      }
    }
  }

  /** The first index in the buffer whose byte differs from the content, or -1. */
  static int mismatch(long seed, long at, byte[] buffer, int start, int length) {
    byte[] expected = new byte[length];
    fill(seed, at, expected, 0, length);
    for (int i = 0; i < length; i++) {
      if (buffer[start + i] != expected[i]) {
        return i;
      }
    }
    return -1;
  }
}
