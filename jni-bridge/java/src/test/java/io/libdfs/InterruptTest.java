package io.libdfs;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.Closeable;
import java.io.IOException;
import java.io.InterruptedIOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Threads that wait in native code, interrupted, or with the stream closed under them. */
@Timeout(value = 120, unit = TimeUnit.SECONDS)
class InterruptTest {
  private static final DfsCreateOptions FRESH =
      new DfsCreateOptions().overwrite(true).createParents(true);

  interface Call {
    void run() throws IOException;
  }

  /** A thread in a call, and how that ended. */
  private static final class Blocked {
    final AtomicReference<Throwable> thrown = new AtomicReference<>();
    final CountDownLatch started = new CountDownLatch(1);
    volatile boolean stillInterrupted;
    final Thread thread;

    Blocked(Call call) {
      thread =
          new Thread(
              () -> {
                started.countDown();
                try {
                  call.run();
                } catch (Throwable t) {
                  thrown.set(t);
                }
                stillInterrupted = Thread.currentThread().isInterrupted();
              });
      thread.start();
    }

    /** Waits until the thread is in native code, where it is runnable for the JVM. */
    void awaitNative() throws InterruptedException {
      started.await();
      while (thread.isAlive() && !inNative()) {
        Thread.onSpinWait();
      }
    }

    private boolean inNative() {
      StackTraceElement[] stack = thread.getStackTrace();
      return stack.length > 0 && stack[0].isNativeMethod()
          && stack[0].getClassName().equals("io.libdfs.Natives");
    }

    Throwable end() throws InterruptedException {
      thread.join(30_000);
      assertFalse(thread.isAlive(), "the call goes on");
      return thrown.get();
    }
  }

  /** A NameNode that accepts connections and never says a word. */
  private static final class Silent implements Closeable {
    private final ServerSocket socket = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());

    Silent() throws IOException {}

    String uri() {
      return "hdfs://localhost:" + socket.getLocalPort();
    }

    @Override
    public void close() throws IOException {
      socket.close();
    }
  }

  @Test
  void aThreadThatWaitsForTheNameNodeCanBeInterrupted() throws Exception {
    try (Silent silent = new Silent()) {
      Blocked blocked = new Blocked(() -> Dfs.builder().uri(silent.uri()).connect());
      blocked.awaitNative();
      long begun = System.nanoTime();
      blocked.thread.interrupt();
      Throwable thrown = blocked.end();
      assertInstanceOf(InterruptedIOException.class, thrown);
      assertNotNull(DfsException.of(thrown));
      assertFalse(blocked.stillInterrupted);
      long ms = TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - begun);
      assertTrue(ms < 10_000, ms + " ms");
    }
  }

  @Test
  void aTimeLimitIsNoInterrupt() throws Exception {
    try (Silent silent = new Silent()) {
      DfsException e =
          assertThrows(
              DfsException.class,
              () -> Dfs.builder().uri(silent.uri()).timeoutMs(300).connect());
      assertEquals(DfsException.TIMED_OUT, e.status());
    }
  }

  @Test
  void anInterruptBeforeTheCallEndsItUnlessItNeedNotWait() throws Exception {
    try (Dfs dfs = MiniCluster.connect()) {
      DfsOutputStream out = dfs.create("/interrupt/early", FRESH);
      out.write(new byte[100]);
      for (int round = 0; round < 3; round++) {
        Thread.currentThread().interrupt();
        try {
          out.hflush();
          assertTrue(Thread.interrupted(), "the flush was quicker, and must keep the status");
        } catch (InterruptedIOException e) {
          assertFalse(Thread.interrupted());
        }
        out.write(1);
      }
      out.hflush();
      Thread.currentThread().interrupt();
      try {
        out.close();
        assertTrue(Thread.interrupted());
      } catch (InterruptedIOException e) {
        assertFalse(Thread.interrupted());
        out.close();
      }
      assertEquals(103, dfs.status("/interrupt/early").length());
    }
  }

  @Test
  void theFlagOfAThreadIsItsOwn() throws Exception {
    try (Silent silent = new Silent();
        Dfs dfs = MiniCluster.connect()) {
      Blocked one = new Blocked(() -> Dfs.builder().uri(silent.uri()).connect());
      Blocked two = new Blocked(() -> Dfs.builder().uri(silent.uri()).connect());
      one.awaitNative();
      two.awaitNative();
      one.thread.interrupt();
      assertInstanceOf(InterruptedIOException.class, one.end());
      assertTrue(two.thread.isAlive());
      assertFalse(dfs.exists("/none"));
      two.thread.interrupt();
      assertInstanceOf(InterruptedIOException.class, two.end());
    }
  }

  @Test
  void aThreadMayGoOnAfterAnInterrupt() throws Exception {
    try (Silent silent = new Silent();
        Dfs dfs = MiniCluster.connect()) {
      for (int round = 0; round < 2; round++) {
        Thread.currentThread().interrupt();
        assertThrows(
            InterruptedIOException.class, () -> Dfs.builder().uri(silent.uri()).connect());
        assertFalse(Thread.currentThread().isInterrupted());
        assertFalse(dfs.exists("/none"));
      }
    }
  }

  @Test
  void closeDuringReadsIsSafe() throws Exception {
    try (Dfs dfs = MiniCluster.connect()) {
      try (DfsOutputStream out = dfs.create("/interrupt/shared", FRESH)) {
        out.write(DfsTest.bytes(4 << 20, 1));
      }
      for (int round = 0; round < 5; round++) {
        DfsInputStream in = dfs.open("/interrupt/shared");
        Blocked[] readers = new Blocked[4];
        for (int i = 0; i < readers.length; i++) {
          boolean positional = i % 2 == 0;
          readers[i] =
              new Blocked(
                  () -> {
                    byte[] buffer = new byte[1 << 20];
                    while (true) {
                      if (positional) {
                        in.read(12_345, buffer, 0, buffer.length);
                      } else {
                        in.seek(0);
                        in.read(buffer);
                      }
                    }
                  });
        }
        for (Blocked reader : readers) {
          reader.awaitNative();
        }
        in.close();
        for (Blocked reader : readers) {
          Throwable thrown = reader.end();
          assertInstanceOf(DfsException.class, thrown);
          assertEquals(DfsException.CLOSED, ((DfsException) thrown).status(), thrown.toString());
        }
      }
    }
  }

  @Test
  void closeOfTheFileSystemEndsAWaitingCall() throws Exception {
    try (Dfs dfs = MiniCluster.connect()) {
      DfsOutputStream out = dfs.create("/interrupt/flushers", FRESH);
      Blocked[] flushers = new Blocked[3];
      for (int i = 0; i < flushers.length; i++) {
        flushers[i] =
            new Blocked(
                () -> {
                  while (true) {
                    out.write(1);
                    out.hflush();
                  }
                });
      }
      for (Blocked flusher : flushers) {
        flusher.awaitNative();
      }
      dfs.close();
      for (Blocked flusher : flushers) {
        assertInstanceOf(DfsException.class, flusher.end());
      }
      assertThrows(DfsException.class, out::close);
    }
  }
}
