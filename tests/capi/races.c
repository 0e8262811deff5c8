/*
 * Files and a file system that are freed while other threads use them: every call either works or
 * returns DFS_E_BAD_HANDLE (or DFS_E_CLOSED), and nothing that was freed is touched.
 * argv: URI of a file system, a directory on it for this run.
 */
#define _POSIX_C_SOURCE 200809L
#include "check.h"
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <time.h>

enum { THREADS = 4, ROUNDS = 30 };

static dfs_error *error;
static int go;

typedef struct user {
  pthread_t thread;
  dfs_file *in, *out;
  long calls;
  long long unexpected;
} user;

static int expected(long long status) {
  return status >= 0 || status == DFS_E_BAD_HANDLE || status == DFS_E_CLOSED;
}

static void *use(void *argument) {
  user *u = argument;
  char buffer[100];
  int ended = 0;
  while (!__atomic_load_n(&go, __ATOMIC_ACQUIRE)) sched_yield();
  while (!ended && u->unexpected == 0) {
    long long results[4] = {dfs_pread(u->in, 5, buffer, sizeof buffer, NULL), dfs_tell(u->in),
                            dfs_write(u->out, "x", 1, NULL), dfs_tell(u->out)};
    ended = 1;
    for (int i = 0; i < 4; i++) {
      if (!expected(results[i])) u->unexpected = results[i];
      if (results[i] != DFS_E_BAD_HANDLE) ended = 0;
    }
    u->calls++;
  }
  return NULL;
}

int main(int argc, char **argv) {
  char path[1024], other[1024];
  dfs_fs *fs = NULL;
  dfs_file *file = NULL;
  long calls = 0;
  CHECK(argc == 3);
  snprintf(path, sizeof path, "%s/read", argv[2]);
  OK(dfs_connect(NULL, argv[1], &fs, &error));
  OK(dfs_open(fs, path, DFS_WRITE | DFS_CREATE | DFS_CREATE_PARENTS, NULL, &file, &error));
  for (int i = 0; i < 1000; i++) CHECK(dfs_write(file, "0123456789", 10, &error) == 10);
  OK(dfs_close(file, &error));
  dfs_file_free(file);
  for (int round = 0; round < ROUNDS; round++) {
    user users[THREADS];
    dfs_file *in = NULL, *out = NULL;
    dfs_fs *own = NULL;
    memset(users, 0, sizeof users);
    snprintf(other, sizeof other, "%s/written-%d", argv[2], round);
    OK(dfs_connect(NULL, argv[1], &own, &error));
    OK(dfs_open(own, path, DFS_READ, NULL, &in, &error));
    OK(dfs_open(own, other, DFS_WRITE | DFS_CREATE, NULL, &out, &error));
    __atomic_store_n(&go, 0, __ATOMIC_RELEASE);
    for (int i = 0; i < THREADS; i++) {
      users[i].in = in;
      users[i].out = out;
      CHECK(pthread_create(&users[i].thread, NULL, use, &users[i]) == 0);
    }
    __atomic_store_n(&go, 1, __ATOMIC_RELEASE);
    struct timespec pause = {0, 1000000L * (round % 5)};
    nanosleep(&pause, NULL);
    if (round % 3 == 0) dfs_fs_free(own);
    dfs_file_free(in);
    if (round % 2 == 0) OK(dfs_close(out, &error));
    dfs_file_free(out);
    if (round % 3 != 0) {
      if (round % 3 == 1) OK(dfs_fs_close(own, &error));
      dfs_fs_free(own);
    }
    for (int i = 0; i < THREADS; i++) {
      pthread_join(users[i].thread, NULL);
      if (users[i].unexpected != 0) {
        fprintf(stderr, "round %d: %s\n", round, name_of(users[i].unexpected));
        return 1;
      }
      calls += users[i].calls;
    }
  }
  CHECK(calls >= ROUNDS * THREADS);
  CHECK(dfs_delete(fs, argv[2], DFS_DELETE_RECURSIVE, &error) == 1);
  dfs_fs_free(fs);
  return 0;
}
