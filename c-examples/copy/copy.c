/*
 * copy: copies a file between the local disk and HDFS, in either direction, with a progress bar.
 *
 * Shows writing with options, closing with a check, and cleaning up what a failure left behind.
 */
#define _POSIX_C_SOURCE 200809L
#include <dfs.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static const char usage[] =
    "usage: copy [options] SOURCE TARGET\n"
    "Copies a file; exactly one of the two is hdfs://host:port/path, the other is local.\n"
    "\n"
    "  --force          replace the target\n"
    "  --block-size N   bytes of a block of the new HDFS file (dfs.blocksize)\n"
    "  --replication N  replicas of the new HDFS file (dfs.replication)\n"
    "  --quiet          show no progress\n"
    "  --help           show this text\n"
    "\n"
    "The configuration is read from $HADOOP_CONF_DIR, else from $HADOOP_HOME/etc/hadoop.\n";

static char buffer[1 << 20];

/* Prints why a call failed and frees the error; returns the exit code. */
static int failed(const char *what, dfs_error *error) {
  const char *class_name = dfs_error_remote_class(error, NULL);
  fprintf(stderr, "copy: %s: %s (%s%s%s)\n", what, dfs_error_message(error, NULL),
          dfs_status_name(dfs_error_status(error)), class_name ? ", " : "",
          class_name ? class_name : "");
  dfs_error_free(error);
  return EXIT_FAILURE;
}

static int failed_locally(const char *what) {
  fprintf(stderr, "copy: %s: %s\n", what, strerror(errno));
  return EXIT_FAILURE;
}

static int is_hdfs(const char *url) { return strncmp(url, "hdfs://", 7) == 0; }

static const char *path_of(const char *url) {
  const char *slash = strchr(url + 7, '/');
  return slash ? slash : "/";
}

static int parse(const char *text, unsigned long long *value) {
  char *end;
  errno = 0;
  *value = strtoull(text, &end, 10);
  return text[0] >= '0' && text[0] <= '9' && *end == 0 && errno == 0;
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* The bar on standard error: drawn ten times a second, and once at the end. */
static struct {
  int quiet;
  double started, drawn;
  uint64_t total;
} bar;

static void progress(uint64_t done, int last) {
  double t = now();
  if (bar.quiet || (!last && t - bar.drawn < 0.1)) return;
  bar.drawn = t;
  double part = bar.total ? (double)done / (double)bar.total : 1;
  int filled = (int)((part > 1 ? 1 : part) * 40);
  double mib = (double)done / (1 << 20);
  double seconds = t - bar.started;
  fprintf(stderr, "\r[%.*s%*s] %3.0f%%  %.1f MiB, %.1f MiB/s%s", filled,
          "########################################", 40 - filled, "", 100 * part, mib,
          seconds > 0 ? mib / seconds : 0, last ? "\n" : "");
}

static void begin(uint64_t total) {
  bar.total = total;
  bar.started = now();
}

static int put(dfs_fs *fs, const char *source, const char *target, int force,
               const dfs_open_options *options) {
  dfs_error *error = NULL;
  dfs_file *file = NULL;
  struct stat facts;
  FILE *in = fopen(source, "rb");
  if (in == NULL || fstat(fileno(in), &facts) != 0) {
    if (in != NULL) fclose(in);
    return failed_locally(source);
  }
  begin((uint64_t)facts.st_size);
  int flags = DFS_WRITE | DFS_CREATE | DFS_CREATE_PARENTS | (force ? DFS_OVERWRITE : 0);
  if (dfs_open(fs, path_of(target), flags, options, &file, &error) < 0) {
    fclose(in);
    return failed(target, error);
  }
  int code = EXIT_SUCCESS;
  uint64_t done = 0;
  size_t n;
  while ((n = fread(buffer, 1, sizeof buffer, in)) > 0) {
    if (dfs_write(file, buffer, n, &error) < 0) {
      code = failed(target, error);
      break;
    }
    done += n;
    progress(done, 0);
  }
  if (code == EXIT_SUCCESS && ferror(in)) code = failed_locally(source);
  /* Only now the file is whole: the last packets are acknowledged and the NameNode agrees. */
  if (code == EXIT_SUCCESS && dfs_close(file, &error) < 0) code = failed(target, error);
  fclose(in);
  dfs_file_free(file);
  if (code == EXIT_SUCCESS) {
    progress(done, 1);
  } else if (dfs_delete(fs, path_of(target), 0, &error) < 0) {
    failed("removing what was written", error);
  }
  return code;
}

static int get(dfs_fs *fs, const char *source, const char *target, int force) {
  dfs_error *error = NULL;
  dfs_file *file = NULL;
  if (dfs_open(fs, path_of(source), DFS_READ, NULL, &file, &error) < 0) {
    return failed(source, error);
  }
  FILE *out = fopen(target, force ? "wb" : "wbx");
  if (out == NULL) {
    dfs_file_free(file);
    return failed_locally(target);
  }
  begin((uint64_t)dfs_file_length(file));
  int code = EXIT_SUCCESS;
  uint64_t done = 0;
  int64_t n;
  while ((n = dfs_read(file, buffer, sizeof buffer, &error)) > 0) {
    if (fwrite(buffer, 1, (size_t)n, out) != (size_t)n) {
      code = failed_locally(target);
      break;
    }
    done += (uint64_t)n;
    progress(done, 0);
  }
  if (n < 0) code = failed(source, error);
  if (fclose(out) != 0 && code == EXIT_SUCCESS) code = failed_locally(target);
  dfs_file_free(file);
  if (code == EXIT_SUCCESS) {
    progress(done, 1);
  } else if (remove(target) != 0) {
    failed_locally(target);
  }
  return code;
}

int main(int argc, char **argv) {
  dfs_open_options options = DFS_OPEN_OPTIONS_INIT;
  unsigned long long value;
  int force = 0, i = 1;
  bar.quiet = !isatty(STDERR_FILENO);
  for (; i < argc && strncmp(argv[i], "--", 2) == 0; i++) {
    if (strcmp(argv[i], "--help") == 0) {
      fputs(usage, stdout);
      return EXIT_SUCCESS;
    } else if (strcmp(argv[i], "--force") == 0) {
      force = 1;
    } else if (strcmp(argv[i], "--quiet") == 0) {
      bar.quiet = 1;
    } else if (strcmp(argv[i], "--block-size") == 0 && i + 1 < argc && parse(argv[i + 1], &value)) {
      options.block_size = value;
      i++;
    } else if (strcmp(argv[i], "--replication") == 0 && i + 1 < argc &&
               parse(argv[i + 1], &value) && value <= 512) {
      options.replication = (uint32_t)value;
      i++;
    } else {
      fprintf(stderr, "copy: bad option %s\n%s", argv[i], usage);
      return 2;
    }
  }
  if (i != argc - 2 || is_hdfs(argv[i]) == is_hdfs(argv[i + 1])) {
    fprintf(stderr, "copy: needs a source and a target, one of them an hdfs:// URL\n%s", usage);
    return 2;
  }
  const char *source = argv[i], *target = argv[i + 1];
  const char *url = is_hdfs(source) ? source : target;
  dfs_error *error = NULL;
  dfs_fs *fs = NULL;
  if (dfs_connect(NULL, url, &fs, &error) < 0) return failed(url, error);
  int code = is_hdfs(source) ? get(fs, source, target, force)
                             : put(fs, source, target, force, &options);
  dfs_fs_free(fs);
  return code;
}
