package tidingsmcp

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	tidings "github.com/tidings-mcp/tidings/bindings/go"
)

const (
	// acceptWithin is how long a config waits to be on disk; then it is refused.
	acceptWithin = 10 * time.Second
	// acknowledgeWithin is how long a client that reads nothing may hold up the start of its own tool.
	acknowledgeWithin = 5 * time.Second
	// endWithin is how long the end of a call is waited for, which is more than the store takes.
	endWithin = 10 * time.Second
)

type callTool func(context.Context, *mcp.CallToolRequest) (mcp.Result, error)

// toolCall is one tools/call from its request to its answer.
type toolCall struct {
	*attachment
	request *mcp.CallToolRequest
	tool    callTool
	asker   asker
	modern  bool
	front   *front
	link    *link
	// id is the JSON-RPC id of the request.
	id      string
	timeout time.Duration
	began   time.Time
	// config is nil where nobody is to be told. brought: by the client, which is told of it.
	config  []byte
	brought bool
	// tasks are nil where it may not become one.
	tasks *Tasks
	mode  TaskMode

	running *RunningCall
	// call is what the store knows; nil while nobody asked for that.
	call            *tidings.Call
	acknowledgement json.RawMessage
}

// toolsCall answers a request for a tool.
func (a *attachment) toolsCall(ctx context.Context, request *mcp.CallToolRequest, next callTool) (mcp.Result, error) {
	own, params := *request, *request.Params
	params.Meta = maps.Clone(params.Meta)
	// The tool sees nothing of ours.
	given := givenIn(params.Meta)
	if given == nil && len(a.options.DefaultRoutes) > 0 {
		given = plainCall(request.Extra)
	}
	own.Params, own.Extra = &params, withoutFront(request.Extra)
	if given == nil && len(a.options.Routes) > 0 && params.Meta[extension] != nil {
		return nil, internal("this server is not set up for notificationConfig: tidingsmcp.Handler or Transport is missing; nothing ran", nil)
	}
	modern, declared := isModern(params.Meta), declaresTasks(params.Meta)
	mode := Never
	if a.options.Tasks != nil {
		mode = a.options.Tasks.mode(params.Name)
	}
	if mode == Required && modern && !declared {
		return nil, undeclared()
	}
	call := &toolCall{
		attachment: a, request: &own, tool: next, modern: modern, front: frontOf(request.Extra), asker: a.asker(request.Session, request.Extra),
		mode: mode, began: time.Now(),
	}
	if a.options.Timeout != nil {
		call.timeout = a.options.Timeout(params.Name)
	}
	if given == nil {
		return call.plain(ctx)
	}
	call.id = given.ID
	if mode != Never && declared {
		call.tasks = a.options.Tasks
	}
	if a.watches() {
		call.link = a.linkFor(request.Session, call.front, modern)
		call.configure(given)
	}
	if call.config == nil && call.tasks == nil {
		return call.plain(ctx)
	}
	if call.front == nil {
		call.front = lost // its client had left before the SDK came to it
	}
	return call.run(ctx)
}

// configure finds what tells of the call: the client's config, or else the server's own.
func (t *toolCall) configure(given *given) {
	if given.Config != nil && len(t.options.Routes) > 0 {
		t.config, t.brought = []byte(*given.Config), true
	} else {
		t.config = t.ownRoutes(t.request.Params.Name, t.link)
	}
}

// plain runs a call that nobody asked to be watched.
func (t *toolCall) plain(ctx context.Context) (mcp.Result, error) {
	if t.timeout <= 0 {
		return t.tool(ctx, t.request)
	}
	toolContext, stop := context.WithCancel(ctx)
	tool := t.start(toolContext, t.request)
	over := time.NewTimer(t.timeout)
	defer over.Stop()
	defer stop()
	select {
	case answer := <-tool:
		return answer.result, answer.err
	case <-over.C:
		return nil, timedOut(t.timeout)
	}
}

// returned is what a tool came to.
type returned struct {
	result mcp.Result
	err    error
}

// start runs the tool beside its request.
func (t *toolCall) start(ctx context.Context, request *mcp.CallToolRequest) <-chan returned {
	answers := make(chan returned, 1)
	go func() {
		result, err := t.tool(ctx, request)
		answers <- returned{result, err}
	}()
	return answers
}

// accept has the call and its config on disk.
func (t *toolCall) accept(ctx context.Context) error {
	asked := t.asked()
	if t.brought {
		open, err := t.judge(ctx)
		if err != nil {
			return err
		}
		asked.RouteTypes, asked.Open = t.routeTypes(t.link), open
	} else {
		asked.RouteTypes, asked.Open = typesIn(t.config), namesIn(t.config)
	}
	asked.Config, asked.Timeout = t.config, t.timeout
	if t.link != nil && toSession(t.config) {
		asked.Peer = t.link.place()
	}
	ctx, cancel := context.WithTimeout(ctx, acceptWithin)
	defer cancel()
	call, err := t.hub.BeginCall(ctx, asked)
	var refused *tidings.ConfigError
	switch {
	case err == nil:
		t.call = call
		return nil
	case errors.As(err, &refused):
		return rejected(refused.Data)
	default:
		return unavailable("notificationConfig could not be stored and nothing ran; try again later")
	}
}

// asked is what is asked for every call.
func (t *toolCall) asked() tidings.CallRequest {
	traceparent, _ := t.request.Params.Meta["traceparent"].(string)
	return tidings.CallRequest{
		Principal: t.asker.name, Session: t.request.Session.ID(), RequestID: t.id, Tool: t.request.Params.Name, Traceparent: traceparent,
	}
}

// acknowledge tells the client that its config was accepted, before the tool runs. The result says it as well, for whoever does not get
// this: a response in JSON has no stream to put it on.
func (t *toolCall) acknowledge(ctx context.Context) {
	t.acknowledgement = t.call.Acknowledgement()
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		_ = t.front.notify(ctx, t.request.Session, acknowledgedMethod, t.acknowledgement)
	}()
	late := time.NewTimer(acknowledgeWithin)
	defer late.Stop()
	select {
	case <-sent:
	case <-late.C:
	}
}
