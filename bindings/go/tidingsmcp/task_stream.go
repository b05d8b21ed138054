package tidingsmcp

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	tidings "github.com/tidings-mcp/tidings/bindings/go"
)

// What the draft of `tasks/stream` leaves open: `after` beyond the newest event is -32602 with `data.reason` "ahead" and `headSeq` (left
// out when there is no event yet); a reader that eviction overtakes while it reads is ended with `events_gone`, never served with a
// hole; a connection that may hold one stream of a task is a session up to 2025-11-25, for 2026-07-28 has none.

// maxSeq is the largest number that every JSON reader holds.
const maxSeq = 1<<53 - 1

// taskReaders are the streams of tasks that sessions read.
var taskReaders sync.Map

type taskReader struct {
	session *mcp.ServerSession
	task    string
}

// streamTask sends a task's events after a number, and then live, until the task has ended and all were sent.
func (a *attachment) streamTask(ctx context.Context, asked taskRequest) (*textResult, error) {
	front := frontOf(asked.extra)
	if front == nil {
		return nil, internal("this server is not set up for tasks/stream: tidingsmcp.Handler or Transport is missing", nil)
	}
	if front.overHTTP() && !front.out.streams() {
		return nil, wireError(jsonrpc.CodeMethodNotFound, "Method not found: this server answers without streams", nil)
	}
	task, err := a.find(ctx, asked)
	if err != nil {
		return nil, err
	}
	after, err := afterOf(asked.params.After)
	if err != nil {
		return nil, err
	}
	// A request that belongs to nobody has nothing but the task by which it could be told from others.
	client := asked.id
	if asked.asker.stands {
		client = asked.asker.name
	}
	release, err := a.shared.streams.hold(a.options.Tasks, client, asked.id, time.Now())
	if err != nil {
		return nil, err
	}
	defer release()
	if !asked.modern() {
		reader := taskReader{asked.session, asked.id}
		if _, reads := taskReaders.LoadOrStore(reader, true); reads {
			return nil, invalidParams("This connection has a stream of the task; cancel it first", members{"reason": textJSON("busy")})
		}
		defer taskReaders.Delete(reader)
	}
	tail, err := a.followTask(ctx, task, after)
	if err != nil {
		return nil, err
	}
	defer tail.Close()
	if err := a.sendEvents(ctx, asked, front, tail); err != nil {
		return nil, err
	}
	return emptyResult(asked.modern()), nil
}

func (a *attachment) sendEvents(ctx context.Context, asked taskRequest, front *front, tail *tidings.Tail) error {
	if asked.modern() {
		// To leave is to cancel; a session of old takes its events from the event store when it is back.
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		defer cancel()
		go func() {
			select {
			case <-front.gone:
				cancel()
			case <-ctx.Done():
			}
		}()
	}
	comment := func() error {
		if !front.overHTTP() {
			return nil
		}
		return front.out.comment()
	}
	// A task that says nothing has its client wait for events, and not for the answer's beginning.
	if err := comment(); err != nil && asked.modern() {
		return err
	}
	for {
		waits, cancel := context.WithTimeout(ctx, keepAlive)
		page, err := tail.Next(waits)
		cancel()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case ctx.Err() != nil:
			return ctx.Err() // nobody waits for an answer
		case errors.Is(err, context.DeadlineExceeded):
			if err := comment(); err != nil && asked.modern() {
				return err
			}
			continue
		case err != nil:
			return failed(noTask, err)
		case page.Gap != nil:
			return a.eventsGone(asked.id, page.Gap)
		}
		for _, event := range page.Events {
			// It waits until the connection takes it, so that a slow reader is read for no faster than it reads.
			params, err := eventParams(asked.id, event)
			if err != nil {
				return internal("An event of the task cannot be read", members{"reason": textJSON("unreadable"), "seq": numberJSON(event.Seq)})
			}
			if err := front.notify(ctx, asked.session, tasksEventMethod, params); err != nil {
				return err // the connection is gone
			}
		}
	}
}

func (a *attachment) followTask(ctx context.Context, task *tidings.Task, after tidings.Place) (*tidings.Tail, error) {
	stream, err := a.hub.Stream(task.Scope, task.Name)
	if err != nil {
		return nil, failed(noTask, err)
	}
	tail, err := stream.Follow(ctx, after)
	switch {
	case errors.Is(err, tidings.ErrAhead):
		data := members{"reason": textJSON("ahead")}
		if page, err := stream.Read(ctx, tidings.Earliest, 1); err == nil && page.Head != nil {
			data["headSeq"] = numberJSON(*page.Head)
		}
		return nil, invalidParams("after lies beyond the newest event", data)
	case errors.Is(err, tidings.ErrUnknownCursor):
		return nil, unknownTask() // its time is over since it was looked up
	case err != nil:
		return nil, failed(noTask, err)
	}
	return tail, nil
}

func (a *attachment) eventsGone(id string, gap *tidings.Gap) error {
	data := members{"reason": textJSON("events_gone"), "taskId": textJSON(id)}
	if gap.Earliest != nil {
		data["earliestSeq"] = numberJSON(*gap.Earliest)
	}
	return wireError(a.options.Tasks.EventsGoneCode, "Task events are no longer available", data)
}

func afterOf(given json.RawMessage) (tidings.Place, error) {
	if given == nil {
		return tidings.Earliest, nil
	}
	seq, err := strconv.ParseUint(string(given), 10, 64)
	if err != nil || seq > maxSeq {
		return tidings.Earliest, invalidParams("after must be an integer from 0 to 2^53 - 1; leave it out to begin at the start", nil)
	}
	return tidings.AfterSeq(seq), nil
}

// eventParams are the params of `notifications/tasks/event`. The payload's text stays as it is; an error: it is none.
func eventParams(id string, event tidings.Event) (json.RawMessage, error) {
	if !json.Valid(event.Payload) {
		return nil, errors.New("the payload is no JSON text")
	}
	meta := members{relatedTaskMeta: members{"taskId": textJSON(id)}.text()}
	if identity := event.Identity(); identity != (tidings.Identity{}) {
		text, err := json.Marshal(identity)
		if err != nil {
			return nil, err
		}
		meta[eventMeta] = text
	}
	return members{
		"seq": numberJSON(event.Seq), "taskId": textJSON(id), "type": textJSON(event.Type), "payload": event.Payload, "_meta": meta.text(),
	}.text(), nil
}
