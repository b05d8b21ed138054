package tidingsmcp

import (
	"context"
	"sync"

	tidings "github.com/tidings-mcp/tidings/bindings/go"
)

// noticesAtOnce is how many are taken at a time.
const noticesAtOnce = 256

// desk is where notifications of a hub are taken for the connections of this process, and written.
type desk struct {
	mu     sync.Mutex
	outbox *tidings.Outbox
	seats  map[uint64]*seat
}

// seat is one connection, as far as it is told what is published.
type seat struct {
	desk *desk
	peer *tidings.Peer
	// write sends one notification, for as long as the connection takes.
	write func(notice tidings.Notice) error
	// late: it took longer than it may, and is no peer any more.
	late func()
}

// join takes a seat. The first one has the desk open.
func (d *desk) join(hub *tidings.Hub, principal string, write func(tidings.Notice) error, late func()) (*seat, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.outbox == nil {
		outbox, err := hub.Outbox()
		if err != nil {
			return nil, err
		}
		d.outbox, d.seats = outbox, map[uint64]*seat{}
		go d.serve(outbox)
	}
	peer, err := d.outbox.Join(principal, 0)
	if err != nil {
		return nil, err
	}
	taken := &seat{desk: d, peer: peer, write: write, late: late}
	d.seats[peer.Number()] = taken
	return taken, nil
}

// leave gives a seat back: its connection is told nothing more.
func (s *seat) leave() {
	s.desk.mu.Lock()
	delete(s.desk.seats, s.peer.Number())
	s.desk.mu.Unlock()
	_, _ = s.peer.Close() // it went with its hub, or had failed
}

// serve hands out what there is, until the hub is closed.
func (d *desk) serve(outbox *tidings.Outbox) {
	for {
		err := outbox.Ready(context.Background())
		for err == nil {
			var notices []tidings.Notice
			if notices, err = outbox.Take(noticesAtOnce); len(notices) == 0 {
				break
			}
			d.hand(notices)
		}
		if err != nil {
			d.mu.Lock()
			d.outbox, d.seats = nil, nil
			d.mu.Unlock()
			return
		}
	}
}

// hand gives each connection what is for it. Nothing more comes for one before it has written that, so that a slow one costs the others
// nothing.
func (d *desk) hand(notices []tidings.Notice) {
	bySeat := map[uint64][]tidings.Notice{}
	for _, notice := range notices {
		bySeat[notice.Peer] = append(bySeat[notice.Peer], notice)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for number, theirs := range bySeat {
		if seat := d.seats[number]; seat != nil {
			go seat.take(theirs)
		}
	}
}

func (s *seat) take(notices []tidings.Notice) {
	written := 0
	for _, notice := range notices {
		if notice.Method == "" {
			continue // the listener's end, which its request hears of by itself
		}
		if s.write(notice) != nil {
			_, _ = s.peer.Broke()
			return
		}
		written++
	}
	if inTime, err := s.peer.Written(written); err == nil && !inTime && s.late != nil {
		s.late()
	}
}
