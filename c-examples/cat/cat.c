/*
 * cat: prints files of HDFS.
 *
 * Shows the smallest reader: connect, open, dfs_read until it returns 0.
 */
#define _POSIX_C_SOURCE 200809L
#include <dfs.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "usage: cat [options] FILE...\n"
    "Prints files of HDFS to standard output.\n"
    "FILE is hdfs://host:port/path, or /path on the file system of fs.defaultFS.\n"
    "\n"
    "  --offset N   begin N bytes from the start of each file\n"
    "  --length N   print at most N bytes of each file\n"
    "  --no-verify  do not fetch and verify checksums\n"
    "  --help       show this text\n"
    "\n"
    "The configuration is read from $HADOOP_CONF_DIR, else from $HADOOP_HOME/etc/hadoop.\n";

/* Prints why a call failed and frees the error; returns the exit code. */
static int failed(const char *what, dfs_error *error) {
  const char *class_name = dfs_error_remote_class(error, NULL);
  fprintf(stderr, "cat: %s: %s (%s%s%s)\n", what, dfs_error_message(error, NULL),
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

static int print(const char *url, unsigned long long offset, unsigned long long length,
                 int verify) {
  static char buffer[1 << 20];
  dfs_error *error = NULL;
  dfs_fs *fs = NULL;
  dfs_file *file = NULL;
  int code = EXIT_SUCCESS;
  const char *server = strncmp(url, "hdfs://", 7) == 0 ? url : NULL;
  if (dfs_connect(NULL, server, &fs, &error) < 0) return failed(url, error);

  dfs_open_options options = DFS_OPEN_OPTIONS_INIT;
  options.verify_checksum = verify ? DFS_DEFAULT : DFS_NO;
  if (dfs_open(fs, path_of(url), DFS_READ, &options, &file, &error) < 0 ||
      (offset > 0 && dfs_seek(file, offset, &error) < 0)) {
    code = failed(url, error);
  } else {
    while (length > 0) {
      size_t wanted = length < sizeof buffer ? (size_t)length : sizeof buffer;
      int64_t n = dfs_read(file, buffer, wanted, &error);
      if (n < 0) {
        code = failed(url, error);
        break;
      }
      if (n == 0) break;
      if (fwrite(buffer, 1, (size_t)n, stdout) != (size_t)n) {
        fprintf(stderr, "cat: standard output: %s\n", strerror(errno));
        code = EXIT_FAILURE;
        break;
      }
      length -= (unsigned long long)n;
    }
  }
  dfs_file_free(file);
  dfs_fs_free(fs);
  return code;
}

int main(int argc, char **argv) {
  unsigned long long offset = 0, length = ~0ULL;
  int verify = 1, i = 1, code = EXIT_SUCCESS;
  for (; i < argc && strncmp(argv[i], "--", 2) == 0; i++) {
    if (strcmp(argv[i], "--help") == 0) {
      fputs(usage, stdout);
      return EXIT_SUCCESS;
    } else if (strcmp(argv[i], "--no-verify") == 0) {
      verify = 0;
    } else if (strcmp(argv[i], "--offset") == 0 && i + 1 < argc && parse(argv[i + 1], &offset)) {
      i++;
    } else if (strcmp(argv[i], "--length") == 0 && i + 1 < argc && parse(argv[i + 1], &length)) {
      i++;
    } else {
      fprintf(stderr, "cat: bad option %s\n%s", argv[i], usage);
      return 2;
    }
  }
  if (i == argc) {
    fprintf(stderr, "cat: no file is named\n%s", usage);
    return 2;
  }
  for (; i < argc; i++) {
    if (print(argv[i], offset, length, verify) != EXIT_SUCCESS) code = EXIT_FAILURE;
  }
  if (fflush(stdout) != 0) {
    fprintf(stderr, "cat: standard output: %s\n", strerror(errno));
    code = EXIT_FAILURE;
  }
  return code;
}
