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

// A Delivery is one firing on its way over one route. It holds no body, address or secret.
type Delivery struct {
	ID string
	// EventID is the firing's: the `webhook-id`.
	EventID string
	// CallID is the call it is about; "" if it is about none.
	CallID    string
	Principal string
	// Trigger is the one that fired, Route the route's id.
	Trigger, Route string
	// State is `pending`, `leased`, `retrying`, `delivered`, `dead`, `expired` or `superseded`.
	State string
	// LastError is the category of the last failure; "" if there was none.
	LastError string
	// Attempts counts those that were begun.
	Attempts int
}

// A DeliveryFilter says which deliveries are meant. What is empty sets no limit.
type DeliveryFilter struct {
	Principal, CallID, State string
	// Limit is how many are listed at most; 0 is 100.
	Limit int
}

// Deliveries lists deliveries, oldest first.
func (h *Hub) Deliveries(ctx context.Context, filter DeliveryFilter) ([]Delivery, error) {
	defer runtime.KeepAlive(h)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	limit := filter.Limit
	if limit == 0 {
		limit = 100
	}
	var list *C.tidings_deliveries
	var count C.size_t
	err := attempt(func() C.tidings_result {
		principal, principalLen := optional(filter.Principal)
		call, callLen := optional(filter.CallID)
		state, stateLen := optional(filter.State)
		result := C.tidings_hub_deliveries(h.hub, principal, principalLen, call, callLen, state, stateLen,
			count32(limit), &list)
		if result == C.TIDINGS_OK {
			result = C.tidings_deliveries_count(list, &count)
		}
		return result
	})
	defer C.tidings_deliveries_free(list)
	if err != nil {
		return nil, err
	}
	found := make([]Delivery, count)
	for at := range found {
		var one C.tidings_delivery
		err := attempt(func() C.tidings_result {
			return C.tidings_deliveries_get(list, C.size_t(at), &one, C.sizeof_tidings_delivery)
		})
		if err != nil {
			return nil, err
		}
		found[at] = Delivery{
			ID: view(one.id), EventID: view(one.event_id), CallID: view(one.call_id), Principal: view(one.principal),
			Trigger: view(one.trigger), Route: view(one.route), State: view(one.state), LastError: view(one.last_error),
			Attempts: int(one.attempts),
		}
	}
	return found, nil
}

// DeliveryBody is the body of a delivery, as it was sent or is to be sent; nil if there is no such delivery.
func (h *Hub) DeliveryBody(ctx context.Context, id string) ([]byte, error) {
	defer runtime.KeepAlive(h)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	var body *C.tidings_text
	err := attempt(func() C.tidings_result {
		id, idLen := chars(id)
		return C.tidings_hub_delivery_body(h.hub, id, idLen, &body)
	})
	if text, found := takeOptional(body); found && err == nil {
		return []byte(text), nil
	}
	return nil, err
}

// SendAgain sends a dead letter again, under the same `webhook-id` and with the same bytes, and returns the new delivery's id.
func (h *Hub) SendAgain(ctx context.Context, id string) (string, error) {
	defer runtime.KeepAlive(h)
	if err := ctx.Err(); err != nil {
		return "", err
	}
	var again *C.tidings_text
	err := attempt(func() C.tidings_result {
		id, idLen := chars(id)
		return C.tidings_hub_send_again(h.hub, id, idLen, &again)
	})
	return takeText(again), err
}

// Purge forgets finished deliveries before their time, and tells how many: that of an id, or those of a filter, whose call and
// limit do not count; with neither, all.
func (h *Hub) Purge(ctx context.Context, id string, filter DeliveryFilter) (int, error) {
	defer runtime.KeepAlive(h)
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	var count C.uint64_t
	err := attempt(func() C.tidings_result {
		id, idLen := optional(id)
		principal, principalLen := optional(filter.Principal)
		state, stateLen := optional(filter.State)
		return C.tidings_hub_purge(h.hub, id, idLen, principal, principalLen, state, stateLen, &count)
	})
	return int(count), err
}

// SetPaused stops deliveries, or goes on with them.
func (h *Hub) SetPaused(paused bool) error {
	defer runtime.KeepAlive(h)
	return attempt(func() C.tidings_result { return C.tidings_hub_set_paused(h.hub, flag(paused)) })
}

// Drain stops deliveries, as SetPaused does, and waits until the attempts under way have ended, at most for so long; it tells
// whether they have.
func (h *Hub) Drain(ctx context.Context, within time.Duration) (bool, error) {
	defer runtime.KeepAlive(h)
	number, err := numbered(ctx, func(port *C.tidings_port, token *C.uint64_t, answer **C.tidings_answer) C.tidings_result {
		return C.tidings_hub_drain(h.hub, milliseconds(within), port, token, answer)
	})
	return number != 0, err
}
