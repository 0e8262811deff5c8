package io.libdfs.hadoop;

import io.libdfs.Dfs;
import io.libdfs.DfsCreateOptions;
import io.libdfs.DfsInputStream;
import io.libdfs.DfsOutputStream;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.URI;
import java.util.EnumSet;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.ContentSummary;
import org.apache.hadoop.fs.CreateFlag;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FSDataOutputStreamBuilder;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FilterFileSystem;
import org.apache.hadoop.fs.FutureDataInputStreamBuilder;
import org.apache.hadoop.fs.MultipartUploaderBuilder;
import org.apache.hadoop.fs.Options.ChecksumOpt;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.QuotaUsage;
import org.apache.hadoop.fs.StorageType;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.hdfs.DistributedFileSystem;
import org.apache.hadoop.hdfs.protocol.HdfsConstants;
import org.apache.hadoop.security.UserGroupInformation;
import org.apache.hadoop.security.token.Token;
import org.apache.hadoop.util.Progressable;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * HDFS with native streams, for {@code fs.hdfs.impl}.
 *
 * <p>Files are created, appended to and read by libdfs. All other calls, among them lease recovery,
 * tokens, snapshots and quotas, go to Hadoop's own {@code DistributedFileSystem}, which
 * {@link #getRawFileSystem} returns. What libdfs cannot do (erasure-coded and encrypted files,
 * symbolic links, secured clusters) is left to the stock streams too, unless {@code
 * libdfs.hadoop.fallback} is false.
 */
public class NativeDistributedFileSystem extends FilterFileSystem {
  private static final Logger LOG = LoggerFactory.getLogger(NativeDistributedFileSystem.class);

  /** Whether stock streams serve what libdfs cannot; true. */
  public static final String FALLBACK_KEY = "libdfs.hadoop.fallback";
  /** Whether the first fault of a pipeline breaks the file; false. */
  public static final String FAIL_FAST_KEY = "libdfs.hadoop.fail.fast";
  /** Flushes fail with fewer DataNodes than this in the pipeline; 0, no floor. */
  public static final String MIN_REPLICAS_KEY = "libdfs.hadoop.min.replicas";

  private static final int DEFAULT_PORT = 8020;

  private final Set<NativeOutput> open = ConcurrentHashMap.newKeySet();
  private final InputKind inputs = InputKind.ofHadoop();
  private volatile boolean verifyChecksum = true;
  private volatile boolean closed;
  private String user;
  // Below under the lock of `open`.
  private volatile Dfs dfs;
  private volatile boolean stockOnly;

  /** What {@code FileSystem.get} calls. */
  public NativeDistributedFileSystem() {
    super(new RawFileSystem());
  }

  /** The stream class with all interfaces that the Hadoop at hand has. */
  private enum InputKind {
    BASIC,
    PREAD_BUFFER,
    VECTORED;

    static InputKind ofHadoop() {
      if (!there("org.apache.hadoop.fs.ByteBufferPositionedReadable")) {
        return BASIC;
      }
      return there("org.apache.hadoop.fs.FileRange") ? VECTORED : PREAD_BUFFER;
    }

    private static boolean there(String name) {
      try {
        Class.forName(name, false, NativeDistributedFileSystem.class.getClassLoader());
        return true;
      } catch (ClassNotFoundException e) {
        return false;
      }
    }

    NativeInput make(DfsInputStream stream, Statistics statistics) {
      switch (this) {
        case VECTORED:
          return new NativeInputVectored(stream, statistics);
        case PREAD_BUFFER:
          return new NativeInput33(stream, statistics);
        default:
          return new NativeInput(stream, statistics);
      }
    }
  }

  private DistributedFileSystem raw() {
    return (DistributedFileSystem) fs;
  }

  @Override
  public void initialize(URI name, Configuration conf) throws IOException {
    // Here rather than at the first file: a missing library is a mistake of the installation.
    Dfs.loadLibrary();
    super.initialize(name, conf);
    user = UserGroupInformation.getCurrentUser().getUserName();
  }

  @Override
  public String getScheme() {
    return HdfsConstants.HDFS_URI_SCHEME;
  }

  @Override
  protected int getDefaultPort() {
    return DEFAULT_PORT;
  }

  /** The native file system, or null if stock streams do everything. */
  private Dfs dfs() throws IOException {
    if (closed) {
      throw new IOException("Filesystem closed");
    }
    Dfs known = dfs;
    if (known != null || stockOnly) {
      return known;
    }
    synchronized (open) {
      if (dfs == null && !stockOnly && !closed) {
        connect();
      }
      return dfs;
    }
  }

  private void connect() throws IOException {
    Configuration conf = getConf();
    if (UserGroupInformation.isSecurityEnabled()) {
      stockOnly("this cluster wants Kerberos", null);
      return;
    }
    try {
      dfs = Dfs.builder().uri(RawFileSystem.hdfs(getUri()).toString()).setAll(settings(conf)).connect();
    } catch (IOException e) {
      if (!Exceptions.isForStockClient(e)) {
        throw Exceptions.translate(e, getUri().toString());
      }
      stockOnly(e.getMessage(), e);
    }
  }

  private void stockOnly(String why, IOException cause) throws IOException {
    if (!getConf().getBoolean(FALLBACK_KEY, true)) {
      throw new IOException(
          "libdfs cannot serve " + getUri() + ", and " + FALLBACK_KEY + " is false: " + why, cause);
    }
    LOG.warn("{} is served by Hadoop's own streams: {}", getUri(), why);
    stockOnly = true;
  }

  /** What was configured, as opposed to Hadoop's defaults, which libdfs has itself. */
  private Map<String, String> settings(Configuration conf) {
    Map<String, String> settings = new java.util.TreeMap<>();
    for (Map.Entry<String, String> entry : conf) {
      String key = entry.getKey();
      String[] sources = conf.getPropertySources(key);
      boolean isDefault =
          sources != null
              && sources.length > 0
              && sources[sources.length - 1].matches(".*-default\\.xml");
      String value = isDefault ? null : conf.get(key);
      if (value != null) {
        settings.put(key, value);
      }
    }
    settings.put("libdfs.user.name", user);
    return settings;
  }

  private String name(Path path) {
    checkPath(path);
    Path absolute = path.isAbsolute() ? path : new Path(getWorkingDirectory(), path);
    String name = absolute.toUri().getPath();
    if (!org.apache.hadoop.hdfs.DFSUtilClient.isValidName(name)) {
      throw new IllegalArgumentException(
          "Pathname " + name + " from " + path + " is not a valid HDFS filename.");
    }
    return name;
  }

  private boolean toStock(IOException e) {
    return Exceptions.isForStockClient(e) && getConf().getBoolean(FALLBACK_KEY, true);
  }

  private IOException failure(IOException e, String name) {
    return closed ? new IOException("Filesystem closed", e) : Exceptions.translate(e, name);
  }

  // Reading.

  @Override
  public void setVerifyChecksum(boolean verify) {
    verifyChecksum = verify;
    super.setVerifyChecksum(verify);
  }

  @Override
  public FSDataInputStream open(Path path, int bufferSize) throws IOException {
    String name = name(path);
    Dfs native_ = dfs();
    if (native_ == null) {
      return fs.open(path, bufferSize);
    }
    try {
      DfsInputStream stream = native_.open(name, verifyChecksum);
      statistics.incrementReadOps(1);
      return new FSDataInputStream(inputs.make(stream, statistics));
    } catch (IOException e) {
      if (toStock(e)) {
        return fs.open(path, bufferSize);
      }
      throw failure(e, name);
    }
  }

  @Override
  public FutureDataInputStreamBuilder openFile(Path path) throws IOException {
    return InputBuilder33.of(this, path);
  }

  // Writing.

  @Override
  public FSDataOutputStream create(
      Path path,
      FsPermission permission,
      boolean overwrite,
      int bufferSize,
      short replication,
      long blockSize,
      Progressable progress)
      throws IOException {
    return openForCreate(
        path, permission, flags(overwrite), true, bufferSize, replication, blockSize, progress,
        null, null);
  }

  /** With preferred DataNodes; HBase looks for this form. */
  public FSDataOutputStream create(
      Path path,
      FsPermission permission,
      boolean overwrite,
      int bufferSize,
      short replication,
      long blockSize,
      Progressable progress,
      InetSocketAddress[] favoredNodes)
      throws IOException {
    return openForCreate(
        path, permission, flags(overwrite), true, bufferSize, replication, blockSize, progress,
        null, favoredNodes);
  }

  @Override
  public FSDataOutputStream create(
      Path path,
      FsPermission permission,
      EnumSet<CreateFlag> flags,
      int bufferSize,
      short replication,
      long blockSize,
      Progressable progress,
      ChecksumOpt checksum)
      throws IOException {
    return openForCreate(
        path, permission, flags, true, bufferSize, replication, blockSize, progress, checksum,
        null);
  }

  @Override
  public FSDataOutputStream createNonRecursive(
      Path path,
      FsPermission permission,
      EnumSet<CreateFlag> flags,
      int bufferSize,
      short replication,
      long blockSize,
      Progressable progress)
      throws IOException {
    EnumSet<CreateFlag> all = EnumSet.copyOf(flags);
    all.add(CreateFlag.CREATE);
    return openForCreate(
        path, permission, all, false, bufferSize, replication, blockSize, progress, null, null);
  }

  private static EnumSet<CreateFlag> flags(boolean overwrite) {
    return overwrite
        ? EnumSet.of(CreateFlag.CREATE, CreateFlag.OVERWRITE)
        : EnumSet.of(CreateFlag.CREATE);
  }

  @Override
  public FSDataOutputStreamBuilder createFile(Path path) {
    return OutputBuilder.creating(this, path);
  }

  @Override
  public FSDataOutputStreamBuilder appendFile(Path path) {
    return OutputBuilder.appending(this, path);
  }

  @Override
  public FSDataOutputStream append(Path path, int bufferSize, Progressable progress)
      throws IOException {
    return openForAppend(path, EnumSet.of(CreateFlag.APPEND), bufferSize, progress);
  }

  /** With flags: {@code APPEND}, and {@code NEW_BLOCK} to leave the last block as it is. */
  public FSDataOutputStream append(
      Path path, EnumSet<CreateFlag> flags, int bufferSize, Progressable progress)
      throws IOException {
    return openForAppend(path, flags, bufferSize, progress);
  }

  /** Options for the flags; null if only the stock client has one of them. */
  private DfsCreateOptions options(Set<CreateFlag> flags) {
    DfsCreateOptions options = new DfsCreateOptions();
    for (CreateFlag flag : flags) {
      // By name, since older versions lack some.
      switch (flag.name()) {
        case "CREATE":
        case "APPEND":
          break;
        case "OVERWRITE":
          options.overwrite(true);
          break;
        case "SYNC_BLOCK":
          options.syncBlock(true);
          break;
        case "NEW_BLOCK":
          options.newBlock(true);
          break;
        case "NO_LOCAL_WRITE":
          options.noLocalWrite(true);
          break;
        case "SHOULD_REPLICATE":
          options.replicate(true);
          break;
        case "IGNORE_CLIENT_LOCALITY":
          options.ignoreClientLocality(true);
          break;
        default:
          return null;
      }
    }
    options.failFast(getConf().getBoolean(FAIL_FAST_KEY, false));
    options.minReplicas(getConf().getInt(MIN_REPLICAS_KEY, 0));
    return options;
  }

  FSDataOutputStream openForCreate(
      Path path,
      FsPermission permission,
      EnumSet<CreateFlag> flags,
      boolean createParents,
      int bufferSize,
      short replication,
      long blockSize,
      Progressable progress,
      ChecksumOpt checksum,
      InetSocketAddress[] favoredNodes)
      throws IOException {
    String name = name(path);
    FsPermission mode = permission == null ? FsPermission.getFileDefault() : permission;
    if (flags.contains(CreateFlag.APPEND)) {
      CreateFlag.validateForAppend(flags);
      if (exists(path) || !flags.contains(CreateFlag.CREATE)) {
        return openForAppend(path, flags, bufferSize, progress);
      }
    }
    Dfs native_ = dfs();
    DfsCreateOptions options = native_ == null ? null : options(flags);
    if (options == null) {
      return stockCreate(
          path, mode, flags, createParents, bufferSize, replication, blockSize, progress, checksum);
    }
    options.createParents(createParents).permission(mode.toShort());
    options.replication(replication).blockSize(blockSize);
    if (checksum != null && checksum.getBytesPerChecksum() > 0) {
      String type = checksum.getChecksumType().name();
      options.checksum(
          type.equals("DEFAULT") ? null : DfsCreateOptions.Checksum.valueOf(type),
          checksum.getBytesPerChecksum());
    }
    if (favoredNodes != null) {
      options.favoredNodes(addresses(favoredNodes));
    }
    try {
      FSDataOutputStream made = output(native_.create(name, options), 0);
      statistics.incrementWriteOps(1);
      return made;
    } catch (IOException e) {
      if (toStock(e)) {
        // The file may exist by now, made by us and still open: it is replaced.
        EnumSet<CreateFlag> again = EnumSet.copyOf(flags);
        again.add(CreateFlag.OVERWRITE);
        return stockCreate(
            path, mode, again, createParents, bufferSize, replication, blockSize, progress,
            checksum);
      }
      throw failure(e, name);
    }
  }

  private FSDataOutputStream stockCreate(
      Path path,
      FsPermission permission,
      EnumSet<CreateFlag> flags,
      boolean createParents,
      int bufferSize,
      short replication,
      long blockSize,
      Progressable progress,
      ChecksumOpt checksum)
      throws IOException {
    if (createParents) {
      return fs.create(
          path, permission, flags, bufferSize, replication, blockSize, progress, checksum);
    }
    return fs.createNonRecursive(
        path, permission, flags, bufferSize, replication, blockSize, progress);
  }

  private static String addresses(InetSocketAddress[] nodes) throws IOException {
    StringBuilder text = new StringBuilder();
    for (InetSocketAddress node : nodes) {
      InetSocketAddress resolved =
          node.isUnresolved() ? new InetSocketAddress(node.getHostName(), node.getPort()) : node;
      if (resolved.isUnresolved()) {
        throw new java.net.UnknownHostException("the favoured node " + node);
      }
      text.append(text.length() > 0 ? "," : "")
          .append(resolved.getAddress().getHostAddress())
          .append(':')
          .append(resolved.getPort());
    }
    return text.toString();
  }

  FSDataOutputStream openForAppend(
      Path path, EnumSet<CreateFlag> flags, int bufferSize, Progressable progress)
      throws IOException {
    String name = name(path);
    Dfs native_ = dfs();
    DfsCreateOptions options = native_ == null ? null : options(flags);
    // Asked first: the NameNode would give the lease of a file that libdfs then cannot write.
    if (options == null || isStockFile(path)) {
      return raw().append(path, flags, bufferSize, progress);
    }
    try {
      DfsOutputStream stream = native_.append(name, options);
      FSDataOutputStream made = output(stream, stream.position());
      statistics.incrementWriteOps(1);
      return made;
    } catch (IOException e) {
      throw failure(e, name);
    }
  }

  private boolean isStockFile(Path path) throws IOException {
    FileStatus status = fs.getFileStatus(path);
    try {
      return status.isEncrypted() || status.isErasureCoded();
    } catch (NoSuchMethodError hadoop2) {
      return status.isEncrypted();
    }
  }

  private FSDataOutputStream output(DfsOutputStream stream, long start) throws IOException {
    return new NativeFsOutput(new NativeOutput(stream, open), statistics, start);
  }

  @Override
  public void close() throws IOException {
    IOException first = null;
    if (!closed) {
      // As with the stock client, what is still being written is completed.
      for (NativeOutput output : open) {
        try {
          output.close();
        } catch (IOException e) {
          LOG.error("cannot close {}", output, e);
          first = first == null ? e : first;
        }
      }
      synchronized (open) {
        closed = true;
        if (dfs != null) {
          dfs.close();
        }
      }
    }
    super.close();
    if (first != null) {
      throw first;
    }
  }

  // What FilterFileSystem does not pass on, and HBase and others look for.

  /** See {@code DistributedFileSystem#recoverLease}. */
  public boolean recoverLease(Path path) throws IOException {
    return raw().recoverLease(path);
  }

  /** See {@code DistributedFileSystem#isFileClosed}. */
  public boolean isFileClosed(Path path) throws IOException {
    return raw().isFileClosed(path);
  }

  /** See {@code DistributedFileSystem#setSafeMode}. */
  public boolean setSafeMode(HdfsConstants.SafeModeAction action) throws IOException {
    return raw().setSafeMode(action);
  }

  /** See {@code DistributedFileSystem#setSafeMode}. */
  public boolean setSafeMode(HdfsConstants.SafeModeAction action, boolean isChecked)
      throws IOException {
    return raw().setSafeMode(action, isChecked);
  }

  /** See {@code DistributedFileSystem#isInSafeMode}. */
  public boolean isInSafeMode() throws IOException {
    return raw().isInSafeMode();
  }

  /** Declared here, since HBase looks for it in the concrete class. */
  @Override
  public void setStoragePolicy(Path path, String policy) throws IOException {
    fs.setStoragePolicy(path, policy);
  }

  @Override
  public ContentSummary getContentSummary(Path path) throws IOException {
    return fs.getContentSummary(path);
  }

  @Override
  public QuotaUsage getQuotaUsage(Path path) throws IOException {
    return fs.getQuotaUsage(path);
  }

  @Override
  public void setQuota(Path path, long names, long space) throws IOException {
    raw().setQuota(path, names, space);
  }

  @Override
  public void setQuotaByStorageType(Path path, StorageType type, long quota) throws IOException {
    raw().setQuotaByStorageType(path, type, quota);
  }

  @Override
  public boolean hasPathCapability(Path path, String capability) throws IOException {
    // FilterFileSystem denies this one, since it does not pass the method below on.
    return "fs.capability.multipart.uploader".equals(capability)
        ? fs.hasPathCapability(path, capability)
        : super.hasPathCapability(path, capability);
  }

  @Override
  public MultipartUploaderBuilder createMultipartUploader(Path basePath) throws IOException {
    return fs.createMultipartUploader(basePath);
  }

  @Override
  public String getCanonicalServiceName() {
    return fs.getCanonicalServiceName();
  }

  @Override
  public Token<?> getDelegationToken(String renewer) throws IOException {
    return fs.getDelegationToken(renewer);
  }

  @Override
  public String toString() {
    return "libdfs over " + fs;
  }
}
