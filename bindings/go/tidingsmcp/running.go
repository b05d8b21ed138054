package tidingsmcp

import (
	"context"
	"encoding/json"
	"errors"
	"sync"

	tidings "github.com/tidings-mcp/tidings/bindings/go"
)

// bufferedBytes of events are as much as waits until a call becomes a task: more has to go somewhere.
const bufferedBytes = 256 << 10

// A RunningCall is the call that a tool runs in: what it says becomes events of the call, which `tasks/stream` reads and triggers fire
// on. What a tool tells its client by the SDK, its progress and log messages, becomes events by itself. Of a call that nobody watches,
// and that is no task, nothing is kept. All of it may be called on nil.
type RunningCall struct {
	mu   sync.Mutex
	call *tidings.Call
	// waits: it may become a task, which begins with these.
	waits bool
	said  []said
	bytes int
	// full is closed when more waits than should.
	full chan struct{}
}

type said struct {
	kind    string
	payload []byte
}

type callKey struct{}

// CurrentCall is the call that a tool runs in, by the tool's context; nil for one of which nothing is kept.
func CurrentCall(ctx context.Context) *RunningCall {
	call, _ := ctx.Value(callKey{}).(*RunningCall)
	return call
}

// ID is our id of the call; "" for one that the store does not know, or not yet.
func (c *RunningCall) ID() string {
	if c == nil {
		return ""
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.call == nil {
		return ""
	}
	return c.call.ID()
}

// Emit appends an event of the tool's own, without waiting: its type has a vendor's prefix, its payload is the JSON text of an object,
// kept byte for byte. Of a call that has ended it is dropped.
func (c *RunningCall) Emit(kind string, payload []byte) error {
	return c.say(kind, payload, (*tidings.Call).Emit)
}

// Fire fires a vendor's trigger (`com.example/done`) with the JSON text of an object, without waiting. Of a call that has ended it is
// dropped.
func (c *RunningCall) Fire(name string, payload []byte) error {
	return c.say(name, payload, (*tidings.Call).Fire)
}

func (c *RunningCall) say(kind string, payload []byte, tell func(*tidings.Call, string, []byte) (uint64, error)) error {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.call != nil {
		_, err := tell(c.call, kind, payload)
		if errors.Is(err, tidings.ErrEnded) || errors.Is(err, tidings.ErrClosed) {
			return nil
		}
		return err
	}
	if c.waits {
		// There are no routes to tell, so what is left of a trigger is its event.
		c.said = append(c.said, said{kind, append([]byte(nil), payload...)})
		before := c.bytes
		c.bytes += len(kind) + len(payload)
		if before <= bufferedBytes && c.bytes > bufferedBytes {
			close(c.full)
		}
	}
	return nil
}

// record makes an event of what a tool tells its client, so that who comes later reads it.
func (c *RunningCall) record(kind string, params any) {
	text, err := json.Marshal(params)
	if err != nil {
		return // the SDK says so to the tool
	}
	var said members
	if json.Unmarshal(text, &said) != nil {
		return
	}
	delete(said, "progressToken")
	_ = c.Emit(kind, said.text()) // it has the rules' own shape, and what the store cannot take is told as a gap
}

// begins: from now on it is this call, which begins with everything that waited.
func (c *RunningCall) begins(call *tidings.Call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.call = call
	for _, one := range c.said {
		_, _ = call.Emit(one.kind, one.payload) // refused or not: the tool has been told already
	}
	c.said, c.waits = nil, false
}
