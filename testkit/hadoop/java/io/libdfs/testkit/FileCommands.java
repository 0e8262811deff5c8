package io.libdfs.testkit;

import java.io.EOFException;
import java.io.IOException;
import java.io.OutputStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.security.MessageDigest;
import java.util.EnumSet;
import java.util.HashMap;
import java.util.Map;
import org.apache.hadoop.fs.CreateFlag;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileChecksum;
import org.apache.hadoop.fs.Options.ChecksumOpt;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.hdfs.DistributedFileSystem;
import org.apache.hadoop.hdfs.client.HdfsDataInputStream;
import org.apache.hadoop.util.DataChecksum;

/** Commands that read and write file content. */
final class FileCommands {
  /** A writer held open over several commands. */
  private static final class Held {
    final DistributedFileSystem fs;
    final FSDataOutputStream out;
    long position;

    Held(DistributedFileSystem fs, FSDataOutputStream out, long position) {
      this.fs = fs;
      this.out = out;
      this.position = position;
    }
  }

  private static final int READ_BYTES = 64 * 1024;

  private final Sessions sessions;
  private final Map<Long, Held> held = new HashMap<Long, Held>();
  private long nextHandle = 1;

  FileCommands(Sessions sessions) {
    this.sessions = sessions;
  }

  /** {@code write path= length= seed=} plus the keys of {@link #create} and {@link #put}. */
  void write(Args args, Reply reply) throws Exception {
    DistributedFileSystem fs = sessions.shared(args);
    FSDataOutputStream out = create(fs, args);
    try {
      put(out, args, 0);
    } finally {
      out.close();
    }
  }

  /** {@code append path= length= seed= newblock=true|false}: the content goes on at its offset. */
  void append(Args args, Reply reply) throws Exception {
    DistributedFileSystem fs = sessions.shared(args);
    Path path = new Path(args.text("path"));
    long at = fs.getFileStatus(path).getLen();
    FSDataOutputStream out = appendTo(fs, path, args);
    try {
      put(out, args, at);
    } finally {
      out.close();
    }
  }

  /** {@code open path= append=true|false}: answers {@code handle=}; the lease is the handle's own. */
  void open(Args args, Reply reply) throws Exception {
    DistributedFileSystem fs = sessions.fresh(args);
    Path path = new Path(args.text("path"));
    Held writer;
    if (args.flag("append")) {
      long at = fs.getFileStatus(path).getLen();
      writer = new Held(fs, appendTo(fs, path, args), at);
    } else {
      writer = new Held(fs, create(fs, args), 0);
    }
    long handle = nextHandle++;
    held.put(handle, writer);
    reply.put("handle", handle);
  }

  /** {@code put handle= length= seed=} and the keys of {@link #put}. */
  void putHeld(Args args, Reply reply) throws Exception {
    Held writer = held(args);
    put(writer.out, args, writer.position);
    writer.position += args.number("length");
    reply.put("position", writer.position);
  }

  void hflush(Args args, Reply reply) throws Exception {
    held(args).out.hflush();
  }

  void hsync(Args args, Reply reply) throws Exception {
    held(args).out.hsync();
  }

  void close(Args args, Reply reply) throws Exception {
    Held writer = held(args);
    writer.out.close();
    drop(args, writer);
  }

  /** Gives the stream up as a crash would: the file stays open and its lease is not renewed. */
  void abandon(Args args, Reply reply) throws Exception {
    Held writer = held(args);
    OutputStream stream = writer.out.getWrappedStream();
    Class<?> type = stream.getClass();
    Method abort = null;
    while (abort == null) {
      try {
        abort = type.getDeclaredMethod("abort");
      } catch (NoSuchMethodException e) {
        type = type.getSuperclass();
        if (type == null) {
          throw e;
        }
      }
    }
    abort.setAccessible(true);
    try {
      abort.invoke(stream);
    } catch (InvocationTargetException e) {
      throw e.getCause() instanceof Exception ? (Exception) e.getCause() : e;
    }
    drop(args, writer);
  }

  private Held held(Args args) {
    Held writer = held.get(args.number("handle"));
    if (writer == null) {
      throw new IllegalArgumentException("no open handle " + args.text("handle"));
    }
    return writer;
  }

  private void drop(Args args, Held writer) throws IOException {
    held.remove(args.number("handle"));
    writer.fs.close();
  }

  /**
   * Keys: {@code path, overwrite, replication, blocksize, checksum=CRC32|CRC32C|NULL, bpc} (bytes
   * per checksum) and {@code flags}, a comma list of further CreateFlag names.
   */
  private static FSDataOutputStream create(DistributedFileSystem fs, Args args)
      throws IOException {
    Path path = new Path(args.text("path"));
    EnumSet<CreateFlag> flags = EnumSet.of(CreateFlag.CREATE);
    if (args.flag("overwrite")) {
      flags.add(CreateFlag.OVERWRITE);
    }
    for (String name : args.text("flags", "").split(",")) {
      if (!name.isEmpty()) {
        flags.add(CreateFlag.valueOf(name));
      }
    }
    ChecksumOpt checksum = null;
    if (args.has("checksum") || args.has("bpc")) {
      checksum =
          new ChecksumOpt(
              DataChecksum.Type.valueOf(args.text("checksum", "CRC32C")), args.count("bpc", 512));
    }
    short replication = (short) args.number("replication", fs.getDefaultReplication(path));
    long blockSize = args.number("blocksize", fs.getDefaultBlockSize(path));
    return fs.create(
        path, FsPermission.getFileDefault(), flags, 4096, replication, blockSize, null, checksum);
  }

  private static FSDataOutputStream appendTo(DistributedFileSystem fs, Path path, Args args)
      throws IOException {
    EnumSet<CreateFlag> flags = EnumSet.of(CreateFlag.APPEND);
    if (args.flag("newblock")) {
      flags.add(CreateFlag.NEW_BLOCK);
    }
    return fs.append(path, flags, 4096, null);
  }

  /**
   * Writes {@code length} bytes of the content of {@code seed} from file offset {@code at}, in
   * calls of {@code chunk} bytes, with {@code flush=hflush|hsync} after every {@code every} calls.
   */
  private static void put(FSDataOutputStream out, Args args, long at) throws IOException {
    long left = args.number("length");
    long seed = args.number("seed");
    int chunk = args.count("chunk", READ_BYTES);
    String flush = args.text("flush", "none");
    long every = args.number("every", 1);
    if (chunk <= 0 || every <= 0) {
      throw new IllegalArgumentException("chunk= and every= must be positive");
    }
    byte[] buffer = new byte[chunk];
    long offset = at;
    for (long call = 1; left > 0; call++) {
      int count = (int) Math.min(left, chunk);
      Content.fill(seed, offset, buffer, 0, count);
      out.write(buffer, 0, count);
      offset += count;
      left -= count;
      if (call % every == 0) {
        flush(out, flush);
      }
    }
  }

  private static void flush(FSDataOutputStream out, String kind) throws IOException {
    if (kind.equals("hflush")) {
      out.hflush();
    } else if (kind.equals("hsync")) {
      out.hsync();
    } else if (!kind.equals("none")) {
      throw new IllegalArgumentException("unknown flush=" + kind);
    }
  }

  /**
   * {@code read path=}: reads from {@code offset} (0) to the end, or {@code length} bytes, in
   * calls of {@code buffer} bytes. With {@code mode=pread} every call is positional. Answers
   * {@code length= sha256= visible=} (visible length at open) and, when {@code seed=} is given,
   * {@code mismatch=} the file offset of the first byte that differs from the content, or -1.
   */
  void read(Args args, Reply reply) throws Exception {
    DistributedFileSystem fs = sessions.shared(args);
    MessageDigest digest = MessageDigest.getInstance("SHA-256");
    long offset = args.number("offset", 0);
    long end = args.has("length") ? offset + args.number("length") : Long.MAX_VALUE;
    byte[] buffer = new byte[args.count("buffer", READ_BYTES)];
    boolean positional = args.text("mode", "seq").equals("pread");
    long mismatch = -1;
    long at = offset;
    FSDataInputStream in = fs.open(new Path(args.text("path")));
    try {
      reply.put("visible", ((HdfsDataInputStream) in).getVisibleLength());
      if (!positional && offset > 0) {
        in.seek(offset);
      }
      while (at < end) {
        int want = (int) Math.min(buffer.length, end - at);
        int got = positional ? in.read(at, buffer, 0, want) : in.read(buffer, 0, want);
        if (got < 0) {
          break;
        }
        digest.update(buffer, 0, got);
        if (mismatch < 0 && args.has("seed")) {
          int index = Content.mismatch(args.number("seed"), at, buffer, 0, got);
          mismatch = index < 0 ? -1 : at + index;
        }
        at += got;
      }
    } finally {
      in.close();
    }
    if (args.has("length") && at < end) {
      throw new EOFException("file ended at " + at + ", before " + end);
    }
    reply.put("length", at - offset).put("sha256", hex(digest.digest()));
    if (args.has("seed")) {
      reply.put("mismatch", mismatch);
    }
  }

  /** {@code checksum path= [length=]}: {@code algorithm= bytes=}. */
  void checksum(Args args, Reply reply) throws Exception {
    DistributedFileSystem fs = sessions.shared(args);
    Path path = new Path(args.text("path"));
    FileChecksum sum =
        args.has("length")
            ? fs.getFileChecksum(path, args.number("length"))
            : fs.getFileChecksum(path);
    if (sum == null) {
      throw new IOException("no checksum for " + path);
    }
    reply.put("algorithm", sum.getAlgorithmName()).put("bytes", hex(sum.getBytes()));
  }

  private static String hex(byte[] bytes) {
    StringBuilder text = new StringBuilder();
    for (byte b : bytes) {
      text.append(String.format("%02x", b & 0xff));
    }
    return text.toString();
  }
}
