// A server whose clients lose nothing, of both eras at one address:
//
//	go run ./examples/server -listen 127.0.0.1:8000 -store tidings.db
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	tidings "github.com/tidings-mcp/tidings/bindings/go"
	"github.com/tidings-mcp/tidings/bindings/go/tidingsmcp"
)

// modern is the revision from which on requests over HTTP have no session.
const modern = "2026-07-28"

func main() {
	address := flag.String("listen", "127.0.0.1:8000", "where to listen")
	store := flag.String("store", "tidings.db", "the file that everything is kept in")
	hooks := flag.Bool("local-hooks", false, "webhooks may go to this machine, by http and unverified: for trying it out")
	keep := flag.Int("keep", 0, "events kept of each stream; 0 sets no limit")
	flag.Parse()
	log.Fatal(serve(*address, *store, *hooks, *keep))
}

func serve(address, store string, hooks bool, keep int) error {
	var options []tidings.Option
	if hooks {
		options = append(options, tidings.WithAllowedNetwork("127.0.0.0/8"), tidings.WithHTTP(), tidings.WithVerify("address"))
	}
	if keep != 0 {
		options = append(options, tidings.WithKeptEvents(keep))
	}
	hub, err := tidings.Open(context.Background(), "sqlite:"+store, options...)
	if err != nil {
		return err
	}
	defer hub.Close()

	server := mcp.NewServer(&mcp.Implementation{Name: "reports", Version: "1.0.0"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "report", Description: "Works on a report, step by step."}, report)
	err = tidingsmcp.Attach(server, hub, tidingsmcp.Options{
		Routes: []string{"webhook", "message"},
		// A client that knows tasks gets one at once; for any other it is a plain call.
		Tasks:       &tidingsmcp.Tasks{Tools: map[string]tidingsmcp.TaskMode{"report": tidingsmcp.Always}},
		TasksStream: true,
	})
	if err != nil {
		return err
	}

	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	fmt.Printf("http://%s\n", listener.Addr())
	return http.Serve(listener, handler(server, tidingsmcp.NewEventStore(hub)))
}

// handler has the SDK's handler with sessions for clients of up to 2025-11-25, and its stateless one for those after them.
func handler(server *mcp.Server, store *tidingsmcp.EventStore) http.Handler {
	always := func(*http.Request) *mcp.Server { return server }
	sessions := mcp.NewStreamableHTTPHandler(always, &mcp.StreamableHTTPOptions{EventStore: store})
	stateless := mcp.NewStreamableHTTPHandler(always, &mcp.StreamableHTTPOptions{Stateless: true})
	byEra := http.HandlerFunc(func(response http.ResponseWriter, request *http.Request) {
		if request.Header.Get("Mcp-Protocol-Version") >= modern {
			stateless.ServeHTTP(response, request)
		} else {
			sessions.ServeHTTP(response, request)
		}
	})
	return tidingsmcp.Handler(byEra, store)
}

type reportInput struct {
	Steps  int `json:"steps,omitempty" jsonschema:"how many steps it takes; 5 if it is not told"`
	StepMs int `json:"stepMs,omitempty" jsonschema:"how long each takes, in milliseconds; 1000 if it is not told"`
}

// report tells of each step: as progress to the client that waits, and as an event to whoever reads the task's stream.
func report(ctx context.Context, request *mcp.CallToolRequest, in reportInput) (*mcp.CallToolResult, any, error) {
	if in.Steps == 0 {
		in.Steps = 5
	}
	if in.StepMs == 0 {
		in.StepMs = 1000
	}
	for step := 1; step <= in.Steps; step++ {
		select {
		case <-time.After(time.Duration(in.StepMs) * time.Millisecond):
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		}
		told, err := json.Marshal(map[string]int{"step": step})
		if err != nil {
			return nil, nil, err
		}
		if err := tidingsmcp.CurrentCall(ctx).Emit("com.example.step", told); err != nil {
			return nil, nil, err
		}
		if token := request.Params.GetProgressToken(); token != nil {
			progress := &mcp.ProgressNotificationParams{ProgressToken: token, Progress: float64(step), Total: float64(in.Steps)}
			// A client that has gone is told by the store; the report goes on.
			_ = request.Session.NotifyProgress(ctx, progress)
		}
	}
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "The report is ready."}}}, nil, nil
}
