/*
 * Calls that never wait: flushes that are begun, polled and waited for, partial writes, a prepared
 * pipeline, closes in the background. argv: URI of a file system, a directory on it for this run.
 */
#define _POSIX_C_SOURCE 200809L
#include "check.h"
#include <stdint.h>
#include <time.h>

enum { RECORD = 300, RECORDS = 200 };

static dfs_error *error;

static void nap(void) {
  struct timespec pause = {0, 1000000L};
  nanosleep(&pause, NULL);
}

/* The same bytes come back. */
static void check_content(dfs_fs *fs, const char *path, const char *wanted, size_t len) {
  dfs_file *in = NULL;
  char *got = malloc(len + 1);
  CHECK(got != NULL);
  OK(dfs_open(fs, path, DFS_READ, NULL, &in, &error));
  CHECK(dfs_pread(in, 0, got, len + 1, &error) == (int64_t)len);
  CHECK(memcmp(got, wanted, len) == 0);
  dfs_file_free(in);
  free(got);
}

static void write_with_tickets(dfs_fs *fs, const char *path) {
  static char all[RECORD * RECORDS];
  dfs_file *out = NULL;
  int64_t told = 0, last = 0, up_to = 0;
  for (size_t i = 0; i < sizeof all; i++) all[i] = (char)('a' + (i / 7) % 26);
  OK(dfs_open(fs, path, DFS_WRITE | DFS_CREATE | DFS_CREATE_PARENTS | DFS_PREPARE, NULL, &out,
              &error));
  CHECK(dfs_file_pipeline(out, NULL, 0, &error) > 0);
  FAILS(dfs_flush_wait(out, 1, 0, &error), DFS_E_INVALID_ARGUMENT, "position 1");
  FAILS(dfs_flush_wait(out, -1, 0, &error), DFS_E_INVALID_ARGUMENT, "negative");
  FAILS(dfs_flush_begin(out, 1, &error), DFS_E_BAD_FLAGS, "0x1");
  FAILS(dfs_close_poll(out, &error), DFS_E_INVALID_ARGUMENT, "no close");
  for (int i = 0; i < RECORDS; i++) {
    size_t at = (size_t)i * RECORD, end = at + RECORD;
    while (at < end) {
      int64_t taken = dfs_try_write(out, all + at, end - at, NULL);
      if (taken == DFS_E_WOULD_BLOCK) {
        nap();
        continue;
      }
      OK(taken);
      at += (size_t)taken;
    }
    last = dfs_flush_begin(out, i % 50 == 0 ? DFS_FLUSH_SYNC : 0, &error);
    CHECK(last == (int64_t)end);
    if (i % 20 == 0) {
      OK(dfs_flush_wait(out, last, 10000, &error));
      CHECK(dfs_file_durable(out) >= last);
    }
    int64_t count = dfs_flush_poll(out, &up_to, &error);
    OK(count);
    CHECK(up_to <= last);
    told += count;
  }
  while (told < RECORDS) {
    int64_t count = dfs_flush_poll(out, &up_to, &error);
    OK(count);
    told += count;
    if (count == 0) nap();
  }
  CHECK(told == RECORDS && up_to == last && last == (int64_t)sizeof all);
  CHECK(dfs_flush_poll(out, NULL, &error) == 0);
  check_content(fs, path, all, sizeof all);
  OK(dfs_close_begin(out, &error));
  int32_t done;
  while ((done = dfs_close_poll(out, &error)) == 0) nap();
  CHECK(done == 1);
  FAILS(dfs_try_write(out, "x", 1, &error), DFS_E_CLOSED, "closed");
  FAILS(dfs_flush_begin(out, 0, &error), DFS_E_CLOSED, "closed");
  OK(dfs_close(out, &error));
  dfs_file_free(out);
  check_content(fs, path, all, sizeof all);
}

static void a_freed_handle_is_closed_all_the_same(dfs_fs *fs, const char *path) {
  dfs_file *out = NULL;
  OK(dfs_open(fs, path, DFS_WRITE | DFS_CREATE, NULL, &out, &error));
  OK(dfs_write(out, "0123456789", 10, &error));
  OK(dfs_close_begin(out, &error));
  dfs_file_free(out);
  int32_t closed;
  while ((closed = dfs_is_file_closed(fs, path, &error)) == 0) nap();
  OK(closed);
  check_content(fs, path, "0123456789", 10);
}

static void readers_and_bad_handles_are_refused(dfs_fs *fs, const char *path) {
  dfs_file *in = NULL;
  OK(dfs_open(fs, path, DFS_READ, NULL, &in, &error));
  FAILS(dfs_flush_begin(in, 0, &error), DFS_E_WRONG_MODE, "dfs_flush_begin");
  FAILS(dfs_flush_wait(in, 0, 0, &error), DFS_E_WRONG_MODE, "dfs_flush_wait");
  FAILS(dfs_flush_poll(in, NULL, &error), DFS_E_WRONG_MODE, "dfs_flush_poll");
  FAILS(dfs_try_write(in, "x", 1, &error), DFS_E_WRONG_MODE, "dfs_try_write");
  FAILS(dfs_prepare(in, &error), DFS_E_WRONG_MODE, "dfs_prepare");
  FAILS(dfs_close_begin(in, &error), DFS_E_WRONG_MODE, "dfs_close_begin");
  FAILS(dfs_close_poll(in, &error), DFS_E_WRONG_MODE, "dfs_close_poll");
  dfs_file_free(in);
  FAILS(dfs_flush_begin(in, 0, &error), DFS_E_BAD_HANDLE, "freed");
  FAILS(dfs_flush_poll(NULL, NULL, &error), DFS_E_NULL_POINTER, "file is NULL");
}

int main(int argc, char **argv) {
  char path[1024], other[1024];
  dfs_fs *fs = NULL;
  CHECK(argc == 3);
  snprintf(path, sizeof path, "%s/tickets", argv[2]);
  snprintf(other, sizeof other, "%s/freed", argv[2]);
  OK(dfs_connect(NULL, argv[1], &fs, &error));
  write_with_tickets(fs, path);
  a_freed_handle_is_closed_all_the_same(fs, other);
  readers_and_bad_handles_are_refused(fs, path);
  dfs_fs_free(fs);
  CHECK(dfs_shutdown() == DFS_OK);
  return 0;
}
