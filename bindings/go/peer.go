package tidings

/*
#include <tidings.h>
*/
import "C"

import "runtime"

// A Peer is a connection to write to: an MCP session's, or one stream of it.
type Peer struct{ peer *C.tidings_peer }

// Number is what notices name it by. It is never used again.
func (p *Peer) Number() uint64 {
	defer runtime.KeepAlive(p)
	var number C.uint64_t
	C.tidings_peer_number(p.peer, &number)
	return uint64(number)
}

// Attend is the one listener of a peer that sends no filters (MCP up to 2025-11-25): of every list that its profile offers,
// and of what it subscribes to. What is published before [Listener.Open] is kept for then.
func (p *Peer) Attend(profile *Profile) (*Listener, error) {
	defer runtime.KeepAlive(profile)
	return p.listener(func(listener **C.tidings_listener) C.tidings_result {
		return C.tidings_peer_attend(p.peer, profile.profile, listener)
	})
}

// Listen is a listener with a filter (JSON text), of which what the profile allows counts. The request id, as its JSON text, is
// that of the request which asked for it. Its acknowledgement is its first notice; what is published before that is written is kept
// for then.
func (p *Peer) Listen(profile *Profile, requestID string, filter []byte) (*Listener, error) {
	defer runtime.KeepAlive(profile)
	return p.listener(func(listener **C.tidings_listener) C.tidings_result {
		id, idLen := chars(requestID)
		filter, filterLen := chars(string(filter))
		return C.tidings_peer_listen(p.peer, profile.profile, id, idLen, filter, filterLen, listener)
	})
}

func (p *Peer) listener(make func(listener **C.tidings_listener) C.tidings_result) (*Listener, error) {
	defer runtime.KeepAlive(p)
	listener := &Listener{}
	if err := attempt(func() C.tidings_result { return make(&listener.listener) }); err != nil {
		return nil, err
	}
	runtime.AddCleanup(listener, func(handle *C.tidings_listener) { C.tidings_listener_free(handle) }, listener.listener)
	return listener, nil
}

// SetReachable says whether the peer can be told anything at the moment. One that cannot counts as skipped.
func (p *Peer) SetReachable(reachable bool) error {
	defer runtime.KeepAlive(p)
	return attempt(func() C.tidings_result { return C.tidings_peer_set_reachable(p.peer, flag(reachable)) })
}

// Written: so many of the notifications that were handed out for it are written. False: too late, it has failed or is closed. A
// notice without a method is none to be counted.
func (p *Peer) Written(notifications int) (inTime bool, err error) {
	defer runtime.KeepAlive(p)
	var number C.int32_t
	err = attempt(func() C.tidings_result {
		return C.tidings_peer_written(p.peer, count32(notifications), &number)
	})
	return number != 0, err
}

// Broke: the peer did not take a notification. Its listeners end, and [Hub.FailedPeers] names it. Returns how many listeners
// went; 0 if it had failed before.
func (p *Peer) Broke() (listeners int, err error) {
	defer runtime.KeepAlive(p)
	var count C.size_t
	err = attempt(func() C.tidings_result { return C.tidings_peer_broke(p.peer, &count) })
	return int(count), err
}

// Close lets go of the peer: it is told nothing more. Returns how many listeners went with it; 0 if it was closed before.
func (p *Peer) Close() (listeners int, err error) {
	defer runtime.KeepAlive(p)
	var count C.size_t
	err = attempt(func() C.tidings_result { return C.tidings_peer_close(p.peer, &count) })
	return int(count), err
}

// A Listener is what a peer asked to be told; a peer may hold several. It goes on when nobody holds it here.
type Listener struct{ listener *C.tidings_listener }

// Number is what notices name it by. It is never used again.
func (l *Listener) Number() uint64 {
	defer runtime.KeepAlive(l)
	var number C.uint64_t
	C.tidings_listener_number(l.listener, &number)
	return uint64(number)
}

// Open: a peer without filters is ready to be told, for `notifications/initialized` has come.
func (l *Listener) Open() error {
	defer runtime.KeepAlive(l)
	return attempt(func() C.tidings_result { return C.tidings_listener_open(l.listener) })
}

// Subscribe: such a peer asks to be told of one thing, a resource by its URI, and of what lies below it.
func (l *Listener) Subscribe(uri string) error {
	defer runtime.KeepAlive(l)
	return attempt(func() C.tidings_result {
		uri, uriLen := chars(uri)
		return C.tidings_listener_subscribe(l.listener, uri, uriLen)
	})
}

// Unsubscribe: and no longer.
func (l *Listener) Unsubscribe(uri string) error {
	defer runtime.KeepAlive(l)
	return attempt(func() C.tidings_result {
		uri, uriLen := chars(uri)
		return C.tidings_listener_unsubscribe(l.listener, uri, uriLen)
	})
}

// End ends a listener in order: what waits for it is handed out, then a notice without a method.
func (l *Listener) End() error {
	defer runtime.KeepAlive(l)
	return attempt(func() C.tidings_result { return C.tidings_listener_end(l.listener) })
}

// Cancel: the listener was cancelled, and nothing more is written for it. False: it had ended.
func (l *Listener) Cancel() (ended bool, err error) {
	defer runtime.KeepAlive(l)
	var number C.int32_t
	err = attempt(func() C.tidings_result { return C.tidings_listener_cancel(l.listener, &number) })
	return number != 0, err
}
