package io.libdfs.hadoop;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNotSame;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.libdfs.MiniCluster;
import java.io.EOFException;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.URI;
import java.nio.ByteBuffer;
import java.nio.channels.ClosedChannelException;
import java.security.PrivilegedExceptionAction;
import java.util.EnumSet;
import java.util.Random;
import java.util.concurrent.TimeUnit;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.ByteBufferReadable;
import org.apache.hadoop.fs.CanSetDropBehind;
import org.apache.hadoop.fs.CanUnbuffer;
import org.apache.hadoop.fs.CreateFlag;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.FilterFileSystem;
import org.apache.hadoop.fs.Options.ChecksumOpt;
import org.apache.hadoop.fs.ParentNotDirectoryException;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.StreamCapabilities;
import org.apache.hadoop.fs.Syncable;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.hdfs.DFSInputStream;
import org.apache.hadoop.hdfs.DistributedFileSystem;
import org.apache.hadoop.hdfs.MiniDFSCluster;
import org.apache.hadoop.ipc.RemoteException;
import org.apache.hadoop.security.AccessControlException;
import org.apache.hadoop.security.UserGroupInformation;
import org.apache.hadoop.util.DataChecksum;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestInfo;
import org.junit.jupiter.api.Timeout;

/** The Hadoop file system: every way in, what HBase looks for, errors, limits. */
@Timeout(value = 120, unit = TimeUnit.SECONDS)
class NativeFileSystemTest {
  private FileSystem fs;
  private FileSystem stock;
  private Path path;

  @BeforeEach
  void open(TestInfo test) throws IOException {
    fs = NativeContract.newFileSystem();
    stock = MiniCluster.get().getFileSystem();
    path = new Path("/native/" + test.getTestMethod().get().getName());
    stock.delete(path, true);
  }

  @AfterEach
  void close() throws IOException {
    fs.close();
  }

  private static byte[] bytes(int count) {
    byte[] bytes = new byte[count];
    new Random(count).nextBytes(bytes);
    return bytes;
  }

  private byte[] read(FileSystem from, Path file) throws IOException {
    try (FSDataInputStream in = from.open(file)) {
      byte[] all = new byte[(int) from.getFileStatus(file).getLen()];
      in.readFully(all);
      assertEquals(-1, in.read());
      return all;
    }
  }

  private static void assertNative(FSDataOutputStream out) {
    assertInstanceOf(NativeOutput.class, out.getWrappedStream());
  }

  @Test
  void whatOneWritesTheOtherReads() throws IOException {
    byte[] data = bytes(3_000_000);
    try (FSDataOutputStream out = fs.create(path, true, 4096, (short) 3, 1 << 20)) {
      assertNative(out);
      out.write(data);
      assertEquals(data.length, out.getPos());
    }
    assertArrayEquals(data, read(stock, path));
    assertArrayEquals(data, read(fs, path));
    Path other = path.suffix("-stock");
    try (FSDataOutputStream out = stock.create(other, true, 4096, (short) 2, 1 << 20)) {
      out.write(data);
    }
    assertArrayEquals(data, read(fs, other));
    assertEquals(stock.getFileChecksum(path), fs.getFileChecksum(path));
  }

  @Test
  void everyWayToCreateAndAppendIsNative() throws IOException {
    FsPermission mode = new FsPermission((short) 0640);
    EnumSet<CreateFlag> flags = EnumSet.of(CreateFlag.CREATE, CreateFlag.OVERWRITE);
    fs.mkdirs(path);
    Path file = new Path(path, "f");
    InetSocketAddress favored = MiniCluster.get().getDataNodes().get(0).getXferAddress();
    NativeDistributedFileSystem native_ = (NativeDistributedFileSystem) fs;
    ChecksumOpt checksum = new ChecksumOpt(DataChecksum.Type.CRC32, 1024);
    FSDataOutputStream[] made = {
      fs.create(file),
      fs.create(file, (short) 2),
      fs.create(file, mode, true, 4096, (short) 2, 1 << 20, null),
      fs.create(file, mode, flags, 4096, (short) 2, 1 << 20, null, checksum),
      native_.create(
          file, mode, true, 4096, (short) 2, 1 << 20, null, new InetSocketAddress[] {favored}),
      fs.createNonRecursive(file, mode, flags, 4096, (short) 2, 1 << 20, null),
      fs.createNonRecursive(file, true, 4096, (short) 2, 1 << 20, null),
      fs.createFile(file).overwrite(true).bufferSize(100).replication((short) 2)
          .blockSize(1 << 20).permission(mode).build(),
    };
    for (FSDataOutputStream out : made) {
      assertNative(out);
      // Only the last writer still has the file; its lease took the others'.
      if (out == made[made.length - 1]) {
        out.write(1);
        out.close();
      }
    }
    assertEquals(mode, fs.getFileStatus(file).getPermission());
    FSDataOutputStream[] more = new FSDataOutputStream[3];
    for (int i = 0; i < more.length; i++) {
      more[i] =
          i == 0 ? fs.append(file)
              : i == 1 ? (FSDataOutputStream) fs.appendFile(file).build()
                  : native_.append(
                      file, EnumSet.of(CreateFlag.APPEND, CreateFlag.NEW_BLOCK), 4096, null);
      assertNative(more[i]);
      assertEquals(1 + i, more[i].getPos());
      more[i].write(2);
      more[i].close();
    }
    assertArrayEquals(new byte[] {1, 2, 2, 2}, read(stock, file));
    assertInstanceOf(NativeInput.class, fs.open(file).getWrappedStream());
    try (FSDataInputStream in = fs.openFile(file).build().get()) {
      assertInstanceOf(NativeInput.class, in.getWrappedStream());
    } catch (InterruptedException | java.util.concurrent.ExecutionException e) {
      throw new AssertionError(e);
    }
    assertThrows(
        IllegalArgumentException.class, () -> fs.openFile(file).must("of.mine", true).build());
    for (int i = 0; i < made.length - 1; i++) {
      assertThrows(IOException.class, made[i]::close);
    }
  }

  @Test
  void checksumOptionsArrive() throws IOException {
    byte[] data = bytes(10_000);
    EnumSet<CreateFlag> flags = EnumSet.of(CreateFlag.CREATE, CreateFlag.OVERWRITE);
    ChecksumOpt checksum = new ChecksumOpt(DataChecksum.Type.CRC32, 1024);
    for (FileSystem each : new FileSystem[] {fs, stock}) {
      Path file = path.suffix(each == fs ? "-native" : "-stock");
      try (FSDataOutputStream out =
          each.create(file, null, flags, 4096, (short) 1, 1 << 20, null, checksum)) {
        out.write(data);
      }
    }
    assertEquals(
        stock.getFileChecksum(path.suffix("-stock")), stock.getFileChecksum(path.suffix("-native")));
  }

  @Test
  void hbaseFindsWhatItLooksFor() throws Exception {
    // A FilterFileSystem whose raw file system is the one that recovers leases.
    assertFalse(fs instanceof DistributedFileSystem);
    assertInstanceOf(FilterFileSystem.class, fs);
    assertInstanceOf(DistributedFileSystem.class, ((FilterFileSystem) fs).getRawFileSystem());
    assertEquals("hdfs", fs.getScheme());
    assertEquals(URI.create(MiniCluster.uri()), fs.getUri());
    assertEquals(stock.getCanonicalServiceName(), fs.getCanonicalServiceName());
    assertEquals(
        NativeDistributedFileSystem.class,
        NativeDistributedFileSystem.class
            .getDeclaredMethod("setStoragePolicy", Path.class, String.class)
            .getDeclaringClass());
    NativeDistributedFileSystem.class.getMethod("isFileClosed", Path.class);
    FSDataOutputStream out = fs.create(path);
    for (String capability : new String[] {"hflush", "hsync", "HSYNC"}) {
      assertTrue(out.hasCapability(capability), capability);
    }
    assertFalse(out.hasCapability("dropbehind"));
    assertInstanceOf(Syncable.class, out.getWrappedStream());
    assertInstanceOf(CanSetDropBehind.class, out.getWrappedStream());
    assertInstanceOf(StreamCapabilities.class, out.getWrappedStream());
    out.write(1);
    out.hflush();
    Object replicas = out.getClass().getMethod("getCurrentBlockReplication").invoke(out);
    assertEquals(3, replicas);
    assertThrows(UnsupportedOperationException.class, () -> out.setDropBehind(true));
    assertEquals(0, fs.getFileStatus(path).getLen() & ~1L);
    try (FSDataInputStream in = fs.open(path)) {
      assertEquals(1, in.read(new byte[10]));
      assertInstanceOf(ByteBufferReadable.class, in.getWrappedStream());
      assertInstanceOf(CanUnbuffer.class, in.getWrappedStream());
      for (String capability :
          new String[] {
            "in:readahead", "dropbehind", "in:unbuffer", "in:readbytebuffer", "in:preadbytebuffer",
            "in:readvectored"
          }) {
        assertTrue(in.hasCapability(capability), capability);
      }
      assertFalse(in.hasCapability("in:nonsense"));
      in.setDropBehind(true);
      in.setReadahead(1L << 20);
      in.unbuffer();
      ByteBuffer direct = ByteBuffer.allocateDirect(4);
      assertEquals(1, in.read(0, direct));
      assertThrows(EOFException.class, () -> in.readFully(0, direct));
      ByteBuffer pooled = in.read(new org.apache.hadoop.io.ElasticByteBufferPool(), 10);
      assertNull(pooled);
    }
    ((NativeFsOutput) out).hsync(true, false);
    assertEquals(1, fs.getFileStatus(path).getLen());
    out.close();
  }

  @Test
  void theSchemeOfItsOwnNeedsNoConfiguration() throws IOException {
    URI uri = URI.create(MiniCluster.uri().replace("hdfs://", "libdfs://"));
    Configuration plain = new Configuration();
    plain.setBoolean("fs.libdfs.impl.disable.cache", true);
    try (FileSystem own = FileSystem.get(uri, plain)) {
      assertInstanceOf(LibdfsFileSystem.class, own);
      assertEquals("libdfs", own.getScheme());
      assertEquals(uri, own.getUri());
      Path file = new Path(uri + path.toUri().getPath());
      byte[] data = bytes(10_000);
      FSDataOutputStream out = own.create(file);
      assertNative(out);
      out.write(data);
      out.hflush();
      // As HBase recovers the lease of a dead server's log.
      DistributedFileSystem raw =
          (DistributedFileSystem) ((FilterFileSystem) own).getRawFileSystem();
      assertFalse(raw.isFileClosed(file));
      out.close();
      assertTrue(raw.recoverLease(file));
      assertTrue(raw.isFileClosed(file));
      assertArrayEquals(data, read(own, file));
      assertArrayEquals(data, read(stock, path));
      assertEquals(file, own.getFileStatus(file).getPath());
      assertEquals(file, own.listStatus(file.getParent())[indexOf(own, file)].getPath());
      assertEquals(1, own.getFileBlockLocations(file, 0, 1).length);
      Path renamed = file.suffix("-renamed");
      own.delete(renamed, false);
      assertTrue(own.rename(file, renamed));
      assertThrows(IllegalArgumentException.class, () -> own.open(new Path("hdfs://other/x")));
    }
  }

  private static int indexOf(FileSystem fs, Path file) throws IOException {
    org.apache.hadoop.fs.FileStatus[] all = fs.listStatus(file.getParent());
    for (int i = 0; i < all.length; i++) {
      if (all[i].getPath().getName().equals(file.getName())) {
        return i;
      }
    }
    throw new AssertionError(file + " is not listed");
  }

  @Test
  void aSecondInstanceHasItsOwnVerifySwitch() throws IOException {
    // As HFileSystem makes it.
    FileSystem other = NativeContract.newFileSystem();
    assertNotSame(fs, other);
    other.setVerifyChecksum(false);
    byte[] data = bytes(100_000);
    try (FSDataOutputStream out = fs.create(path, (short) 1)) {
      out.write(data);
    }
    MiniDFSCluster cluster = MiniCluster.get();
    cluster.corruptBlockOnDataNodes(
        org.apache.hadoop.hdfs.DFSTestUtil.getFirstBlock(stock, path));
    byte[] got = new byte[data.length];
    try (FSDataInputStream in = other.open(path)) {
      in.readFully(0, got);
    }
    IOException e =
        assertThrows(
            IOException.class,
            () -> {
              try (FSDataInputStream in = fs.open(path)) {
                in.readFully(0, got);
              }
            });
    assertInstanceOf(org.apache.hadoop.hdfs.BlockMissingException.class, e);
    other.close();
  }

  @Test
  void exceptionsAreThoseOfTheStockClient() throws Exception {
    fs.create(path).close();
    assertThrows(FileNotFoundException.class, () -> fs.open(path.suffix("-none")));
    assertThrows(FileNotFoundException.class, () -> fs.append(path.suffix("-none")));
    assertThrows(FileAlreadyExistsException.class, () -> fs.create(path, false));
    assertThrows(FileNotFoundException.class, () -> fs.open(path.getParent()));
    Path under = new Path(path, "below");
    assertThrows(ParentNotDirectoryException.class, () -> fs.create(under));
    Path deep = new Path(path.suffix("-none"), "f");
    assertThrows(
        FileNotFoundException.class,
        () -> fs.createNonRecursive(deep, true, 4096, (short) 1, 1 << 20, null));
    FSDataOutputStream out = fs.create(path);
    RemoteException taken =
        assertThrows(RemoteException.class, () -> NativeContract.newFileSystem().append(path));
    assertTrue(taken.getClassName().endsWith("AlreadyBeingCreatedException"), taken.toString());
    out.write(1);
    out.hflush();
    fs.delete(path, false);
    out.write(2);
    // The stock client notices with close only; either way the exception names the lease or file.
    IOException gone = assertThrows(IOException.class, out::close);
    assertTrue(
        gone.getMessage().contains("File does not exist") || gone.getMessage().contains("lease"),
        gone.toString());
    FSDataOutputStream done = fs.create(path);
    done.close();
    assertThrows(ClosedChannelException.class, () -> done.write(1));
    assertThrows(ClosedChannelException.class, done::hflush);
    FSDataInputStream in = fs.open(path);
    in.close();
    IOException closed = assertThrows(IOException.class, () -> in.read());
    assertTrue(closed.getMessage().contains("Stream closed"), closed.toString());
    Path secret = path.suffix("-secret");
    stock.mkdirs(secret, new FsPermission((short) 0700));
    stock.create(new Path(secret, "f")).close();
    UserGroupInformation mallory = UserGroupInformation.createRemoteUser("mallory");
    try (FileSystem hers =
        mallory.doAs((PrivilegedExceptionAction<FileSystem>) NativeContract::newFileSystem)) {
      assertThrows(AccessControlException.class, () -> hers.create(new Path(secret, "f")));
      assertThrows(AccessControlException.class, () -> hers.open(new Path(secret, "f")));
    }
    fs.close();
    IOException late = assertThrows(IOException.class, () -> fs.open(path));
    assertEquals("Filesystem closed", late.getMessage());
  }

  @Test
  void filesBelongToTheUserOfHadoop() throws Exception {
    Path folder = path.suffix("-shared");
    stock.mkdirs(folder);
    stock.setPermission(folder, new FsPermission((short) 0777));
    UserGroupInformation alice = UserGroupInformation.createRemoteUser("alice");
    try (FileSystem hers =
        alice.doAs((PrivilegedExceptionAction<FileSystem>) NativeContract::newFileSystem)) {
      hers.create(new Path(folder, "f")).close();
    }
    assertEquals("alice", fs.getFileStatus(new Path(folder, "f")).getOwner());
  }

  @Test
  void statisticsCount() throws IOException {
    FileSystem.Statistics statistics =
        FileSystem.getStatistics("hdfs", NativeDistributedFileSystem336.class);
    long written = statistics.getBytesWritten();
    long read = statistics.getBytesRead();
    byte[] data = bytes(10_000);
    try (FSDataOutputStream out = fs.create(path)) {
      out.write(data);
    }
    read(fs, path);
    try (FSDataInputStream in = fs.open(path)) {
      in.readFully(5, new byte[100]);
    }
    assertEquals(written + 10_000, statistics.getBytesWritten());
    assertEquals(read + 10_100, statistics.getBytesRead());
  }

  @Test
  void closingTheFileSystemCompletesItsFiles() throws IOException {
    FSDataOutputStream out = fs.create(path);
    out.write(bytes(1000));
    fs.close();
    assertEquals(1000, stock.getFileStatus(path).getLen());
    assertTrue(((DistributedFileSystem) stock).isFileClosed(path));
    assertThrows(IOException.class, () -> out.write(1));
    out.close();
  }

  @Test
  void erasureCodedFilesAreLeftToTheStockStreams() throws IOException {
    DistributedFileSystem dfs = (DistributedFileSystem) stock;
    String policy = "XOR-2-1-1024k";
    dfs.enableErasureCodingPolicy(policy);
    Path folder = path.suffix("-ec");
    dfs.mkdirs(folder);
    dfs.setErasureCodingPolicy(folder, policy);
    Path file = new Path(folder, "f");
    byte[] data = bytes(3_000_000);
    try (FSDataOutputStream out = fs.create(file, false)) {
      assertFalse(out.getWrappedStream() instanceof NativeOutput);
      out.write(data);
    }
    assertTrue(fs.getFileStatus(file).isErasureCoded());
    try (FSDataInputStream in = fs.open(file)) {
      assertInstanceOf(DFSInputStream.class, in.getWrappedStream());
    }
    assertArrayEquals(data, read(fs, file));
    // SHOULD_REPLICATE is what HBase's log asks for there.
    try (FSDataOutputStream out =
        ((OutputBuilder) fs.createFile(new Path(folder, "r"))).replicate().build()) {
      assertNative(out);
      out.write(data);
    }
    assertArrayEquals(data, read(stock, new Path(folder, "r")));
    Configuration strict = NativeContract.configuration();
    strict.setBoolean(NativeDistributedFileSystem.FALLBACK_KEY, false);
    try (FileSystem refusing = FileSystem.get(URI.create(MiniCluster.uri()), strict)) {
      IOException e = assertThrows(IOException.class, () -> refusing.open(file));
      assertTrue(e.getMessage().contains("erasure"), e.toString());
    }
  }

  @Test
  void metadataGoesToTheRawFileSystem() throws Exception {
    fs.create(path).close();
    fs.setTimes(path, 1_000, 2_000);
    fs.setPermission(path, new FsPermission((short) 0600));
    fs.setReplication(path, (short) 2);
    fs.setStoragePolicy(path, "HOT");
    assertEquals(1_000, fs.getFileStatus(path).getModificationTime());
    assertEquals(2, fs.getFileStatus(path).getReplication());
    assertEquals(1, fs.getContentSummary(path).getFileCount());
    assertTrue(((NativeDistributedFileSystem) fs).recoverLease(path));
    assertTrue(((NativeDistributedFileSystem) fs).isFileClosed(path));
    assertFalse(((NativeDistributedFileSystem) fs).isInSafeMode());
    Path renamed = path.suffix("-renamed");
    fs.delete(renamed, false);
    assertTrue(fs.rename(path, renamed));
    assertFalse(fs.exists(path));
    assertEquals(1, fs.getFileBlockLocations(stock.getFileStatus(renamed), 0, 1).length
        + fs.globStatus(renamed).length - fs.listStatus(renamed).length + 1);
  }

  @Test
  void settingsOfTheFileSystemArrive() throws IOException {
    Configuration conf = NativeContract.configuration();
    conf.setInt(NativeDistributedFileSystem.MIN_REPLICAS_KEY, 4);
    try (FileSystem floor = FileSystem.get(URI.create(MiniCluster.uri()), conf)) {
      FSDataOutputStream out = floor.create(path);
      out.write(1);
      IOException e = assertThrows(IOException.class, out::hflush);
      assertTrue(e.getMessage().contains("floor of 4"), e.toString());
      out.close();
    }
    conf.set("dfs.client.socket-timeout", "soon");
    try (FileSystem bad = FileSystem.get(URI.create(MiniCluster.uri()), conf)) {
      IOException e = assertThrows(IOException.class, () -> bad.open(path));
      assertTrue(e.getMessage().contains("dfs.client.socket-timeout"), e.toString());
    } catch (NumberFormatException rawRefusedFirst) {
      assertTrue(rawRefusedFirst.getMessage().contains("soon"));
    }
  }
}
