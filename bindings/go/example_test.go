package tidings_test

import (
	"context"
	"fmt"
	"log"

	tidings "github.com/tidings-mcp/tidings/bindings/go"
)

// A reader that is cut off goes on where it stood.
func Example() {
	ctx := context.Background()
	hub, err := tidings.Open(ctx, "memory:") // sqlite:tidings.db keeps it, for all processes of the host
	if err != nil {
		log.Fatal(err)
	}
	defer hub.Close()
	answers, err := hub.Stream("session-1", "answers")
	if err != nil {
		log.Fatal(err)
	}
	for _, step := range []string{`{"step":1}`, `{"step":2}`, `{"step":3}`} {
		if _, err := answers.Append(ctx, "com.example.step", []byte(step)); err != nil {
			log.Fatal(err)
		}
	}
	page, err := answers.Read(ctx, tidings.Earliest, 1)
	if err != nil {
		log.Fatal(err)
	}
	if err := answers.Close(ctx); err != nil {
		log.Fatal(err)
	}
	for event, err := range answers.Tail(ctx, tidings.AfterCursor(page.Cursor)) {
		if err != nil {
			log.Fatal(err) // a *tidings.Gap says truthfully what is missing, and the loop could go on
		}
		fmt.Println(event.Seq, string(event.Payload))
	}
	// Output:
	// 1 {"step":2}
	// 2 {"step":3}
}
