package io.libdfs.hadoop;

/**
 * The native file system under a scheme of its own: {@code libdfs://namenode:8020/path} is {@code
 * hdfs://namenode:8020/path} through libdfs. It needs no configuration, since Hadoop finds it in the
 * jar, and leaves {@code hdfs} to the stock class: for programs, HBase among them, that take every
 * file system called {@code hdfs} for a {@code DistributedFileSystem}.
 */
public final class LibdfsFileSystem extends NativeDistributedFileSystem {
  /** The scheme. */
  public static final String SCHEME = "libdfs";

  @Override
  public String getScheme() {
    return SCHEME;
  }
}
