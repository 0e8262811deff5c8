package io.libdfs;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/**
 * A connected HDFS. Any number of threads may use it. Waits end with {@link
 * java.io.InterruptedIOException} when their thread is interrupted.
 *
 * <pre>{@code
 * try (Dfs dfs = Dfs.connect("hdfs://namenode:8020");
 *     DfsOutputStream log = dfs.create("/log", new DfsCreateOptions().overwrite(true))) {
 *   log.write(record);
 *   log.hflush();
 * }
 * }</pre>
 */
public final class Dfs implements AutoCloseable {
  private final long handle;
  private final long timeoutMs;
  private final Leaks.Guard guard;
  private boolean closed;

  private Dfs(long handle, long timeoutMs) {
    this.handle = handle;
    this.timeoutMs = timeoutMs;
    this.guard = Leaks.watch(this, handle, "a file system");
  }

  /** Connects with the configuration that {@code HADOOP_CONF_DIR} names, if it names one. */
  public static Dfs connect(String uri) throws IOException {
    return builder().uri(uri).loadEnvironment().connect();
  }

  /** Settings of a connection. */
  public static Builder builder() {
    return new Builder();
  }

  /** Loads the native library now, so that a missing one shows early. */
  public static void loadLibrary() throws DfsLibraryException {
    LibraryLoader.ensure();
  }

  /** Handles that are alive in the native half: file systems and streams not yet closed. */
  public static long liveHandles() throws DfsLibraryException {
    LibraryLoader.ensure();
    return Natives.liveHandles();
  }

  /** Collects the settings of a connection. */
  public static final class Builder {
    private String uri;
    private int load = Natives.LOAD_NOTHING;
    private String directory;
    private long timeoutMs;
    private final List<String> pairs = new ArrayList<>();

    private Builder() {}

    /** {@code hdfs://host:port} or {@code hdfs://nameservice}; null: {@code fs.defaultFS}. */
    public Builder uri(String uri) {
      this.uri = uri;
      return this;
    }

    /** Reads the site files of {@code HADOOP_CONF_DIR}, else {@code HADOOP_HOME/etc/hadoop}. */
    public Builder loadEnvironment() {
      load = Natives.LOAD_ENVIRONMENT;
      return this;
    }

    /** Reads the site files of a folder. */
    public Builder loadDirectory(String directory) {
      load = Natives.LOAD_DIRECTORY;
      this.directory = directory;
      return this;
    }

    /** Sets a Hadoop key, over what files say. */
    public Builder set(String key, String value) {
      pairs.add(key);
      pairs.add(value);
      return this;
    }

    /** Sets several Hadoop keys. */
    public Builder setAll(Map<String, String> settings) {
      settings.forEach(this::set);
      return this;
    }

    /** Limit of each call, ms; 0: only the limits of its steps. */
    public Builder timeoutMs(long ms) {
      timeoutMs = ms;
      return this;
    }

    /** Connects: asks the NameNode for its defaults, so that a wrong address shows here. */
    public Dfs connect() throws IOException {
      LibraryLoader.ensure();
      Leaks.collect();
      String[] all = pairs.toArray(new String[0]);
      Interrupts interrupts = Interrupts.begin();
      try {
        long handle = Natives.connect(uri, load, directory, all, timeoutMs, interrupts.flag);
        return new Dfs(handle, timeoutMs);
      } catch (DfsException e) {
        throw interrupts.explain(e);
      } finally {
        interrupts.end();
      }
    }
  }

  /** {@code hdfs://authority}. */
  public String uri() throws IOException {
    return Natives.uri(handle);
  }

  /** Creates a file. */
  public DfsOutputStream create(String path, DfsCreateOptions options) throws IOException {
    return openOutput(path, options, 0);
  }

  /** Opens an existing file to write at its end. */
  public DfsOutputStream append(String path, DfsCreateOptions options) throws IOException {
    return openOutput(path, options, Natives.APPEND);
  }

  private DfsOutputStream openOutput(String path, DfsCreateOptions o, int more)
      throws IOException {
    Leaks.collect();
    Interrupts interrupts = Interrupts.begin();
    try {
      long stream =
          Natives.create(
              handle,
              path,
              o.flags | more,
              o.mode,
              o.replication,
              o.blockSize,
              o.bytesPerChecksum,
              o.checksum,
              o.packetBytes,
              o.dropBehind,
              o.favoredNodes,
              o.minReplicas,
              timeoutMs,
              interrupts.flag);
      return new DfsOutputStream(path, stream, timeoutMs, (o.flags & Natives.FAIL_FAST) != 0);
    } catch (DfsException e) {
      throw interrupts.explain(e);
    } finally {
      interrupts.end();
    }
  }

  /** Opens a file for reading, with checksums verified. */
  public DfsInputStream open(String path) throws IOException {
    return open(path, true);
  }

  /** Opens a file for reading. */
  public DfsInputStream open(String path, boolean verifyChecksum) throws IOException {
    Leaks.collect();
    Interrupts interrupts = Interrupts.begin();
    try {
      long stream =
          Natives.open(handle, path, verifyChecksum, -1, -1, timeoutMs, interrupts.flag);
      return new DfsInputStream(path, stream, timeoutMs);
    } catch (DfsException e) {
      throw interrupts.explain(e);
    } finally {
      interrupts.end();
    }
  }

  /** Status of a file or directory. */
  public DfsFileStatus status(String path) throws IOException {
    Interrupts interrupts = Interrupts.begin();
    try {
      return DfsFileStatus.unpack(Natives.stat(handle, path, timeoutMs, interrupts.flag))[0];
    } catch (DfsException e) {
      throw interrupts.explain(e);
    } finally {
      interrupts.end();
    }
  }

  /** Whether there is a file or directory of that path. */
  public boolean exists(String path) throws IOException {
    try {
      status(path);
      return true;
    } catch (java.io.FileNotFoundException e) {
      return false;
    }
  }

  /** Entries of a directory; of a file, itself. */
  public DfsFileStatus[] list(String path) throws IOException {
    Interrupts interrupts = Interrupts.begin();
    try {
      return DfsFileStatus.unpack(Natives.list(handle, path, timeoutMs, interrupts.flag));
    } catch (DfsException e) {
      throw interrupts.explain(e);
    } finally {
      interrupts.end();
    }
  }

  /** Makes a directory with its missing parents; 0755 say, before the umask. */
  public void mkdirs(String path, int permission) throws IOException {
    Interrupts interrupts = Interrupts.begin();
    try {
      Natives.mkdir(handle, path, permission, true, timeoutMs, interrupts.flag);
    } catch (DfsException e) {
      throw interrupts.explain(e);
    } finally {
      interrupts.end();
    }
  }

  /** Deletes a file or directory; false if there is none. */
  public boolean delete(String path, boolean recursive) throws IOException {
    Interrupts interrupts = Interrupts.begin();
    try {
      return Natives.delete(handle, path, recursive, timeoutMs, interrupts.flag);
    } catch (DfsException e) {
      throw interrupts.explain(e);
    } finally {
      interrupts.end();
    }
  }

  /** Renames a file or directory. */
  public void rename(String from, String to, boolean overwrite) throws IOException {
    Interrupts interrupts = Interrupts.begin();
    try {
      Natives.rename(handle, from, to, overwrite, timeoutMs, interrupts.flag);
    } catch (DfsException e) {
      throw interrupts.explain(e);
    } finally {
      interrupts.end();
    }
  }

  /** Shortens a file; false while its last block is still being cut. */
  public boolean truncate(String path, long length) throws IOException {
    Interrupts interrupts = Interrupts.begin();
    try {
      return Natives.truncate(handle, path, length, timeoutMs, interrupts.flag);
    } catch (DfsException e) {
      throw interrupts.explain(e);
    } finally {
      interrupts.end();
    }
  }

  /** Asks the NameNode to close a file whose writer is gone; true when it is closed. */
  public boolean recoverLease(String path) throws IOException {
    Interrupts interrupts = Interrupts.begin();
    try {
      return Natives.recoverLease(handle, path, timeoutMs, interrupts.flag);
    } catch (DfsException e) {
      throw interrupts.explain(e);
    } finally {
      interrupts.end();
    }
  }

  /** Whether nobody writes the file. */
  public boolean isFileClosed(String path) throws IOException {
    Interrupts interrupts = Interrupts.begin();
    try {
      return Natives.isFileClosed(handle, path, timeoutMs, interrupts.flag);
    } catch (DfsException e) {
      throw interrupts.explain(e);
    } finally {
      interrupts.end();
    }
  }

  /** The counters. */
  public DfsStatistics statistics() throws IOException {
    long[] values = new long[DfsStatistics.COUNT];
    Natives.statistics(handle, values);
    return new DfsStatistics(values);
  }

  /** Ends the file system: its running calls fail, files that are still written are abandoned. */
  @Override
  public void close() throws IOException {
    synchronized (guard) {
      if (closed) {
        return;
      }
      closed = true;
    }
    guard.dismiss();
    Natives.closeFileSystem(handle);
  }
}
