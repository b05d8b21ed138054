/* What the library itself has to say: its warnings and errors, in this program's own log.
 *
 *   log sqlite:PATH
 */
#include "check.h"

/* The user data of a logger: where its lines go. */
typedef struct {
  FILE *file;
  const char *name;
} journal;

/* Called by whichever thread something happens in, so it must be quick, and calls nothing of Tidings. stdio locks the file. */
static void write_line(void *user_data, int32_t level, const char *target, size_t target_len, const char *message,
                       size_t message_len) {
  const journal *to = user_data;
  fprintf(to->file, "%s %s %.*s: %.*s\n", to->name, level == TIDINGS_LOG_ERROR ? "ERROR" : "WARNING", (int)target_len,
          target, (int)message_len, message);
}

/* The journal is needed no longer: no line comes after this. */
static void close_journal(void *user_data) {
  const journal *to = user_data;
  fprintf(to->file, "%s ends\n", to->name);
}

/* Appends an event to a new stream, and says what came of it: who does not ask learns it from the log alone. */
static tidings_result append(const tidings_hub *hub) {
  tidings_writer *writer = NULL;
  tidings_answer *answer = NULL;
  uint64_t seq = 0;
  CHECK(tidings_hub_new_writer(hub, "session-1", 9, "answers", 7, &writer));
  CHECK(tidings_writer_append(writer, "com.example.step", 16, (const uint8_t *)"{}", 2, NULL, 0, 0, &seq));
  const tidings_result flushed = tidings_writer_flush(writer, TIDINGS_PROCESS, NULL, NULL, &answer);
  CHECK(tidings_answer_free(answer));
  CHECK(tidings_writer_free(writer));
  return flushed;
}

int main(int argc, char **argv) {
  tidings_logger *logger = NULL;
  tidings_hub *hub = NULL;
  tidings_answer *answer = NULL;
  journal out = {stdout, "server"};

  if (argc != 2) {
    fprintf(stderr, "usage: log sqlite:PATH\n");
    return 2;
  }
  CHECK(tidings_logger_new(write_line, &out, close_journal, &logger));
  CHECK(tidings_hub_new(argv[1], strlen(argv[1]), NULL, &hub));
  CHECK(append(hub));
  if (append(hub) == TIDINGS_OK) return 1; /* the stream is there already, so a writer of a new one is refused */

  CHECK(tidings_hub_close(hub, 30000, NULL, NULL, &answer)); /* one that is not done in time says so in the log */
  CHECK(tidings_answer_free(answer));
  CHECK(tidings_hub_free(hub));
  CHECK(tidings_logger_free(logger)); /* last, so that whatever the end has to say is told */
  return 0;
}
