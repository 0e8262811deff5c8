package io.libdfs.hbase;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.util.concurrent.TimeUnit;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.hbase.HBaseTestingUtility;
import org.apache.hadoop.hbase.ServerName;
import org.apache.hadoop.hbase.TableName;
import org.apache.hadoop.hbase.client.Put;
import org.apache.hadoop.hbase.client.Result;
import org.apache.hadoop.hbase.client.ResultScanner;
import org.apache.hadoop.hbase.client.Scan;
import org.apache.hadoop.hbase.client.Table;
import org.apache.hadoop.hbase.util.Bytes;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** An HBase that knows nothing of libdfs, with its log and its files on native streams. */
class MiniHBaseTest {
  private static final String NATIVE = "io.libdfs.hadoop.LibdfsFileSystem";
  private static final HBaseTestingUtility UTIL = new HBaseTestingUtility();
  private static final byte[] FAMILY = Bytes.toBytes("f");
  private static final byte[] COLUMN = Bytes.toBytes("c");

  private static byte[] key(int row) {
    return Bytes.toBytes(String.format("row-%06d", row));
  }

  private static byte[] value(int row) {
    return Bytes.toBytes(("value of " + row + ' ').repeat(1 + row % 50));
  }

  private static void put(Table table, int from, int to) throws IOException {
    for (int row = from; row < to; row++) {
      table.put(new Put(key(row)).addColumn(FAMILY, COLUMN, value(row)));
    }
  }

  private static void checkRows(Table table, int count) throws IOException {
    int row = 0;
    try (ResultScanner scanner = table.getScanner(new Scan())) {
      for (Result result : scanner) {
        assertEquals(Bytes.toString(key(row)), Bytes.toString(result.getRow()));
        assertEquals(
            Bytes.toString(value(row)), Bytes.toString(result.getValue(FAMILY, COLUMN)));
        row++;
      }
    }
    assertEquals(count, row);
  }

  private static FileSystem.Statistics statistics() throws ClassNotFoundException {
    Class<? extends FileSystem> native_ = Class.forName(NATIVE).asSubclass(FileSystem.class);
    return FileSystem.getStatistics("libdfs", native_);
  }

  @BeforeAll
  static void startHdfs() throws Exception {
    Configuration conf = UTIL.getConfiguration();
    conf.setInt("hbase.regionserver.handler.count", 10);
    conf.setInt("hbase.master.info.port", -1);
    conf.setInt("hbase.regionserver.info.port", -1);
    UTIL.startMiniDFSCluster(3);
    conf.set("fs.defaultFS", conf.get("fs.defaultFS").replace("hdfs://", "libdfs://"));
    // The mini cluster gives each server its own user, and so its own file system, on a
    // DistributedFileSystem only; and a killed server closes its file system.
    conf.setBoolean("fs.libdfs.impl.disable.cache", true);
    UTIL.startMiniZKCluster();
  }

  @AfterAll
  static void stopHdfs() throws Exception {
    UTIL.shutdownMiniCluster();
  }

  /**
   * Flush, roll, kill: what was acknowledged is there, from HFiles and from split logs. The second
   * provider starts on what the first has left.
   */
  @ParameterizedTest
  @ValueSource(strings = {"asyncfs", "filesystem"})
  @Timeout(value = 400, unit = TimeUnit.SECONDS)
  void everyAcknowledgedRowSurvivesTheServer(String walProvider) throws Exception {
    TableName name = TableName.valueOf("rows-" + walProvider);
    UTIL.getConfiguration().set("hbase.wal.provider", walProvider);
    UTIL.startMiniHBaseCluster(1, 2);
    try {
      assertEquals(NATIVE, FileSystem.get(UTIL.getConfiguration()).getClass().getName());
      try (Table table = UTIL.createTable(name, FAMILY)) {
        byte[] region =
            UTIL.getMiniHBaseCluster().getRegions(name).get(0).getRegionInfo().getRegionName();
        ServerName server = UTIL.getMiniHBaseCluster().getServerHoldingRegion(name, region);
        put(table, 0, 500);
        UTIL.flush(name);
        put(table, 500, 1000);
        UTIL.getAdmin().rollWALWriter(server);
        long written = statistics().getBytesWritten();
        put(table, 1000, 1500);
        assertTrue(statistics().getBytesWritten() > written, "the log is not native");
        UTIL.getMiniHBaseCluster().killRegionServer(server);
        UTIL.getMiniHBaseCluster().waitForRegionServerToStop(server, 60_000);
        UTIL.waitUntilAllRegionsAssigned(name, 120_000);
        checkRows(table, 1500);
        put(table, 1500, 1600);
        UTIL.flush(name);
        UTIL.compact(name, true);
        checkRows(table, 1600);
      }
      assertTrue(statistics().getBytesRead() > 0, "nothing was read natively");
    } finally {
      UTIL.shutdownMiniHBaseCluster();
    }
  }
}
