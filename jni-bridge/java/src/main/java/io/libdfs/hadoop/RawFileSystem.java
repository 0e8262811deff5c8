package io.libdfs.hadoop;

import java.io.IOException;
import java.net.URI;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.DistributedFileSystem;
import org.apache.hadoop.hdfs.protocol.HdfsConstants;

/**
 * Hadoop's own file system, also under another scheme than {@code hdfs}: callers that unwrap ours,
 * as HBase does to recover leases, come with paths of the scheme that they know.
 */
final class RawFileSystem extends DistributedFileSystem {
  private URI alias;

  @Override
  public void initialize(URI name, Configuration conf) throws IOException {
    String scheme = name.getScheme();
    if (!HdfsConstants.HDFS_URI_SCHEME.equals(scheme) && name.getAuthority() != null) {
      alias = URI.create(scheme + "://" + name.getAuthority());
      super.initialize(hdfs(name), conf);
    } else {
      super.initialize(name, conf);
    }
  }

  /** The same authority under the scheme that NameNodes have. */
  static URI hdfs(URI name) {
    return URI.create(HdfsConstants.HDFS_URI_SCHEME + "://" + name.getAuthority());
  }

  @Override
  public URI getUri() {
    return alias == null ? super.getUri() : alias;
  }

  @Override
  public String getScheme() {
    return alias == null ? super.getScheme() : alias.getScheme();
  }
}
