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
		if front := frontIn(ctx); front != nil && front.store == s {
			replay.out = front.out
		}
		if err := replay.run(ctx, sessionID, streamID); err != nil {
			yield(nil, fmt.Errorf("replaying stream %q of session %q after %d: %w", streamID, sessionID, index, err))
		} else if replay.out != nil && replay.told == 0 {
			replay.out.opens()
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
	// next is the index of the message that the client lacks.
	next uint64
}

func (r *replay) run(ctx context.Context, sessionID, streamID string) error {
	r.next = uint64(r.index + 1)
	end, here, err := r.store.end(sessionID, streamID)
	if err != nil || here && r.next > end {
		return mcp.ErrEventsPurged
	}
	goesOn, err := r.stored(ctx, sessionID, streamID, here)
	if err != nil || !goesOn || !here || r.next >= end {
		return err
	}
	// The others went out, and the store did not take them.
	head := end - 1
	_, err = r.gap(&tidings.Gap{Reason: tidings.GapLost, Earliest: &end, Head: &head})
	return err
}

// stored hands out what the store has. here: its writer is in this process, so that there is such a stream.
func (r *replay) stored(ctx context.Context, sessionID, streamID string, here bool) (goesOn bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, replayWithin)
	defer cancel()
	// Readers see what is committed.
	if err := r.store.hub.Flush(ctx, tidings.Process); err != nil {
		return false, err
	}
	stored, err := r.store.hub.Stream(scopeOf(sessionID), nameOf(streamID))
	if err != nil {
		return false, err
	}
	place := tidings.Earliest
	if r.index >= 0 {
		place = tidings.AfterSeq(uint64(r.index))
	}
	for {
		page, err := stored.Read(ctx, place, replayPage)
		switch {
		case errors.Is(err, tidings.ErrUnknownCursor) && (here || r.index < 0):
			return true, nil // it has nothing of it
		case errors.Is(err, tidings.ErrAhead) && here:
			return true, nil // nothing more of it
		case errors.Is(err, tidings.ErrUnknownCursor), errors.Is(err, tidings.ErrAhead):
			return false, mcp.ErrEventsPurged
		case err != nil:
			return false, err
		}
		if goesOn, err := r.page(page); err != nil || !goesOn {
			return false, err
		}
		if page.Head == nil || r.next > *page.Head {
			return true, nil
		}
		place = tidings.AfterCursor(page.Cursor)
	}
}

// page hands out what was read at once. It ends before a gap, however little that is.
func (r *replay) page(page *tidings.Page) (goesOn bool, err error) {
	gap := page.Gap
	if gap == nil && len(page.Events) > 0 && page.Events[0].Seq > r.next {
		// A reader from the start is not told by the store what retention took.
		gap = &tidings.Gap{Reason: tidings.GapEvicted, Earliest: &page.Events[0].Seq, Head: page.Head}
	} else if gap == nil && len(page.Events) == 0 && page.Head != nil && *page.Head >= r.next {
		after := *page.Head + 1
		gap = &tidings.Gap{Reason: tidings.GapEvicted, Earliest: &after, Head: page.Head}
	}
	if gap != nil {
		if goesOn, err := r.gap(gap); err != nil || !goesOn {
			return goesOn, err
		}
	}
	for _, event := range page.Events {
		if event.Seq != r.next {
			return false, mcp.ErrEventsPurged
		}
		r.next++
		data := event.Payload
		if event.Type != messageEvent {
			data = nil
		} else {
			r.told++
		}
		if !r.yield(data) {
			return false, nil
		}
	}
	return true, nil
}

// gap tells that the next messages are missing, up to the earliest one that is there. To the SDK that is one message.
func (r *replay) gap(gap *tidings.Gap) (goesOn bool, err error) {
	if r.out == nil || gap.Earliest == nil || *gap.Earliest <= r.next {
		return false, fmt.Errorf("%w: %w", mcp.ErrEventsPurged, gap)
	}
	r.told++
	// The SDK's index of this message, which is to have the store's of the last one that is missing.
	index := r.index + r.told
	r.out.shiftFrom(index, int(*gap.Earliest)-1-index)
	r.next = *gap.Earliest
	return r.yield(gapFrame(gap)), nil
}

// gapFrame is how a client is told of a gap.
func gapFrame(gap *tidings.Gap) []byte {
	params := members{"reason": textJSON(string(gap.Reason))}
	if gap.Earliest != nil {
		params["earliestSeq"] = numberJSON(*gap.Earliest)
	}
	if gap.Head != nil {
		params["headSeq"] = numberJSON(*gap.Head)
	}
	return frameOf(gapMethod, params.text())
}

// end is the index that the SDK gives the next message of a stream whose writer is here. An error: nobody has counted.
func (s *EventStore) end(sessionID, streamID string) (end uint64, here bool, err error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	held := s.sessions[sessionID]
	if held == nil || held.streams[streamID] == nil {
		return 0, false, nil
	}
	found := held.streams[streamID]
	found.mu.Lock()
	defer found.mu.Unlock()
	if found.uncounted {
		return 0, true, mcp.ErrEventsPurged
	}
	return found.next, true, nil
}
