package io.libdfs.testkit;

import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.nio.file.StandardCopyOption;
import java.util.List;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.hadoop.hdfs.HdfsConfiguration;
import org.apache.hadoop.hdfs.server.namenode.NameNode;
import org.apache.hadoop.metrics2.lib.DefaultMetricsSystem;

/**
 * Formats a name directory and runs the NameNode in the same JVM, which saves the start of a
 * second JVM.
 *
 * <p>Arguments: {@code format SOURCE COPY...} formats the configured directories (SOURCE is the
 * name directory) and copies the result to each COPY, the name directory of another NameNode;
 * {@code run} starts as it is.
 */
public final class NameNodeMain {
  private NameNodeMain() {}

  /** Entry point; see the class comment. */
  public static void main(String[] args) throws Exception {
    if (args.length == 0) {
      throw new IllegalArgumentException("expected: run | format NAME_DIR [COPY_DIR...]");
    }
    if (args[0].equals("format")) {
      // Formatting registers metrics that the NameNode registers again.
      DefaultMetricsSystem.setMiniClusterMode(true);
      NameNode.format(new HdfsConfiguration());
      for (int i = 2; i < args.length; i++) {
        copyTree(Paths.get(args[1]), Paths.get(args[i]));
      }
    }
    NameNode.main(new String[0]);
  }

  /** Copies into a sibling first and renames, so that a watcher sees all of it or nothing. */
  private static void copyTree(Path from, Path to) throws IOException {
    Path partial = Paths.get(to + ".partial");
    List<Path> sources;
    try (Stream<Path> walk = Files.walk(from)) {
      sources = walk.collect(Collectors.toList());
    }
    for (Path source : sources) {
      if (source.getFileName().toString().equals("in_use.lock")) {
        continue;
      }
      Path target = partial.resolve(from.relativize(source).toString());
      if (source.toFile().isDirectory()) {
        Files.createDirectories(target);
      } else {
        Files.copy(source, target, StandardCopyOption.REPLACE_EXISTING);
      }
    }
    File parent = to.toFile().getParentFile();
    if (parent != null) {
      Files.createDirectories(parent.toPath());
    }
    Files.move(partial, to);
  }
}
