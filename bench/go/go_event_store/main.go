// The SDK's own MemoryEventStore beside ours: the same messages of the same streams, in one process run.
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidings-mcp/tidings/bench/go/internal/report"
	tidings "github.com/tidings-mcp/tidings/bindings/go"
	"github.com/tidings-mcp/tidings/bindings/go/tidingsmcp"
)

// replayed is how many messages a client that was cut off has missed.
const replayed = 98

func main() {
	count, replays := 100_000, 500
	if report.Quick() {
		count, replays = 10_000, 50
	}
	ctx := context.Background()
	folder := report.Must(os.MkdirTemp("", "tidings-bench"))
	defer os.RemoveAll(folder)
	durable := report.Must(tidings.Open(ctx, "sqlite:"+folder+"/tidings.db"))
	defer durable.Close()
	memory := report.Must(tidings.Open(ctx, "memory:"))
	defer memory.Close()

	theirs := mcp.NewMemoryEventStore(nil)
	theirs.SetMaxBytes(1 << 32) // nothing is purged: that would be another job
	ours, inMemory := tidingsmcp.NewEventStore(durable), tidingsmcp.NewEventStore(memory)
	message := []byte(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"p","progress":12345,"message":"` +
		fmt.Sprintf("%080d", 0) + `"}}`)

	round := 0
	fill := func(store mcp.EventStore) {
		stream := fmt.Sprint("S", round)
		report.Must(0, store.Open(ctx, "session", stream))
		for range count {
			report.Must(0, store.Append(ctx, "session", stream, message))
		}
	}
	next := func() { round++ }
	flush := func() {
		report.Must(0, durable.Flush(ctx, tidings.Process))
		report.Must(0, memory.Flush(ctx, tidings.Process))
	}
	appended := report.Each(count, next, func() { fill(theirs) }, func() { fill(inMemory) }, flush,
		func() { fill(ours) }, flush, func() { next(); fill(ours); report.Must(0, durable.Flush(ctx, tidings.Process)) })

	last := round - 1
	replay := func(store mcp.EventStore) func() {
		return func() {
			for range replays {
				found := 0
				for _, err := range store.After(ctx, "session", fmt.Sprint("S", last), count-1-replayed) {
					report.Must(0, err)
					found++
				}
				if found != replayed {
					log.Fatalf("%d messages", found)
				}
			}
		}
	}
	after := report.Each(replays, replay(theirs), replay(inMemory), replay(ours))
	if ours.Failures()+inMemory.Failures() != 0 {
		log.Fatal("messages were not kept")
	}

	fmt.Printf("%s; messages of %d bytes; nanoseconds, median of %d rounds with their range.\n\n", report.Machine(), len(message),
		report.Rounds())
	report.Row("", "`MemoryEventStore`", "ours, `memory:`", "ours, `sqlite:`")
	report.Row("---", "---", "---", "---")
	report.Row("one `Append`, to its return", report.Spread(appended[1]), report.Spread(appended[2]), report.Spread(appended[4]))
	report.Row("the same, to the commit", "", "", report.Spread(appended[6]))
	report.Row(fmt.Sprintf("`After` with %d of %d messages", replayed, count), report.Spread(after[0]), report.Spread(after[1]),
		report.Spread(after[2]))
}
