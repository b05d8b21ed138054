#include "stage.h"

#include <stdlib.h>
#include <string.h>

text text_of(const json *in, const char *name, const char *fallback) {
  const json *member = json_member(in, name);
  text found = {fallback, fallback == NULL ? 0 : strlen(fallback)};
  if (member != NULL && member->text != NULL) {
    found.data = member->text;
    found.len = member->len;
  }
  return found;
}

text bytes_of(const json *in, const char *name, buffer *room) {
  const json *member = json_member(in, name);
  text found = text_of(in, name, NULL);
  const text hex = text_of(member, "hex", NULL);
  if (found.data != NULL || hex.data == NULL) return found;
  for (size_t at = 0; at + 1 < hex.len; at += 2) {
    const char digits[3] = {hex.data[at], hex.data[at + 1], '\0'};
    const unsigned char byte = (unsigned char)strtoul(digits, NULL, 16);
    put_bytes(room, &byte, 1);
  }
  found.data = room->data;
  found.len = room->len;
  return found;
}

uint64_t number_of(const json *in, const char *name, uint64_t fallback) {
  const json *member = json_member(in, name);
  return member == NULL ? fallback : json_number(member);
}

int is_true(const json *in, const char *name) {
  const json *member = json_member(in, name);
  return member != NULL && member->kind == JSON_TRUE;
}

thing *add(stage *self, thing_kind kind, const json *in) {
  const text name = text_of(in, "as", "");
  thing *found = obtain(sizeof *found);
  found->kind = kind;
  found->name = obtain(name.len + 1);
  memcpy(found->name, name.data, name.len);
  found->next = self->things;
  self->things = found;
  return found;
}

thing *find(const stage *self, thing_kind kind, const json *in, const char *member) {
  /* What a scenario named twice is the later one; what it did not name is no handle. */
  static thing none;
  const text name = text_of(in, member, "");
  for (thing *found = self->things; found != NULL; found = found->next) {
    if (found->kind == kind && strcmp(found->name, name.data) == 0) return found;
  }
  memset(&none, 0, sizeof none);
  return &none;
}

thing *find_number(const stage *self, thing_kind kind, uint32_t outbox, uint64_t number) {
  thing *found = self->things;
  while (found != NULL && (found->kind != kind || found->outbox != outbox || found->number != number)) {
    found = found->next;
  }
  return found;
}

static void let_go(const stage *self, thing *gone) {
  switch (gone->kind) {
    case WRITER: (void)tidings_writer_free(gone->of.writer); break;
    case TAIL: (void)tidings_tail_free(gone->of.tail); break;
    case CALL: (void)tidings_call_free(gone->of.call); break;
    case ASK:
      if (gone->token != 0) (void)tidings_port_cancel(self->port, gone->token);
      (void)tidings_answer_free(gone->of.answer);
      break;
    case OUTLET: (void)tidings_outlet_free(gone->of.outlet); break;
    case OUTBOX: (void)tidings_outbox_free(gone->of.outbox); break;
    case PEER: (void)tidings_peer_free(gone->of.peer); break;
    case LISTENER: (void)tidings_listener_free(gone->of.listener); break;
  }
  (void)tidings_batch_free(gone->batch);
  free(gone->name);
  free(gone);
}

void clear(stage *self) {
  while (self->things != NULL) {
    thing *gone = self->things;
    self->things = gone->next;
    let_go(self, gone);
  }
}

tidings_result turn(const stage *self, uint64_t wait_ms, uint64_t *finished) {
  size_t count = 0;
  int32_t ready = 0;
  *finished = 0;
  TRY(tidings_port_wait(self->port, wait_ms, &ready));
  TRY(tidings_port_drain(self->port, finished, 1, &count));
  for (thing *asking = self->things; count == 1 && asking != NULL; asking = asking->next) {
    if (asking->kind != ASK || asking->token != *finished) continue;
    asking->came_to = tidings_port_take(self->port, asking->token, &asking->of.answer);
    asking->token = 0;
  }
  return TIDINGS_OK;
}

tidings_result settle(const stage *self, uint64_t token, tidings_answer **answer) {
  while (*answer == NULL) {
    uint64_t finished = 0;
    TRY(turn(self, 1000, &finished));
    if (finished == token) return tidings_port_take(self->port, token, answer);
  }
  return TIDINGS_OK;
}

tidings_result done(const stage *self, uint64_t token, tidings_answer *answer) {
  TRY(settle(self, token, &answer));
  return tidings_answer_free(answer);
}

void put_text(buffer *out, const char *name, tidings_text *text) {
  const char *data = NULL;
  size_t len = 0;
  put_name(out, name);
  if (text != NULL && tidings_text_get(text, &data, &len) == TIDINGS_OK) put_payload(out, data, len);
  else put(out, "null");
  (void)tidings_text_free(text);
}

void put_optional(buffer *out, const char *name, tidings_bytes value) {
  put_name(out, name);
  if (value.data == NULL) put(out, "null");
  else put_payload(out, value.data, value.len);
}

void put_texts(buffer *out, const char *name, tidings_texts *texts) {
  size_t count = 0;
  put_name(out, name);
  put(out, "[");
  (void)tidings_texts_count(texts, &count);
  for (size_t index = 0; index < count; index++) {
    tidings_bytes one;
    if (tidings_texts_get(texts, index, &one, sizeof one) != TIDINGS_OK) break;
    put_comma(out);
    put_string(out, one.data, one.len);
  }
  put(out, "]");
  (void)tidings_texts_free(texts);
}

/* --- Options --- */

static tidings_result set_texts(const tidings_options *options, int32_t option, const json *list) {
  for (const json *one = list == NULL ? NULL : list->first; one != NULL; one = one->next) {
    TRY(tidings_options_set_text(options, option, one->text, one->len));
  }
  return TIDINGS_OK;
}

static tidings_result set_all(const tidings_options *options, const json *given) {
  static const struct {
    const char *name;
    int32_t option;
  } TEXTS[] = {{"defaultSecret", TIDINGS_OPTION_DEFAULT_SECRET}, {"undeliverable", TIDINGS_OPTION_UNDELIVERABLE}},
    KEPT[] = {{"maxEvents", TIDINGS_OPTION_KEEP_EVENTS},
              {"maxBytes", TIDINGS_OPTION_KEEP_BYTES},
              {"maxAgeMs", TIDINGS_OPTION_KEEP_AGE_MS},
              {"afterCloseMs", TIDINGS_OPTION_KEEP_AFTER_CLOSE_MS},
              {"maxTotalEvents", TIDINGS_OPTION_KEEP_TOTAL_EVENTS},
              {"maxTotalBytes", TIDINGS_OPTION_KEEP_TOTAL_BYTES}};
  const json *allow = json_member(given, "allow");
  const json *ports = json_member(allow, "ports");
  const json *keep = json_member(given, "retention");
  const json *most = json_member(given, "maxBodyBytes");
  TRY(set_texts(options, TIDINGS_OPTION_ALLOW_NETWORK, json_member(allow, "networks")));
  TRY(set_texts(options, TIDINGS_OPTION_ALLOW_HOST, json_member(allow, "hosts")));
  TRY(set_texts(options, TIDINGS_OPTION_HEADER_NAME, json_member(given, "headerNames")));
  TRY(set_texts(options, TIDINGS_OPTION_REDACT, json_member(given, "redact")));
  for (const json *port = ports == NULL ? NULL : ports->first; port != NULL; port = port->next) {
    TRY(tidings_options_set_number(options, TIDINGS_OPTION_ALLOW_PORT, json_number(port)));
  }
  TRY(tidings_options_set_number(options, TIDINGS_OPTION_ALLOW_HTTP, (uint64_t)is_true(allow, "http")));
  TRY(tidings_options_set_number(options, TIDINGS_OPTION_REQUIRE_SECRET, (uint64_t)is_true(given, "requireSecret")));
  for (size_t index = 0; index < sizeof TEXTS / sizeof *TEXTS; index++) {
    const text value = text_of(given, TEXTS[index].name, NULL);
    if (value.data != NULL) TRY(tidings_options_set_text(options, TEXTS[index].option, TEXT(value)));
  }
  for (size_t index = 0; index < sizeof KEPT / sizeof *KEPT; index++) {
    const json *value = json_member(keep, KEPT[index].name);
    if (value != NULL) TRY(tidings_options_set_number(options, KEPT[index].option, json_number(value)));
  }
  if (most != NULL) TRY(tidings_options_set_number(options, TIDINGS_OPTION_MAX_BODY_BYTES, json_number(most)));
  return TIDINGS_OK;
}

tidings_result options_of(const json *given, tidings_options **options) {
  tidings_result result = tidings_options_new(options);
  if (result == TIDINGS_OK && (result = set_all(*options, given)) != TIDINGS_OK) (void)tidings_options_free(*options);
  return result;
}
