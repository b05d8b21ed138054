/* Threads that are inside the library nearly all the time: what a process forks under. `tests/c/forks.py` loads it.
 *
 * Each thread calls one function over and over, with values that are large enough for most of its time to go where the object
 * is locked.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <tidings.h>

/* Of the feature `testing`. */
extern void tidings_testing_panic(void);

enum { LARGE = 1 << 20 };

typedef struct objects {
  const tidings_options *options;
  const tidings_begin *begin;
  const tidings_progress *progress;
  const tidings_port *port;
  const tidings_hub *hub;
  const tidings_stream *stream;
  const tidings_writer *writer;
} objects;

/* What forks.py calls. */
extern int hammer_start(const struct objects *given);
extern int hammer_stop(void);
extern long hammer_told(void);
extern void hammer_wake(void *data);
extern void hammer_log(void *data, int32_t level, const char *target, size_t target_len, const char *message, size_t len);

typedef int (*work)(const objects *given, const char *large);

static atomic_int stopped;
static atomic_int failed;
static atomic_long told;

static int options(const objects *given, const char *large) {
  return tidings_options_set_text(given->options, TIDINGS_OPTION_SECRET_KEY, large, LARGE) != TIDINGS_OK;
}

static int begin(const objects *given, const char *large) {
  return tidings_begin_set_text(given->begin, TIDINGS_BEGIN_CONFIG, large, LARGE) != TIDINGS_OK;
}

static int progress(const objects *given, const char *large) {
  static double value;
  tidings_text *params = NULL;
  tidings_text *why = NULL;
  const tidings_result result =
      tidings_progress_report(given->progress, value += 1, 1e300, large, LARGE, 0, &params, &why);
  return result != TIDINGS_OK || tidings_text_free(params) != TIDINGS_OK || tidings_text_free(why) != TIDINGS_OK;
}

static int port(const objects *given, const char *large) {
  uint64_t token = 0;
  uint64_t tokens[4];
  size_t count = 0;
  tidings_answer *answer = NULL;
  (void)large;
  if (tidings_writer_flush(given->writer, TIDINGS_PROCESS, given->port, &token, &answer) != TIDINGS_OK) return 1;
  if (tidings_port_drain(given->port, tokens, 4, &count) != TIDINGS_OK) return 1;
  for (size_t at = 0; at < count; at++) {
    if (tidings_port_take(given->port, tokens[at], &answer) != TIDINGS_OK) return 1;
    if (tidings_answer_free(answer) != TIDINGS_OK) return 1;
    answer = NULL;
  }
  return tidings_answer_free(answer) != TIDINGS_OK;
}

static int stats(const objects *given, const char *large) {
  tidings_stats stats;
  (void)large;
  return tidings_hub_stats(given->hub, &stats, sizeof stats) != TIDINGS_OK;
}

static int notify(const objects *given, const char *large) {
  static const tidings_bytes TOOLS = {(const uint8_t *)"tools", 5};
  tidings_fanout fanout;
  tidings_stream *stream = NULL;
  (void)large;
  return tidings_hub_notify(given->hub, &TOOLS, 1, NULL, 0, NULL, 0, &fanout, sizeof fanout) != TIDINGS_OK ||
         tidings_hub_stream(given->hub, "s", 1, "n", 1, &stream) != TIDINGS_OK || tidings_stream_free(stream) != TIDINGS_OK;
}

static int hubs(const objects *given, const char *large) {
  tidings_hub *made = NULL;
  (void)given;
  (void)large;
  return tidings_hub_new("memory:", 7, NULL, &made) != TIDINGS_OK || tidings_hub_free(made) != TIDINGS_OK;
}

static int store(const objects *given, const char *large) {
  static const tidings_bytes PAYLOAD = {(const uint8_t *)"{}", 2};
  tidings_answer *answer = NULL;
  tidings_batch *batch = NULL;
  (void)large;
  return tidings_stream_append(given->stream, "a.b", 3, &PAYLOAD, 1, NULL, 0, NULL, 0, TIDINGS_PROCESS, 0, NULL, NULL,
                               &answer) != TIDINGS_OK ||
         tidings_answer_free(answer) != TIDINGS_OK ||
         tidings_stream_read(given->stream, NULL, 0, TIDINGS_EARLIEST, 8, &batch) != TIDINGS_OK ||
         tidings_batch_free(batch) != TIDINGS_OK;
}

/* Counts what a logger is told. */
void hammer_log(void *data, int32_t level, const char *target, size_t target_len, const char *message, size_t len) {
  (void)data;
  (void)level;
  (void)target;
  (void)message;
  if (target_len > 0 && len > 0) atomic_fetch_add(&told, 1);
}

/* A defect is logged as an error: the one line that can be had at will. */
static int logger(const objects *given, const char *large) {
  tidings_logger *made = NULL;
  tidings_text *message = NULL;
  (void)given;
  (void)large;
  if (tidings_logger_new(hammer_log, NULL, NULL, &made) != TIDINGS_OK) return 1;
  tidings_testing_panic();
  if (tidings_last_error(&message) != TIDINGS_INTERNAL) return 1;
  return tidings_logger_free(made) != TIDINGS_OK;
}

static const work WORK[] = {options, begin, progress, port, stats, notify, hubs, store, logger};
enum { THREADS = sizeof WORK / sizeof *WORK };
static pthread_t threads[THREADS];
static objects shared;
static char *large_value;

static void *run(void *at) {
  const work one = WORK[(size_t)(uintptr_t)at];
  while (!atomic_load(&stopped)) {
    if (one(&shared, large_value)) {
      atomic_store(&failed, (int)(uintptr_t)at + 1);
      break;
    }
  }
  return NULL;
}

/* Starts all threads; 0 if they are there. */
int hammer_start(const objects *given) {
  shared = *given;
  large_value = malloc(LARGE);
  if (large_value == NULL) return 1;
  memset(large_value, 'x', LARGE);
  for (size_t at = 0; at < THREADS; at++) {
    if (pthread_create(&threads[at], NULL, run, (void *)(uintptr_t)at) != 0) return 1;
  }
  return 0;
}

/* Stops them; 0, or the number of one whose calls failed. */
int hammer_stop(void) {
  atomic_store(&stopped, 1);
  for (size_t at = 0; at < THREADS; at++) (void)pthread_join(threads[at], NULL);
  free(large_value);
  return atomic_load(&failed);
}

/* For a port that nothing waits at. */
void hammer_wake(void *data) { (void)data; }

/* How many lines the loggers were told. */
long hammer_told(void) { return atomic_load(&told); }
