/* Appends to a stream, leaves a reader in the middle of it, and lets another go on from its cursor.
 *
 *   resume sqlite:PATH
 */
#include "check.h"

static const char SCOPE[] = "session-1";
static const char NAME[] = "answers";
static const char KIND[] = "com.example.step";

static void append(const tidings_writer *writer, int step, uint64_t *seq) {
  char payload[64];
  int len = snprintf(payload, sizeof payload, "{\"step\":%d}", step);
  CHECK(tidings_writer_append(writer, KIND, strlen(KIND), (const uint8_t *)payload, (size_t)len, NULL, 0, 0, seq));
}

/* Prints what the tail has next, at most `most` events, and answers how many; the cursor is that of who has them. */
static size_t print_some(const tidings_tail *tail, size_t most, tidings_text **cursor) {
  tidings_answer *answer = NULL;
  tidings_batch *batch = NULL;
  int32_t state = 0;
  size_t count = 0;
  CHECK(tidings_tail_next(tail, NULL, NULL, &answer));
  CHECK(tidings_answer_batch(answer, &batch, &state));
  CHECK(tidings_answer_free(answer));
  if (state != TIDINGS_ANSWER_BATCH) return 0;
  CHECK(tidings_batch_count(batch, &count));
  if (count > most) count = most;
  for (size_t index = 0; index < count; index++) {
    tidings_event event;
    CHECK(tidings_batch_event(batch, index, &event, sizeof event));
    printf("%llu %.*s\n", (unsigned long long)event.seq, (int)event.payload.len, (const char *)event.payload.data);
  }
  if (cursor != NULL) CHECK(tidings_batch_cursor(batch, count, cursor));
  CHECK(tidings_batch_free(batch));
  return count;
}

int main(int argc, char **argv) {
  if (argc != 2) {
    fprintf(stderr, "usage: resume sqlite:PATH\n");
    return 2;
  }
  tidings_hub *hub = NULL;
  tidings_writer *writer = NULL;
  tidings_stream *stream = NULL;
  tidings_tail *tail = NULL;
  tidings_answer *answer = NULL;
  tidings_text *cursor = NULL;
  const char *text = NULL;
  size_t len = 0;
  uint64_t seq = 0;

  CHECK(tidings_hub_new(argv[1], strlen(argv[1]), NULL, &hub));
  CHECK(tidings_hub_new_writer(hub, SCOPE, strlen(SCOPE), NAME, strlen(NAME), &writer));
  for (int step = 0; step < 5; step++) append(writer, step, &seq);
  CHECK(tidings_writer_flush(writer, TIDINGS_PROCESS, NULL, NULL, &answer));
  CHECK(tidings_answer_free(answer));

  CHECK(tidings_hub_stream(hub, SCOPE, strlen(SCOPE), NAME, strlen(NAME), &stream));
  CHECK(tidings_stream_tail(stream, NULL, 0, TIDINGS_EARLIEST, &tail));
  printf("a reader:\n");
  if (print_some(tail, 3, &cursor) != 3) return 1;
  CHECK(tidings_tail_free(tail)); /* it is gone, and has three events */

  for (int step = 5; step < 7; step++) append(writer, step, &seq);
  CHECK(tidings_writer_close(writer));

  printf("another, from its cursor:\n");
  CHECK(tidings_text_get(cursor, &text, &len));
  CHECK(tidings_hub_resume(hub, SCOPE, strlen(SCOPE), text, len, &tail));
  while (print_some(tail, SIZE_MAX, NULL) > 0) {
  }
  printf("the end\n");

  CHECK(tidings_text_free(cursor));
  CHECK(tidings_tail_free(tail));
  CHECK(tidings_stream_free(stream));
  CHECK(tidings_writer_free(writer));
  CHECK(tidings_hub_close(hub, 2000, NULL, NULL, &answer));
  CHECK(tidings_answer_free(answer));
  CHECK(tidings_hub_free(hub));
  return 0;
}
