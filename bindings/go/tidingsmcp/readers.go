package tidingsmcp

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
)

// A message of a stream goes out on one connection only, so that the SDK refuses a client that is back before its old connection is
// noticed to be gone: that one is ended here, for it would swallow what comes next.

const (
	// partsWithin is how long a connection that is ended may take to end in order; then nothing more is written to it.
	partsWithin = 200 * time.Millisecond
	// endsWithin is how long its end is waited for after that. Then the SDK says that the stream is still being read.
	endsWithin = 5 * time.Second
)

// connection is one HTTP request as the reader of a stream.
type connection struct {
	// gone is closed when the client has left before it had its answer.
	gone chan struct{}
	left sync.Once
	// stop ends the request for the SDK.
	stop context.CancelFunc
	// over is closed when the request is served.
	over chan struct{}

	mu sync.Mutex
	// response is nil when the request is served: then it is somebody else's.
	response http.ResponseWriter
}

func newConnection(response http.ResponseWriter, stop context.CancelFunc) *connection {
	return &connection{gone: make(chan struct{}), stop: stop, over: make(chan struct{}), response: response}
}

func (c *connection) leave() { c.left.Do(func() { close(c.gone) }) }

// served: nothing more is written to its response.
func (c *connection) served() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.response = nil
	close(c.over)
}

// end ends it for a client that is back on another connection, and waits for that.
func (c *connection) end(ctx context.Context) {
	c.leave()
	c.stop()
	if c.ended(ctx, partsWithin) {
		return
	}
	c.mu.Lock()
	if c.response != nil {
		// What is being written to a connection that takes nothing holds up the whole stream.
		_ = http.NewResponseController(c.response).SetWriteDeadline(time.Now())
	}
	c.mu.Unlock()
	c.ended(ctx, endsWithin)
}

func (c *connection) ended(ctx context.Context, within time.Duration) bool {
	late := time.NewTimer(within)
	defer late.Stop()
	select {
	case <-c.over:
		return true
	case <-ctx.Done():
	case <-late.C:
	}
	return false
}

// reads: a stream of a session that lives here is read by that connection, until release is called.
func (s *EventStore) reads(sessionID, streamID string, reader *connection) (release func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	held := s.sessions[sessionID]
	if held == nil {
		return func() {}
	}
	held.readers[streamID] = reader
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if held.readers[streamID] == reader {
			delete(held.readers, streamID)
		}
	}
}

// takeOver ends the connection that a stream is still sent on. Who is not the session's user, as the SDK sees it, is refused by the SDK,
// and ends nothing: false.
func (s *EventStore) takeOver(ctx context.Context, asked *resumption) (may bool) {
	s.mu.RLock()
	held := s.sessions[asked.sessionID]
	may = held != nil && held.user == userIn(ctx)
	var older *connection
	if may {
		older = held.readers[asked.streamID]
	}
	s.mu.RUnlock()
	if older != nil {
		older.end(ctx)
	}
	return may
}

// userIn is who a request's token speaks of.
func userIn(ctx context.Context) string {
	if token := auth.TokenInfoFromContext(ctx); token != nil {
		return token.UserID
	}
	return ""
}
