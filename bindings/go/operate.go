package tidings

/*
#include <tidings.h>
*/
import "C"

import (
	"context"
	"iter"
	"runtime"
)

// Stats are what a hub has done and holds, at one moment.
type Stats struct {
	// Groups committed by this process, and Failures of groups.
	Groups, Failures uint64
	// Events of this process's writers that were committed; Lost were given up while the store was down; Refused were dropped
	// because another writer had claimed the stream, or it was closed.
	Events, Lost, Refused uint64
	// Attempts at deliveries that ended, and what deliveries came to here.
	Attempts, Delivered, Dead, Expired, Superseded uint64
	// InFlight are attempts at webhooks under way.
	InFlight uint64
	// Failing: the last group failed, so that events wait in memory.
	Failing bool
}

// Stats are the numbers of the hub.
func (h *Hub) Stats() (Stats, error) {
	defer runtime.KeepAlive(h)
	var stats C.tidings_stats
	err := attempt(func() C.tidings_result { return C.tidings_hub_stats(h.hub, &stats, C.sizeof_tidings_stats) })
	return Stats{
		Groups: uint64(stats.groups), Failures: uint64(stats.failures), Events: uint64(stats.events), Lost: uint64(stats.lost),
		Refused: uint64(stats.refused), Attempts: uint64(stats.attempts), Delivered: uint64(stats.delivered),
		Dead: uint64(stats.dead), Expired: uint64(stats.expired), Superseded: uint64(stats.superseded),
		InFlight: uint64(stats.in_flight), Failing: stats.failing != 0,
	}, err
}

// Attempts are what the settled attempts of a delivery came to, in order: the category of each failure, "" for the one that was
// taken.
func (h *Hub) Attempts(ctx context.Context, id string) ([]string, error) {
	defer runtime.KeepAlive(h)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	var texts *C.tidings_texts
	err := attempt(func() C.tidings_result {
		id, idLen := chars(id)
		return C.tidings_hub_attempts(h.hub, id, idLen, &texts)
	})
	if err != nil {
		return nil, err
	}
	return takeTexts(texts)
}

// An Endpoint is a URL of one principal, never the URL itself, which may hold a secret.
type Endpoint struct {
	// Key is 64 hexadecimal digits.
	Key, Principal, Host string
	// State is `unverified`, `verified` or `disabled`.
	State string
	// Proof is `challenge`, `well_known`, `allow_list` or `address`; "" if nothing is proved.
	Proof string
	// Disabled says why: `gone`, `failing`, `unverified` or `operator`; "" if it is not.
	Disabled string
	// LastError is the category of the last failure; "" if there was none.
	LastError string
	// Failures in a row.
	Failures int
	// Tripped: its breaker has opened since the last success.
	Tripped bool
}

// Endpoints are those of a principal, or all where it is empty; at most limit.
func (h *Hub) Endpoints(ctx context.Context, principal string, limit int) ([]Endpoint, error) {
	defer runtime.KeepAlive(h)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	var list *C.tidings_endpoints
	var count C.size_t
	err := attempt(func() C.tidings_result {
		principal, principalLen := optional(principal)
		result := C.tidings_hub_endpoints(h.hub, principal, principalLen, count32(limit), &list)
		if result == C.TIDINGS_OK {
			result = C.tidings_endpoints_count(list, &count)
		}
		return result
	})
	defer C.tidings_endpoints_free(list)
	if err != nil {
		return nil, err
	}
	found := make([]Endpoint, count)
	for at := range found {
		var one C.tidings_endpoint
		err := attempt(func() C.tidings_result {
			return C.tidings_endpoints_get(list, C.size_t(at), &one, C.sizeof_tidings_endpoint)
		})
		if err != nil {
			return nil, err
		}
		found[at] = Endpoint{
			Key: view(one.key), Principal: view(one.principal), Host: view(one.host), State: view(one.state), Proof: view(one.proof),
			Disabled: view(one.disabled), LastError: view(one.last_error), Failures: int(one.failures), Tripped: one.tripped != 0,
		}
	}
	return found, nil
}

// SetEndpoint has an endpoint tried again, or sends nothing more to it.
func (h *Hub) SetEndpoint(ctx context.Context, key string, enabled bool) error {
	defer runtime.KeepAlive(h)
	if err := ctx.Err(); err != nil {
		return err
	}
	return attempt(func() C.tidings_result {
		key, keyLen := chars(key)
		return C.tidings_hub_set_endpoint(h.hub, key, keyLen, flag(enabled))
	})
}

// Export are the events behind a place as JSON Lines, as SEP-2694 has them: some lines at a time, each with its newline, up to the
// end that the stream has when it gets there. An error ends the loop.
func (s *Stream) Export(ctx context.Context, after Place) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		defer runtime.KeepAlive(s)
		var exported *C.tidings_export
		err := attempt(func() C.tidings_result {
			cursor, cursorLen := optional(after.cursor)
			return C.tidings_stream_export(s.stream, cursor, cursorLen, after.after(), &exported)
		})
		defer C.tidings_export_free(exported)
		for err == nil {
			if err = ctx.Err(); err != nil {
				break
			}
			var lines *C.tidings_text
			if err = attempt(func() C.tidings_result { return C.tidings_export_next(exported, &lines) }); err != nil {
				break
			}
			text, more := takeOptional(lines)
			if !more || !yield([]byte(text), nil) {
				return
			}
		}
		yield(nil, err)
	}
}

// ReceiverDocument says which paths of a host receive webhooks, as JSON text: to be served as
// `/.well-known/mcp-webhook-receiver.json`.
func ReceiverDocument(paths ...string) ([]byte, error) {
	var given given
	defer given.release()
	list := make([][]byte, len(paths))
	for at, path := range paths {
		list[at] = []byte(path)
	}
	var text *C.tidings_text
	err := attempt(func() C.tidings_result {
		list, count := given.several(list)
		return C.tidings_webhook_receiver_document(list, count, &text)
	})
	if err != nil {
		return nil, err
	}
	return []byte(takeText(text)), nil
}
