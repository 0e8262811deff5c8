package io.libdfs;

import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.Properties;

/**
 * Finds and loads the native library, once per class loader: the file or folder that the property
 * {@code io.libdfs.library.path} names, else {@code java.library.path}, else the copy in the jar,
 * which is extracted to a file of its own, since the JVM loads one file for one class loader only.
 */
final class LibraryLoader {
  static final String PATH_PROPERTY = "io.libdfs.library.path";
  static final String TEMP_PROPERTY = "io.libdfs.library.tmpdir";
  private static final String FILE = "libdfs_jni.so";

  private LibraryLoader() {}

  /** The outcome of the one attempt; a racing thread waits for it in the class initialiser. */
  private static final class Attempt {
    static final DfsLibraryException FAILURE = load();
  }

  /** Loads the library unless that has happened. */
  static void ensure() throws DfsLibraryException {
    DfsLibraryException failure = Attempt.FAILURE;
    if (failure != null) {
      throw new DfsLibraryException(failure.getMessage(), failure);
    }
  }

  private static DfsLibraryException load() {
    try {
      String from = loadSomewhere();
      String wanted = jarVersion();
      String found = Natives.version();
      if (!found.equals(wanted)) {
        return new DfsLibraryException(
            "the native library " + from + " is version " + found + ", and the jar is version "
                + wanted + ": use files of one release, or drop -D" + PATH_PROPERTY
                + " to use the library in the jar",
            null);
      }
      LogDrain.start();
      return null;
    } catch (DfsLibraryException failure) {
      return failure;
    } catch (IOException | LinkageError | RuntimeException failure) {
      return new DfsLibraryException(
          "the native library of libdfs cannot be set up: " + failure, failure);
    }
  }

  /** Loads the first library there is and returns its place. */
  private static String loadSomewhere() throws IOException {
    String named = System.getProperty(PATH_PROPERTY);
    if (named != null && !named.isEmpty()) {
      File file = new File(named);
      if (file.isDirectory()) {
        file = new File(file, FILE);
      }
      if (!file.isFile()) {
        throw new DfsLibraryException(
            "-D" + PATH_PROPERTY + "=" + named + " names no " + FILE
                + ": give the file or its folder, or drop the property to use the one in the jar",
            null);
      }
      return loadFile(file);
    }
    String folders = System.getProperty("java.library.path", "");
    for (String folder : folders.split(File.pathSeparator)) {
      File file = new File(folder, FILE);
      if (!folder.isEmpty() && file.isFile()) {
        return loadFile(file);
      }
    }
    return loadFromJar();
  }

  private static String loadFile(File file) throws IOException {
    try {
      System.load(file.getAbsolutePath());
      return file.getPath();
    } catch (UnsatisfiedLinkError e) {
      if (String.valueOf(e.getMessage()).contains("already loaded")) {
        try (InputStream in = Files.newInputStream(file.toPath())) {
          return loadCopy(in, file.getPath());
        }
      }
      throw unusable(file.getPath(), e);
    }
  }

  private static String loadFromJar() throws IOException {
    String resource = "/native/" + platform() + "/" + FILE;
    try (InputStream in = LibraryLoader.class.getResourceAsStream(resource)) {
      if (in == null) {
        throw new DfsLibraryException(
            "this libdfs jar has no native library for " + platform() + ": build it there"
                + " (cargo build --release -p dfs-jni) and start Java with -D" + PATH_PROPERTY
                + "=/folder/of/" + FILE,
            null);
      }
      return loadCopy(in, "of the jar");
    }
  }

  private static String loadCopy(InputStream in, String origin) throws IOException {
    String folder = System.getProperty(TEMP_PROPERTY, System.getProperty("java.io.tmpdir"));
    Path copy = Files.createTempFile(new File(folder).toPath(), "libdfs_jni-", ".so");
    try {
      Files.copy(in, copy, StandardCopyOption.REPLACE_EXISTING);
      System.load(copy.toAbsolutePath().toString());
      return origin;
    } catch (UnsatisfiedLinkError e) {
      throw unusable(
          origin + " (extracted to " + folder + "; if files there may not be executed, name another"
              + " folder with -D" + TEMP_PROPERTY + ")",
          e);
    } finally {
      // Linux keeps a mapped file after its name is gone, so nothing is left behind.
      Files.deleteIfExists(copy);
    }
  }

  private static DfsLibraryException unusable(String place, UnsatisfiedLinkError e) {
    return new DfsLibraryException(
        "the native library " + place + " cannot be loaded on " + platform() + ": "
            + e.getMessage() + "; it must be built for this system and processor (Linux with"
            + " glibc), see docs/java.md",
        e);
  }

  /** {@code linux-x86_64}, say. */
  static String platform() {
    String arch = System.getProperty("os.arch", "unknown");
    if (arch.equals("amd64")) {
      arch = "x86_64";
    }
    String os = System.getProperty("os.name", "unknown").toLowerCase(java.util.Locale.ROOT);
    return os.replace(' ', '_') + "-" + arch;
  }

  static String jarVersion() throws IOException {
    Properties properties = new Properties();
    try (InputStream in = LibraryLoader.class.getResourceAsStream("version.properties")) {
      if (in == null) {
        throw new DfsLibraryException("the libdfs jar lacks io/libdfs/version.properties", null);
      }
      properties.load(in);
    }
    return properties.getProperty("version", "unknown");
  }
}
