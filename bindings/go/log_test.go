package tidings_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	tidings "github.com/tidings-mcp/tidings/bindings/go"
)

// lines is a handler that hands over what it gets.
type lines chan slog.Record

func (l lines) Enabled(context.Context, slog.Level) bool { return true }
func (l lines) WithAttrs([]slog.Attr) slog.Handler       { return l }
func (l lines) WithGroup(string) slog.Handler            { return l }

func (l lines) Handle(_ context.Context, record slog.Record) error {
	l <- record
	return nil
}

// provoke has the library warn so many times: another writer of a new stream is refused, and its event dropped.
func provoke(t *testing.T, times int) {
	t.Helper()
	hub := open(t, "memory:")
	for range 1 + times {
		writer, err := hub.NewWriter("s", "n")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := writer.Append("com.example.step", []byte("{}")); err != nil {
			t.Fatal(err)
		}
		_ = writer.Flush(t.Context(), tidings.Process)
	}
	// Its threads have ended then, and log nothing later.
	if err := hub.Close(); err != nil {
		t.Fatal(err)
	}
}

func setLogger(t *testing.T, logger *slog.Logger) {
	t.Helper()
	if err := tidings.SetLogger(logger); err != nil {
		t.Fatal(err)
	}
}

func TestALoggerIsToldWhatTheLibraryLogs(t *testing.T) {
	first, second := make(lines, 8), make(lines, 8)
	t.Cleanup(func() { setLogger(t, nil) })
	setLogger(t, slog.New(first))
	provoke(t, 1)
	record := <-first
	if record.Level != slog.LevelWarn || !strings.HasPrefix(record.Message, "a writer was refused; its buffered events are dropped stream=") {
		t.Errorf("%v %q", record.Level, record.Message)
	}
	record.Attrs(func(attribute slog.Attr) bool {
		if attribute.Key != "target" || attribute.Value.String() != "tidings.committer" {
			t.Errorf("%v", attribute)
		}
		return true
	})
	if record.NumAttrs() != 1 || record.Time.IsZero() {
		t.Errorf("%v", record)
	}

	// Another takes over, and the first is told nothing more.
	setLogger(t, slog.New(second))
	provoke(t, 1)
	<-second
	setLogger(t, nil)
	provoke(t, 1)
	setLogger(t, slog.New(second))
	provoke(t, 1)
	<-second
	if len(first) != 0 || len(second) != 0 {
		t.Errorf("%d and %d more lines", len(first), len(second))
	}
}

func TestASlowLoggerHoldsNobodyUpAndIsToldWhatItMissed(t *testing.T) {
	const times = 300
	told, leave := make(lines, times), make(chan struct{})
	t.Cleanup(func() { setLogger(t, nil) })
	setLogger(t, slog.New(slow{told, leave}))
	provoke(t, times) // returns although the logger does not
	close(leave)
	accounted := 0
	for accounted < times {
		record := <-told
		accounted++
		record.Attrs(func(attribute slog.Attr) bool {
			if attribute.Key == "lost" {
				accounted += int(attribute.Value.Uint64())
			}
			return true
		})
	}
	if accounted != times {
		t.Errorf("%d lines, told and lost, of %d", accounted, times)
	}
}

// slow takes its lines only when it may.
type slow struct {
	lines
	leave chan struct{}
}

func (s slow) Handle(ctx context.Context, record slog.Record) error {
	<-s.leave
	return s.lines.Handle(ctx, record)
}

func TestALoggerMayUseThePackage(t *testing.T) {
	done := make(chan error)
	t.Cleanup(func() { setLogger(t, nil) })
	setLogger(t, slog.New(handlerOf(func() { done <- tidings.SetLogger(nil) })))
	provoke(t, 1)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

type handlerOf func()

func (handlerOf) Enabled(context.Context, slog.Level) bool { return true }
func (h handlerOf) WithAttrs([]slog.Attr) slog.Handler     { return h }
func (h handlerOf) WithGroup(string) slog.Handler          { return h }

func (h handlerOf) Handle(context.Context, slog.Record) error {
	h()
	return nil
}
