package tidings

/*
#include <tidings.h>
*/
import "C"

import (
	"context"
	"runtime"
	"time"
)

// A Hub is the entry point: one store, and what works for it.
type Hub struct{ hub *C.tidings_hub }

// closeWithin is how long Close waits, as the other languages do at the end of a process.
const closeWithin = 2 * time.Second

// Open makes a hub and opens its store: `memory:`, `sqlite:PATH` or `sqlite:///PATH`. Several processes may open one file.
func Open(ctx context.Context, url string, options ...Option) (*Hub, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	// Tells a library that is too old before anything else does.
	if _, err := waiting(); err != nil {
		return nil, err
	}
	hub := &Hub{}
	err := withOptions(options, func(options *C.tidings_options) error {
		return attempt(func() C.tidings_result {
			text, length := chars(url)
			return C.tidings_hub_new(text, length, options, &hub.hub)
		})
	})
	if err != nil {
		return nil, err
	}
	runtime.AddCleanup(hub, func(hub *C.tidings_hub) { C.tidings_hub_free(hub) }, hub.hub)
	if err := attempt(func() C.tidings_result { return C.tidings_hub_open(hub.hub) }); err != nil {
		return nil, err
	}
	return hub, nil
}

// Close is Shutdown within two seconds. It fails with [ErrTimeout] if something was not kept. Closing again does nothing.
func (h *Hub) Close() error {
	complete, err := h.Shutdown(context.Background(), closeWithin)
	if err == nil && !complete {
		err = &Error{Code: ErrTimeout, Message: "close: not everything was committed in time"}
	}
	return err
}

// Shutdown ends the hub's calls, commits what waits and closes the store, and tells whether all of it was done in time. What
// was made of the hub is closed with it.
func (h *Hub) Shutdown(ctx context.Context, within time.Duration) (complete bool, err error) {
	defer runtime.KeepAlive(h)
	number, err := numbered(ctx, func(port *C.tidings_port, token *C.uint64_t, answer **C.tidings_answer) C.tidings_result {
		return C.tidings_hub_close(h.hub, milliseconds(within), port, token, answer)
	})
	return number != 0, err
}

// milliseconds are never negative, and what is shorter than one is not nothing.
func milliseconds(duration time.Duration) C.uint64_t {
	return C.uint64_t(max(wholeMilliseconds(duration), 0))
}

func wholeMilliseconds(duration time.Duration) int64 {
	if duration > 0 && duration < time.Millisecond {
		return 1
	}
	return duration.Milliseconds()
}

// Flush waits until everything that was appended before is committed, and as durable as that.
func (h *Hub) Flush(ctx context.Context, durability Durability) error {
	defer runtime.KeepAlive(h)
	return done(ctx, func(port *C.tidings_port, token *C.uint64_t, answer **C.tidings_answer) C.tidings_result {
		return C.tidings_hub_flush(h.hub, C.int32_t(durability), port, token, answer)
	})
}

// Stream is the stream of that key. Nothing is made before the first append.
func (h *Hub) Stream(scope, name string) (*Stream, error) {
	defer runtime.KeepAlive(h)
	stream := &Stream{}
	err := attempt(func() C.tidings_result {
		scope, scopeLen := chars(scope)
		name, nameLen := chars(name)
		return C.tidings_hub_stream(h.hub, scope, scopeLen, name, nameLen, &stream.stream)
	})
	if err != nil {
		return nil, err
	}
	runtime.AddCleanup(stream, func(stream *C.tidings_stream) { C.tidings_stream_free(stream) }, stream.stream)
	return stream, nil
}

// NewWriter is a writer of a new stream, at once: the stream comes to be with its first event.
//
// It is for keys that nobody else uses. If the key turns out to be taken, the writer is refused, and its events are dropped
// and counted; [Stream.Claim] takes over a stream that is there.
func (h *Hub) NewWriter(scope, name string) (*Writer, error) {
	defer runtime.KeepAlive(h)
	var writer *C.tidings_writer
	err := attempt(func() C.tidings_result {
		scope, scopeLen := chars(scope)
		name, nameLen := chars(name)
		return C.tidings_hub_new_writer(h.hub, scope, scopeLen, name, nameLen, &writer)
	})
	if err != nil {
		return nil, err
	}
	return newWriter(writer), nil
}

// Resume is a tail after a cursor, of whichever stream of that scope it is. It fails with [ErrUnknownCursor] for a cursor that
// is malformed, unknown or of another scope.
func (h *Hub) Resume(ctx context.Context, scope, cursor string) (*Tail, error) {
	defer runtime.KeepAlive(h)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	var tail *C.tidings_tail
	err := attempt(func() C.tidings_result {
		scope, scopeLen := chars(scope)
		cursor, cursorLen := chars(cursor)
		return C.tidings_hub_resume(h.hub, scope, scopeLen, cursor, cursorLen, &tail)
	})
	if err != nil {
		return nil, err
	}
	return newTail(tail), nil
}

// Prometheus is what the hub counts, in Prometheus's text format.
func (h *Hub) Prometheus() (string, error) {
	defer runtime.KeepAlive(h)
	var text *C.tidings_text
	if err := attempt(func() C.tidings_result { return C.tidings_hub_prometheus(h.hub, &text) }); err != nil {
		return "", err
	}
	return takeText(text), nil
}
