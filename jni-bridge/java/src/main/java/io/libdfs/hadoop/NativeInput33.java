package io.libdfs.hadoop;

import io.libdfs.DfsInputStream;
import java.io.EOFException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.Locale;
import org.apache.hadoop.fs.ByteBufferPositionedReadable;
import org.apache.hadoop.fs.FileSystem;

/** Adds the interface that came with Hadoop 3.3. */
class NativeInput33 extends NativeInput implements ByteBufferPositionedReadable {
  NativeInput33(DfsInputStream stream, FileSystem.Statistics statistics) {
    super(stream, statistics);
  }

  @Override
  public int read(long position, ByteBuffer buffer) throws IOException {
    try {
      return count(stream.read(position, buffer));
    } catch (IOException e) {
      throw translate(e);
    }
  }

  @Override
  public void readFully(long position, ByteBuffer buffer) throws IOException {
    int length = buffer.remaining();
    if (length > 0 && read(position, buffer) < length) {
      throw new EOFException(
          "the file " + stream.path() + " ends before " + length + " bytes from " + position);
    }
  }

  @Override
  public boolean hasCapability(String capability) {
    return "in:preadbytebuffer".equals(capability.toLowerCase(Locale.ROOT))
        || super.hasCapability(capability);
  }
}
