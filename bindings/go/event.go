package tidings

/*
#include <tidings.h>

// All events of a batch in one crossing.
static tidings_result go_batch_events(const tidings_batch *batch, tidings_event *events, size_t count) {
  for (size_t at = 0; at < count; at++) {
    tidings_result result = tidings_batch_event(batch, at, &events[at], sizeof(tidings_event));
    if (result != TIDINGS_OK) return result;
  }
  return TIDINGS_OK;
}

#cgo noescape go_batch_events
#cgo nocallback go_batch_events
*/
import "C"

import (
	"encoding/json"
	"fmt"
	"runtime"
	"time"
	"unsafe"
)

// An Event of a stream.
type Event struct {
	// Seq is its number in the stream, from 0, without holes.
	Seq uint64
	// Type says what it is.
	Type string
	// Time is when it was appended, in whole milliseconds.
	Time time.Time
	// Payload is JSON text as it was given, byte for byte. It is the reader's own.
	Payload []byte

	identity string
	batch    *batch
	index    int
}

// An Identity says whom and what an event belongs to, as far as that was said.
type Identity struct {
	Task       string `json:"task,omitempty"`
	Session    string `json:"session,omitempty"`
	Turn       string `json:"turn,omitempty"`
	ToolCall   string `json:"toolCall,omitempty"`
	SourceType string `json:"sourceType,omitempty"`
}

func (i Identity) pairs() [][2]string {
	var found [][2]string
	for _, pair := range [][2]string{
		{"task", i.Task}, {"session", i.Session}, {"turn", i.Turn}, {"toolCall", i.ToolCall}, {"sourceType", i.SourceType},
	} {
		if pair[1] != "" {
			found = append(found, pair)
		}
	}
	return found
}

// Identity tells whom and what the event belongs to; the zero value if nothing was said.
func (e Event) Identity() Identity {
	var identity Identity
	if e.identity != "" {
		// The library's own text.
		_ = json.Unmarshal([]byte(e.identity), &identity)
	}
	return identity
}

// Cursor is that of a reader that has this event and all before it.
func (e Event) Cursor() (string, error) {
	if e.batch == nil {
		return "", &Error{Code: ErrInvalidArgument, Message: "event: was not read from a stream"}
	}
	return e.batch.cursor(e.index + 1)
}

// GapReason says why a read could not be complete.
type GapReason string

// The reasons of gaps.
const (
	// GapEvicted: retention has removed events.
	GapEvicted GapReason = "evicted"
	// GapRegressed: the reader has seen events that were lost; the stream's history is another now.
	GapRegressed GapReason = "regressed"
	// GapLost: events could not be stored.
	GapLost GapReason = "lost"
	// GapUnknown: the cursor is of no stream that is here.
	GapUnknown GapReason = "unknown"
)

var reasons = map[C.int32_t]GapReason{
	C.TIDINGS_GAP_EVICTED:   GapEvicted,
	C.TIDINGS_GAP_REGRESSED: GapRegressed,
	C.TIDINGS_GAP_LOST:      GapLost,
	C.TIDINGS_GAP_UNKNOWN:   GapUnknown,
}

// A Gap is the truthful answer where a read cannot be complete. What follows it goes on after the hole.
//
// It is an error, so that a loop over a tail gets it in its place among the events:
//
//	for event, err := range tail.Events(ctx) {
//		var gap *tidings.Gap
//		if errors.As(err, &gap) { …; continue }
type Gap struct {
	Reason GapReason
	// Earliest is the first event that is there, Head the newest; nil where nothing is known.
	Earliest, Head *uint64
	// Cursor is that of a reader that was told this gap.
	Cursor string
}

func (g *Gap) Error() string { return fmt.Sprintf("tidings: the read is not complete: %s", g.Reason) }

// A Page is what one read came to.
type Page struct {
	// Gap, unless it is nil, comes before the first event.
	Gap *Gap
	// Events are in order.
	Events []Event
	// Cursor is where the reader stands after them.
	Cursor string
	// Head is the newest event's number when it was read; nil if there never was one.
	Head *uint64
	// Ended: the stream is closed and the events reach its end.
	Ended bool
}

// batch is what cursors are made from; it is freed when no event of it is left.
type batch struct{ batch *C.tidings_batch }

func newBatch(handle *C.tidings_batch) *batch {
	found := &batch{handle}
	runtime.AddCleanup(found, func(handle *C.tidings_batch) { C.tidings_batch_free(handle) }, handle)
	return found
}

func (b *batch) cursor(events int) (string, error) {
	defer runtime.KeepAlive(b)
	var text *C.tidings_text
	err := attempt(func() C.tidings_result { return C.tidings_batch_cursor(b.batch, C.size_t(events), &text) })
	return takeText(text), err
}

func (b *batch) gap() (*Gap, error) {
	var gap C.tidings_gap
	err := attempt(func() C.tidings_result { return C.tidings_batch_gap(b.batch, &gap, C.sizeof_tidings_gap) })
	if err != nil || gap.reason == C.TIDINGS_GAP_NONE {
		return nil, err
	}
	found := &Gap{Reason: reasons[gap.reason]}
	if gap.has_earliest != 0 {
		earliest := uint64(gap.earliest_seq)
		found.Earliest = &earliest
	}
	if gap.has_head != 0 {
		head := uint64(gap.head_seq)
		found.Head = &head
	}
	found.Cursor, err = b.cursor(0)
	return found, err
}

// events copies what the batch has, payloads into one piece of memory.
func (b *batch) events() ([]Event, error) {
	defer runtime.KeepAlive(b)
	var count C.size_t
	if err := attempt(func() C.tidings_result { return C.tidings_batch_count(b.batch, &count) }); err != nil || count == 0 {
		return nil, err
	}
	given := make([]C.tidings_event, count)
	if err := attempt(func() C.tidings_result { return C.go_batch_events(b.batch, &given[0], count) }); err != nil {
		return nil, err
	}
	size := 0
	for at := range given {
		size += int(given[at].payload.len)
	}
	payloads := make([]byte, 0, size)
	events := make([]Event, count)
	kind := ""
	for at := range given {
		event := &given[at]
		from := len(payloads)
		payloads = append(payloads, borrowed(event.payload)...)
		// Most streams have events of one type.
		if kind != string(borrowed(event.kind)) {
			kind = view(event.kind)
		}
		events[at] = Event{
			Seq:      uint64(event.seq),
			Type:     kind,
			Time:     time.UnixMilli(int64(event.time_ms)),
			Payload:  payloads[from:len(payloads):len(payloads)],
			identity: view(event.identity),
			batch:    b,
			index:    at,
		}
	}
	return events, nil
}

// borrowed is the library's own memory, for as long as its object lives.
func borrowed(bytes C.tidings_bytes) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(bytes.data)), int(bytes.len))
}

func (b *batch) ended() (bool, error) {
	defer runtime.KeepAlive(b)
	var ended C.int32_t
	err := attempt(func() C.tidings_result { return C.tidings_batch_ended(b.batch, &ended) })
	return ended != 0, err
}

func (b *batch) head() (*uint64, error) {
	defer runtime.KeepAlive(b)
	var known C.int32_t
	var head C.uint64_t
	err := attempt(func() C.tidings_result { return C.tidings_batch_head(b.batch, &known, &head) })
	if err != nil || known == 0 {
		return nil, err
	}
	seq := uint64(head)
	return &seq, nil
}

func (b *batch) page() (*Page, error) {
	page := &Page{}
	var err error
	if page.Gap, err = b.gap(); err != nil {
		return nil, err
	}
	if page.Events, err = b.events(); err != nil {
		return nil, err
	}
	if page.Cursor, err = b.cursor(len(page.Events)); err != nil {
		return nil, err
	}
	if page.Head, err = b.head(); err != nil {
		return nil, err
	}
	page.Ended, err = b.ended()
	return page, err
}
