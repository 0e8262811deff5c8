package io.libdfs;

import java.util.logging.Level;

/**
 * Takes the log lines of the native half and hands them to SLF4J, or to {@code java.util.logging}
 * where SLF4J is missing. Native threads never call Java: they fill a bounded ring, which a daemon
 * thread of ours empties. The logger is {@code io.libdfs}; the property {@code io.libdfs.log.level}
 * (error, warn, info, debug; info) bounds what is produced at all.
 */
final class LogDrain implements Runnable {
  private static final String NAME = "io.libdfs";
  private static final int WAIT_MS = 1000;

  private interface Sink {
    void log(int level, String text);
  }

  private static final class Slf4j implements Sink {
    private final org.slf4j.Logger log = org.slf4j.LoggerFactory.getLogger(NAME);

    @Override
    public void log(int level, String text) {
      switch (level) {
        case 1:
          log.error(text);
          break;
        case 2:
          log.warn(text);
          break;
        case 3:
          log.info(text);
          break;
        default:
          log.debug(text);
      }
    }
  }

  private static final class Jul implements Sink {
    private final java.util.logging.Logger log = java.util.logging.Logger.getLogger(NAME);

    @Override
    public void log(int level, String text) {
      Level[] levels = {Level.SEVERE, Level.WARNING, Level.INFO, Level.FINE};
      log.log(levels[Math.min(Math.max(level, 1), levels.length) - 1], text);
    }
  }

  private static volatile Sink sink;

  private LogDrain() {}

  private static Sink sink() {
    try {
      return new Slf4j();
    } catch (NoClassDefFoundError noSlf4j) {
      return new Jul();
    }
  }

  static void start() {
    sink = sink();
    String wanted = System.getProperty("io.libdfs.log.level", "info");
    int level = java.util.Arrays.asList("off", "error", "warn", "info", "debug").indexOf(wanted);
    if (level < 0) {
      sink.log(2, "io.libdfs.log.level is " + wanted + ", not error, warn, info or debug");
      level = 3;
    }
    if (level == 0) {
      return;
    }
    Natives.setLogLevel(level);
    Thread thread = new Thread(new LogDrain(), "libdfs-log");
    thread.setDaemon(true);
    // It must not keep the loader of whoever happened to come first.
    thread.setContextClassLoader(null);
    thread.start();
  }

  /** Logs a warning of the Java half. */
  static void warn(String text) {
    Sink to = sink;
    if (to != null) {
      to.log(2, text);
    }
  }

  @Override
  public void run() {
    while (true) {
      String line = Natives.takeLogLine(WAIT_MS);
      if (line != null && !line.isEmpty()) {
        sink.log(line.charAt(0) - '0', line.substring(1));
      }
      Leaks.collect();
    }
  }
}
