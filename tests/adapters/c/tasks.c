/* Tasks: how they stand, what they ask for, what they are answered. */
#include <stdlib.h>

#include "stage.h"

/* Begins to wait for a client's answers, while the scenario goes on. */
static tidings_result call_ask(stage *self, const json *in, buffer *out) {
  buffer room = {NULL, 0, 0};
  const text requests = bytes_of(in, "requests", &room);
  const tidings_call *call = find(self, CALL, in, "call")->of.call;
  thing *asking = add(self, ASK, in);
  (void)out;
  /* What is refused at once is told where the answers would be. */
  asking->came_to = tidings_call_ask(call, BYTES(requests), self->port, &asking->token, &asking->of.answer);
  free(room.data);
  return TIDINGS_OK;
}

/* Waits until the tool has its answers. */
static tidings_result ask_answers(stage *self, const json *in, buffer *out) {
  const thing *asking = find(self, ASK, in, "ask");
  tidings_text *answers = NULL;
  uint64_t finished = 0;
  if (asking->name == NULL) return NOT_ASKED;
  while (asking->token != 0) TRY(turn(self, 1000, &finished));
  TRY(asking->came_to);
  TRY(tidings_answer_text(asking->of.answer, &answers));
  put_text(out, "answers", answers);
  return TIDINGS_OK;
}

static tidings_result hub_task(stage *self, const json *in, buffer *out) {
  const text id = text_of(in, "id", "");
  const text asker = text_of(in, "principal", "anyone");
  tidings_task *task = NULL;
  tidings_task_facts facts = {0};
  uint64_t finished = 0;
  /* It only reads: a scenario that looks again and again still lets the tools that ask go on. */
  TRY(turn(self, 0, &finished));
  TRY(tidings_hub_task(self->hub, TEXT(id), TEXT(asker), &task));
  if (task != NULL) TRY(tidings_task_get(task, &facts, sizeof facts));
  put_optional(out, "task", facts.json);
  return tidings_task_free(task);
}

static tidings_result put_found(const stage *self, uint64_t token, tidings_answer *answer, buffer *out) {
  uint64_t found = 0;
  TRY(settle(self, token, &answer));
  TRY(tidings_answer_number(answer, &found));
  put_name(out, "found");
  put_bool(out, found == 1);
  return tidings_answer_free(answer);
}

static tidings_result hub_answer_task(stage *self, const json *in, buffer *out) {
  buffer room = {NULL, 0, 0};
  const text id = text_of(in, "id", "");
  const text asker = text_of(in, "principal", "anyone");
  const text responses = bytes_of(in, "responses", &room);
  tidings_answer *answer = NULL;
  uint64_t token = 0;
  tidings_result begun =
      tidings_hub_answer_task(self->hub, TEXT(id), TEXT(asker), BYTES(responses), self->port, &token, &answer);
  free(room.data);
  TRY(begun);
  return put_found(self, token, answer, out);
}

static tidings_result hub_cancel_task(stage *self, const json *in, buffer *out) {
  const text id = text_of(in, "id", "");
  const text asker = text_of(in, "principal", "anyone");
  tidings_answer *answer = NULL;
  uint64_t token = 0;
  TRY(tidings_hub_cancel_task(self->hub, TEXT(id), TEXT(asker), self->port, &token, &answer));
  return put_found(self, token, answer, out);
}

const operation TASKS[] = {
    {"call.ask", call_ask},
    {"ask.answers", ask_answers},
    {"hub.task", hub_task},
    {"hub.answer_task", hub_answer_task},
    {"hub.cancel_task", hub_cancel_task},
    {NULL, NULL},
};
