package io.libdfs.testkit;

import java.io.BufferedReader;
import java.io.EOFException;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hdfs.HdfsConfiguration;
import org.apache.hadoop.util.VersionInfo;

/**
 * Hadoop's Java client as the peer of benchmarks: a long-lived process that is given one command
 * a line (see {@link Args}) and answers one JSON object a line, or {@code ERR CLASS MESSAGE}.
 *
 * <ul>
 *   <li>{@code hflush path= bytes= count= [replication=] [streams=1] [sync=true]}: appends of
 *       {@code bytes} followed by hflush (hsync), {@code count} on each of {@code streams} files
 *   <li>{@code write path= length= buffer= [replication=]}: sequential, close included
 *   <li>{@code read path= buffer= [passes=1]}: sequential, open included
 *   <li>{@code pread path= bytes= count= [threads=1] [seed=1]}: at random offsets, on one stream
 *   <li>{@code ycsb path= count= threads= blocks= block=}: reads of 64 KiB (90 %) and 4 KiB from
 *       blocks of {@code block} bytes whose popularity follows Zipf's law, on one stream
 *   <li>{@code create path= count= [bytes=1024] [replication=]}: create, write, close a file each
 *   <li>{@code commit}, {@code turn}, {@code roll}: see {@link BenchLogs}
 * </ul>
 *
 * <p>{@code conf.KEY=VALUE} sets client properties, {@code blocksize=} the block size of new files.
 * The first line is {@code READY VERSION}.
 */
public final class BenchClient {
  private final Sessions sessions = new Sessions(new HdfsConfiguration());

  private BenchClient() {}

  /** Work of one thread: may throw. */
  interface Work {
    void run(int thread) throws Exception;
  }

  static FSDataOutputStream create(FileSystem fs, Args args, Path path)
      throws IOException {
    short replication = (short) args.number("replication", fs.getDefaultReplication(path));
    long blockSize = args.number("blocksize", fs.getDefaultBlockSize(path));
    return fs.create(path, true, 4096, replication, blockSize);
  }

  static byte[] content(int length) {
    byte[] bytes = new byte[length];
    Content.fill(1, 0, bytes, 0, length);
    return bytes;
  }

  /**
   * Runs on {@code count} threads that stay alive until {@code meter} has stopped; see there.
   * The first exception of any of them is thrown.
   */
  static void parallel(int count, final Meter meter, final Work work) throws Exception {
    final CountDownLatch done = new CountDownLatch(count);
    final CountDownLatch measured = new CountDownLatch(1);
    final AtomicReference<Exception> failure = new AtomicReference<Exception>();
    List<Thread> threads = new ArrayList<Thread>();
    for (int i = 0; i < count; i++) {
      final int index = i;
      Thread thread =
          new Thread("bench-" + i) {
            @Override
            public void run() {
              try {
                work.run(index);
              } catch (Exception e) {
                failure.compareAndSet(null, e);
              } finally {
                done.countDown();
              }
              try {
                measured.await();
              } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
              }
            }
          };
      thread.setDaemon(true);
      threads.add(thread);
      thread.start();
    }
    done.await();
    meter.stop();
    measured.countDown();
    for (Thread thread : threads) {
      thread.join();
    }
    if (failure.get() != null) {
      throw failure.get();
    }
  }

  private String hflush(final Args args) throws Exception {
    FileSystem fs = sessions.shared(args);
    final byte[] bytes = content(args.count("bytes", 400));
    final int count = args.count("count", 10000);
    final int streams = args.count("streams", 1);
    final boolean sync = args.flag("sync");
    final List<FSDataOutputStream> files = new ArrayList<FSDataOutputStream>();
    try {
      for (int i = 0; i < streams; i++) {
        FSDataOutputStream out = create(fs, args, new Path(args.text("path") + "-" + i));
        files.add(out);
        // The first flush sets up the pipeline, which is not what is measured.
        out.write(bytes);
        out.hflush();
      }
      final Meter meter = new Meter(count * streams);
      parallel(
          streams,
          meter,
          new Work() {
            @Override
            public void run(int thread) throws Exception {
              FSDataOutputStream out = files.get(thread);
              for (int i = 0; i < count; i++) {
                long start = System.nanoTime();
                out.write(bytes);
                if (sync) {
                  out.hsync();
                } else {
                  out.hflush();
                }
                meter.latency(thread * count + i, System.nanoTime() - start);
              }
            }
          });
      return meter.json("hflush", bytes.length);
    } finally {
      for (FSDataOutputStream out : files) {
        out.close();
      }
    }
  }

  private String write(Args args) throws Exception {
    FileSystem fs = sessions.shared(args);
    long length = args.number("length");
    byte[] bytes = content(args.count("buffer", 1 << 20));
    Meter meter = new Meter(1);
    long start = System.nanoTime();
    FSDataOutputStream out = create(fs, args, new Path(args.text("path")));
    try {
      for (long left = length; left > 0; left -= bytes.length) {
        out.write(bytes, 0, (int) Math.min(left, bytes.length));
      }
    } finally {
      out.close();
    }
    meter.latency(0, System.nanoTime() - start);
    meter.stop();
    return meter.json("write", length);
  }

  private String read(Args args) throws Exception {
    FileSystem fs = sessions.shared(args);
    Path path = new Path(args.text("path"));
    byte[] buffer = new byte[args.count("buffer", 1 << 20)];
    int passes = args.count("passes", 1);
    long length = fs.getFileStatus(path).getLen();
    Meter meter = new Meter(passes);
    for (int pass = 0; pass < passes; pass++) {
      long start = System.nanoTime();
      FSDataInputStream in = fs.open(path);
      try {
        long total = 0;
        for (int got = in.read(buffer); got >= 0; got = in.read(buffer)) {
          total += got;
        }
        if (total != length) {
          throw new EOFException("read " + total + " of " + length + " bytes of " + path);
        }
      } finally {
        in.close();
      }
      meter.latency(pass, System.nanoTime() - start);
    }
    meter.stop();
    return meter.json("read", length);
  }

  private String pread(final Args args) throws Exception {
    FileSystem fs = sessions.shared(args);
    Path path = new Path(args.text("path"));
    final int bytes = args.count("bytes", 4096);
    final int count = args.count("count", 10000);
    int threads = args.count("threads", 1);
    final long seed = args.number("seed", 1);
    final long places = fs.getFileStatus(path).getLen() - bytes + 1;
    if (places <= 0) {
      throw new EOFException(path + " is shorter than one read");
    }
    final FSDataInputStream in = fs.open(path);
    try {
      final Meter meter = new Meter(count * threads);
      parallel(
          threads,
          meter,
          new Work() {
            @Override
            public void run(int thread) throws Exception {
              Random random = new Random(seed * 1000 + thread);
              byte[] buffer = new byte[bytes];
              for (int i = 0; i < count; i++) {
                long at = (long) (random.nextDouble() * places);
                long start = System.nanoTime();
                in.readFully(at, buffer);
                meter.latency(thread * count + i, System.nanoTime() - start);
              }
            }
          });
      return meter.json("pread", bytes);
    } finally {
      in.close();
    }
  }

  /** Cumulated shares of the ranks 0, 1, 2... by Zipf's law with YCSB's constant. */
  private static double[] zipf(int count) {
    double[] sums = new double[count];
    double sum = 0;
    for (int i = 0; i < count; i++) {
      sum += Math.pow(i + 1, -0.99);
      sums[i] = sum;
    }
    for (int i = 0; i < count; i++) {
      sums[i] /= sum;
    }
    return sums;
  }

  private String ycsb(final Args args) throws Exception {
    FileSystem fs = sessions.shared(args);
    final int count = args.count("count", 500);
    final int blocks = args.count("blocks", 1000);
    final long block = args.number("block", 1 << 20);
    int threads = args.count("threads", 40);
    final double[] shares = zipf(blocks);
    final FSDataInputStream in = fs.open(new Path(args.text("path")));
    try {
      for (int pass = 0; pass < 2; pass++) {
        // Connections and locations are there before the measured part.
        final int reads = pass == 0 ? (count + 9) / 10 : count;
        final int seed = 1000 * (pass + 1);
        final Meter meter = new Meter(reads * threads);
        Work work =
            new Work() {
              @Override
              public void run(int thread) throws Exception {
                Random random = new Random(seed + thread);
                byte[] buffer = new byte[65536];
                for (int i = 0; i < reads; i++) {
                  int found = Arrays.binarySearch(shares, random.nextDouble());
                  int rank = Math.min(found < 0 ? -found - 1 : found, blocks - 1);
                  long start = (long) rank * 7919 % blocks * block;
                  int length = random.nextInt(100) < 90 ? 65536 : 4096;
                  long at = start + (long) (random.nextDouble() * (block - length + 1));
                  long begin = System.nanoTime();
                  in.readFully(at, buffer, 0, length);
                  meter.latency(thread * reads + i, System.nanoTime() - begin);
                }
              }
            };
        parallel(threads, meter, work);
        if (pass == 1) {
          return meter.json("ycsb", (90 * 65536 + 10 * 4096) / 100);
        }
      }
      throw new AssertionError();
    } finally {
      in.close();
    }
  }

  private String create(Args args) throws Exception {
    FileSystem fs = sessions.shared(args);
    byte[] bytes = content(args.count("bytes", 1024));
    int count = args.count("count", 100);
    Meter meter = new Meter(count);
    for (int i = 0; i < count; i++) {
      long start = System.nanoTime();
      FSDataOutputStream out = create(fs, args, new Path(args.text("path") + "-" + i));
      try {
        out.write(bytes);
      } finally {
        out.close();
      }
      meter.latency(i, System.nanoTime() - start);
    }
    meter.stop();
    return meter.json("create", bytes.length);
  }

  private String answer(String line) {
    try {
      Args args = new Args(line);
      switch (args.verb) {
        case "hflush":
          return hflush(args);
        case "write":
          return write(args);
        case "read":
          return read(args);
        case "pread":
          return pread(args);
        case "ycsb":
          return ycsb(args);
        case "create":
          return create(args);
        case "commit":
          return new BenchLogs(sessions.shared(args), args).commit();
        case "turn":
          return new BenchLogs(sessions.shared(args), args).turn();
        case "roll":
          return new BenchLogs(sessions.shared(args), args).roll();
        default:
          throw new IllegalArgumentException("unknown command " + args.verb);
      }
    } catch (Throwable thrown) {
      // An Error, too, is an answer: the driver waits for a line.
      thrown.printStackTrace();
      return Reply.error(thrown);
    }
  }

  /** Entry point; see the class comment. */
  public static void main(String[] args) throws Exception {
    PrintStream answers = System.out;
    // Whatever Hadoop prints must not get between the answers.
    System.setOut(System.err);
    BufferedReader input = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
    BenchClient client = new BenchClient();
    answers.println("READY " + VersionInfo.getVersion());
    for (String line = input.readLine(); line != null; line = input.readLine()) {
      answers.println(client.answer(line));
    }
    Runtime.getRuntime().halt(0);
  }
}
