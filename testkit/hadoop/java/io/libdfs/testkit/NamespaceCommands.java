package io.libdfs.testkit;

import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.conf.Configured;
import org.apache.hadoop.fs.ContentSummary;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FsStatus;
import org.apache.hadoop.fs.Options;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.hdfs.DistributedFileSystem;
import org.apache.hadoop.hdfs.protocol.DatanodeInfo;
import org.apache.hadoop.hdfs.protocol.HdfsConstants.DatanodeReportType;
import org.apache.hadoop.hdfs.protocol.LocatedBlock;
import org.apache.hadoop.hdfs.protocol.LocatedBlocks;
import org.apache.hadoop.util.Tool;
import org.apache.hadoop.util.ToolRunner;

/** Commands about names, blocks and the cluster. */
final class NamespaceCommands {
  private final Sessions sessions;

  NamespaceCommands(Sessions sessions) {
    this.sessions = sessions;
  }

  private static Path path(Args args) {
    return new Path(args.text("path"));
  }

  private static String fields(FileStatus status) {
    return Reply.encode(status.getPath().toUri().getPath())
        + ','
        + (status.isDirectory() ? "dir" : status.isSymlink() ? "link" : "file")
        + ','
        + status.getLen()
        + ','
        + status.getReplication()
        + ','
        + status.getBlockSize()
        + ','
        + status.getModificationTime()
        + ','
        + status.getAccessTime()
        + ','
        // Octal, with the sticky bit; the ACL and encryption markers are not part of it.
        + Integer.toOctalString(status.getPermission().toShort() & 01777)
        + ','
        + Reply.encode(status.getOwner())
        + ','
        + Reply.encode(status.getGroup());
  }

  /** {@code stat path=}: {@code status=} with the comma-separated fields of {@link #fields}. */
  void stat(Args args, Reply reply) throws Exception {
    reply.put("status", fields(sessions.shared(args).getFileStatus(path(args))));
  }

  /** {@code list path=}: {@code status=} once an entry. */
  void list(Args args, Reply reply) throws Exception {
    for (FileStatus status : sessions.shared(args).listStatus(path(args))) {
      reply.put("status", fields(status));
    }
  }

  /**
   * {@code locations path=}: {@code length= open= } and {@code block=} once a block: offset, size,
   * id, generation stamp, pool, corrupt, then HOST:PORT/UUID of every DataNode.
   */
  void locations(Args args, Reply reply) throws Exception {
    LocatedBlocks blocks =
        sessions.shared(args).getClient().getLocatedBlocks(args.text("path"), 0, Long.MAX_VALUE);
    reply.put("length", blocks.getFileLength()).put("open", blocks.isUnderConstruction());
    for (LocatedBlock block : blocks.getLocatedBlocks()) {
      reply.put("block", fields(block));
    }
    LocatedBlock last = blocks.getLastLocatedBlock();
    if (last != null && blocks.isUnderConstruction()) {
      reply.put("last", fields(last)).put("lastcomplete", blocks.isLastBlockComplete());
    }
  }

  private static String fields(LocatedBlock block) {
    StringBuilder text = new StringBuilder();
    text.append(block.getStartOffset())
        .append(',')
        .append(block.getBlockSize())
        .append(',')
        .append(block.getBlock().getBlockId())
        .append(',')
        .append(block.getBlock().getGenerationStamp())
        .append(',')
        .append(block.getBlock().getBlockPoolId())
        .append(',')
        .append(block.isCorrupt());
    for (DatanodeInfo node : block.getLocations()) {
      text.append(',').append(node.getXferAddr()).append('/').append(node.getDatanodeUuid());
    }
    return text.toString();
  }

  /** {@code mkdir path= [permission=OCTAL]}. */
  void mkdir(Args args, Reply reply) throws Exception {
    FsPermission permission =
        args.has("permission")
            ? new FsPermission((short) Integer.parseInt(args.text("permission"), 8))
            : FsPermission.getDirDefault();
    reply.put("done", sessions.shared(args).mkdirs(path(args), permission));
  }

  /** {@code rename path= to= [overwrite=true]}. */
  @SuppressWarnings("deprecation")
  void rename(Args args, Reply reply) throws Exception {
    DistributedFileSystem fs = sessions.shared(args);
    Path to = new Path(args.text("to"));
    if (args.flag("overwrite")) {
      fs.rename(path(args), to, Options.Rename.OVERWRITE);
      reply.put("done", true);
    } else {
      reply.put("done", fs.rename(path(args), to));
    }
  }

  /** {@code delete path= [recursive=true]}. */
  void delete(Args args, Reply reply) throws Exception {
    reply.put("done", sessions.shared(args).delete(path(args), args.flag("recursive")));
  }

  /** {@code setrep path= replication=}. */
  void setReplication(Args args, Reply reply) throws Exception {
    short replication = (short) args.number("replication");
    reply.put("done", sessions.shared(args).setReplication(path(args), replication));
  }

  /** {@code chmod path= permission=OCTAL}. */
  void setPermission(Args args, Reply reply) throws Exception {
    short bits = (short) Integer.parseInt(args.text("permission"), 8);
    sessions.shared(args).setPermission(path(args), new FsPermission(bits));
  }

  /** {@code chown path= [owner=] [group=]}. */
  void setOwner(Args args, Reply reply) throws Exception {
    sessions.shared(args).setOwner(path(args), args.text("owner", null), args.text("group", null));
  }

  /** {@code settimes path= mtime= atime=}: milliseconds, -1 leaves one as it is. */
  void setTimes(Args args, Reply reply) throws Exception {
    sessions.shared(args).setTimes(path(args), args.number("mtime"), args.number("atime"));
  }

  /** {@code truncate path= length=}: {@code done=false} while the last block is in recovery. */
  void truncate(Args args, Reply reply) throws Exception {
    reply.put("done", sessions.shared(args).truncate(path(args), args.number("length")));
  }

  void recoverLease(Args args, Reply reply) throws Exception {
    reply.put("done", sessions.shared(args).recoverLease(path(args)));
  }

  void isFileClosed(Args args, Reply reply) throws Exception {
    reply.put("done", sessions.shared(args).isFileClosed(path(args)));
  }

  void contentSummary(Args args, Reply reply) throws Exception {
    ContentSummary summary = sessions.shared(args).getContentSummary(path(args));
    reply
        .put("length", summary.getLength())
        .put("files", summary.getFileCount())
        .put("directories", summary.getDirectoryCount())
        .put("quota", summary.getQuota())
        .put("spaceconsumed", summary.getSpaceConsumed())
        .put("spacequota", summary.getSpaceQuota());
  }

  void fsStatus(Args args, Reply reply) throws Exception {
    FsStatus status = sessions.shared(args).getStatus();
    reply
        .put("capacity", status.getCapacity())
        .put("used", status.getUsed())
        .put("remaining", status.getRemaining());
  }

  /** {@code datanodes [type=LIVE|DEAD|ALL]}: {@code node=} HOST:PORT,UUID,IPC_PORT once a node. */
  void datanodes(Args args, Reply reply) throws Exception {
    DatanodeReportType type = DatanodeReportType.valueOf(args.text("type", "LIVE"));
    for (DatanodeInfo node : sessions.shared(args).getClient().datanodeReport(type)) {
      reply.put(
          "node", node.getXferAddr() + ',' + node.getDatanodeUuid() + ',' + node.getIpcPort());
    }
  }

  /**
   * {@code tool class=org.apache.hadoop.fs.FsShell arg=-ls arg=/}: runs one of Hadoop's command
   * line tools; answers {@code exit= out=} (its standard output).
   */
  void tool(Args args, Reply reply) throws Exception {
    Configuration conf = sessions.configuration(args);
    Class<?> type = Class.forName(args.text("class"));
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    PrintStream before = System.out;
    int exit;
    System.setOut(new PrintStream(bytes, true, "UTF-8"));
    try {
      Tool tool;
      if (Configured.class.isAssignableFrom(type)) {
        tool = (Tool) make(type, conf);
      } else {
        throw new IllegalArgumentException(type + " is no command line tool");
      }
      exit = ToolRunner.run(conf, tool, args.all("arg").toArray(new String[0]));
    } finally {
      System.out.flush();
      System.setOut(before);
    }
    reply.put("exit", exit).put("out", bytes.toString("UTF-8"));
  }

  private static Object make(Class<?> type, Configuration conf) throws Exception {
    try {
      return type.getConstructor(Configuration.class).newInstance(conf);
    } catch (NoSuchMethodException e) {
      return type.getConstructor().newInstance();
    }
  }
}
