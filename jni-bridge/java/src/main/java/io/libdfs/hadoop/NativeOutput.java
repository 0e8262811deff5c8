package io.libdfs.hadoop;

import io.libdfs.DfsException;
import io.libdfs.DfsOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.util.Collection;
import java.util.Locale;
import org.apache.hadoop.fs.CanSetDropBehind;
import org.apache.hadoop.fs.StreamCapabilities;
import org.apache.hadoop.fs.Syncable;

/** A native output stream behind Hadoop's interfaces. */
class NativeOutput extends OutputStream implements Syncable, CanSetDropBehind, StreamCapabilities {
  private final DfsOutputStream stream;
  private final Collection<NativeOutput> open;

  NativeOutput(DfsOutputStream stream, Collection<NativeOutput> open) {
    this.stream = stream;
    this.open = open;
    open.add(this);
  }

  private IOException translate(IOException e) {
    return Exceptions.translate(e, stream.path());
  }

  @Override
  public void write(int b) throws IOException {
    try {
      stream.write(b);
    } catch (IOException e) {
      throw translate(e);
    }
  }

  @Override
  public void write(byte[] bytes, int offset, int length) throws IOException {
    try {
      stream.write(bytes, offset, length);
    } catch (IOException e) {
      throw translate(e);
    }
  }

  @Override
  public void hflush() throws IOException {
    try {
      stream.hflush();
    } catch (IOException e) {
      throw translate(e);
    }
  }

  @Override
  public void hsync() throws IOException {
    try {
      stream.hsync();
    } catch (IOException e) {
      throw translate(e);
    }
  }

  /** Hadoop 2's name of {@link #hflush}; its Syncable declares it. */
  public void sync() throws IOException {
    hflush();
  }

  /** {@link #hsync} with the flags of {@code HdfsDataOutputStream}. */
  void hsync(boolean updateLength, boolean endBlock) throws IOException {
    try {
      stream.hsync(updateLength, endBlock);
    } catch (IOException e) {
      throw translate(e);
    }
  }

  @Override
  public void close() throws IOException {
    try {
      stream.close();
    } catch (IOException e) {
      DfsException cause = DfsException.of(e);
      if (cause == null || cause.status() != Exceptions.TIMED_OUT) {
        open.remove(this);
      }
      throw translate(e);
    }
    open.remove(this);
  }

  /** Fixed when the file is opened, by {@code dfs.client.cache.drop.behind.writes}. */
  @Override
  public void setDropBehind(Boolean dropCache) {
    throw new UnsupportedOperationException(
        "drop-behind of a file that is being written is set when it is opened:"
            + " dfs.client.cache.drop.behind.writes");
  }

  @Override
  public boolean hasCapability(String capability) {
    switch (capability.toLowerCase(Locale.ROOT)) {
      case "hflush":
      case "hsync":
        return true;
      default:
        return false;
    }
  }

  /** DataNodes of the current pipeline. */
  int replicas() throws IOException {
    return stream.pipeline().length;
  }

  /** {@code ip:port} of the DataNodes of the current pipeline. */
  String[] pipeline() throws IOException {
    return stream.pipeline();
  }

  @Override
  public String toString() {
    return "libdfs output stream of " + stream.path();
  }
}
