package tidings

/*
#include <tidings.h>

#cgo noescape tidings_writer_append
#cgo nocallback tidings_writer_append
*/
import "C"

import (
	"context"
	"runtime"
)

// A Writer is the right of one writer to number a stream in memory: it appends in microseconds and waits for nothing.
type Writer struct{ writer *C.tidings_writer }

func newWriter(handle *C.tidings_writer) *Writer {
	writer := &Writer{handle}
	runtime.AddCleanup(writer, func(handle *C.tidings_writer) { C.tidings_writer_free(handle) }, handle)
	return writer
}

// Append appends one event and returns its number, without waiting for the commit. It fails with [ErrCongested] where too much
// waits for the store, unless it is [GivingUp].
func (w *Writer) Append(kind string, payload []byte, options ...AppendOption) (uint64, error) {
	var flags C.uint32_t
	var identity *C.tidings_pair
	var identityCount C.size_t
	if len(options) > 0 {
		var how appending
		for _, option := range options {
			option(&how)
		}
		if how.key != nil {
			return 0, &Error{Code: ErrInvalidArgument, Message: "key: a writer appends without one"}
		}
		var given given
		defer given.release()
		identity, identityCount = given.pairs(how.identity.pairs())
		flags = how.flags
	}
	text, textLen := chars(kind)
	bytes, bytesLen := raw(payload)
	var seq C.uint64_t
	runtime.LockOSThread()
	result := C.tidings_writer_append(w.writer, text, textLen, bytes, bytesLen, identity, identityCount, flags, &seq)
	err := failure(result)
	runtime.UnlockOSThread()
	runtime.KeepAlive(w)
	return uint64(seq), err
}

// Cursor is that of a reader that has the event of that number.
func (w *Writer) Cursor(seq uint64) (string, error) {
	defer runtime.KeepAlive(w)
	var text *C.tidings_text
	err := attempt(func() C.tidings_result { return C.tidings_writer_cursor(w.writer, C.uint64_t(seq), &text) })
	return takeText(text), err
}

// LastCursor is that of a reader that has everything that was appended so far.
func (w *Writer) LastCursor() (string, error) {
	defer runtime.KeepAlive(w)
	var text *C.tidings_text
	err := attempt(func() C.tidings_result { return C.tidings_writer_last_cursor(w.writer, &text) })
	return takeText(text), err
}

// Congested tells whether more waits for the store than is good.
func (w *Writer) Congested() bool {
	defer runtime.KeepAlive(w)
	var congested C.int32_t
	return C.tidings_writer_congested(w.writer, &congested) == C.TIDINGS_OK && congested != 0
}

// Closed tells whether the stream takes no more events from this writer.
func (w *Writer) Closed() bool {
	defer runtime.KeepAlive(w)
	var closed C.int32_t
	return C.tidings_writer_closed(w.writer, &closed) != C.TIDINGS_OK || closed != 0
}

// Close closes the stream after the last event, without waiting.
func (w *Writer) Close() error {
	defer runtime.KeepAlive(w)
	return attempt(func() C.tidings_result { return C.tidings_writer_close(w.writer) })
}

// Flush waits until everything that was appended before is committed.
func (w *Writer) Flush(ctx context.Context, durability Durability) error {
	defer runtime.KeepAlive(w)
	return done(ctx, func(port *C.tidings_port, token *C.uint64_t, answer **C.tidings_answer) C.tidings_result {
		return C.tidings_writer_flush(w.writer, C.int32_t(durability), port, token, answer)
	})
}
