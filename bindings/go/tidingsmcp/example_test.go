package tidingsmcp_test

import (
	"context"
	"log"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	tidings "github.com/tidings-mcp/tidings/bindings/go"
	"github.com/tidings-mcp/tidings/bindings/go/tidingsmcp"
)

// A server whose clients lose nothing when they are cut off, and are told of what their tools came to.
func Example() {
	hub, err := tidings.Open(context.Background(), "sqlite:tidings.db")
	if err != nil {
		log.Fatal(err)
	}
	defer hub.Close()
	server := mcp.NewServer(&mcp.Implementation{Name: "reports", Version: "1.0.0"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "report"}, report)
	err = tidingsmcp.Attach(server, hub, tidingsmcp.Options{Routes: []string{"webhook"}, TasksStream: true})
	if err != nil {
		log.Fatal(err)
	}
	store := tidingsmcp.NewEventStore(hub)
	sdk := mcp.NewStreamableHTTPHandler(
		func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{EventStore: store})
	log.Fatal(http.ListenAndServe("localhost:8080", tidingsmcp.Handler(sdk, store)))
}

func report(_ context.Context, _ *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "ready"}}}, nil, nil
}
