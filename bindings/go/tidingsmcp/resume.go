package tidingsmcp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	tidings "github.com/tidings-mcp/tidings/bindings/go"
)

const (
	// keepAlive is the time between two comments on a silent stream; proxies cut what is silent for longer than some 25 s.
	keepAlive = 15 * time.Second
	// look is the time between two looks whether the process that writes a silent stream is still there.
	look = time.Second
)

// pauses are between the looks for an event that another process sent and may not have committed yet.
var pauses = []time.Duration{20 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond}

// resumption is what a GET with Last-Event-ID asks for.
type resumption struct {
	sessionID, streamID string
	index               uint64
}

// resuming is the stream that a request resumes, in the SDK's own terms; false: it resumes none.
func resuming(request *http.Request) (*resumption, bool) {
	sessionID, event := request.Header.Get("Mcp-Session-Id"), request.Header.Get("Last-Event-ID")
	if request.Method != http.MethodGet || sessionID == "" || event == "" || request.Header.Get("Mcp-Protocol-Version") > lastLegacy {
		return nil, false
	}
	// The SDK's own form of an event id: the stream's id and the message's index.
	last := strings.LastIndexByte(event, '_')
	index, err := strconv.ParseUint(event[last+1:], 10, 63)
	if err != nil || last < 0 {
		return nil, false
	}
	return &resumption{sessionID, event[:last], index}, true
}

// serve answers with the rest of a stream, and follows it live until it ends or the process that writes it is gone; false: there is
// nothing to serve and nobody left to say more, and nothing was written.
func (s *EventStore) serve(response http.ResponseWriter, request *http.Request, asked *resumption) bool {
	ctx := request.Context()
	owned, alive := s.lookUp(ctx, asked.sessionID)
	if !owned {
		return false
	}
	stream, tail, err := s.find(ctx, asked, alive)
	if err != nil {
		return false
	}
	defer tail.Close()
	out := &sseWriter{response: response, controller: http.NewResponseController(response), asked: asked}
	quiet := true
	for waited := time.Duration(0); ; {
		page, gone, err := next(ctx, stream, tail, out.begun, quiet)
		quiet = page == nil
		switch {
		case err == nil && page != nil:
			waited = 0
			err = out.page(page)
		case errors.Is(err, io.EOF) && !out.begun:
			// The client has everything.
			_ = out.comment()
			return true
		case err == nil && gone:
			return out.begun
		case err == nil && (!out.begun || waited >= keepAlive):
			waited = 0
			err = out.comment()
		case err == nil:
			waited += look
		}
		if err != nil {
			return true // the stream's end, or the client has left
		}
	}
}

// next is what comes next of a stream, if it comes soon: at once for the first time. quiet: it has said nothing for a while, so that it is
// looked whether its writer is there. gone: it is not, and nothing more is to come.
func next(ctx context.Context, stream *tidings.Stream, tail *tidings.Tail, begun, quiet bool) (page *tidings.Page, gone bool, err error) {
	most := look
	if !begun {
		most = pauses[0]
	}
	if quiet {
		// In this order: a writer that is gone adds nothing to what is read afterwards.
		if gone, err = tail.Abandoned(); err != nil {
			return nil, false, err
		}
	}
	if gone {
		// All that it has written is there, and is waited for however long the reading takes.
		if left, err := remains(ctx, stream, tail); err != nil || !left {
			return nil, err == nil, err
		}
		page, err = tail.Next(ctx)
		return page, false, err
	}
	waits, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	page, err = tail.Next(waits)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return nil, false, nil
	}
	return page, false, err
}

// remains tells whether there is something behind the place of a tail.
func remains(ctx context.Context, stream *tidings.Stream, tail *tidings.Tail) (bool, error) {
	cursor, err := tail.Cursor()
	if err != nil {
		return false, err
	}
	page, err := stream.Read(ctx, tidings.AfterCursor(cursor), 1)
	if err != nil {
		return false, err
	}
	return page.Gap != nil || len(page.Events) > 0, nil
}

func (s *EventStore) find(ctx context.Context, asked *resumption, alive bool) (*tidings.Stream, *tidings.Tail, error) {
	stream, err := s.hub.Stream(scopeOf(asked.sessionID), nameOf(asked.streamID))
	if err != nil {
		return nil, nil, err
	}
	for _, pause := range pauses {
		tail, err := stream.Follow(ctx, tidings.AfterSeq(asked.index))
		if err == nil {
			return stream, tail, nil
		}
		if !alive || !errors.Is(err, tidings.ErrUnknownCursor) && !errors.Is(err, tidings.ErrAhead) {
			return nil, nil, err
		}
		select {
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		case <-time.After(pause):
		}
	}
	tail, err := stream.Follow(ctx, tidings.AfterSeq(asked.index))
	return stream, tail, err
}

// sseWriter writes events as the SDK does.
type sseWriter struct {
	response   http.ResponseWriter
	controller *http.ResponseController
	asked      *resumption
	begun      bool
}

func (w *sseWriter) begin() {
	if w.begun {
		return
	}
	w.begun = true
	header := w.response.Header()
	header.Set("Cache-Control", "no-cache, no-transform")
	header.Set("Content-Type", "text/event-stream")
	header.Set("Connection", "keep-alive")
	header.Set("X-Accel-Buffering", "no")
	w.response.WriteHeader(http.StatusOK)
}

// page writes what was read: a gap first, under the id of the last message that is missing.
func (w *sseWriter) page(page *tidings.Page) error {
	w.begin()
	var text bytes.Buffer
	event := func(index uint64, data []byte) {
		w.asked.index = index
		fmt.Fprintf(&text, "event: message\nid: %s_%d\ndata: %s\n\n", w.asked.streamID, index, data)
	}
	if gap := page.Gap; gap != nil {
		index := w.asked.index
		if gap.Earliest != nil && *gap.Earliest > 0 {
			index = *gap.Earliest - 1
		}
		event(index, gapFrame(gap))
	}
	for _, one := range page.Events {
		if one.Type == messageEvent {
			event(one.Seq, one.Payload)
		}
	}
	return w.write(text.Bytes())
}

func (w *sseWriter) comment() error {
	w.begin()
	return w.write([]byte(": ok\n\n"))
}

func (w *sseWriter) write(text []byte) error {
	if _, err := w.response.Write(text); err != nil {
		return err
	}
	return w.controller.Flush()
}
