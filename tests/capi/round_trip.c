/*
 * Every call at work: write, flush, read back while open, close, names, lists, facts.
 * argv: URI of a file system, a directory on it for this run.
 */
#define _POSIX_C_SOURCE 200809L
#include "check.h"
#include <pthread.h>
#include <stdint.h>
#include <time.h>

static dfs_error *error;
static dfs_fs *fs;
static const char *base;

static const char *at(const char *name) {
  static char paths[8][1024];
  static int turn;
  char *path = paths[turn++ % 8];
  snprintf(path, sizeof paths[0], "%s/%s", base, name);
  return path;
}

static unsigned char pattern(uint64_t offset) { return (unsigned char)(offset * 131 >> 3); }

static void fill(unsigned char *to, uint64_t offset, size_t count) {
  for (size_t i = 0; i < count; i++) to[i] = pattern(offset + i);
}

static int same(const unsigned char *data, uint64_t offset, size_t count) {
  for (size_t i = 0; i < count; i++) {
    if (data[i] != pattern(offset + i)) return 0;
  }
  return 1;
}

static uint64_t length_of(const char *path) {
  dfs_file_status *status = NULL;
  dfs_file_info info = {0};
  info.size = sizeof info;
  OK(dfs_stat(fs, path, &status, &error));
  OK(dfs_file_status_get(status, &info, &error));
  CHECK(info.kind == DFS_KIND_FILE && info.path_len == strlen(path));
  CHECK(strcmp(info.path, path) == 0 && strcmp(info.name, strrchr(path, '/') + 1) == 0);
  CHECK(info.name_len == strlen(info.name) && info.owner_len > 0 && info.symlink == NULL);
  uint64_t length = info.length;
  dfs_file_status_free(status);
  return length;
}

enum { BLOCK = 1 << 20, TOTAL = 2 * BLOCK + 12345 };

static void data(void) {
  static unsigned char buffer[TOTAL];
  const char *path = at("data");
  dfs_file *out = NULL, *in = NULL;
  dfs_open_options options = DFS_OPEN_OPTIONS_INIT;
  options.block_size = BLOCK;
  options.permission = 0640;
  options.timeout_ms = 60000;
  OK(dfs_open(fs, path, DFS_WRITE | DFS_CREATE | DFS_CREATE_PARENTS, &options, &out, &error));
  CHECK(strcmp(dfs_file_path(out, NULL), path) == 0);
  FAILS(dfs_open(fs, path, DFS_WRITE | DFS_CREATE, NULL, &in, &error), DFS_E_LEASE_HELD, path);

  uint64_t done = 0;
  fill(buffer, 0, TOTAL);
  for (size_t step = 1; done < 5000; done += step, step = step * 3 % 257 + 1) {
    CHECK(dfs_write(out, buffer + done, step, &error) == (int64_t)step);
  }
  CHECK(dfs_tell(out) == (int64_t)done && dfs_file_length(out) == (int64_t)done);
  OK(dfs_hflush(out, &error));
  CHECK(dfs_file_durable(out) == (int64_t)done);
  char nodes[512];
  CHECK(dfs_file_pipeline(out, nodes, sizeof nodes, &error) == (int64_t)strlen(nodes));
  CHECK(strchr(nodes, ':') != NULL);
  char few[4];
  CHECK(dfs_file_pipeline(out, few, sizeof few, &error) == (int64_t)strlen(nodes));
  CHECK(strlen(few) == 3 && strncmp(few, nodes, 3) == 0);

  /* A reader sees what was flushed, though the file is open, and later what came since. */
  OK(dfs_open(fs, path, DFS_READ, NULL, &in, &error));
  CHECK(dfs_file_length(in) == (int64_t)done && dfs_available(in) == (int64_t)done);
  unsigned char *got = calloc(1, TOTAL);
  CHECK(got != NULL);
  CHECK(dfs_read(in, got, TOTAL, &error) == (int64_t)done && same(got, 0, (size_t)done));
  CHECK(dfs_read(in, got, TOTAL, &error) == 0 && dfs_available(in) == 0);
  uint64_t before = done;
  CHECK(dfs_write(out, buffer + done, 1000, &error) == 1000);
  done += 1000;
  OK(dfs_hsync(out, DFS_HSYNC_UPDATE_LENGTH, &error));
  CHECK(length_of(path) == done);
  CHECK(dfs_file_refresh(in, &error) == (int64_t)done);
  CHECK(dfs_read(in, got, TOTAL, &error) == 1000 && same(got, before, 1000));
  OK(dfs_close(in, &error));
  dfs_file_free(in);

  CHECK(dfs_write(out, buffer + done, TOTAL - done, &error) == (int64_t)(TOTAL - done));
  OK(dfs_close(out, &error));
  CHECK(dfs_is_file_closed(fs, path, &error) == 1);
  CHECK(dfs_file_durable(out) == TOTAL);
  dfs_file_free(out);
  CHECK(length_of(path) == TOTAL);
  FAILS(dfs_open(fs, path, DFS_WRITE | DFS_CREATE, NULL, &in, &error), DFS_E_EXISTS, path);

  OK(dfs_open(fs, path, DFS_READ, NULL, &in, &error));
  OK(dfs_file_set_timeout(in, 30000));
  CHECK(dfs_pread(in, BLOCK - 77, got, 200, &error) == 200 && same(got, BLOCK - 77, 200));
  CHECK(dfs_pread(in, TOTAL - 5, got, 200, &error) == 5 && same(got, TOTAL - 5, 5));
  CHECK(dfs_pread(in, TOTAL + 5, got, 200, &error) == 0 && dfs_tell(in) == 0);
  OK(dfs_seek(in, BLOCK + 1, &error));
  CHECK(dfs_tell(in) == BLOCK + 1);
  CHECK(dfs_read(in, got, 4096, &error) == 4096 && same(got, BLOCK + 1, 4096));
  CHECK(dfs_file_unbuffer(in) == DFS_OK);
  CHECK(dfs_read(in, got, 10, &error) == 10 && same(got, BLOCK + 1 + 4096, 10));
  dfs_range ranges[3] = {{TOTAL - 10, got, 100, -1}, {0, got + 100, 100, -1}, {BLOCK - 50, got + 200, 100, -1}};
  CHECK(dfs_preadv(in, ranges, 3, &error) == 210);
  CHECK(ranges[0].done == 10 && ranges[1].done == 100 && ranges[2].done == 100);
  CHECK(same(got, TOTAL - 10, 10) && same(got + 100, 0, 100) && same(got + 200, BLOCK - 50, 100));
  dfs_file_free(in);
  free(got);

  OK(dfs_open(fs, path, DFS_WRITE | DFS_APPEND, NULL, &out, &error));
  CHECK(dfs_tell(out) == TOTAL && dfs_write(out, "tail", 4, &error) == 4);
  OK(dfs_close(out, &error));
  dfs_file_free(out);
  CHECK(length_of(path) == TOTAL + 4);
  OK(dfs_open(fs, at("appended"), DFS_WRITE | DFS_APPEND | DFS_CREATE, NULL, &out, &error));
  OK(dfs_close(out, &error));
  dfs_file_free(out);
  CHECK(length_of(at("appended")) == 0);
}

static void facts(void) {
  const char *path = at("data");
  dfs_blocks *blocks = NULL;
  OK(dfs_block_locations(fs, path, 0, UINT64_MAX, &blocks, &error));
  CHECK(dfs_blocks_count(blocks) == 3);
  uint64_t offset = 0;
  for (size_t i = 0; i < 3; i++) {
    dfs_block_info block = {0};
    dfs_replica_info replica = {0};
    block.size = sizeof block;
    replica.size = sizeof replica;
    OK(dfs_blocks_get(blocks, i, &block, &error));
    CHECK(block.offset == offset && block.replica_count >= 1 && !block.corrupt);
    offset += block.length;
    OK(dfs_blocks_replica(blocks, i, 0, &replica, &error));
    CHECK(replica.host_len > 0 && strchr(replica.address, ':') != NULL);
    FAILS(dfs_blocks_replica(blocks, i, 99, &replica, &error), DFS_E_INVALID_ARGUMENT, "replica 99");
  }
  CHECK(offset == TOTAL + 4);
  dfs_block_info none = {0};
  none.size = sizeof none;
  FAILS(dfs_blocks_get(blocks, 3, &none, &error), DFS_E_INVALID_ARGUMENT, "index 3");
  dfs_blocks_free(blocks);

  dfs_content_info content = {0};
  content.size = sizeof content;
  OK(dfs_content_summary(fs, base, &content, &error));
  CHECK(content.length == TOTAL + 4 && content.file_count == 2 && content.directory_count == 1);
  dfs_fs_info whole = {0};
  whole.size = sizeof whole;
  OK(dfs_fs_status(fs, &whole, &error));
  CHECK(whole.capacity > 0);

  dfs_checksum_info sum = {0}, part = {0};
  sum.size = part.size = sizeof sum;
  OK(dfs_checksum(fs, path, UINT64_MAX, DFS_FILE_CHECKSUM_MD5MD5CRC, &sum, &error));
  CHECK(sum.byte_count == 28 && strstr(sum.algorithm, "MD5-of-") == sum.algorithm);
  OK(dfs_checksum(fs, path, UINT64_MAX, DFS_FILE_CHECKSUM_COMPOSITE_CRC, &sum, &error));
  CHECK(sum.byte_count == 4 && strcmp(sum.algorithm, "COMPOSITE-CRC32C") == 0);
  OK(dfs_checksum(fs, path, 1000, DFS_FILE_CHECKSUM_COMPOSITE_CRC, &part, &error));
  unsigned char head[1000], crc[4];
  fill(head, 0, sizeof head);
  CHECK(dfs_checksum_chunks(DFS_CHECKSUM_CRC32C, sizeof head, head, sizeof head, crc, 4, &error) == 4);
  CHECK(memcmp(crc, part.bytes, 4) == 0);
  FAILS(dfs_checksum(fs, path, 0, 9, &sum, &error), DFS_E_INVALID_ARGUMENT, "mode 9");

  dfs_stats stats = {0};
  stats.size = sizeof stats;
  OK(dfs_stats_get(fs, &stats, &error));
  CHECK(stats.bytes_written == TOTAL + 4 && stats.flushes >= 2 && stats.blocks_written >= 3);
  CHECK(stats.bytes_read > 0 && stats.read_requests > 0 && stats.open_writers == 0);
  dfs_stats old = {0};
  old.size = 16; /* a caller of an older release */
  OK(dfs_stats_get(fs, &old, &error));
  CHECK(old.size == 16 && old.pool_free_bytes == 0);
}

static void names(void) {
  dfs_list_iter *list = NULL;
  dfs_file_info info = {0};
  dfs_file_status *status = NULL;
  info.size = sizeof info;
  FAILS(dfs_mkdir(fs, at("a/b"), 0, 0, &error), DFS_E_NOT_FOUND, at("a"));
  OK(dfs_mkdir(fs, at("a/b"), 0750, DFS_CREATE_PARENTS, &error));
  OK(dfs_mkdir(fs, at("a/b"), 0, DFS_CREATE_PARENTS, &error));
  OK(dfs_list(fs, base, &list, &error));
  const char *wanted[] = {"a", "appended", "data"};
  for (int i = 0; i < 3; i++) {
    CHECK(dfs_list_next(list, &info, &error) == 1);
    CHECK(strcmp(info.name, wanted[i]) == 0 && strcmp(info.path, at(wanted[i])) == 0);
    CHECK(info.kind == (i == 0 ? DFS_KIND_DIRECTORY : DFS_KIND_FILE));
  }
  CHECK(info.mode == 0640 && info.block_size == BLOCK && info.length == TOTAL + 4);
  CHECK(dfs_list_next(list, &info, &error) == 0 && dfs_list_next(list, &info, &error) == 0);
  dfs_list_free(list);
  FAILS(dfs_list(fs, at("none"), &list, &error), DFS_E_NOT_FOUND, at("none"));

  OK(dfs_rename(fs, at("appended"), at("a/moved"), 0, &error));
  FAILS(dfs_rename(fs, at("data"), at("a/moved"), 0, &error), DFS_E_EXISTS, at("a/moved"));
  OK(dfs_rename(fs, at("data"), at("a/moved"), DFS_RENAME_OVERWRITE, &error));
  CHECK(length_of(at("a/moved")) == TOTAL + 4);
  OK(dfs_set_permission(fs, at("a/moved"), 0600, &error));
  OK(dfs_set_replication(fs, at("a/moved"), 1, &error));
  FAILS(dfs_set_replication(fs, at("a"), 1, &error), DFS_E_IS_DIRECTORY, at("a"));
  OK(dfs_set_times(fs, at("a/moved"), 1234567890123, -1, &error));
  OK(dfs_set_owner(fs, at("a/moved"), NULL, "somegroup", &error));
  OK(dfs_stat(fs, at("a/moved"), &status, &error));
  OK(dfs_file_status_get(status, &info, &error));
  CHECK(info.mode == 0600 && info.replication == 1 && info.mtime_ms == 1234567890123);
  CHECK(strcmp(info.group, "somegroup") == 0);
  dfs_file_status_free(status);

  int32_t cut = dfs_truncate(fs, at("a/moved"), BLOCK, &error);
  OK(cut);
  CHECK(cut == 1 && length_of(at("a/moved")) == BLOCK);
  FAILS(dfs_truncate(fs, at("a/moved"), TOTAL, &error), DFS_E_INVALID_ARGUMENT, at("a/moved"));
  FAILS(dfs_delete(fs, at("a"), 0, &error), DFS_E_NOT_EMPTY, at("a"));
  CHECK(dfs_delete(fs, at("a"), DFS_DELETE_RECURSIVE, &error) == 1);
  CHECK(dfs_delete(fs, at("a"), DFS_DELETE_RECURSIVE, &error) == 0);
}

static void abandoned(void) {
  const char *path = at("abandoned");
  struct timespec pause = {0, 100000000};
  dfs_file *file = NULL;
  OK(dfs_open(fs, path, DFS_WRITE | DFS_CREATE, NULL, &file, &error));
  CHECK(dfs_write(file, "kept", 4, &error) == 4);
  OK(dfs_hflush(file, &error));
  CHECK(dfs_write(file, "lost", 4, &error) == 4);
  CHECK(dfs_is_file_closed(fs, path, &error) == 0);
  dfs_file_free(file);
  int32_t closed = dfs_recover_lease(fs, path, &error);
  for (int i = 0; closed == 0 && i < 600; i++) {
    nanosleep(&pause, NULL);
    closed = dfs_is_file_closed(fs, path, &error);
  }
  OK(closed);
  CHECK(closed == 1 && length_of(path) == 4);
}

typedef struct flusher {
  pthread_t thread;
  dfs_file *file;
  int failures;
} flusher;

static void *flush_lines(void *argument) {
  flusher *f = argument;
  for (int i = 0; i < 50; i++) {
    if (dfs_write(f->file, "0123456789abcde\n", 16, NULL) != 16) f->failures++;
    if (dfs_hflush(f->file, NULL) != DFS_OK) f->failures++;
  }
  return NULL;
}

static void shared_file(void) {
  enum { THREADS = 4, LINES = THREADS * 50 };
  const char *path = at("shared");
  static char got[LINES * 16 + 1];
  flusher flushers[THREADS];
  dfs_file *file = NULL;
  OK(dfs_open(fs, path, DFS_WRITE | DFS_CREATE, NULL, &file, &error));
  for (int i = 0; i < THREADS; i++) {
    flushers[i].file = file;
    flushers[i].failures = 0;
    CHECK(pthread_create(&flushers[i].thread, NULL, flush_lines, &flushers[i]) == 0);
  }
  for (int i = 0; i < THREADS; i++) {
    pthread_join(flushers[i].thread, NULL);
    CHECK(flushers[i].failures == 0);
  }
  CHECK(dfs_file_durable(file) == LINES * 16);
  OK(dfs_close(file, &error));
  dfs_file_free(file);
  OK(dfs_open(fs, path, DFS_READ, NULL, &file, &error));
  CHECK(dfs_read(file, got, sizeof got, &error) == LINES * 16);
  for (int i = 0; i < LINES; i++) CHECK(memcmp(got + i * 16, "0123456789abcde\n", 16) == 0);
  dfs_file_free(file);
}

static void count_line(int32_t level, const char *line, size_t len, void *user_data) {
  if (level >= DFS_LOG_ERROR && level <= DFS_LOG_DEBUG && strlen(line) == len && len > 0) {
    __atomic_fetch_add((int *)user_data, 1, __ATOMIC_RELAXED);
  }
}

int main(int argc, char **argv) {
  int lines = 0;
  CHECK(argc == 3);
  base = argv[2];
  OK(dfs_log_set(DFS_LOG_DEBUG, count_line, &lines, &error));
  OK(dfs_connect(NULL, argv[1], &fs, &error));
  OK(dfs_fs_set_timeout(fs, 60000));
  size_t length = 0;
  const char *uri = dfs_fs_uri(fs, &length);
  CHECK(uri != NULL && strlen(uri) == length && strcmp(uri, argv[1]) == 0);
  data();
  facts();
  names();
  abandoned();
  shared_file();
  CHECK(dfs_delete(fs, base, DFS_DELETE_RECURSIVE, &error) == 1);
  dfs_error *ignored = NULL;
  dfs_file_free((dfs_file *)fs); /* logged: of another kind */
  CHECK(ignored == NULL && __atomic_load_n(&lines, __ATOMIC_RELAXED) > 0);
  OK(dfs_log_set(DFS_LOG_OFF, NULL, NULL, &error));
  CHECK(dfs_shutdown() == DFS_OK);
  FAILS(dfs_mkdir(fs, base, 0, 0, &error), DFS_E_CLOSED, argv[1]);
  dfs_fs_free(fs);
  return 0;
}
