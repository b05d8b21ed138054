package tidingsmcp

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	tidings "github.com/tidings-mcp/tidings/bindings/go"
)

const (
	// replayPage is how many events are read at once in a replay.
	replayPage = 256
	// replayWithin is how long a replay waits for what was appended before to be committed.
	replayWithin = 10 * time.Second
)

// After are the messages after an index, once all that was appended before is committed.
func (s *EventStore) After(ctx context.Context, sessionID, streamID string, index int) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		replay := &replay{store: s, index: index, yield: func(data []byte) bool { return yield(data, nil) }}
		if front := frontIn(ctx); front != nil && front.store == s && index >= 0 {
			replay.out = front.out
		}
		if err := replay.run(ctx, sessionID, streamID); err != nil {
			yield(nil, fmt.Errorf("replaying stream %q of session %q after %d: %w", streamID, sessionID, index, err))
		}
	}
}

// replay is one run through the messages after an index.
type replay struct {
	store *EventStore
	index int
	// out is the response that the messages go to, where it can tell a gap; nil where only the SDK's own word for it is left.
	out   *frameWriter
	yield func([]byte) bool
	// told is how many messages the SDK was given.
	told int
}

func (r *replay) run(ctx context.Context, sessionID, streamID string) error {
	if r.store.isBroken(sessionID, streamID) {
		return mcp.ErrEventsPurged
	}
	ctx, cancel := context.WithTimeout(ctx, replayWithin)
	defer cancel()
	// Readers see what is committed.
	if err := r.store.hub.Flush(ctx, tidings.Process); err != nil {
		return err
	}
	stored, err := r.store.hub.Stream(scopeOf(sessionID), nameOf(streamID))
	if err != nil {
		return err
	}
	place, next := tidings.Earliest, uint64(0)
	if r.index >= 0 {
		place, next = tidings.AfterSeq(uint64(r.index)), uint64(r.index)+1
	}
	for {
		page, err := stored.Read(ctx, place, replayPage)
		switch {
		case errors.Is(err, tidings.ErrUnknownCursor) && r.index < 0:
			return nil // nothing was said on it yet
		case errors.Is(err, tidings.ErrUnknownCursor), errors.Is(err, tidings.ErrAhead):
			return mcp.ErrEventsPurged
		case err != nil:
			return err
		case page.Gap != nil:
			goesOn, err := r.gap(page.Gap, next)
			if err != nil || !goesOn {
				return err
			}
			next = *page.Gap.Earliest
		}
		for _, event := range page.Events {
			if event.Seq != next {
				return mcp.ErrEventsPurged
			}
			next++
			data := event.Payload
			if event.Type != messageEvent {
				data = nil
			} else {
				r.told++
			}
			if !r.yield(data) {
				return nil
			}
		}
		if len(page.Events) < replayPage {
			return nil
		}
		place = tidings.AfterCursor(page.Cursor)
	}
}

// gap tells that the messages from next on are missing, up to the earliest one that is there. To the SDK that is one message.
func (r *replay) gap(gap *tidings.Gap, next uint64) (goesOn bool, err error) {
	if r.out == nil || gap.Earliest == nil || *gap.Earliest <= next {
		return false, fmt.Errorf("%w: %w", mcp.ErrEventsPurged, gap)
	}
	r.told++
	// The SDK's index of this message, which is to have the store's of the last one that is missing.
	index := r.index + r.told
	r.out.shiftFrom(index, int(*gap.Earliest)-1-index)
	return r.yield(gapFrame(gap)), nil
}

// gapFrame is how a client is told of a gap.
func gapFrame(gap *tidings.Gap) []byte {
	params := map[string]any{"reason": gap.Reason}
	if gap.Earliest != nil {
		params["earliestSeq"] = *gap.Earliest
	}
	if gap.Head != nil {
		params["headSeq"] = *gap.Head
	}
	return frameOf(gapMethod, mustJSON(params))
}

func (s *EventStore) isBroken(sessionID, streamID string) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	held := s.sessions[sessionID]
	if held == nil || held.streams[streamID] == nil {
		return false
	}
	found := held.streams[streamID]
	found.mu.Lock()
	defer found.mu.Unlock()
	return found.broken
}
