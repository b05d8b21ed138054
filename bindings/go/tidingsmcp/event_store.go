package tidingsmcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	tidings "github.com/tidings-mcp/tidings/bindings/go"
)

const (
	// messageEvent is the type of an event that is a message of the protocol.
	messageEvent = "message"
	// openedEvent stands for the priming event of a stream, which has no data.
	openedEvent = "io.tidings.opened"
	// A session's owner is on record in a stream of its own, the same in every language.
	ownerStream  = "owner"
	ownerEvent   = "io.tidings.session"
	deletedEvent = "io.tidings.session.deleted"

	// replayPage is how many events are read at once in a replay.
	replayPage = 256
	// replayWithin is how long a replay waits for what was appended before to be committed.
	replayWithin = 10 * time.Second
)

// An EventStore is the [mcp.EventStore] of a server, on a hub: durable, and shared by the processes on one file.
//
// A client that resumes gets every later message of its stream once, in order, byte for byte. Where that cannot be (retention
// took messages, or the store lost some), it gets [mcp.ErrEventsPurged], never a part. No failure of the store is an error to the SDK,
// where it would break a request: messages go out all the same, and what they were kept in is purged to whoever asks for it.
type EventStore struct {
	hub      *tidings.Hub
	failures atomic.Uint64

	mu       sync.Mutex
	sessions map[string]*session
}

var _ mcp.EventStore = (*EventStore)(nil)

// session is one that lives in this process.
type session struct {
	owner   *tidings.Writer
	streams map[string]*stream
}

// stream is one that takes messages, or one that is broken.
type stream struct {
	mu     sync.Mutex
	writer *tidings.Writer
	// next is the index that the SDK gives the next message: the store's number of it.
	next uint64
	// broken: a message went out that the store does not have, so that the SDK's indexes are not the store's any more.
	broken bool
	// batch: its POST had several requests, so that a response is not its end.
	batch bool
}

// NewEventStore is an event store for all sessions of a process.
func NewEventStore(hub *tidings.Hub) *EventStore {
	return &EventStore{hub: hub, sessions: map[string]*session{}}
}

// Failures counts the messages that went out without being kept.
func (s *EventStore) Failures() uint64 { return s.failures.Load() }

func scopeOf(sessionID string) string { return "session:" + sessionID }

// nameOf is our name of the SDK's stream; "" is its id of the one that a session has without a request.
func nameOf(streamID string) string { return "sdk:" + streamID }

// Open is called by the SDK for a new stream.
func (s *EventStore) Open(ctx context.Context, sessionID, streamID string) error {
	if sessionID != "" {
		s.open(ctx, sessionID, streamID)
	}
	return nil
}

func (s *EventStore) open(ctx context.Context, sessionID, streamID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	held := s.sessions[sessionID]
	if held == nil {
		held = &session{owner: s.record(ctx, sessionID), streams: map[string]*stream{}}
		s.sessions[sessionID] = held
	}
	if held.streams[streamID] == nil {
		found := &stream{batch: isBatch(ctx)}
		var err error
		if found.writer, err = s.hub.NewWriter(scopeOf(sessionID), nameOf(streamID)); err != nil {
			found.broken = true
		}
		held.streams[streamID] = found
	}
}

// record says whose a session is, for other processes. What cannot be kept is resumed at this process only.
func (s *EventStore) record(ctx context.Context, sessionID string) *tidings.Writer {
	owner, err := s.hub.NewWriter(scopeOf(sessionID), ownerStream)
	if err != nil {
		return nil
	}
	record := mustJSON(map[string]any{"principal": principalIn(ctx)})
	if _, err := owner.Append(ownerEvent, record, tidings.GivingUp()); err != nil {
		return nil
	}
	return owner
}

// principalIn is who is authenticated; nil is nobody.
func principalIn(ctx context.Context) *string {
	if token := auth.TokenInfoFromContext(ctx); token != nil {
		return authenticated(token)
	}
	return nil
}

// authenticated is the text that names a principal: issuer, subject and client, of which the SDK tells the subject.
func authenticated(token *auth.TokenInfo) *string {
	name := "auth:" + string(mustJSON([]any{nil, token.UserID, ""}))
	return &name
}

// opened is a stream that the SDK has opened; nil where the session was closed meanwhile, whose calls are still answered.
func (s *EventStore) opened(sessionID, streamID string) *stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	held := s.sessions[sessionID]
	if held == nil {
		return nil
	}
	found := held.streams[streamID]
	if found == nil {
		// It had its final response, and one that was not awaited.
		found = &stream{broken: true}
		held.streams[streamID] = found
	}
	return found
}

// Append is called by the SDK for each message before it goes out; nil data is a priming event.
func (s *EventStore) Append(_ context.Context, sessionID, streamID string, data []byte) error {
	if sessionID == "" {
		return nil
	}
	found := s.opened(sessionID, streamID)
	if found == nil {
		return nil
	}
	found.mu.Lock()
	defer found.mu.Unlock()
	if found.broken {
		s.failures.Add(1)
		return nil
	}
	kind, payload := messageEvent, data
	if data == nil {
		kind, payload = openedEvent, []byte("{}")
	}
	options := []tidings.AppendOption{tidings.GivingUp()}
	ends := streamID != "" && !found.batch && isResponse(data)
	if ends {
		options = []tidings.AppendOption{tidings.AndClose()}
	}
	seq, err := found.writer.Append(kind, payload, options...)
	if err != nil || seq != found.next {
		found.broken = true
		s.failures.Add(1)
		return nil
	}
	found.next++
	if ends {
		s.forget(sessionID, streamID)
	}
	return nil
}

// forget lets go of a stream that takes no more; who resumes it reads it from the store.
func (s *EventStore) forget(sessionID, streamID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if held := s.sessions[sessionID]; held != nil {
		delete(held.streams, streamID)
	}
}

// isResponse tells the answer to a request from other messages.
func isResponse(data []byte) bool {
	var message struct {
		ID     json.RawMessage `json:"id"`
		Method json.RawMessage `json:"method"`
	}
	return json.Unmarshal(data, &message) == nil && message.ID != nil && message.Method == nil
}

// After are the messages after an index, once all that was appended before is committed.
func (s *EventStore) After(ctx context.Context, sessionID, streamID string, index int) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		if err := s.replay(ctx, sessionID, streamID, index, func(data []byte) bool { return yield(data, nil) }); err != nil {
			yield(nil, fmt.Errorf("replaying stream %q of session %q after %d: %w", streamID, sessionID, index, err))
		}
	}
}

func (s *EventStore) replay(ctx context.Context, sessionID, streamID string, index int, yield func([]byte) bool) error {
	if s.isBroken(sessionID, streamID) {
		return mcp.ErrEventsPurged
	}
	ctx, cancel := context.WithTimeout(ctx, replayWithin)
	defer cancel()
	// Readers see what is committed.
	if err := s.hub.Flush(ctx, tidings.Process); err != nil {
		return err
	}
	stored, err := s.hub.Stream(scopeOf(sessionID), nameOf(streamID))
	if err != nil {
		return err
	}
	place, next := tidings.Earliest, uint64(0)
	if index >= 0 {
		place, next = tidings.AfterSeq(uint64(index)), uint64(index)+1
	}
	for {
		page, err := stored.Read(ctx, place, replayPage)
		switch {
		case errors.Is(err, tidings.ErrUnknownCursor) && index < 0:
			return nil // nothing was said on it yet
		case errors.Is(err, tidings.ErrUnknownCursor), errors.Is(err, tidings.ErrAhead):
			return mcp.ErrEventsPurged
		case err != nil:
			return err
		case page.Gap != nil:
			return fmt.Errorf("%w: %w", mcp.ErrEventsPurged, page.Gap)
		}
		for _, event := range page.Events {
			if event.Seq != next {
				return mcp.ErrEventsPurged
			}
			next++
			data := event.Payload
			if event.Type != messageEvent {
				data = nil
			}
			if !yield(data) {
				return nil
			}
		}
		if len(page.Events) < replayPage {
			return nil
		}
		place = tidings.AfterCursor(page.Cursor)
	}
}

func (s *EventStore) isBroken(sessionID, streamID string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	held := s.sessions[sessionID]
	if held == nil || held.streams[streamID] == nil {
		return false
	}
	found := held.streams[streamID]
	found.mu.Lock()
	defer found.mu.Unlock()
	return found.broken
}

// SessionClosed is called by the SDK when a session is over: nobody resumes it any more.
func (s *EventStore) SessionClosed(_ context.Context, sessionID string) error {
	s.mu.Lock()
	held := s.sessions[sessionID]
	delete(s.sessions, sessionID)
	s.mu.Unlock()
	if held == nil {
		return nil
	}
	if held.owner != nil {
		// A hub that is closed keeps nothing more, and has closed what it had.
		_, _ = held.owner.Append(deletedEvent, []byte("{}"), tidings.AndClose())
	}
	for _, found := range held.streams {
		if found.writer != nil {
			_ = found.writer.Close()
		}
	}
	return nil
}

// lives tells whether this process holds a session.
func (s *EventStore) lives(sessionID string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sessions[sessionID] != nil
}
