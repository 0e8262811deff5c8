package io.libdfs.hadoop;

import io.libdfs.DfsInputStream;
import java.io.EOFException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.Locale;
import org.apache.hadoop.fs.ByteBufferReadable;
import org.apache.hadoop.fs.CanSetDropBehind;
import org.apache.hadoop.fs.CanSetReadahead;
import org.apache.hadoop.fs.CanUnbuffer;
import org.apache.hadoop.fs.FSInputStream;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.StreamCapabilities;

/** A native input stream behind Hadoop's interfaces that every supported version has. */
class NativeInput extends FSInputStream
    implements ByteBufferReadable, CanSetDropBehind, CanSetReadahead, CanUnbuffer,
        StreamCapabilities {
  final DfsInputStream stream;
  private final FileSystem.Statistics statistics;

  NativeInput(DfsInputStream stream, FileSystem.Statistics statistics) {
    this.stream = stream;
    this.statistics = statistics;
  }

  IOException translate(IOException e) {
    IOException translated = Exceptions.translate(e, stream.path());
    if (translated instanceof java.nio.channels.ClosedChannelException) {
      // The words of the stock stream.
      return (IOException) new IOException("Stream closed").initCause(e);
    }
    return translated;
  }

  /** Counts what was read, -1 being nothing. */
  final int count(int read) {
    if (read > 0 && statistics != null) {
      statistics.incrementBytesRead(read);
    }
    return read;
  }

  @Override
  public int read() throws IOException {
    try {
      int b = stream.read();
      count(b < 0 ? 0 : 1);
      return b;
    } catch (IOException e) {
      throw translate(e);
    }
  }

  @Override
  public int read(byte[] bytes, int offset, int length) throws IOException {
    try {
      return count(stream.read(bytes, offset, length));
    } catch (IOException e) {
      throw translate(e);
    }
  }

  @Override
  public int read(ByteBuffer buffer) throws IOException {
    try {
      return count(stream.read(buffer));
    } catch (IOException e) {
      throw translate(e);
    }
  }

  @Override
  public int read(long position, byte[] bytes, int offset, int length) throws IOException {
    if (bytes == null) {
      throw new IllegalArgumentException("the buffer of a positional read is null");
    }
    try {
      return count(stream.read(position, bytes, offset, length));
    } catch (IOException e) {
      throw translate(e);
    }
  }

  @Override
  public void readFully(long position, byte[] bytes, int offset, int length) throws IOException {
    if (length == 0 && position >= 0) {
      return;
    }
    int n = read(position, bytes, offset, length);
    if (n < length) {
      throw new EOFException(
          "the file " + stream.path() + " ends before " + length + " bytes from " + position);
    }
  }

  @Override
  public void readFully(long position, byte[] bytes) throws IOException {
    readFully(position, bytes, 0, bytes.length);
  }

  @Override
  public void seek(long position) throws IOException {
    try {
      stream.seek(position);
    } catch (IOException e) {
      throw translate(e);
    }
  }

  /** Of a closed stream, the last position, as the stock stream has it. */
  @Override
  public long getPos() {
    return stream.position();
  }

  /** The next read chooses its replica anew as it is; nothing is to be done. */
  @Override
  public boolean seekToNewSource(long position) {
    return false;
  }

  @Override
  public long skip(long count) throws IOException {
    try {
      return stream.skip(count);
    } catch (IOException e) {
      throw translate(e);
    }
  }

  @Override
  public int available() throws IOException {
    try {
      return stream.available();
    } catch (IOException e) {
      throw translate(e);
    }
  }

  @Override
  public void setReadahead(Long bytes) throws IOException {
    try {
      stream.setReadahead(bytes);
    } catch (IOException e) {
      throw translate(e);
    }
  }

  @Override
  public void setDropBehind(Boolean dropCache) throws IOException {
    try {
      stream.setDropBehind(dropCache);
    } catch (IOException e) {
      throw translate(e);
    }
  }

  @Override
  public void unbuffer() {
    try {
      stream.unbuffer();
    } catch (IOException e) {
      // Closed in this moment: then there is nothing to give back.
    }
  }

  @Override
  public boolean hasCapability(String capability) {
    switch (capability.toLowerCase(Locale.ROOT)) {
      case "in:readahead":
      case "dropbehind":
      case "in:unbuffer":
      case "in:readbytebuffer":
        return true;
      default:
        return false;
    }
  }

  @Override
  public void close() throws IOException {
    try {
      stream.close();
    } catch (IOException e) {
      throw translate(e);
    }
  }

  @Override
  public String toString() {
    return "libdfs input stream of " + stream.path();
  }
}
