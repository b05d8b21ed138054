package tidingsmcp

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"maps"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
	"weak"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	tidings "github.com/tidings-mcp/tidings/bindings/go"
)

// acceptWithin is how long a config waits to be on disk; then it is refused.
const acceptWithin = 10 * time.Second

// endWithin is how long the end of a call is waited for, which is more than the store takes.
const endWithin = 10 * time.Second

// anonymous is where detached calls are counted whose principal lives no longer than one request.
const anonymous = "anonymous"

// principalOf is who asks, and the name that its detached calls are counted under.
func principalOf(session *mcp.ServerSession, extra *mcp.RequestExtra) (principal, countedAs string) {
	if extra != nil && extra.TokenInfo != nil {
		name := *authenticated(extra.TokenInfo)
		return name, name
	}
	if id := session.ID(); id != "" {
		return scopeOf(id), scopeOf(id)
	}
	return connectionOf(session), anonymous
}

// connections are the names of connections without a session, for as long as the SDK holds them.
var connections sync.Map

func connectionOf(session *mcp.ServerSession) string {
	key := weak.Make(session)
	name, known := connections.LoadOrStore(key, "connection:"+rand.Text())
	if !known {
		runtime.AddCleanup(session, func(key weak.Pointer[mcp.ServerSession]) { connections.Delete(key) }, key)
	}
	return name.(string)
}

// toolsCall answers a request for a tool.
func (a *attachment) toolsCall(ctx context.Context, method string, request *mcp.CallToolRequest, next mcp.MethodHandler) (mcp.Result, error) {
	given, configured := request.Params.Meta[requestKey].(map[string]any)
	if !configured {
		if request.Params.Meta[extension] != nil {
			return nil, &jsonrpc.Error{
				Code:    jsonrpc.CodeInternalError,
				Message: "this server is not set up for notificationConfig: tidingsmcp.Handler or Transport is missing; nothing ran",
			}
		}
		return next(ctx, method, request)
	}
	// The tool does not see it.
	params := *request.Params
	params.Meta = maps.Clone(params.Meta)
	delete(params.Meta, requestKey)
	own := *request
	own.Params = &params

	principal, countedAs := principalOf(request.Session, request.Extra)
	config, _ := given["config"].(string)
	id, _ := given["id"].(string)
	traceparent, _ := params.Meta["traceparent"].(string)
	asked := tidings.CallRequest{
		Config: []byte(config), RouteTypes: a.options.Routes, Principal: principal, Session: request.Session.ID(),
		RequestID: id, Tool: params.Name, Traceparent: traceparent,
	}
	if a.options.Timeout != nil {
		asked.Timeout = a.options.Timeout(params.Name)
	}
	call, err := a.accept(ctx, asked)
	if err != nil {
		return nil, err
	}
	_, modern := params.Meta[versionMeta]
	watched := &watched{
		attachment: a, call: call, countedAs: countedAs,
		// From 2026-07-28 on, over HTTP, to leave is all that a client can do, and a config asks that its call goes on.
		leaves: modern && request.Extra != nil && request.Extra.Header != nil,
	}
	return watched.run(ctx, func(ctx context.Context) (mcp.Result, error) { return next(ctx, method, &own) })
}

func (a *attachment) accept(ctx context.Context, asked tidings.CallRequest) (*tidings.Call, error) {
	ctx, cancel := context.WithTimeout(ctx, acceptWithin)
	defer cancel()
	call, err := a.hub.BeginCall(ctx, asked)
	var refused *tidings.ConfigError
	switch {
	case err == nil:
		return call, nil
	case errors.As(err, &refused):
		return nil, &jsonrpc.Error{
			Code:    jsonrpc.CodeInvalidParams,
			Message: "notificationConfig was rejected and nothing ran; data.faults says why",
			Data:    refused.Data,
		}
	default:
		return nil, unavailable("notificationConfig could not be stored and nothing ran; try again later")
	}
}

func unavailable(message string) error {
	return &jsonrpc.Error{
		Code: jsonrpc.CodeInternalError, Message: message, Data: mustJSON(map[string]any{"reason": "unavailable", "retryable": true}),
	}
}

// watched is one call from its acceptance to its answer.
type watched struct {
	*attachment
	call      *tidings.Call
	countedAs string
	leaves    bool
	// over: the tool is done, and its end of our own making.
	over atomic.Bool
}

// returned is what a tool came to.
type returned struct {
	result mcp.Result
	err    error
}

func (w *watched) run(ctx context.Context, tool func(context.Context) (mcp.Result, error)) (mcp.Result, error) {
	// The request's end is news to act on, and not already the tool's end.
	toolContext, stop := context.WithCancel(context.WithValue(context.WithoutCancel(ctx), callKey{}, w.call))
	answers := make(chan returned, 1)
	go func() {
		defer stop()
		result, err := tool(toolContext)
		result, err = w.conclude(result, err)
		answers <- returned{result, err}
	}()
	elsewhere := make(chan *tidings.Ended, 1)
	go func() {
		// Its time is over, or its client or another process ended it: the tool is stopped.
		if ended, err := w.call.Ended(toolContext); err == nil && !w.over.Load() {
			elsewhere <- ended
			stop()
		}
	}()
	select {
	case answer := <-answers:
		return answer.result, answer.err
	case ended := <-elsewhere:
		if ended.Outcome == tidings.TimedOut || ended.Outcome == tidings.Cancelled {
			// At once: a tool that does not let itself be stopped must not keep the client waiting.
			return nil, endedElsewhere(ended, w.call.ID())
		}
		answer := <-answers
		return answer.result, answer.err
	case <-ctx.Done():
		w.requestIsGone(ctx, stop)
		return nil, ctx.Err()
	}
}

// requestIsGone tells a client that asked for the end from one that was lost, whose call goes on.
func (w *watched) requestIsGone(ctx context.Context, stop context.CancelFunc) {
	// The SDK cancels without a cause what its client cancels, and with one what a connection takes along.
	if cause := context.Cause(ctx); !w.leaves && errors.Is(cause, context.Canceled) {
		w.cancel("")
		stop()
		return
	}
	// Where there is no room, or its time is over, the hub ends it, and the tool is stopped as by any end. An error: the call has ended in
	// this moment.
	_, _ = w.call.Detach(w.countedAs, w.options.DetachedCalls, w.options.DetachedTime)
}

func (w *watched) cancel(reason string) {
	ctx, cancel := context.WithTimeout(context.Background(), endWithin)
	defer cancel()
	// A hub that is closed has ended its calls itself.
	_, _ = w.call.Cancel(ctx, reason)
}

// conclude records what the tool came to, and makes the answer of it.
func (w *watched) conclude(result mcp.Result, err error) (mcp.Result, error) {
	w.over.Store(true)
	ctx, cancel := context.WithTimeout(context.Background(), endWithin)
	defer cancel()
	if err != nil {
		return w.failed(ctx, err, "")
	}
	meta := maps.Clone(result.GetMeta())
	if meta == nil {
		meta = map[string]any{}
	}
	meta[acknowledgedMeta] = w.call.Acknowledgement()
	result.SetMeta(meta)
	text, err := json.Marshal(result)
	if err != nil {
		return w.failed(ctx, &jsonrpc.Error{
			Code: jsonrpc.CodeInternalError, Message: "The tool's result could not be serialised",
			Data: mustJSON(map[string]string{"reason": "unserialisable"}),
		}, "unserialisable")
	}
	var kind struct {
		ResultType string `json:"resultType"`
	}
	if json.Unmarshal(text, &kind) == nil && kind.ResultType != "" && kind.ResultType != "complete" {
		// An interim answer ("input_required"): the request is over, and its tool has not completed.
		w.cancel("")
		return result, nil
	}
	ended, err := w.call.Complete(ctx, text)
	switch {
	case err != nil:
		meta[undeliveredMeta] = []map[string]string{{"reason": "store_unavailable"}}
	case !ended.Ours && (ended.Outcome == tidings.TimedOut || ended.Outcome == tidings.Cancelled):
		return nil, endedElsewhere(ended, w.call.ID())
	case ended.Undelivered != nil:
		meta[undeliveredMeta] = ended.Undelivered
	}
	return result, nil
}

func (w *watched) failed(ctx context.Context, failure error, reason string) (mcp.Result, error) {
	var wire *jsonrpc.Error
	if !errors.As(failure, &wire) {
		wire = &jsonrpc.Error{Message: failure.Error()}
	}
	text, err := json.Marshal(wire)
	if err != nil {
		text = []byte(`{"code":-32603,"message":"Internal error"}`)
	}
	ended, err := w.call.Fail(ctx, text, reason)
	if err == nil && !ended.Ours && (ended.Outcome == tidings.TimedOut || ended.Outcome == tidings.Cancelled) {
		return nil, endedElsewhere(ended, w.call.ID())
	}
	return nil, failure
}

// endedElsewhere is the answer for a call that somebody else ended while its tool ran.
func endedElsewhere(ended *tidings.Ended, callID string) error {
	reason, message := ended.Reason, "The tool call ended as "+string(ended.Outcome)
	if reason == "" {
		reason = string(ended.Outcome)
	}
	if ended.Outcome == tidings.TimedOut {
		reason, message = "timeout", "The tool call timed out"
	}
	return &jsonrpc.Error{
		Code: jsonrpc.CodeInternalError, Message: message, Data: mustJSON(map[string]string{"reason": reason, "callId": callID}),
	}
}
