package io.libdfs.testkit;

import com.sun.management.OperatingSystemMXBean;
import com.sun.management.ThreadMXBean;
import java.lang.management.GarbageCollectorMXBean;
import java.lang.management.ManagementFactory;
import java.util.Arrays;
import java.util.Locale;

/** Wall time, CPU, allocation and collections of this JVM between start and stop; latencies. */
final class Meter {
  private static final OperatingSystemMXBean SYSTEM =
      (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
  private static final ThreadMXBean THREADS =
      (ThreadMXBean) ManagementFactory.getThreadMXBean();

  private final long[] latenciesNs;
  private long wallNs;
  private long cpuNs;
  private long allocated;
  private long collections;
  private long collectionMs;

  /** Starts with room for {@code operations} latencies. */
  Meter(int operations) {
    latenciesNs = new long[operations];
    collections = -collections();
    collectionMs = -collectionMs();
    allocated = -allocated();
    cpuNs = -SYSTEM.getProcessCpuTime();
    wallNs = -System.nanoTime();
  }

  /** Slots are filled by one thread each, so no lock is needed. */
  void latency(int slot, long ns) {
    latenciesNs[slot] = ns;
  }

  /**
   * Ends the measured part. To be called while the threads that worked still live: what a thread
   * has allocated is forgotten when it ends.
   */
  void stop() {
    wallNs += System.nanoTime();
    cpuNs += SYSTEM.getProcessCpuTime();
    allocated += allocated();
    collections += collections();
    collectionMs += collectionMs();
  }

  private static long allocated() {
    long sum = 0;
    for (long bytes : THREADS.getThreadAllocatedBytes(THREADS.getAllThreadIds())) {
      sum += Math.max(bytes, 0);
    }
    return sum;
  }

  private static long collections() {
    long sum = 0;
    for (GarbageCollectorMXBean bean : ManagementFactory.getGarbageCollectorMXBeans()) {
      sum += Math.max(bean.getCollectionCount(), 0);
    }
    return sum;
  }

  private static long collectionMs() {
    long sum = 0;
    for (GarbageCollectorMXBean bean : ManagementFactory.getGarbageCollectorMXBeans()) {
      sum += Math.max(bean.getCollectionTime(), 0);
    }
    return sum;
  }

  /** One JSON object; {@code bytes} is what one operation moves. */
  String json(String name, long bytes) {
    int count = latenciesNs.length;
    long[] sorted = latenciesNs.clone();
    Arrays.sort(sorted);
    double seconds = wallNs / 1e9;
    return String.format(
        Locale.ROOT,
        "{\"op\":\"%s\",\"count\":%d,\"bytes\":%d,\"wall_s\":%.6f,\"cpu_s\":%.6f,"
            + "\"ops_per_s\":%.1f,\"mb_per_s\":%.2f,\"p50_us\":%.1f,\"p95_us\":%.1f,"
            + "\"p99_us\":%.1f,\"p999_us\":%.1f,\"max_us\":%.1f,\"alloc_bytes_per_op\":%d,\"gc_count\":%d,"
            + "\"gc_ms\":%d}",
        name,
        count,
        bytes,
        seconds,
        cpuNs / 1e9,
        count / seconds,
        (double) count * bytes / 1e6 / seconds,
        quantileUs(sorted, 0.5),
        quantileUs(sorted, 0.95),
        quantileUs(sorted, 0.99),
        quantileUs(sorted, 0.999),
        sorted[count - 1] / 1e3,
        allocated / count,
        collections,
        collectionMs);
  }

  private static double quantileUs(long[] sorted, double share) {
    int rank = (int) Math.ceil(share * sorted.length);
    return sorted[Math.max(rank - 1, 0)] / 1e3;
  }
}
