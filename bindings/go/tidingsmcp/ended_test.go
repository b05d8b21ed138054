package tidingsmcp_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	tidings "github.com/tidings-mcp/tidings/bindings/go"
	"github.com/tidings-mcp/tidings/bindings/go/tidingsmcp"
)

// firing adds a tool that fires a trigger when it is let go on, and ends when it is let go on once more.
func (s *served) firing() {
	mcp.AddTool(s.mcp, &mcp.Tool{Name: "firing"}, func(ctx context.Context, _ *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
		s.reached <- struct{}{}
		<-s.goOn
		err := tidingsmcp.CurrentCall(ctx).Fire("com.example/fired", []byte(`{}`))
		<-s.goOn
		return &mcp.CallToolResult{}, nil, err
	})
}

const callFiring = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"firing","arguments":{},"notificationConfig":{"routes":[` +
	`{"id":"session","type":"message","triggers":["com.example/fired"]},` +
	`{"id":"desk","type":"callback","endpoint":"desk","triggers":["com.example/fired"]}]}}}`

// withDesk is a server whose clients may be told in their session or at a desk.
func withDesk(t *testing.T) (server *served, desk *tidings.Outlet) {
	t.Helper()
	hub := open(t, file(t))
	server = serve(t, hub, tidingsmcp.Options{Routes: []string{"message", "callback"}, Open: []string{"desk"}})
	server.firing()
	desk, err := hub.Outlet(tidings.Offer{RouteType: "callback", Name: "desk"})
	if err != nil {
		t.Fatal(err)
	}
	return server, desk
}

// What is sent into a session that its client is ending is not delivered: nobody reads it, and the SDK does not say so. The next route
// has its turn.
func TestAMessageForASessionThatEndsGoesToTheNextRoute(t *testing.T) {
	ctx := background(t)
	server, desk := withDesk(t)
	sdk := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server.mcp }, &mcp.StreamableHTTPOptions{EventStore: server.store})
	deleting := make(chan struct{})
	inner := http.HandlerFunc(func(response http.ResponseWriter, request *http.Request) {
		if request.Method == http.MethodDelete {
			close(deleting)
		}
		sdk.ServeHTTP(response, request)
	})
	client, _ := connect(t, ctx, listen(t, tidingsmcp.Handler(inner, server.store)))
	client.post(callFiring)
	<-server.reached
	ended := make(chan *answer)
	go func() { ended <- client.send(http.MethodDelete, "", nil) }()
	<-deleting
	// The session is there as long as its call runs.
	server.goOn <- struct{}{}
	answered(t, ctx, desk)
	server.goOn <- struct{}{}
	if status := (<-ended).status; status != http.StatusNoContent {
		t.Error(status)
	}
}

// The same where the store does not keep what is sent until somebody listens.
func TestAMessageThatCannotBeKeptGoesToTheNextRoute(t *testing.T) {
	ctx := background(t)
	server, desk := withDesk(t)
	client, _ := connect(t, ctx, listen(t, server.handler()))
	// The session's own stream is there from its first message on.
	if err := server.store.Append(ctx, client.session, "", []byte(`{"jsonrpc":"2.0","method":"notifications/message"}`)); err != nil {
		t.Fatal(err)
	}
	flushed := refuse(t, ctx, server, client.session, "_0")
	if err := server.store.Append(ctx, client.session, "", []byte(`{"jsonrpc":"2.0","method":"notifications/message"}`)); err != nil {
		t.Fatal(err)
	}
	flushed()
	call := client.post(callFiring)
	<-server.reached
	server.goOn <- struct{}{}
	answered(t, ctx, desk)
	server.goOn <- struct{}{}
	call.rest()
}
