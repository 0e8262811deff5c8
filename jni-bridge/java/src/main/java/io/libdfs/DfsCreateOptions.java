package io.libdfs;

/** How a file is created or appended to; what is not set has its configured default. */
public final class DfsCreateOptions {
  int flags;
  int mode = -1;
  int replication;
  long blockSize;
  int bytesPerChecksum;
  int checksum = -1;
  int packetBytes;
  int dropBehind = -1;
  String favoredNodes;
  int minReplicas;

  /** Checksum types. */
  public enum Checksum {
    /** No checksums. */
    NULL,
    /** The zlib polynomial. */
    CRC32,
    /** Castagnoli's, HDFS's default. */
    CRC32C
  }

  private DfsCreateOptions flag(int bit, boolean on) {
    flags = on ? flags | bit : flags & ~bit;
    return this;
  }

  /** Replace an existing file. */
  public DfsCreateOptions overwrite(boolean on) {
    return flag(Natives.OVERWRITE, on);
  }

  /** Make missing parent folders. */
  public DfsCreateOptions createParents(boolean on) {
    return flag(Natives.CREATE_PARENTS, on);
  }

  /** DataNodes sync each block when it ends. */
  public DfsCreateOptions syncBlock(boolean on) {
    return flag(Natives.SYNC_BLOCK, on);
  }

  /** No replica on the local DataNode. */
  public DfsCreateOptions noLocalWrite(boolean on) {
    return flag(Natives.NO_LOCAL_WRITE, on);
  }

  /** The NameNode ignores where the client runs. */
  public DfsCreateOptions ignoreClientLocality(boolean on) {
    return flag(Natives.IGNORE_LOCALITY, on);
  }

  /** Replicate even below an erasure-coded folder. */
  public DfsCreateOptions replicate(boolean on) {
    return flag(Natives.SHOULD_REPLICATE, on);
  }

  /** The first pipeline fault breaks the file: for logs that rather roll than wait. */
  public DfsCreateOptions failFast(boolean on) {
    return flag(Natives.FAIL_FAST, on);
  }

  /** Appending starts a new block even when the last one has room. */
  public DfsCreateOptions newBlock(boolean on) {
    return flag(Natives.NEW_BLOCK, on);
  }

  /** Mode before the umask, 0644 say. */
  public DfsCreateOptions permission(int octal) {
    mode = octal;
    return this;
  }

  /** Replicas. */
  public DfsCreateOptions replication(int count) {
    replication = count;
    return this;
  }

  /** Bytes of a block. */
  public DfsCreateOptions blockSize(long bytes) {
    blockSize = bytes;
    return this;
  }

  /** Type of the checksums, and the bytes that one covers; null and 0 mean the defaults. */
  public DfsCreateOptions checksum(Checksum type, int bytes) {
    checksum = type == null ? -1 : type.ordinal();
    bytesPerChecksum = bytes;
    return this;
  }

  /** Cap of a packet, bytes. */
  public DfsCreateOptions packetSize(int bytes) {
    packetBytes = bytes;
    return this;
  }

  /** Whether DataNodes drop the data from their page cache; null: the configured value. */
  public DfsCreateOptions dropBehind(Boolean drop) {
    dropBehind = drop == null ? -1 : drop ? 1 : 0;
    return this;
  }

  /** Preferred DataNodes, {@code ip:port,ip:port}. */
  public DfsCreateOptions favoredNodes(String nodes) {
    favoredNodes = nodes;
    return this;
  }

  /** A flush fails when fewer DataNodes than this are in the pipeline; 0: no floor. */
  public DfsCreateOptions minReplicas(int count) {
    minReplicas = count;
    return this;
  }
}
