/*
 * wal: a write-ahead log on HDFS, as databases keep it.
 *
 * Appends records and makes each durable with dfs_hflush before the next one, reads everything back
 * while the file is still open for writing, reads random records, closes, and reports latencies
 * and the counters of the library. With several threads the flushes are combined.
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
    "usage: wal [options] FILE\n"
    "Writes a log to HDFS, flushes each record, and reads it back while it is open.\n"
    "FILE is hdfs://host:port/path, or /path on the file system of fs.defaultFS. It must not exist.\n"
    "\n"
    "  --records N  records in all (10000)\n"
    "  --size N     bytes of each record, at least 32 (400)\n"
    "  --threads N  threads that append (1)\n"
    "  --reads N    random reads while the log is open (1000)\n"
    "  --sync       dfs_hsync instead of dfs_hflush: DataNodes sync to disk\n"
    "  --keep       do not delete the log at the end\n"
    "  --help       show this text\n"
    "\n"
    "The configuration is read from $HADOOP_CONF_DIR, else from $HADOOP_HOME/etc/hadoop.\n";

/* Every record begins with this; the rest is filler that follows from the number. */
typedef struct record_head {
  uint64_t number;
  uint64_t check; /* mixed from number and size: a record that is not whole does not have it */
} record_head;

/* What the appending threads share. */
typedef struct wal {
  dfs_file *file;
  size_t size;
  int sync;
  uint64_t records;
  pthread_mutex_t lock; /* gives out numbers in the order of the file */
  uint64_t next;
} wal;

typedef struct appender {
  pthread_t thread;
  wal *log;
  double *micros; /* room for all records; `count` are used */
  uint64_t count;
  dfs_error *error; /* NULL: all went well */
  int no_memory;
} appender;

/* Prints why a call failed and frees the error; returns the exit code. */
static int failed(const char *what, dfs_error *error) {
  const char *class_name = dfs_error_remote_class(error, NULL);
  int64_t durable = dfs_error_durable_bytes(error);
  fprintf(stderr, "wal: %s: %s (%s%s%s)\n", what, dfs_error_message(error, NULL),
          dfs_status_name(dfs_error_status(error)), class_name ? ", " : "",
          class_name ? class_name : "");
  if (durable >= 0) fprintf(stderr, "wal: %lld bytes are durable\n", (long long)durable);
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

static void make_record(unsigned char *record, size_t size, uint64_t number) {
  record_head head = {number, (number + 1) * 0x9E3779B97F4A7C15ULL ^ size};
  memcpy(record, &head, sizeof head);
  for (size_t i = sizeof head; i < size; i++) record[i] = (unsigned char)(number * 31 + i);
}

static int same_record(const unsigned char *record, size_t size, uint64_t number) {
  record_head head;
  memcpy(&head, record, sizeof head);
  if (head.number != number || head.check != ((number + 1) * 0x9E3779B97F4A7C15ULL ^ size)) return 0;
  for (size_t i = sizeof head; i < size; i++) {
    if (record[i] != (unsigned char)(number * 31 + i)) return 0;
  }
  return 1;
}

static void *append(void *argument) {
  appender *a = argument;
  wal *log = a->log;
  unsigned char *record = malloc(log->size);
  if (record == NULL) {
    a->no_memory = 1;
    return NULL;
  }
  for (;;) {
    double started = now();
    int64_t written = 0;
    /* The lock makes the file's order that of the numbers; the flush is outside of it, so that
       several threads can be served by one packet. */
    pthread_mutex_lock(&log->lock);
    int more = log->next < log->records;
    if (more) {
      make_record(record, log->size, log->next);
      written = dfs_write(log->file, record, log->size, &a->error);
      if (written >= 0) log->next++;
    }
    pthread_mutex_unlock(&log->lock);
    if (!more || written < 0) break;
    int32_t status =
        log->sync ? dfs_hsync(log->file, 0, &a->error) : dfs_hflush(log->file, &a->error);
    if (status < 0) break;
    a->micros[a->count++] = (now() - started) * 1e6;
  }
  free(record);
  return NULL;
}

static int compare(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static void print_latency(const char *what, double *micros, size_t count, double seconds) {
  if (count == 0) return;
  qsort(micros, count, sizeof *micros, compare);
  printf("%-8s %zu in %.2f s, %.0f/s: p50 %.0f us, p99 %.0f us, p99.9 %.0f us, max %.0f us\n", what,
         count, seconds, (double)count / seconds, micros[count / 2], micros[count * 99 / 100],
         micros[count * 999 / 1000], micros[count - 1]);
}

static int append_all(wal *log, size_t threads) {
  appender *appenders = calloc(threads, sizeof *appenders);
  double *micros = calloc(log->records, sizeof *micros);
  int code = EXIT_SUCCESS;
  size_t started = 0;
  uint64_t count = 0;
  double begin = now();
  if (appenders == NULL || micros == NULL) {
    fprintf(stderr, "wal: no memory for %llu records\n", (unsigned long long)log->records);
    code = EXIT_FAILURE;
  }
  for (; code == EXIT_SUCCESS && started < threads; started++) {
    appender *a = &appenders[started];
    a->log = log;
    a->micros = calloc(log->records, sizeof *a->micros);
    int problem = a->micros == NULL ? ENOMEM : pthread_create(&a->thread, NULL, append, a);
    if (problem != 0) {
      fprintf(stderr, "wal: thread %zu: %s\n", started, strerror(problem));
      free(a->micros);
      code = EXIT_FAILURE;
      break;
    }
  }
  for (size_t i = 0; i < started; i++) {
    appender *a = &appenders[i];
    pthread_join(a->thread, NULL);
    memcpy(micros + count, a->micros, a->count * sizeof *micros);
    count += a->count;
    free(a->micros);
    if (a->error != NULL) code = failed("appending", a->error);
    if (a->no_memory) {
      fprintf(stderr, "wal: no memory for a record of %zu bytes\n", log->size);
      code = EXIT_FAILURE;
    }
  }
  if (code == EXIT_SUCCESS) {
    print_latency(log->sync ? "hsync" : "hflush", micros, (size_t)count, now() - begin);
  }
  free(micros);
  free(appenders);
  return code;
}

/* Reads what was flushed while the file is open for writing: all of it, then random records. */
static int read_back(dfs_fs *fs, const char *path, const wal *log, size_t reads) {
  dfs_error *error = NULL;
  dfs_file *file = NULL;
  if (dfs_open(fs, path, DFS_READ, NULL, &file, &error) < 0) return failed("opening", error);
  int code = EXIT_SUCCESS;
  unsigned char *record = malloc(log->size);
  double *micros = calloc(reads + 1, sizeof *micros);
  uint64_t length = (uint64_t)dfs_file_length(file);
  uint64_t random = 88172645463325252ULL;
  if (record == NULL || micros == NULL) {
    fprintf(stderr, "wal: no memory for reading\n");
    code = EXIT_FAILURE;
  } else if (length != log->records * log->size) {
    fprintf(stderr, "wal: readers see %llu bytes of %llu that were flushed\n",
            (unsigned long long)length, (unsigned long long)(log->records * log->size));
    code = EXIT_FAILURE;
  }
  double begin = now();
  for (uint64_t number = 0; code == EXIT_SUCCESS && number < log->records; number++) {
    int64_t n = dfs_read(file, record, log->size, &error);
    if (n < 0) {
      code = failed("reading back", error);
    } else if ((size_t)n != log->size || !same_record(record, log->size, number)) {
      fprintf(stderr, "wal: record %llu is not as it was written\n", (unsigned long long)number);
      code = EXIT_FAILURE;
    }
  }
  if (code == EXIT_SUCCESS) {
    double seconds = now() - begin;
    printf("verified %llu records, %llu bytes, in %.2f s, while the log is open for writing\n",
           (unsigned long long)log->records, (unsigned long long)length, seconds);
  }
  begin = now();
  for (size_t i = 0; code == EXIT_SUCCESS && i < reads; i++) {
    random ^= random << 13, random ^= random >> 7, random ^= random << 17;
    uint64_t number = random % log->records;
    double started = now();
    int64_t n = dfs_pread(file, number * log->size, record, log->size, &error);
    micros[i] = (now() - started) * 1e6;
    if (n < 0) {
      code = failed("reading", error);
    } else if ((size_t)n != log->size || !same_record(record, log->size, number)) {
      fprintf(stderr, "wal: record %llu is not as it was written\n", (unsigned long long)number);
      code = EXIT_FAILURE;
    }
  }
  if (code == EXIT_SUCCESS) print_latency("pread", micros, reads, now() - begin);
  free(micros);
  free(record);
  dfs_file_free(file);
  return code;
}

static int print_stats(dfs_fs *fs) {
  dfs_error *error = NULL;
  dfs_stats s = {0};
  s.size = sizeof s;
  if (dfs_stats_get(fs, &s, &error) < 0) return failed("counters", error);
  printf("pool     %.1f KiB in use, %.1f KiB free, %.1f KiB peak; %llu hits, %llu misses, %llu waits\n",
         (double)s.pool_in_use_bytes / 1024, (double)s.pool_free_bytes / 1024,
         (double)s.pool_peak_bytes / 1024, (unsigned long long)s.pool_hits,
         (unsigned long long)s.pool_misses, (unsigned long long)s.pool_waits);
  printf("writes   %llu packets, %llu flushes (%llu combined), %llu blocks, %llu recoveries\n",
         (unsigned long long)s.packets_sent, (unsigned long long)s.flushes,
         (unsigned long long)s.flushes_combined, (unsigned long long)s.blocks_written,
         (unsigned long long)s.pipeline_recoveries);
  printf("reads    %llu requests, %llu connections made, %llu taken from the cache\n",
         (unsigned long long)s.read_requests, (unsigned long long)s.read_connects,
         (unsigned long long)s.read_cache_hits);
  return EXIT_SUCCESS;
}

static int run(dfs_fs *fs, const char *path, wal *log, size_t threads, size_t reads) {
  dfs_error *error = NULL;
  int flags = DFS_WRITE | DFS_CREATE | DFS_CREATE_PARENTS;
  if (dfs_open(fs, path, flags, NULL, &log->file, &error) < 0) return failed(path, error);
  int code = append_all(log, threads);
  if (code == EXIT_SUCCESS) {
    char pipeline[1024];
    if (dfs_file_pipeline(log->file, pipeline, sizeof pipeline, NULL) > 0) {
      printf("pipeline %s; %lld bytes durable\n", pipeline, (long long)dfs_file_durable(log->file));
    }
    code = read_back(fs, path, log, reads);
  }
  if (code == EXIT_SUCCESS && dfs_close(log->file, &error) < 0) code = failed("closing", error);
  dfs_file_free(log->file);
  if (code == EXIT_SUCCESS) code = print_stats(fs);
  return code;
}

int main(int argc, char **argv) {
  unsigned long long records = 10000, size = 400, threads = 1, reads = 1000;
  struct {
    const char *name;
    unsigned long long *value;
    unsigned long long min, max;
  } numbers[] = {{"--records", &records, 1, 100000000},
                 {"--size", &size, 32, 1 << 30},
                 {"--threads", &threads, 1, 1000},
                 {"--reads", &reads, 0, 100000000}};
  int i = 1, keep = 0;
  wal log;
  memset(&log, 0, sizeof log);
  for (; i < argc && strncmp(argv[i], "--", 2) == 0; i++) {
    if (strcmp(argv[i], "--help") == 0) {
      fputs(usage, stdout);
      return EXIT_SUCCESS;
    }
    if (strcmp(argv[i], "--sync") == 0 || strcmp(argv[i], "--keep") == 0) {
      *(argv[i][2] == 's' ? &log.sync : &keep) = 1;
      continue;
    }
    size_t k = 0, count = sizeof numbers / sizeof numbers[0];
    while (k < count && strcmp(argv[i], numbers[k].name) != 0) k++;
    if (k == count || i + 1 == argc || !parse(argv[i + 1], numbers[k].value) ||
        *numbers[k].value < numbers[k].min || *numbers[k].value > numbers[k].max) {
      fprintf(stderr, "wal: bad option %s\n%s", argv[i], usage);
      return 2;
    }
    i++;
  }
  if (i != argc - 1) {
    fprintf(stderr, "wal: one file is needed\n%s", usage);
    return 2;
  }
  const char *url = argv[i], *path = path_of(url);
  log.records = records;
  log.size = (size_t)size;
  pthread_mutex_init(&log.lock, NULL);

  dfs_error *error = NULL;
  dfs_fs *fs = NULL;
  const char *server = strncmp(url, "hdfs://", 7) == 0 ? url : NULL;
  if (dfs_connect(NULL, server, &fs, &error) < 0) return failed(url, error);
  printf("libdfs %s, %s%s\n", dfs_version_string(), dfs_fs_uri(fs, NULL), path);
  int code = run(fs, path, &log, (size_t)threads, (size_t)reads);
  if (code == EXIT_SUCCESS && !keep && dfs_delete(fs, path, 0, &error) < 0) {
    code = failed(path, error);
  }
  dfs_fs_free(fs);
  pthread_mutex_destroy(&log.lock);
  return code;
}
