package tidingsmcp

import (
	"encoding/json"
	"errors"
	"maps"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	tidings "github.com/tidings-mcp/tidings/bindings/go"
)

// The errors of our own, in the words that they have in every language. data may be nil.

func internal(message string, data members) error {
	return wireError(jsonrpc.CodeInternalError, message, data)
}

func invalidParams(message string, data members) error {
	return wireError(jsonrpc.CodeInvalidParams, message, data)
}

func wireError(code int64, message string, data members) error {
	failure := &jsonrpc.Error{Code: code, Message: message}
	if data != nil {
		failure.Data = data.text()
	}
	return failure
}

func unavailable(message string) error {
	return internal(message, members{"reason": textJSON("unavailable"), "retryable": boolJSON(true)})
}

// timedOut is the answer for a tool that was stopped because its time was over, of a call that nobody watches.
func timedOut(timeout time.Duration) error {
	return internal("The tool call timed out", members{"reason": textJSON("timeout"), "timeoutMs": numberJSON(timeout.Milliseconds())})
}

// undeclared is the answer to a request that needs the Tasks extension and did not declare it.
func undeclared() error {
	return wireError(mcp.CodeMissingRequiredClientCapabilities, "The client did not declare the extension '"+tasksExtension+"'",
		members{"requiredCapabilities": members{"extensions": members{tasksExtension: members{}.text()}.text()}.text()})
}

// unknownTask is the same for one that never was, is over, or belongs to somebody else.
func unknownTask() error { return invalidParams("Unknown task", nil) }

// failed is the answer for what a hub says of a request about a task or a call.
func failed(what string, err error) error {
	var known *tidings.Error
	switch {
	case !errors.As(err, &known):
		return err
	case known.Code == tidings.ErrInvalidArgument:
		return invalidParams(known.Message, nil)
	default:
		return internal(what, members{"reason": textJSON(string(known.Code)), "retryable": boolJSON(known.Retryable())})
	}
}

// endedElsewhere is the answer for a call that somebody else ended while its tool ran.
func endedElsewhere(ended *tidings.Ended, callID string) error {
	reason, message := ended.Reason, "The tool call ended as "+string(ended.Outcome)
	if reason == "" {
		reason = string(ended.Outcome)
	}
	if ended.Outcome == tidings.TimedOut {
		reason, message = "timeout", "The tool call timed out"
	}
	return internal(message, members{"reason": textJSON(reason), "callId": textJSON(callID)})
}

// textResult is a result with members that no type of the SDK has.
type textResult struct {
	mcp.ResultBase
	members members
}

// MarshalJSON writes the members, and the _meta that the SDK may have added to.
func (r *textResult) MarshalJSON() ([]byte, error) {
	if len(r.Meta) == 0 {
		return r.members.text(), nil
	}
	all := maps.Clone(r.members)
	if all == nil {
		all = members{}
	}
	meta, err := json.Marshal(r.Meta)
	if err != nil {
		return nil, err
	}
	all["_meta"] = meta
	return all.text(), nil
}

// emptyResult is one that says nothing but that it is complete, which clients of old do not expect.
func emptyResult(modern bool) *textResult {
	result := &textResult{members: members{}}
	if modern {
		result.members["resultType"] = json.RawMessage(`"complete"`)
	}
	return result
}
