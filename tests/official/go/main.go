// The server that the official conformance suite is run against: the official Go SDK's own, with our adapter or without.
//
//	conformance FIXTURE plain              the SDK alone, with its own store of events in memory
//	conformance FIXTURE attached DATABASE  with our event store and everything that Attach can bring, on that store
//
// It says its port and serves until its standard input ends.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	tidings "github.com/tidings-mcp/tidings/bindings/go"
	"github.com/tidings-mcp/tidings/bindings/go/tidingsmcp"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		log.Fatal(err)
	}
}

func run(arguments []string) error {
	if len(arguments) < 2 || len(arguments) < 3 && arguments[1] != "plain" {
		return fmt.Errorf("usage: conformance FIXTURE (plain | attached DATABASE)")
	}
	read, err := readFixture(arguments[0])
	if err != nil {
		return err
	}
	var handler http.Handler
	if arguments[1] == "plain" {
		handler = serving(newServer(read, ownChange), mcp.NewMemoryEventStore(nil))
	} else {
		hub, err := tidings.Open(context.Background(), "sqlite:"+arguments[2])
		if err != nil {
			return err
		}
		defer func() { _, _ = hub.Shutdown(context.Background(), 10*time.Second) }()
		server := newServer(read, func(_ *mcp.Server, list string) error {
			_, err := hub.Notify(tidings.Change{Kinds: []string{list}})
			return err
		})
		if err := tidingsmcp.Attach(server, hub, everything(read)); err != nil {
			return err
		}
		store := tidingsmcp.NewEventStore(hub)
		handler = tidingsmcp.Handler(serving(server, store), store)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	serves := &http.Server{Handler: handler}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		_ = serves.Close()
	}()
	fmt.Println(listener.Addr().(*net.TCPAddr).Port)
	if err := serves.Serve(listener); err != http.ErrServerClosed {
		return err
	}
	return nil
}

// everything is all that Attach can bring.
func everything(read *fixture) tidingsmcp.Options {
	tasks := &tidingsmcp.Tasks{Inline: 250 * time.Millisecond, Tools: map[string]tidingsmcp.TaskMode{}}
	modes := map[string]tidingsmcp.TaskMode{"always": tidingsmcp.Always, "required": tidingsmcp.Required}
	for name, tool := range read.Tools {
		if mode, is := modes[tool.Task]; is {
			tasks.Tools[name] = mode
		}
	}
	return tidingsmcp.Options{
		Routes:  []string{"webhook", "message"},
		Timeout: func(string) time.Duration { return time.Minute },
		Tasks:   tasks, TasksStream: true,
	}
}

// serving is the SDK's own handler for each era, as one that has sessions refuses requests of 2026-07-28, which have none.
func serving(server *mcp.Server, store mcp.EventStore) http.Handler {
	always := func(*http.Request) *mcp.Server { return server }
	sessions := mcp.NewStreamableHTTPHandler(always, &mcp.StreamableHTTPOptions{EventStore: store})
	modern := mcp.NewStreamableHTTPHandler(always, &mcp.StreamableHTTPOptions{Stateless: true})
	mux := http.NewServeMux()
	mux.Handle("/2025-11-25", sessions)
	mux.Handle("/2026-07-28", modern)
	return mux
}

func newServer(read *fixture, changed change) *mcp.Server {
	server := mcp.NewServer(&mcp.Implementation{Name: "conformance", Version: "1"}, &mcp.ServerOptions{
		CompletionHandler: func(context.Context, *mcp.CompleteRequest) (*mcp.CompleteResult, error) {
			return &mcp.CompleteResult{Completion: read.Completion}, nil
		},
		// The SDK keeps who subscribed.
		SubscribeHandler:   func(context.Context, *mcp.SubscribeRequest) error { return nil },
		UnsubscribeHandler: func(context.Context, *mcp.UnsubscribeRequest) error { return nil },
	})
	read.register(server, changed)
	return server
}
