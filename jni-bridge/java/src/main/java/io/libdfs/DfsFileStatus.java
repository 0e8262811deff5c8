package io.libdfs;

/** What the NameNode knows of a file, a directory or a symbolic link. */
public final class DfsFileStatus {
  static final int TEXTS = 4;
  static final int NUMBERS = 8;

  private final String[] texts;
  private final long[] numbers;
  private final int index;

  private DfsFileStatus(String[] texts, long[] numbers, int index) {
    this.texts = texts;
    this.numbers = numbers;
    this.index = index;
  }

  static DfsFileStatus[] unpack(Object[] pair) {
    String[] texts = (String[]) pair[0];
    long[] numbers = (long[]) pair[1];
    DfsFileStatus[] all = new DfsFileStatus[texts.length / TEXTS];
    for (int i = 0; i < all.length; i++) {
      all[i] = new DfsFileStatus(texts, numbers, i);
    }
    return all;
  }

  private String text(int which) {
    return texts[index * TEXTS + which];
  }

  private long number(int which) {
    return numbers[index * NUMBERS + which];
  }

  /** The absolute path. */
  public String path() {
    return text(0);
  }

  /** The last component of the path. */
  public String name() {
    return path().substring(path().lastIndexOf('/') + 1);
  }

  /** The owner. */
  public String owner() {
    return text(1);
  }

  /** The group. */
  public String group() {
    return text(2);
  }

  /** Target of a symbolic link, else null. */
  public String symlink() {
    return text(3);
  }

  /** Whether it is a directory. */
  public boolean isDirectory() {
    return number(0) == 1;
  }

  /** Bytes; of a file that is being written, what the NameNode has been told. */
  public long length() {
    return number(1);
  }

  /** Permission bits, sticky bit included. */
  public int permission() {
    return (int) number(2);
  }

  /** Time of the last change, ms since 1970. */
  public long modificationTime() {
    return number(3);
  }

  /** Time of the last access, ms since 1970. */
  public long accessTime() {
    return number(4);
  }

  /** Wanted replicas. */
  public int replication() {
    return (int) number(5);
  }

  /** Bytes of a block. */
  public long blockSize() {
    return number(6);
  }

  /** Inode id. */
  public long fileId() {
    return number(7);
  }

  @Override
  public String toString() {
    return path() + (isDirectory() ? "/" : " (" + length() + " bytes)");
  }
}
