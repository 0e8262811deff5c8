/*
 * Warm dfs_write, dfs_hflush, dfs_read and dfs_pread allocate nothing on the caller's thread.
 * argv: URI of a file system, a directory on it for this run.
 *
 * The functions below stand before those of the C library, for libdfs too.
 */
#define _GNU_SOURCE
#include "check.h"
#include <errno.h>
#include <stdint.h>

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);

static __thread int counting;
static __thread long allocations;

void *malloc(size_t size) {
  allocations += counting;
  return __libc_malloc(size);
}

void *calloc(size_t count, size_t size) {
  allocations += counting;
  return __libc_calloc(count, size);
}

void *realloc(void *old, size_t size) {
  allocations += counting;
  return __libc_realloc(old, size);
}

void *aligned_alloc(size_t alignment, size_t size) {
  allocations += counting;
  return __libc_memalign(alignment, size);
}

int posix_memalign(void **out, size_t alignment, size_t size) {
  allocations += counting;
  *out = __libc_memalign(alignment, size);
  return *out ? 0 : ENOMEM;
}

static dfs_error *error;

static dfs_fs *fs;

/* Buffers that the pool did not have. */
static long cold_buffers(void) {
  dfs_stats stats = {0};
  stats.size = sizeof stats;
  OK(dfs_stats_get(fs, &stats, &error));
  return (long)stats.pool_misses;
}

/* Runs `call` often, and demands that the later half allocates nothing. If `more` is not 0, so
   many times, and buffers for the 80 packets that may be in flight. */
#define WARM(what, rounds, more, call) \
  do { \
    for (int round_ = 0; round_ < (rounds); round_++) OK(call); \
    long cold_ = cold_buffers(); \
    allocations = 0; \
    counting = 1; \
    for (int round_ = 0; round_ < (rounds); round_++) OK(call); \
    counting = 0; \
    cold_ = cold_buffers() - cold_; \
    if (allocations > cold_ + (more) || cold_ > ((more) ? 80 : 0)) { \
      fprintf(stderr, "%s: %ld allocations, %ld of them buffers, in %d calls\n", what, allocations, \
              cold_, rounds); \
      exit(1); \
    } \
  } while (0)

int main(int argc, char **argv) {
  static char data[1 << 16];
  char path[1024];
  dfs_file *out = NULL, *in = NULL;
  dfs_open_options options = DFS_OPEN_OPTIONS_INIT;
  CHECK(argc == 3);
  snprintf(path, sizeof path, "%s/warm", argv[2]);
  /* The counters do count. */
  counting = 1;
  free(malloc(1));
  counting = 0;
  CHECK(allocations == 1);
  OK(dfs_connect(NULL, argv[1], &fs, &error));
  OK(dfs_open(fs, path, DFS_WRITE | DFS_CREATE | DFS_CREATE_PARENTS, &options, &out, &error));
  WARM("dfs_write and dfs_hflush", 300, 0,
       dfs_write(out, data, 400, &error) < 0 ? -1 : dfs_hflush(out, &error));
  /* How many packets are in flight at once is up to the server: the list of them may still double,
     a few times in the life of a file. */
  WARM("dfs_write of large pieces", 100, 7, dfs_write(out, data, sizeof data, &error));
  OK(dfs_close(out, &error));
  dfs_file_free(out);
  OK(dfs_open(fs, path, DFS_READ, NULL, &in, &error));
  WARM("dfs_pread", 200, 0, dfs_pread(in, 12345, data, 4096, &error));
  WARM("dfs_read", 200, 0, dfs_read(in, data, 4096, &error));
  OK(dfs_close(in, &error));
  dfs_file_free(in);
  OK(dfs_delete(fs, path, 0, &error));
  dfs_fs_free(fs);
  return 0;
}
