package tidingsmcp

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	tidings "github.com/tidings-mcp/tidings/bindings/go"
)

// Options of [Attach]. The zero value offers no routes: configs are left alone.
type Options struct {
	// Routes are the route types that clients may use: `webhook`.
	Routes []string
	// Timeout is the server's limit of a tool; nil, or 0 of it, is none. A client may only lower it.
	Timeout func(tool string) time.Duration
	// DetachedCalls is how many calls of one principal may run on without their connection; 0 is 64.
	DetachedCalls int
	// DetachedTime is how long each of them may; 0 is one hour.
	DetachedTime time.Duration
}

// Attach watches the tool calls of a server whose requests bring a notificationConfig, and says so in its capabilities. The config is
// checked and on disk before the tool runs; the result's _meta has the acknowledgement; the outcome is on disk before the result is
// returned, and told where the config says.
//
// It belongs with [Handler] or [Transport]: the SDK drops what it does not know before any middleware sees it.
func Attach(server *mcp.Server, hub *tidings.Hub, options Options) error {
	if len(options.Routes) == 0 {
		return nil
	}
	if options.DetachedCalls == 0 {
		options.DetachedCalls = 64
	}
	if options.DetachedTime == 0 {
		options.DetachedTime = time.Hour
	}
	attached := &attachment{hub: hub, options: options}
	err := mcp.AddReceivingCustomMethod(server, cancelMethod, attached.cancel)
	if err != nil {
		return err
	}
	server.AddReceivingMiddleware(attached.receive)
	server.AddSendingMiddleware(record)
	return nil
}

type attachment struct {
	hub     *tidings.Hub
	options Options
}

func (a *attachment) receive(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, request mcp.Request) (mcp.Result, error) {
		switch asked := request.(type) {
		case *mcp.CallToolRequest:
			return a.toolsCall(ctx, method, asked, next)
		default:
			if method == cancelMethod {
				ctx = context.WithValue(ctx, extraKey{}, request.GetExtra())
			}
			result, err := next(ctx, method, request)
			return a.advertised(result), err
		}
	}
}

// extraKey brings what the SDK tells middleware of a request to the handler of a custom method, which it does not tell.
type extraKey struct{}

// advertised says in the capabilities which routes there are.
func (a *attachment) advertised(result mcp.Result) mcp.Result {
	switch given := result.(type) {
	case *mcp.InitializeResult:
		given.Capabilities.AddExtension(extension, a.capability())
		return &initialized{given, a.capability()}
	case *mcp.DiscoverResult:
		given.Capabilities.AddExtension(extension, a.capability())
	}
	return result
}

func (a *attachment) capability() map[string]any {
	return map[string]any{"supportedRouteTypes": a.options.Routes}
}

// initialized adds the capability under the name that the draft has for it, which the SDK's type has no place for.
type initialized struct {
	*mcp.InitializeResult
	capability map[string]any
}

func (i *initialized) MarshalJSON() ([]byte, error) {
	text, err := json.Marshal(i.InitializeResult)
	if err != nil {
		return nil, err
	}
	var result, capabilities map[string]json.RawMessage
	if err := json.Unmarshal(text, &result); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(result["capabilities"], &capabilities); err != nil {
		return nil, err
	}
	capabilities[configKey] = mustJSON(i.capability)
	result["capabilities"] = mustJSON(capabilities)
	return json.Marshal(result)
}

// CancelParams are those of `io.tidings/calls/cancel`.
type CancelParams struct {
	mcp.ParamsBase
	CallID string `json:"callId"`
}

// CancelResult is the answer to it.
type CancelResult struct{ mcp.ResultBase }

// cancel ends a call that may run on without its connection, if it is of whoever asks.
func (a *attachment) cancel(ctx context.Context, session *mcp.ServerSession, params *CancelParams) (*CancelResult, error) {
	if params == nil || params.CallID == "" {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "callId must be a string"}
	}
	extra, _ := ctx.Value(extraKey{}).(*mcp.RequestExtra)
	principal, _ := principalOf(session, extra)
	found, err := a.hub.CancelCall(ctx, params.CallID, principal)
	if err != nil && !errors.Is(err, tidings.ErrInvalidArgument) {
		return nil, unavailable("the call could not be cancelled")
	}
	if !found {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "Unknown call"}
	}
	return &CancelResult{}, nil
}

// record makes events of what a watched tool tells its client, so that who comes later reads them.
func record(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, request mcp.Request) (mcp.Result, error) {
		kind := map[string]string{
			"notifications/progress": tidings.ProgressEvent,
			"notifications/message":  tidings.LogEvent,
		}[method]
		if call := CurrentCall(ctx); call != nil && kind != "" {
			emit(call, kind, request.GetParams())
		}
		return next(ctx, method, request)
	}
}

func emit(call *tidings.Call, kind string, params any) {
	text, err := json.Marshal(params)
	if err != nil {
		return // the SDK says so to the tool
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(text, &members) != nil {
		return
	}
	delete(members, "progressToken")
	// A tool that was stopped and still says something.
	_, _ = call.Emit(kind, mustJSON(members))
}

type callKey struct{}

// CurrentCall is the watched call that a tool runs for, by the tool's context; nil for a call without a config. A tool fires
// triggers of its own with it.
func CurrentCall(ctx context.Context) *tidings.Call {
	call, _ := ctx.Value(callKey{}).(*tidings.Call)
	return call
}
