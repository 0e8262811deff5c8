package io.libdfs.hadoop;

import java.io.IOException;
import java.net.InetSocketAddress;
import java.util.EnumSet;
import org.apache.hadoop.fs.CreateFlag;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FSDataOutputStreamBuilder;
import org.apache.hadoop.fs.Path;

/** Builder of native output streams, with the extras of {@code HdfsDataOutputStreamBuilder}. */
public final class OutputBuilder
    extends FSDataOutputStreamBuilder<FSDataOutputStream, OutputBuilder> {
  private final NativeDistributedFileSystem fs;
  private final Path path;
  private final EnumSet<CreateFlag> extra = EnumSet.noneOf(CreateFlag.class);
  private InetSocketAddress[] favoredNodes;

  private OutputBuilder(NativeDistributedFileSystem fs, Path path) {
    super(fs, path);
    this.fs = fs;
    this.path = path;
  }

  static FSDataOutputStreamBuilder creating(NativeDistributedFileSystem fs, Path path) {
    return new OutputBuilder(fs, path).create().overwrite(true);
  }

  static FSDataOutputStreamBuilder appending(NativeDistributedFileSystem fs, Path path) {
    return new OutputBuilder(fs, path).append();
  }

  @Override
  public OutputBuilder getThisBuilder() {
    return this;
  }

  /** DataNodes sync each block when it ends. */
  public OutputBuilder syncBlock() {
    extra.add(CreateFlag.SYNC_BLOCK);
    return this;
  }

  /** Appending starts a new block. */
  public OutputBuilder newBlock() {
    extra.add(CreateFlag.NEW_BLOCK);
    return this;
  }

  /** No replica on the local DataNode. */
  public OutputBuilder noLocalWrite() {
    extra.add(CreateFlag.NO_LOCAL_WRITE);
    return this;
  }

  /** Replicate even below an erasure-coded directory. */
  public OutputBuilder replicate() {
    extra.add(CreateFlag.SHOULD_REPLICATE);
    return this;
  }

  /** The NameNode ignores where the client runs. */
  public OutputBuilder ignoreClientLocality() {
    extra.add(CreateFlag.IGNORE_CLIENT_LOCALITY);
    return this;
  }

  /** Preferred DataNodes. */
  public OutputBuilder favoredNodes(InetSocketAddress[] nodes) {
    favoredNodes = nodes.clone();
    return this;
  }

  @Override
  public FSDataOutputStream build() throws IOException {
    EnumSet<CreateFlag> flags = EnumSet.copyOf(getFlags());
    flags.addAll(extra);
    if (flags.contains(CreateFlag.CREATE) || flags.contains(CreateFlag.OVERWRITE)) {
      flags.add(CreateFlag.CREATE);
      return fs.openForCreate(
          path,
          getPermission(),
          flags,
          isRecursive(),
          getBufferSize(),
          getReplication(),
          getBlockSize(),
          getProgress(),
          getChecksumOpt(),
          favoredNodes);
    }
    if (flags.contains(CreateFlag.APPEND)) {
      return fs.openForAppend(path, flags, getBufferSize(), getProgress());
    }
    throw new IOException("a builder for " + path + " needs create or append");
  }
}
