package io.libdfs;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotSame;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.File;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Loading, many opens and closes, garbage, the end of the JVM. */
@Timeout(value = 180, unit = TimeUnit.SECONDS)
class LifecycleTest {
  private static final DfsCreateOptions FRESH =
      new DfsCreateOptions().overwrite(true).createParents(true).replication(1);

  /** Resident memory of this process, KiB. */
  private static long residentKib() throws IOException {
    for (String line : Files.readAllLines(Path.of("/proc/self/status"))) {
      if (line.startsWith("VmRSS:")) {
        return Long.parseLong(line.replaceAll("[^0-9]", ""));
      }
    }
    throw new AssertionError("no VmRSS");
  }

  private static long openFiles() {
    File[] files = new File("/proc/self/fd").listFiles();
    return files == null ? 0 : files.length;
  }

  @Test
  void opensAndClosesLeakNothing() throws IOException {
    try (Dfs dfs = MiniCluster.connect()) {
      try (DfsOutputStream out = dfs.create("/life/small", FRESH)) {
        out.write(DfsTest.bytes(1000, 1));
      }
      byte[] buffer = new byte[100];
      long handles = 0;
      long files = 0;
      for (int round = 0; round < 20_000; round++) {
        if (round == 2_000) {
          handles = Dfs.liveHandles();
          files = openFiles();
        }
        try (DfsInputStream in = dfs.open("/life/small")) {
          if (round % 10 == 0) {
            assertEquals(100, in.read(5, buffer, 0, 100));
          }
        }
      }
      assertEquals(handles, Dfs.liveHandles());
      assertTrue(openFiles() < files + 50, openFiles() + " open files after " + files);
    }
  }

  @Test
  void connectionsLeakNothing() throws IOException {
    long files = 0;
    long kib = 0;
    for (int round = 0; round < 300; round++) {
      if (round == 100) {
        files = openFiles();
        kib = residentKib();
      }
      try (Dfs dfs = MiniCluster.connect();
          DfsOutputStream out = dfs.create("/life/connect", FRESH)) {
        out.write(round);
      }
    }
    assertTrue(openFiles() < files + 50, openFiles() + " open files after " + files);
    // 200 rounds; each leaking its buffers or tables would show as more than this.
    assertTrue(residentKib() < kib + (100 << 10), residentKib() + " KiB after " + kib);
  }

  @Test
  void aDroppedStreamIsGivenBack() throws Exception {
    try (Dfs dfs = MiniCluster.connect()) {
      dfs.create("/life/dropped", FRESH).close();
      long handles = Dfs.liveHandles();
      for (int i = 0; i < 10; i++) {
        dfs.open("/life/dropped").read();
      }
      assertTrue(Dfs.liveHandles() >= handles);
      for (int i = 0; i < 100 && Dfs.liveHandles() > handles; i++) {
        System.gc();
        Leaks.collect();
        TimeUnit.MILLISECONDS.sleep(20);
      }
      assertEquals(handles, Dfs.liveHandles());
    }
  }

  /** Sees our classes anew and everything else as this test does. */
  private static URLClassLoader freshLoader() {
    List<URL> urls = new ArrayList<>();
    for (String part : System.getProperty("java.class.path").split(File.pathSeparator)) {
      try {
        urls.add(new File(part).toURI().toURL());
      } catch (java.net.MalformedURLException e) {
        throw new AssertionError(e);
      }
    }
    ClassLoader parent = LifecycleTest.class.getClassLoader();
    return new URLClassLoader(urls.toArray(new URL[0]), parent) {
      @Override
      protected Class<?> loadClass(String name, boolean resolve) throws ClassNotFoundException {
        if (!name.startsWith("io.libdfs.") || name.contains("MiniCluster")) {
          return super.loadClass(name, resolve);
        }
        synchronized (getClassLoadingLock(name)) {
          Class<?> known = findLoadedClass(name);
          return known == null ? findClass(name) : known;
        }
      }
    };
  }

  @Test
  void twoClassLoadersHaveTheirOwnLibrary() throws Exception {
    for (int round = 0; round < 2; round++) {
      try (URLClassLoader loader = freshLoader()) {
        Class<?> dfsClass = loader.loadClass("io.libdfs.Dfs");
        assertNotSame(Dfs.class, dfsClass);
        Object dfs = dfsClass.getMethod("connect", String.class).invoke(null, MiniCluster.uri());
        Method exists = dfsClass.getMethod("exists", String.class);
        assertEquals(true, exists.invoke(dfs, "/"));
        try (Dfs ours = MiniCluster.connect()) {
          assertTrue(ours.exists("/"));
        }
        dfsClass.getMethod("close").invoke(dfs);
        InvocationTargetException e =
            org.junit.jupiter.api.Assertions.assertThrows(
                InvocationTargetException.class, () -> exists.invoke(dfs, "/"));
        assertEquals("io.libdfs.DfsException", e.getCause().getClass().getName());
        assertFalse(e.getCause() instanceof DfsException);
      }
    }
  }

  /** Runs {@link Child} in another JVM and returns what it says. */
  private static String child(List<String> options, String what) throws Exception {
    List<String> command = new ArrayList<>();
    command.add(System.getProperty("java.home") + "/bin/java");
    command.addAll(ManagementFactory.getRuntimeMXBean().getInputArguments().stream()
        .filter(option -> option.startsWith("-Xcheck"))
        .toList());
    command.addAll(options);
    command.addAll(List.of("-cp", System.getProperty("java.class.path"), Child.class.getName()));
    command.addAll(List.of(what, MiniCluster.uri()));
    Process process = new ProcessBuilder(command).redirectErrorStream(true).start();
    String said = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
    assertTrue(process.waitFor(60, TimeUnit.SECONDS), "the child goes on");
    assertFalse(said.contains("FATAL ERROR"), said);
    assertFalse(said.contains("A fatal error has been detected"), said);
    return said + "exit " + process.exitValue();
  }

  /** What the other JVM does. */
  static final class Child {
    public static void main(String[] args) throws Exception {
      switch (args[0]) {
        case "load":
          try {
            Dfs.connect(args[1]).close();
            System.out.println("connected");
          } catch (IOException e) {
            System.out.println(e.getClass().getName() + ": " + e.getMessage());
          }
          break;
        case "exit-with-open-files":
          Dfs dfs = Dfs.connect(args[1]);
          DfsOutputStream out = dfs.create("/life/exit", FRESH);
          out.write(1);
          out.hflush();
          for (int i = 0; i < 4; i++) {
            Thread writer =
                new Thread(
                    () -> {
                      try {
                        while (true) {
                          out.write(1);
                          out.hflush();
                        }
                      } catch (IOException e) {
                        System.out.println("unexpected: " + e);
                      }
                    });
            writer.setDaemon(true);
            writer.start();
          }
          TimeUnit.MILLISECONDS.sleep(200);
          System.out.println("leaving");
          break;
        default:
          throw new IllegalArgumentException(args[0]);
      }
    }
  }

  private static List<String> property(String name, Object value) {
    return List.of("-D" + name + "=" + value);
  }

  @Test
  void aLibraryThatCannotBeLoadedIsNamedWithWhatToDo() throws Exception {
    Path folder = Files.createTempDirectory("library");
    String missing = child(property(LibraryLoader.PATH_PROPERTY, folder), "load");
    assertTrue(missing.contains("DfsLibraryException"), missing);
    assertTrue(missing.contains("names no libdfs_jni.so"), missing);
    Path foreign = folder.resolve("libdfs_jni.so");
    // The head of an ELF file of another processor.
    byte[] elf = new byte[64];
    System.arraycopy(new byte[] {0x7f, 'E', 'L', 'F', 2, 1, 1}, 0, elf, 0, 7);
    elf[16] = 3;
    elf[18] = (byte) 243;
    Files.write(foreign, elf);
    String wrong = child(property(LibraryLoader.PATH_PROPERTY, folder), "load");
    assertTrue(wrong.contains("must be built for this system and processor"), wrong);
    String path = child(property("java.library.path", folder), "load");
    assertTrue(path.contains("must be built for this system and processor"), path);
    // LD_LIBRARY_PATH of the surrounding build may name the folder of a good library.
    String arch = child(List.of("-Dos.arch=vax", "-Djava.library.path=/nowhere"), "load");
    assertTrue(arch.contains("no native library for linux-vax"), arch);
    String good = child(List.of(), "load");
    assertTrue(good.contains("connected"), good);
  }

  @Test
  void theLibraryExportsNothingButItsEntry() throws Exception {
    String library = System.getProperty("native.dir") + "/libdfs_jni.so";
    Process nm = new ProcessBuilder("nm", "-D", "--defined-only", library).start();
    String said = new String(nm.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
    assertEquals(0, nm.waitFor());
    List<String> names = said.lines().map(line -> line.substring(line.lastIndexOf(' ') + 1)).toList();
    assertEquals(List.of("JNI_OnLoad"), names);
  }

  @Test
  void everyCollectorAndASmallStackWillDo() throws Exception {
    for (String option : new String[] {"-XX:+UseParallelGC", "-XX:+UseZGC", "-XX:+UseG1GC"}) {
      String said = child(List.of(option, "-Xss256k"), "load");
      assertTrue(said.contains("connected"), option + ": " + said);
    }
  }

  @Test
  void aJvmMayEndWithOpenFilesAndBusyThreads() throws Exception {
    String said = child(List.of(), "exit-with-open-files");
    assertTrue(said.contains("leaving"), said);
    assertFalse(said.contains("unexpected"), said);
    assertTrue(said.endsWith("exit 0"), said);
  }
}
