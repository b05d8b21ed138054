package tidingsmcp

import (
	"context"
	"errors"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	tidings "github.com/tidings-mcp/tidings/bindings/go"
)

// course is a call that is watched, or may become a task, while its tool runs.
type course struct {
	*toolCall
	// toolContext ends when the tool is to stop, and not when the request does: that is news to act on.
	toolContext context.Context
	stop        context.CancelFunc
	tool        <-chan returned
	// ended is told how the call ended that somebody else has ended; nil while the store knows of none.
	ended <-chan *tidings.Ended
	// leaves: to leave is all that its client can do, and to go on is what a config asks for (2026-07-28 over HTTP).
	leaves bool
}

// run answers the request, with the result or with a task.
func (t *toolCall) run(ctx context.Context) (mcp.Result, error) {
	t.running = &RunningCall{waits: true, full: make(chan struct{})}
	if t.config != nil {
		if err := t.accept(ctx); err != nil {
			return nil, err
		}
		t.running.begins(t.call)
		if t.brought {
			t.acknowledge(ctx)
		}
	}
	c := &course{toolCall: t}
	extra := t.request.Extra
	c.leaves = t.modern && extra != nil && extra.Header != nil
	c.toolContext, c.stop = context.WithCancel(context.WithValue(context.WithoutCancel(ctx), callKey{}, t.running))
	if t.call != nil {
		c.ended = c.watchEnd()
	}
	// A task is on record before its tool runs, where it is always one.
	if t.tasks != nil && t.mode == Always {
		if place, became := c.becomeTask(); became {
			return c.goesOnAsTask(place)
		}
	}
	c.tool = t.start(c.toolContext, t.request)
	return c.inline(ctx)
}

// watchEnd waits for an end of the call that is not its tool's.
func (c *course) watchEnd() <-chan *tidings.Ended {
	told := make(chan *tidings.Ended, 1)
	go func() {
		if ended, err := c.call.Ended(c.toolContext); err == nil {
			told <- ended
		}
	}()
	return told
}

// inline waits for whatever comes first: the tool, another end, the client's leaving, or the time after which it is a task.
func (c *course) inline(ctx context.Context) (mcp.Result, error) {
	var becomes, over <-chan time.Time
	var full <-chan struct{}
	if c.tasks != nil && c.mode != Always {
		timer := time.NewTimer(c.tasks.Inline)
		defer timer.Stop()
		becomes, full = timer.C, c.running.full
	}
	if c.call == nil && c.timeout > 0 {
		timer := time.NewTimer(c.timeout)
		defer timer.Stop()
		over = timer.C
	}
	var gone <-chan struct{}
	if c.front != nil {
		gone = c.front.gone
	}
	for {
		select {
		case answer := <-c.tool:
			c.stop()
			if c.call == nil {
				return answer.result, answer.err // as if we were not there
			}
			return c.conclude(answer)
		case ended := <-c.ended:
			c.ended = nil
			c.stop()
			if ended.Outcome == tidings.TimedOut || ended.Outcome == tidings.Cancelled {
				// At once: a tool that does not let itself be stopped must not keep the client waiting.
				return nil, endedElsewhere(ended, c.call.ID())
			}
		case <-ctx.Done():
			c.requestIsGone(ctx)
			return nil, ctx.Err()
		case <-gone:
			gone = nil
			if c.modern {
				c.requestIsGone(ctx)
				return nil, context.Canceled
			}
			if c.call != nil {
				// Its session outlives the connection, and the result can be resumed. An error: the call has ended in this moment.
				_ = c.call.Disconnected()
			}
		case <-over:
			c.stop()
			return nil, timedOut(c.timeout)
		case <-becomes:
			becomes, full = nil, nil
			if place, became := c.becomeTask(); became {
				return c.goesOnAsTask(place)
			}
		case <-full:
			becomes, full = nil, nil
			if place, became := c.becomeTask(); became {
				return c.goesOnAsTask(place)
			}
		}
	}
}

// requestIsGone tells a client that asked for the end from one that was lost, whose call goes on.
func (c *course) requestIsGone(ctx context.Context) {
	if c.call == nil {
		c.stop() // nothing lets this call outlive its request
		return
	}
	// The SDK cancels without a cause what its client cancels, and with one what a connection takes along.
	if ctx.Err() != nil && !c.leaves && errors.Is(context.Cause(ctx), context.Canceled) {
		c.cancel("")
		c.stop()
		return
	}
	// Where there is no room, or its time is over, the hub ends it, and the tool is stopped as by any end. An error: the call has ended in
	// this moment.
	_, _ = c.call.Detach(c.asker.countedAs, c.options.DetachedCalls, c.options.DetachedTime)
	go c.alone()
}

// alone waits for the end of a call whose client has gone.
func (c *course) alone() {
	defer c.stop()
	for {
		select {
		case answer := <-c.tool:
			_, _ = c.conclude(answer)
			return
		case <-c.ended:
			c.ended = nil
			c.stop()
		}
	}
}
