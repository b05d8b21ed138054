/* Hubs, watched calls, and the places that take deliveries. */
#include <stdlib.h>
#include <string.h>

#include "stage.h"

static tidings_result hub_open(stage *self, const json *in, buffer *out) {
  tidings_options *options = NULL;
  tidings_hub *hub = NULL;
  const text url = text_of(in, "url", "");
  (void)out;
  TRY(options_of(json_member(in, "options"), &options));
  tidings_result result = tidings_hub_new(TEXT(url), options, &hub);
  (void)tidings_options_free(options);
  if (result == TIDINGS_OK) result = tidings_hub_open(hub);
  if (result != TIDINGS_OK) {
    (void)tidings_hub_free(hub);
    return result;
  }
  (void)tidings_hub_free(self->hub);
  self->hub = hub;
  return TIDINGS_OK;
}

static tidings_result hub_close(stage *self, const json *in, buffer *out) {
  tidings_answer *answer = NULL;
  uint64_t token = 0;
  uint64_t complete = 0;
  (void)in;
  TRY(tidings_hub_close(self->hub, 10000, self->port, &token, &answer));
  TRY(settle(self, token, &answer));
  TRY(tidings_answer_number(answer, &complete));
  TRY(tidings_answer_free(answer));
  put_name(out, "complete");
  put_bool(out, complete == 1);
  return TIDINGS_OK;
}

static tidings_result stage_reset(stage *self, const json *in, buffer *out) {
  buffer said = {NULL, 0, 0};
  tidings_result result = TIDINGS_OK;
  (void)out;
  clear(self);
  if (self->hub != NULL) result = hub_close(self, in, &said);
  free(said.data);
  (void)tidings_hub_free(self->hub);
  self->hub = NULL;
  return result;
}

static tidings_result hub_stats(stage *self, const json *in, buffer *out) {
  tidings_stats stats;
  (void)in;
  TRY(tidings_hub_stats(self->hub, &stats, sizeof stats));
  put_name(out, "events");
  put_number(out, stats.events);
  put_name(out, "lost");
  put_number(out, stats.lost);
  put_name(out, "refused");
  put_number(out, stats.refused);
  put_name(out, "failing");
  put_bool(out, stats.failing);
  return TIDINGS_OK;
}

static tidings_result list_deliveries(const stage *self, const json *in, tidings_deliveries **deliveries) {
  const text principal = text_of(in, "principal", NULL);
  const text state = text_of(in, "state", NULL);
  tidings_text *id = NULL;
  text call = {NULL, 0};
  if (json_member(in, "call") != NULL) {
    TRY(tidings_call_id(find(self, CALL, in, "call")->of.call, &id));
    TRY(tidings_text_get(id, &call.data, &call.len));
  }
  tidings_result result = tidings_hub_deliveries(self->hub, TEXT(principal), TEXT(call), TEXT(state), 100, deliveries);
  (void)tidings_text_free(id);
  return result;
}

static tidings_result hub_deliveries(stage *self, const json *in, buffer *out) {
  tidings_deliveries *deliveries = NULL;
  size_t count = 0;
  TRY(list_deliveries(self, in, &deliveries));
  TRY(tidings_deliveries_count(deliveries, &count));
  put_name(out, "deliveries");
  put(out, "[");
  for (size_t index = 0; index < count; index++) {
    tidings_delivery one;
    TRY(tidings_deliveries_get(deliveries, index, &one, sizeof one));
    put_comma(out);
    put(out, "{");
    put_optional(out, "route", one.route);
    put_optional(out, "trigger", one.trigger);
    put_optional(out, "state", one.state);
    put_optional(out, "lastError", one.last_error);
    put_optional(out, "eventId", one.event_id);
    put_name(out, "attempts");
    put_number(out, one.attempts);
    put(out, "}");
  }
  put(out, "]");
  return tidings_deliveries_free(deliveries);
}

/* --- Calls --- */

static tidings_result set_text(const tidings_begin *begin, int32_t field, const json *in, const char *name,
                               const char *fallback) {
  const text value = text_of(in, name, fallback);
  return value.data == NULL ? TIDINGS_OK : tidings_begin_set_text(begin, field, TEXT(value));
}

static tidings_result set_number(const tidings_begin *begin, int32_t field, const json *in, const char *name) {
  if (json_member(in, name) == NULL) return TIDINGS_OK;
  return tidings_begin_set_number(begin, field, number_of(in, name, 0));
}

static tidings_result set_each(const tidings_begin *begin, int32_t field, const json *list) {
  for (const json *one = list == NULL ? NULL : list->first; one != NULL; one = one->next) {
    TRY(tidings_begin_set_text(begin, field, one->text, one->len));
  }
  return TIDINGS_OK;
}

static tidings_result describe(const tidings_begin *begin, const json *in) {
  buffer room = {NULL, 0, 0};
  const json *types = json_member(in, "routeTypes");
  const text config = bytes_of(in, "config", &room);
  tidings_result result = TIDINGS_OK;
  if (config.data != NULL) result = tidings_begin_set_text(begin, TIDINGS_BEGIN_CONFIG, TEXT(config));
  free(room.data);
  TRY(result);
  if (types == NULL) TRY(tidings_begin_set_text(begin, TIDINGS_BEGIN_ROUTE_TYPE, "webhook", 7));
  TRY(set_each(begin, TIDINGS_BEGIN_ROUTE_TYPE, types));
  TRY(set_each(begin, TIDINGS_BEGIN_OPEN, json_member(in, "open")));
  TRY(set_text(begin, TIDINGS_BEGIN_PRINCIPAL, in, "principal", "anyone"));
  TRY(set_text(begin, TIDINGS_BEGIN_PEER, in, "peer", "calling"));
  TRY(set_text(begin, TIDINGS_BEGIN_REQUEST_ID, in, "requestId", "1"));
  TRY(set_text(begin, TIDINGS_BEGIN_TOOL, in, "tool", "tool"));
  TRY(set_number(begin, TIDINGS_BEGIN_TIMEOUT_MS, in, "timeoutMs"));
  TRY(set_number(begin, TIDINGS_BEGIN_TASK_TTL_MS, in, "taskTtlMs"));
  return tidings_begin_set_number(begin, TIDINGS_BEGIN_TASK_BOUND, 1);
}

tidings_result begin_call(const stage *self, const json *in, tidings_call **call) {
  tidings_begin *begin = NULL;
  tidings_answer *answer = NULL;
  uint64_t token = 0;
  TRY(tidings_begin_new(&begin));
  tidings_result result = describe(begin, in);
  if (result == TIDINGS_OK) result = tidings_hub_begin_call(self->hub, begin, self->port, &token, &answer);
  (void)tidings_begin_free(begin);
  TRY(result);
  TRY(settle(self, token, &answer));
  TRY(tidings_answer_call(answer, call));
  return tidings_answer_free(answer);
}

static tidings_result call_begin(stage *self, const json *in, buffer *out) {
  tidings_call *call = NULL;
  tidings_text *said = NULL;
  tidings_texts *list = NULL;
  TRY(begin_call(self, in, &call));
  add(self, CALL, in)->of.call = call;
  TRY(tidings_call_id(call, &said));
  put_text(out, "callId", said);
  TRY(tidings_call_acknowledgement(call, &said));
  put_text(out, "acknowledgement", said);
  TRY(tidings_call_accepted_routes(call, &list));
  put_texts(out, "accepted", list);
  TRY(tidings_call_ignored_triggers(call, &list));
  put_texts(out, "ignored", list);
  return TIDINGS_OK;
}

static tidings_call *call_of(const stage *self, const json *in) { return find(self, CALL, in, "call")->of.call; }

static tidings_result put_seq(buffer *out, tidings_result result, uint64_t seq) {
  TRY(result);
  put_name(out, "seq");
  put_number(out, seq);
  return TIDINGS_OK;
}

static tidings_result call_emit(stage *self, const json *in, buffer *out) {
  const text type = text_of(in, "type", "");
  const text payload = text_of(in, "payload", "");
  uint64_t seq = 0;
  tidings_result result = tidings_call_emit(call_of(self, in), TEXT(type), BYTES(payload), &seq);
  return put_seq(out, result, seq);
}

static tidings_result call_fire(stage *self, const json *in, buffer *out) {
  const text name = text_of(in, "name", "");
  const text payload = text_of(in, "payload", "");
  uint64_t seq = 0;
  tidings_result result = tidings_call_fire(call_of(self, in), TEXT(name), BYTES(payload), &seq);
  return put_seq(out, result, seq);
}

static tidings_result call_disconnected(stage *self, const json *in, buffer *out) {
  (void)out;
  return tidings_call_disconnected(call_of(self, in));
}

static tidings_result put_ended(const stage *self, uint64_t token, tidings_answer *answer, buffer *out) {
  static const char *const NAMES[] = {"?", "completed", "failed", "cancelled", "timeout"};
  tidings_outcome ended;
  tidings_text *said = NULL;
  TRY(settle(self, token, &answer));
  TRY(tidings_answer_outcome(answer, &ended, sizeof ended));
  put_name(out, "outcome");
  put_string(out, NAMES[ended.outcome], strlen(NAMES[ended.outcome]));
  put_name(out, "ours");
  put_bool(out, ended.ours);
  put_name(out, "committed");
  put_bool(out, ended.committed);
  TRY(tidings_answer_reason(answer, &said));
  put_text(out, "reason", said);
  TRY(tidings_answer_undelivered(answer, &said));
  put_text(out, "undelivered", said);
  return tidings_answer_free(answer);
}

static tidings_result call_complete(stage *self, const json *in, buffer *out) {
  buffer room = {NULL, 0, 0};
  tidings_answer *answer = NULL;
  uint64_t token = 0;
  const text result = bytes_of(in, "result", &room);
  tidings_result begun = tidings_call_complete(call_of(self, in), BYTES(result), self->port, &token, &answer);
  free(room.data);
  TRY(begun);
  return put_ended(self, token, answer, out);
}

static tidings_result call_fail(stage *self, const json *in, buffer *out) {
  const text error = text_of(in, "error", NULL);
  const text reason = text_of(in, "reason", NULL);
  tidings_answer *answer = NULL;
  uint64_t token = 0;
  TRY(tidings_call_fail(call_of(self, in), BYTES(error), TEXT(reason), self->port, &token, &answer));
  return put_ended(self, token, answer, out);
}

static tidings_result call_cancel(stage *self, const json *in, buffer *out) {
  const text reason = text_of(in, "reason", NULL);
  tidings_answer *answer = NULL;
  uint64_t token = 0;
  TRY(tidings_call_cancel(call_of(self, in), TEXT(reason), self->port, &token, &answer));
  return put_ended(self, token, answer, out);
}

static tidings_result call_ended(stage *self, const json *in, buffer *out) {
  tidings_answer *answer = NULL;
  uint64_t token = 0;
  TRY(tidings_call_ended(call_of(self, in), self->port, &token, &answer));
  return put_ended(self, token, answer, out);
}

/* --- Places that take deliveries --- */

static tidings_result hub_outlet(stage *self, const json *in, buffer *out) {
  const text type = text_of(in, "type", "");
  const text name = text_of(in, "name", NULL);
  tidings_outlet *outlet = NULL;
  (void)out;
  TRY(tidings_hub_outlet(self->hub, TEXT(type), TEXT(name), NULL, 0, 0, 0, &outlet));
  add(self, OUTLET, in)->of.outlet = outlet;
  return TIDINGS_OK;
}

static tidings_result reply(const tidings_host_delivery *delivery, const char *how) {
  int32_t in_time = 0;
  if (strcmp(how, "confirm") == 0) return tidings_host_delivery_confirm(delivery, &in_time);
  return tidings_host_delivery_refuse(
      delivery, strcmp(how, "fail") == 0 ? TIDINGS_REFUSE_FAILED : TIDINGS_REFUSE_REFUSED, &in_time);
}

static tidings_result outlet_next(stage *self, const json *in, buffer *out) {
  tidings_answer *answer = NULL;
  tidings_host_delivery *delivery = NULL;
  tidings_host_delivery_facts facts;
  uint64_t token = 0;
  const text how = text_of(in, "answer", "");
  TRY(tidings_outlet_next(find(self, OUTLET, in, "outlet")->of.outlet, self->port, &token, &answer));
  TRY(settle(self, token, &answer));
  TRY(tidings_answer_host_delivery(answer, &delivery));
  TRY(tidings_answer_free(answer));
  TRY(tidings_host_delivery_get(delivery, &facts, sizeof facts));
  TRY(reply(delivery, how.data));
  put_optional(out, "route", facts.route);
  put_optional(out, "type", facts.route_type);
  put_optional(out, "endpoint", facts.endpoint);
  put_optional(out, "trigger", facts.trigger);
  put_optional(out, "eventId", facts.event_id);
  put_optional(out, "body", facts.body);
  put_name(out, "attempt");
  put_number(out, facts.attempt);
  return tidings_host_delivery_free(delivery);
}

const operation CALLS[] = {
    {"stage.reset", stage_reset},
    {"hub.open", hub_open},
    {"hub.close", hub_close},
    {"hub.stats", hub_stats},
    {"hub.deliveries", hub_deliveries},
    {"hub.outlet", hub_outlet},
    {"outlet.next", outlet_next},
    {"call.begin", call_begin},
    {"call.emit", call_emit},
    {"call.fire", call_fire},
    {"call.disconnected", call_disconnected},
    {"call.complete", call_complete},
    {"call.fail", call_fail},
    {"call.cancel", call_cancel},
    {"call.ended", call_ended},
    {NULL, NULL},
};
