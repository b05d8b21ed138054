package tidings

/*
#include <tidings.h>
*/
import "C"

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
)

// A Code says what went wrong, by a name that never changes and is the same in every language. Codes are errors, for
// [errors.Is]:
//
//	if errors.Is(err, tidings.ErrClosed) { … }
type Code string

// The codes of the one error table.
const (
	// ErrInvalidArgument: an argument breaks a rule; the message names both.
	ErrInvalidArgument Code = "invalid_argument"
	// ErrInvalidConfig: a notificationConfig breaks rules; a [ConfigError] has them.
	ErrInvalidConfig Code = "invalid_config"
	// ErrUnknownCursor: no such stream in this scope, or no cursor of ours.
	ErrUnknownCursor Code = "unknown_cursor"
	// ErrAhead: a place lies beyond the newest event.
	ErrAhead Code = "ahead"
	// ErrClosed: the stream, tail, call or hub is closed.
	ErrClosed Code = "closed"
	// ErrFenced: another writer has claimed the stream.
	ErrFenced Code = "fenced"
	// ErrEnded: the call has ended already.
	ErrEnded Code = "ended"
	// ErrCongested: too much waits for the store. The same call may succeed later.
	ErrCongested Code = "congested"
	// ErrTooLarge: something is larger than may be.
	ErrTooLarge Code = "too_large"
	// ErrUnavailable: the store cannot do its work now. The same call may succeed later.
	ErrUnavailable Code = "unavailable"
	// ErrUnsupported: the store can never do its work like this.
	ErrUnsupported Code = "unsupported"
	// ErrForked: the object belongs to the process that forked this one.
	ErrForked Code = "forked"
	// ErrTimeout: it took too long. The same call may succeed later.
	ErrTimeout Code = "timeout"
	// ErrInternal: a defect of this library.
	ErrInternal Code = "internal"
)

var numbers = map[Code]C.tidings_result{
	ErrInvalidArgument: C.TIDINGS_INVALID_ARGUMENT,
	ErrInvalidConfig:   C.TIDINGS_INVALID_CONFIG,
	ErrUnknownCursor:   C.TIDINGS_UNKNOWN_CURSOR,
	ErrAhead:           C.TIDINGS_AHEAD,
	ErrClosed:          C.TIDINGS_CLOSED,
	ErrFenced:          C.TIDINGS_FENCED,
	ErrEnded:           C.TIDINGS_ENDED,
	ErrCongested:       C.TIDINGS_CONGESTED,
	ErrTooLarge:        C.TIDINGS_TOO_LARGE,
	ErrUnavailable:     C.TIDINGS_UNAVAILABLE,
	ErrUnsupported:     C.TIDINGS_UNSUPPORTED,
	ErrForked:          C.TIDINGS_FORKED,
	ErrTimeout:         C.TIDINGS_TIMEOUT,
	ErrInternal:        C.TIDINGS_INTERNAL,
}

// Codes are all there are, in no order.
func Codes() []Code { return slices.Collect(maps.Keys(numbers)) }

// Error returns the name.
func (code Code) Error() string { return "tidings: " + string(code) }

// Retryable tells whether the same call may succeed later.
func (code Code) Retryable() bool {
	number, known := numbers[code]
	var retryable C.int32_t
	return known && C.tidings_result_retryable(number, &retryable) == C.TIDINGS_OK && retryable != 0
}

// An Error is what every function of this package fails with, but for those of a context and of [io].
type Error struct {
	// Code is what [errors.Is] compares.
	Code Code
	// Message is for people: it names the field and the rule, and holds no payload, secret or address.
	Message string
}

func (e *Error) Error() string { return "tidings: " + e.Message }

// Unwrap makes errors.Is(err, ErrClosed) true for an error of that code.
func (e *Error) Unwrap() error { return e.Code }

// Retryable tells whether the same call may succeed later.
func (e *Error) Retryable() bool { return e.Code.Retryable() }

// A Fault is one rule that a notificationConfig breaks.
type Fault struct {
	// Path is a JSON Pointer (RFC 6901) into the config.
	Path string `json:"path"`
	// Rule is its stable name.
	Rule string `json:"rule"`
	// Message is for people.
	Message string `json:"message"`
}

// A ConfigError says why a notificationConfig was refused: nothing of it was accepted, and nothing begun.
type ConfigError struct {
	// Faults are the first broken rules, at most 20.
	Faults []Fault
	// Total is how many there are.
	Total int
	// Data is the `data` of the JSON-RPC error (-32602), as JSON text.
	Data json.RawMessage

	message string
}

func (e *ConfigError) Error() string { return "tidings: " + e.message }

// Unwrap makes errors.Is(err, ErrInvalidConfig) true.
func (e *ConfigError) Unwrap() error { return ErrInvalidConfig }

// A WebhookError says why a received webhook is not to be trusted.
type WebhookError struct {
	// Code says why, such as `mismatch` or `too_old`; the same in every language.
	Code string
	// Message is for people.
	Message string
}

func (e *WebhookError) Error() string { return "tidings: " + e.Message }

// Is makes errors.Is(err, ErrUnverified) true.
func (e *WebhookError) Is(target error) bool { return target == ErrUnverified }

// ErrUnverified is what every [WebhookError] is.
var ErrUnverified = errors.New("tidings: the webhook is not to be trusted")

// attempt runs calls of the library and fetches the error where one failed: it is kept for the thread.
func attempt(call func() C.tidings_result) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	return failure(call())
}

// failure is the error of a result, in the thread that got it.
func failure(result C.tidings_result) error {
	if result == C.TIDINGS_OK {
		return nil
	}
	var text *C.tidings_text
	C.tidings_last_error(&text)
	message := takeText(text)
	switch result {
	case C.TIDINGS_UNVERIFIED:
		code, _, _ := strings.Cut(message, ": ")
		return &WebhookError{Code: code, Message: message}
	case C.TIDINGS_INVALID_CONFIG:
		return configError(message)
	}
	var name *C.char
	C.tidings_result_name(result, &name)
	return &Error{Code: Code(C.GoString(name)), Message: message}
}

func configError(message string) error {
	var text *C.tidings_text
	C.tidings_last_faults(&text)
	refused := &ConfigError{Data: json.RawMessage(takeText(text)), message: message}
	var data struct {
		Faults []Fault
		Total  int
	}
	if err := json.Unmarshal(refused.Data, &data); err != nil {
		return &Error{Code: ErrInternal, Message: fmt.Sprintf("the faults of a config: %v", err)}
	}
	refused.Faults, refused.Total = data.Faults, data.Total
	return refused
}
