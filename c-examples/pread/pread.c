/*
 * pread: random reads of one file on many threads, as a key-value store does them.
 *
 * Shows that one file handle serves any number of threads, and what the connection cache does.
 */
#define _POSIX_C_SOURCE 200809L
#include <dfs.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char usage[] =
    "usage: pread [options] FILE\n"
    "Reads random parts of a file of HDFS on many threads and reports the latencies.\n"
    "FILE is hdfs://host:port/path, or /path on the file system of fs.defaultFS.\n"
    "\n"
    "  --threads N  threads (8)\n"
    "  --reads N    reads of each thread (1000)\n"
    "  --size N     bytes of each read (4096)\n"
    "  --create N   first create the file with N bytes, verify each read, and delete it at the end\n"
    "  --seed N     seed of the offsets (1)\n"
    "  --help       show this text\n"
    "\n"
    "The configuration is read from $HADOOP_CONF_DIR, else from $HADOOP_HOME/etc/hadoop.\n";

typedef struct worker {
  pthread_t thread;
  dfs_file *file;
  uint64_t length, seed;
  size_t size, reads;
  int verify;
  double *micros; /* one for each read */
  dfs_error *error;
  char problem[160]; /* empty: none */
} worker;

/* Prints why a call failed and frees the error; returns the exit code. */
static int failed(const char *what, dfs_error *error) {
  const char *class_name = dfs_error_remote_class(error, NULL);
  fprintf(stderr, "pread: %s: %s (%s%s%s)\n", what, dfs_error_message(error, NULL),
          dfs_status_name(dfs_error_status(error)), class_name ? ", " : "",
          class_name ? class_name : "");
  dfs_error_free(error);
  return EXIT_FAILURE;
}

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

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* The byte at an offset of a file that --create made. */
static unsigned char pattern(uint64_t offset) { return (unsigned char)(offset * 167 >> 5); }

static uint64_t next_random(uint64_t *state) {
  uint64_t x = *state;
  x ^= x << 13;
  x ^= x >> 7;
  x ^= x << 17;
  return *state = x;
}

static void *work(void *argument) {
  worker *w = argument;
  uint64_t random = w->seed;
  unsigned char *buffer = malloc(w->size);
  if (buffer == NULL) {
    snprintf(w->problem, sizeof w->problem, "no memory for a buffer of %zu bytes", w->size);
    return NULL;
  }
  for (size_t i = 0; i < w->reads && w->problem[0] == 0; i++) {
    uint64_t offset = w->length > w->size ? next_random(&random) % (w->length - w->size) : 0;
    uint64_t left = w->length - offset;
    int64_t wanted = (int64_t)(left < w->size ? left : w->size);
    double started = now();
    int64_t n = dfs_pread(w->file, offset, buffer, w->size, &w->error);
    w->micros[i] = (now() - started) * 1e6;
    if (n < 0) {
      snprintf(w->problem, sizeof w->problem, "reading at %llu", (unsigned long long)offset);
    } else if (n != wanted) {
      snprintf(w->problem, sizeof w->problem, "%lld bytes at %llu, not %lld", (long long)n,
               (unsigned long long)offset, (long long)wanted);
    } else if (w->verify) {
      for (int64_t k = 0; k < n; k++) {
        if (buffer[k] == pattern(offset + (uint64_t)k)) continue;
        snprintf(w->problem, sizeof w->problem, "wrong byte at %llu",
                 (unsigned long long)(offset + (uint64_t)k));
        break;
      }
    }
  }
  free(buffer);
  return NULL;
}

static int compare(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static int create(dfs_fs *fs, const char *path, uint64_t bytes) {
  static unsigned char buffer[64 * 1024];
  dfs_error *error = NULL;
  dfs_file *file = NULL;
  int flags = DFS_WRITE | DFS_CREATE | DFS_CREATE_PARENTS;
  if (dfs_open(fs, path, flags, NULL, &file, &error) < 0) return failed(path, error);
  int code = EXIT_SUCCESS;
  for (uint64_t done = 0; done < bytes && code == EXIT_SUCCESS;) {
    size_t n = bytes - done < sizeof buffer ? (size_t)(bytes - done) : sizeof buffer;
    for (size_t k = 0; k < n; k++) buffer[k] = pattern(done + k);
    if (dfs_write(file, buffer, n, &error) < 0) code = failed(path, error);
    done += n;
  }
  if (code == EXIT_SUCCESS && dfs_close(file, &error) < 0) code = failed(path, error);
  dfs_file_free(file);
  return code;
}

static int run(dfs_fs *fs, const char *path, size_t threads, size_t reads, size_t size,
               uint64_t seed, int verify) {
  dfs_error *error = NULL;
  dfs_file *file = NULL;
  if (dfs_open(fs, path, DFS_READ, NULL, &file, &error) < 0) return failed(path, error);
  worker *workers = calloc(threads, sizeof *workers);
  double *micros = calloc(threads * reads, sizeof *micros);
  int code = EXIT_SUCCESS;
  size_t started = 0;
  double begin = now();
  if (workers == NULL || micros == NULL) {
    fprintf(stderr, "pread: no memory for %zu threads\n", threads);
    code = EXIT_FAILURE;
  }
  for (; code == EXIT_SUCCESS && started < threads; started++) {
    worker *w = &workers[started];
    w->file = file;
    w->length = (uint64_t)dfs_file_length(file);
    w->seed = seed * 0x9E3779B97F4A7C15ULL + started + 1;
    w->size = size;
    w->reads = reads;
    w->verify = verify;
    w->micros = micros + started * reads;
    int problem = pthread_create(&w->thread, NULL, work, w);
    if (problem != 0) {
      fprintf(stderr, "pread: thread %zu: %s\n", started, strerror(problem));
      code = EXIT_FAILURE;
      break;
    }
  }
  for (size_t i = 0; i < started; i++) {
    worker *w = &workers[i];
    pthread_join(w->thread, NULL);
    if (w->problem[0] == 0) continue;
    code = EXIT_FAILURE;
    if (w->error != NULL) {
      failed(w->problem, w->error);
    } else {
      fprintf(stderr, "pread: %s: %s\n", path, w->problem);
    }
  }
  double seconds = now() - begin;
  dfs_stats stats = {0};
  stats.size = sizeof stats;
  if (code == EXIT_SUCCESS && dfs_stats_get(fs, &stats, &error) < 0) code = failed(path, error);
  if (code == EXIT_SUCCESS) {
    size_t count = threads * reads;
    qsort(micros, count, sizeof *micros, compare);
    printf("%zu reads of %zu bytes on %zu threads: %.0f reads/s\n", count, size, threads,
           (double)count / seconds);
    printf("latency: p50 %.0f us, p99 %.0f us, max %.0f us\n", micros[count / 2],
           micros[count * 99 / 100], micros[count - 1]);
    printf("connections: %llu made, %llu reads on cached ones, %llu stale\n",
           (unsigned long long)stats.read_connects, (unsigned long long)stats.read_cache_hits,
           (unsigned long long)stats.read_stale_peers);
  }
  free(micros);
  free(workers);
  dfs_file_free(file);
  return code;
}

int main(int argc, char **argv) {
  unsigned long long threads = 8, reads = 1000, size = 4096, bytes = 0, seed = 1;
  struct {
    const char *name;
    unsigned long long *value;
    unsigned long long min, max;
  } numbers[] = {{"--threads", &threads, 1, 10000},
                 {"--reads", &reads, 1, 10000000},
                 {"--size", &size, 1, 1 << 30},
                 {"--create", &bytes, 1, ~0ULL},
                 {"--seed", &seed, 1, ~0ULL}};
  int i = 1;
  for (; i < argc && strncmp(argv[i], "--", 2) == 0; i++) {
    if (strcmp(argv[i], "--help") == 0) {
      fputs(usage, stdout);
      return EXIT_SUCCESS;
    }
    size_t k = 0, count = sizeof numbers / sizeof numbers[0];
    while (k < count && strcmp(argv[i], numbers[k].name) != 0) k++;
    if (k == count || i + 1 == argc || !parse(argv[i + 1], numbers[k].value) ||
        *numbers[k].value < numbers[k].min || *numbers[k].value > numbers[k].max) {
      fprintf(stderr, "pread: bad option %s\n%s", argv[i], usage);
      return 2;
    }
    i++;
  }
  if (i != argc - 1) {
    fprintf(stderr, "pread: one file is needed\n%s", usage);
    return 2;
  }
  const char *url = argv[i], *path = path_of(url);
  dfs_error *error = NULL;
  dfs_fs *fs = NULL;
  const char *server = strncmp(url, "hdfs://", 7) == 0 ? url : NULL;
  if (dfs_connect(NULL, server, &fs, &error) < 0) return failed(url, error);
  int code = bytes > 0 ? create(fs, path, bytes) : EXIT_SUCCESS;
  if (code == EXIT_SUCCESS) {
    code = run(fs, path, (size_t)threads, (size_t)reads, (size_t)size, seed, bytes > 0);
    if (bytes > 0 && dfs_delete(fs, path, 0, &error) < 0) code = failed(path, error);
  }
  dfs_fs_free(fs);
  return code;
}
