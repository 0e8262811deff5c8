/*
 * tail: prints the end of a file of HDFS, and follows it while it is being written.
 *
 * Shows how to read what a writer has flushed but not closed: dfs_file_refresh asks for the
 * visible length again, dfs_read goes up to it.
 */
#define _POSIX_C_SOURCE 200809L
#include <dfs.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char usage[] =
    "usage: tail [options] FILE\n"
    "Prints the last part of a file of HDFS.\n"
    "FILE is hdfs://host:port/path, or /path on the file system of fs.defaultFS.\n"
    "\n"
    "  --bytes N     print the last N bytes (1024)\n"
    "  --follow      wait for what writers flush, until the file is closed or SIGINT comes\n"
    "  --interval N  with --follow: look every N milliseconds (200)\n"
    "  --help        show this text\n"
    "\n"
    "The configuration is read from $HADOOP_CONF_DIR, else from $HADOOP_HOME/etc/hadoop.\n";

static volatile sig_atomic_t stopped;

static void stop(int signal) {
  (void)signal;
  stopped = 1;
}

/* Prints why a call failed and frees the error; returns the exit code. */
static int failed(const char *what, dfs_error *error) {
  const char *class_name = dfs_error_remote_class(error, NULL);
  fprintf(stderr, "tail: %s: %s (%s%s%s)\n", what, dfs_error_message(error, NULL),
          dfs_status_name(dfs_error_status(error)), class_name ? ", " : "",
          class_name ? class_name : "");
  dfs_error_free(error);
  return EXIT_FAILURE;
}

/* The path within an hdfs:// URL; the text itself if it is none. */
static const char *path_of(const char *url) {
  if (strncmp(url, "hdfs://", 7) != 0) return url;
  const char *slash = strchr(url + 7, '/');
  return slash ? slash : "/";
}

static int parse(const char *text, unsigned long long *value) {
  char *end;
  errno = 0;
  *value = strtoull(text, &end, 10);
  return text[0] >= '0' && text[0] <= '9' && *end == 0 && errno == 0;
}

/* Prints up to the known end of the file. */
static int print_rest(dfs_file *file, const char *url) {
  static char buffer[64 * 1024];
  dfs_error *error = NULL;
  int64_t n;
  while ((n = dfs_read(file, buffer, sizeof buffer, &error)) > 0) {
    if (fwrite(buffer, 1, (size_t)n, stdout) != (size_t)n || fflush(stdout) != 0) {
      fprintf(stderr, "tail: standard output: %s\n", strerror(errno));
      return EXIT_FAILURE;
    }
  }
  return n < 0 ? failed(url, error) : EXIT_SUCCESS;
}

static int follow(dfs_fs *fs, dfs_file *file, const char *url, unsigned long long interval_ms) {
  struct timespec pause = {(time_t)(interval_ms / 1000), (long)(interval_ms % 1000) * 1000000};
  dfs_error *error = NULL;
  while (!stopped) {
    /* Asked before the refresh: what came before the close is printed in any case. */
    int32_t closed = dfs_is_file_closed(fs, path_of(url), &error);
    if (closed < 0 || dfs_file_refresh(file, &error) < 0) {
      /* A network that is away for a moment is no reason to give up; a file that is gone is. */
      if (!dfs_error_is_retriable(error)) return failed(url, error);
      failed(url, error);
      error = NULL;
    } else {
      if (print_rest(file, url) != EXIT_SUCCESS) return EXIT_FAILURE;
      if (closed) return EXIT_SUCCESS;
    }
    nanosleep(&pause, NULL);
  }
  return EXIT_SUCCESS;
}

int main(int argc, char **argv) {
  unsigned long long bytes = 1024, interval_ms = 200;
  int follows = 0, i = 1, code = EXIT_FAILURE;
  for (; i < argc && strncmp(argv[i], "--", 2) == 0; i++) {
    if (strcmp(argv[i], "--help") == 0) {
      fputs(usage, stdout);
      return EXIT_SUCCESS;
    } else if (strcmp(argv[i], "--follow") == 0) {
      follows = 1;
    } else if (strcmp(argv[i], "--bytes") == 0 && i + 1 < argc && parse(argv[i + 1], &bytes)) {
      i++;
    } else if (strcmp(argv[i], "--interval") == 0 && i + 1 < argc &&
               parse(argv[i + 1], &interval_ms) && interval_ms > 0) {
      i++;
    } else {
      fprintf(stderr, "tail: bad option %s\n%s", argv[i], usage);
      return 2;
    }
  }
  if (i != argc - 1) {
    fprintf(stderr, "tail: one file is needed\n%s", usage);
    return 2;
  }
  const char *url = argv[i];

  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = stop;
  sigaction(SIGINT, &action, NULL);
  sigaction(SIGTERM, &action, NULL);

  dfs_error *error = NULL;
  dfs_fs *fs = NULL;
  dfs_file *file = NULL;
  const char *server = strncmp(url, "hdfs://", 7) == 0 ? url : NULL;
  if (dfs_connect(NULL, server, &fs, &error) < 0 ||
      dfs_open(fs, path_of(url), DFS_READ, NULL, &file, &error) < 0) {
    failed(url, error);
    goto out;
  }
  uint64_t length = (uint64_t)dfs_file_length(file);
  if (dfs_seek(file, length > bytes ? length - bytes : 0, &error) < 0) {
    failed(url, error);
    goto out;
  }
  code = print_rest(file, url);
  if (code == EXIT_SUCCESS && follows) code = follow(fs, file, url, interval_ms);
out:
  dfs_file_free(file);
  dfs_fs_free(fs);
  return code;
}
