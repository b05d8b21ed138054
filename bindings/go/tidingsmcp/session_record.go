package tidingsmcp

import (
	"context"
	"encoding/json"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	tidings "github.com/tidings-mcp/tidings/bindings/go"
)

// A session's owner is on record in a stream of its own, the same in every language. Its first event names the principal. It is open
// and its writer alive exactly while the session lives somewhere; it is closed when the session is over.
const (
	ownerStream  = "owner"
	ownerEvent   = "io.tidings.session"
	deletedEvent = "io.tidings.session.deleted"
)

// recordedWithin is how long the beginning of a session waits for its record, which takes one commit.
const recordedWithin = 2 * time.Second

// recordAgain is after how long a record is written again, so that retention by age does not take it from a session in use.
const recordAgain = time.Hour

// record says whose a session is, for other processes. What cannot be kept is resumed at this process only.
func (s *EventStore) record(ctx context.Context, sessionID string, held *session) {
	owner, err := s.hub.NewWriter(scopeOf(sessionID), ownerStream)
	if err != nil {
		return
	}
	record := members{"principal": optionalJSON(s.principalIn(ctx))}.text()
	if _, err := owner.Append(ownerEvent, record, tidings.GivingUp()); err != nil {
		return
	}
	held.owner = owner
	begun := make(chan struct{})
	held.again = time.AfterFunc(s.again, func() {
		<-begun
		if s.lives(sessionID) {
			_, _ = owner.Append(ownerEvent, record, tidings.GivingUp()) // where the store is down, the next one is soon enough
			held.again.Reset(s.again)
		}
	})
	close(begun)
}

// recorded waits until a record is committed: its session's id goes out after that. Where the store takes too long the session begins
// all the same, and a resume elsewhere waits instead.
func recorded(ctx context.Context, record *tidings.Writer) {
	ctx, cancel := context.WithTimeout(ctx, recordedWithin)
	defer cancel()
	_ = record.Flush(ctx, tidings.Process)
}

// principalIn is who is authenticated; nil is nobody.
func (s *EventStore) principalIn(ctx context.Context) *string {
	return s.principal.of(auth.TokenInfoFromContext(ctx))
}

// lookUp is what the store knows of a session: whether it is on record, not over, and of whoever asks, and whether some process still
// holds it.
func (s *EventStore) lookUp(ctx context.Context, sessionID string) (owned, alive bool) {
	record, err := s.hub.Stream(scopeOf(sessionID), ownerStream)
	if err != nil {
		return false, false
	}
	tail, err := record.Follow(ctx, tidings.Earliest)
	if err != nil {
		return false, false
	}
	abandoned, err := tail.Abandoned()
	_ = tail.Close()
	if err != nil {
		return false, false
	}
	known := false
	var owner struct {
		Principal *string `json:"principal"`
	}
	for place := tidings.Earliest; ; {
		page, err := record.Read(ctx, place, replayPage)
		if err != nil {
			return false, false
		}
		for _, event := range page.Events {
			switch event.Type {
			case deletedEvent:
				return false, false
			case ownerEvent:
				known = json.Unmarshal(event.Payload, &owner) == nil
			}
		}
		// A page ends before what the store has lost, however little it holds.
		if page.Gap == nil && len(page.Events) == 0 || page.Ended {
			alive = !page.Ended && !abandoned
			break
		}
		place = tidings.AfterCursor(page.Cursor)
	}
	who := s.principalIn(ctx)
	if who == nil || owner.Principal == nil {
		// A session of somebody is never served to nobody, nor the other way round.
		return known && who == nil && owner.Principal == nil, alive
	}
	return known && *who == *owner.Principal, alive
}
