package tidingsmcp_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	tidings "github.com/tidings-mcp/tidings/bindings/go"
	"github.com/tidings-mcp/tidings/bindings/go/tidingsmcp"
)

// Where the time of the event store goes; bench/go has it beside the SDK's own.

var benched = fmt.Appendf(nil, `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"p","progress":12345,"message":"%080d"}}`, 0)

func openBench(b *testing.B) *tidings.Hub {
	b.Helper()
	hub, err := tidings.Open(context.Background(), "sqlite:"+b.TempDir()+"/tidings.db")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { hub.Close() })
	return hub
}

// settle has nothing of the last round be done in the next one.
func settle(b *testing.B, hub *tidings.Hub) {
	b.Helper()
	if err := hub.Flush(context.Background(), tidings.Process); err != nil {
		b.Fatal(err)
	}
}

func BenchmarkWriterAppend(b *testing.B) {
	hub := openBench(b)
	writer, err := hub.NewWriter("session", "s")
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := writer.Append("message", benched, tidings.GivingUp()); err != nil {
			b.Fatal(err)
		}
	}
	settle(b, hub)
}

func BenchmarkEventStoreAppend(b *testing.B) {
	hub := openBench(b)
	store, ctx := tidingsmcp.NewEventStore(hub), context.Background()
	if err := store.Open(ctx, "session", "s"); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := store.Append(ctx, "session", "s", benched); err != nil {
			b.Fatal(err)
		}
	}
	settle(b, hub)
}

func BenchmarkEventStoreAfter(b *testing.B) {
	hub := openBench(b)
	ctx := context.Background()
	const count, missed = 100_000, 98
	var store mcp.EventStore = tidingsmcp.NewEventStore(hub)
	if err := store.Open(ctx, "session", "s"); err != nil {
		b.Fatal(err)
	}
	for range count {
		if err := store.Append(ctx, "session", "s", benched); err != nil {
			b.Fatal(err)
		}
	}
	settle(b, hub)
	b.ReportAllocs()
	for b.Loop() {
		found := 0
		for _, err := range store.After(ctx, "session", "s", count-1-missed) {
			if err != nil {
				b.Fatal(err)
			}
			found++
		}
		if found != missed {
			b.Fatal(found)
		}
	}
}
