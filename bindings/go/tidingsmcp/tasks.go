package tidingsmcp

import (
	"encoding/json"
	"sync"
	"time"

	tidings "github.com/tidings-mcp/tidings/bindings/go"
)

// A TaskMode says what becomes of the calls of a tool.
type TaskMode int

const (
	// Auto: a plain call, and a task once it has run for a while.
	Auto TaskMode = iota
	// Always: a task, at once.
	Always
	// Never: a plain call.
	Never
	// Required: as Auto; a request of 2026-07-28 that does not declare the extension is refused with -32021.
	Required
)

// Tasks say how tool calls become tasks. Of the zero value all is as it is by default.
type Tasks struct {
	// Inline is how long a call runs as a plain one before it becomes a task; 0 is two seconds.
	Inline time.Duration
	// TTL is how long a task can be asked for after its end: at most what the hub's retention keeps of a closed stream; 0 is one hour.
	TTL time.Duration
	// Poll is how often a client should ask; 0 is one second.
	Poll time.Duration
	// Tools are modes by tool; all others are Auto.
	Tools map[string]TaskMode
	// EventsGoneCode is the code of `events_gone` from `tasks/stream`; 0 is -32010, as in the draft.
	EventsGoneCode int64
	// Streams is how many streams of tasks a principal, or else a session, may read at once in this process; where there is neither, so
	// many of one task. 0 is 16.
	Streams int
	// Resumes is how many times a minute each of them may ask for the stream of one task; 0 is 60.
	Resumes int
}

func (t Tasks) whole() Tasks {
	for _, field := range []struct {
		of       *time.Duration
		standard time.Duration
	}{{&t.Inline, 2 * time.Second}, {&t.TTL, time.Hour}, {&t.Poll, time.Second}} {
		if *field.of <= 0 {
			*field.of = field.standard
		}
	}
	if t.EventsGoneCode == 0 {
		t.EventsGoneCode = eventsGone
	}
	if t.Streams <= 0 {
		t.Streams = 16
	}
	if t.Resumes <= 0 {
		t.Resumes = 60
	}
	return t
}

func (t *Tasks) mode(tool string) TaskMode { return t.Tools[tool] }

// shown are the members of a task on the wire.
func (t *Tasks) shown(task *tidings.Task) (members, error) {
	var shown members
	if err := json.Unmarshal(task.JSON, &shown); err != nil {
		return nil, err
	}
	shown["pollIntervalMs"] = numberJSON(t.Poll.Milliseconds())
	return shown, nil
}

// places are how many tasks of one principal run now, by the name that they are counted under.
type places struct {
	mu     sync.Mutex
	counts map[string]int
}

// take is a place among them until release is called; false: there are as many as may be.
func (p *places) take(name string, most int) (release func(), taken bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.counts[name] >= most {
		return nil, false
	}
	if p.counts == nil {
		p.counts = map[string]int{}
	}
	p.counts[name]++
	return sync.OnceFunc(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.counts[name]--; p.counts[name] == 0 {
			delete(p.counts, name)
		}
	}), true
}
