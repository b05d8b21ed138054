/* Outboxes: who is told what, counted and handed out. */
#include <stdlib.h>
#include <string.h>

#include "stage.h"

static tidings_outbox *outbox_of(const stage *self, const json *in) {
  return find(self, OUTBOX, in, "outbox")->of.outbox;
}

static tidings_peer *peer_of(const stage *self, const json *in) { return find(self, PEER, in, "sink")->of.peer; }

static tidings_listener *listener_of(const stage *self, const json *in) {
  return find(self, LISTENER, in, "listener")->of.listener;
}

static tidings_result hub_outbox(stage *self, const json *in, buffer *out) {
  tidings_outbox *outbox = NULL;
  (void)out;
  TRY(tidings_hub_outbox(self->hub, &outbox));
  thing *added = add(self, OUTBOX, in);
  added->of.outbox = outbox;
  return tidings_outbox_number(outbox, &added->outbox);
}

static tidings_result hub_notify(stage *self, const json *in, buffer *out) {
  const json *kinds = json_member(in, "kinds");
  const text uri = text_of(in, "uri", NULL);
  const text audience = text_of(in, "audience", NULL);
  tidings_bytes given[8];
  tidings_fanout fanout;
  size_t count = 0;
  for (const json *one = kinds == NULL ? NULL : kinds->first; one != NULL && count < 8; one = one->next) {
    given[count].data = (const uint8_t *)one->text;
    given[count++].len = one->len;
  }
  if (uri.data != NULL && count == 0) {
    /* The kind that a URI is about, which a scenario need not name. */
    given[count].data = (const uint8_t *)"resource";
    given[count++].len = 8;
  }
  TRY(tidings_hub_notify(self->hub, given, count, TEXT(uri), TEXT(audience), &fanout, sizeof fanout));
  put_name(out, "told");
  put_number(out, fanout.told);
  put_name(out, "skipped");
  put_number(out, fanout.skipped);
  put_name(out, "failed");
  put_number(out, fanout.failed);
  return TIDINGS_OK;
}

static void put_found(buffer *out, const thing *found) {
  put_comma(out);
  put_string(out, found == NULL ? "?" : found->name, found == NULL ? 1 : strlen(found->name));
}

static tidings_result hub_failed_sinks(stage *self, const json *in, buffer *out) {
  tidings_failed_peers *failed = NULL;
  size_t count = 0;
  (void)in;
  TRY(tidings_hub_failed_peers(self->hub, &failed));
  TRY(tidings_failed_peers_count(failed, &count));
  put_name(out, "sinks");
  put(out, "[");
  for (size_t index = 0; index < count; index++) {
    tidings_failed_peer one;
    TRY(tidings_failed_peers_get(failed, index, &one, sizeof one));
    put_found(out, find_number(self, PEER, one.outbox, one.peer));
  }
  put(out, "]");
  return tidings_failed_peers_free(failed);
}

static tidings_result add_sink(stage *self, const json *in, buffer *out) {
  const text principal = text_of(in, "principal", NULL);
  const thing *outbox = find(self, OUTBOX, in, "outbox");
  tidings_peer *peer = NULL;
  (void)out;
  TRY(tidings_outbox_join(outbox->of.outbox, TEXT(principal), number_of(in, "deadlineMs", 0), &peer));
  thing *added = add(self, PEER, in);
  added->of.peer = peer;
  added->outbox = outbox->outbox;
  return tidings_peer_number(peer, &added->number);
}

static tidings_result open_profile(const json *in, tidings_profile **profile) {
  const text version = text_of(in, "version", "");
  const text server = text_of(in, "server", "");
  const text client = text_of(in, "client", "");
  return tidings_profile_new(TEXT(version), TEXT(server), TEXT(client), profile);
}

static tidings_result keep_listener(stage *self, const json *in, tidings_result result, tidings_listener *listener) {
  TRY(result);
  thing *added = add(self, LISTENER, in);
  added->of.listener = listener;
  added->outbox = find(self, OUTBOX, in, "outbox")->outbox;
  return tidings_listener_number(listener, &added->number);
}

static tidings_result attend(stage *self, const json *in, buffer *out) {
  tidings_profile *profile = NULL;
  tidings_listener *listener = NULL;
  (void)out;
  TRY(open_profile(in, &profile));
  tidings_result result = tidings_peer_attend(peer_of(self, in), profile, &listener);
  (void)tidings_profile_free(profile);
  return keep_listener(self, in, result, listener);
}

static tidings_result listen_to(stage *self, const json *in, buffer *out) {
  const text id = text_of(in, "id", "");
  const text filter = text_of(in, "filter", "");
  tidings_profile *profile = NULL;
  tidings_listener *listener = NULL;
  (void)out;
  TRY(open_profile(in, &profile));
  tidings_result result = tidings_peer_listen(peer_of(self, in), profile, TEXT(id), TEXT(filter), &listener);
  (void)tidings_profile_free(profile);
  return keep_listener(self, in, result, listener);
}

static tidings_result open_listener(stage *self, const json *in, buffer *out) {
  (void)out;
  return tidings_listener_open(listener_of(self, in));
}

static tidings_result subscribe(stage *self, const json *in, buffer *out) {
  const text uri = text_of(in, "uri", "");
  (void)out;
  return tidings_listener_subscribe(listener_of(self, in), TEXT(uri));
}

static tidings_result unsubscribe(stage *self, const json *in, buffer *out) {
  const text uri = text_of(in, "uri", "");
  (void)out;
  return tidings_listener_unsubscribe(listener_of(self, in), TEXT(uri));
}

static tidings_result set_reachable(stage *self, const json *in, buffer *out) {
  (void)out;
  return tidings_peer_set_reachable(peer_of(self, in), is_true(in, "reachable"));
}

static tidings_result end_listener(stage *self, const json *in, buffer *out) {
  (void)out;
  return tidings_listener_end(listener_of(self, in));
}

static tidings_result end_all(stage *self, const json *in, buffer *out) {
  (void)out;
  return tidings_outbox_end_all(outbox_of(self, in));
}

static tidings_result cancel(stage *self, const json *in, buffer *out) {
  int32_t ended = 0;
  TRY(tidings_listener_cancel(listener_of(self, in), &ended));
  put_name(out, "ended");
  put_bool(out, ended);
  return TIDINGS_OK;
}

static tidings_result put_listeners(buffer *out, tidings_result result, size_t listeners) {
  TRY(result);
  put_name(out, "listeners");
  put_number(out, listeners);
  return TIDINGS_OK;
}

static tidings_result drop_sink(stage *self, const json *in, buffer *out) {
  size_t listeners = 0;
  tidings_result result = tidings_peer_close(peer_of(self, in), &listeners);
  return put_listeners(out, result, listeners);
}

static tidings_result broke(stage *self, const json *in, buffer *out) {
  size_t listeners = 0;
  tidings_result result = tidings_peer_broke(peer_of(self, in), &listeners);
  return put_listeners(out, result, listeners);
}

static tidings_result count_listeners(stage *self, const json *in, buffer *out) {
  size_t listeners = 0;
  tidings_result result = tidings_outbox_listeners(outbox_of(self, in), &listeners);
  return put_listeners(out, result, listeners);
}

static tidings_result written(stage *self, const json *in, buffer *out) {
  int32_t in_time = 0;
  TRY(tidings_peer_written(peer_of(self, in), (uint32_t)number_of(in, "count", 0), &in_time));
  put_name(out, "alive");
  put_bool(out, in_time);
  return TIDINGS_OK;
}

/* --- What is handed out --- */

enum { MOST = 64 };

/* Notices as the scenario reads them, each with the name of its connection. */
typedef struct {
  const thing *peers[MOST];
  buffer texts[MOST];
  size_t count;
} told;

static tidings_result take_notices(const stage *self, const thing *outbox, told *all) {
  tidings_notices *notices = NULL;
  size_t count = 0;
  TRY(tidings_outbox_take(outbox->of.outbox, MOST, &notices));
  TRY(tidings_notices_count(notices, &count));
  for (size_t index = 0; index < count && all->count < MOST; index++) {
    tidings_notice notice;
    TRY(tidings_notices_get(notices, index, &notice, sizeof notice));
    buffer *out = &all->texts[all->count];
    all->peers[all->count] = find_number(self, PEER, outbox->outbox, notice.peer);
    put(out, "[");
    put_found(out, all->peers[all->count]);
    put_found(out, find_number(self, LISTENER, outbox->outbox, notice.listener));
    put_comma(out);
    if (notice.method.data == NULL) put(out, "null");
    else put_string(out, notice.method.data, notice.method.len);
    put_comma(out);
    if (notice.params.data == NULL) put(out, "null");
    else put_bytes(out, notice.params.data, notice.params.len); /* JSON text as it is */
    put(out, "]");
    all->count++;
  }
  return tidings_notices_free(notices);
}

/* By the names of their connections, between which no order is promised; those of one stay in theirs. */
static void put_told(buffer *out, told *all) {
  put_name(out, "notices");
  put(out, "[");
  for (size_t left = all->count; left > 0; left--) {
    size_t least = MOST;
    for (size_t index = 0; index < all->count; index++) {
      if (all->texts[index].data == NULL || all->peers[index] == NULL) continue;
      if (least == MOST || strcmp(all->peers[index]->name, all->peers[least]->name) < 0) least = index;
    }
    if (least == MOST) break;
    put_comma(out);
    put_bytes(out, all->texts[least].data, all->texts[least].len);
    free(all->texts[least].data);
    all->texts[least].data = NULL;
  }
  put(out, "]");
}

static tidings_result take(stage *self, const json *in, buffer *out) {
  told all = {{NULL}, {{NULL, 0, 0}}, 0};
  TRY(take_notices(self, find(self, OUTBOX, in, "outbox"), &all));
  put_told(out, &all);
  return TIDINGS_OK;
}

static tidings_result next(stage *self, const json *in, buffer *out) {
  const thing *outbox = find(self, OUTBOX, in, "outbox");
  const uint64_t wanted = number_of(in, "count", 0);
  told all = {{NULL}, {{NULL, 0, 0}}, 0};
  while (all.count < wanted) {
    tidings_answer *answer = NULL;
    uint64_t token = 0;
    TRY(tidings_outbox_ready(outbox->of.outbox, self->port, &token, &answer));
    TRY(done(self, token, answer));
    TRY(take_notices(self, outbox, &all));
  }
  put_told(out, &all);
  return TIDINGS_OK;
}

const operation FAN_OUT[] = {
    {"hub.outbox", hub_outbox},
    {"hub.notify", hub_notify},
    {"hub.failed_sinks", hub_failed_sinks},
    {"outbox.add_sink", add_sink},
    {"outbox.attend", attend},
    {"outbox.listen", listen_to},
    {"outbox.open", open_listener},
    {"outbox.subscribe", subscribe},
    {"outbox.unsubscribe", unsubscribe},
    {"outbox.set_reachable", set_reachable},
    {"outbox.end", end_listener},
    {"outbox.end_all", end_all},
    {"outbox.cancel", cancel},
    {"outbox.drop_sink", drop_sink},
    {"outbox.broke", broke},
    {"outbox.written", written},
    {"outbox.take", take},
    {"outbox.next", next},
    {"outbox.count", count_listeners},
    {NULL, NULL},
};
