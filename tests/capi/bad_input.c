/*
 * Bad input: each kind has its own status and a message that names the culprit.
 * argv: URI of a file system, a directory for files, and the ports of: nobody, a web server, a
 * server of random bytes, a server that says nothing.
 */
#define _POSIX_C_SOURCE 200809L
#include "check.h"
#include <stdint.h>
#include <time.h>

static dfs_error *error;
static dfs_fs *fs;

static void handles(void) {
  dfs_file *file = NULL, *stale;
  dfs_config *config = NULL;
  char byte = 0;
  OK(dfs_config_new(&config, &error));
  OK(dfs_open(fs, "/bad/handles", DFS_WRITE | DFS_CREATE | DFS_CREATE_PARENTS, NULL, &file, &error));

  FAILS(dfs_write(NULL, "x", 1, &error), DFS_E_NULL_POINTER, "file is NULL");
  FAILS(dfs_hflush(NULL, &error), DFS_E_NULL_POINTER, "file is NULL");
  FAILS(dfs_pread(NULL, 0, &byte, 1, &error), DFS_E_NULL_POINTER, "file is NULL");
  FAILS(dfs_close(NULL, &error), DFS_E_NULL_POINTER, "file is NULL");
  FAILS(dfs_stats_get(NULL, NULL, &error), DFS_E_NULL_POINTER, "fs is NULL");
  FAILS(dfs_config_set(NULL, "a", "b", &error), DFS_E_NULL_POINTER, "config is NULL");
  CHECK(dfs_tell(NULL) == DFS_E_NULL_POINTER);
  CHECK(dfs_fs_uri(NULL, NULL) == NULL);
  CHECK(dfs_error_message(NULL, NULL) == NULL);
  CHECK(dfs_error_status(NULL) == DFS_E_NULL_POINTER);

  FAILS(dfs_write(file, NULL, 1, &error), DFS_E_NULL_POINTER, "data is NULL");
  FAILS(dfs_write(file, &byte, SIZE_MAX, &error), DFS_E_INVALID_ARGUMENT, "data");
  CHECK(dfs_write(file, NULL, 0, NULL) == 0);
  FAILS(dfs_open(fs, "/x", DFS_READ, NULL, NULL, &error), DFS_E_NULL_POINTER, "out is NULL");
  FAILS(dfs_stat(fs, "/x", NULL, &error), DFS_E_NULL_POINTER, "out is NULL");
  FAILS(dfs_stat(fs, NULL, (dfs_file_status **)&stale, &error), DFS_E_NULL_POINTER, "path is NULL");
  FAILS(dfs_rename(fs, "/a", NULL, 0, &error), DFS_E_NULL_POINTER, "to is NULL");
  FAILS(dfs_content_summary(fs, "/", NULL, &error), DFS_E_NULL_POINTER, "info is NULL");

  FAILS(dfs_write((dfs_file *)fs, "x", 1, &error), DFS_E_BAD_HANDLE, "file is no dfs_file but a dfs_fs");
  FAILS(dfs_config_set((dfs_config *)file, "a", "b", &error), DFS_E_BAD_HANDLE,
        "config is no dfs_config but a dfs_file");
  FAILS(dfs_write((dfs_file *)&byte, "x", 1, &error), DFS_E_BAD_HANDLE, "file is no valid dfs_file");
  FAILS(dfs_connect((dfs_config *)(uintptr_t)8, NULL, (dfs_fs **)&stale, &error), DFS_E_BAD_HANDLE,
        "config is no valid dfs_config");
  CHECK(stale == NULL);

  stale = file;
  OK(dfs_close(file, &error));
  FAILS(dfs_write(file, "x", 1, &error), DFS_E_CLOSED, "/bad/handles");
  FAILS(dfs_hflush(file, &error), DFS_E_CLOSED, "/bad/handles");
  CHECK(dfs_close(file, NULL) == DFS_OK);
  dfs_file_free(file);
  FAILS(dfs_write(stale, "x", 1, &error), DFS_E_BAD_HANDLE, "freed");
  FAILS(dfs_close(stale, &error), DFS_E_BAD_HANDLE, "freed");
  CHECK(dfs_tell(stale) == DFS_E_BAD_HANDLE);
  dfs_file_free(stale); /* ignored */
  dfs_fs_free((dfs_fs *)config); /* of another kind: ignored */
  OK(dfs_config_set(config, "a", "b", &error));

  OK(dfs_open(fs, "/bad/handles", DFS_READ, NULL, &file, &error));
  CHECK(file != stale);
  FAILS(dfs_write(stale, "x", 1, &error), DFS_E_BAD_HANDLE, "freed");
  FAILS(dfs_write(file, "x", 1, &error), DFS_E_WRONG_MODE, "/bad/handles was opened for reading");
  FAILS(dfs_hsync(file, 4, &error), DFS_E_BAD_FLAGS, "0x4");
  FAILS(dfs_seek(file, 1, &error), DFS_E_OUT_OF_RANGE, "/bad/handles");
  FAILS(dfs_read(file, NULL, 1, &error), DFS_E_NULL_POINTER, "buffer is NULL");
  dfs_range twice[2] = {{0, &byte, 1, 0}, {0, &byte, 1, 0}};
  FAILS(dfs_preadv(file, twice, 2, &error), DFS_E_INVALID_ARGUMENT, "ranges[0] and ranges[1]");
  FAILS(dfs_preadv(file, NULL, 1, &error), DFS_E_NULL_POINTER, "ranges is NULL");
  CHECK(dfs_file_durable(file) == DFS_E_WRONG_MODE);
  OK(dfs_close(file, &error));
  FAILS(dfs_read(file, &byte, 1, &error), DFS_E_CLOSED, "/bad/handles");
  FAILS(dfs_pread(file, 0, &byte, 1, &error), DFS_E_CLOSED, "/bad/handles");
  dfs_file_free(file);

  /* An error object obeys the same rules. */
  CHECK(dfs_stat(fs, "relative", (dfs_file_status **)&stale, &error) == DFS_E_BAD_PATH);
  dfs_error *old = error;
  dfs_error_free(error);
  CHECK(dfs_error_status(old) == DFS_E_BAD_HANDLE && dfs_error_message(old, NULL) == NULL);
  error = NULL;

  dfs_config *old_config = config;
  dfs_config_free(config);
  FAILS(dfs_connect(old_config, NULL, &fs, &error), DFS_E_BAD_HANDLE, "config");
}

static void texts_and_paths(void) {
  dfs_file_status *status = NULL;
  dfs_file *file = NULL;
  const char *sources[] = {"/a", "/\xff"};
  FAILS(dfs_stat(fs, "/a\xff\x62", &status, &error), DFS_E_BAD_UTF8, "path is not UTF-8: byte 2 is 0xff");
  FAILS(dfs_rename(fs, "/a", "/\xc3", 0, &error), DFS_E_BAD_UTF8, "to is not UTF-8");
  FAILS(dfs_concat(fs, "/t", sources, 2, &error), DFS_E_BAD_UTF8, "sources[1] is not UTF-8");
  FAILS(dfs_concat(fs, "/t", NULL, 0, &error), DFS_E_INVALID_ARGUMENT, "/t");
  FAILS(dfs_set_owner(fs, "/a", "\x80", NULL, &error), DFS_E_BAD_UTF8, "owner is not UTF-8");
  FAILS(dfs_set_owner(fs, "/a", NULL, NULL, &error), DFS_E_INVALID_ARGUMENT, "/a");
  FAILS(dfs_stat(fs, "a/b", &status, &error), DFS_E_BAD_PATH, "a/b");
  FAILS(dfs_stat(fs, "", &status, &error), DFS_E_BAD_PATH, "empty");
  FAILS(dfs_stat(fs, "/a/../b", &status, &error), DFS_E_BAD_PATH, "/a/../b");
  FAILS(dfs_mkdir(fs, "relative", 0, 0, &error), DFS_E_BAD_PATH, "relative");
  FAILS(dfs_open(fs, "relative", DFS_READ, NULL, &file, &error), DFS_E_BAD_PATH, "relative");
  FAILS(dfs_open(fs, "relative", DFS_WRITE | DFS_CREATE, NULL, &file, &error), DFS_E_BAD_PATH,
        "relative");
  FAILS(dfs_open(fs, "/nowhere/file", DFS_READ, NULL, &file, &error), DFS_E_NOT_FOUND, "/nowhere/file");
  CHECK(status == NULL && file == NULL);
}

static void flags_and_options(void) {
  dfs_file *file = NULL;
  dfs_file_info info;
  struct {
    dfs_open_options known;
    uint64_t later;
  } newer;
  FAILS(dfs_open(fs, "/x", 0, NULL, &file, &error), DFS_E_BAD_FLAGS, "neither");
  FAILS(dfs_open(fs, "/x", DFS_READ | 1 << 30, NULL, &file, &error), DFS_E_BAD_FLAGS, "0x40000000");
  FAILS(dfs_open(fs, "/x", DFS_WRITE, NULL, &file, &error), DFS_E_BAD_FLAGS, "DFS_CREATE");
  FAILS(dfs_open(fs, "/x", DFS_READ | DFS_WRITE, NULL, &file, &error), DFS_E_BAD_FLAGS, "direction");
  FAILS(dfs_mkdir(fs, "/x", 0, 1, &error), DFS_E_BAD_FLAGS, "0x1");
  FAILS(dfs_mkdir(fs, "/x", 07777, 0, &error), DFS_E_INVALID_ARGUMENT, "7777");
  FAILS(dfs_rename(fs, "/a", "/b", 2, &error), DFS_E_BAD_FLAGS, "0x2");
  FAILS(dfs_delete(fs, "/a", -1, &error), DFS_E_BAD_FLAGS, "0xfffffffe");

  int create = DFS_WRITE | DFS_CREATE | DFS_OVERWRITE | DFS_CREATE_PARENTS;
  memset(&newer, 0, sizeof newer);
  newer.known.size = sizeof newer;
  newer.later = 1;
  FAILS(dfs_open(fs, "/bad/options", create, &newer.known, &file, &error), DFS_E_UNSUPPORTED,
        "options sets a field at byte 64");
  newer.later = 0;
  OK(dfs_open(fs, "/bad/options", create, &newer.known, &file, &error));
  OK(dfs_close(file, &error));
  dfs_file_free(file);
  newer.known.size = 4; /* a caller that knows nothing but the size */
  newer.known.checksum_type = 99;
  OK(dfs_open(fs, "/bad/options", create, &newer.known, &file, &error));
  OK(dfs_close(file, &error));
  dfs_file_free(file);
  for (uint32_t size = 0; size < 2; size++) {
    newer.known.size = size ? 1u << 31 : 0;
    FAILS(dfs_open(fs, "/bad/options", create, &newer.known, &file, &error), DFS_E_INVALID_ARGUMENT,
          "options->size");
  }
  dfs_open_options options = DFS_OPEN_OPTIONS_INIT;
  options.reserved = 1;
  FAILS(dfs_open(fs, "/bad/options", create, &options, &file, &error), DFS_E_UNSUPPORTED, "reserved");
  options.reserved = 0;
  options.checksum_type = 99;
  FAILS(dfs_open(fs, "/bad/options", create, &options, &file, &error), DFS_E_INVALID_ARGUMENT,
        "options->checksum_type 99");
  options.checksum_type = 0;
  options.verify_checksum = 7;
  FAILS(dfs_open(fs, "/bad/options", DFS_READ, &options, &file, &error), DFS_E_INVALID_ARGUMENT,
        "options->verify_checksum 7");
  options.verify_checksum = 0;
  options.block_size = 1000;
  FAILS(dfs_open(fs, "/bad/options", create, &options, &file, &error), DFS_E_INVALID_ARGUMENT, "1000");
  options.block_size = 0;
  options.permission = 010000;
  FAILS(dfs_open(fs, "/bad/options", create, &options, &file, &error), DFS_E_INVALID_ARGUMENT,
        "options->permission");
  memset(&info, 0, sizeof info);
  dfs_file_status *status = NULL;
  OK(dfs_stat(fs, "/bad/options", &status, &error));
  FAILS(dfs_file_status_get(status, &info, &error), DFS_E_INVALID_ARGUMENT, "info->size is 0");
  dfs_file_status_free(status);
  FAILS(dfs_log_set(9, NULL, NULL, &error), DFS_E_INVALID_ARGUMENT, "level 9");
  FAILS(dfs_set_times(fs, "/bad/options", -2, 0, &error), DFS_E_INVALID_ARGUMENT, "mtime_ms -2");
}

static void write_file(const char *path, const char *text) {
  FILE *out = fopen(path, "w");
  CHECK(out != NULL && fputs(text, out) >= 0 && fclose(out) == 0);
}

static void configuration(const char *directory) {
  char path[4096];
  dfs_config *config = NULL;
  dfs_fs *other = NULL;
  const char *value = NULL;
  size_t length = 0;
  snprintf(path, sizeof path, "%s/broken.xml", directory);
  write_file(path, "<configuration>\n  <property>\n    <name>a</name>\n");
  FAILS(dfs_config_load(path, &config, &error), DFS_E_CONFIG, "broken.xml");
  CHECK(config == NULL);
  FAILS(dfs_config_load("/no/such/file.xml", &config, &error), DFS_E_CONFIG, "/no/such/file.xml");
  FAILS(dfs_config_load("", &config, &error), DFS_E_INVALID_ARGUMENT, "path is empty");
  snprintf(path, sizeof path, "%s/good.xml", directory);
  write_file(path, "<configuration><property><name>dfs.replication</name><value>many</value>"
                   "</property></configuration>");
  OK(dfs_config_load(path, &config, &error));
  CHECK(dfs_config_get(config, "dfs.replication", &value, &length, &error) == 1);
  CHECK(length == 4 && strcmp(value, "many") == 0);
  FAILS(dfs_connect(config, "hdfs://localhost:1", &other, &error), DFS_E_CONFIG, "dfs.replication");
  OK(dfs_config_set(config, "dfs.replication", "1", &error));
  const char *again = NULL;
  CHECK(dfs_config_get(config, "dfs.replication", &again, NULL, &error) == 1);
  CHECK(strcmp(again, "1") == 0 && strcmp(value, "many") == 0);
  CHECK(dfs_config_get(config, "no.such.key", &value, &length, &error) == 0);
  CHECK(value == NULL && length == 0);
  FAILS(dfs_config_set(config, "k", "\xfe", &error), DFS_E_BAD_UTF8, "value is not UTF-8");
  FAILS(dfs_config_set(config, " ", "", &error), DFS_E_INVALID_ARGUMENT, "key is empty");
  dfs_config_free(config);
}

static dfs_config *quick_config(void) {
  dfs_config *config = NULL;
  OK(dfs_config_new(&config, &error));
  OK(dfs_config_set(config, "ipc.client.connect.max.retries", "1", &error));
  OK(dfs_config_set(config, "ipc.client.connect.retry.interval", "10", &error));
  OK(dfs_config_set(config, "dfs.client.retry.max.attempts", "1", &error));
  return config;
}

static void servers(char **ports) {
  dfs_config *config = quick_config();
  dfs_fs *other = NULL;
  char uri[64];
  FAILS(dfs_connect(config, "file:///tmp", &other, &error), DFS_E_INVALID_ARGUMENT, "file:///tmp");
  FAILS(dfs_connect(config, "hdfs://", &other, &error), DFS_E_INVALID_ARGUMENT, "hdfs://");
  FAILS(dfs_connect(config, "hdfs://no-such-host.invalid:8020", &other, &error), DFS_E_UNKNOWN_HOST,
        "no-such-host.invalid");
  snprintf(uri, sizeof uri, "hdfs://127.0.0.1:%s", ports[0]);
  FAILS(dfs_connect(config, uri, &other, &error), DFS_E_CONNECT, uri + 7);
  snprintf(uri, sizeof uri, "hdfs://127.0.0.1:%s", ports[1]);
  FAILS(dfs_connect(config, uri, &other, &error), DFS_E_NOT_HDFS, uri + 7);
  snprintf(uri, sizeof uri, "hdfs://127.0.0.1:%s", ports[2]);
  FAILS(dfs_connect(config, uri, &other, &error), DFS_E_NOT_HDFS, uri + 7);
  /* A server that says nothing: the limit of the call holds. */
  OK(dfs_config_set(config, "libdfs.call.timeout.ms", "500", &error));
  snprintf(uri, sizeof uri, "hdfs://127.0.0.1:%s", ports[3]);
  struct timespec before, after;
  clock_gettime(CLOCK_MONOTONIC, &before);
  FAILS(dfs_connect(config, uri, &other, &error), DFS_E_TIMED_OUT, uri + 7);
  clock_gettime(CLOCK_MONOTONIC, &after);
  CHECK(after.tv_sec - before.tv_sec < 10);
  CHECK(other == NULL);
  dfs_config_free(config);

  /* Without a place for it, no error object is made, and the status is the same. */
  CHECK(dfs_connect(NULL, "file:///tmp", &other, NULL) == DFS_E_INVALID_ARGUMENT);
}

static void closed_file_system(const char *uri) {
  dfs_fs *other = NULL;
  dfs_file *file = NULL, *in = NULL, *out = NULL;
  char byte;
  OK(dfs_connect(NULL, uri, &other, &error));
  OK(dfs_open(other, "/bad/open", DFS_WRITE | DFS_CREATE | DFS_CREATE_PARENTS, NULL, &out, &error));
  CHECK(dfs_write(out, "durable", 7, &error) == 7);
  OK(dfs_hflush(out, &error));
  OK(dfs_open(other, "/bad/open", DFS_READ, NULL, &in, &error));
  OK(dfs_fs_close(other, &error));
  CHECK(dfs_write(out, "x", 1, &error) == DFS_E_CLOSED && dfs_error_is_fatal(error));
  CHECK(strstr(dfs_error_message(error, NULL), "/bad/open") && dfs_error_durable_bytes(error) == 7);
  dfs_error_free(error);
  FAILS(dfs_hflush(out, &error), DFS_E_CLOSED, "/bad/open");
  FAILS(dfs_close(out, &error), DFS_E_CLOSED, "/bad/open");
  FAILS(dfs_pread(in, 0, &byte, 1, &error), DFS_E_CLOSED, "/bad/open");
  FAILS(dfs_read(in, &byte, 1, &error), DFS_E_CLOSED, "/bad/open");
  CHECK(dfs_file_durable(out) == 7);
  dfs_file_free(in);
  dfs_file_free(out);
  FAILS(dfs_open(other, "/x", DFS_READ, NULL, &file, &error), DFS_E_CLOSED, dfs_fs_uri(other, NULL));
  FAILS(dfs_mkdir(other, "/x", 0, 0, &error), DFS_E_CLOSED, dfs_fs_uri(other, NULL));
  CHECK(dfs_fs_close(other, NULL) == DFS_OK);
  dfs_fs_free(other);
}

static void chunks(void) {
  char data[1000];
  unsigned char sums[8];
  uint64_t bad = 99;
  memset(data, 'x', sizeof data);
  CHECK(dfs_checksum_chunks(DFS_CHECKSUM_CRC32C, 512, data, sizeof data, sums, 8, &error) == 8);
  OK(dfs_verify_chunks(DFS_CHECKSUM_CRC32C, 512, data, sizeof data, sums, 8, &bad, &error));
  CHECK(bad == 99);
  sums[5] ^= 1;
  FAILS(dfs_verify_chunks(DFS_CHECKSUM_CRC32C, 512, data, sizeof data, sums, 8, &bad, &error),
        DFS_E_CHECKSUM, "chunk 1");
  CHECK(bad == 1);
  FAILS(dfs_checksum_chunks(DFS_CHECKSUM_CRC32C, 512, data, sizeof data, sums, 7, &error),
        DFS_E_INVALID_ARGUMENT, "sums has 7 bytes");
  FAILS(dfs_checksum_chunks(77, 512, data, sizeof data, sums, 8, &error), DFS_E_INVALID_ARGUMENT,
        "type 77");
  FAILS(dfs_checksum_chunks(0, 0, data, sizeof data, sums, 8, &error), DFS_E_INVALID_ARGUMENT,
        "bytes_per_checksum");
  FAILS(dfs_checksum_chunks(0, 512, NULL, sizeof data, sums, 8, &error), DFS_E_NULL_POINTER, "data");
  /* The CRC-32C of "123456789" is the published check value. */
  CHECK(dfs_checksum_chunks(DFS_CHECKSUM_CRC32C, 512, "123456789", 9, sums, 4, &error) == 4);
  CHECK(memcmp(sums, "\xe3\x06\x92\x83", 4) == 0);
}

int main(int argc, char **argv) {
  CHECK(argc == 7);
  dfs_fs *mine = NULL;
  OK(dfs_connect(NULL, argv[1], &mine, &error));
  fs = mine;
  handles();
  CHECK(fs == NULL); /* the failed connect cleared it */
  fs = mine;
  texts_and_paths();
  flags_and_options();
  configuration(argv[2]);
  servers(argv + 3);
  closed_file_system(argv[1]);
  chunks();
  CHECK(dfs_delete(fs, "/bad", DFS_DELETE_RECURSIVE, &error) == 1);
  dfs_fs_free(fs);
  FAILS(dfs_mkdir(fs, "/x", 0, 0, &error), DFS_E_BAD_HANDLE, "fs is no valid dfs_fs");
  return 0;
}
