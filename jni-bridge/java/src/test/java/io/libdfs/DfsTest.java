package io.libdfs;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.EOFException;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ReadOnlyBufferException;
import java.util.Arrays;
import java.util.Random;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestInfo;

/** The plain API on a mini cluster. */
class DfsTest {
  private Dfs dfs;
  private String path;

  @BeforeEach
  void connect(TestInfo test) throws IOException {
    dfs = MiniCluster.connect();
    path = "/plain/" + test.getTestMethod().get().getName();
  }

  @AfterEach
  void disconnect() throws IOException {
    dfs.close();
  }

  static byte[] bytes(int count, long seed) {
    byte[] bytes = new byte[count];
    new Random(seed).nextBytes(bytes);
    return bytes;
  }

  private DfsCreateOptions fresh() {
    return new DfsCreateOptions().overwrite(true).createParents(true);
  }

  private byte[] readAll() throws IOException {
    try (DfsInputStream in = dfs.open(path)) {
      byte[] all = new byte[(int) in.length()];
      int n = in.read(all, 0, all.length);
      assertEquals(all.length == 0 ? 0 : all.length, n);
      assertEquals(-1, in.read());
      return all;
    }
  }

  @Test
  void writeFlushReadBackClose() throws IOException {
    byte[] data = bytes(300_000, 1);
    DfsOutputStream out = dfs.create(path, fresh());
    out.write(data, 0, 100);
    out.hflush();
    assertEquals(100, out.durableBytes());
    assertEquals(3, out.pipeline().length);
    try (DfsInputStream in = dfs.open(path)) {
      assertEquals(100, in.length());
      byte[] part = new byte[200];
      assertEquals(100, in.read(part, 0, 200));
      assertArrayEquals(Arrays.copyOf(data, 100), Arrays.copyOf(part, 100));
      out.write(data, 100, data.length - 100);
      out.hsync(true, false);
      assertEquals(data.length, dfs.status(path).length());
      assertEquals(data.length, in.refresh());
      assertEquals(data.length - 100, in.available());
    }
    assertFalse(dfs.isFileClosed(path));
    out.close();
    out.close();
    assertTrue(dfs.isFileClosed(path));
    assertArrayEquals(data, readAll());
  }

  @Test
  void everySizeOfWriteArrivesInOrder() throws IOException {
    byte[] data = bytes(1 << 20, 2);
    ByteBuffer direct = ByteBuffer.allocateDirect(data.length);
    direct.put(data).flip();
    int[] sizes = {1, 7, 511, 512, 513, Staging.BYTES - 1, Staging.BYTES, Staging.BYTES + 1, 70_000};
    try (DfsOutputStream out = dfs.create(path, fresh().blockSize(256 << 10))) {
      int at = 0;
      for (int round = 0; at < data.length; round++) {
        int n = Math.min(sizes[round % sizes.length], data.length - at);
        switch (round % 4) {
          case 0:
            out.write(data, at, n);
            break;
          case 1:
            direct.limit(at + n).position(at);
            out.write(direct);
            assertEquals(0, direct.remaining());
            break;
          case 2:
            ByteBuffer heap = ByteBuffer.wrap(data, at, n).slice();
            out.write(heap);
            assertEquals(0, heap.remaining());
            break;
          default:
            ByteBuffer readOnly = ByteBuffer.wrap(data, at, n).asReadOnlyBuffer();
            out.write(readOnly);
            assertEquals(0, readOnly.remaining());
        }
        at += n;
        assertEquals(at, out.position());
      }
      out.write(42);
    }
    byte[] all = readAll();
    assertEquals(data.length + 1, all.length);
    assertEquals(42, all[data.length]);
    assertArrayEquals(data, Arrays.copyOf(all, data.length));
  }

  @Test
  void positionalReadsOfAllBuffers() throws IOException {
    byte[] data = bytes(3_000_000, 3);
    try (DfsOutputStream out = dfs.create(path, fresh().blockSize(1 << 20))) {
      out.write(data);
    }
    try (DfsInputStream in = dfs.open(path)) {
      byte[] array = new byte[1_500_000];
      assertEquals(1_400_000, in.read(100, array, 50, 1_400_000));
      assertArrayEquals(
          Arrays.copyOfRange(data, 100, 1_400_100), Arrays.copyOfRange(array, 50, 1_400_050));
      ByteBuffer direct = ByteBuffer.allocateDirect(1000);
      direct.position(10).limit(900);
      assertEquals(890, in.read(2_000_000, direct));
      assertEquals(900, direct.position());
      direct.flip().position(10);
      assertEquals(ByteBuffer.wrap(data, 2_000_000, 890), direct);
      ByteBuffer heap = ByteBuffer.allocate(100).position(20).slice();
      assertEquals(80, in.read(7, heap));
      assertEquals(ByteBuffer.wrap(data, 7, 80), heap.flip());
      assertEquals(5, in.read(data.length - 5, array, 0, 10));
      assertEquals(-1, in.read(data.length, array, 0, 10));
      assertEquals(-1, in.read(Long.MAX_VALUE, direct.clear()));
      assertEquals(0, in.read(0, array, 0, 0));
      assertEquals(0, in.position());
    }
  }

  @Test
  void vectoredReads() throws IOException {
    byte[] data = bytes(2_000_000, 4);
    try (DfsOutputStream out = dfs.create(path, fresh().blockSize(1 << 20))) {
      out.write(data);
    }
    try (DfsInputStream in = dfs.open(path)) {
      long[] at = {1_048_000, 5, data.length - 10, 400};
      int[] lengths = {2000, 100, 20, 0};
      ByteBuffer[] buffers = new ByteBuffer[4];
      for (int i = 0; i < 4; i++) {
        buffers[i] = ByteBuffer.allocateDirect(2000);
      }
      assertArrayEquals(new int[] {2000, 100, 10, 0}, in.readVector(at, lengths, buffers));
      for (int i = 0; i < 3; i++) {
        int n = Math.min(lengths[i], (int) (data.length - at[i]));
        assertEquals(ByteBuffer.wrap(data, (int) at[i], n), buffers[i].limit(n));
      }
      assertThrows(
          DfsException.class,
          () -> in.readVector(new long[2], new int[] {9, 9}, new ByteBuffer[] {buffers[0]}));
      ByteBuffer[] same = {buffers[0], buffers[0].duplicate()};
      assertThrows(
          DfsException.class, () -> in.readVector(new long[] {0, 5}, new int[] {9, 9}, same));
      ByteBuffer[] heap = {ByteBuffer.allocate(10)};
      assertThrows(
          DfsException.class, () -> in.readVector(new long[] {0}, new int[] {9}, heap));
      ByteBuffer[] small = {ByteBuffer.allocateDirect(8)};
      assertThrows(
          DfsException.class, () -> in.readVector(new long[] {0}, new int[] {9}, small));
    }
  }

  @Test
  void cursorSeekAndSkip() throws IOException {
    byte[] data = bytes(10_000, 5);
    try (DfsOutputStream out = dfs.create(path, fresh())) {
      out.write(data);
    }
    try (DfsInputStream in = dfs.open(path)) {
      in.seek(9_000);
      assertEquals(data[9_000] & 0xff, in.read());
      assertEquals(99, in.skip(99));
      assertEquals(9_100, in.position());
      assertEquals(900, in.skip(5_000));
      assertEquals(0, in.skip(1));
      assertEquals(-1, in.read(new byte[1]));
      in.unbuffer();
      in.seek(0);
      ByteBuffer direct = ByteBuffer.allocateDirect(64);
      assertEquals(64, in.read(direct));
      assertEquals(ByteBuffer.wrap(data, 0, 64), direct.flip());
      assertThrows(EOFException.class, () -> in.seek(-1));
      assertThrows(DfsException.class, () -> in.seek(10_001));
      in.setReadahead(1L << 20);
      in.setDropBehind(true);
      in.setDropBehind(null);
      in.setReadahead(null);
    }
  }

  @Test
  void badArgumentsAreRefused() throws IOException {
    try (DfsOutputStream out = dfs.create(path, fresh())) {
      byte[] ten = new byte[10];
      assertThrows(IndexOutOfBoundsException.class, () -> out.write(ten, 5, 6));
      assertThrows(IndexOutOfBoundsException.class, () -> out.write(ten, -1, 1));
      assertThrows(IndexOutOfBoundsException.class, () -> out.write(ten, 0, Integer.MAX_VALUE));
      assertThrows(NullPointerException.class, () -> out.write((byte[]) null, 0, 0));
      out.write(ten);
    }
    try (DfsInputStream in = dfs.open(path)) {
      byte[] ten = new byte[10];
      assertThrows(IndexOutOfBoundsException.class, () -> in.read(ten, 5, 6));
      assertThrows(IndexOutOfBoundsException.class, () -> in.read(0, ten, 5, Integer.MAX_VALUE));
      assertThrows(EOFException.class, () -> in.read(-1, ten, 0, 1));
      ByteBuffer readOnly = ByteBuffer.allocateDirect(10).asReadOnlyBuffer();
      assertThrows(ReadOnlyBufferException.class, () -> in.read(readOnly));
      assertThrows(ReadOnlyBufferException.class, () -> in.read(0, readOnly));
      assertThrows(
          ReadOnlyBufferException.class, () -> in.read(ByteBuffer.wrap(ten).asReadOnlyBuffer()));
    }
    assertThrows(FileNotFoundException.class, () -> dfs.open("/no/such/file"));
    assertThrows(DfsException.class, () -> dfs.create("relative", fresh()));
    assertThrows(DfsException.class, () -> dfs.create(null, fresh()));
    assertThrows(DfsException.class, () -> dfs.create(path, fresh().blockSize(1000)));
    assertThrows(DfsException.class, () -> dfs.create(path, fresh().blockSize(-512)));
    DfsException exists =
        assertThrows(DfsException.class, () -> dfs.create(path, new DfsCreateOptions()));
    assertTrue(exists.remoteClass().endsWith("FileAlreadyExistsException"), exists.remoteClass());
    assertFalse(exists.isFatal());
  }

  @Test
  void useAfterCloseIsAnException() throws IOException {
    DfsOutputStream out = dfs.create(path, fresh());
    out.write(new byte[100]);
    out.close();
    assertThrows(DfsException.class, () -> out.write(1));
    assertThrows(DfsException.class, out::hflush);
    assertThrows(DfsException.class, out::durableBytes);
    assertEquals(100, out.position());
    DfsInputStream in = dfs.open(path);
    in.close();
    in.close();
    assertThrows(DfsException.class, () -> in.read());
    assertThrows(DfsException.class, () -> in.read(0, new byte[1], 0, 1));
    assertThrows(DfsException.class, () -> in.seek(0));
    in.unbuffer();
    DfsOutputStream late = dfs.create(path + "2", fresh());
    late.write(1);
    DfsInputStream lateIn = dfs.open(path);
    dfs.close();
    dfs.close();
    assertThrows(DfsException.class, () -> dfs.open(path));
    assertThrows(DfsException.class, () -> lateIn.read());
    assertThrows(DfsException.class, late::hflush);
    assertThrows(DfsException.class, late::close);
    late.close();
    lateIn.close();
  }

  @Test
  void appendAndAbandon() throws IOException {
    try (DfsOutputStream out = dfs.create(path, fresh())) {
      out.write(bytes(1000, 6));
    }
    try (DfsOutputStream out = dfs.append(path, new DfsCreateOptions())) {
      assertEquals(1000, out.position());
      out.write(bytes(500, 7));
      assertEquals(1500, out.position());
    }
    assertEquals(1500, readAll().length);
    DfsOutputStream lost = dfs.append(path, new DfsCreateOptions().newBlock(true));
    lost.write(bytes(100, 8));
    lost.abandon();
    lost.close();
    assertThrows(DfsException.class, () -> lost.write(1));
    assertFalse(dfs.isFileClosed(path));
  }

  @Test
  void namesAndStatistics() throws IOException {
    dfs.mkdirs(path + "/a/b", 0750);
    try (DfsOutputStream out = dfs.create(path + "/a/f", fresh().replication(2).permission(0600))) {
      out.write(bytes(1234, 9));
    }
    DfsFileStatus status = dfs.status(path + "/a/f");
    assertEquals(1234, status.length());
    assertEquals(0600, status.permission());
    assertEquals(2, status.replication());
    assertEquals("f", status.name());
    assertFalse(status.isDirectory());
    DfsFileStatus[] list = dfs.list(path + "/a");
    assertEquals(2, list.length);
    assertTrue(list[0].isDirectory());
    assertEquals(0750, list[0].permission());
    dfs.rename(path + "/a/f", path + "/a/b/g", false);
    assertFalse(dfs.exists(path + "/a/f"));
    assertTrue(dfs.exists(path + "/a/b/g"));
    assertTrue(dfs.recoverLease(path + "/a/b/g"));
    dfs.truncate(path + "/a/b/g", 34);
    assertTrue(dfs.delete(path, true));
    assertFalse(dfs.delete(path, true));
    DfsStatistics statistics = dfs.statistics();
    assertTrue(statistics.bytesWritten() >= 1234);
    assertEquals(0, statistics.openWriters());
    assertTrue(statistics.poolInUseBytes() >= 0);
    assertEquals(MiniCluster.uri(), dfs.uri());
  }

  @Test
  void aPanicBecomesAnException() {
    RuntimeException e = assertThrows(RuntimeException.class, Natives::panic);
    assertTrue(e.getMessage().contains("on request"), e.getMessage());
  }

  @Test
  void aWrongServerIsNamed() {
    DfsException e =
        assertThrows(
            DfsException.class,
            () ->
                Dfs.builder()
                    .uri("hdfs://localhost:1")
                    .set("ipc.client.connect.max.retries", "0")
                    .connect());
    assertTrue(e.getMessage().contains("localhost:1"), e.getMessage());
    DfsException bad =
        assertThrows(DfsException.class, () -> Dfs.builder().uri("http://x").connect());
    assertTrue(bad.getMessage().contains("hdfs://"), bad.getMessage());
    DfsException key =
        assertThrows(
            DfsException.class,
            () -> Dfs.builder().uri(MiniCluster.uri()).set("dfs.replication", "many").connect());
    assertTrue(key.getMessage().contains("dfs.replication"), key.getMessage());
  }
}
