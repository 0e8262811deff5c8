package io.libdfs.hadoop;

import io.libdfs.DfsInputStream;
import java.io.EOFException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.CompletableFuture;
import java.util.function.IntFunction;
import org.apache.hadoop.fs.FileRange;
import org.apache.hadoop.fs.FileSystem;

/** Adds the vectored reads that came with Hadoop 3.3.5. */
final class NativeInputVectored extends NativeInput33 {
  NativeInputVectored(DfsInputStream stream, FileSystem.Statistics statistics) {
    super(stream, statistics);
  }

  /**
   * Reads all ranges before it returns: those with direct buffers in one call, which fetches near
   * ranges together, the others one by one.
   */
  @Override
  public void readVectored(List<? extends FileRange> ranges, IntFunction<ByteBuffer> allocate)
      throws IOException {
    check(ranges);
    java.util.Objects.requireNonNull(allocate, "allocate");
    List<FileRange> direct = new ArrayList<>();
    List<ByteBuffer> buffers = new ArrayList<>();
    for (FileRange range : ranges) {
      range.setData(new CompletableFuture<>());
    }
    for (FileRange range : ranges) {
      ByteBuffer buffer = allocate.apply(range.getLength());
      if (buffer.isDirect() && range.getLength() > 0) {
        direct.add(range);
        buffers.add(buffer);
      } else {
        readOne(range, buffer);
      }
    }
    if (!direct.isEmpty()) {
      readDirect(direct, buffers);
    }
  }

  private static void check(List<? extends FileRange> ranges) throws EOFException {
    List<FileRange> sorted = new ArrayList<>(ranges);
    for (FileRange range : sorted) {
      if (range.getOffset() < 0) {
        throw new EOFException("the offset of range " + range + " is negative");
      }
      if (range.getLength() < 0) {
        throw new IllegalArgumentException("the length of range " + range + " is negative");
      }
    }
    sorted.sort(Comparator.comparingLong(FileRange::getOffset));
    for (int i = 1; i < sorted.size(); i++) {
      FileRange before = sorted.get(i - 1);
      FileRange range = sorted.get(i);
      if (range.getOffset() == before.getOffset()
          || range.getOffset() < before.getOffset() + before.getLength()) {
        throw new IllegalArgumentException("the ranges " + before + " and " + range + " overlap");
      }
    }
  }

  private EOFException ends(FileRange range) {
    return new EOFException("the file " + stream.path() + " ends within range " + range);
  }

  private void readOne(FileRange range, ByteBuffer buffer) {
    int start = buffer.position();
    try {
      buffer.limit(start + range.getLength());
      readFully(range.getOffset(), buffer);
      buffer.position(start);
      range.getData().complete(buffer);
    } catch (IOException | RuntimeException e) {
      range.getData().completeExceptionally(e);
    }
  }

  private void readDirect(List<FileRange> ranges, List<ByteBuffer> buffers) {
    int count = ranges.size();
    long[] positions = new long[count];
    int[] lengths = new int[count];
    ByteBuffer[] memory = new ByteBuffer[count];
    for (int i = 0; i < count; i++) {
      positions[i] = ranges.get(i).getOffset();
      lengths[i] = ranges.get(i).getLength();
      memory[i] = buffers.get(i).slice();
    }
    try {
      int[] done = stream.readVector(positions, lengths, memory);
      for (int i = 0; i < count; i++) {
        FileRange range = ranges.get(i);
        count(done[i]);
        if (done[i] < lengths[i]) {
          range.getData().completeExceptionally(ends(range));
        } else {
          ByteBuffer buffer = buffers.get(i);
          buffer.limit(buffer.position() + lengths[i]);
          range.getData().complete(buffer);
        }
      }
    } catch (IOException e) {
      IOException failure = translate(e);
      for (FileRange range : ranges) {
        range.getData().completeExceptionally(failure);
      }
    }
  }

  @Override
  public boolean hasCapability(String capability) {
    return "in:readvectored".equals(capability.toLowerCase(Locale.ROOT))
        || super.hasCapability(capability);
  }
}
