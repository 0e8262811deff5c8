/* The header's macros, the library's functions and Cargo.toml agree; the header bears being
   included twice. Compiled for several standards of C and C++. argv[1]: version of Cargo.toml. */
#include <dfs.h>
#include <dfs.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv) {
  char text[64];
  dfs_open_options options = DFS_OPEN_OPTIONS_INIT;
  snprintf(text, sizeof text, "%d.%d.%d", DFS_VERSION_MAJOR, DFS_VERSION_MINOR, DFS_VERSION_PATCH);
  if (argc != 2 || strcmp(text, argv[1]) != 0 || strcmp(text, DFS_VERSION_STRING) != 0 ||
      strcmp(text, dfs_version_string()) != 0) {
    fprintf(stderr, "%s, %s, %s and %s differ\n", text, DFS_VERSION_STRING, dfs_version_string(),
            argc == 2 ? argv[1] : "nothing");
    return 1;
  }
  if (dfs_version() != DFS_VERSION_NUMBER ||
      DFS_VERSION_NUMBER !=
          DFS_VERSION_MAJOR * 10000 + DFS_VERSION_MINOR * 100 + DFS_VERSION_PATCH) {
    fprintf(stderr, "%u and %d differ\n", (unsigned)dfs_version(), DFS_VERSION_NUMBER);
    return 1;
  }
  if (options.size != sizeof options || options.favored_nodes != NULL) {
    fprintf(stderr, "DFS_OPEN_OPTIONS_INIT does not initialise\n");
    return 1;
  }
  if (strcmp(dfs_status_name(DFS_OK), "DFS_OK") != 0 ||
      strcmp(dfs_status_name(DFS_E_NOT_FOUND), "DFS_E_NOT_FOUND") != 0 ||
      dfs_status_name(12345) != NULL) {
    fprintf(stderr, "dfs_status_name is wrong\n");
    return 1;
  }
  return 0;
}
