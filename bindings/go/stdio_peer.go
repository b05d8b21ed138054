package tidings

/*
#include <tidings.h>
*/
import "C"

import "runtime"

// A StdioPeer is the process at the other end of this process's stdin, which routes of type `signal` ring. Linux only.
//
// It is pinned by a pidfd: a process that takes the number of one that died never gets its signal.
type StdioPeer struct{ peer *C.tidings_stdio_peer }

// NewStdioPeer finds it: the parent where stdin is a pipe, the connected one where it is a socket. It fails with [ErrUnsupported] where
// there is none, and the message says why: stdin is neither, the peer is another user's or gone, or this process is root's and asRoot
// does not allow that.
func NewStdioPeer(asRoot bool) (*StdioPeer, error) {
	found := &StdioPeer{}
	if err := attempt(func() C.tidings_result { return C.tidings_stdio_peer_new(flag(asRoot), &found.peer) }); err != nil {
		return nil, err
	}
	runtime.AddCleanup(found, func(handle *C.tidings_stdio_peer) { C.tidings_stdio_peer_free(handle) }, found.peer)
	return found, nil
}

// Ring sends it a signal by its name: `SIGUSR1`, `SIGUSR2` or `SIGRTMIN+n` with n from 0 to 15. It carries nothing, and two of them may
// arrive as one. The refusal is 0; or says, for [HostDelivery.Refuse], why nothing was sent: a peer that neither handles, blocks nor
// ignores the signal would be ended by it, and is not ready.
func (p *StdioPeer) Ring(signal string) (Refusal, error) {
	defer runtime.KeepAlive(p)
	var refusal C.int32_t
	err := attempt(func() C.tidings_result {
		text, length := chars(signal)
		return C.tidings_stdio_peer_ring(p.peer, text, length, &refusal)
	})
	return Refusal(refusal), err
}
