package tidingsmcp

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	tidings "github.com/tidings-mcp/tidings/bindings/go"
)

// triggeredMethod is that of a frame of a `message` route.
const triggeredMethod = "notifications/io.tidings/triggered"

// link is a session whose connection outlives its requests: it can be told something at any time.
type link struct {
	*attachment
	session *mcp.ServerSession
	front   *front
	// store keeps what a session over HTTP is sent until its client listens; nil for other transports.
	store *EventStore
	// doorbell is nil where the session's client is not at the other end of stdin, or cannot be rung.
	doorbell *tidings.StdioPeer

	mu   sync.Mutex
	over bool
	// seat and listener are nil for a session that asks by `subscriptions/listen` only.
	seat      *seat
	listener  *tidings.Listener
	profile   *tidings.Profile
	principal string
	open      bool
	uris      map[string]bool
	// outlets take deliveries for the session, under a name that is random and never on the wire: a client reaches its own session by
	// naming none.
	outlets []*tidings.Outlet
	name    string
}

// rings tells whether the session's client can be rung.
func (l *link) rings() bool { return l != nil && l.doorbell != nil }

func (a *attachment) linkOf(session *mcp.ServerSession) *link {
	found, _ := a.links.Load(session)
	known, _ := found.(*link)
	return known
}

// linkFor is the link of a session; nil where nothing can be sent once the request is over: requests without a session, and over HTTP
// where no event store of ours keeps what is sent until the client listens.
func (a *attachment) linkFor(session *mcp.ServerSession, through *front, modern bool) *link {
	if through == nil {
		return nil
	}
	if through.overHTTP() && (modern || session.ID() == "" || through.store == nil || !through.store.lives(session.ID())) {
		return nil
	}
	if known := a.linkOf(session); known != nil {
		return known
	}
	fresh := &link{attachment: a, session: session, front: &front{}, uris: map[string]bool{}}
	if through.overHTTP() {
		fresh.store = through.store
	}
	if through.stdin {
		fresh.doorbell = a.doorbell()
	}
	found, known := a.links.LoadOrStore(session, fresh)
	made := found.(*link)
	if !known {
		go func() {
			_ = session.Wait()
			made.leave()
		}()
	}
	return made
}

// follow takes a session among those that are told what is published. Whatever keeps it from that (a version that we do not know, a
// hub that is closed), the session goes on without.
func (a *attachment) follow(session *mcp.ServerSession, asked *mcp.ServerRequest[*mcp.InitializeParams], result *mcp.InitializeResult) *link {
	made := a.linkFor(session, frontOf(asked.Extra), false)
	if made == nil {
		return nil
	}
	server, err := json.Marshal(result.Capabilities)
	if err != nil {
		return made
	}
	client, err := json.Marshal(asked.Params.Capabilities)
	if err != nil {
		return made
	}
	profile, err := tidings.NewProfile(result.ProtocolVersion, server, client)
	if err != nil {
		return made
	}
	made.mu.Lock()
	defer made.mu.Unlock()
	made.profile, made.principal = profile, a.asker(session, asked.Extra).name
	made.join()
	return made
}

// join takes a seat at the desk. With mu.
func (l *link) join() {
	if l.over {
		return
	}
	taken, err := l.shared.desk.join(l.hub, l.principal, l.write, l.again)
	if err != nil {
		return
	}
	listener, err := taken.peer.Attend(l.profile)
	if err != nil {
		taken.leave()
		return
	}
	l.seat, l.listener = taken, listener
	if l.open {
		_ = listener.Open()
	}
	for uri := range l.uris {
		_ = listener.Subscribe(uri)
	}
}

// again: it was too slow and is there all the same.
func (l *link) again() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.seat != nil {
		l.seat.leave()
		l.seat, l.listener = nil, nil
	}
	l.join()
}

func (l *link) write(notice tidings.Notice) error {
	return l.front.notify(context.Background(), l.session, notice.Method, notice.Params)
}

// ready: the handshake is complete.
func (l *link) ready() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open = true
	if l.listener != nil {
		_ = l.listener.Open() // it has failed, or went with its hub
	}
}

// subscribe follows what the session is told of one resource. The SDK has accepted it.
func (l *link) subscribe(uri string, on bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if on {
		l.uris[uri] = true
	} else {
		delete(l.uris, uri)
	}
	switch {
	case l.listener == nil:
	case on:
		_ = l.listener.Subscribe(uri)
	default:
		_ = l.listener.Unsubscribe(uri)
	}
}

// place is the session as one that deliveries go through, from the first call that may need it on; "" where it cannot be one.
func (l *link) place() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over || l.name != "" {
		return l.name
	}
	name := rand.Text()
	outlet, err := l.hub.Outlet(tidings.Offer{RouteType: messageRoute, Peer: name})
	if err != nil {
		return ""
	}
	l.outlets, l.name = append(l.outlets, outlet), name
	go deliver(outlet, l.tell)
	if l.rings() {
		if outlet, err = l.hub.Outlet(tidings.Offer{RouteType: signalRoute, Peer: name}); err == nil {
			l.outlets = append(l.outlets, outlet)
			go deliver(outlet, l.ring)
		}
	}
	return name
}

// deliver takes deliveries and hands each on: 0, or why it could not be. Whether it came too late shows in the store.
func deliver(outlet *tidings.Outlet, hand func(*tidings.HostDelivery) tidings.Refusal) {
	for {
		delivery, err := outlet.Next(context.Background())
		if err != nil {
			return // the session, or the hub, is over
		}
		if refusal := hand(delivery); refusal == 0 {
			_, _ = delivery.Confirm()
		} else {
			_, _ = delivery.Refuse(refusal)
		}
	}
}

// tell sends a message. The SDK takes what nobody will read without a word, of a session that its client is ending, for one: so it is
// looked before, and after it was sent.
func (l *link) tell(delivery *tidings.HostDelivery) tidings.Refusal {
	if !l.hears() {
		return tidings.RefuseUnreachable
	}
	if l.front.notify(context.Background(), l.session, triggeredMethod, delivery.Body) != nil {
		return l.refusal()
	}
	if !l.hears() {
		return tidings.RefuseUnreachable
	}
	return 0
}

func (l *link) hears() bool { return l.store == nil || l.store.hears(l.session.ID()) }

func (l *link) ring(delivery *tidings.HostDelivery) tidings.Refusal {
	refusal, err := l.doorbell.Ring(delivery.Signal)
	if err != nil {
		return tidings.RefuseUnwanted // no such signal: the library lets none in
	}
	return refusal
}

func (l *link) refusal() tidings.Refusal {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return tidings.RefuseUnreachable
	}
	return tidings.RefuseFailed
}

// leave: the session is over. What waits for it is given up, and the next route has its turn.
func (l *link) leave() {
	l.links.Delete(l.session)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.over = true
	if l.seat != nil {
		l.seat.leave()
		l.seat, l.listener = nil, nil
	}
	for _, outlet := range l.outlets {
		_ = outlet.Close()
	}
}
