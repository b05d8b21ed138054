/* Watches a tool call whose client wants a webhook when it ends.
 *
 *   webhook sqlite:PATH http://127.0.0.1:PORT/hook whsec_SECRET
 */
#include <time.h>

#include "check.h"

static void tell(const tidings_begin *begin, int32_t field, const char *value) {
  CHECK(tidings_begin_set_text(begin, field, value, strlen(value)));
}

static void print_text(const char *what, tidings_text *text) {
  const char *data = NULL;
  size_t len = 0;
  CHECK(tidings_text_get(text, &data, &len));
  printf("%s: %.*s\n", what, (int)len, data);
  CHECK(tidings_text_free(text));
}

/* How many deliveries of the call are in that state. */
static size_t count_in(const tidings_hub *hub, const char *call_id, size_t len, const char *state) {
  tidings_deliveries *deliveries = NULL;
  size_t count = 0;
  CHECK(tidings_hub_deliveries(hub, NULL, 0, call_id, len, state, strlen(state), 10, &deliveries));
  CHECK(tidings_deliveries_count(deliveries, &count));
  CHECK(tidings_deliveries_free(deliveries));
  return count;
}

int main(int argc, char **argv) {
  static const char LOOPBACK[] = "127.0.0.0/8";
  static const char RESULT[] = "{\"content\":[{\"type\":\"text\",\"text\":\"forty-two\"}]}";
  char config[1024];
  tidings_options *options = NULL;
  tidings_hub *hub = NULL;
  tidings_begin *begin = NULL;
  tidings_call *call = NULL;
  tidings_answer *answer = NULL;
  tidings_text *text = NULL;
  tidings_outcome outcome;
  const char *id = NULL;
  size_t id_len = 0;
  size_t delivered = 0;

  if (argc != 4) {
    fprintf(stderr, "usage: webhook sqlite:PATH URL whsec_SECRET\n");
    return 2;
  }
  /* Receivers on this machine: nobody reaches those unless the operator says so. */
  CHECK(tidings_options_new(&options));
  CHECK(tidings_options_set_text(options, TIDINGS_OPTION_ALLOW_NETWORK, LOOPBACK, strlen(LOOPBACK)));
  CHECK(tidings_options_set_number(options, TIDINGS_OPTION_ALLOW_HTTP, 1));
  CHECK(tidings_hub_new(argv[1], strlen(argv[1]), options, &hub));
  CHECK(tidings_options_free(options));

  /* What a client put into the request's params. */
  snprintf(config, sizeof config,
           "{\"routes\":[{\"id\":\"me\",\"type\":\"webhook\",\"triggers\":[\"completed\",\"failed\"],"
           "\"endpoint\":\"%s\",\"secret\":\"%s\"}]}",
           argv[2], argv[3]);
  CHECK(tidings_begin_new(&begin));
  tell(begin, TIDINGS_BEGIN_CONFIG, config);
  tell(begin, TIDINGS_BEGIN_ROUTE_TYPE, "webhook");
  tell(begin, TIDINGS_BEGIN_PRINCIPAL, "alice");
  tell(begin, TIDINGS_BEGIN_REQUEST_ID, "7");
  tell(begin, TIDINGS_BEGIN_TOOL, "think");
  CHECK(tidings_hub_begin_call(hub, begin, NULL, NULL, &answer));
  CHECK(tidings_begin_free(begin));
  CHECK(tidings_answer_call(answer, &call));
  CHECK(tidings_answer_free(answer));
  CHECK(tidings_call_acknowledgement(call, &text));
  print_text("acknowledged", text);

  /* The tool is done; the client may long be gone. */
  CHECK(tidings_call_complete(call, (const uint8_t *)RESULT, strlen(RESULT), NULL, NULL, &answer));
  CHECK(tidings_answer_outcome(answer, &outcome, sizeof outcome));
  CHECK(tidings_answer_free(answer));
  printf("outcome: %d, on disk: %d\n", (int)outcome.outcome, (int)outcome.committed);

  /* A server would go on with other calls; this program only looks whether the receiver has it. */
  CHECK(tidings_call_id(call, &text));
  CHECK(tidings_text_get(text, &id, &id_len));
  for (int looks = 0; looks < 3000 && delivered == 0; looks++) {
    const struct timespec pause = {0, 10 * 1000 * 1000};
    (void)nanosleep(&pause, NULL);
    delivered = count_in(hub, id, id_len, "delivered");
  }
  CHECK(tidings_text_free(text));
  printf("delivered: %d\n", (int)delivered);

  CHECK(tidings_call_free(call));
  CHECK(tidings_hub_close(hub, 2000, NULL, NULL, &answer));
  CHECK(tidings_answer_free(answer));
  CHECK(tidings_hub_free(hub));
  return delivered == 1 ? 0 : 1;
}
