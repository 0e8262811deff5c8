package io.libdfs.hadoop;

import io.libdfs.MiniCluster;
import java.io.IOException;
import java.net.URI;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.contract.AbstractFSContract;

/** What Hadoop's contract tests shall expect of the native file system: all that HDFS promises. */
final class NativeContract extends AbstractFSContract {
  private static final String[] YES = {
    "test.root-tests-enabled",
    "is-case-sensitive",
    "supports-append",
    "supports-atomic-directory-delete",
    "supports-atomic-rename",
    "supports-block-locality",
    "supports-concat",
    "supports-seek",
    "rejects-seek-past-eof",
    "supports-strict-exceptions",
    "supports-unix-permissions",
    "rename-returns-false-if-dest-exists",
    "rename-returns-false-if-source-missing",
    "supports-settimes",
    "supports-getfilestatus",
    "supports-file-reference",
    "supports-content-check",
    "supports-unbuffer",
    // Hadoop's own list for HDFS leaves these out.
    "supports-hflush",
    "supports-hsync",
    "supports-positioned-readable",
  };

  private static FileSystem fs;

  NativeContract(Configuration conf) {
    super(conf);
    for (String option : YES) {
      getConf().setBoolean("fs.contract." + option, true);
    }
    getConf().setInt("fs.contract.test.random-seek-count", 200);
  }

  /** Settings of a program that uses the native file system, on the mini cluster. */
  static Configuration configuration() {
    Configuration conf = new Configuration(MiniCluster.get().getConfiguration(0));
    conf.set("fs.hdfs.impl", NativeDistributedFileSystem336.class.getName());
    // The mini cluster's own file system is in the cache.
    conf.setBoolean("fs.hdfs.impl.disable.cache", true);
    return conf;
  }

  static FileSystem newFileSystem() throws IOException {
    return FileSystem.get(URI.create(MiniCluster.uri()), configuration());
  }

  @Override
  public FileSystem getTestFileSystem() throws IOException {
    synchronized (NativeContract.class) {
      if (fs == null) {
        fs = newFileSystem();
      }
      return fs;
    }
  }

  @Override
  public String getScheme() {
    return "hdfs";
  }

  @Override
  public Path getTestPath() {
    return new Path("/test");
  }
}
