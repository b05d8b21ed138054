package tidingsmcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// policyWithin is how long a policy may take: then its context ends.
const policyWithin = 10 * time.Second

// A Policy judges the config of a client before anything else: [Allow], [Deny] or [Rewrite]. An error refuses the config with -32603,
// and a line in the log: nothing is sent anywhere on a guess. It is asked by many requests at a time.
type Policy func(ctx context.Context, asked PolicyRequest) (Decision, error)

// A PolicyRequest is a config that is to be judged before its tool runs.
type PolicyRequest struct {
	// Principal is who asks, as a store names it; a stand-in where nobody is authenticated.
	Principal string
	// Tool is the one that is called.
	Tool string
	// Session is the MCP session; "" where there is none.
	Session string
	// Config is the text of an object, as the client sent it: a copy, and not checked yet.
	Config json.RawMessage
}

// A Decision of a [Policy]. The zero value is none.
type Decision struct {
	made   bool
	denied string
	config json.RawMessage
	open   []string
}

// Allow: the config is good, as far as the rules hold as well. Its routes of type `message` and `callback` may have these names, besides
// those of [Options.Open].
func Allow(open ...string) Decision { return Decision{made: true, open: open} }

// Deny: nothing runs, and the client gets -32602 with a fault of rule `denied`, and is told why; "" says as much as that.
func Deny(reason string) Decision {
	if reason == "" {
		reason = "this server does not let you be told there"
	}
	return Decision{made: true, denied: reason}
}

// Rewrite: another config, as JSON text, takes the place of the client's. The rules hold for it all the same. The names are those of
// [Allow].
func Rewrite(config json.RawMessage, open ...string) Decision {
	if config == nil {
		config = json.RawMessage{} // which is no config, and none that was left as it is
	}
	return Decision{made: true, config: config, open: open}
}

// judge asks the policy about the config that the client brought, and answers the names that its routes may have.
func (t *toolCall) judge(ctx context.Context) (open []string, err error) {
	open = t.options.Open
	// What is no object the library refuses.
	if t.options.Policy == nil || !bytes.HasPrefix(bytes.TrimLeft(t.config, " \t\r\n"), []byte("{")) {
		return open, nil
	}
	ctx, cancel := context.WithTimeout(ctx, policyWithin)
	defer cancel()
	asked := PolicyRequest{
		Principal: t.asker.name, Tool: t.request.Params.Name, Session: t.request.Session.ID(), Config: slices.Clone(t.config),
	}
	said, err := t.options.Policy(ctx, asked)
	if err == nil && !said.made {
		err = errors.New("it came to no decision: Allow, Deny or Rewrite")
	}
	switch {
	case err != nil:
		slog.Error("tidingsmcp: the policy failed, and a notificationConfig was refused", "tool", asked.Tool, "error", err)
		return nil, internal("notificationConfig could not be judged and nothing ran",
			members{"reason": textJSON("policy_failed"), "retryable": boolJSON(true)})
	case said.denied != "":
		fault := members{"path": textJSON(""), "rule": textJSON("denied"), "message": textJSON(said.denied)}
		return nil, rejected(members{"faults": listJSON([]json.RawMessage{fault.text()}), "total": numberJSON(1)}.text())
	case said.config != nil:
		t.config = said.config
	}
	return slices.Concat(open, said.open), nil
}

// rejected is the answer for a config that breaks rules, in the library's words.
func rejected(data json.RawMessage) error {
	return &jsonrpc.Error{
		Code: jsonrpc.CodeInvalidParams, Message: "notificationConfig was rejected and nothing ran; data.faults says why", Data: data,
	}
}
