package tidingsmcp

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	tidings "github.com/tidings-mcp/tidings/bindings/go"
)

// becomeTask makes the call one. It is on disk then; release is to be called when it has ended. What cannot become a task goes on as
// the call it is.
func (c *course) becomeTask() (release func(), became bool) {
	// Taken before anything waits, so that two calls do not take the last place.
	release, taken := c.shared.running.take(c.asker.countedAs, c.options.DetachedCalls)
	if !taken {
		return nil, false
	}
	ctx, cancel := context.WithTimeout(context.Background(), acceptWithin)
	defer cancel()
	if c.call != nil {
		if became, err := c.call.BecomeTask(ctx, c.tasks.TTL, c.asker.bound); err == nil && became {
			return release, true
		}
		release()
		return nil, false
	}
	asked := c.asked()
	asked.TaskTTL, asked.TaskBound = c.tasks.TTL, c.asker.bound
	if c.timeout > 0 {
		asked.Timeout = max(c.timeout-time.Since(c.began), time.Millisecond)
	}
	call, err := c.hub.BeginCall(ctx, asked)
	if err != nil {
		release()
		return nil, false
	}
	c.call = call
	c.running.begins(call)
	c.ended = c.watchEnd()
	return release, true
}

// goesOnAsTask answers the request with the task, which goes on without it.
func (c *course) goesOnAsTask(release func()) (mcp.Result, error) {
	answer, err := c.created()
	if c.tool == nil {
		c.tool = c.start(c.toolContext, c.request)
	}
	go c.task(release)
	return answer, err
}

// created is the answer that names the task.
func (c *course) created() (mcp.Result, error) {
	lost := internal("The task could not be looked up", nil)
	task, err := c.hub.Task(context.Background(), c.call.ID(), c.asker.name)
	if err != nil || task == nil {
		return nil, lost
	}
	shown, err := c.tasks.shown(task)
	if err != nil {
		return nil, lost
	}
	shown["resultType"] = json.RawMessage(`"task"`)
	result := &textResult{members: shown}
	if c.acknowledgement != nil {
		result.SetMeta(map[string]any{acknowledgedMeta: c.acknowledgement})
	}
	return result, nil
}

// task waits for the tool, or whatever else ends the task.
func (c *course) task(release func()) {
	defer release()
	defer c.stop()
	ctx, cancel := context.WithTimeout(context.Background(), c.options.DetachedTime)
	defer cancel()
	for {
		select {
		case answer := <-c.tool:
			again, asks := c.asks(ctx, answer)
			if !asks {
				// Its outcome, or another's that was there first: both are what the task came to.
				_, _ = c.conclude(answer)
				return
			}
			if again == nil {
				return
			}
			c.tool = c.start(c.toolContext, again)
		case <-c.ended:
			return
		case <-ctx.Done():
			c.cancel("detach_expired")
			return
		}
	}
}

// asks tells whether a tool wants to know something of its client (SEP-2322), waits for that, and answers with what it is called again;
// nil: the task has ended meanwhile.
func (c *course) asks(ctx context.Context, answer returned) (again *mcp.CallToolRequest, asks bool) {
	result, is := answer.result.(*mcp.CallToolResult)
	if answer.err != nil || !is || !result.NeedsInput() {
		return nil, false
	}
	request, params := *c.request, *c.request.Params
	request.Params = &params
	params.RequestState, params.InputResponses = result.RequestState, mcp.InputResponseMap{}
	if len(result.InputRequests) == 0 {
		// Nothing but its own state: it wants to be called again.
		select {
		case <-time.After(c.tasks.Poll):
			return &request, true
		case <-c.ended:
			return nil, true
		case <-ctx.Done():
			c.cancel("detach_expired")
			return nil, true
		}
	}
	requests, err := json.Marshal(result.InputRequests)
	var answers []byte
	if err == nil {
		answers, err = c.call.Ask(ctx, requests)
	}
	if err == nil {
		err = json.Unmarshal(answers, &params.InputResponses)
	}
	switch {
	case err == nil:
		return &request, true
	case ctx.Err() != nil:
		c.cancel("detach_expired")
	case !errors.Is(err, tidings.ErrEnded):
		ending, cancel := context.WithTimeout(context.Background(), endWithin)
		defer cancel()
		_, _ = c.failed(ending, internal("The task's question could not be asked or its answer not be read", nil), "")
	}
	return nil, true
}
