/* The rules that the header offers: webhooks, configs, errors. */
#include <stdlib.h>
#include <string.h>

#include "stage.h"

enum { MOST_TEXTS = 8 };

/* A member that is a list of texts; says how many there are. */
static size_t texts_of(const json *in, const char *name, tidings_bytes *texts) {
  const json *list = json_member(in, name);
  size_t count = 0;
  for (const json *one = list == NULL ? NULL : list->first; one != NULL && count < MOST_TEXTS; one = one->next) {
    texts[count].data = (const uint8_t *)one->text;
    texts[count++].len = one->len;
  }
  return count;
}

static tidings_result open_webhook(const json *in, tidings_webhook **webhook) {
  tidings_bytes given[MOST_TEXTS];
  const size_t count = texts_of(in, "secrets", given);
  return tidings_webhook_new(given, count, webhook);
}

static tidings_result webhook_sign(stage *self, const json *in, buffer *out) {
  buffer room = {NULL, 0, 0};
  tidings_webhook *webhook = NULL;
  tidings_text *signature = NULL;
  const text id = text_of(in, "id", "");
  const text body = bytes_of(in, "body", &room);
  tidings_result result = open_webhook(in, &webhook);
  (void)self;
  if (result == TIDINGS_OK) {
    const int64_t time = (int64_t)number_of(in, "timestamp", 0);
    result = tidings_webhook_sign(webhook, TEXT(id), time, BYTES(body), &signature);
  }
  (void)tidings_webhook_free(webhook);
  free(room.data);
  TRY(result);
  put_text(out, "signature", signature);
  return TIDINGS_OK;
}

/* The message of the last failure begins with a stable name and a colon. */
static void put_name_of_failure(buffer *out) {
  tidings_text *message = NULL;
  const char *data = NULL;
  size_t len = 0;
  if (tidings_last_error(&message) != TIDINGS_OK || tidings_text_get(message, &data, &len) != TIDINGS_OK) return;
  put_name(out, "error");
  put_string(out, data, strcspn(data, ":"));
  (void)tidings_text_free(message);
}

static tidings_result webhook_verify(stage *self, const json *in, buffer *out) {
  buffer room = {NULL, 0, 0};
  tidings_webhook *webhook = NULL;
  tidings_pair headers[32];
  size_t count = 0;
  const json *given = json_member(in, "headers");
  const text body = bytes_of(in, "body", &room);
  const int64_t now = (int64_t)number_of(in, "now", 0);
  const uint64_t tolerance = number_of(in, "tolerance", TIDINGS_WEBHOOK_TOLERANCE);
  tidings_result result = open_webhook(in, &webhook);
  (void)self;
  for (const json *pair = given == NULL ? NULL : given->first; pair != NULL && count < 32; pair = pair->next) {
    const json *name = pair->first;
    headers[count].name = name->text;
    headers[count].name_len = name->len;
    headers[count].value = name->next->text;
    headers[count++].value_len = name->next->len;
  }
  if (result == TIDINGS_OK) {
    result = tidings_webhook_verify(webhook, BYTES(body), headers, count, now, tolerance);
    if (result == TIDINGS_UNVERIFIED) {
      put_name_of_failure(out);
    } else if (result == TIDINGS_OK) {
      put_name(out, "ok");
      put_bool(out, 1);
    }
  }
  (void)tidings_webhook_free(webhook);
  free(room.data);
  return result == TIDINGS_UNVERIFIED ? TIDINGS_OK : result;
}

static tidings_result jwe_decrypt(stage *self, const json *in, buffer *out) {
  buffer room = {NULL, 0, 0};
  tidings_webhook_keys *keys = NULL;
  tidings_text *plain = NULL;
  tidings_bytes given[MOST_TEXTS];
  const size_t count = texts_of(in, "keys", given);
  const text body = bytes_of(in, "body", &room);
  tidings_result result = tidings_webhook_keys_new(given, count, &keys);
  (void)self;
  if (result == TIDINGS_OK) result = tidings_webhook_decrypt(keys, BYTES(body), &plain);
  if (result == TIDINGS_OK) put_text(out, "text", plain);
  if (result == TIDINGS_UNVERIFIED) put_name_of_failure(out);
  (void)tidings_webhook_keys_free(keys);
  free(room.data);
  return result == TIDINGS_UNVERIFIED ? TIDINGS_OK : result;
}

void put_faults(buffer *out, int with_total) {
  tidings_text *faults = NULL;
  const char *data = NULL;
  size_t len = 0;
  json *parsed = NULL;
  if (tidings_last_faults(&faults) != TIDINGS_OK || faults == NULL) return;
  if (tidings_text_get(faults, &data, &len) == TIDINGS_OK) parsed = json_parse(data, len);
  (void)tidings_text_free(faults);
  put_name(out, "faults");
  put(out, "[");
  const json *listed = json_member(parsed, "faults");
  for (const json *one = listed == NULL ? NULL : listed->first; one != NULL; one = one->next) {
    const text path = text_of(one, "path", "");
    const text rule = text_of(one, "rule", "");
    put_comma(out);
    put(out, "{");
    put_name(out, "path");
    put_string(out, TEXT(path));
    put_name(out, "rule");
    put_string(out, TEXT(rule));
    put(out, "}");
  }
  put(out, "]");
  if (with_total) {
    put_name(out, "total");
    put_number(out, number_of(parsed, "total", 0));
  }
  json_free(parsed);
}

static tidings_result config_check(stage *self, const json *in, buffer *out) {
  tidings_options *options = NULL;
  tidings_hub *hub = NULL;
  tidings_answer *closed = NULL;
  tidings_call *call = NULL;
  tidings_texts *routes = NULL;
  tidings_texts *triggers = NULL;
  stage alone = {NULL, self->port, NULL};
  TRY(options_of(in, &options));
  tidings_result result = tidings_hub_new("memory:", 7, options, &hub);
  (void)tidings_options_free(options);
  TRY(result);
  alone.hub = hub;
  result = begin_call(&alone, in, &call);
  if (result == TIDINGS_OK) {
    if ((result = tidings_call_accepted_routes(call, &routes)) == TIDINGS_OK) put_texts(out, "accepted", routes);
    if ((result = tidings_call_ignored_triggers(call, &triggers)) == TIDINGS_OK) put_texts(out, "ignored", triggers);
    (void)tidings_call_free(call);
  } else if (result == TIDINGS_INVALID_CONFIG) {
    put_faults(out, 1);
    result = TIDINGS_OK;
  }
  if (tidings_hub_close(hub, 10000, NULL, NULL, &closed) == TIDINGS_OK) (void)tidings_answer_free(closed);
  (void)tidings_hub_free(hub);
  return result;
}

static tidings_result error_code(stage *self, const json *in, buffer *out) {
  const text code = text_of(in, "code", "");
  (void)self;
  for (tidings_result number = 1; number < 2000; number++) {
    const char *name = NULL;
    int32_t retryable = 0;
    TRY(tidings_result_name(number, &name));
    if (strcmp(name, code.data) != 0) continue;
    TRY(tidings_result_retryable(number, &retryable));
    put_name(out, "retryable");
    put_bool(out, retryable);
    return TIDINGS_OK;
  }
  return NOT_ASKED;
}

const operation RULES[] = {
    {"webhook.sign", webhook_sign}, {"webhook.verify", webhook_verify}, {"jwe.decrypt", jwe_decrypt},
    {"config.check", config_check}, {"error.code", error_code},         {NULL, NULL},
};
