/* Streams, writers and tails. */
#include <stdlib.h>
#include <string.h>

#include "stage.h"

/* As many events as one read of the other surfaces brings. */
enum { PAGE = 1000 };

static tidings_result open_stream(const stage *self, const json *in, tidings_stream **stream) {
  const text scope = text_of(in, "scope", "");
  const text name = text_of(in, "name", "");
  return tidings_hub_stream(self->hub, TEXT(scope), TEXT(name), stream);
}

/* The number to read after, where there is no cursor. */
static int64_t after(const json *in) {
  const json *number = json_member(in, "after");
  return number == NULL ? TIDINGS_EARLIEST : (int64_t)json_number(number);
}

static void put_event(buffer *out, const tidings_event *event) {
  put_comma(out);
  put(out, "[");
  put_number(out, event->seq);
  put_comma(out);
  put_string(out, event->kind.data, event->kind.len);
  put_comma(out);
  put_payload(out, event->payload.data, event->payload.len);
  put(out, "]");
}

static void put_seq(buffer *out, const char *name, int has, uint64_t seq) {
  put_name(out, name);
  if (has) put_number(out, seq);
  else put(out, "null");
}

static void put_gap(buffer *out, const tidings_gap *gap) {
  static const char *const REASONS[] = {"none", "evicted", "regressed", "lost", "unknown"};
  put_name(out, "gap");
  if (gap->reason == TIDINGS_GAP_NONE) {
    put(out, "null");
    return;
  }
  put(out, "{");
  put_name(out, "reason");
  put_string(out, REASONS[gap->reason], strlen(REASONS[gap->reason]));
  put_seq(out, "earliestSeq", gap->has_earliest, gap->earliest_seq);
  put_seq(out, "headSeq", gap->has_head, gap->head_seq);
  put(out, "}");
}

static tidings_result stream_append(stage *self, const json *in, buffer *out) {
  const json *payloads = json_member(in, "payloads");
  const text type = text_of(in, "type", "message");
  const text key = text_of(in, "key", NULL);
  const uint32_t flags = is_true(in, "close") ? TIDINGS_APPEND_CLOSE : 0;
  tidings_stream *stream = NULL;
  tidings_answer *answer = NULL;
  uint64_t token = 0;
  uint64_t first = 0;
  size_t count = 0;
  for (const json *one = payloads == NULL ? NULL : payloads->first; one != NULL; one = one->next) count++;
  TRY(open_stream(self, in, &stream));
  tidings_bytes *given = obtain(count * sizeof *given);
  count = 0;
  for (const json *one = payloads == NULL ? NULL : payloads->first; one != NULL; one = one->next) {
    given[count].data = (const uint8_t *)one->text;
    given[count++].len = one->len;
  }
  tidings_result result = tidings_stream_append(stream, TEXT(type), given, count, NULL, 0, TEXT(key), TIDINGS_PROCESS,
                                                flags, self->port, &token, &answer);
  free(given);
  (void)tidings_stream_free(stream);
  TRY(result);
  TRY(settle(self, token, &answer));
  TRY(tidings_answer_number(answer, &first));
  TRY(tidings_answer_free(answer));
  put_seq(out, "first", 1, first);
  return TIDINGS_OK;
}

static tidings_result stream_close(stage *self, const json *in, buffer *out) {
  tidings_stream *stream = NULL;
  tidings_answer *answer = NULL;
  uint64_t token = 0;
  (void)out;
  TRY(open_stream(self, in, &stream));
  tidings_result result = tidings_stream_close(stream, self->port, &token, &answer);
  (void)tidings_stream_free(stream);
  TRY(result);
  return done(self, token, answer);
}

static tidings_result stream_claim(stage *self, const json *in, buffer *out) {
  tidings_stream *stream = NULL;
  tidings_answer *answer = NULL;
  tidings_writer *writer = NULL;
  uint64_t token = 0;
  (void)out;
  TRY(open_stream(self, in, &stream));
  tidings_result result = tidings_stream_claim(stream, self->port, &token, &answer);
  (void)tidings_stream_free(stream);
  TRY(result);
  TRY(settle(self, token, &answer));
  TRY(tidings_answer_writer(answer, &writer));
  add(self, WRITER, in)->of.writer = writer;
  return tidings_answer_free(answer);
}

static tidings_result stream_read(stage *self, const json *in, buffer *out) {
  const text cursor = text_of(in, "cursor", NULL);
  tidings_stream *stream = NULL;
  tidings_batch *batch = NULL;
  tidings_text *next = NULL;
  tidings_gap gap;
  size_t count = 0;
  int32_t has_head = 0;
  int32_t ended = 0;
  uint64_t head = 0;
  TRY(open_stream(self, in, &stream));
  tidings_result result = tidings_stream_read(stream, TEXT(cursor), after(in), PAGE, &batch);
  (void)tidings_stream_free(stream);
  TRY(result);
  TRY(tidings_batch_count(batch, &count));
  put_name(out, "events");
  put(out, "[");
  for (size_t index = 0; index < count; index++) {
    tidings_event event;
    TRY(tidings_batch_event(batch, index, &event, sizeof event));
    put_event(out, &event);
  }
  put(out, "]");
  TRY(tidings_batch_gap(batch, &gap, sizeof gap));
  put_gap(out, &gap);
  TRY(tidings_batch_cursor(batch, SIZE_MAX, &next));
  put_text(out, "cursor", next);
  TRY(tidings_batch_head(batch, &has_head, &head));
  put_seq(out, "headSeq", has_head, head);
  TRY(tidings_batch_ended(batch, &ended));
  put_name(out, "ended");
  put_bool(out, ended);
  return tidings_batch_free(batch);
}

static tidings_result stream_tail(stage *self, const json *in, buffer *out) {
  const text cursor = text_of(in, "cursor", NULL);
  tidings_stream *stream = NULL;
  tidings_tail *tail = NULL;
  (void)out;
  TRY(open_stream(self, in, &stream));
  tidings_result result = tidings_stream_tail(stream, TEXT(cursor), after(in), &tail);
  (void)tidings_stream_free(stream);
  TRY(result);
  add(self, TAIL, in)->of.tail = tail;
  return TIDINGS_OK;
}

static tidings_result hub_resume(stage *self, const json *in, buffer *out) {
  const text scope = text_of(in, "scope", "");
  const text cursor = text_of(in, "cursor", "");
  tidings_tail *tail = NULL;
  (void)out;
  TRY(tidings_hub_resume(self->hub, TEXT(scope), TEXT(cursor), &tail));
  add(self, TAIL, in)->of.tail = tail;
  return TIDINGS_OK;
}

/* Writes the next item of what was read, a gap before the events; 0 if there is none left. */
static tidings_result put_item(thing *self, buffer *out, int *written) {
  tidings_event event;
  tidings_gap gap;
  size_t count = 0;
  *written = 0;
  if (self->batch == NULL) return TIDINGS_OK;
  TRY(tidings_batch_gap(self->batch, &gap, sizeof gap));
  TRY(tidings_batch_count(self->batch, &count));
  const size_t before = gap.reason != TIDINGS_GAP_NONE;
  if (self->taken < before + count) {
    if (self->taken < before) {
      put_comma(out);
      put(out, "{");
      put_gap(out, &gap);
      put(out, "}");
    } else {
      TRY(tidings_batch_event(self->batch, self->taken - before, &event, sizeof event));
      put_event(out, &event);
    }
    self->taken++;
    *written = 1;
    return TIDINGS_OK;
  }
  TRY(tidings_batch_free(self->batch));
  self->batch = NULL;
  self->taken = 0;
  return TIDINGS_OK;
}

static tidings_result tail_next(stage *self, const json *in, buffer *out) {
  thing *tail = find(self, TAIL, in, "tail");
  int ended = 0;
  put_name(out, "items");
  put(out, "[");
  for (uint64_t left = number_of(in, "count", 0); left > 0 && !ended;) {
    tidings_answer *answer = NULL;
    uint64_t token = 0;
    int32_t state = 0;
    int written = 0;
    TRY(put_item(tail, out, &written));
    if (written) {
      left--;
      continue;
    }
    TRY(tidings_tail_next(tail->of.tail, self->port, &token, &answer));
    TRY(settle(self, token, &answer));
    TRY(tidings_answer_batch(answer, &tail->batch, &state));
    TRY(tidings_answer_free(answer));
    ended = state == TIDINGS_ANSWER_END;
  }
  put(out, "]");
  put_name(out, "ended");
  put_bool(out, ended);
  return TIDINGS_OK;
}

/* --- Writers --- */

static tidings_result hub_new_writer(stage *self, const json *in, buffer *out) {
  const text scope = text_of(in, "scope", "");
  const text name = text_of(in, "name", "");
  tidings_writer *writer = NULL;
  (void)out;
  TRY(tidings_hub_new_writer(self->hub, TEXT(scope), TEXT(name), &writer));
  add(self, WRITER, in)->of.writer = writer;
  return TIDINGS_OK;
}

static tidings_writer *writer_of(const stage *self, const json *in) {
  return find(self, WRITER, in, "writer")->of.writer;
}

static tidings_result writer_append(stage *self, const json *in, buffer *out) {
  const text type = text_of(in, "type", "message");
  const text payload = text_of(in, "payload", "");
  const tidings_writer *writer = writer_of(self, in);
  tidings_text *cursor = NULL;
  uint64_t seq = 0;
  TRY(tidings_writer_append(writer, TEXT(type), BYTES(payload), NULL, 0, 0, &seq));
  TRY(tidings_writer_cursor(writer, seq, &cursor));
  put_text(out, "cursor", cursor);
  return TIDINGS_OK;
}

static tidings_result writer_cursor(stage *self, const json *in, buffer *out) {
  tidings_text *cursor = NULL;
  TRY(tidings_writer_last_cursor(writer_of(self, in), &cursor));
  put_text(out, "cursor", cursor);
  return TIDINGS_OK;
}

static tidings_result writer_flush(stage *self, const json *in, buffer *out) {
  const text durability = text_of(in, "durability", "process");
  const int32_t level = strcmp(durability.data, "disk") == 0 ? TIDINGS_DISK : TIDINGS_PROCESS;
  tidings_answer *answer = NULL;
  uint64_t token = 0;
  (void)out;
  TRY(tidings_writer_flush(writer_of(self, in), level, self->port, &token, &answer));
  return done(self, token, answer);
}

static tidings_result writer_close(stage *self, const json *in, buffer *out) {
  (void)out;
  return tidings_writer_close(writer_of(self, in));
}

const operation STREAMS[] = {
    {"stream.append", stream_append}, {"stream.close", stream_close},   {"stream.claim", stream_claim},
    {"stream.read", stream_read},     {"stream.tail", stream_tail},     {"hub.resume", hub_resume},
    {"tail.next", tail_next},         {"hub.new_writer", hub_new_writer}, {"writer.append", writer_append},
    {"writer.cursor", writer_cursor}, {"writer.flush", writer_flush},   {"writer.close", writer_close},
    {NULL, NULL},
};
