package tidings

/*
#include <tidings.h>
*/
import "C"

import (
	"context"
	"encoding/json"
	"runtime"
	"time"
)

// A CallRequest is a tool call that asks to be watched.
type CallRequest struct {
	// Config is the raw JSON text of `notificationConfig`; nil if the request has none.
	Config []byte
	// RouteTypes are those that this server offers. Nil: webhook.
	RouteTypes []string
	// Principal is who asks.
	Principal string
	// Session is the MCP session, where there is one.
	Session string
	// Peer is the program's own name for the connection of the calling session, where one outlives the request: for routes of
	// type `message` and `signal`, see [Hub.Outlet].
	Peer string
	// Open are the names that routes of type `message` and `callback` may have.
	Open []string
	// RequestID is the JSON-RPC id of the request as its JSON text: 7, or "7" with its quotes.
	RequestID string
	// Tool is the tool's name.
	Tool string
	// Timeout is the server's limit, which the config may only lower; 0 is none.
	Timeout time.Duration
	// Traceparent is the W3C trace context that its webhooks carry on.
	Traceparent string
	// TaskTTL makes it a task from the start, for so long after its end; 0 does not. TaskBound: only its principal may ask for it.
	TaskTTL   time.Duration
	TaskBound bool
}

func (r CallRequest) tell(begin *C.tidings_begin) C.tidings_result {
	text := func(field C.int32_t, value string) C.tidings_result {
		chars, length := chars(value)
		return C.tidings_begin_set_text(begin, field, chars, length)
	}
	types := r.RouteTypes
	if types == nil {
		types = []string{"webhook"}
	}
	for _, kind := range types {
		if result := text(C.TIDINGS_BEGIN_ROUTE_TYPE, kind); result != C.TIDINGS_OK {
			return result
		}
	}
	for _, name := range r.Open {
		if result := text(C.TIDINGS_BEGIN_OPEN, name); result != C.TIDINGS_OK {
			return result
		}
	}
	if r.Config != nil {
		if result := text(C.TIDINGS_BEGIN_CONFIG, string(r.Config)); result != C.TIDINGS_OK {
			return result
		}
	}
	for _, field := range []struct {
		field C.int32_t
		value string
	}{
		{C.TIDINGS_BEGIN_PRINCIPAL, r.Principal},
		{C.TIDINGS_BEGIN_SESSION, r.Session},
		{C.TIDINGS_BEGIN_PEER, r.Peer},
		{C.TIDINGS_BEGIN_REQUEST_ID, r.RequestID},
		{C.TIDINGS_BEGIN_TOOL, r.Tool},
		{C.TIDINGS_BEGIN_TRACEPARENT, r.Traceparent},
	} {
		if field.value == "" {
			continue
		}
		if result := text(field.field, field.value); result != C.TIDINGS_OK {
			return result
		}
	}
	if r.Timeout != 0 {
		if result := C.tidings_begin_set_number(begin, C.TIDINGS_BEGIN_TIMEOUT_MS, milliseconds(r.Timeout)); result != C.TIDINGS_OK {
			return result
		}
	}
	if r.TaskTTL == 0 {
		return C.TIDINGS_OK
	}
	if result := C.tidings_begin_set_number(begin, C.TIDINGS_BEGIN_TASK_TTL_MS, milliseconds(r.TaskTTL)); result != C.TIDINGS_OK {
		return result
	}
	return C.tidings_begin_set_number(begin, C.TIDINGS_BEGIN_TASK_BOUND, C.uint64_t(flag(r.TaskBound)))
}

// draft is what the library is told of the request; to be freed.
func (r CallRequest) draft() (*C.tidings_begin, error) {
	var begin *C.tidings_begin
	if err := attempt(func() C.tidings_result { return C.tidings_begin_new(&begin) }); err != nil {
		return nil, err
	}
	if err := attempt(func() C.tidings_result { return r.tell(begin) }); err != nil {
		C.tidings_begin_free(begin)
		return nil, err
	}
	return begin, nil
}

// CheckConfig judges a config as that of a call would be, without a call and without opening the hub, and returns the triggers that
// nothing here fires. Of the request, its config, route types, open names, and whether there is a peer count.
func (h *Hub) CheckConfig(request CallRequest) ([]string, error) {
	defer runtime.KeepAlive(h)
	begin, err := request.draft()
	if err != nil {
		return nil, err
	}
	defer C.tidings_begin_free(begin)
	var ignored *C.tidings_texts
	if err := attempt(func() C.tidings_result { return C.tidings_hub_check_config(h.hub, begin, &ignored) }); err != nil {
		return nil, err
	}
	return takeTexts(ignored)
}

// BeginCall begins a watched call. With a config that is accepted, the call and the config are on disk when it returns. It
// fails with a [ConfigError] for one that breaks rules: nothing was begun then.
func (h *Hub) BeginCall(ctx context.Context, request CallRequest) (*Call, error) {
	defer runtime.KeepAlive(h)
	begin, err := request.draft()
	if err != nil {
		return nil, err
	}
	defer C.tidings_begin_free(begin)
	answer, err := perform(ctx, func(port *C.tidings_port, token *C.uint64_t, answer **C.tidings_answer) C.tidings_result {
		return C.tidings_hub_begin_call(h.hub, begin, port, token, answer)
	})
	if err != nil {
		return nil, err
	}
	defer answer.free()
	return newCall(answer)
}

// CancelCall cancels the call of that id, wherever it runs, if it is the asker's; it tells whether there is such a call.
func (h *Hub) CancelCall(ctx context.Context, id, asker string) (bool, error) {
	defer runtime.KeepAlive(h)
	number, err := numbered(ctx, func(port *C.tidings_port, token *C.uint64_t, answer **C.tidings_answer) C.tidings_result {
		id, idLen := chars(id)
		asker, askerLen := chars(asker)
		return C.tidings_hub_cancel_call(h.hub, id, idLen, asker, askerLen, port, token, answer)
	})
	return number != 0, err
}

// A Call is a watched tool call. Whatever becomes of this process, it ends in exactly one outcome: the first of Complete, Fail,
// Cancel, the time limit and other processes wins, and the others are told who did.
type Call struct {
	call            *C.tidings_call
	cleanup         runtime.Cleanup
	id              string
	acknowledgement json.RawMessage
}

func newCall(answer *answer) (*Call, error) {
	call := &Call{}
	if err := attempt(func() C.tidings_result { return C.tidings_answer_call(answer.answer, &call.call) }); err != nil {
		return nil, err
	}
	call.cleanup = runtime.AddCleanup(call, func(handle *C.tidings_call) { C.tidings_call_free(handle) }, call.call)
	var id, acknowledgement *C.tidings_text
	err := attempt(func() C.tidings_result {
		if result := C.tidings_call_id(call.call, &id); result != C.TIDINGS_OK {
			return result
		}
		return C.tidings_call_acknowledgement(call.call, &acknowledgement)
	})
	call.id, call.acknowledgement = takeText(id), json.RawMessage(takeText(acknowledgement))
	return call, err
}

// ID is our id of the call.
func (c *Call) ID() string { return c.id }

// Acknowledgement is the params of `notifications/config/acknowledged`: what is to be sent before the tool runs.
func (c *Call) Acknowledgement() json.RawMessage { return c.acknowledgement }

// AcceptedRoutes are the ids of the call's routes, all of which were accepted.
func (c *Call) AcceptedRoutes() []string { return c.acknowledged().AcceptedRoutes }

// IgnoredTriggers are names of triggers that nothing here fires.
func (c *Call) IgnoredTriggers() []string { return c.acknowledged().IgnoredTriggers }

type acknowledged struct {
	AcceptedRoutes  []string `json:"acceptedRoutes"`
	IgnoredTriggers []string `json:"ignoredTriggers"`
}

func (c *Call) acknowledged() (found acknowledged) {
	// The library's own text.
	_ = json.Unmarshal(c.acknowledgement, &found)
	return found
}

// Emit appends an event of the tool to the call's stream, without waiting, and returns its number. Its type has a vendor's
// prefix, its payload is the JSON text of an object (SEP-2694).
func (c *Call) Emit(kind string, payload []byte) (uint64, error) {
	defer runtime.KeepAlive(c)
	var seq C.uint64_t
	err := attempt(func() C.tidings_result {
		text, textLen := chars(kind)
		bytes, bytesLen := raw(payload)
		return C.tidings_call_emit(c.call, text, textLen, bytes, bytesLen, &seq)
	})
	return uint64(seq), err
}

// Fire fires a vendor's trigger (`com.example/done`) with the JSON text of an object, without waiting, and returns the number
// of the event that stands for it on the call's stream.
func (c *Call) Fire(name string, payload []byte) (uint64, error) {
	defer runtime.KeepAlive(c)
	var seq C.uint64_t
	err := attempt(func() C.tidings_result {
		text, textLen := chars(name)
		bytes, bytesLen := raw(payload)
		return C.tidings_call_fire(c.call, text, textLen, bytes, bytesLen, &seq)
	})
	return uint64(seq), err
}

// ProgressEvent and LogEvent are the types of events that are a call's progress and its log messages.
const (
	ProgressEvent = "io.tidings.progress"
	LogEvent      = "io.tidings.log"
)

// Progress is how far a tool has come.
type Progress struct {
	Progress float64 `json:"progress"`
	Total    float64 `json:"total,omitempty"`
	Message  string  `json:"message,omitempty"`
}

// Progress emits a [ProgressEvent].
func (c *Call) Progress(progress Progress) (uint64, error) {
	payload, err := json.Marshal(progress)
	if err != nil {
		return 0, &Error{Code: ErrInvalidArgument, Message: "progress: " + err.Error()}
	}
	return c.Emit(ProgressEvent, payload)
}

// Disconnected: the client's connection is lost and the call goes on. Fires `io.tidings/disconnected` where that was asked for.
func (c *Call) Disconnected() error {
	defer runtime.KeepAlive(c)
	return attempt(func() C.tidings_result { return C.tidings_call_disconnected(c.call) })
}

// Outcome is what a call comes to.
type Outcome string

// The outcomes.
const (
	Completed Outcome = "completed"
	Failed    Outcome = "failed"
	Cancelled Outcome = "cancelled"
	TimedOut  Outcome = "timeout"
)

var outcomes = map[C.int32_t]Outcome{
	C.TIDINGS_OUTCOME_COMPLETED: Completed,
	C.TIDINGS_OUTCOME_FAILED:    Failed,
	C.TIDINGS_OUTCOME_CANCELLED: Cancelled,
	C.TIDINGS_OUTCOME_TIMEOUT:   TimedOut,
}

// Ended says how a call ended.
type Ended struct {
	Outcome Outcome
	// Reason says why, where the outcome alone does not: `server_lost` …
	Reason string
	// Ours: it was this very request to end the call that won; otherwise the call had ended before.
	Ours bool
	// Committed: the outcome is on disk. If not, the store did not take it in time; it is tried again while the process lives.
	Committed bool
	// Undelivered is the JSON text for `_meta["io.tidings/undelivered"]` of the result; nil where everything can be delivered.
	Undelivered json.RawMessage
}

// Complete: the tool returned this result (JSON text): completed, or failed where it says isError. The outcome is on disk when
// it returns, unless the store takes longer than two seconds.
func (c *Call) Complete(ctx context.Context, result []byte) (*Ended, error) {
	return c.end(ctx, func(port *C.tidings_port, token *C.uint64_t, answer **C.tidings_answer) C.tidings_result {
		bytes, bytesLen := raw(result)
		return C.tidings_call_complete(c.call, bytes, bytesLen, port, token, answer)
	})
}

// Fail: the call failed, with the JSON text of its JSON-RPC error, or nil; with a reason, or "".
func (c *Call) Fail(ctx context.Context, failure []byte, reason string) (*Ended, error) {
	return c.end(ctx, func(port *C.tidings_port, token *C.uint64_t, answer **C.tidings_answer) C.tidings_result {
		bytes, bytesLen := raw(failure)
		text, textLen := optional(reason)
		return C.tidings_call_fail(c.call, bytes, bytesLen, text, textLen, port, token, answer)
	})
}

// Cancel: somebody cancelled the call, with a reason, or "".
func (c *Call) Cancel(ctx context.Context, reason string) (*Ended, error) {
	return c.end(ctx, func(port *C.tidings_port, token *C.uint64_t, answer **C.tidings_answer) C.tidings_result {
		text, textLen := optional(reason)
		return C.tidings_call_cancel(c.call, text, textLen, port, token, answer)
	})
}

// Ended waits until the call has ended, whoever ends it: its tool is to be stopped then.
func (c *Call) Ended(ctx context.Context) (*Ended, error) {
	return c.end(ctx, func(port *C.tidings_port, token *C.uint64_t, answer **C.tidings_answer) C.tidings_result {
		return C.tidings_call_ended(c.call, port, token, answer)
	})
}

func (c *Call) end(ctx context.Context, begin operation) (*Ended, error) {
	defer runtime.KeepAlive(c)
	answer, err := perform(ctx, begin)
	if err != nil {
		return nil, err
	}
	defer answer.free()
	var outcome C.tidings_outcome
	var reason, undelivered *C.tidings_text
	err = attempt(func() C.tidings_result {
		result := C.tidings_answer_outcome(answer.answer, &outcome, C.sizeof_tidings_outcome)
		if result == C.TIDINGS_OK {
			result = C.tidings_answer_reason(answer.answer, &reason)
		}
		if result == C.TIDINGS_OK {
			result = C.tidings_answer_undelivered(answer.answer, &undelivered)
		}
		return result
	})
	ended := &Ended{
		Outcome:   outcomes[outcome.outcome],
		Reason:    takeText(reason),
		Ours:      outcome.ours != 0,
		Committed: outcome.committed != 0,
	}
	if text, found := takeOptional(undelivered); found {
		ended.Undelivered = json.RawMessage(text)
	}
	if err != nil {
		return nil, err
	}
	return ended, nil
}

// Close lets go of the call. One that has not ended when nobody holds it has failed.
func (c *Call) Close() error {
	c.cleanup.Stop()
	defer runtime.KeepAlive(c)
	if err := attempt(func() C.tidings_result { return C.tidings_call_free(c.call) }); err != nil {
		return &Error{Code: ErrClosed, Message: "call: is closed"}
	}
	return nil
}
