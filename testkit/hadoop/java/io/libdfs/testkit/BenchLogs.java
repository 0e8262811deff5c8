package io.libdfs.testkit;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.SynchronousQueue;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/**
 * A write-ahead log on Hadoop's client, as HBase runs one: records are appended under a lock, and
 * five threads flush for all who wait.
 *
 * <ul>
 *   <li>{@code commit path= bytes= count= threads= [replication=]}: {@code threads} threads append
 *       {@code count} records each and wait until each is flushed
 *   <li>{@code turn path= bytes= count= blocksize= [replication=]}: records into one file of
 *       {@code count} blocks; latencies of each block's slowest append with its flush
 *   <li>{@code roll path= bytes= count= every= [replication=]}: the log is replaced {@code count}
 *       times by a file that another thread opened and flushed once; latencies are the longest
 *       times between two acks around each change
 * </ul>
 */
final class BenchLogs {
  private static final int SYNC_THREADS = 5;
  private static final int WARM_FLUSHES = 20;

  private final FileSystem fs;
  private final Args args;
  private final byte[] record;

  BenchLogs(FileSystem fs, Args args) {
    this.fs = fs;
    this.args = args;
    record = BenchClient.content(args.count("bytes", 1024));
  }

  private FSDataOutputStream open(String path) throws Exception {
    FSDataOutputStream out = BenchClient.create(fs, args, new Path(path));
    // The first flush sets up the pipeline.
    for (int i = 0; i < WARM_FLUSHES; i++) {
      out.write(record);
      out.hflush();
    }
    return out;
  }

  /** Appends under a lock; flushes are shared. */
  private static final class SharedLog {
    private final FSDataOutputStream out;
    private final Object appendLock = new Object();
    private final Object syncLock = new Object();
    private volatile long appended;
    private long synced;
    private long wanted;
    private boolean over;
    private Exception failure;

    SharedLog(FSDataOutputStream out) {
      this.out = out;
      for (int i = 0; i < SYNC_THREADS; i++) {
        Thread thread =
            new Thread("sync-" + i) {
              @Override
              public void run() {
                try {
                  while (flushOnce()) {
                    continue;
                  }
                } catch (Exception e) {
                  synchronized (syncLock) {
                    failure = e;
                    syncLock.notifyAll();
                  }
                }
              }
            };
        thread.setDaemon(true);
        thread.start();
      }
    }

    private boolean flushOnce() throws Exception {
      synchronized (syncLock) {
        while (wanted <= synced && !over) {
          syncLock.wait();
        }
        if (over) {
          return false;
        }
      }
      long upTo = appended;
      out.hflush();
      synchronized (syncLock) {
        synced = Math.max(synced, upTo);
        syncLock.notifyAll();
      }
      return true;
    }

    void commit(byte[] record) throws Exception {
      long mine;
      synchronized (appendLock) {
        out.write(record);
        mine = appended + 1;
        appended = mine;
      }
      synchronized (syncLock) {
        if (mine > wanted) {
          wanted = mine;
          syncLock.notifyAll();
        }
        while (synced < mine && failure == null) {
          syncLock.wait();
        }
        if (failure != null) {
          throw failure;
        }
      }
    }

    void end() {
      synchronized (syncLock) {
        over = true;
        syncLock.notifyAll();
      }
    }
  }

  String commit() throws Exception {
    final int count = args.count("count", 1000);
    int threads = args.count("threads", 50);
    FSDataOutputStream out = open(args.text("path"));
    try {
      final SharedLog log = new SharedLog(out);
      final Meter meter = new Meter(count * threads);
      BenchClient.parallel(
          threads,
          meter,
          new BenchClient.Work() {
            @Override
            public void run(int thread) throws Exception {
              for (int i = 0; i < count; i++) {
                long start = System.nanoTime();
                log.commit(record);
                meter.latency(thread * count + i, System.nanoTime() - start);
              }
            }
          });
      log.end();
      return meter.json("commit", record.length);
    } finally {
      out.close();
    }
  }

  String turn() throws Exception {
    int count = args.count("count", 30);
    long block = args.number("blocksize");
    FSDataOutputStream out = open(args.text("path"));
    try {
      Meter meter = new Meter(count);
      long at = (long) WARM_FLUSHES * record.length;
      long slowest = 0;
      for (int turns = 0; turns < count; ) {
        long start = System.nanoTime();
        out.write(record);
        out.hflush();
        slowest = Math.max(slowest, System.nanoTime() - start);
        at += record.length;
        long in = at % block;
        // A turn may strike the flush before the boundary or the one behind it.
        if (in >= 2L * record.length && in < 3L * record.length && at > block) {
          meter.latency(turns, slowest);
          slowest = 0;
          turns++;
        }
      }
      meter.stop();
      return meter.json("turn", record.length);
    } finally {
      out.close();
    }
  }

  String roll() throws Exception {
    final int count = args.count("count", 50);
    int every = args.count("every", 500);
    final String path = args.text("path");
    final AtomicReference<FSDataOutputStream> next = new AtomicReference<FSDataOutputStream>();
    final AtomicReference<Exception> failure = new AtomicReference<Exception>();
    final SynchronousQueue<Integer> asked = new SynchronousQueue<Integer>();
    final List<FSDataOutputStream> old = new ArrayList<FSDataOutputStream>();
    Thread roller =
        new Thread("roller") {
          @Override
          public void run() {
            try {
              for (int i = 0; i < count; i++) {
                next.set(open(path + "." + asked.take()));
              }
            } catch (Exception e) {
              failure.set(e);
            }
          }
        };
    roller.setDaemon(true);
    FSDataOutputStream log = open(path);
    roller.start();
    final SynchronousQueue<FSDataOutputStream> closing = new SynchronousQueue<FSDataOutputStream>();
    Thread closer =
        new Thread("closer") {
          @Override
          public void run() {
            try {
              for (int i = 0; i < count; i++) {
                closing.take().close();
              }
            } catch (Exception e) {
              failure.set(e);
            }
          }
        };
    closer.setDaemon(true);
    closer.start();
    Meter meter = new Meter(count);
    for (int i = 0; i < count; i++) {
      asked.put(i);
      long longest = 0;
      boolean switched = false;
      long last = System.nanoTime();
      for (int since = 0; since < every; ) {
        log.write(record);
        log.hflush();
        long now = System.nanoTime();
        longest = Math.max(longest, now - last);
        last = now;
        if (switched) {
          since++;
          continue;
        }
        if (failure.get() != null) {
          throw failure.get();
        }
        FSDataOutputStream file = next.getAndSet(null);
        if (file != null) {
          old.add(log);
          log = file;
          switched = true;
        }
      }
      // A close takes longer than some rolls: the closer must not delay the log.
      closing.put(old.remove(old.size() - 1));
      meter.latency(i, longest);
    }
    meter.stop();
    log.close();
    closer.join();
    return meter.json("roll", record.length);
  }
}
