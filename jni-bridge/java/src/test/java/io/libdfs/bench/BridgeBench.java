package io.libdfs.bench;

import io.libdfs.MiniCluster;
import io.libdfs.hadoop.NativeDistributedFileSystem;
import java.io.IOException;
import java.lang.management.GarbageCollectorMXBean;
import java.lang.management.ManagementFactory;
import java.net.URI;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.Locale;
import java.util.Random;
import java.util.Scanner;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ThreadLocalRandom;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hdfs.DistributedFileSystem;

/**
 * Garbage and time of the calls that a log and a table store make most, of Hadoop's own client and of
 * ours in turn, on one cluster in a JVM of its own. {@code make bench-java} runs it.
 */
public final class BridgeBench {
  private static final int RECORD = 600;
  private static final int READ = 4096;
  private static final int FILE = 64 << 20;
  private static final Class<?>[] CLIENTS = {
    DistributedFileSystem.class, NativeDistributedFileSystem.class
  };

  private BridgeBench() {}

  /** Allocation, collections and latency of one run. */
  private static final class Meter {
    private final com.sun.management.ThreadMXBean threads =
        (com.sun.management.ThreadMXBean) ManagementFactory.getThreadMXBean();
    private final long[] ns;
    private final long bytes;
    private final long collections;
    private final long collectionMs;
    private final long begun;
    private int count;

    Meter(int operations) {
      ns = new long[operations];
      collections = collections();
      collectionMs = collectionMs();
      bytes = bytes();
      begun = System.nanoTime();
    }

    /** Of all threads that are alive: streams keep theirs until they are closed. */
    private long bytes() {
      long sum = 0;
      for (long each : threads.getThreadAllocatedBytes(threads.getAllThreadIds())) {
        sum += Math.max(each, 0);
      }
      return sum;
    }

    private static long collections() {
      return ManagementFactory.getGarbageCollectorMXBeans().stream()
          .mapToLong(GarbageCollectorMXBean::getCollectionCount).sum();
    }

    private static long collectionMs() {
      return ManagementFactory.getGarbageCollectorMXBeans().stream()
          .mapToLong(GarbageCollectorMXBean::getCollectionTime).sum();
    }

    void took(long nanoseconds) {
      ns[count++] = nanoseconds;
    }

    void print(String what, Class<?> client) {
      double seconds = (System.nanoTime() - begun) / 1e9;
      long allocated = bytes() - bytes;
      Arrays.sort(ns, 0, count);
      System.out.printf(
          Locale.ROOT,
          "%-24s %-8s %8.0f op/s  p50 %6.1f us  p99 %7.1f us  %9.1f B/op  %3d GCs %5d ms%n",
          what,
          client == DistributedFileSystem.class ? "Hadoop" : "libdfs",
          count / seconds,
          ns[count / 2] / 1e3,
          ns[(int) (count * 0.99)] / 1e3,
          (double) allocated / count,
          collections() - collections,
          collectionMs() - collectionMs);
    }
  }

  private static FileSystem open(String uri, Class<?> client, int packetBytes)
      throws IOException {
    Configuration conf = new Configuration();
    conf.set("fs.hdfs.impl", client.getName());
    conf.setBoolean("fs.hdfs.impl.disable.cache", true);
    conf.setInt("dfs.client-write-packet-size", packetBytes);
    return FileSystem.get(URI.create(uri), conf);
  }

  private static void flushes(String uri, Class<?> client, int count, int packetBytes)
      throws IOException {
    byte[] record = new byte[RECORD];
    try (FileSystem fs = open(uri, client, packetBytes);
        FSDataOutputStream out = fs.create(new Path("/bench/log"), true)) {
      for (int i = 0; i < Math.min(count, 5_000); i++) {
        out.write(record);
        out.hflush();
      }
      Meter meter = new Meter(count);
      for (int i = 0; i < count; i++) {
        long begun = System.nanoTime();
        out.write(record);
        out.hflush();
        meter.took(System.nanoTime() - begun);
      }
      meter.print("write 600 B + hflush, " + (packetBytes >> 10) + "K", client);
    }
  }

  private static void preads(String uri, Class<?> client, int count, boolean direct)
      throws IOException {
    try (FileSystem fs = open(uri, client, 64 << 10);
        FSDataInputStream in = fs.open(new Path("/bench/table"))) {
      ByteBuffer buffer = direct ? ByteBuffer.allocateDirect(READ) : ByteBuffer.allocate(READ);
      Random random = new Random(1);
      Meter meter = null;
      int warm = Math.min(count, 5_000);
      for (int i = -warm; i < count; i++) {
        if (i == 0) {
          meter = new Meter(count);
        }
        long at = random.nextInt(FILE - READ);
        long begun = System.nanoTime();
        if (direct) {
          buffer.clear();
          in.readFully(at, buffer);
        } else {
          in.readFully(at, buffer.array(), 0, READ);
        }
        if (meter != null) {
          meter.took(System.nanoTime() - begun);
        }
      }
      meter.print("pread 4 KiB, " + (direct ? "direct" : "heap"), client);
    }
  }

  private static void manyPreads(String uri, Class<?> client, int count, int threads)
      throws Exception {
    try (FileSystem fs = open(uri, client, 64 << 10);
        FSDataInputStream in = fs.open(new Path("/bench/table"))) {
      CountDownLatch ready = new CountDownLatch(threads);
      CountDownLatch go = new CountDownLatch(1);
      CountDownLatch done = new CountDownLatch(threads);
      CountDownLatch end = new CountDownLatch(1);
      int each = count / threads;
      Meter[] meter = new Meter[1];
      for (int t = 0; t < threads; t++) {
        new Thread(
                () -> {
                  byte[] bytes = new byte[READ];
                  long[] ns = new long[each];
                  ready.countDown();
                  try {
                    go.await();
                    for (int i = 0; i < each; i++) {
                      long begun = System.nanoTime();
                      in.readFully(ThreadLocalRandom.current().nextInt(FILE - READ), bytes);
                      ns[i] = System.nanoTime() - begun;
                    }
                    synchronized (meter) {
                      for (long one : ns) {
                        meter[0].took(one);
                      }
                    }
                    done.countDown();
                    end.await();
                  } catch (IOException | InterruptedException e) {
                    throw new IllegalStateException(e);
                  }
                })
            .start();
      }
      ready.await();
      meter[0] = new Meter(each * threads);
      go.countDown();
      done.await();
      meter[0].print("pread 4 KiB, 40 threads", client);
      end.countDown();
    }
  }

  /** The cluster, when this class runs as its own child. */
  private static void serve() throws IOException {
    System.out.println("cluster " + MiniCluster.uri());
    while (System.in.read() >= 0) {
      // The parent's death closes the pipe.
    }
    System.exit(0);
  }

  /** Arguments: operations of a run (20000), rounds (2); or {@code serve}. */
  public static void main(String[] args) throws Exception {
    if (args.length > 0 && args[0].equals("serve")) {
      serve();
    }
    int count = args.length > 0 ? Integer.parseInt(args[0]) : 20_000;
    int rounds = args.length > 1 ? Integer.parseInt(args[1]) : 2;
    Process cluster =
        new ProcessBuilder(
                System.getProperty("java.home") + "/bin/java", "-Xmx1g",
                "-Djava.io.tmpdir=" + System.getProperty("java.io.tmpdir"),
                "-cp", System.getProperty("java.class.path"), BridgeBench.class.getName(), "serve")
            .redirectError(ProcessBuilder.Redirect.DISCARD)
            .start();
    try (Scanner said = new Scanner(cluster.getInputStream(), "UTF-8")) {
      String uri = said.nextLine().replace("cluster ", "");
      try (FileSystem fs = open(uri, DistributedFileSystem.class, 64 << 10);
          FSDataOutputStream out = fs.create(new Path("/bench/table"), true)) {
        out.write(new byte[FILE]);
      }
      for (int round = 0; round < rounds; round++) {
        for (int packet : new int[] {64 << 10, 8 << 10}) {
          for (Class<?> client : CLIENTS) {
            flushes(uri, client, count, packet);
          }
        }
        for (boolean direct : new boolean[] {false, true}) {
          for (Class<?> client : CLIENTS) {
            preads(uri, client, count, direct);
          }
        }
        for (Class<?> client : CLIENTS) {
          manyPreads(uri, client, count, 40);
        }
      }
    } finally {
      cluster.destroy();
    }
  }
}
