package io.libdfs;

import java.io.File;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.HdfsConfiguration;
import org.apache.hadoop.hdfs.MiniDFSCluster;

/** One NameNode and three DataNodes in this JVM, shared by all tests. */
public final class MiniCluster {
  private static MiniDFSCluster cluster;

  private MiniCluster() {}

  /** The cluster, started with the first call. */
  public static synchronized MiniDFSCluster get() {
    if (cluster == null) {
      try {
        cluster = new MiniDFSCluster.Builder(configuration(), folder()).numDataNodes(3).build();
        cluster.waitActive();
      } catch (IOException e) {
        throw new UncheckedIOException(e);
      }
      Runtime.getRuntime().addShutdownHook(new Thread(() -> cluster.shutdown(true)));
    }
    return cluster;
  }

  private static File folder() throws IOException {
    File parent = new File(System.getProperty("java.io.tmpdir"));
    Files.createDirectories(parent.toPath());
    return Files.createTempDirectory(parent.toPath(), "minicluster-").toFile();
  }

  private static Configuration configuration() {
    Configuration conf = new HdfsConfiguration();
    conf.setLong("dfs.namenode.fs-limits.min-block-size", 0);
    conf.setLong("dfs.namenode.decommission.interval", 3);
    conf.setLong("dfs.heartbeat.interval", 1);
    conf.setBoolean("dfs.permissions.enabled", true);
    conf.setBoolean("dfs.namenode.acls.enabled", true);
    conf.setInt("dfs.datanode.max.transfer.threads", 512);
    return conf;
  }

  /** {@code hdfs://localhost:port}. */
  public static String uri() {
    return get().getURI().toString();
  }

  /** A native connection to it. */
  public static Dfs connect() throws IOException {
    return Dfs.builder().uri(uri()).set("libdfs.user.name", System.getProperty("user.name"))
        .connect();
  }
}
