/*
 * A forked child: handles of the parent are refused and can be freed, the child connects anew, and
 * the parent goes on undisturbed. argv: URI of a file system, a directory on it for this run.
 */
#define _POSIX_C_SOURCE 200809L
#include "check.h"
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

static dfs_error *error;

static int child(dfs_fs *fs, dfs_file *out, dfs_file *in, dfs_list_iter *list, dfs_config *config,
                 dfs_error *old, const char *uri, const char *path) {
  char byte;
  dfs_file_info info = {0};
  dfs_file_status *status = NULL;
  info.size = sizeof info;
  alarm(60);
  FAILS(dfs_write(out, "x", 1, &error), DFS_E_FORKED, "file was made before a fork");
  FAILS(dfs_hflush(out, &error), DFS_E_FORKED, "file");
  FAILS(dfs_close(out, &error), DFS_E_FORKED, "file");
  FAILS(dfs_read(in, &byte, 1, &error), DFS_E_FORKED, "file");
  FAILS(dfs_list_next(list, &info, &error), DFS_E_FORKED, "iter");
  FAILS(dfs_stat(fs, path, &status, &error), DFS_E_FORKED, "fs was made before a fork");
  CHECK(dfs_tell(out) == DFS_E_FORKED && dfs_fs_set_timeout(fs, 1) == DFS_E_FORKED);
  CHECK(dfs_error_status(old) == DFS_E_NOT_FOUND);
  dfs_file_free(out);
  dfs_file_free(in);
  dfs_list_free(list);
  dfs_fs_free(fs);
  dfs_error_free(old);
  FAILS(dfs_write(out, "x", 1, &error), DFS_E_BAD_HANDLE, "freed");
  dfs_fs *own = NULL;
  OK(dfs_connect(config, uri, &own, &error));
  OK(dfs_stat(own, path, &status, &error));
  dfs_file_status_free(status);
  OK(dfs_open(own, path, DFS_READ, NULL, &in, &error));
  CHECK(dfs_pread(in, 0, &byte, 1, &error) == 1 && byte == 'o');
  dfs_file_free(in);
  dfs_fs_free(own);
  dfs_config_free(config);
  return 0;
}

int main(int argc, char **argv) {
  char path[1024];
  dfs_fs *fs = NULL;
  dfs_file *out = NULL, *in = NULL;
  dfs_list_iter *list = NULL;
  dfs_config *config = NULL;
  dfs_file_status *status = NULL;
  dfs_error *old = NULL;
  CHECK(argc == 3);
  snprintf(path, sizeof path, "%s/forked", argv[2]);
  OK(dfs_config_new(&config, &error));
  OK(dfs_connect(config, argv[1], &fs, &error));
  OK(dfs_open(fs, path, DFS_WRITE | DFS_CREATE | DFS_CREATE_PARENTS, NULL, &out, &error));
  CHECK(dfs_write(out, "one ", 4, &error) == 4);
  OK(dfs_hflush(out, &error));
  OK(dfs_open(fs, path, DFS_READ, NULL, &in, &error));
  OK(dfs_list(fs, argv[2], &list, &error));
  CHECK(dfs_stat(fs, "/no/such", &status, &old) == DFS_E_NOT_FOUND);
  CHECK(dfs_write(out, "two ", 4, &error) == 4);
  pid_t pid = fork();
  CHECK(pid >= 0);
  if (pid == 0) _exit(child(fs, out, in, list, config, old, argv[1], path));
  int result;
  CHECK(waitpid(pid, &result, 0) == pid && WIFEXITED(result) && WEXITSTATUS(result) == 0);
  CHECK(dfs_write(out, "three", 5, &error) == 5);
  OK(dfs_close(out, &error));
  dfs_file_free(out);
  char got[32] = {0};
  CHECK(dfs_file_refresh(in, &error) == 13);
  CHECK(dfs_read(in, got, sizeof got, &error) == 13 && strcmp(got, "one two three") == 0);
  dfs_file_free(in);
  dfs_list_free(list);
  dfs_error_free(old);
  CHECK(dfs_delete(fs, path, 0, &error) == 1);
  dfs_fs_free(fs);
  dfs_config_free(config);
  return 0;
}
