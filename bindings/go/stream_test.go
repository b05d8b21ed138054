package tidings_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"
	"testing"
	"time"

	tidings "github.com/tidings-mcp/tidings/bindings/go"
)

// Far above what anything here takes: it only ends what hangs.
const hangs = 2 * time.Minute

func background(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), hangs)
	t.Cleanup(cancel)
	return ctx
}

func open(t *testing.T, url string, options ...tidings.Option) *tidings.Hub {
	t.Helper()
	hub, err := tidings.Open(background(t), url, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := hub.Shutdown(context.Background(), hangs); err != nil && !errors.Is(err, tidings.ErrClosed) {
			t.Error(err)
		}
	})
	return hub
}

func file(t *testing.T) string { return "sqlite:" + t.TempDir() + "/tidings.db" }

func stream(t *testing.T, hub *tidings.Hub, scope, name string) *tidings.Stream {
	t.Helper()
	stream, err := hub.Stream(scope, name)
	if err != nil {
		t.Fatal(err)
	}
	return stream
}

func payloads(events []tidings.Event) []string {
	var found []string
	for _, event := range events {
		found = append(found, string(event.Payload))
	}
	return found
}

func TestWhatIsAppendedIsReadByteForByte(t *testing.T) {
	ctx := background(t)
	stream := stream(t, open(t, file(t)), "session:1", "answers")
	// JSON that a parser would write otherwise, the smallest there is, and bytes that are no text.
	given := [][]byte{[]byte("{ \"b\":1.0,\"a\":\"\\u00e9\"}"), []byte("0"), {'"', 0xff, 0, '"'}, bytes.Repeat([]byte("x"), 100_000)}
	for at, payload := range given {
		seq, err := stream.Append(ctx, fmt.Sprintf("com.example.%d", at), payload)
		if err != nil || seq != uint64(at) {
			t.Fatalf("append %d: %d, %v", at, seq, err)
		}
	}
	page, err := stream.Read(ctx, tidings.Earliest, 100)
	if err != nil || page.Gap != nil || page.Ended || len(page.Events) != len(given) {
		t.Fatalf("read: %+v, %v", page, err)
	}
	for at, event := range page.Events {
		if event.Seq != uint64(at) || event.Type != fmt.Sprintf("com.example.%d", at) || !bytes.Equal(event.Payload, given[at]) {
			t.Errorf("event %d: %d %s %q", at, event.Seq, event.Type, event.Payload)
		}
		if event.Identity() != (tidings.Identity{}) {
			t.Errorf("event %d belongs to %+v", at, event.Identity())
		}
	}
}

func TestIdentityKeyAndClose(t *testing.T) {
	ctx := background(t)
	stream := stream(t, open(t, "memory:"), "task:1", "events")
	whose := tidings.Identity{Task: "1", Session: "é", ToolCall: "c"}
	for range 2 {
		first, err := stream.AppendAll(ctx, "com.example.x", [][]byte{[]byte("1"), []byte("2")},
			tidings.WithKey("once"), tidings.WithIdentity(whose), tidings.WithDurability(tidings.Disk))
		if err != nil || first != 0 {
			t.Fatal(first, err)
		}
	}
	if _, err := stream.Append(ctx, "com.example.x", []byte("3"), tidings.WithKey("")); !errors.Is(err, tidings.ErrInvalidArgument) {
		t.Errorf("an empty key: %v", err)
	}
	if seq, err := stream.Append(ctx, "com.example.x", []byte("3"), tidings.AndClose()); err != nil || seq != 2 {
		t.Fatal(seq, err)
	}
	page, err := stream.Read(ctx, tidings.Earliest, 10)
	if err != nil || !page.Ended || len(page.Events) != 3 {
		t.Fatalf("%+v, %v", page, err)
	}
	if page.Events[1].Identity() != whose {
		t.Errorf("%+v", page.Events[1].Identity())
	}
	if _, err := stream.Append(ctx, "com.example.x", []byte("4")); !errors.Is(err, tidings.ErrClosed) {
		t.Errorf("after the close: %v", err)
	}
}

func TestATailGoesOnLiveAfterACursor(t *testing.T) {
	ctx := background(t)
	hub := open(t, file(t))
	writer, err := hub.NewWriter("session:1", "answers")
	if err != nil {
		t.Fatal(err)
	}
	append := func(payload string, options ...tidings.AppendOption) uint64 {
		t.Helper()
		seq, err := writer.Append("message", []byte(payload), options...)
		if err != nil {
			t.Fatal(err)
		}
		return seq
	}
	append("0")
	cursor, err := writer.Cursor(append("1"))
	if err != nil {
		t.Fatal(err)
	}
	append("2")
	if err := writer.Flush(ctx, tidings.Process); err != nil {
		t.Fatal(err)
	}
	var read []string
	// The loop's own body appends what it reads next: there is nothing but live events to read by then.
	for event, err := range stream(t, hub, "session:1", "answers").Tail(ctx, tidings.AfterCursor(cursor)) {
		if err != nil {
			t.Fatal(err)
		}
		read = appendText(read, event)
		switch len(read) {
		case 1:
			append("3")
		case 2:
			append("4", tidings.AndClose())
		}
	}
	if got := fmt.Sprint(read); got != "[2 3 4]" {
		t.Errorf("read %s", got)
	}
	if !writer.Closed() {
		t.Error("the writer of a closed stream is open")
	}
}

func appendText(list []string, event tidings.Event) []string {
	return append(list, string(event.Payload))
}

func TestEveryCursorResumesExactly(t *testing.T) {
	ctx := background(t)
	hub := open(t, "memory:")
	stream := stream(t, hub, "s", "n")
	for at := range 20 {
		if _, err := stream.Append(ctx, "message", fmt.Append(nil, at)); err != nil {
			t.Fatal(err)
		}
	}
	// Beyond what crosses: as much as there is.
	page, err := stream.Read(ctx, tidings.Earliest, 1<<32+1)
	if err != nil {
		t.Fatal(err)
	}
	all := payloads(page.Events)
	for at, event := range page.Events {
		cursor, err := event.Cursor()
		if err != nil {
			t.Fatal(err)
		}
		for _, place := range []tidings.Place{tidings.AfterCursor(cursor), tidings.AfterSeq(event.Seq)} {
			rest, err := stream.Read(ctx, place, 20)
			if err != nil || rest.Gap != nil || fmt.Sprint(payloads(rest.Events)) != fmt.Sprint(all[at+1:]) {
				t.Errorf("after %d: %+v, %v", at, rest, err)
			}
		}
	}
	last, err := page.Events[19].Cursor()
	if err != nil || last != page.Cursor {
		t.Errorf("%q, %q, %v", last, page.Cursor, err)
	}
}

func TestErrorsCarryTheirCode(t *testing.T) {
	ctx := background(t)
	hub := open(t, "memory:")
	made := stream(t, hub, "s", "n")
	if _, err := made.Append(ctx, "message", []byte("0")); err != nil {
		t.Fatal(err)
	}
	for name, check := range map[string]struct {
		do   func() error
		code tidings.Code
	}{
		"a url of no store": {func() error { _, err := tidings.Open(ctx, "redis:"); return err }, tidings.ErrInvalidArgument},
		"an option that breaks a rule": {func() error {
			_, err := tidings.Open(ctx, "memory:", tidings.WithVerify("never"))
			return err
		}, tidings.ErrInvalidArgument},
		"a negative number": {func() error {
			_, err := tidings.Open(ctx, "memory:", tidings.WithConcurrency(-1))
			return err
		}, tidings.ErrInvalidArgument},
		"text that is not UTF-8": {func() error { _, err := hub.Stream("\xff", "n"); return err }, tidings.ErrInvalidArgument},
		"a limit of nothing":     {func() error { _, err := made.Read(ctx, tidings.Earliest, 0); return err }, tidings.ErrInvalidArgument},
		"a cursor of nothing":    {func() error { _, err := hub.Resume(ctx, "s", "nonsense"); return err }, tidings.ErrUnknownCursor},
		"a place beyond all":     {func() error { _, err := made.Read(ctx, tidings.AfterSeq(7), 1); return err }, tidings.ErrAhead},
		"a place beyond numbers": {func() error { _, err := made.Read(ctx, tidings.AfterSeq(1<<63), 1); return err }, tidings.ErrInvalidArgument},
		"no payload at all":      {func() error { _, err := made.AppendAll(ctx, "message", nil); return err }, tidings.ErrInvalidArgument},
	} {
		err := check.do()
		var found *tidings.Error
		if !errors.Is(err, check.code) || !errors.As(err, &found) || found.Message == "" || found.Retryable() {
			t.Errorf("%s: %v", name, err)
		}
	}
	if !tidings.ErrUnavailable.Retryable() || !tidings.ErrCongested.Retryable() || tidings.Code("nonsense").Retryable() {
		t.Error("which codes are retryable")
	}
	if _, err := hub.Shutdown(ctx, hangs); err != nil {
		t.Fatal(err)
	}
	if _, err := made.Append(ctx, "message", []byte("1")); !errors.Is(err, tidings.ErrClosed) {
		t.Errorf("after the hub's close: %v", err)
	}
	if err := hub.Close(); err != nil {
		t.Errorf("closing again: %v", err)
	}
}

func TestAContextThatEndsLosesNothing(t *testing.T) {
	ctx := background(t)
	hub := open(t, "memory:")
	made := stream(t, hub, "s", "n")
	if _, err := made.Append(ctx, "message", []byte("0")); err != nil {
		t.Fatal(err)
	}
	tail, err := made.Follow(ctx, tidings.AfterSeq(0))
	if err != nil {
		t.Fatal(err)
	}
	waits, cancel := context.WithCancel(ctx)
	done := make(chan error)
	go func() {
		_, err := tail.Next(waits)
		done <- err
	}()
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if _, err := tail.Next(waits); !errors.Is(err, context.Canceled) {
		t.Errorf("with a context that has ended: %v", err)
	}
	if _, err := made.Append(ctx, "message", []byte("1")); err != nil {
		t.Fatal(err)
	}
	page, err := tail.Next(ctx)
	if err != nil || fmt.Sprint(payloads(page.Events)) != "[1]" {
		t.Fatalf("%+v, %v", page, err)
	}
	go tail.Close()
	if _, err := tail.Next(ctx); !errors.Is(err, io.EOF) {
		t.Errorf("closed: %v", err)
	}
}

func TestRetentionIsToldAsAGap(t *testing.T) {
	ctx := background(t)
	made := stream(t, open(t, "memory:", tidings.WithKeptEvents(2)), "s", "n")
	for at := range 5 {
		if _, err := made.Append(ctx, "message", fmt.Append(nil, at)); err != nil {
			t.Fatal(err)
		}
	}
	// Retention works beside the appends: how far it is by now is not ours to say, only that what it tells is true.
	var first uint64
	for event, err := range made.Tail(ctx, tidings.Earliest) {
		if err != nil {
			t.Fatal(err)
		}
		first = event.Seq
		break
	}
	page, err := made.Read(ctx, tidings.AfterSeq(0), 10)
	if err != nil {
		t.Fatal(err)
	}
	if first > 1 {
		if page.Gap == nil || page.Gap.Reason != tidings.GapEvicted || page.Gap.Earliest == nil || *page.Gap.Earliest < first ||
			page.Gap.Head == nil || *page.Gap.Head != 4 || page.Gap.Cursor == "" {
			t.Errorf("%+v", page.Gap)
		}
	} else if page.Gap == nil && page.Events[0].Seq != 1 {
		t.Errorf("%+v", page)
	}
}

func TestAClaimFencesTheWriterBefore(t *testing.T) {
	ctx := background(t)
	hub := open(t, file(t))
	before, err := hub.NewWriter("s", "n")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := before.Append("message", []byte("0")); err != nil {
		t.Fatal(err)
	}
	if err := before.Flush(ctx, tidings.Disk); err != nil {
		t.Fatal(err)
	}
	after, err := stream(t, hub, "s", "n").Claim(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if seq, err := after.Append("message", []byte("1")); err != nil || seq != 1 {
		t.Fatal(seq, err)
	}
	_, err = before.Append("message", []byte("2"))
	if err == nil {
		err = before.Flush(ctx, tidings.Process)
	}
	if !errors.Is(err, tidings.ErrFenced) {
		t.Errorf("the writer before: %v", err)
	}
	if _, err := after.Append("message", []byte("x"), tidings.WithKey("k")); !errors.Is(err, tidings.ErrInvalidArgument) {
		t.Errorf("a writer's key: %v", err)
	}
}

// Many goroutines wait, and the threads stay few: they wait in Go's poller.
func TestWaitingHoldsNoThread(t *testing.T) {
	ctx := background(t)
	hub := open(t, "memory:")
	const readers = 1_000
	tailed := stream(t, hub, "s", "n")
	if _, err := tailed.Append(ctx, "message", []byte("0")); err != nil {
		t.Fatal(err)
	}
	var over sync.WaitGroup
	for range readers {
		tail, err := tailed.Follow(ctx, tidings.AfterSeq(0))
		if err != nil {
			t.Fatal(err)
		}
		over.Go(func() {
			if page, err := tail.Next(ctx); err != nil || len(page.Events) != 1 {
				t.Errorf("%+v, %v", page, err)
			}
		})
	}
	if _, err := tailed.Append(ctx, "message", []byte("1")); err != nil {
		t.Fatal(err)
	}
	over.Wait()
	if threads, _ := runtime.ThreadCreateProfile(nil); threads > readers/2 {
		t.Errorf("%d threads for %d readers", threads, readers)
	}
}

// What nobody holds is let go of while others work; nothing is freed under who uses it.
func TestObjectsAreCollectedWhileOthersWork(t *testing.T) {
	ctx := background(t)
	hub := open(t, "memory:")
	var work sync.WaitGroup
	for worker := range 8 {
		work.Go(func() {
			for at := range 50 {
				made, err := hub.Stream("s", fmt.Sprint(worker))
				if err != nil {
					t.Error(err)
					return
				}
				if _, err := made.Append(ctx, "message", []byte("0")); err != nil {
					t.Error(err)
					return
				}
				page, err := made.Read(ctx, tidings.Earliest, 100)
				if err != nil || len(page.Events) != at+1 {
					t.Errorf("%+v, %v", page, err)
					return
				}
				if at%10 == 0 {
					runtime.GC()
				}
				if _, err := page.Events[at].Cursor(); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	work.Wait()
}
