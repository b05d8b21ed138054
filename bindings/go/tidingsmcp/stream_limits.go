package tidingsmcp

import (
	"math"
	"sync"
	"time"
)

// pruneAt is how many allowances are kept before those that are full again are forgotten.
const pruneAt = 1_024

// streamLimits are how much of `tasks/stream` one client may use: SEP-2694 wants streams at once and attempts to resume limited.
type streamLimits struct {
	mu sync.Mutex
	// open are streams by client.
	open map[string]int
	// left are attempts by client and task.
	left map[clientTask]allowance
}

type clientTask struct{ client, task string }

// allowance is how many attempts were left, and when.
type allowance struct {
	left float64
	at   time.Time
}

// hold takes a stream until release is called, or answers the error for a client that has too many or asks too often.
func (l *streamLimits) hold(tasks *Tasks, client, task string, now time.Time) (release func(), err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open == nil {
		l.open, l.left = map[string]int{}, map[clientTask]allowance{}
	}
	if l.open[client] >= tasks.Streams {
		return nil, invalidParams("Too many streams of tasks at once", members{
			"reason": textJSON("limit"), "limit": textJSON("streams"), "max": numberJSON(tasks.Streams),
		})
	}
	key, most := clientTask{client, task}, float64(tasks.Resumes)
	left := most
	if kept, known := l.left[key]; known {
		left = kept.now(most, now)
	}
	if left < 1 {
		wait := (1 - left) * float64(time.Minute.Milliseconds()) / most
		return nil, invalidParams("The stream of this task was asked for too often", members{
			"reason": textJSON("limit"), "limit": textJSON("resumes"), "max": numberJSON(tasks.Resumes),
			"retryAfterMs": numberJSON(int64(math.Round(wait))),
		})
	}
	if len(l.left) >= pruneAt {
		for key, kept := range l.left {
			if kept.now(most, now) >= most {
				delete(l.left, key)
			}
		}
	}
	l.left[key] = allowance{left - 1, now}
	l.open[client]++
	return sync.OnceFunc(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.open[client]--; l.open[client] == 0 {
			delete(l.open, client)
		}
	}), nil
}

// now is how many are left: as many as a minute allows, which come back one after the other.
func (a allowance) now(most float64, now time.Time) float64 {
	return min(most, a.left+now.Sub(a.at).Minutes()*most)
}
