/*
 * Tidings: durable, resumable streams, watched calls and webhooks for MCP servers.
 * SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * This file is generated from bindings/c; see CONTRIBUTING.md.
 *
 * CONVENTIONS
 *
 * Results. Every function that can fail returns a tidings_result, TIDINGS_OK (0) or an error's number, and answers by out
 * parameters. Those are written on TIDINGS_OK only. tidings_last_error has the message of the calling thread's last failure,
 * which names the argument and the rule.
 *
 * NULL. No pointer may be NULL unless its function says so. A text or bytes of length 0 may be NULL, and so may a list of
 * count 0. Where a function says that a text may be NULL, that leaves it out, and another pointer with length 0 is the empty
 * text. Every ..._free takes NULL and does nothing. NULL where it must not be is TIDINGS_INVALID_ARGUMENT, never a crash.
 *
 * Texts and bytes are a pointer and a length, without a NUL at the end; texts are UTF-8. Lengths of 2^31 and more are
 * refused. What is given is copied, or used during the call only: it stays the caller's.
 *
 * Ownership. No function takes ownership of what it is given. What a function makes is freed by the caller, once, with the
 * ..._free of its type, in any order. Memory that Tidings allocated is never given to free(), nor the reverse.
 *
 * Handles have the types of pointers and point nowhere. One that was freed, one of another type, and one that never was is
 * TIDINGS_INVALID_ARGUMENT. What was made of an object stays usable after that object's handle is freed. A const handle is one
 * that the function does not free; what it stands for may change.
 *
 * Threads. Every function may be called from any thread, and handles may be shared. A thread that frees a handle which
 * another is using lets that call end as it would have.
 *
 * Aliasing. Out parameters of one call must not overlap each other or what is given to it.
 *
 * Waiting. Functions that take (port, token, answer) may have to wait. With a port: either it is done at once, *answer is
 * set and *token is 0; or *answer is NULL, *token names the operation, and after tidings_port_drain has told the token,
 * tidings_port_take has its answer or its error. Without one (port NULL; token may be NULL too), they block the thread.
 * Functions that say "Blocks" read from the store, or commit, in the calling thread.
 *
 * Callbacks are called from any thread, and must not block or fork. Of Tidings a callback may call the ..._free of what it
 * belongs to (its logger, its port), the functions about errors, and those of their texts. Everything else is
 * TIDINGS_IN_CALLBACK there, and does nothing: hand the work to a thread or a loop of your own. Each callback has its own user
 * data, and a finalizer that is called once, when the data is needed no longer, and is bound by the same rules: the function
 * that lets go of a callback waits for its calls under way in other threads, and then calls it; from inside the callback it
 * does not wait, and the finalizer is called after the last call. Where a function fails to take a callback, nothing is
 * finalized.
 *
 * Forks. A process that forks and uses Tidings on both sides gives tidings_before_fork and its two companions to
 * pthread_atfork; tidings_before_fork says what a child can use. All else is TIDINGS_FORKED there, and nothing hangs.
 *
 * Versions. TIDINGS_ABI_VERSION is the ABI that this header describes, tidings_abi_version() that of the library which was
 * loaded. A library fits if its version is at least the header's and both have the same thousands, the major version: within
 * one, functions, numbers, and members at the end of structures are only added.
 *
 * Structures that are filled for the caller take their sizeof, so that programs built for an older version keep working.
 * Enumerations are integers of fixed width; a number that is none is TIDINGS_INVALID_ARGUMENT.
 */


#ifndef TIDINGS_H
#define TIDINGS_H

#include <stddef.h>
#include <stdint.h>

// It is done, and there is nothing to tell.
#define TIDINGS_ANSWER_DONE 0

// A number: `tidings_answer_number`. The first event's, for an append; 1 or 0, whether all of it was done.
#define TIDINGS_ANSWER_NUMBER 1

// Events: `tidings_answer_batch`.
#define TIDINGS_ANSWER_BATCH 2

// A tail has read everything and its stream is closed, or the tail is closed.
#define TIDINGS_ANSWER_END 3

// Another thread took what this one waited for: wait again.
#define TIDINGS_ANSWER_AGAIN 4

// A claimed stream's writer: `tidings_answer_writer`.
#define TIDINGS_ANSWER_WRITER 5

// An accepted call: `tidings_answer_call`.
#define TIDINGS_ANSWER_CALL 6

// How a call ended: `tidings_answer_outcome`.
#define TIDINGS_ANSWER_OUTCOME 7

// Text: `tidings_answer_text`.
#define TIDINGS_ANSWER_TEXT 8

// A delivery for this program: `tidings_answer_host_delivery`; its outlet is closed where it has none.
#define TIDINGS_ANSWER_HOST_DELIVERY 9

// Nothing is missing.
#define TIDINGS_GAP_NONE 0

// Retention has removed events.
#define TIDINGS_GAP_EVICTED 1

// The reader has seen events that were lost: the stream's history is another now.
#define TIDINGS_GAP_REGRESSED 2

// Events could not be stored.
#define TIDINGS_GAP_LOST 3

// The cursor is of no stream that is here.
#define TIDINGS_GAP_UNKNOWN 4

// The raw JSON text of `notificationConfig`, if the request has one.
#define TIDINGS_BEGIN_CONFIG 1

// Adds a route type that this server offers: `webhook` …
#define TIDINGS_BEGIN_ROUTE_TYPE 2

// Who asks. Has to be set.
#define TIDINGS_BEGIN_PRINCIPAL 3

// The MCP session, where there is one.
#define TIDINGS_BEGIN_SESSION 4

// The JSON-RPC id of the request, as its JSON text: `7`, or `"7"` with its quotes. Has to be set.
#define TIDINGS_BEGIN_REQUEST_ID 5

// The tool's name. Has to be set.
#define TIDINGS_BEGIN_TOOL 6

// The W3C trace context that its webhooks carry on.
#define TIDINGS_BEGIN_TRACEPARENT 7

// The server's time limit, in milliseconds.
#define TIDINGS_BEGIN_TIMEOUT_MS 8

// The program's own name for the connection of the calling session, where one outlives the request: for routes of type
// `message` and `signal`, see `tidings_hub_outlet`. Text.
#define TIDINGS_BEGIN_PEER 9

// Adds a name that routes of type `message` and `callback` may have. Text.
#define TIDINGS_BEGIN_OPEN 10

// It is a task from the start, for so many milliseconds after its end. Number.
#define TIDINGS_BEGIN_TASK_TTL_MS 11

// Whether only its principal may ask for the task: 1, or 0, as it is if it is not told. Number.
#define TIDINGS_BEGIN_TASK_BOUND 12

// The tool returned a result.
#define TIDINGS_OUTCOME_COMPLETED 1

// It failed, or the server did.
#define TIDINGS_OUTCOME_FAILED 2

// Somebody cancelled it.
#define TIDINGS_OUTCOME_CANCELLED 3

// It took longer than it may.
#define TIDINGS_OUTCOME_TIMEOUT 4

// It was done.
#define TIDINGS_OK 0

// An argument breaks a rule; the message names both.
#define TIDINGS_INVALID_ARGUMENT 1

// A notificationConfig breaks rules; `tidings_last_faults` has them.
#define TIDINGS_INVALID_CONFIG 2

// A cursor is of no stream that is here, or no cursor.
#define TIDINGS_UNKNOWN_CURSOR 3

// A place lies beyond the newest event.
#define TIDINGS_AHEAD 4

// The stream or the hub is closed.
#define TIDINGS_CLOSED 5

// Another writer has claimed the stream.
#define TIDINGS_FENCED 6

// The call has ended.
#define TIDINGS_ENDED 7

// Too much waits for the store. The same call may succeed later.
#define TIDINGS_CONGESTED 8

// A payload is over its limit.
#define TIDINGS_TOO_LARGE 9

// The store cannot be used now. The same call may succeed later.
#define TIDINGS_UNAVAILABLE 10

// Not on this machine, or not with this store.
#define TIDINGS_UNSUPPORTED 11

// The object belongs to the process that was forked.
#define TIDINGS_FORKED 12

// It took too long. The same call may succeed later.
#define TIDINGS_TIMEOUT 13

// A defect of Tidings. Please report it.
#define TIDINGS_INTERNAL 14

// A webhook is not to be trusted; the message says why, by a stable name and a colon first.
#define TIDINGS_UNVERIFIED 1000

// This thread is inside of a callback, or its finalizer, which must not call that function. Nothing was done.
#define TIDINGS_IN_CALLBACK 1001

// Adds a block of addresses (CIDR) that webhooks may go to although they are not public. Text.
#define TIDINGS_OPTION_ALLOW_NETWORK 1

// Adds a host name that the operator vouches for. Text.
#define TIDINGS_OPTION_ALLOW_HOST 2

// Adds a port that webhooks may go to besides 443. Number.
#define TIDINGS_OPTION_ALLOW_PORT 3

// Accepts `http` endpoints too: 1 or 0. Number.
#define TIDINGS_OPTION_ALLOW_HTTP 4

// `whsec_…`: signs webhooks of routes that bring no secret. Text.
#define TIDINGS_OPTION_DEFAULT_SECRET 5

// The default secret before it, during rotation. Text.
#define TIDINGS_OPTION_PREVIOUS_SECRET 6

// Refuses routes that would go unsigned: 1 or 0. Number.
#define TIDINGS_OPTION_REQUIRE_SECRET 7

// What an endpoint has to show before its first delivery: `challenge`, `always` or `address`. Text.
#define TIDINGS_OPTION_VERIFY 8

// What becomes of a firing that no route can deliver: `drop` or `annotate`. Text.
#define TIDINGS_OPTION_UNDELIVERABLE 9

// 32 bytes that seal secrets at rest. Text, but any bytes.
#define TIDINGS_OPTION_SECRET_KEY 10

// Adds the name of a header that routes may set. Text.
#define TIDINGS_OPTION_HEADER_NAME 11

// Adds a JSON Pointer or the name of a member that is taken out of every event and outcome. Text.
#define TIDINGS_OPTION_REDACT 12

// Attempts in flight at a time. One that takes longer than half a second counts no more where it would keep others waiting; of
// those there are at most as many again. Number.
#define TIDINGS_OPTION_CONCURRENCY 13

// Attempts in flight at one endpoint. Number.
#define TIDINGS_OPTION_ENDPOINT_CONCURRENCY 14

// Attempts a second at one endpoint; 0 sets no limit. Number.
#define TIDINGS_OPTION_ENDPOINT_RATE 15

// Attempts a second at one host; 0 sets no limit. Number.
#define TIDINGS_OPTION_HOST_RATE 16

// Unfinished deliveries of one principal. Number.
#define TIDINGS_OPTION_MAX_PENDING 17

// How long one attempt may take, in milliseconds. Number.
#define TIDINGS_OPTION_ATTEMPT_TIMEOUT_MS 18

// After how long a silent process counts as gone, in milliseconds. Number.
#define TIDINGS_OPTION_WORKER_LEASE_MS 19

// The largest webhook body that carries the whole outcome, in bytes. Number.
#define TIDINGS_OPTION_MAX_BODY_BYTES 20

// Bytes of events that may wait for the store. Number.
#define TIDINGS_OPTION_BUFFER_BYTES 21

// Events kept of each stream. Number; as for those below, `UINT64_MAX` sets no limit.
#define TIDINGS_OPTION_KEEP_EVENTS 22

// Bytes kept of each stream. Number.
#define TIDINGS_OPTION_KEEP_BYTES 23

// How long an event is kept, in milliseconds. Number.
#define TIDINGS_OPTION_KEEP_AGE_MS 24

// How long a stream stays after its close, in milliseconds. Number.
#define TIDINGS_OPTION_KEEP_AFTER_CLOSE_MS 25

// Events kept of all streams. Number.
#define TIDINGS_OPTION_KEEP_TOTAL_EVENTS 26

// Bytes kept of all streams. Number.
#define TIDINGS_OPTION_KEEP_TOTAL_BYTES 27

// `http://[user:password@]host:port`: the HTTP proxy through which webhooks leave. Text.
#define TIDINGS_OPTION_PROXY 28

// Something was lost or is broken.
#define TIDINGS_LOG_ERROR 1

// Something that the operator should know.
#define TIDINGS_LOG_WARNING 2

// It may go better another time: the delivery is tried again.
#define TIDINGS_REFUSE_FAILED 1

// It is not wanted: the next route has its turn.
#define TIDINGS_REFUSE_REFUSED 2

// The peer is gone: the next route has its turn.
#define TIDINGS_REFUSE_UNREACHABLE 3

// The peer is not ready for it: the next route has its turn.
#define TIDINGS_REFUSE_NOT_READY 4

// The version of the ABI that this header describes. Within a major version (`TIDINGS_ABI_VERSION / 1000`), later ones only
// add.
#define TIDINGS_ABI_VERSION 1

// Survives the death of the process.
#define TIDINGS_PROCESS 0

// Survives a loss of power.
#define TIDINGS_DISK 1

// The place before the earliest event that is retained.
#define TIDINGS_EARLIEST -1

// Closes the stream in the same step.
#define TIDINGS_APPEND_CLOSE 1

// Gives up the oldest events that wait for the store, where the append would be refused as `TIDINGS_CONGESTED`. Only for
// a writer.
#define TIDINGS_APPEND_GIVE_UP 2

// The tolerance that Standard Webhooks recommends, in seconds.
#define TIDINGS_WEBHOOK_TOLERANCE 300

// What an operation came to.
typedef struct tidings_answer tidings_answer;

// Events in order, and what is known of the place behind them.
typedef struct tidings_batch tidings_batch;

// A tool call that asks to be watched: what `tidings_hub_begin_call` is told of it.
typedef struct tidings_begin tidings_begin;

// A watched call.
typedef struct tidings_call tidings_call;

// Deliveries as they were when they were asked for.
typedef struct tidings_deliveries tidings_deliveries;

// Endpoints as they were when they were asked for.
typedef struct tidings_endpoints tidings_endpoints;

// A stream on its way out, from a place to the end it has when it gets there.
typedef struct tidings_export tidings_export;

// Connections that have failed.
typedef struct tidings_failed_peers tidings_failed_peers;

// A delivery in this program's hands, to be answered once.
typedef struct tidings_host_delivery tidings_host_delivery;

// The entry point; one store. Cheap to make: it opens when it is first used.
typedef struct tidings_hub tidings_hub;

// What a connection asked to be told; it may hold several.
typedef struct tidings_listener tidings_listener;

// A function that is told what the library logs, until it is freed.
typedef struct tidings_logger tidings_logger;

// Notifications to write, in order.
typedef struct tidings_notices tidings_notices;

// Options of a hub. What is not set is as the library has it by default.
typedef struct tidings_options tidings_options;

// Where the program of one event loop, or of one thread, takes notifications for its connections.
typedef struct tidings_outbox tidings_outbox;

// A place that takes deliveries, until it is closed or freed.
typedef struct tidings_outlet tidings_outlet;

// A connection to write to: an MCP session's, or one stream of it.
typedef struct tidings_peer tidings_peer;

// Where operations of one event loop wait. Any thread may use it; one at a time drains it.
typedef struct tidings_port tidings_port;

// What a peer and its server negotiated.
typedef struct tidings_profile tidings_profile;

// The progress of one request.
typedef struct tidings_progress tidings_progress;

// The process at the other end of this process's stdin.
typedef struct tidings_stdio_peer tidings_stdio_peer;

// A stream, by its key.
typedef struct tidings_stream tidings_stream;

// A reader that replays and goes on live.
typedef struct tidings_tail tidings_tail;

// A task as it was when it was asked for.
typedef struct tidings_task tidings_task;

// A text, or bytes, of ours.
typedef struct tidings_text tidings_text;

// Texts, in order.
typedef struct tidings_texts tidings_texts;

// The secrets of a sender: a webhook is to have a signature of one of them.
typedef struct tidings_webhook tidings_webhook;

// The private keys of a receiver, for bodies that are encrypted to it (`publicKey` of a route).
typedef struct tidings_webhook_keys tidings_webhook_keys;

// The right of one writer to number a stream in memory.
typedef struct tidings_writer tidings_writer;

// What a call came to: `TIDINGS_OK`, or why it failed.
typedef int32_t tidings_result;

// How a call ended.
typedef struct {
  // One of `TIDINGS_OUTCOME_…`.
  int32_t outcome;
  // Whether it was this very request to end the call that won: 1 or 0.
  int32_t ours;
  // Whether the outcome is on disk: 1 or 0.
  int32_t committed;
} tidings_outcome;

// Bytes of the caller's, or of an object of ours that the call names.
typedef struct {
  // May be NULL if `len` is 0.
  const uint8_t *data;
  // How many there are.
  size_t len;
} tidings_bytes;

// One event. What it points to stays where it is until its batch is freed.
typedef struct {
  // Its number in the stream.
  uint64_t seq;
  // When it was appended, in milliseconds since 1970.
  int64_t time_ms;
  // What it is: UTF-8 text.
  tidings_bytes kind;
  // JSON text, as it was appended.
  tidings_bytes payload;
  // Whom and what it belongs to, as JSON text; `data` is NULL if nothing is said.
  tidings_bytes identity;
} tidings_event;

// Why a read could not be complete.
typedef struct {
  // One of `TIDINGS_GAP_…`.
  int32_t reason;
  // Whether `earliest_seq` says something: 1 or 0.
  int32_t has_earliest;
  // Whether `head_seq` says something: 1 or 0.
  int32_t has_head;
  // The first event that is there.
  uint64_t earliest_seq;
  // The newest event.
  uint64_t head_seq;
} tidings_gap;

// One delivery. What it points to stays where it is until its list is freed; texts are UTF-8.
typedef struct {
  // Its own id.
  tidings_bytes id;
  // The firing's id: the `webhook-id`.
  tidings_bytes event_id;
  // The call it is about; `data` is NULL if it is about none.
  tidings_bytes call_id;
  // On whose behalf.
  tidings_bytes principal;
  // The trigger that fired.
  tidings_bytes trigger;
  // The route's id.
  tidings_bytes route;
  // `pending`, `leased`, `retrying`, `delivered`, `dead`, `expired` or `superseded`.
  tidings_bytes state;
  // The category of the last failure; `data` is NULL if there was none.
  tidings_bytes last_error;
  // Attempts begun.
  uint32_t attempts;
} tidings_delivery;

// What a publish came to, in this process, in listeners.
typedef struct {
  // It is queued for them, or coalesced with what was.
  uint64_t told;
  // They did not ask for it, or may not hear of it, or cannot be reached.
  uint64_t skipped;
  // They asked for it, and their connections were found not to have taken a notification in time.
  uint64_t failed;
} tidings_fanout;

// A connection, as numbers that are never used again in this process.
typedef struct {
  // Its number at its outbox, as of `tidings_peer_number`.
  uint64_t peer;
  // The outbox's number, as of `tidings_outbox_number`.
  uint32_t outbox;
} tidings_failed_peer;

// Something to do about one connection. What it points to stays where it is until its list is freed.
typedef struct {
  // The connection's number, as of `tidings_peer_number`.
  uint64_t peer;
  // The listener's number, as of `tidings_listener_number`.
  uint64_t listener;
  // The notification's method: UTF-8 text. `data` is NULL: the listener has ended and everything before was written, so
  // that the request which opened it may have its result.
  tidings_bytes method;
  // Its parameters: JSON text; `data` is NULL if it has none.
  tidings_bytes params;
} tidings_notice;

// Told one line of the library's log. `level` is one of `TIDINGS_LOG_…`; later versions may have more, the greater the less
// it matters. `target` is the part of the library, with dots, such as `tidings.store_sqlite.writer`; `message` is for people,
// and holds no payload, secret or address. Both are there during the call only.
typedef void (*tidings_log)(void *user_data,
                            int32_t level,
                            const char *target,
                            size_t target_len,
                            const char *message,
                            size_t message_len);

// Told when user data is needed no longer: once, after the last call that gets it has returned.
typedef void (*tidings_drop)(void *user_data);

// What a hub has done and holds, at one moment.
typedef struct {
  // Groups committed by this process.
  uint64_t groups;
  // Events of this process's writers that were committed.
  uint64_t events;
  // Events given up while the store was down.
  uint64_t lost;
  // Events dropped because another writer had claimed the stream, or it was closed.
  uint64_t refused;
  // Groups that failed.
  uint64_t failures;
  // Attempts at deliveries that ended.
  uint64_t attempts;
  // Deliveries that ended here as `delivered`.
  uint64_t delivered;
  // The same as `dead`.
  uint64_t dead;
  // The same as `expired`.
  uint64_t expired;
  // The same as `superseded`.
  uint64_t superseded;
  // Attempts at webhooks under way.
  uint64_t in_flight;
  // Whether the last group failed, so that events wait in memory: 1 or 0.
  int32_t failing;
} tidings_stats;

// An endpoint: a URL of one principal, never the URL itself, which may hold a secret. What it points to stays where it is
// until its list is freed; texts are UTF-8.
typedef struct {
  // Its key, 64 hexadecimal digits.
  tidings_bytes key;
  // Whose it is.
  tidings_bytes principal;
  // Its host.
  tidings_bytes host;
  // `unverified`, `verified` or `disabled`.
  tidings_bytes state;
  // `challenge`, `well_known`, `allow_list` or `address`; `data` is NULL if nothing is proved.
  tidings_bytes proof;
  // Why it is disabled: `gone`, `failing`, `unverified` or `operator`; `data` is NULL if it is not.
  tidings_bytes disabled;
  // The category of the last failure; `data` is NULL if there was none.
  tidings_bytes last_error;
  // Failures in a row.
  uint32_t failures;
  // Whether its breaker has opened since the last success: 1 or 0.
  int32_t tripped;
} tidings_endpoint;

// What there is to know of a delivery. What it points to stays where it is until the delivery is freed; texts are UTF-8.
typedef struct {
  // Its own id.
  tidings_bytes id;
  // The firing's id, the same on every attempt and every route.
  tidings_bytes event_id;
  // The call it is about; `data` is NULL if it is about none.
  tidings_bytes call_id;
  // On whose behalf.
  tidings_bytes principal;
  // The trigger that fired.
  tidings_bytes trigger;
  // The route's id.
  tidings_bytes route;
  // The route's type.
  tidings_bytes route_type;
  // What the client named; `data` is NULL if it named nothing.
  tidings_bytes endpoint;
  // The JSON text that a webhook would carry.
  tidings_bytes body;
  // Attempts begun, this one included.
  uint32_t attempt;
  // The signal to ring with, for a route of type `signal`; else `data` is NULL.
  tidings_bytes signal;
} tidings_host_delivery_facts;

// Told from any thread when there is something to drain, once until the next drain. It must not block. Of Tidings it may call
// `tidings_port_free`, for its own port.
typedef void (*tidings_wake)(void *user_data);

// A name and its value, such as those of a header: UTF-8 texts without a NUL at the end.
typedef struct {
  // The name.
  const char *name;
  // The name's bytes.
  size_t name_len;
  // The value.
  const char *value;
  // The value's bytes.
  size_t value_len;
} tidings_pair;

// What there is to know of a task. What it points to stays where it is until the task is freed; texts are UTF-8.
typedef struct {
  // `working`, `input_required`, `completed`, `failed` or `cancelled`.
  tidings_bytes status;
  // SEP-2663's `DetailedTask` as JSON text.
  tidings_bytes json;
  // The scope of the stream of its events, for `tasks/stream`: see `tidings_hub_stream`.
  tidings_bytes scope;
  // The stream's name there.
  tidings_bytes name;
} tidings_task_facts;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// What an answer is: one of `TIDINGS_ANSWER_…`.
tidings_result tidings_answer_kind(const tidings_answer *answer, int32_t *kind);

// The number of an answer that is one.
tidings_result tidings_answer_number(const tidings_answer *answer, uint64_t *number);

// Takes the events of an answer that has some: sets `*batch`, to be freed with `tidings_batch_free`, and `*state` to
// `TIDINGS_ANSWER_BATCH`; or sets `*batch` to NULL and `*state` to `TIDINGS_ANSWER_END` or `TIDINGS_ANSWER_AGAIN`. What was
// taken counts as read: the tail's cursor moves behind it.
tidings_result tidings_answer_batch(const tidings_answer *answer,
                                    tidings_batch **batch,
                                    int32_t *state);

// The writer of an answer that has one. Free it with `tidings_writer_free`.
tidings_result tidings_answer_writer(const tidings_answer *answer, tidings_writer **writer);

// The call of an answer that has one. Free it with `tidings_call_free`.
tidings_result tidings_answer_call(const tidings_answer *answer, tidings_call **call);

// The text of an answer that has one. Free it with `tidings_text_free`.
tidings_result tidings_answer_text(const tidings_answer *answer, tidings_text **text);

// The delivery of an answer that has one; sets NULL where no more come, for its outlet or its hub is closed. Free it with
// `tidings_host_delivery_free`.
tidings_result tidings_answer_host_delivery(const tidings_answer *answer,
                                            tidings_host_delivery **delivery);

// How a call ended. `size` is the `sizeof` of the structure.
tidings_result tidings_answer_outcome(const tidings_answer *answer, tidings_outcome *outcome, size_t size);

// Why the call ended as it did, where the outcome alone does not say: a text such as `server_lost`; sets NULL otherwise.
tidings_result tidings_answer_reason(const tidings_answer *answer,
                                     tidings_text **reason);

// The JSON text for `_meta["io.tidings/undelivered"]` of the result, where something could not be delivered; sets NULL
// otherwise.
tidings_result tidings_answer_undelivered(const tidings_answer *answer,
                                          tidings_text **undelivered);

// Frees an answer. NULL is fine.
tidings_result tidings_answer_free(tidings_answer *answer);

// How many events there are: 0 or more, for a batch may hold a gap alone.
tidings_result tidings_batch_count(const tidings_batch *batch, size_t *count);

// The event at `index`, from 0. `size` is the `sizeof` of the structure.
tidings_result tidings_batch_event(const tidings_batch *batch,
                                   size_t index,
                                   tidings_event *event,
                                   size_t size);

// What is missing before the first event: tell it first. `size` is the `sizeof` of the structure.
tidings_result tidings_batch_gap(const tidings_batch *batch, tidings_gap *gap, size_t size);

// The cursor of a reader that has the first `events` of the batch's events; all of them, if there are fewer.
tidings_result tidings_batch_cursor(const tidings_batch *batch, size_t events, tidings_text **cursor);

// The newest event's number when the batch was read: sets `*has_head` to 1 and `*head_seq`, or both to 0 if there never was
// one.
tidings_result tidings_batch_head(const tidings_batch *batch,
                                  int32_t *has_head,
                                  uint64_t *head_seq);

// Whether the stream is closed and the events reach its end: sets 1 or 0.
tidings_result tidings_batch_ended(const tidings_batch *batch, int32_t *ended);

// Frees a batch, and with it what its events point to. NULL is fine.
tidings_result tidings_batch_free(tidings_batch *batch);

// A call about which nothing is told yet. Free it with `tidings_begin_free`.
tidings_result tidings_begin_new(tidings_begin **begin);

// Tells something that is a text.
tidings_result tidings_begin_set_text(const tidings_begin *begin,
                                      int32_t field,
                                      const char *value,
                                      size_t value_len);

// Tells something that is a number.
tidings_result tidings_begin_set_number(const tidings_begin *begin, int32_t field, uint64_t value);

// Frees it. NULL is fine.
tidings_result tidings_begin_free(tidings_begin *begin);

// Begins a watched call. With a config that is accepted, the call and the config are on disk when it is done. The answer
// has a call. `TIDINGS_INVALID_CONFIG`: nothing was begun, and `tidings_last_faults` says why.
tidings_result tidings_hub_begin_call(const tidings_hub *hub,
                                      const tidings_begin *begin,
                                      const tidings_port *port,
                                      uint64_t *token,
                                      tidings_answer **answer);

// Judges a config as that of a call would be, without a call and without opening the hub: sets the triggers that nothing
// here fires. Of `begin`, `TIDINGS_BEGIN_CONFIG`, `…_ROUTE_TYPE`, `…_OPEN` and whether there is a `…_PEER` count.
// `TIDINGS_INVALID_CONFIG`: `tidings_last_faults` says why. Free them with `tidings_texts_free`.
tidings_result tidings_hub_check_config(const tidings_hub *hub,
                                        const tidings_begin *begin,
                                        tidings_texts **ignored);

// Cancels the call of that id, wherever it runs, if it is `asker`'s. The answer is a number: 1, or 0 where there is no
// such call.
tidings_result tidings_hub_cancel_call(const tidings_hub *hub,
                                       const char *id,
                                       size_t id_len,
                                       const char *asker,
                                       size_t asker_len,
                                       const tidings_port *port,
                                       uint64_t *token,
                                       tidings_answer **answer);

// The id of a call.
tidings_result tidings_call_id(const tidings_call *call, tidings_text **id);

// The params of `notifications/config/acknowledged`, as JSON text: what is to be sent before the tool runs.
tidings_result tidings_call_acknowledgement(const tidings_call *call, tidings_text **json);

// The ids of the routes that were accepted. Free them with `tidings_texts_free`.
tidings_result tidings_call_accepted_routes(const tidings_call *call, tidings_texts **routes);

// The triggers of the config that nothing here fires. Free them with `tidings_texts_free`.
tidings_result tidings_call_ignored_triggers(const tidings_call *call, tidings_texts **triggers);

// Appends an event of the tool, without waiting. Its type has a vendor's prefix, its payload is a JSON object (SEP-2694);
// `io.tidings.progress` and `io.tidings.log` are for the adapter of an SDK, which records what the client was notified of.
tidings_result tidings_call_emit(const tidings_call *call,
                                 const char *kind,
                                 size_t kind_len,
                                 const uint8_t *payload,
                                 size_t payload_len,
                                 uint64_t *seq);

// Fires a vendor's trigger with the JSON text of an object; sets its number among the call's firings.
tidings_result tidings_call_fire(const tidings_call *call,
                                 const char *name,
                                 size_t name_len,
                                 const uint8_t *payload,
                                 size_t payload_len,
                                 uint64_t *seq);

// The client's connection is lost and the call goes on; fires `io.tidings/disconnected` where that was asked for.
tidings_result tidings_call_disconnected(const tidings_call *call);

// The tool returned this result: JSON text. The answer is the outcome that the call has now: another's, if it was quicker.
tidings_result tidings_call_complete(const tidings_call *call,
                                     const uint8_t *result,
                                     size_t result_len,
                                     const tidings_port *port,
                                     uint64_t *token,
                                     tidings_answer **answer);

// The call failed: with the JSON text of its JSON-RPC error, or NULL; with a reason, or NULL. The answer is as for
// `tidings_call_complete`.
tidings_result tidings_call_fail(const tidings_call *call,
                                 const uint8_t *error,
                                 size_t error_len,
                                 const char *reason,
                                 size_t reason_len,
                                 const tidings_port *port,
                                 uint64_t *token,
                                 tidings_answer **answer);

// Somebody cancelled the call, with a reason, or NULL. The answer is as for `tidings_call_complete`.
tidings_result tidings_call_cancel(const tidings_call *call,
                                   const char *reason,
                                   size_t reason_len,
                                   const tidings_port *port,
                                   uint64_t *token,
                                   tidings_answer **answer);

// Waits until the call has ended, whoever ends it: its tool is to be stopped then. The answer is an outcome.
tidings_result tidings_call_ended(const tidings_call *call,
                                  const tidings_port *port,
                                  uint64_t *token,
                                  tidings_answer **answer);

// Frees a call's handle. A call that has not ended when its last handle goes has failed. NULL is fine.
tidings_result tidings_call_free(tidings_call *call);

// Deliveries, oldest first and at most `limit`: of a principal, about a call, in a state, each only where it is not NULL.
// Blocks for a read. Free them with `tidings_deliveries_free`.
tidings_result tidings_hub_deliveries(const tidings_hub *hub,
                                      const char *principal,
                                      size_t principal_len,
                                      const char *call_id,
                                      size_t call_id_len,
                                      const char *state,
                                      size_t state_len,
                                      uint32_t limit,
                                      tidings_deliveries **deliveries);

// How many there are.
tidings_result tidings_deliveries_count(const tidings_deliveries *deliveries, size_t *count);

// The delivery at `index`, from 0. `size` is the `sizeof` of the structure.
tidings_result tidings_deliveries_get(const tidings_deliveries *deliveries,
                                      size_t index,
                                      tidings_delivery *delivery,
                                      size_t size);

// Frees a list of deliveries. NULL is fine.
tidings_result tidings_deliveries_free(tidings_deliveries *deliveries);

// The body of a delivery, as it was sent or is to be sent; sets NULL if there is no such delivery. Blocks for a read.
tidings_result tidings_hub_delivery_body(const tidings_hub *hub,
                                         const char *id,
                                         size_t id_len,
                                         tidings_text **body);

// Sends a dead letter again: a new delivery, whose id it answers. Blocks for a commit.
tidings_result tidings_hub_send_again(const tidings_hub *hub,
                                      const char *id,
                                      size_t id_len,
                                      tidings_text **new_id);

// Forgets finished deliveries: of an id, of a principal, in a state, or whatever of them is not NULL; all, where all are.
// Sets how many. Blocks for a commit.
tidings_result tidings_hub_purge(const tidings_hub *hub,
                                 const char *id,
                                 size_t id_len,
                                 const char *principal,
                                 size_t principal_len,
                                 const char *state,
                                 size_t state_len,
                                 uint64_t *count);

// Stops (1) or goes on with (0) deliveries.
tidings_result tidings_hub_set_paused(const tidings_hub *hub, int32_t paused);

// Stops deliveries, as `tidings_hub_set_paused` does, and waits until the attempts under way have ended, at most so many
// milliseconds. The answer is a number: 1 if they have.
tidings_result tidings_hub_drain(const tidings_hub *hub,
                                 uint64_t wait_ms,
                                 const tidings_port *port,
                                 uint64_t *token,
                                 tidings_answer **answer);

// The message of the call that failed last in this thread, for people: it names the field and the rule, and holds no
// payload, secret or address. Empty if none has failed. Free it with `tidings_text_free`.
tidings_result tidings_last_error(tidings_text **message);

// The broken rules of the notificationConfig that was refused last in this thread, as the `data` of the JSON-RPC error
// (-32602): JSON text. Sets NULL if the last failure was another. Free it with `tidings_text_free`.
tidings_result tidings_last_faults(tidings_text **faults);

// The name of a result, the same in every language: `"ok"`, `"invalid_argument"` …; sets `"?"` for a number that is none.
// The text is never freed and ends with a NUL.
tidings_result tidings_result_name(tidings_result result,
                                   const char **name);

// Whether the same call may succeed later: sets 1 or 0.
tidings_result tidings_result_retryable(tidings_result result, int32_t *retryable);

// The events behind a place as JSON Lines, one object each, as SEP-2694 has them. The place is as for
// `tidings_stream_read`. Free it with `tidings_export_free`.
tidings_result tidings_stream_export(const tidings_stream *stream,
                                     const char *cursor,
                                     size_t cursor_len,
                                     int64_t after,
                                     tidings_export **exported);

// The next lines, each with its newline; sets NULL at the end. Blocks for a read. Free them with `tidings_text_free`.
tidings_result tidings_export_next(const tidings_export *exported,
                                   tidings_text **lines);

// Frees an export. NULL is fine.
tidings_result tidings_export_free(tidings_export *exported);

// The profile of an MCP peer: its protocol version, such as `2025-11-25`, and the capabilities of the server and of the
// client as JSON text. Free it with `tidings_profile_free`.
tidings_result tidings_profile_new(const char *version,
                                   size_t version_len,
                                   const char *server,
                                   size_t server_len,
                                   const char *client,
                                   size_t client_len,
                                   tidings_profile **profile);

// Whether peers of this version are told within acknowledged filters only (`tidings_peer_listen`, not
// `tidings_peer_attend`): sets 1 or 0.
tidings_result tidings_profile_listens(const tidings_profile *profile, int32_t *listens);

// The part of a listener's filter that is honoured: both are JSON text.
tidings_result tidings_profile_honoured(const tidings_profile *profile,
                                        const char *filter,
                                        size_t filter_len,
                                        tidings_text **honoured);

// Frees a profile. NULL is fine.
tidings_result tidings_profile_free(tidings_profile *profile);

// Tells everybody who asked for it that something has changed, each once; never waits. `kinds`: `tools`, `prompts`,
// `resources`, `resource_templates`, `events`; and `resource`, which needs a `name`: the resource's URI. `audience`,
// unless it is NULL: only connections of that principal. Those of other processes on the same store are told too, and
// are not counted. `size` is the `sizeof` of the structure. The first use of the hub opens it, which blocks.
tidings_result tidings_hub_notify(const tidings_hub *hub,
                                  const tidings_bytes *kinds,
                                  size_t kinds_count,
                                  const char *name,
                                  size_t name_len,
                                  const char *audience,
                                  size_t audience_len,
                                  tidings_fanout *fanout,
                                  size_t size);

// The connections that have failed since this was last asked, each once: one that did not take a notification, or not in
// time, has lost its listeners and is told nothing more. Those of every outbox of the hub; at most the newest 4,096 are
// kept. Free the list with `tidings_failed_peers_free`.
tidings_result tidings_hub_failed_peers(const tidings_hub *hub,
                                        tidings_failed_peers **failed);

// How many there are.
tidings_result tidings_failed_peers_count(const tidings_failed_peers *failed, size_t *count);

// The one at `index`, from 0. `size` is the `sizeof` of the structure.
tidings_result tidings_failed_peers_get(const tidings_failed_peers *failed,
                                        size_t index,
                                        tidings_failed_peer *peer,
                                        size_t size);

// Frees a list of failed connections. NULL is fine.
tidings_result tidings_failed_peers_free(tidings_failed_peers *failed);

// An outbox. Connections join it by `tidings_outbox_join`. Free it with `tidings_outbox_free`.
tidings_result tidings_hub_outbox(const tidings_hub *hub, tidings_outbox **outbox);

// The number of an outbox among those of its hub.
tidings_result tidings_outbox_number(const tidings_outbox *outbox, uint32_t *number);

// How many listeners an outbox has.
tidings_result tidings_outbox_listeners(const tidings_outbox *outbox, size_t *count);

// Waits until there is something to take, or a connection has failed; one wait at a time. `TIDINGS_CLOSED` when the hub
// closes.
tidings_result tidings_outbox_ready(const tidings_outbox *outbox,
                                    const tidings_port *port,
                                    uint64_t *token,
                                    tidings_answer **answer);

// What there is to write, about `most` notices at most, those of one listener together. Nothing more is handed out for a
// connection before all that it was handed is written (`tidings_peer_written`); what is published meanwhile coalesces. The
// list may be empty. Free it with `tidings_notices_free`.
tidings_result tidings_outbox_take(const tidings_outbox *outbox,
                                   uint32_t most,
                                   tidings_notices **notices);

// Ends every listener that has a filter, in order: what waits for it is handed out, then a notice without a method.
tidings_result tidings_outbox_end_all(const tidings_outbox *outbox);

// Frees an outbox's handle. Connections that joined it stay until they are closed. NULL is fine.
tidings_result tidings_outbox_free(tidings_outbox *outbox);

// How many notices there are.
tidings_result tidings_notices_count(const tidings_notices *notices, size_t *count);

// The notice at `index`, from 0. `size` is the `sizeof` of the structure.
tidings_result tidings_notices_get(const tidings_notices *notices,
                                   size_t index,
                                   tidings_notice *notice,
                                   size_t size);

// Frees a list of notices. NULL is fine.
tidings_result tidings_notices_free(tidings_notices *notices);

// Options, none of them set. Free them with `tidings_options_free`; a hub that was made with them keeps a copy.
tidings_result tidings_options_new(tidings_options **options);

// Sets an option that is a text, or adds one to a list of them. Its rules are checked when a hub is made.
tidings_result tidings_options_set_text(const tidings_options *options,
                                        int32_t option,
                                        const char *value,
                                        size_t value_len);

// Sets an option that is a number, or adds one to a list of them. Its rules are checked when a hub is made.
tidings_result tidings_options_set_number(const tidings_options *options, int32_t option, uint64_t value);

// Frees options. NULL is fine.
tidings_result tidings_options_free(tidings_options *options);

// A hub at `url`: `memory:`, `sqlite:PATH` or `sqlite:///PATH`. `options` may be NULL. Opens nothing yet. Free it with
// `tidings_hub_free`.
tidings_result tidings_hub_new(const char *url,
                               size_t url_len,
                               const tidings_options *options,
                               tidings_hub **hub);

// Opens the store now, instead of at the first use. Blocks.
tidings_result tidings_hub_open(const tidings_hub *hub);

// The stream (scope, name). Nothing is made before the first append. Free it with `tidings_stream_free`.
tidings_result tidings_hub_stream(const tidings_hub *hub,
                                  const char *scope,
                                  size_t scope_len,
                                  const char *name,
                                  size_t name_len,
                                  tidings_stream **stream);

// A writer of a new stream (scope, name), at once. Free it with `tidings_writer_free`.
tidings_result tidings_hub_new_writer(const tidings_hub *hub,
                                      const char *scope,
                                      size_t scope_len,
                                      const char *name,
                                      size_t name_len,
                                      tidings_writer **writer);

// A tail after a cursor, of whichever stream of that scope it is. Blocks for a read. Free it with `tidings_tail_free`.
tidings_result tidings_hub_resume(const tidings_hub *hub,
                                  const char *scope,
                                  size_t scope_len,
                                  const char *cursor,
                                  size_t cursor_len,
                                  tidings_tail **tail);

// Waits until everything that was appended before is committed, and as durable as that.
tidings_result tidings_hub_flush(const tidings_hub *hub,
                                 int32_t durability,
                                 const tidings_port *port,
                                 uint64_t *token,
                                 tidings_answer **answer);

// Ends the calls of a hub, commits what waits and closes the store. The answer is a number: 1 if all of it was done in
// time. What was made of the hub is closed with it; every handle still has to be freed.
tidings_result tidings_hub_close(const tidings_hub *hub,
                                 uint64_t deadline_ms,
                                 const tidings_port *port,
                                 uint64_t *token,
                                 tidings_answer **answer);

// Frees a hub's handle. The hub stays open as long as something that was made of it has a handle; close it before, where
// all that was appended is to be kept. NULL is fine.
tidings_result tidings_hub_free(tidings_hub *hub);

// Has `log(user_data, …)` told what the library logs, of every hub of the process: warnings and errors, each at once and in
// the thread that it happens in, several of them at a time. What the Rust crates log below that, a line or more for each call
// and each attempt, is not told: `tidings_hub_stats` and `tidings_hub_attempts` have it. What is logged while it runs, in the same
// thread, is not told. In a
// forked child it goes on. Several loggers are told everything each. Free it with `tidings_logger_free`; `finalize` may be
// NULL. `TIDINGS_UNSUPPORTED`: the static library is part of a Rust program that has a `tracing` subscriber.
tidings_result tidings_logger_new(tidings_log log,
                                  void *user_data,
                                  tidings_drop finalize,
                                  tidings_logger **logger);

// Frees a logger: nothing more is told to its function. Waits for its calls under way in other threads, so hold no lock that the
// function takes; then its finalizer is called. It may be called from inside the function itself, and the finalizer then comes
// after the last call; from inside another callback it is `TIDINGS_IN_CALLBACK`. NULL is fine.
tidings_result tidings_logger_free(tidings_logger *logger);

// The numbers of a hub. `size` is the `sizeof` of the structure.
tidings_result tidings_hub_stats(const tidings_hub *hub, tidings_stats *stats, size_t size);

// The numbers of a hub in Prometheus's text format.
tidings_result tidings_hub_prometheus(const tidings_hub *hub, tidings_text **text);

// What the settled attempts of a delivery came to, in order: categories of failures, and none where it was taken. Blocks for
// a read. Free them with `tidings_texts_free`.
tidings_result tidings_hub_attempts(const tidings_hub *hub,
                                    const char *id,
                                    size_t id_len,
                                    tidings_texts **attempts);

// Endpoints of a principal, or all where it is NULL; at most `limit`. Blocks for a read. Free them with
// `tidings_endpoints_free`.
tidings_result tidings_hub_endpoints(const tidings_hub *hub,
                                     const char *principal,
                                     size_t principal_len,
                                     uint32_t limit,
                                     tidings_endpoints **endpoints);

// How many there are.
tidings_result tidings_endpoints_count(const tidings_endpoints *endpoints, size_t *count);

// The endpoint at `index`, from 0. `size` is the `sizeof` of the structure.
tidings_result tidings_endpoints_get(const tidings_endpoints *endpoints,
                                     size_t index,
                                     tidings_endpoint *endpoint,
                                     size_t size);

// Frees a list of endpoints. NULL is fine.
tidings_result tidings_endpoints_free(tidings_endpoints *endpoints);

// Has an endpoint tried again (1), or sends nothing more to it (0). Blocks for a commit.
tidings_result tidings_hub_set_endpoint(const tidings_hub *hub,
                                        const char *key,
                                        size_t key_len,
                                        int32_t enabled);

// Offers a place that takes deliveries: of a `route_type` `message` or `callback` with the `name` of a handler; of `message`
// or `signal` for the connection that `TIDINGS_BEGIN_PEER` named, `peer`; or of a type of the program's own, without either
// (NULL). `limit`: deliveries in the program's hands or queued for it, the others wait in the store; `timeout_ms`: how long
// one may take. 0 leaves each as the library has it by default. The first use of the hub opens it, which blocks. Free it
// with `tidings_outlet_free`.
tidings_result tidings_hub_outlet(const tidings_hub *hub,
                                  const char *route_type,
                                  size_t route_type_len,
                                  const char *name,
                                  size_t name_len,
                                  const char *peer,
                                  size_t peer_len,
                                  uint32_t limit,
                                  uint64_t timeout_ms,
                                  tidings_outlet **outlet);

// Whether this process offers such a place now: sets 1 or 0. The arguments are those of `tidings_hub_outlet`.
tidings_result tidings_hub_offers(const tidings_hub *hub,
                                  const char *route_type,
                                  size_t route_type_len,
                                  const char *name,
                                  size_t name_len,
                                  const char *peer,
                                  size_t peer_len,
                                  int32_t *offered);

// Waits for the next delivery: take it with `tidings_answer_host_delivery`. Several may be waited for at a time.
tidings_result tidings_outlet_next(const tidings_outlet *outlet,
                                   const tidings_port *port,
                                   uint64_t *token,
                                   tidings_answer **answer);

// Offers the place no longer: whoever waits is told that no more come.
tidings_result tidings_outlet_close(const tidings_outlet *outlet);

// Closes and frees an outlet. NULL is fine.
tidings_result tidings_outlet_free(tidings_outlet *outlet);

// What there is to know of a delivery. `size` is the `sizeof` of the structure.
tidings_result tidings_host_delivery_get(const tidings_host_delivery *delivery,
                                         tidings_host_delivery_facts *facts,
                                         size_t size);

// The JSON-RPC notification that a route of type `message` sends: JSON text.
tidings_result tidings_host_delivery_frame(const tidings_host_delivery *delivery, tidings_text **frame);

// The program has it: sets 1; or 0: too late, or answered before, and it may come once more.
tidings_result tidings_host_delivery_confirm(const tidings_host_delivery *delivery, int32_t *in_time);

// The program does not take it: `why` is one of `TIDINGS_REFUSE_…`. Sets 1; or 0: too late, or answered before.
tidings_result tidings_host_delivery_refuse(const tidings_host_delivery *delivery,
                                            int32_t why,
                                            int32_t *in_time);

// Frees a delivery. One that was not answered when the last that holds it goes, its answer included, has failed and is tried
// again. NULL is fine.
tidings_result tidings_host_delivery_free(tidings_host_delivery *delivery);

// A connection to write to. `principal`, unless it is NULL, is whose it is: for publishes with an audience. `deadline_ms`
// is how long the program may take for what it was handed, 0 as the library has it by default; a connection that takes
// longer has failed. Free it with `tidings_peer_free`.
tidings_result tidings_outbox_join(const tidings_outbox *outbox,
                                   const char *principal,
                                   size_t principal_len,
                                   uint64_t deadline_ms,
                                   tidings_peer **peer);

// The number of a connection, by which notices name it. It is never used again.
tidings_result tidings_peer_number(const tidings_peer *peer, uint64_t *number);

// The one listener of a peer that sends no filters (MCP up to 2025-11-25): of every list that its profile offers, and of
// what it subscribes to. What is published before `tidings_listener_open` is kept for then. Free it with
// `tidings_listener_free`.
tidings_result tidings_peer_attend(const tidings_peer *peer,
                                   const tidings_profile *profile,
                                   tidings_listener **listener);

// A listener with a filter (JSON text), of which what the profile allows counts. `request_id` is that of the request which
// asked for it, as its JSON text. Its acknowledgement is its first notice; what is published before that is written is kept
// for then. Free it with `tidings_listener_free`.
tidings_result tidings_peer_listen(const tidings_peer *peer,
                                   const tidings_profile *profile,
                                   const char *request_id,
                                   size_t request_id_len,
                                   const char *filter,
                                   size_t filter_len,
                                   tidings_listener **listener);

// Whether the peer can be told anything at the moment: 1 or 0. One that cannot counts as skipped.
tidings_result tidings_peer_set_reachable(const tidings_peer *peer, int32_t reachable);

// So many of the notifications that were handed out for a connection are written: sets 1; or 0: too late, it has failed or
// is closed. A notice without a method is none to be counted.
tidings_result tidings_peer_written(const tidings_peer *peer,
                                    uint32_t notifications,
                                    int32_t *in_time);

// A connection did not take a notification: its listeners end, and `tidings_hub_failed_peers` names it. Sets how many
// listeners went; 0 if it had failed before.
tidings_result tidings_peer_broke(const tidings_peer *peer,
                                  size_t *listeners);

// Lets go of a connection: it is told nothing more. Sets how many listeners went with it; 0 if it was closed before.
tidings_result tidings_peer_close(const tidings_peer *peer,
                                  size_t *listeners);

// Frees a connection's handle, and closes the connection. NULL is fine.
tidings_result tidings_peer_free(tidings_peer *peer);

// The number of a listener, by which notices name it. It is never used again.
tidings_result tidings_listener_number(const tidings_listener *listener, uint64_t *number);

// A peer without filters is ready to be told: `notifications/initialized` has come.
tidings_result tidings_listener_open(const tidings_listener *listener);

// Such a peer asks to be told of one thing, a resource by its URI, and of what lies below it.
tidings_result tidings_listener_subscribe(const tidings_listener *listener,
                                          const char *name,
                                          size_t name_len);

// And no longer.
tidings_result tidings_listener_unsubscribe(const tidings_listener *listener,
                                            const char *name,
                                            size_t name_len);

// Ends a listener in order: what waits for it is handed out, then a notice without a method.
tidings_result tidings_listener_end(const tidings_listener *listener);

// The listener was cancelled: nothing more is written for it. Sets 1; or 0: it had ended.
tidings_result tidings_listener_cancel(const tidings_listener *listener, int32_t *ended);

// Frees a listener's handle; the listener stays until it ends, or its connection is closed. NULL is fine.
tidings_result tidings_listener_free(tidings_listener *listener);

// A port with a descriptor that is readable when there is something to drain: for poll, epoll, kqueue.
tidings_result tidings_port_new(tidings_port **port);

// A port without a descriptor, which calls `wake(user_data)` when there is something to drain: from any thread, once
// until the next drain. `finalize(user_data)` is called once, when the port was freed and the last wake has returned; it
// may be NULL.
tidings_result tidings_port_new_with_wake(tidings_wake wake,
                                          void *user_data,
                                          tidings_drop finalize,
                                          tidings_port **port);

// The descriptor to wait for, -1 for a port that has none. It belongs to the port: only wait for it.
tidings_result tidings_port_descriptor(const tidings_port *port, int32_t *descriptor);

// Waits in this thread until there is something to drain, at most so many milliseconds: sets 1 if there is, 0 if not.
// Only for a port with a descriptor.
tidings_result tidings_port_wait(const tidings_port *port,
                                 uint64_t timeout_ms,
                                 int32_t *ready);

// Goes on with what was woken, in this thread, and writes the tokens of up to `room` operations that are done: `*count`
// of them. As many as there was room for: drain again. Take each with `tidings_port_take`.
tidings_result tidings_port_drain(const tidings_port *port,
                                  uint64_t *tokens,
                                  size_t room,
                                  size_t *count);

// Takes the answer of an operation that is done. Returns what the operation came to: on `TIDINGS_OK` there is an answer,
// to be freed with `tidings_answer_free`.
tidings_result tidings_port_take(const tidings_port *port,
                                 uint64_t token,
                                 tidings_answer **answer);

// The operation of that token is waited for no longer. What others rely on goes on to its end.
tidings_result tidings_port_cancel(const tidings_port *port, uint64_t token);

// Frees a port and cancels what waits there. Where it has a `wake`, waits for calls of it under way in other threads, so hold no
// lock that it takes; then its finalizer is called. It may be called from inside the `wake` itself, and the finalizer then comes
// after the last call; from inside another callback it is `TIDINGS_IN_CALLBACK`. NULL is fine.
tidings_result tidings_port_free(tidings_port *port);

// The version of the ABI of the library that was loaded: compare it with `TIDINGS_ABI_VERSION`.
uint32_t tidings_abi_version(void);

// Before a fork, in the parent. Give this and the two below to `pthread_atfork`, where the process forks and goes on with
// Tidings on both sides: no thread of the parent then holds a lock that the child needs. In the child hubs open anew, loggers go
// on, and options, texts, lists and whatever else does nothing by itself can be used. What lives in the parent's threads is
// `TIDINGS_FORKED` there and can only be freed: ports and answers, streams, writers, tails and exports, calls, outlets and their
// deliveries, outboxes, peers and listeners. Waits for what is under way in a store.
void tidings_before_fork(void);

// After a fork, in the parent.
void tidings_after_fork_in_parent(void);

// After a fork, in the child, before anything else.
void tidings_after_fork_in_child(void);

// Closes every hub that is open, for the end of the process: sets 1 if all that waited was committed in time.
tidings_result tidings_close_all(uint64_t deadline_ms, int32_t *complete);

// The progress of a request that brought that `progressToken` (JSON text), or none (NULL). Reports that come sooner than
// `min_interval_ms` after one another are not sent. Free it with `tidings_progress_free`.
tidings_result tidings_progress_new(const char *token,
                                    size_t token_len,
                                    uint64_t min_interval_ms,
                                    tidings_progress **progress);

// The params of `notifications/progress` (JSON text), or why there are none: sets one of `*params` and `*why` and the other
// to NULL. `why` is a name such as `no_token`, `not_increasing`, `too_soon`, `ended`. `total` is NAN where it is not known,
// `message` may be NULL, `now_ms` is any clock's that does not go back.
tidings_result tidings_progress_report(const tidings_progress *progress,
                                       double value,
                                       double total,
                                       const char *message,
                                       size_t message_len,
                                       uint64_t now_ms,
                                       tidings_text **params,
                                       tidings_text **why);

// The request has its answer: nothing more is reported.
tidings_result tidings_progress_end(const tidings_progress *progress);

// Frees it. NULL is fine.
tidings_result tidings_progress_free(tidings_progress *progress);

// Whether a message of that level is sent (`debug` … `emergency`): sets 1 or 0. `asked` is the level that the client asked
// for, NULL if it asked for none; `per_request` is 1 where MCP has it in each request (2026-07-28), 0 where a session has it.
tidings_result tidings_log_passes(int32_t per_request,
                                  const char *asked,
                                  size_t asked_len,
                                  const char *level,
                                  size_t level_len,
                                  int32_t *passes);

// The process at the other end of stdin, for routes of type `signal`: the parent where stdin is a pipe, the connected one where it
// is a socket. Linux only. It is pinned by a pidfd: a process that takes the number of one that died never gets its signal.
// `TIDINGS_UNSUPPORTED` where there is none, and the message says why: stdin is neither, the peer is another user's or gone, or
// this process is root's and `as_root` is 0. Free it with `tidings_stdio_peer_free`.
tidings_result tidings_stdio_peer_new(int32_t as_root,
                                      tidings_stdio_peer **peer);

// Sends it a signal by its name: `SIGUSR1`, `SIGUSR2` or `SIGRTMIN+n` with n from 0 to 15. It carries nothing, and two of them may
// arrive as one. Sets 0; or one of `TIDINGS_REFUSE_…`, for `tidings_host_delivery_refuse`, where nothing was sent: a peer that neither
// handles, blocks nor ignores the signal would be ended by it, and is not ready.
tidings_result tidings_stdio_peer_ring(const tidings_stdio_peer *peer,
                                       const char *signal,
                                       size_t signal_len,
                                       int32_t *refusal);

// Frees a peer, which goes on. NULL is fine.
tidings_result tidings_stdio_peer_free(tidings_stdio_peer *peer);

// Appends `count` events of one type, numbered inside the commit, after which it is done: all of them or none. The answer
// is a number, the first event's. `key`, unless it is NULL, is a text under which this is appended once: whoever appends
// under it again gets the same number. `identity` says whom and what the events belong to: `task`, `session`, `turn`,
// `toolCall`, `sourceType`. `flags`: 0 or `TIDINGS_APPEND_CLOSE`.
tidings_result tidings_stream_append(const tidings_stream *stream,
                                     const char *kind,
                                     size_t kind_len,
                                     const tidings_bytes *payloads,
                                     size_t count,
                                     const tidings_pair *identity,
                                     size_t identity_count,
                                     const char *key,
                                     size_t key_len,
                                     int32_t durability,
                                     uint32_t flags,
                                     const tidings_port *port,
                                     uint64_t *token,
                                     tidings_answer **answer);

// Closes a stream: nothing is appended after that.
tidings_result tidings_stream_close(const tidings_stream *stream,
                                    const tidings_port *port,
                                    uint64_t *token,
                                    tidings_answer **answer);

// Takes the right to number the stream in memory from whoever has it. The answer has a writer.
tidings_result tidings_stream_claim(const tidings_stream *stream,
                                    const tidings_port *port,
                                    uint64_t *token,
                                    tidings_answer **answer);

// Reads committed events after a place, at most `limit`: after a cursor; or, where `cursor` is NULL, after the event of
// the number `after`, or from `TIDINGS_EARLIEST`. Blocks for the read. Free the batch with `tidings_batch_free`.
tidings_result tidings_stream_read(const tidings_stream *stream,
                                   const char *cursor,
                                   size_t cursor_len,
                                   int64_t after,
                                   uint32_t limit,
                                   tidings_batch **batch);

// A tail after a place, given as for `tidings_stream_read`. Blocks for a read. Free it with `tidings_tail_free`.
tidings_result tidings_stream_tail(const tidings_stream *stream,
                                   const char *cursor,
                                   size_t cursor_len,
                                   int64_t after,
                                   tidings_tail **tail);

// Frees a stream's handle; the stream stays. NULL is fine.
tidings_result tidings_stream_free(tidings_stream *stream);

// Appends one event and sets its number, in microseconds and without waiting for the commit. `flags`: 0 or
// `TIDINGS_APPEND_CLOSE`, `TIDINGS_APPEND_GIVE_UP`.
tidings_result tidings_writer_append(const tidings_writer *writer,
                                     const char *kind,
                                     size_t kind_len,
                                     const uint8_t *payload,
                                     size_t payload_len,
                                     const tidings_pair *identity,
                                     size_t identity_count,
                                     uint32_t flags,
                                     uint64_t *seq);

// The cursor of a reader that has the event of that number.
tidings_result tidings_writer_cursor(const tidings_writer *writer, uint64_t seq, tidings_text **cursor);

// The cursor of a reader that has everything that was appended so far.
tidings_result tidings_writer_last_cursor(const tidings_writer *writer, tidings_text **cursor);

// Whether more waits for the store than is good: sets 1 or 0.
tidings_result tidings_writer_congested(const tidings_writer *writer, int32_t *congested);

// Whether the stream takes no more events from this writer: sets 1 or 0.
tidings_result tidings_writer_closed(const tidings_writer *writer, int32_t *closed);

// Closes the stream after the last event, without waiting.
tidings_result tidings_writer_close(const tidings_writer *writer);

// Waits until everything that was appended before is committed.
tidings_result tidings_writer_flush(const tidings_writer *writer,
                                    int32_t durability,
                                    const tidings_port *port,
                                    uint64_t *token,
                                    tidings_answer **answer);

// Frees a writer. What was appended is committed; the stream stays open. NULL is fine.
tidings_result tidings_writer_free(tidings_writer *writer);

// Waits for events. The answer is a batch: take it with `tidings_answer_batch`. One at a time waits for a tail; who is
// cancelled loses nothing.
tidings_result tidings_tail_next(const tidings_tail *tail,
                                 const tidings_port *port,
                                 uint64_t *token,
                                 tidings_answer **answer);

// Where the reader stands after all that was taken.
tidings_result tidings_tail_cursor(const tidings_tail *tail, tidings_text **cursor);

// Whether the stream is open and yet nothing more is to come, for the process of its writer is gone: sets 1 or 0. Only a new
// claim continues such a stream; what is committed may still have to be read. Reads the store.
tidings_result tidings_tail_abandoned(const tidings_tail *tail,
                                      int32_t *abandoned);

// Ends a tail: whoever waits for it is told the end.
tidings_result tidings_tail_close(const tidings_tail *tail);

// Closes and frees a tail. NULL is fine.
tidings_result tidings_tail_free(tidings_tail *tail);

// The task of that id, if it is one that `asker`, a principal, may ask for; sets NULL if there is none. Blocks for a read.
// Free it with `tidings_task_free`.
tidings_result tidings_hub_task(const tidings_hub *hub,
                                const char *id,
                                size_t id_len,
                                const char *asker,
                                size_t asker_len,
                                tidings_task **task);

// What there is to know of a task. `size` is the `sizeof` of the structure.
tidings_result tidings_task_get(const tidings_task *task, tidings_task_facts *facts, size_t size);

// Frees a task's handle; the task goes on. NULL is fine.
tidings_result tidings_task_free(tidings_task *task);

// Cancels the task of that id, unless it has ended. The answer is a number: 1; or 0 where there is none that `asker` may
// ask for.
tidings_result tidings_hub_cancel_task(const tidings_hub *hub,
                                       const char *id,
                                       size_t id_len,
                                       const char *asker,
                                       size_t asker_len,
                                       const tidings_port *port,
                                       uint64_t *token,
                                       tidings_answer **answer);

// Gives a running task its client's answers (`tasks/update`): the JSON text of an object. The answer is a number: 1; or 0
// where there is no task that `asker` may ask for.
tidings_result tidings_hub_answer_task(const tidings_hub *hub,
                                       const char *id,
                                       size_t id_len,
                                       const char *asker,
                                       size_t asker_len,
                                       const uint8_t *responses,
                                       size_t responses_len,
                                       const tidings_port *port,
                                       uint64_t *token,
                                       tidings_answer **answer);

// Makes a call a task, for `ttl_ms` after its end. `bound`: 1, only its principal may ask for it; 0, whoever has its id. The
// answer is a number: 1; or 0: the call had ended.
tidings_result tidings_call_become_task(const tidings_call *call,
                                        uint64_t ttl_ms,
                                        int32_t bound,
                                        const tidings_port *port,
                                        uint64_t *token,
                                        tidings_answer **answer);

// Asks the client of a task for input, the JSON text of an object by names, and waits for all of it
// (`tidings_hub_answer_task`, in any process). The answer is a text: the JSON text of the responses by the same names.
tidings_result tidings_call_ask(const tidings_call *call,
                                const uint8_t *requests,
                                size_t requests_len,
                                const tidings_port *port,
                                uint64_t *token,
                                tidings_answer **answer);

// The client is gone and the call goes on, for `time_ms` at most, if no more than `calls` of those that are counted as
// `counted_as` (a principal, or what stands in for one) go on like that: sets 1; or 0: there is no room, and the call is to
// be cancelled.
tidings_result tidings_call_detach(const tidings_call *call,
                                   const char *counted_as,
                                   size_t counted_as_len,
                                   uint32_t calls,
                                   uint64_t time_ms,
                                   int32_t *goes_on);

// A text's bytes: `*len` of them, and a NUL behind the last, which does not count. They stay where they are until the
// text is freed.
tidings_result tidings_text_get(const tidings_text *text,
                                const char **data,
                                size_t *len);

// Frees a text. NULL is fine.
tidings_result tidings_text_free(tidings_text *text);

// How many there are.
tidings_result tidings_texts_count(const tidings_texts *texts, size_t *count);

// The text at `index`, from 0; its `data` is NULL where there is none. It stays where it is until the list is freed. `size`
// is the `sizeof` of the structure.
tidings_result tidings_texts_get(const tidings_texts *texts,
                                 size_t index,
                                 tidings_bytes *text,
                                 size_t size);

// Frees a list of texts. NULL is fine.
tidings_result tidings_texts_free(tidings_texts *texts);

// A receiver with these secrets: `whsec_…`, which may be missing; two of them during rotation. Free it with
// `tidings_webhook_free`.
tidings_result tidings_webhook_new(const tidings_bytes *secrets, size_t count, tidings_webhook **webhook);

// Checks a webhook: its body as it was received, byte for byte, and its headers. `now` is the time in seconds since 1970,
// `tolerance` how many seconds the webhook's may be away from it, such as `TIDINGS_WEBHOOK_TOLERANCE`. `TIDINGS_OK`: it is the sender's.
// `TIDINGS_UNVERIFIED`: it is not to be trusted; the message begins with a stable name and a colon, such as `mismatch:`.
tidings_result tidings_webhook_verify(const tidings_webhook *webhook,
                                      const uint8_t *body,
                                      size_t body_len,
                                      const tidings_pair *headers,
                                      size_t headers_count,
                                      int64_t now,
                                      uint64_t tolerance);

// The value of the `webhook-signature` header for this id, time (in seconds since 1970) and body.
tidings_result tidings_webhook_sign(const tidings_webhook *webhook,
                                    const char *id,
                                    size_t id_len,
                                    int64_t time,
                                    const uint8_t *body,
                                    size_t body_len,
                                    tidings_text **signature);

// The answer to a sender's challenge, as JSON text: answer it with status 200. Sets NULL for a body that is none. Verify
// it first.
tidings_result tidings_webhook_challenge_answer(const uint8_t *body,
                                                size_t body_len,
                                                tidings_text **answer);

// The document that says which paths of a host receive webhooks, as JSON text: to be served as
// `/.well-known/mcp-webhook-receiver.json`.
tidings_result tidings_webhook_receiver_document(const tidings_bytes *paths,
                                                 size_t count,
                                                 tidings_text **document);

// Frees a receiver. NULL is fine.
tidings_result tidings_webhook_free(tidings_webhook *webhook);

// A receiver's private keys, each the JSON text of a JWK with its `d`, on P-256 or X25519; several while one replaces the
// other. The message of an error holds nothing of a key. Free them with `tidings_webhook_keys_free`.
tidings_result tidings_webhook_keys_new(const tidings_bytes *jwks,
                                        size_t count,
                                        tidings_webhook_keys **keys);

// Reads a body that was encrypted to one of the keys: a JWE in its compact form (RFC 7516), ECDH-ES with A256GCM. Verify it
// first: the signature is over the body as it came. A body that is not encrypted begins with `{`, which no JWE does.
// `TIDINGS_UNVERIFIED`: it cannot be read; the message begins with `jwe_malformed:`, `jwe_unsupported:` or `jwe_no_key:`. Free the
// text with `tidings_text_free`.
tidings_result tidings_webhook_decrypt(const tidings_webhook_keys *keys,
                                       const uint8_t *body,
                                       size_t body_len,
                                       tidings_text **plain);

// Frees keys. NULL is fine.
tidings_result tidings_webhook_keys_free(tidings_webhook_keys *keys);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* TIDINGS_H */


