/* What the test programs share: checks that name the line, and stop at the first failure. */
#ifndef CHECK_H
#define CHECK_H
#include <dfs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition) \
  do { \
    if (!(condition)) { \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
      exit(1); \
    } \
  } while (0)

static const char *name_of(long long status) {
  const char *name = dfs_status_name((int32_t)status);
  return name ? name : "unknown";
}

/* The call succeeds. Uses the variable `error`. */
#define OK(call) \
  do { \
    long long got_ = (long long)(call); \
    if (got_ < 0) { \
      fprintf(stderr, "%s:%d: %s: %s: %s\n", __FILE__, __LINE__, #call, name_of(got_), \
              error ? dfs_error_message(error, NULL) : "no message"); \
      exit(1); \
    } \
  } while (0)

/* The call fails with this status, and the message has these words. Uses the variable `error`. */
#define FAILS(call, wanted, words) \
  do { \
    error = NULL; \
    long long got_ = (long long)(call); \
    const char *message_ = error ? dfs_error_message(error, NULL) : NULL; \
    if (got_ != (wanted) || message_ == NULL || strstr(message_, words) == NULL || \
        dfs_error_status(error) != (wanted)) { \
      fprintf(stderr, "%s:%d: %s: %s: %s; wanted %s with \"%s\"\n", __FILE__, __LINE__, #call, \
              name_of(got_), message_ ? message_ : "no message", #wanted, words); \
      exit(1); \
    } \
    dfs_error_free(error); \
    error = NULL; \
  } while (0)

#endif
