package tidingsmcp

import (
	"bytes"
	"context"
	"encoding/json"
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
	// lastLegacy is the last protocol version with streams to resume.
	lastLegacy = "2025-11-25"
	// keepAlive is the time between two comments on a silent stream; proxies cut what is silent for longer than some 25 s.
	keepAlive = 15 * time.Second
	// silence is for how many of those a stream may say nothing: then the connection is closed, and a client that still waits
	// comes back. So nobody waits for ever on what a process that died has left.
	silence = 4
)

// pauses are between the looks for an event that another process sent and may not have committed yet.
var pauses = []time.Duration{20 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond}

// resumption is what a GET with Last-Event-ID asks for.
type resumption struct {
	sessionID, streamID string
	index               uint64
}

// resuming tells whether a request resumes a stream of a session that does not live here.
func (s *EventStore) resuming(request *http.Request) (*resumption, bool) {
	sessionID, event := request.Header.Get("Mcp-Session-Id"), request.Header.Get("Last-Event-ID")
	if request.Method != http.MethodGet || sessionID == "" || event == "" || request.Header.Get("Mcp-Protocol-Version") > lastLegacy {
		return nil, false
	}
	// The SDK's own form of an event id: the stream's id and the message's index.
	last := strings.LastIndexByte(event, '_')
	index, err := strconv.ParseUint(event[last+1:], 10, 63)
	if err != nil || last < 0 || s.lives(sessionID) {
		return nil, false
	}
	return &resumption{sessionID, event[:last], index}, true
}

// serve answers with the rest of a stream, and follows it live; false: there is nothing to serve, and nothing was written.
func (s *EventStore) serve(response http.ResponseWriter, request *http.Request, asked *resumption) bool {
	ctx := request.Context()
	if !s.owns(ctx, asked.sessionID) {
		return false
	}
	tail, err := s.find(ctx, asked)
	if err != nil {
		return false
	}
	defer tail.Close()
	out := &sseWriter{response: response, controller: http.NewResponseController(response), asked: asked}
	for silent := 0; silent < silence; {
		waits, cancel := context.WithTimeout(ctx, keepAlive)
		if !out.begun {
			// What is there by now is known at once, and what is missing is told by the status.
			cancel()
			waits, cancel = context.WithTimeout(ctx, pauses[0])
		}
		page, err := tail.Next(waits)
		cancel()
		switch {
		case err == nil && (page.Gap != nil || !out.follows(page.Events)):
			// As the SDK answers for its own sessions. Once the stream was begun, its end says that there is more to ask for.
			if !out.begun {
				http.Error(response, "failed to replay events", http.StatusBadRequest)
			}
			return true
		case err == nil:
			silent = 0
			err = out.messages(page.Events)
		case errors.Is(err, io.EOF) && !out.begun:
			err = out.comment() // the client has everything
			return true
		case errors.Is(err, context.DeadlineExceeded):
			if out.begun {
				silent++
			}
			err = out.comment()
		}
		if err != nil {
			return true // the stream's end, or the client has left
		}
	}
	return true
}

// owns tells whether a session is on record, not over, and of whoever asks.
func (s *EventStore) owns(ctx context.Context, sessionID string) bool {
	record, err := s.hub.Stream(scopeOf(sessionID), ownerStream)
	if err != nil {
		return false
	}
	known := false
	var owner struct {
		Principal *string `json:"principal"`
	}
	for place := tidings.Earliest; ; {
		page, err := record.Read(ctx, place, replayPage)
		if err != nil {
			return false
		}
		for _, event := range page.Events {
			if event.Type == deletedEvent {
				return false
			}
			known = event.Type == ownerEvent && json.Unmarshal(event.Payload, &owner) == nil
		}
		if len(page.Events) < replayPage {
			break
		}
		place = tidings.AfterCursor(page.Cursor)
	}
	who := principalIn(ctx)
	if who == nil || owner.Principal == nil {
		// A session of somebody is never served to nobody, nor the other way round.
		return known && who == nil && owner.Principal == nil
	}
	return known && *who == *owner.Principal
}

func (s *EventStore) find(ctx context.Context, asked *resumption) (*tidings.Tail, error) {
	stream, err := s.hub.Stream(scopeOf(asked.sessionID), nameOf(asked.streamID))
	if err != nil {
		return nil, err
	}
	for _, pause := range pauses {
		tail, err := stream.Follow(ctx, tidings.AfterSeq(asked.index))
		if err == nil {
			return tail, nil
		}
		if !errors.Is(err, tidings.ErrUnknownCursor) && !errors.Is(err, tidings.ErrAhead) {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(pause):
		}
	}
	return stream.Follow(ctx, tidings.AfterSeq(asked.index))
}

// sseWriter writes events as the SDK does.
type sseWriter struct {
	response   http.ResponseWriter
	controller *http.ResponseController
	asked      *resumption
	begun      bool
}

// follows tells whether the events are the very next ones.
func (w *sseWriter) follows(events []tidings.Event) bool {
	return len(events) == 0 || events[0].Seq == w.asked.index+1
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

func (w *sseWriter) messages(events []tidings.Event) error {
	w.begin()
	var text bytes.Buffer
	for _, event := range events {
		w.asked.index = event.Seq
		if event.Type == messageEvent {
			fmt.Fprintf(&text, "event: message\nid: %s_%d\ndata: %s\n\n", w.asked.streamID, event.Seq, event.Payload)
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
