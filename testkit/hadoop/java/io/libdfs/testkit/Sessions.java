package io.libdfs.testkit;

import java.io.IOException;
import java.net.URI;
import java.security.PrivilegedExceptionAction;
import java.util.HashMap;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.hdfs.DistributedFileSystem;
import org.apache.hadoop.hdfs.HdfsConfiguration;
import org.apache.hadoop.security.UserGroupInformation;

/** File systems by user and configuration: {@code user=NAME conf.KEY=VALUE} of a command line. */
final class Sessions {
  private final Map<String, DistributedFileSystem> cache =
      new HashMap<String, DistributedFileSystem>();
  private final Configuration base;

  /** File systems with the properties of the class path and, over them, those of the lines. */
  Sessions(Configuration base) {
    this.base = base;
  }

  /** The shared file system for the line's user and configuration. */
  DistributedFileSystem shared(Args args) throws Exception {
    String key = args.text("user", "") + ' ' + args.withPrefix("conf.");
    DistributedFileSystem fs = cache.get(key);
    if (fs == null) {
      fs = fresh(args);
      cache.put(key, fs);
    }
    return fs;
  }

  /** A file system of its own, thus with a lease holder of its own. */
  DistributedFileSystem fresh(Args args) throws Exception {
    final Configuration conf = configuration(args);
    final URI uri = FileSystem.getDefaultUri(conf);
    PrivilegedExceptionAction<FileSystem> make =
        new PrivilegedExceptionAction<FileSystem>() {
          @Override
          public FileSystem run() throws IOException {
            return FileSystem.newInstance(uri, conf);
          }
        };
    FileSystem fs =
        args.has("user")
            ? UserGroupInformation.createRemoteUser(args.text("user")).doAs(make)
            : make.run();
    return (DistributedFileSystem) fs;
  }

  Configuration configuration(Args args) {
    Configuration conf = new HdfsConfiguration(base);
    for (Map.Entry<String, String> entry : args.withPrefix("conf.").entrySet()) {
      conf.set(entry.getKey(), entry.getValue());
    }
    return conf;
  }
}
