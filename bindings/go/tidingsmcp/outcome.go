package tidingsmcp

import (
	"context"
	"encoding/json"
	"errors"
	"maps"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	tidings "github.com/tidings-mcp/tidings/bindings/go"
)

// conclude records what the tool came to, and makes the answer of it.
func (t *toolCall) conclude(answer returned) (mcp.Result, error) {
	ctx, cancel := context.WithTimeout(context.Background(), endWithin)
	defer cancel()
	result := answer.result
	if answer.err != nil {
		return t.failed(ctx, answer.err, "")
	}
	meta := maps.Clone(result.GetMeta())
	if meta == nil {
		meta = map[string]any{}
	}
	if t.acknowledgement != nil {
		meta[acknowledgedMeta] = t.acknowledgement
	}
	if len(meta) > 0 {
		result.SetMeta(meta)
	}
	text, err := json.Marshal(result)
	if err != nil {
		failure := internal("The tool's result could not be serialised", members{"reason": textJSON("unserialisable")})
		return t.failed(ctx, failure, "unserialisable")
	}
	if isInterim(text) {
		// The request is over, and its tool has not completed.
		t.cancel("")
		return result, nil
	}
	ended, err := t.call.Complete(ctx, text)
	switch {
	case err != nil:
		meta[undeliveredMeta] = []map[string]string{{"reason": "store_unavailable"}}
	case !ended.Ours && (ended.Outcome == tidings.TimedOut || ended.Outcome == tidings.Cancelled):
		return nil, endedElsewhere(ended, t.call.ID())
	case ended.Undelivered != nil:
		meta[undeliveredMeta] = ended.Undelivered
	}
	if len(meta) > 0 {
		result.SetMeta(meta)
	}
	return result, nil
}

// isInterim tells an answer such as "input_required" from a result.
func isInterim(result []byte) bool {
	var kind struct {
		ResultType string `json:"resultType"`
	}
	return json.Unmarshal(result, &kind) == nil && kind.ResultType != "" && kind.ResultType != "complete"
}

func (t *toolCall) failed(ctx context.Context, failure error, reason string) (mcp.Result, error) {
	var wire *jsonrpc.Error
	if !errors.As(failure, &wire) {
		wire = &jsonrpc.Error{Message: failure.Error()}
	}
	text, err := json.Marshal(wire)
	if err != nil {
		text = []byte(`{"code":-32603,"message":"Internal error"}`)
	}
	ended, err := t.call.Fail(ctx, text, reason)
	if err == nil && !ended.Ours && (ended.Outcome == tidings.TimedOut || ended.Outcome == tidings.Cancelled) {
		return nil, endedElsewhere(ended, t.call.ID())
	}
	return nil, failure
}

func (t *toolCall) cancel(reason string) {
	ctx, cancel := context.WithTimeout(context.Background(), endWithin)
	defer cancel()
	// A hub that is closed has ended its calls itself.
	_, _ = t.call.Cancel(ctx, reason)
}
