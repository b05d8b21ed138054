package tidings

/*
#include <tidings.h>
*/
import "C"

import (
	"context"
	"io"
	"runtime"
	"time"
)

// An Offer says which deliveries this program takes.
type Offer struct {
	// RouteType is `message` or `callback`, with a Name; `message` or `signal`, with a Peer; or a type of the program's own,
	// with neither.
	RouteType string
	// Name is that of a handler, where [CallRequest.Open] has it.
	Name string
	// Peer is the connection that [CallRequest.Peer] named.
	Peer string
	// Limit is how many deliveries are in the program's hands or queued for it, and Timeout how long one may take. 0 leaves each
	// as the library has it by default.
	Limit   int
	Timeout time.Duration
}

// An Outlet is a place in this program that takes deliveries, until it is closed.
type Outlet struct{ outlet *C.tidings_outlet }

// Outlet offers a place.
func (h *Hub) Outlet(offer Offer) (*Outlet, error) {
	defer runtime.KeepAlive(h)
	outlet := &Outlet{}
	err := attempt(func() C.tidings_result {
		kind, kindLen := chars(offer.RouteType)
		name, nameLen := optional(offer.Name)
		peer, peerLen := optional(offer.Peer)
		return C.tidings_hub_outlet(h.hub, kind, kindLen, name, nameLen, peer, peerLen, count32(offer.Limit),
			milliseconds(offer.Timeout), &outlet.outlet)
	})
	if err != nil {
		return nil, err
	}
	runtime.AddCleanup(outlet, func(handle *C.tidings_outlet) { C.tidings_outlet_free(handle) }, outlet.outlet)
	return outlet, nil
}

// Offers tells whether this process offers such a place now.
func (h *Hub) Offers(offer Offer) (bool, error) {
	defer runtime.KeepAlive(h)
	var offered C.int32_t
	err := attempt(func() C.tidings_result {
		kind, kindLen := chars(offer.RouteType)
		name, nameLen := optional(offer.Name)
		peer, peerLen := optional(offer.Peer)
		return C.tidings_hub_offers(h.hub, kind, kindLen, name, nameLen, peer, peerLen, &offered)
	})
	return offered != 0, err
}

// Next waits for the next delivery; several goroutines may. It returns [io.EOF] where no more come, for the outlet or its hub is
// closed.
func (o *Outlet) Next(ctx context.Context) (*HostDelivery, error) {
	defer runtime.KeepAlive(o)
	answer, err := perform(ctx, func(port *C.tidings_port, token *C.uint64_t, answer **C.tidings_answer) C.tidings_result {
		return C.tidings_outlet_next(o.outlet, port, token, answer)
	})
	if err != nil {
		return nil, err
	}
	defer answer.free()
	var handle *C.tidings_host_delivery
	err = attempt(func() C.tidings_result { return C.tidings_answer_host_delivery(answer.answer, &handle) })
	if err != nil {
		return nil, err
	}
	if handle == nil {
		return nil, io.EOF
	}
	return newHostDelivery(handle)
}

// Close offers the place no longer: whoever waits gets [io.EOF].
func (o *Outlet) Close() error {
	defer runtime.KeepAlive(o)
	return attempt(func() C.tidings_result { return C.tidings_outlet_close(o.outlet) })
}

// A HostDelivery is one in this program's hands, to be answered once: by Confirm or Refuse. One that nobody holds any more has
// failed, and is tried again.
type HostDelivery struct {
	delivery *C.tidings_host_delivery

	ID string
	// EventID is the firing's, the same on every attempt and every route.
	EventID string
	// CallID is the call it is about; "" if it is about none.
	CallID           string
	Principal        string
	Trigger          string
	Route, RouteType string
	// Endpoint is what the client named; "" if it named nothing.
	Endpoint string
	// Body is the JSON text that a webhook would carry.
	Body []byte
	// Attempt counts those begun, this one included.
	Attempt int
	// Signal is what to ring with, for a route of type `signal`: [StdioPeer.Ring]; else "".
	Signal string
}

func newHostDelivery(handle *C.tidings_host_delivery) (*HostDelivery, error) {
	found := &HostDelivery{delivery: handle}
	runtime.AddCleanup(found, func(handle *C.tidings_host_delivery) { C.tidings_host_delivery_free(handle) }, handle)
	var facts C.tidings_host_delivery_facts
	err := attempt(func() C.tidings_result {
		return C.tidings_host_delivery_get(handle, &facts, C.sizeof_tidings_host_delivery_facts)
	})
	if err != nil {
		return nil, err
	}
	found.ID, found.EventID, found.CallID = view(facts.id), view(facts.event_id), view(facts.call_id)
	found.Principal, found.Trigger = view(facts.principal), view(facts.trigger)
	found.Route, found.RouteType, found.Endpoint = view(facts.route), view(facts.route_type), view(facts.endpoint)
	found.Body, found.Attempt, found.Signal = []byte(view(facts.body)), int(facts.attempt), view(facts.signal)
	return found, nil
}

// Frame is the JSON-RPC notification that a route of type `message` sends.
func (d *HostDelivery) Frame() ([]byte, error) {
	defer runtime.KeepAlive(d)
	var text *C.tidings_text
	if err := attempt(func() C.tidings_result { return C.tidings_host_delivery_frame(d.delivery, &text) }); err != nil {
		return nil, err
	}
	return []byte(takeText(text)), nil
}

// Confirm: the program has it. False: too late, or answered before, and it may come once more.
func (d *HostDelivery) Confirm() (inTime bool, err error) {
	defer runtime.KeepAlive(d)
	var number C.int32_t
	err = attempt(func() C.tidings_result { return C.tidings_host_delivery_confirm(d.delivery, &number) })
	return number != 0, err
}

// A Refusal says why the program does not take a delivery.
type Refusal int32

const (
	// RefuseFailed: it may go better another time, and the delivery is tried again.
	RefuseFailed Refusal = C.TIDINGS_REFUSE_FAILED
	// RefuseUnwanted: the next route has its turn.
	RefuseUnwanted Refusal = C.TIDINGS_REFUSE_REFUSED
	// RefuseUnreachable: the peer is gone, and the next route has its turn.
	RefuseUnreachable Refusal = C.TIDINGS_REFUSE_UNREACHABLE
	// RefuseNotReady: the peer is not ready for it, and the next route has its turn.
	RefuseNotReady Refusal = C.TIDINGS_REFUSE_NOT_READY
)

// Refuse: the program does not take it. False: too late, or answered before.
func (d *HostDelivery) Refuse(why Refusal) (inTime bool, err error) {
	defer runtime.KeepAlive(d)
	var number C.int32_t
	err = attempt(func() C.tidings_result {
		return C.tidings_host_delivery_refuse(d.delivery, C.int32_t(why), &number)
	})
	return number != 0, err
}
