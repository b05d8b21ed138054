package tidingsmcp

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	tidings "github.com/tidings-mcp/tidings/bindings/go"
)

// The types of routes.
const (
	webhookRoute  = "webhook"
	messageRoute  = "message"
	callbackRoute = "callback"
	signalRoute   = "signal"
)

// Options of [Attach]. With the zero value configs are left alone and calls are no tasks: sessions are told what is published, and
// nothing else.
type Options struct {
	// Routes are the route types that clients may use: `webhook`; `message`, a notification into the calling session; `callback`, to an
	// [tidings.Outlet] that this program offers by name; `signal`, which rings the process at the other end of stdin, on Linux over an
	// [mcp.StdioTransport]. What a session cannot have is not in its capabilities.
	Routes []string
	// SignalAsRoot lets a process of root's ring its client's; without it routes of type `signal` are not offered there.
	SignalAsRoot bool
	// Open are the names that routes of type `callback` and `message` may have.
	Open []string
	// Policy judges the configs of clients, and opens names to them; nil allows what the rules do.
	Policy Policy
	// DefaultRoutes are the server's own, by tool, each the JSON text of a list of routes as in a config; under "" those of all other
	// tools. They are for calls whose client brings no config: one that does is told by its own routes only. Nobody has to allow them
	// and nobody is told of them.
	DefaultRoutes map[string]json.RawMessage
	// Timeout is the server's limit of a tool; nil, or 0 of it, is none. A client may only lower it.
	Timeout func(tool string) time.Duration
	// Principal tells who asks; nil takes the token's user, and, where the verifier has put them into its Extra, "iss" and "client_id".
	// An [EventStore] of the same server is to have the same: [WithPrincipal].
	Principal PrincipalOf
	// Tasks has calls of clients that declare the Tasks extension become tasks (SEP-2663), for 2026-07-28 and later; nil does not.
	Tasks *Tasks
	// TasksStream serves `tasks/stream` too (SEP-2694, a draft); with default Tasks where there are none.
	TasksStream bool
	// DetachedCalls is how many calls of one principal may run on without their request, in this process: tasks, and those whose
	// client has gone. 0 is 64.
	DetachedCalls int
	// DetachedTime is how long each of them may; 0 is one hour.
	DetachedTime time.Duration
}

// whole is the options with what was left open, or an error that names the field and the rule.
func (o Options) whole(hub *tidings.Hub) (Options, error) {
	if o.DetachedCalls == 0 {
		o.DetachedCalls = 64
	}
	if o.DetachedTime == 0 {
		o.DetachedTime = time.Hour
	}
	if o.TasksStream && o.Tasks == nil {
		o.Tasks = &Tasks{}
	}
	if o.Tasks != nil {
		tasks := o.Tasks.whole()
		o.Tasks = &tasks
	}
	for _, kind := range o.Routes {
		if kind == "" {
			return o, errors.New("tidingsmcp: Options.Routes: a type of routes has a name")
		}
	}
	for tool, routes := range o.DefaultRoutes {
		config := ownConfig(routes)
		_, err := hub.CheckConfig(tidings.CallRequest{
			Config: config, RouteTypes: append(slices.Clone(o.Routes), webhookRoute, messageRoute, callbackRoute, signalRoute), Open: namesIn(config), Peer: "any",
		})
		var refused *tidings.ConfigError
		if errors.As(err, &refused) {
			return o, fmt.Errorf("tidingsmcp: Options.DefaultRoutes[%q]: %w", tool, err)
		} else if err != nil {
			return o, err
		}
	}
	return o, nil
}
