package main

import (
	"encoding/json"
	"fmt"
	"sort"

	tidings "github.com/tidings-mcp/tidings/bindings/go"
)

// boxes are outboxes with their peers and listeners, by the names the scenario gave them.
type boxes struct {
	outboxes  map[string]*tidings.Outbox
	peers     map[string]*tidings.Peer
	listeners map[string]*tidings.Listener
	// of has the outbox of each peer.
	of map[string]string
}

func newBoxes() *boxes {
	return &boxes{map[string]*tidings.Outbox{}, map[string]*tidings.Peer{}, map[string]*tidings.Listener{}, map[string]string{}}
}

func (b *boxes) peerNamed(outbox uint32, number uint64) string {
	for name, peer := range b.peers {
		if peer.Number() == number && b.outboxes[b.of[name]].Number() == outbox {
			return name
		}
	}
	return fmt.Sprintf("peer %d of outbox %d", number, outbox)
}

func (s *stage) fanOutSteps() map[string]step {
	return map[string]step{
		"hub.outbox": taking(s.hubOutbox), "hub.notify": taking(s.notify), "hub.failed_sinks": taking(s.failedSinks),
		"outbox.add_sink": taking(s.join), "outbox.attend": taking(s.attend), "outbox.listen": taking(s.listen),
		"outbox.open": taking(func(given of) (object, error) { return object{}, s.listener(given).Open() }),
		"outbox.subscribe": taking(func(given of) (object, error) {
			return object{}, s.listener(given).Subscribe(given.URI)
		}),
		"outbox.unsubscribe": taking(func(given of) (object, error) {
			return object{}, s.listener(given).Unsubscribe(given.URI)
		}),
		"outbox.set_reachable": taking(func(given of) (object, error) {
			return object{}, s.peer(given).SetReachable(given.Reachable)
		}),
		"outbox.end":     taking(func(given of) (object, error) { return object{}, s.listener(given).End() }),
		"outbox.end_all": taking(func(given of) (object, error) { return object{}, s.outbox(given).EndAll() }),
		"outbox.cancel": taking(func(given of) (object, error) {
			ended, err := s.listener(given).Cancel()
			return object{"ended": ended}, err
		}),
		"outbox.drop_sink": taking(func(given of) (object, error) {
			listeners, err := s.peer(given).Close()
			return object{"listeners": listeners}, err
		}),
		"outbox.broke": taking(func(given of) (object, error) {
			listeners, err := s.peer(given).Broke()
			return object{"listeners": listeners}, err
		}),
		"outbox.written": taking(func(given of) (object, error) {
			alive, err := s.peer(given).Written(given.Count)
			return object{"alive": alive}, err
		}),
		"outbox.take": taking(func(given of) (object, error) {
			notices, err := s.outbox(given).Take(1_000)
			return s.told(given, notices), err
		}),
		"outbox.next": taking(s.next),
		"outbox.count": taking(func(given of) (object, error) {
			listeners, err := s.outbox(given).Listeners()
			return object{"listeners": listeners}, err
		}),
	}
}

// of names what a step is about.
type of struct {
	Outbox, Sink, Listener, URI string
	Reachable                   bool
	Count                       int
}

func (s *stage) outbox(given of) *tidings.Outbox     { return s.boxes.outboxes[given.Outbox] }
func (s *stage) peer(given of) *tidings.Peer         { return s.boxes.peers[given.Sink] }
func (s *stage) listener(given of) *tidings.Listener { return s.boxes.listeners[given.Listener] }

func (s *stage) hubOutbox(given struct{ As string }) (object, error) {
	outbox, err := s.hub.Outbox()
	s.boxes.outboxes[given.As] = outbox
	return object{}, err
}

func (s *stage) notify(given struct {
	Kinds         []string
	URI, Audience string
}) (object, error) {
	fanout, err := s.hub.Notify(tidings.Change{Kinds: given.Kinds, URI: given.URI, Audience: given.Audience})
	return object{"told": fanout.Told, "skipped": fanout.Skipped, "failed": fanout.Failed}, err
}

func (s *stage) failedSinks(struct{}) (object, error) {
	failed, err := s.hub.FailedPeers()
	names := []string{}
	for _, one := range failed {
		names = append(names, s.boxes.peerNamed(one.Outbox, one.Peer))
	}
	return object{"sinks": names}, err
}

func (s *stage) join(given struct {
	of
	As, Principal string
	DeadlineMs    int
}) (object, error) {
	peer, err := s.outbox(given.of).Join(given.Principal, ms(given.DeadlineMs))
	s.boxes.peers[given.As], s.boxes.of[given.As] = peer, given.Outbox
	return object{}, err
}

type negotiated struct{ Version, Server, Client string }

func (n negotiated) profile() (*tidings.Profile, error) {
	return tidings.NewProfile(n.Version, []byte(n.Server), []byte(n.Client))
}

func (s *stage) attend(given struct {
	of
	negotiated
	As string
}) (object, error) {
	profile, err := given.profile()
	if err != nil {
		return nil, err
	}
	s.boxes.listeners[given.As], err = s.peer(given.of).Attend(profile)
	return object{}, err
}

func (s *stage) listen(given struct {
	of
	negotiated
	As, ID, Filter string
}) (object, error) {
	profile, err := given.profile()
	if err != nil {
		return nil, err
	}
	s.boxes.listeners[given.As], err = s.peer(given.of).Listen(profile, given.ID, []byte(given.Filter))
	return object{}, err
}

func (s *stage) next(given of) (object, error) {
	var all []tidings.Notice
	for len(all) < given.Count {
		if err := s.outbox(given).Ready(s.ctx); err != nil {
			return nil, err
		}
		notices, err := s.outbox(given).Take(1_000)
		if err != nil {
			return nil, err
		}
		all = append(all, notices...)
	}
	return s.told(given, all), nil
}

// told has notices by the names of their peers, between which no order is promised.
func (s *stage) told(given of, notices []tidings.Notice) object {
	if s.outbox(given) == nil {
		return nil
	}
	names := map[uint64]string{}
	for name, listener := range s.boxes.listeners {
		names[listener.Number()] = name
	}
	told := [][]any{}
	for _, notice := range notices {
		peer := s.boxes.peerNamed(s.outbox(given).Number(), notice.Peer)
		told = append(told, []any{peer, names[notice.Listener], nullable(notice.Method), json.RawMessage(notice.Params)})
	}
	sort.SliceStable(told, func(a, b int) bool { return told[a][0].(string) < told[b][0].(string) })
	return object{"notices": told}
}
