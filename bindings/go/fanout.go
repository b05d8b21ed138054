package tidings

/*
#include <tidings.h>
*/
import "C"

import (
	"context"
	"runtime"
	"time"
)

// A Profile is what a peer and its server negotiated.
type Profile struct{ profile *C.tidings_profile }

// NewProfile is the profile of an MCP peer: its protocol version, such as `2025-11-25`, and the capabilities of the server and
// of the client as JSON text.
func NewProfile(version string, server, client []byte) (*Profile, error) {
	profile := &Profile{}
	err := attempt(func() C.tidings_result {
		version, versionLen := chars(version)
		server, serverLen := chars(string(server))
		client, clientLen := chars(string(client))
		return C.tidings_profile_new(version, versionLen, server, serverLen, client, clientLen, &profile.profile)
	})
	if err != nil {
		return nil, err
	}
	runtime.AddCleanup(profile, func(handle *C.tidings_profile) { C.tidings_profile_free(handle) }, profile.profile)
	return profile, nil
}

// Listens tells whether peers of this version are told within acknowledged filters only: [Peer.Listen], not [Peer.Attend].
func (p *Profile) Listens() bool {
	defer runtime.KeepAlive(p)
	var listens C.int32_t
	return C.tidings_profile_listens(p.profile, &listens) == C.TIDINGS_OK && listens != 0
}

// Honoured is the part of a listener's filter (JSON text) that is honoured.
func (p *Profile) Honoured(filter []byte) ([]byte, error) {
	defer runtime.KeepAlive(p)
	var text *C.tidings_text
	err := attempt(func() C.tidings_result {
		filter, filterLen := chars(string(filter))
		return C.tidings_profile_honoured(p.profile, filter, filterLen, &text)
	})
	if err != nil {
		return nil, err
	}
	return []byte(takeText(text)), nil
}

// A Change is what [Hub.Notify] tells of.
type Change struct {
	// Kinds are `tools`, `prompts`, `resources`, `resource_templates`, `events`; and `resource`, which needs a URI.
	Kinds []string
	// URI is the resource's, for `resource`.
	URI string
	// Audience: only peers of that principal; everybody's if it is empty.
	Audience string
}

// Fanout is what a publish came to, in this process, in listeners.
type Fanout struct {
	// Told: it is queued for them, or coalesced with what was.
	Told int
	// Skipped: they did not ask for it, or may not hear of it, or cannot be reached.
	Skipped int
	// Failed: their peers were found not to have taken a notification in time.
	Failed int
}

// Notify tells everybody who asked for it that something has changed, each once; it never waits. Listeners of other processes
// on the same store are told too, and are not counted.
func (h *Hub) Notify(change Change) (Fanout, error) {
	defer runtime.KeepAlive(h)
	var given given
	defer given.release()
	kinds := make([][]byte, len(change.Kinds))
	for at, kind := range change.Kinds {
		kinds[at] = []byte(kind)
	}
	var fanout C.tidings_fanout
	err := attempt(func() C.tidings_result {
		kinds, count := given.several(kinds)
		name, nameLen := optional(change.URI)
		audience, audienceLen := optional(change.Audience)
		return C.tidings_hub_notify(h.hub, kinds, count, name, nameLen, audience, audienceLen, &fanout, C.sizeof_tidings_fanout)
	})
	return Fanout{Told: int(fanout.told), Skipped: int(fanout.skipped), Failed: int(fanout.failed)}, err
}

// A FailedPeer names a peer that did not take a notification, or not in time: by numbers that are never used again in this
// process.
type FailedPeer struct {
	Outbox uint32
	Peer   uint64
}

// FailedPeers are those that have failed since this was last asked, each once: the newest 4,096 of them.
func (h *Hub) FailedPeers() ([]FailedPeer, error) {
	defer runtime.KeepAlive(h)
	var list *C.tidings_failed_peers
	var count C.size_t
	err := attempt(func() C.tidings_result {
		if result := C.tidings_hub_failed_peers(h.hub, &list); result != C.TIDINGS_OK {
			return result
		}
		return C.tidings_failed_peers_count(list, &count)
	})
	defer C.tidings_failed_peers_free(list)
	if err != nil {
		return nil, err
	}
	found := make([]FailedPeer, count)
	for at := range found {
		var one C.tidings_failed_peer
		err := attempt(func() C.tidings_result {
			return C.tidings_failed_peers_get(list, C.size_t(at), &one, C.sizeof_tidings_failed_peer)
		})
		if err != nil {
			return nil, err
		}
		found[at] = FailedPeer{Outbox: uint32(one.outbox), Peer: uint64(one.peer)}
	}
	return found, nil
}

// An Outbox is where a program takes notifications for its peers.
type Outbox struct{ outbox *C.tidings_outbox }

// Outbox makes one.
func (h *Hub) Outbox() (*Outbox, error) {
	defer runtime.KeepAlive(h)
	outbox := &Outbox{}
	if err := attempt(func() C.tidings_result { return C.tidings_hub_outbox(h.hub, &outbox.outbox) }); err != nil {
		return nil, err
	}
	runtime.AddCleanup(outbox, func(handle *C.tidings_outbox) { C.tidings_outbox_free(handle) }, outbox.outbox)
	return outbox, nil
}

// Number tells the outbox from others of its hub, as in [FailedPeer].
func (o *Outbox) Number() uint32 {
	defer runtime.KeepAlive(o)
	var number C.uint32_t
	C.tidings_outbox_number(o.outbox, &number)
	return uint32(number)
}

// Listeners is how many there are.
func (o *Outbox) Listeners() (int, error) {
	defer runtime.KeepAlive(o)
	var count C.size_t
	err := attempt(func() C.tidings_result { return C.tidings_outbox_listeners(o.outbox, &count) })
	return int(count), err
}

// Join adds a peer: a connection to write to. The principal, unless it is empty, is whose it is, for publishes with an
// audience. The deadline is how long writing may take, 0 as the library has it by default; a peer that takes longer has failed. It
// is let go of by Close, or when nobody holds it.
func (o *Outbox) Join(principal string, deadline time.Duration) (*Peer, error) {
	defer runtime.KeepAlive(o)
	peer := &Peer{}
	err := attempt(func() C.tidings_result {
		principal, principalLen := optional(principal)
		return C.tidings_outbox_join(o.outbox, principal, principalLen, milliseconds(deadline), &peer.peer)
	})
	if err != nil {
		return nil, err
	}
	runtime.AddCleanup(peer, func(handle *C.tidings_peer) { C.tidings_peer_free(handle) }, peer.peer)
	return peer, nil
}

// Ready waits until there is something to take, or a peer has failed. One goroutine waits at a time.
func (o *Outbox) Ready(ctx context.Context) error {
	defer runtime.KeepAlive(o)
	return done(ctx, func(port *C.tidings_port, token *C.uint64_t, answer **C.tidings_answer) C.tidings_result {
		return C.tidings_outbox_ready(o.outbox, port, token, answer)
	})
}

// A Notice is something to do about one peer.
type Notice struct {
	// Peer and Listener are their numbers.
	Peer, Listener uint64
	// Method is the notification's. Empty: the listener has ended and everything before was written, so that the request which
	// opened it may have its result.
	Method string
	// Params are JSON text; nil if there are none.
	Params []byte
}

// Take is what there is to write, about so many notices at most, and maybe none. Nothing more is handed out for a peer before
// all that it was handed is written ([Peer.Written]); what is published meanwhile coalesces.
func (o *Outbox) Take(most int) ([]Notice, error) {
	defer runtime.KeepAlive(o)
	var list *C.tidings_notices
	var count C.size_t
	err := attempt(func() C.tidings_result {
		if result := C.tidings_outbox_take(o.outbox, count32(most), &list); result != C.TIDINGS_OK {
			return result
		}
		return C.tidings_notices_count(list, &count)
	})
	defer C.tidings_notices_free(list)
	if err != nil {
		return nil, err
	}
	found := make([]Notice, count)
	for at := range found {
		var one C.tidings_notice
		err := attempt(func() C.tidings_result {
			return C.tidings_notices_get(list, C.size_t(at), &one, C.sizeof_tidings_notice)
		})
		if err != nil {
			return nil, err
		}
		found[at] = Notice{Peer: uint64(one.peer), Listener: uint64(one.listener), Method: view(one.method)}
		if one.params.data != nil {
			found[at].Params = []byte(view(one.params))
		}
	}
	return found, nil
}

// EndAll ends every listener that has a filter, in order: what waits for it is handed out, then a notice without a method.
func (o *Outbox) EndAll() error {
	defer runtime.KeepAlive(o)
	return attempt(func() C.tidings_result { return C.tidings_outbox_end_all(o.outbox) })
}
