import io.libdfs.Dfs;
import io.libdfs.DfsCreateOptions;
import io.libdfs.DfsInputStream;
import io.libdfs.DfsOutputStream;
import io.libdfs.DfsStatistics;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;

/**
 * A write-ahead log: records are written and flushed one by one, read back while the file is open, and
 * then at random. Run it with
 *
 * <pre>java -cp target/java/libdfs-0.1.0.jar jni-bridge/java/examples/WalExample.java URI</pre>
 */
public class WalExample {
  private static final int RECORDS = 2_000;
  private static final int SIZE = 200;

  private static byte[] record(int number) {
    byte[] text = ("record " + number).getBytes(StandardCharsets.UTF_8);
    return Arrays.copyOf(text, SIZE);
  }

  public static void main(String[] args) throws Exception {
    if (args.length != 1) {
      System.err.println("usage: WalExample hdfs://host:port");
      System.exit(2);
    }
    String path = "/wal-example";
    try (Dfs dfs = Dfs.connect(args[0])) {
      long[] ns = new long[RECORDS];
      try (DfsOutputStream log = dfs.create(path, new DfsCreateOptions().overwrite(true))) {
        for (int i = 0; i < RECORDS; i++) {
          long begun = System.nanoTime();
          log.write(record(i));
          // From here on the record survives this process and any one DataNode.
          log.hflush();
          ns[i] = System.nanoTime() - begun;
        }
        try (DfsInputStream tail = dfs.open(path)) {
          System.out.println("while it is open: " + tail.length() + " bytes to read");
        }
        System.out.println("pipeline: " + String.join(", ", log.pipeline()));
      }
      Arrays.sort(ns);
      System.out.printf(
          "%d records flushed: p50 %.0f us, p99 %.0f us%n",
          RECORDS, ns[RECORDS / 2] / 1e3, ns[RECORDS * 99 / 100] / 1e3);

      ByteBuffer buffer = ByteBuffer.allocateDirect(SIZE);
      try (DfsInputStream in = dfs.open(path)) {
        for (int i = 0; i < RECORDS; i += 97) {
          buffer.clear();
          int n = in.read((long) i * SIZE, buffer);
          buffer.flip();
          if (n != SIZE || !buffer.equals(ByteBuffer.wrap(record(i)))) {
            throw new IllegalStateException("record " + i + " came back different");
          }
        }
      }
      dfs.delete(path, false);
      DfsStatistics statistics = dfs.statistics();
      System.out.println(
          "read back at random; native memory at its peak: "
              + (statistics.poolPeakBytes() >> 10) + " KiB");
    }
  }
}
