package tidings

/*
#include <tidings.h>
*/
import "C"

import (
	"context"
	"errors"
	"io"
	"iter"
	"runtime"
)

// A Tail is a reader that replays and goes on live.
type Tail struct{ tail *C.tidings_tail }

func newTail(handle *C.tidings_tail) *Tail {
	tail := &Tail{handle}
	runtime.AddCleanup(tail, func(handle *C.tidings_tail) { C.tidings_tail_free(handle) }, handle)
	return tail
}

// Next waits for events. It returns [io.EOF] where the stream is closed and was read to its end, or the tail is closed. What it
// returned counts as read; a context that ends loses nothing.
func (t *Tail) Next(ctx context.Context) (*Page, error) {
	defer runtime.KeepAlive(t)
	for {
		found, err := t.take(ctx)
		if err != nil {
			return nil, err
		}
		if found != nil {
			return newBatch(found).page()
		}
	}
}

// take is NULL where somebody else took what was there.
func (t *Tail) take(ctx context.Context) (*C.tidings_batch, error) {
	answer, err := perform(ctx, func(port *C.tidings_port, token *C.uint64_t, answer **C.tidings_answer) C.tidings_result {
		return C.tidings_tail_next(t.tail, port, token, answer)
	})
	if err != nil {
		return nil, err
	}
	defer answer.free()
	var found *C.tidings_batch
	var state C.int32_t
	err = attempt(func() C.tidings_result { return C.tidings_answer_batch(answer.answer, &found, &state) })
	if err == nil && state == C.TIDINGS_ANSWER_END {
		err = io.EOF
	}
	return found, err
}

// Events are the events to come, until the stream's end, which ends the loop. A [Gap] is yielded in its place, as an error, and the
// loop goes on; any other error ends it.
func (t *Tail) Events(ctx context.Context) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		for {
			page, err := t.Next(ctx)
			if err != nil {
				if !errors.Is(err, io.EOF) {
					yield(Event{}, err)
				}
				return
			}
			if page.Gap != nil && !yield(Event{}, page.Gap) {
				return
			}
			for _, event := range page.Events {
				if !yield(event, nil) {
					return
				}
			}
		}
	}
}

// Cursor is where the reader stands after all that Next returned.
func (t *Tail) Cursor() (string, error) {
	defer runtime.KeepAlive(t)
	var text *C.tidings_text
	err := attempt(func() C.tidings_result { return C.tidings_tail_cursor(t.tail, &text) })
	return takeText(text), err
}

// Abandoned tells whether the stream is open and yet nothing more is to come, for the process of its writer is gone. What is
// committed may still have to be read.
func (t *Tail) Abandoned() (bool, error) {
	defer runtime.KeepAlive(t)
	var abandoned C.int32_t
	err := attempt(func() C.tidings_result { return C.tidings_tail_abandoned(t.tail, &abandoned) })
	return abandoned != 0, err
}

// Close ends the tail: whoever waits for it gets [io.EOF].
func (t *Tail) Close() error {
	defer runtime.KeepAlive(t)
	return attempt(func() C.tidings_result { return C.tidings_tail_close(t.tail) })
}
