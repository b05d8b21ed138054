/* What lives between the steps of a scenario, and how a step is written. */
#ifndef STAGE_H
#define STAGE_H

#include <tidings.h>

#include "json.h"

/* A result of the adapter's own: a question that it cannot ask of the library. */
#define NOT_ASKED (-1)

typedef enum { WRITER, TAIL, CALL, ASK, OUTLET, OUTBOX, PEER, LISTENER } thing_kind;

/* Something that a scenario has given a name. */
typedef struct thing {
  thing_kind kind;
  char *name;
  union {
    tidings_writer *writer;
    tidings_tail *tail;
    tidings_call *call;
    tidings_answer *answer; /* of an ask: NULL until it is done, and where it failed */
    tidings_outlet *outlet;
    tidings_outbox *outbox;
    tidings_peer *peer;
    tidings_listener *listener;
  } of;
  uint64_t token;         /* of an ask: what it waits for at the stage's port, 0 if for nothing any more */
  tidings_result came_to; /* and what it came to then */
  uint32_t outbox;        /* of a peer and a listener: their outbox's number */
  uint64_t number;        /* and their own there */
  tidings_batch *batch;   /* of a tail: what it has read and the scenario has not taken */
  size_t taken;           /* how many of its items the scenario has */
  struct thing *next;
} thing;

typedef struct {
  tidings_hub *hub;
  tidings_port *port;
  thing *things;
} stage;

/* Answers by an object's members; what it returns that is not TIDINGS_OK is the answer instead. */
typedef tidings_result (*step)(stage *self, const json *in, buffer *out);

typedef struct {
  const char *op;
  step run;
} operation;

/* Each file's, ended by one without a name. */
extern const operation RULES[];
extern const operation STREAMS[];
extern const operation CALLS[];
extern const operation TASKS[];
extern const operation FAN_OUT[];

#define TRY(call)                              \
  do {                                         \
    tidings_result tried = (call);             \
    if (tried != TIDINGS_OK) return tried;     \
  } while (0)

/* A text or bytes of the question's, as two arguments. */
#define TEXT(value) (value).data, (value).len
#define BYTES(value) (const uint8_t *)(value).data, (value).len

typedef struct {
  const char *data; /* NULL if the question has none */
  size_t len;
} text;

/* The member's text; `fallback`, which may be NULL, if there is none. */
text text_of(const json *in, const char *name, const char *fallback);
/* The member's bytes: a text, or {"hex": …} into `room`. */
text bytes_of(const json *in, const char *name, buffer *room);
uint64_t number_of(const json *in, const char *name, uint64_t fallback);
int is_true(const json *in, const char *name);

thing *add(stage *self, thing_kind kind, const json *in);
/* The thing that the member names; NULL, which every function of the library refuses, if there is none. */
thing *find(const stage *self, thing_kind kind, const json *in, const char *member);
thing *find_number(const stage *self, thing_kind kind, uint32_t outbox, uint64_t number);

/* A turn of the event loop, which waits so long at most: what was woken at the stage's port goes on. Sets the token of what
 * is done, or 0; an ask that is done has its answer. */
tidings_result turn(const stage *self, uint64_t wait_ms, uint64_t *finished);
/* Waits in the way of an event loop for what was begun at the stage's port; takes its answer, where that has not come. */
tidings_result settle(const stage *self, uint64_t token, tidings_answer **answer);
/* The same, for an answer that says nothing more. */
tidings_result done(const stage *self, uint64_t token, tidings_answer *answer);

void put_text(buffer *out, const char *name, tidings_text *text);
void put_optional(buffer *out, const char *name, tidings_bytes value);
void put_texts(buffer *out, const char *name, tidings_texts *texts);
/* Begins the call that the question describes. */
tidings_result begin_call(const stage *self, const json *in, tidings_call **call);
/* The faults of the config that was refused last, without their words. */
void put_faults(buffer *out, int with_total);
/* A hub's options. Free them with tidings_options_free. */
tidings_result options_of(const json *given, tidings_options **options);
/* Frees everything that has a name. */
void clear(stage *self);

#endif
