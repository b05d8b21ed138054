/* Who frees what (B80), and how long user data lives (B81): each is allocated here and freed by its finalizer, so that a call
 * that comes too late, or a finalizer that runs twice, is seen by a sanitizer or valgrind.
 *
 *   ownership sqlite:PATH ROUNDS
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "check.h"

enum { THREADS = 2 };

/* The user data of a callback. */
typedef struct {
  atomic_int told;
  /* What it is to let go of when it is told something, if it is there. */
  _Atomic(tidings_logger *) leaves;
} session;

static atomic_int stopped;
static atomic_int finalized;

static void refuse(tidings_result result, tidings_result wanted, const char *what) {
  if (result == wanted) return;
  fprintf(stderr, "%s: %d, not %d\n", what, (int)result, (int)wanted);
  exit(1);
}

static session *make_session(void) {
  session *made = malloc(sizeof *made);
  if (made == NULL) exit(1);
  atomic_init(&made->told, 0);
  atomic_init(&made->leaves, NULL);
  return made;
}

static void end_session(void *data) {
  free(data);
  atomic_fetch_add(&finalized, 1);
}

static void tell(void *data, int32_t level, const char *target, size_t target_len, const char *message, size_t len) {
  session *told = data;
  if (level != TIDINGS_LOG_WARNING || target_len == 0 || len == 0 || target == NULL || message == NULL) exit(1);
  CHECK(tidings_logger_free(atomic_exchange(&told->leaves, NULL)));
  atomic_fetch_add(&told->told, 1); /* it is there until this call has returned */
}

static void wake(void *data) {
  session *woken = data;
  atomic_fetch_add(&woken->told, 1);
}

/* The user data of a wake that frees its own port, once it is told which that is. */
typedef struct {
  _Atomic(tidings_port *) port;
  tidings_hub *hub;
} loop;

static void end_loop(void *data) {
  const loop *ends = data;
  refuse(tidings_hub_open(ends->hub), TIDINGS_IN_CALLBACK, "a call from a finalizer");
  end_session(data);
}

static void leave(void *data) {
  loop *leaves = data;
  tidings_port *port = NULL, *other = NULL;
  refuse(tidings_hub_open(leaves->hub), TIDINGS_IN_CALLBACK, "a call from a wake");
  refuse(tidings_port_new(&other), TIDINGS_IN_CALLBACK, "a call from a wake");
  while (port == NULL) port = atomic_exchange(&leaves->port, NULL);
  CHECK(tidings_port_free(port));
  refuse(tidings_port_free(port), TIDINGS_IN_CALLBACK, "freed from inside, and again");
}

/* Has a hub warn, in a thread of its own: of a writer of a new stream that is there already. */
static void warn(const tidings_hub *hub) {
  tidings_writer *writer = NULL;
  tidings_answer *answer = NULL;
  uint64_t seq = 0;
  CHECK(tidings_hub_new_writer(hub, "s", 1, "n", 1, &writer));
  CHECK(tidings_writer_append(writer, "a.b", 3, (const uint8_t *)"{}", 2, NULL, 0, 0, &seq));
  refuse(tidings_writer_flush(writer, TIDINGS_PROCESS, NULL, NULL, &answer), TIDINGS_INVALID_ARGUMENT, "a second writer");
  CHECK(tidings_writer_free(writer));
}

static void *warn_on(void *hub) {
  while (!atomic_load(&stopped)) warn(hub);
  return NULL;
}

/* A hub with the stream that `warn` is refused. */
static tidings_hub *open_noisy(void) {
  tidings_hub *hub = NULL;
  tidings_writer *writer = NULL;
  tidings_answer *answer = NULL;
  uint64_t seq = 0;
  CHECK(tidings_hub_new("memory:", 7, NULL, &hub));
  CHECK(tidings_hub_new_writer(hub, "s", 1, "n", 1, &writer));
  CHECK(tidings_writer_append(writer, "a.b", 3, (const uint8_t *)"{}", 2, NULL, 0, 0, &seq));
  CHECK(tidings_writer_flush(writer, TIDINGS_PROCESS, NULL, NULL, &answer));
  CHECK(tidings_answer_free(answer));
  CHECK(tidings_writer_free(writer));
  return hub;
}

static void close_hub(tidings_hub *hub) {
  tidings_answer *answer = NULL;
  CHECK(tidings_hub_close(hub, 10000, NULL, NULL, &answer));
  CHECK(tidings_answer_free(answer));
  CHECK(tidings_hub_free(hub));
}

/* What is given stays the caller's, whether the call succeeds or not. */
static void inputs(const char *url) {
  tidings_options *options = NULL;
  tidings_hub *hub = NULL;
  CHECK(tidings_options_new(&options));
  CHECK(tidings_options_set_text(options, TIDINGS_OPTION_UNDELIVERABLE, "never", 5));
  refuse(tidings_hub_new(url, strlen(url), options, &hub), TIDINGS_INVALID_ARGUMENT, "options that are wrong");
  CHECK(tidings_options_set_text(options, TIDINGS_OPTION_UNDELIVERABLE, "drop", 4));
  CHECK(tidings_hub_new(url, strlen(url), options, &hub));
  CHECK(tidings_options_free(options));
  refuse(tidings_options_free(options), TIDINGS_INVALID_ARGUMENT, "freed twice");
  CHECK(tidings_hub_free(hub));
  refuse(tidings_hub_free(hub), TIDINGS_INVALID_ARGUMENT, "freed twice");
  CHECK(tidings_hub_free(NULL));
}

/* Loggers come and go while hubs log in threads of their own; one of three lets go of itself. */
static int loggers(int rounds) {
  pthread_t threads[THREADS];
  tidings_hub *hubs[THREADS];
  int made = 0;
  for (int n = 0; n < THREADS; n++) {
    hubs[n] = open_noisy();
    if (pthread_create(&threads[n], NULL, warn_on, hubs[n]) != 0) exit(1);
  }
  for (int n = 0; n < rounds; n++) {
    session *told[] = {make_session(), make_session()};
    session *leaves = make_session();
    tidings_logger *given[] = {NULL, NULL, NULL};
    for (int at = 0; at < 2; at++) CHECK(tidings_logger_new(tell, told[at], end_session, &given[at]));
    while (atomic_load(&told[0]->told) == 0 || atomic_load(&told[1]->told) == 0) (void)sched_yield();
    for (int at = 0; at < 2; at++) CHECK(tidings_logger_free(given[at]));
    made += 2;
    /* When that has returned, its data is finalized. */
    if (atomic_load(&finalized) != made) exit(1);
    refuse(tidings_logger_free(given[0]), TIDINGS_INVALID_ARGUMENT, "freed twice");

    CHECK(tidings_logger_new(tell, leaves, end_session, &given[2]));
    atomic_store(&leaves->leaves, given[2]);
    made += 1;
    while (atomic_load(&finalized) != made) (void)sched_yield();
    refuse(tidings_logger_free(given[2]), TIDINGS_INVALID_ARGUMENT, "freed from inside, and again");
    /* What could not be made is not finalized. */
    refuse(tidings_logger_new(NULL, &made, end_session, &given[0]), TIDINGS_INVALID_ARGUMENT, "no function");
  }
  atomic_store(&stopped, 1);
  for (int n = 0; n < THREADS; n++) {
    (void)pthread_join(threads[n], NULL);
    close_hub(hubs[n]);
  }
  return made;
}

/* Ports come and go while what waits there is done by the library's own thread, which wakes them. */
static int ports(const char *url, int rounds) {
  const tidings_bytes payload = {(const uint8_t *)"{}", 2};
  const int before = atomic_load(&finalized);
  tidings_hub *hub = NULL;
  tidings_stream *stream = NULL;
  tidings_answer *answer = NULL;
  CHECK(tidings_hub_new(url, strlen(url), NULL, &hub));
  CHECK(tidings_hub_stream(hub, "s", 1, "n", 1, &stream));
  for (int n = 0; n < rounds; n++) {
    tidings_port *port = NULL;
    uint64_t token = 0;
    CHECK(tidings_port_new_with_wake(wake, make_session(), end_session, &port));
    CHECK(tidings_stream_append(stream, "a.b", 3, &payload, 1, NULL, 0, NULL, 0, TIDINGS_PROCESS, 0, port, &token, &answer));
    CHECK(tidings_answer_free(answer));
    answer = NULL;
    CHECK(tidings_port_free(port));
    if (atomic_load(&finalized) != before + n + 1) exit(1);
  }
  CHECK(tidings_stream_free(stream));
  /* And those that let go of themselves, in a stream of which nobody else has anything under way. */
  CHECK(tidings_hub_stream(hub, "s", 1, "leaves", 6, &stream));
  CHECK(tidings_stream_append(stream, "a.b", 3, &payload, 1, NULL, 0, NULL, 0, TIDINGS_PROCESS, 0, NULL, NULL, &answer));
  CHECK(tidings_answer_free(answer));
  answer = NULL;
  for (int n = 0; n < rounds; n++) {
    tidings_port *port = NULL;
    tidings_tail *tail = NULL;
    uint64_t token = 0;
    loop *leaves = malloc(sizeof *leaves);
    if (leaves == NULL) exit(1);
    atomic_init(&leaves->port, NULL);
    leaves->hub = hub;
    CHECK(tidings_port_new_with_wake(leave, leaves, end_loop, &port));
    atomic_store(&leaves->port, port);
    CHECK(tidings_stream_tail(stream, NULL, 0, n, &tail));
    CHECK(tidings_tail_next(tail, port, &token, &answer));
    if (answer != NULL) exit(1); /* there is nothing yet */
    CHECK(tidings_stream_append(stream, "a.b", 3, &payload, 1, NULL, 0, NULL, 0, TIDINGS_PROCESS, 0, NULL, NULL, &answer));
    CHECK(tidings_answer_free(answer));
    answer = NULL;
    while (atomic_load(&finalized) != before + rounds + n + 1) (void)sched_yield();
    refuse(tidings_port_free(port), TIDINGS_INVALID_ARGUMENT, "freed from inside, and again");
    CHECK(tidings_tail_free(tail));
  }
  CHECK(tidings_stream_free(stream));
  close_hub(hub);
  return 2 * rounds;
}

int main(int argc, char **argv) {
  if (argc != 3) return 2;
  const int rounds = atoi(argv[2]);
  inputs(argv[1]);
  const int logged = loggers(rounds);
  const int woken = ports(argv[1], rounds);
  printf("finalized: %d of %d\n", atomic_load(&finalized), logged + woken);
  return 0;
}
