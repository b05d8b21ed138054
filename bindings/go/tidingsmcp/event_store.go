package tidingsmcp

import (
	"bytes"
	"context"
	"encoding/json"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	tidings "github.com/tidings-mcp/tidings/bindings/go"
)

const (
	// messageEvent is the type of an event that is a message of the protocol.
	messageEvent = "message"
	// openedEvent stands for the priming event of a stream, which has no data.
	openedEvent = "io.tidings.opened"
)

// An EventStore is the [mcp.EventStore] of a server, on a hub: durable, and shared by the processes on one file.
//
// A client that resumes gets every later message of its stream once, in order, byte for byte. Where that cannot be (retention
// took messages, or the store lost some), it is told so: behind [Handler] by `notifications/io.tidings/gap` where the missing ones
// would stand, upon which the stream goes on from what there is; else by [mcp.ErrEventsPurged], and a part is never replayed. No failure
// of the store is an error to the SDK, where it would break a request: messages go out all the same, and who resumes is told of the gap.
type EventStore struct {
	hub       *tidings.Hub
	principal PrincipalOf
	failures  atomic.Uint64
	// again is recordAgain, but for tests.
	again time.Duration

	mu       sync.RWMutex
	sessions map[string]*session
}

var _ mcp.EventStore = (*EventStore)(nil)

// session is one that lives in this process.
type session struct {
	owner *tidings.Writer
	// again writes the record once more, in time.
	again   *time.Timer
	streams map[string]*stream
	// ending counts the requests that would end it and are being served.
	ending int
	// user is who began it, as the SDK compares it; readers are the connections that its streams are sent on.
	user    string
	readers map[string]*connection
}

// stream is one that takes messages, or one that is broken.
type stream struct {
	mu     sync.Mutex
	writer *tidings.Writer
	// next is the index that the SDK gives the next message: the store's number of it, where the store takes it.
	next uint64
	// broken: the store takes nothing more of it. What goes out all the same is counted, and told as lost to whoever resumes.
	broken bool
	// uncounted: nobody knows what went out before.
	uncounted bool
	// batch: its POST had several requests, so that a response is not its end.
	batch bool
}

// An EventStoreOption of [NewEventStore].
type EventStoreOption func(*EventStore)

// WithPrincipal has sessions belong to whom it names: the same as [Options.Principal].
func WithPrincipal(of PrincipalOf) EventStoreOption {
	return func(store *EventStore) { store.principal = of }
}

// NewEventStore is an event store for all sessions of a process.
func NewEventStore(hub *tidings.Hub, options ...EventStoreOption) *EventStore {
	store := &EventStore{hub: hub, again: recordAgain, sessions: map[string]*session{}}
	for _, option := range options {
		option(store)
	}
	return store
}

// Failures counts the messages that went out without being kept.
func (s *EventStore) Failures() uint64 { return s.failures.Load() }

func scopeOf(sessionID string) string { return "session:" + sessionID }

// nameOf is our name of the SDK's stream; "" is its id of the one that a session has without a request.
func nameOf(streamID string) string { return "sdk:" + streamID }

// Open is called by the SDK for a new stream. When it returns for the first one of a session, the session is on record, so that its
// client can resume at any process as soon as it knows of it.
func (s *EventStore) Open(ctx context.Context, sessionID, streamID string) error {
	if sessionID == "" {
		return nil
	}
	if owner := s.open(ctx, sessionID, streamID); owner != nil {
		recorded(ctx, owner)
	}
	return nil
}

// open answers the record of a session that is new.
func (s *EventStore) open(ctx context.Context, sessionID, streamID string) (record *tidings.Writer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	held := s.sessions[sessionID]
	if held == nil {
		held = &session{streams: map[string]*stream{}, user: userIn(ctx), readers: map[string]*connection{}}
		s.record(ctx, sessionID, held)
		s.sessions[sessionID] = held
		record = held.owner
	}
	if held.streams[streamID] == nil {
		found := &stream{batch: isBatch(ctx)}
		var err error
		if found.writer, err = s.hub.NewWriter(scopeOf(sessionID), nameOf(streamID)); err != nil {
			found.broken = true
		}
		held.streams[streamID] = found
	}
	return record
}

// opened is a stream that the SDK has opened; nil where the session was closed meanwhile, whose calls are still answered.
func (s *EventStore) opened(sessionID, streamID string) *stream {
	s.mu.RLock()
	held := s.sessions[sessionID]
	var found *stream
	if held != nil {
		found = held.streams[streamID]
	}
	s.mu.RUnlock()
	if held == nil || found != nil {
		return found
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if found = held.streams[streamID]; found == nil {
		// It had its final response, and one that was not awaited.
		found = &stream{broken: true, uncounted: true}
		held.streams[streamID] = found
	}
	return found
}

var (
	keep       = []tidings.AppendOption{tidings.GivingUp()}
	keepAndEnd = []tidings.AppendOption{tidings.AndClose()}
)

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
	index := found.next
	found.next++
	if found.broken {
		s.failures.Add(1)
		return nil
	}
	kind, payload := messageEvent, data
	if data == nil {
		kind, payload = openedEvent, []byte("{}")
	} else if frame, hidden := unwrapped(data); hidden {
		payload = frame
	}
	options := keep
	ends := streamID != "" && !found.batch && isResponse(data)
	if ends {
		options = keepAndEnd
	}
	seq, err := found.writer.Append(kind, payload, options...)
	if err != nil || seq != index {
		found.broken = true
		_ = found.writer.Close() // or has been; whoever follows it at another process waits for nothing more
		s.failures.Add(1)
		return nil
	}
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

// notification is how the SDK writes what is no answer and needs none. Most messages are, and need not be taken apart.
var notification = []byte(`{"jsonrpc":"2.0","method":`)

// isResponse tells the answer to a request from other messages.
func isResponse(data []byte) bool {
	if bytes.HasPrefix(data, notification) {
		return false
	}
	var message struct {
		ID     json.RawMessage `json:"id"`
		Method json.RawMessage `json:"method"`
	}
	return json.Unmarshal(data, &message) == nil && message.ID != nil && message.Method == nil
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
		held.again.Stop()
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

// ends: a request that would end a session is served until release is called. The SDK takes messages for the session meanwhile, as long
// as it has calls to finish.
func (s *EventStore) ends(sessionID string) (release func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	held := s.sessions[sessionID]
	if held == nil {
		return func() {}
	}
	held.ending++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		held.ending--
	}
}

// hears tells whether a session's client can come to know of what is sent to it without a request of its own.
func (s *EventStore) hears(sessionID string) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	held := s.sessions[sessionID]
	if held == nil || held.ending > 0 {
		return false
	}
	own := held.streams[""]
	if own == nil {
		return true
	}
	own.mu.Lock()
	defer own.mu.Unlock()
	return !own.broken
}

// lives tells whether this process holds a session.
func (s *EventStore) lives(sessionID string) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.sessions[sessionID] != nil
}
