package tidings

/*
#include <tidings.h>
*/
import "C"

import (
	"errors"
	"time"
)

// An Option of a hub. What is not set is as the library has it by default. Rules are checked when the hub is made.
type Option struct {
	set func(options *C.tidings_options) C.tidings_result
}

func setText(option C.int32_t, value string) Option {
	return Option{func(options *C.tidings_options) C.tidings_result {
		text, length := chars(value)
		return C.tidings_options_set_text(options, option, text, length)
	}}
}

func setNumber(option C.int32_t, value uint64) Option {
	return Option{func(options *C.tidings_options) C.tidings_result {
		return C.tidings_options_set_number(options, option, C.uint64_t(value))
	}}
}

func setDuration(option C.int32_t, value time.Duration) Option {
	return setCount(option, int(wholeMilliseconds(value)))
}

// Of a negative value there is none that the library could take for a number, or for "no limit".
func setCount(option C.int32_t, value int) Option {
	if value < 0 {
		return setNumber(option, 1<<63)
	}
	return setNumber(option, uint64(value))
}

// WithAllowedNetwork adds a block of addresses (CIDR) that webhooks may go to although they are not public.
func WithAllowedNetwork(cidr string) Option { return setText(C.TIDINGS_OPTION_ALLOW_NETWORK, cidr) }

// WithAllowedHost adds a host name that the operator vouches for.
func WithAllowedHost(name string) Option { return setText(C.TIDINGS_OPTION_ALLOW_HOST, name) }

// WithAllowedPort adds a port that webhooks may go to besides 443.
func WithAllowedPort(port uint16) Option {
	return setNumber(C.TIDINGS_OPTION_ALLOW_PORT, uint64(port))
}

// WithHTTP accepts `http` endpoints too; for development and private networks.
func WithHTTP() Option { return setNumber(C.TIDINGS_OPTION_ALLOW_HTTP, 1) }

// WithProxy is the HTTP proxy through which webhooks leave: `http://[user:password@]host:port`. Never taken from the environment.
func WithProxy(url string) Option { return setText(C.TIDINGS_OPTION_PROXY, url) }

// WithDefaultSecret signs webhooks of routes that bring no secret (`whsec_…`).
func WithDefaultSecret(secret string) Option { return setText(C.TIDINGS_OPTION_DEFAULT_SECRET, secret) }

// WithPreviousSecret is the default secret before it: during rotation webhooks are signed with both.
func WithPreviousSecret(secret string) Option {
	return setText(C.TIDINGS_OPTION_PREVIOUS_SECRET, secret)
}

// WithRequiredSecret refuses routes whose webhooks would go unsigned.
func WithRequiredSecret() Option { return setNumber(C.TIDINGS_OPTION_REQUIRE_SECRET, 1) }

// WithVerify says what an endpoint has to show before its first delivery: `challenge` (the default), `always` or `address`.
func WithVerify(mode string) Option { return setText(C.TIDINGS_OPTION_VERIFY, mode) }

// WithUndeliverable says what becomes of a firing that no route can deliver: `drop` or `annotate`.
func WithUndeliverable(policy string) Option { return setText(C.TIDINGS_OPTION_UNDELIVERABLE, policy) }

// WithSecretKey is 32 bytes that seal secrets at rest. Without it a key file beside the database does.
func WithSecretKey(key []byte) Option { return setText(C.TIDINGS_OPTION_SECRET_KEY, string(key)) }

// WithHeaderName adds the name of a header that routes may set besides `authorization` and `x-*`.
func WithHeaderName(name string) Option { return setText(C.TIDINGS_OPTION_HEADER_NAME, name) }

// WithRedaction adds a JSON Pointer, or the name of a member, that is taken out of every event and outcome.
func WithRedaction(pointer string) Option { return setText(C.TIDINGS_OPTION_REDACT, pointer) }

// WithConcurrency is how many attempts may be in flight at a time. One that takes longer than half a second counts no more where
// it would keep others waiting; of those there are at most as many again.
func WithConcurrency(attempts int) Option { return setCount(C.TIDINGS_OPTION_CONCURRENCY, attempts) }

// WithEndpointConcurrency is the same at one endpoint.
func WithEndpointConcurrency(attempts int) Option {
	return setCount(C.TIDINGS_OPTION_ENDPOINT_CONCURRENCY, attempts)
}

// WithEndpointRate is how many attempts a second one endpoint gets; 0 sets no limit.
func WithEndpointRate(perSecond int) Option {
	return setCount(C.TIDINGS_OPTION_ENDPOINT_RATE, perSecond)
}

// WithHostRate is how many attempts a second one host gets; 0 sets no limit.
func WithHostRate(perSecond int) Option { return setCount(C.TIDINGS_OPTION_HOST_RATE, perSecond) }

// WithMaxPending is how many unfinished deliveries one principal may have.
func WithMaxPending(deliveries int) Option { return setCount(C.TIDINGS_OPTION_MAX_PENDING, deliveries) }

// WithAttemptTimeout is how long one attempt may take, in whole milliseconds.
func WithAttemptTimeout(timeout time.Duration) Option {
	return setDuration(C.TIDINGS_OPTION_ATTEMPT_TIMEOUT_MS, timeout)
}

// WithWorkerLease is after how long a silent process counts as gone, in whole milliseconds.
func WithWorkerLease(lease time.Duration) Option {
	return setDuration(C.TIDINGS_OPTION_WORKER_LEASE_MS, lease)
}

// WithMaxBody is the largest webhook body that carries the whole outcome.
func WithMaxBody(bytes int) Option { return setCount(C.TIDINGS_OPTION_MAX_BODY_BYTES, bytes) }

// WithBuffer is how many bytes of events may wait for the store.
func WithBuffer(bytes int) Option { return setCount(C.TIDINGS_OPTION_BUFFER_BYTES, bytes) }

// WithKeptEvents is how many events are kept of each stream. What is not set, of this and the five below, sets no limit.
func WithKeptEvents(events int) Option { return setCount(C.TIDINGS_OPTION_KEEP_EVENTS, events) }

// WithKeptBytes is how many bytes are kept of each stream.
func WithKeptBytes(bytes int) Option { return setCount(C.TIDINGS_OPTION_KEEP_BYTES, bytes) }

// WithKeptAge is how long an event is kept after its append.
func WithKeptAge(age time.Duration) Option { return setDuration(C.TIDINGS_OPTION_KEEP_AGE_MS, age) }

// WithKeptAfterClose is how long a stream stays after its close.
func WithKeptAfterClose(time time.Duration) Option {
	return setDuration(C.TIDINGS_OPTION_KEEP_AFTER_CLOSE_MS, time)
}

// WithKeptInTotal is how many events are kept of all streams.
func WithKeptInTotal(events int) Option { return setCount(C.TIDINGS_OPTION_KEEP_TOTAL_EVENTS, events) }

// WithKeptBytesInTotal is how many bytes are kept of all streams, as stored.
func WithKeptBytesInTotal(bytes int) Option {
	return setCount(C.TIDINGS_OPTION_KEEP_TOTAL_BYTES, bytes)
}

// withOptions hands a set of options to a function, and frees them after it.
func withOptions(given []Option, use func(options *C.tidings_options) error) error {
	var options *C.tidings_options
	if err := attempt(func() C.tidings_result { return C.tidings_options_new(&options) }); err != nil {
		return err
	}
	defer C.tidings_options_free(options)
	for _, option := range given {
		if option.set == nil {
			return errors.New("tidings: an option is empty")
		}
		if err := attempt(func() C.tidings_result { return option.set(options) }); err != nil {
			return err
		}
	}
	return use(options)
}
