package tidingsmcp

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	tidings "github.com/tidings-mcp/tidings/bindings/go"
)

// Attach brings a hub to a server, before its sessions connect.
//
// Sessions are told what [tidings.Hub.Notify] publishes, here or in another process on the same store: those up to 2025-11-25 of
// what the server's capabilities announce and of the resources they subscribed to, listeners of 2026-07-28 within their filters.
//
// With Routes, tool calls whose requests bring a notificationConfig are watched, and the capabilities say so. The config is checked
// and on disk before the tool runs; it is acknowledged before that, and again in the result's _meta; the outcome is on disk before the
// result is returned, and told where the config says.
//
// With Tasks, a call that takes longer than two seconds is answered with a task, whose record is on disk by then, and which the client
// asks for by its id, also after a restart.
//
// It belongs with [Handler] or [Transport]: the SDK drops what it does not know before any middleware sees it, and sends nothing but
// its own. Middleware for sending that is added to the server sees notifications of ours as progress without a token.
func Attach(server *mcp.Server, hub *tidings.Hub, options Options) error {
	options, err := options.whole(hub)
	if err != nil {
		return err
	}
	attached := &attachment{hub: hub, options: options, shared: sharedOf(hub), doorbell: options.doorbell()}
	if len(options.Routes) > 0 {
		if err := serveCustom(server, cancelMethod, attached.cancelCall); err != nil {
			return err
		}
	}
	if err := attached.serveTasks(server); err != nil {
		return err
	}
	server.AddReceivingMiddleware(attached.receive)
	server.AddSendingMiddleware(attached.send)
	return nil
}

type attachment struct {
	hub     *tidings.Hub
	options Options
	shared  *shared
	// doorbell is the process at the other end of stdin; nil where it cannot be rung.
	doorbell func() *tidings.StdioPeer
	// links are the sessions that outlive a request, by *mcp.ServerSession.
	links sync.Map
}

// watches tells whether calls that bring or get routes are watched.
func (a *attachment) watches() bool {
	return len(a.options.Routes) > 0 || len(a.options.DefaultRoutes) > 0
}

func (a *attachment) receive(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, request mcp.Request) (mcp.Result, error) {
		session := request.GetSession().(*mcp.ServerSession)
		switch asked := request.(type) {
		case *mcp.CallToolRequest:
			return a.toolsCall(ctx, asked, func(ctx context.Context, request *mcp.CallToolRequest) (mcp.Result, error) {
				return next(ctx, method, request)
			})
		case *mcp.ServerRequest[*mcp.InitializeParams]:
			result, err := next(ctx, method, request)
			if found, is := result.(*mcp.InitializeResult); is && err == nil {
				return a.initialized(session, asked, found), nil
			}
			return result, err
		case *mcp.ServerRequest[*mcp.DiscoverParams]:
			result, err := next(ctx, method, request)
			if found, is := result.(*mcp.DiscoverResult); is && err == nil {
				a.discovered(asked, found)
			}
			return result, err
		case *mcp.SubscribeRequest:
			result, err := next(ctx, method, request)
			if link := a.linkOf(session); err == nil && link != nil {
				link.subscribe(asked.Params.URI, true)
			}
			return result, err
		case *mcp.UnsubscribeRequest:
			result, err := next(ctx, method, request)
			if link := a.linkOf(session); err == nil && link != nil {
				link.subscribe(asked.Params.URI, false)
			}
			return result, err
		case *mcp.SubscriptionsListenRequest:
			return a.listen(ctx, method, asked, next)
		case *mcp.ServerRequest[*mcp.InitializedParams]:
			result, err := next(ctx, method, request)
			if link := a.linkOf(session); err == nil && link != nil {
				link.ready()
			}
			return result, err
		}
		// The handler of a method of ours is not told what the SDK tells middleware.
		return next(context.WithValue(ctx, extraKey{}, request.GetExtra()), method, request)
	}
}

type extraKey struct{}

// send sees what the server sends.
func (a *attachment) send(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, request mcp.Request) (mcp.Result, error) {
		if method == "notifications/subscriptions/acknowledged" {
			if heard, _ := ctx.Value(hearingKey{}).(*hearing); heard != nil {
				return nil, heard.acknowledged() // ours says as much, and of tasks
			}
		}
		if call := CurrentCall(ctx); call != nil && !isNotice(request) {
			switch method {
			case "notifications/progress":
				call.record(tidings.ProgressEvent, request.GetParams())
			case "notifications/message":
				call.record(tidings.LogEvent, request.GetParams())
			}
		}
		return next(ctx, method, request)
	}
}

// customParams are those of a method that the SDK does not know.
type customParams struct {
	mcp.ParamsBase
	CallID         json.RawMessage `json:"callId"`
	TaskID         json.RawMessage `json:"taskId"`
	After          json.RawMessage `json:"after"`
	InputResponses json.RawMessage `json:"inputResponses"`
}

// custom is a request for such a method.
type custom struct {
	session *mcp.ServerSession
	extra   *mcp.RequestExtra
	params  *customParams
}

func (c custom) modern() bool { return isModern(c.params.Meta) }

// serveCustom serves a method that the SDK does not know.
func serveCustom(server *mcp.Server, method string, serve func(context.Context, custom) (*textResult, error)) error {
	return mcp.AddReceivingCustomMethod(server, method,
		func(ctx context.Context, session *mcp.ServerSession, params *customParams) (*textResult, error) {
			if params == nil {
				params = &customParams{}
			}
			extra, _ := ctx.Value(extraKey{}).(*mcp.RequestExtra)
			return serve(ctx, custom{session, extra, params})
		})
}

// isModern tells by a request's _meta whether it is of 2026-07-28 or later, where there are no sessions and to leave is to cancel.
func isModern(meta map[string]any) bool {
	version, _ := meta[versionMeta].(string)
	return version >= firstModern
}

// declaresTasks tells whether a request's client takes tasks.
func declaresTasks(meta map[string]any) bool {
	capabilities, _ := meta[capabilitiesMeta].(map[string]any)
	extensions, _ := capabilities["extensions"].(map[string]any)
	_, declared := extensions[tasksExtension]
	return declared && isModern(meta)
}

// cancelCall ends a call that may run on without its connection, if it is of whoever asks.
func (a *attachment) cancelCall(ctx context.Context, asked custom) (*textResult, error) {
	id, is := textOf(asked.params.CallID)
	if !is || id == "" {
		return nil, invalidParams("callId must be a string", nil)
	}
	found, err := a.hub.CancelCall(ctx, id, a.asker(asked.session, asked.extra).name)
	if err != nil {
		return nil, failed("The call could not be cancelled", err)
	}
	if !found {
		return nil, invalidParams("Unknown call", nil)
	}
	return emptyResult(asked.modern()), nil
}

func textOf(given json.RawMessage) (text string, is bool) {
	var found *string
	if json.Unmarshal(given, &found) != nil || found == nil {
		return "", false
	}
	return *found, true
}
