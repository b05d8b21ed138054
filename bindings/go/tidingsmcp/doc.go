// Package tidingsmcp brings Tidings to servers of the official Go SDK (github.com/modelcontextprotocol/go-sdk).
//
//	hub, err := tidings.Open(ctx, "sqlite:tidings.db")
//	tidingsmcp.Attach(server, hub, tidingsmcp.Options{Routes: []string{"webhook"}})
//	store := tidingsmcp.NewEventStore(hub)
//	handler := mcp.NewStreamableHTTPHandler(getServer, &mcp.StreamableHTTPOptions{EventStore: store})
//	http.ListenAndServe(address, tidingsmcp.Handler(handler, store))
//
// [NewEventStore] makes streams durable: a client that was cut off resumes exactly. [Attach] watches the tool calls whose
// requests bring a notificationConfig (SEP-992) and tells their outcomes where it says, makes tasks of calls whose clients take
// them (SEP-2663, SEP-2694), and has sessions told of what [tidings.Hub.Notify] publishes. [Handler] (for Streamable HTTP) and
// [Transport] (for stdio and others) stand between the wire and the SDK, which would drop what it does not know and sends nothing
// but its own; Handler also resumes streams of sessions that this process does not hold, such as those of the process before it.
//
// It is a module of its own, so that the binding itself depends on no SDK.
package tidingsmcp

// Names that go over the wire.
const (
	// configKey is the member of the params of tools/call (SEP-992), and of the capabilities.
	configKey = "notificationConfig"
	// extension is the capability under the key that the protocol keeps for extensions. The same key in a request's _meta may
	// hold the config, for clients whose SDK knows no other place.
	extension = "io.tidings/notification-config"
	// requestKey is between Handler or Transport and the middleware only: what comes in under it is taken away.
	requestKey = "io.tidings/request"

	acknowledgedMethod = "notifications/config/acknowledged"
	acknowledgedMeta   = "io.tidings/acknowledged"
	undeliveredMeta    = "io.tidings/undelivered"
	cancelMethod       = "io.tidings/calls/cancel"
	gapMethod          = "notifications/io.tidings/gap"
	toolsCall          = "tools/call"
	listen             = "subscriptions/listen"

	versionMeta      = "io.modelcontextprotocol/protocolVersion"
	capabilitiesMeta = "io.modelcontextprotocol/clientCapabilities"

	// tasksExtension is SEP-2663's; the rest is SEP-2694's, a draft.
	tasksExtension   = "io.modelcontextprotocol/tasks"
	tasksEventMethod = "notifications/tasks/event"
	relatedTaskMeta  = "io.modelcontextprotocol/related-task"
	eventMeta        = "io.tidings/event"
	eventStreams     = "eventStreams"
	eventsGone       = -32010
)

// The first protocol version without sessions, and the last with streams to resume.
const (
	firstModern = "2026-07-28"
	lastLegacy  = "2025-11-25"
)
