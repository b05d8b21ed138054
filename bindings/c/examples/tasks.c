/* A call as a task: its client goes away, comes back for the task, answers what it asks, and is told of the end by a route
 * that this program serves itself. All of it in one poll loop.
 *
 *   tasks sqlite:PATH
 */
#include <poll.h>

#include "check.h"

static const char CONFIG[] =
    "{\"routes\":[{\"id\":\"desk\",\"type\":\"callback\",\"triggers\":[\"completed\"],\"endpoint\":\"desk\"}]}";
static const char QUESTION[] =
    "{\"size\":{\"method\":\"elicitation/create\",\"params\":{\"message\":\"How large?\",\"requestedSchema\":{}}}}";
static const char ANSWERS[] = "{\"size\":{\"action\":\"accept\",\"content\":{\"size\":42}}}";
static const char RESULT[] = "{\"content\":[{\"type\":\"text\",\"text\":\"done\"}]}";

static void tell(const tidings_begin *begin, int32_t field, const char *value) {
  CHECK(tidings_begin_set_text(begin, field, value, strlen(value)));
}

/* Watches a call that is a task from the start. */
static tidings_call *begin_task(const tidings_hub *hub) {
  tidings_begin *begin = NULL;
  tidings_answer *answer = NULL;
  tidings_call *call = NULL;
  CHECK(tidings_begin_new(&begin));
  tell(begin, TIDINGS_BEGIN_CONFIG, CONFIG);
  tell(begin, TIDINGS_BEGIN_ROUTE_TYPE, "callback");
  tell(begin, TIDINGS_BEGIN_OPEN, "desk");
  tell(begin, TIDINGS_BEGIN_PRINCIPAL, "alice");
  tell(begin, TIDINGS_BEGIN_REQUEST_ID, "\"r-1\"");
  tell(begin, TIDINGS_BEGIN_TOOL, "measure");
  CHECK(tidings_begin_set_number(begin, TIDINGS_BEGIN_TASK_TTL_MS, 60000));
  CHECK(tidings_begin_set_number(begin, TIDINGS_BEGIN_TASK_BOUND, 1));
  CHECK(tidings_hub_begin_call(hub, begin, NULL, NULL, &answer));
  CHECK(tidings_begin_free(begin));
  CHECK(tidings_answer_call(answer, &call));
  CHECK(tidings_answer_free(answer));
  return call;
}

/* What `tasks/get` answers to alice; nobody else may ask. Says whether its status is that one. */
static int is_task(const tidings_hub *hub, const char *id, size_t id_len, const char *status) {
  int is = 0;
  tidings_task *task = NULL;
  tidings_task_facts facts;
  CHECK(tidings_hub_task(hub, id, id_len, "mallory", 7, &task));
  if (task != NULL) exit(1);
  CHECK(tidings_hub_task(hub, id, id_len, "alice", 5, &task));
  if (task == NULL) exit(1);
  CHECK(tidings_task_get(task, &facts, sizeof facts));
  is = facts.status.len == strlen(status) && memcmp(facts.status.data, status, facts.status.len) == 0;
  if (is) printf("task: %s\n", status);
  CHECK(tidings_task_free(task));
  return is;
}

/* Every event of the task, for whoever keeps records. */
static void print_export(const tidings_hub *hub, const char *id, size_t id_len) {
  tidings_task *task = NULL;
  tidings_task_facts facts;
  tidings_stream *stream = NULL;
  tidings_export *exported = NULL;
  tidings_text *lines = NULL;
  int count = 0;
  CHECK(tidings_hub_task(hub, id, id_len, "alice", 5, &task));
  CHECK(tidings_task_get(task, &facts, sizeof facts));
  CHECK(tidings_hub_stream(hub, (const char *)facts.scope.data, facts.scope.len, (const char *)facts.name.data,
                           facts.name.len, &stream));
  CHECK(tidings_task_free(task));
  CHECK(tidings_stream_export(stream, NULL, 0, TIDINGS_EARLIEST, &exported));
  for (;;) {
    const char *data = NULL;
    size_t len = 0;
    CHECK(tidings_export_next(exported, &lines));
    if (lines == NULL) break;
    CHECK(tidings_text_get(lines, &data, &len));
    for (size_t at = 0; at < len; at++) count += data[at] == '\n';
    CHECK(tidings_text_free(lines));
  }
  printf("events: %d\n", count);
  CHECK(tidings_export_free(exported));
  CHECK(tidings_stream_free(stream));
}

static void serve(tidings_answer *answer) {
  tidings_host_delivery *delivery = NULL;
  tidings_host_delivery_facts facts;
  int32_t in_time = 0;
  CHECK(tidings_answer_host_delivery(answer, &delivery));
  CHECK(tidings_answer_free(answer));
  if (delivery == NULL) exit(1); /* the outlet was closed */
  CHECK(tidings_host_delivery_get(delivery, &facts, sizeof facts));
  printf("route %.*s is told: %.*s, attempt %d\n", (int)facts.route.len, (const char *)facts.route.data,
         (int)facts.trigger.len, (const char *)facts.trigger.data, (int)facts.attempt);
  CHECK(tidings_host_delivery_confirm(delivery, &in_time));
  printf("in time: %d\n", (int)in_time);
  CHECK(tidings_host_delivery_free(delivery));
}

int main(int argc, char **argv) {
  tidings_hub *hub = NULL;
  tidings_port *port = NULL;
  tidings_outlet *outlet = NULL;
  tidings_call *call = NULL;
  tidings_answer *answer = NULL;
  tidings_text *text = NULL;
  tidings_text *input = NULL;
  tidings_stats stats;
  struct pollfd watched = {-1, POLLIN, 0};
  int32_t descriptor = -1;
  uint64_t asked = 0;
  uint64_t offered = 0;
  const char *id = NULL;
  const char *data = NULL;
  size_t id_len = 0;
  size_t len = 0;
  int served = 0;
  int answered = 0;
  int looks = 0;

  if (argc != 2) {
    fprintf(stderr, "usage: tasks sqlite:PATH\n");
    return 2;
  }
  CHECK(tidings_hub_new(argv[1], strlen(argv[1]), NULL, &hub));
  CHECK(tidings_port_new(&port));
  CHECK(tidings_port_descriptor(port, &descriptor));
  watched.fd = descriptor;
  CHECK(tidings_hub_outlet(hub, "callback", 8, "desk", 4, NULL, 0, 0, 0, &outlet));
  CHECK(tidings_outlet_next(outlet, port, &offered, &answer));
  if (answer != NULL) return 1; /* there is none yet */

  call = begin_task(hub);
  CHECK(tidings_call_id(call, &text));
  CHECK(tidings_text_get(text, &id, &id_len));
  CHECK(tidings_call_ask(call, (const uint8_t *)QUESTION, strlen(QUESTION), port, &asked, &answer));
  if (answer != NULL) return 1; /* nobody has answered yet */

  while (!served) {
    uint64_t tokens[8];
    size_t count = 0;
    if (!answered && is_task(hub, id, id_len, "input_required")) {
      /* `tasks/update`: any process on the same store may take it. */
      CHECK(tidings_hub_answer_task(hub, id, id_len, "alice", 5, (const uint8_t *)ANSWERS, strlen(ANSWERS), NULL, NULL,
                                    &answer));
      CHECK(tidings_answer_free(answer));
      answered = 1;
    }
    /* This client looks now and then; one that listens is told by notifications/tasks. */
    if (poll(&watched, 1, answered ? 30000 : 10) <= 0 && (answered || ++looks > 3000)) return 1;
    CHECK(tidings_port_drain(port, tokens, 8, &count));
    for (size_t n = 0; n < count; n++) {
      CHECK(tidings_port_take(port, tokens[n], &answer));
      if (tokens[n] == offered) {
        serve(answer);
        served = 1;
      } else if (tokens[n] == asked) {
        CHECK(tidings_answer_text(answer, &input));
        CHECK(tidings_answer_free(answer));
        CHECK(tidings_text_get(input, &data, &len));
        printf("answered: %.*s\n", (int)len, data);
        CHECK(tidings_text_free(input));
        asked = 0;
        CHECK(tidings_call_complete(call, (const uint8_t *)RESULT, strlen(RESULT), NULL, NULL, &answer));
        CHECK(tidings_answer_free(answer));
      }
    }
  }
  if (!is_task(hub, id, id_len, "completed")) return 1;
  print_export(hub, id, id_len);
  CHECK(tidings_hub_stats(hub, &stats, sizeof stats));
  printf("dead: %d\n", (int)stats.dead);

  CHECK(tidings_text_free(text));
  CHECK(tidings_call_free(call));
  CHECK(tidings_outlet_free(outlet));
  CHECK(tidings_port_free(port));
  CHECK(tidings_hub_close(hub, 2000, NULL, NULL, &answer));
  CHECK(tidings_answer_free(answer));
  CHECK(tidings_hub_free(hub));
  return 0;
}
