package tidings

/*
#include <tidings.h>

// Of log_told.go, by the types that cgo has for it.
extern void tidingsGoTold(int32_t level, char *target, size_t target_len, char *message, size_t message_len);

static void tidings_go_log(void *user_data, int32_t level, const char *target, size_t target_len, const char *message,
                           size_t message_len) {
  (void)user_data;
  tidingsGoTold(level, (char *)target, target_len, (char *)message, message_len);
}

static tidings_result tidings_go_logger(tidings_logger **logger) {
  return tidings_logger_new(tidings_go_log, NULL, NULL, logger);
}
*/
import "C"

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// keptLines is how many lines wait for a logger; then the newest are lost, and the next line says how many.
const keptLines = 256

// A line on its way from the thread that logged it, which must not wait, to the logger.
type line struct {
	at              time.Time
	level           slog.Level
	target, message string
}

// There is one log, as there is one library in a process.
var journal = struct {
	// Over SetLogger.
	mu     sync.Mutex
	handle *C.tidings_logger
	start  sync.Once

	logger atomic.Pointer[slog.Logger]
	lines  chan line
	lost   atomic.Uint64
}{lines: make(chan line, keptLines)}

// SetLogger has logger told what the library logs, of every hub of the process: warnings and errors, such as that the store fails
// or an endpoint is disabled. Nil, as at first, is nobody. The attribute `target` is the part of the library, such as
// `tidings.store_sqlite.writer`; `lost`, where it is there, is how many lines before this one the logger was too slow for. No line
// holds a payload, a secret or an address.
//
// The logger is called by one goroutine, at any time, and may use this package; lines that wait go to whichever logger is set when
// their turn comes.
func SetLogger(logger *slog.Logger) error {
	journal.mu.Lock()
	defer journal.mu.Unlock()
	journal.logger.Store(logger)
	if logger == nil {
		C.tidings_logger_free(journal.handle)
		journal.handle = nil
		return nil
	}
	if journal.handle != nil {
		return nil
	}
	journal.start.Do(func() { go tellLines() })
	return attempt(func() C.tidings_result { return C.tidings_go_logger(&journal.handle) })
}

func tellLines() {
	for line := range journal.lines {
		if logger := journal.logger.Load(); logger != nil {
			line.tell(logger.Handler(), journal.lost.Swap(0))
		}
	}
}

func (l line) tell(handler slog.Handler, lost uint64) {
	ctx := context.Background()
	if !handler.Enabled(ctx, l.level) {
		return
	}
	record := slog.NewRecord(l.at, l.level, l.message, 0)
	record.AddAttrs(slog.String("target", l.target))
	if lost > 0 {
		record.AddAttrs(slog.Uint64("lost", lost))
	}
	// Whoever wrote the handler knows better than this package what to do about its error.
	_ = handler.Handle(ctx, record)
}
