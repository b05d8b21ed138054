package tidingsmcp

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	tidings "github.com/tidings-mcp/tidings/bindings/go"
)

// hearing is one `subscriptions/listen` (2026-07-28). The SDK serves it, with what the server's own features do; what the hub publishes
// comes beside that, on the same stream, and so does what happens to tasks. Its acknowledgement is ours, which says as much and more.
type hearing struct {
	*attachment
	ctx     context.Context
	session *mcp.ServerSession
	front   *front
	seat    *seat
	// sdk is closed when the SDK has acknowledged, which it does once; sent when ours is written.
	sdk, sent chan struct{}
	once      sync.Once
	// tasks: it hears of tasks, of which the SDK knows nothing.
	tasks bool
}

type hearingKey struct{}

func (a *attachment) listen(ctx context.Context, method string, asked *mcp.SubscriptionsListenRequest, next mcp.MethodHandler) (mcp.Result, error) {
	given := givenIn(asked.Params.Meta)
	front := frontOf(asked.Extra)
	if given == nil || front == nil || asked.Params.Notifications == nil {
		return next(ctx, method, asked)
	}
	heard := &hearing{attachment: a, ctx: ctx, session: asked.Session, front: front, sdk: make(chan struct{}), sent: make(chan struct{})}
	if err := heard.join(asked, given, next); err != nil {
		return nil, err
	}
	defer heard.seat.leave()
	result, err := next(context.WithValue(ctx, hearingKey{}, heard), method, asked)
	if err == nil && heard.tasks {
		<-ctx.Done() // the SDK would end it, which hears of nothing else
	}
	return result, err
}

// join takes a seat, and has a listener of what is honoured of the filter.
func (h *hearing) join(asked *mcp.SubscriptionsListenRequest, given *given, next mcp.MethodHandler) error {
	closed := unavailable("Notifications cannot be served now; try again later")
	server, err := h.server(asked, next)
	if err != nil {
		return err
	}
	version, _ := asked.Params.Meta[versionMeta].(string)
	client, err := json.Marshal(asked.Params.Meta[capabilitiesMeta])
	if err != nil {
		return failed("Notifications cannot be served", err)
	}
	profile, err := tidings.NewProfile(version, server, client)
	if err != nil {
		return failed("Notifications cannot be served", err)
	}
	filter, err := h.theirs(given.Filter, declaresTasks(asked.Params.Meta), h.asker(asked.Session, asked.Extra).name)
	if err != nil {
		return err
	}
	if h.seat, err = h.shared.desk.join(h.hub, h.asker(asked.Session, asked.Extra).name, h.write, nil); err != nil {
		return closed
	}
	if _, err = h.seat.peer.Listen(profile, given.ID, filter); err != nil {
		h.seat.leave()
		return failed("Notifications cannot be served", err)
	}
	honoured, err := profile.Honoured(filter)
	if err != nil {
		h.seat.leave()
		return failed("Notifications cannot be served", err)
	}
	var heard struct {
		TaskIDs []string `json:"taskIds"`
	}
	h.tasks = json.Unmarshal(honoured, &heard) == nil && len(heard.TaskIDs) > 0
	return nil
}

// server are the server's capabilities, as JSON text, as it would tell them to whoever asks.
func (h *hearing) server(asked *mcp.SubscriptionsListenRequest, next mcp.MethodHandler) ([]byte, error) {
	question := &mcp.ServerRequest[*mcp.DiscoverParams]{
		Session: asked.Session, Extra: asked.Extra, Params: &mcp.DiscoverParams{Meta: asked.Params.Meta},
	}
	result, err := next(h.ctx, "server/discover", question)
	if err != nil {
		return nil, err
	}
	found, is := result.(*mcp.DiscoverResult)
	if !is {
		return []byte("{}"), nil
	}
	h.discovered(question, found)
	return json.Marshal(found.Capabilities)
}

// theirs is the filter without the tasks that are not there for who asks.
func (h *hearing) theirs(given string, declared bool, asker string) ([]byte, error) {
	var filter members
	var ids []json.RawMessage
	if json.Unmarshal([]byte(given), &filter) != nil || json.Unmarshal(filter["taskIds"], &ids) != nil || len(ids) == 0 {
		return []byte(given), nil // what is no list the library refuses
	}
	if !declared {
		return nil, undeclared()
	}
	kept := []json.RawMessage{}
	for _, text := range ids {
		id, is := textOf(text)
		if is {
			task, err := h.hub.Task(h.ctx, id, asker)
			if err != nil {
				return nil, failed(noTask, err)
			}
			if task == nil {
				continue
			}
		}
		kept = append(kept, text)
	}
	filter["taskIds"] = listJSON(kept)
	return filter.text(), nil
}

// acknowledged: the SDK would acknowledge now, and ours goes out instead.
func (h *hearing) acknowledged() error {
	h.once.Do(func() { close(h.sdk) })
	select {
	case <-h.sent:
		return nil
	case <-h.ctx.Done():
		return h.ctx.Err()
	}
}

func (h *hearing) write(notice tidings.Notice) error {
	if notice.Method == "notifications/subscriptions/acknowledged" {
		defer close(h.sent)
		select {
		case <-h.sdk:
		case <-h.ctx.Done():
			return h.ctx.Err()
		}
	}
	return h.front.notify(h.ctx, h.session, notice.Method, notice.Params)
}
