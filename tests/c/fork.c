/* Forks while other threads make and free handles: the child has a hub of its own, and nothing hangs.
 *
 *   fork sqlite:PATH
 */
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

enum { THREADS = 2, FORKS = 20 };

static atomic_int stopped;

static void *make_and_free(void *unused) {
  (void)unused;
  while (!atomic_load(&stopped)) {
    tidings_options *options = NULL;
    tidings_text *message = NULL;
    CHECK(tidings_options_new(&options));
    CHECK(tidings_last_error(&message));
    CHECK(tidings_text_free(message));
    CHECK(tidings_options_free(options));
  }
  return NULL;
}

/* What a forked worker does: goes on with the hub, which opens anew, and cannot use the parent's port. */
static void be_the_child(const tidings_hub *hub, const tidings_port *port) {
  tidings_stream *stream = NULL;
  tidings_answer *answer = NULL;
  tidings_options *options = NULL;
  tidings_bytes payload = {(const uint8_t *)"{}", 2};
  uint64_t token = 0;
  CHECK(tidings_options_new(&options));
  CHECK(tidings_options_free(options));
  if (tidings_hub_flush(hub, TIDINGS_PROCESS, port, &token, &answer) == TIDINGS_OK && answer == NULL) _exit(3);
  CHECK(tidings_answer_free(answer));
  CHECK(tidings_hub_stream(hub, "s", 1, "n", 1, &stream));
  CHECK(tidings_stream_append(stream, "a.b", 3, &payload, 1, NULL, 0, NULL, 0, TIDINGS_PROCESS, 0, NULL, NULL, &answer));
  CHECK(tidings_answer_free(answer));
  CHECK(tidings_hub_close(hub, 30000, NULL, NULL, &answer));
  _exit(0);
}

int main(int argc, char **argv) {
  pthread_t threads[THREADS];
  tidings_hub *hub = NULL;
  tidings_port *port = NULL;
  tidings_stream *stream = NULL;
  tidings_batch *batch = NULL;
  size_t count = 0;

  if (argc != 2) return 2;
  if (pthread_atfork(tidings_before_fork, tidings_after_fork_in_parent, tidings_after_fork_in_child) != 0) return 1;
  CHECK(tidings_hub_new(argv[1], strlen(argv[1]), NULL, &hub));
  CHECK(tidings_hub_open(hub));
  CHECK(tidings_port_new(&port));
  for (int n = 0; n < THREADS; n++) {
    if (pthread_create(&threads[n], NULL, make_and_free, NULL) != 0) return 1;
  }
  for (int n = 0; n < FORKS; n++) {
    int status = 0;
    const pid_t child = fork();
    if (child < 0) return 1;
    if (child == 0) be_the_child(hub, port);
    if (waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) != 0) return 1;
  }
  atomic_store(&stopped, 1);
  for (int n = 0; n < THREADS; n++) (void)pthread_join(threads[n], NULL);
  CHECK(tidings_hub_stream(hub, "s", 1, "n", 1, &stream));
  CHECK(tidings_stream_read(stream, NULL, 0, TIDINGS_EARLIEST, 1000, &batch));
  CHECK(tidings_batch_count(batch, &count));
  printf("events: %d\n", (int)count);
  CHECK(tidings_batch_free(batch));
  CHECK(tidings_stream_free(stream));
  CHECK(tidings_port_free(port));
  CHECK(tidings_hub_free(hub));
  return 0;
}
