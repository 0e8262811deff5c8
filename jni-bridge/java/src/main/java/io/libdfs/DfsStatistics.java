package io.libdfs;

/** Counters of a file system since it was connected. */
public final class DfsStatistics {
  static final int COUNT = 23;

  private final long[] values;

  DfsStatistics(long[] values) {
    this.values = values;
  }

  /** Buffer pool, now: bytes in use. */
  public long poolInUseBytes() {
    return values[0];
  }

  /** Buffer pool, now: bytes in free buffers. */
  public long poolFreeBytes() {
    return values[1];
  }

  /** Buffer pool: highest sum of both. */
  public long poolPeakBytes() {
    return values[2];
  }

  /** Buffer pool: buffers that were at hand. */
  public long poolHits() {
    return values[3];
  }

  /** Buffer pool: buffers that had to be allocated. */
  public long poolMisses() {
    return values[4];
  }

  /** Buffer pool: waits at its limit. */
  public long poolWaits() {
    return values[5];
  }

  /** Files open for writing, now. */
  public long openWriters() {
    return values[6];
  }

  /** Bytes written. */
  public long bytesWritten() {
    return values[7];
  }

  /** Packets sent. */
  public long packetsSent() {
    return values[8];
  }

  /** Flushes that succeeded. */
  public long flushes() {
    return values[9];
  }

  /** Of these, flushes that another thread's packet served. */
  public long flushesCombined() {
    return values[10];
  }

  /** Blocks allocated. */
  public long blocksWritten() {
    return values[11];
  }

  /** Faults of pipelines. */
  public long pipelineFaults() {
    return values[12];
  }

  /** Pipelines rebuilt. */
  public long pipelineRecoveries() {
    return values[13];
  }

  /** Waits of writers for acknowledgements or a full socket. */
  public long windowWaits() {
    return values[14];
  }

  /** Heartbeats of idle pipelines. */
  public long heartbeats() {
    return values[15];
  }

  /** Bytes that reads delivered. */
  public long bytesRead() {
    return values[16];
  }

  /** Read requests that DataNodes served. */
  public long readRequests() {
    return values[17];
  }

  /** Connections made for reads. */
  public long readConnects() {
    return values[18];
  }

  /** Read requests on a connection from the cache. */
  public long readCacheHits() {
    return values[19];
  }

  /** Connections from the cache that turned out dead. */
  public long readStalePeers() {
    return values[20];
  }

  /** Failures of reads after which another attempt was made. */
  public long readFailovers() {
    return values[21];
  }

  /** Replicas whose data did not match its checksums. */
  public long readChecksumFailures() {
    return values[22];
  }
}
