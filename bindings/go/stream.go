package tidings

/*
#include <tidings.h>
*/
import "C"

import (
	"context"
	"iter"
	"runtime"
)

// Durability says what an append survives.
type Durability int32

const (
	// Process: the death of the process.
	Process Durability = C.TIDINGS_PROCESS
	// Disk: a loss of power.
	Disk Durability = C.TIDINGS_DISK
)

// A Place in a stream, after which is read. The zero value is [Earliest].
type Place struct {
	cursor string
	seq    uint64
	bySeq  bool
}

// Earliest is the place before the earliest event that is retained.
var Earliest = Place{}

// AfterCursor is the place of a reader that has this cursor; of the empty one it is [Earliest].
func AfterCursor(cursor string) Place { return Place{cursor: cursor} }

// AfterSeq is the place behind the event of that number.
func AfterSeq(seq uint64) Place { return Place{seq: seq, bySeq: true} }

// after is the number that the library takes; what is beyond its numbers is refused there.
func (p Place) after() C.int64_t {
	if !p.bySeq {
		return C.TIDINGS_EARLIEST
	}
	if p.seq > 1<<63-1 {
		return -2
	}
	return C.int64_t(p.seq)
}

// An AppendOption of one append.
type AppendOption func(options *appending)

type appending struct {
	identity   Identity
	key        *string
	durability Durability
	flags      C.uint32_t
}

// WithIdentity says whom and what the events belong to.
func WithIdentity(identity Identity) AppendOption {
	return func(options *appending) { options.identity = identity }
}

// WithKey names an append, so that it is made once: whoever appends under this key again gets the same number. Not for a
// [Writer].
func WithKey(key string) AppendOption { return func(options *appending) { options.key = &key } }

// WithDurability says what the append survives when it returns. Not for a [Writer], which has Flush.
func WithDurability(durability Durability) AppendOption {
	return func(options *appending) { options.durability = durability }
}

// AndClose closes the stream in the same step.
func AndClose() AppendOption {
	return func(options *appending) { options.flags |= C.TIDINGS_APPEND_CLOSE }
}

// GivingUp gives up the oldest events that wait for the store, where the append would be refused as [ErrCongested]. Only for
// a [Writer].
func GivingUp() AppendOption {
	return func(options *appending) { options.flags |= C.TIDINGS_APPEND_GIVE_UP }
}

// A Stream, by its key (scope, name).
type Stream struct{ stream *C.tidings_stream }

// Append appends an event, numbered inside the commit, after which it returns its number.
func (s *Stream) Append(ctx context.Context, kind string, payload []byte, options ...AppendOption) (uint64, error) {
	return s.AppendAll(ctx, kind, [][]byte{payload}, options...)
}

// AppendAll appends several events of one type, all of them or none, and returns the first one's number.
func (s *Stream) AppendAll(ctx context.Context, kind string, payloads [][]byte, options ...AppendOption) (uint64, error) {
	defer runtime.KeepAlive(s)
	var how appending
	for _, option := range options {
		option(&how)
	}
	var given given
	defer given.release()
	return numbered(ctx, func(port *C.tidings_port, token *C.uint64_t, answer **C.tidings_answer) C.tidings_result {
		kind, kindLen := chars(kind)
		list, count := given.several(payloads)
		identity, identityCount := given.pairs(how.identity.pairs())
		var key *C.char
		var keyLen C.size_t
		if how.key != nil {
			// An empty key is one that breaks a rule, and none that is missing.
			key, keyLen = given.present(*how.key)
		}
		return C.tidings_stream_append(s.stream, kind, kindLen, list, count, identity, identityCount, key, keyLen,
			C.int32_t(how.durability), how.flags, port, token, answer)
	})
}

// Close closes the stream: nothing is appended after that.
func (s *Stream) Close(ctx context.Context) error {
	defer runtime.KeepAlive(s)
	return done(ctx, func(port *C.tidings_port, token *C.uint64_t, answer **C.tidings_answer) C.tidings_result {
		return C.tidings_stream_close(s.stream, port, token, answer)
	})
}

// Claim takes the right to number the stream in memory from whoever has it.
func (s *Stream) Claim(ctx context.Context) (*Writer, error) {
	defer runtime.KeepAlive(s)
	answer, err := perform(ctx, func(port *C.tidings_port, token *C.uint64_t, answer **C.tidings_answer) C.tidings_result {
		return C.tidings_stream_claim(s.stream, port, token, answer)
	})
	if err != nil {
		return nil, err
	}
	defer answer.free()
	var writer *C.tidings_writer
	if err := attempt(func() C.tidings_result { return C.tidings_answer_writer(answer.answer, &writer) }); err != nil {
		return nil, err
	}
	return newWriter(writer), nil
}

// Read reads committed events after a place, at most limit, which is 1 or more.
func (s *Stream) Read(ctx context.Context, after Place, limit int) (*Page, error) {
	defer runtime.KeepAlive(s)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	var found *C.tidings_batch
	err := attempt(func() C.tidings_result {
		cursor, cursorLen := optional(after.cursor)
		return C.tidings_stream_read(s.stream, cursor, cursorLen, after.after(), count32(limit), &found)
	})
	if err != nil {
		return nil, err
	}
	return newBatch(found).page()
}

// Follow is a tail after a place: it replays and goes on live, with no gap and no double where it joins.
func (s *Stream) Follow(ctx context.Context, after Place) (*Tail, error) {
	defer runtime.KeepAlive(s)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	var tail *C.tidings_tail
	err := attempt(func() C.tidings_result {
		cursor, cursorLen := optional(after.cursor)
		return C.tidings_stream_tail(s.stream, cursor, cursorLen, after.after(), &tail)
	})
	if err != nil {
		return nil, err
	}
	return newTail(tail), nil
}

// Tail are the events after a place, and those to come: a [Tail] for as long as the loop runs. See [Tail.Events].
func (s *Stream) Tail(ctx context.Context, after Place) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		tail, err := s.Follow(ctx, after)
		if err != nil {
			yield(Event{}, err)
			return
		}
		defer tail.Close()
		tail.Events(ctx)(yield)
	}
}
