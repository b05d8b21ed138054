/* Two tails in one event loop: one descriptor to poll, and no thread of the library's ever calls in here.
 *
 *   poll sqlite:PATH
 */
#include <poll.h>

#include "check.h"

enum { TAILS = 2, EVENTS = 4 };

typedef struct {
  tidings_tail *tail;
  uint64_t token; /* of the wait that is on, 0 if there is none */
  int seen;
  int ended;
} reader;

static void print_batch(reader *self, int number, tidings_answer *answer) {
  tidings_batch *batch = NULL;
  int32_t state = 0;
  size_t count = 0;
  CHECK(tidings_answer_batch(answer, &batch, &state));
  CHECK(tidings_answer_free(answer));
  if (state == TIDINGS_ANSWER_END) self->ended = 1;
  if (state != TIDINGS_ANSWER_BATCH) return;
  CHECK(tidings_batch_count(batch, &count));
  self->seen += (int)count;
  printf("tail %d has %d of %d\n", number, self->seen, EVENTS);
  CHECK(tidings_batch_free(batch));
}

/* Asks until there is nothing now; then the port will tell. */
static void ask(reader *self, int number, const tidings_port *port) {
  tidings_answer *answer = NULL;
  while (!self->ended) {
    CHECK(tidings_tail_next(self->tail, port, &self->token, &answer));
    if (answer == NULL) return;
    print_batch(self, number, answer);
  }
}

int main(int argc, char **argv) {
  static const char KIND[] = "com.example.tick";
  static const char *const NAMES[TAILS] = {"one", "two"};
  tidings_hub *hub = NULL;
  tidings_port *port = NULL;
  tidings_answer *flushed = NULL;
  tidings_writer *writers[TAILS] = {NULL, NULL};
  reader readers[TAILS] = {{NULL, 0, 0, 0}, {NULL, 0, 0, 0}};
  struct pollfd watched = {-1, POLLIN, 0};
  int32_t descriptor = -1;
  uint64_t seq = 0;

  if (argc != 2) {
    fprintf(stderr, "usage: poll sqlite:PATH\n");
    return 2;
  }
  CHECK(tidings_hub_new(argv[1], strlen(argv[1]), NULL, &hub));
  CHECK(tidings_port_new(&port));
  CHECK(tidings_port_descriptor(port, &descriptor));
  watched.fd = descriptor;
  for (int i = 0; i < TAILS; i++) {
    CHECK(tidings_hub_new_writer(hub, "s", 1, NAMES[i], strlen(NAMES[i]), &writers[i]));
    CHECK(tidings_writer_append(writers[i], KIND, strlen(KIND), (const uint8_t *)"{}", 2, NULL, 0, 0, &seq));
  }
  /* Readers see what is committed. */
  CHECK(tidings_hub_flush(hub, TIDINGS_PROCESS, NULL, NULL, &flushed));
  CHECK(tidings_answer_free(flushed));
  for (int i = 0; i < TAILS; i++) {
    tidings_stream *stream = NULL;
    CHECK(tidings_hub_stream(hub, "s", 1, NAMES[i], strlen(NAMES[i]), &stream));
    CHECK(tidings_stream_tail(stream, NULL, 0, TIDINGS_EARLIEST, &readers[i].tail));
    CHECK(tidings_stream_free(stream));
    ask(&readers[i], i, port);
  }
  for (int n = 1; n < EVENTS; n++) {
    for (int i = 0; i < TAILS; i++) {
      uint32_t flags = n == EVENTS - 1 ? TIDINGS_APPEND_CLOSE : 0;
      CHECK(tidings_writer_append(writers[i], KIND, strlen(KIND), (const uint8_t *)"{}", 2, NULL, 0, flags, &seq));
    }
  }
  while (!readers[0].ended || !readers[1].ended) {
    uint64_t tokens[8];
    size_t count = 0;
    if (poll(&watched, 1, 30000) <= 0) return 1;
    CHECK(tidings_port_drain(port, tokens, 8, &count));
    for (size_t n = 0; n < count; n++) {
      tidings_answer *answer = NULL;
      CHECK(tidings_port_take(port, tokens[n], &answer));
      for (int i = 0; i < TAILS; i++) {
        if (readers[i].token != tokens[n]) continue;
        readers[i].token = 0;
        print_batch(&readers[i], i, answer);
        ask(&readers[i], i, port);
      }
    }
  }
  for (int i = 0; i < TAILS; i++) {
    CHECK(tidings_tail_free(readers[i].tail));
    CHECK(tidings_writer_free(writers[i]));
  }
  CHECK(tidings_port_free(port));
  CHECK(tidings_hub_free(hub));
  return readers[0].seen == EVENTS && readers[1].seen == EVENTS ? 0 : 1;
}
