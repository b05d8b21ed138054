package tidingsmcp

import (
	"bytes"
	"encoding/json"
	"sync/atomic"
)

// given is what Handler and Transport hand the middleware of a request, as text: JSON as it was sent goes through the SDK in no other
// way, for what it takes apart it writes anew.
type given struct {
	// ID is the JSON-RPC id.
	ID string `json:"id"`
	// Config is the notificationConfig of a tools/call; nil if it has none.
	Config *string `json:"config,omitempty"`
	// Filter is what a subscriptions/listen asks for.
	Filter string `json:"filter,omitempty"`
}

// everyCall: some server here has routes of its own for calls that bring nothing for us to look for.
var everyCall atomic.Bool

// mayConcern is a quick look, so that other requests are not taken apart. It errs to one side only: names may be written with escapes,
// as some encoders write each slash.
func mayConcern(text []byte) bool {
	if bytes.Contains(text, []byte(`\/`)) || bytes.Contains(text, []byte(`\u`)) {
		return true
	}
	for _, name := range [...]string{configKey, extension, requestKey, tasksExtension, listen} {
		if bytes.Contains(text, []byte(name)) {
			return true
		}
	}
	return everyCall.Load() && bytes.Contains(text, []byte(toolsCall))
}

// moved is a request with what the middleware needs where the SDK keeps it. What is no such request, or cannot be read, stays as it is.
func moved(message json.RawMessage) json.RawMessage {
	var parts map[string]json.RawMessage
	var method string
	if json.Unmarshal(message, &parts) != nil || json.Unmarshal(parts["method"], &method) != nil {
		return message
	}
	params, changed := movedParams(method, parts["params"], parts["id"])
	if !changed {
		return message
	}
	parts["params"] = params
	return mustJSON(parts)
}

// movedParams puts what was given under requestKey of the _meta, and takes it away from where it was; false: nothing was changed.
func movedParams(method string, params, id json.RawMessage) (json.RawMessage, bool) {
	if method != toolsCall && method != listen {
		return nil, false
	}
	var members, meta map[string]json.RawMessage
	if json.Unmarshal(params, &members) != nil || members == nil {
		return nil, false
	}
	if given := members["_meta"]; given != nil && json.Unmarshal(given, &meta) != nil {
		return nil, false
	}
	if meta == nil {
		meta = map[string]json.RawMessage{}
	}
	found := given{ID: string(id)}
	if method == listen {
		found.Filter = string(members["notifications"])
	} else {
		config := members[configKey]
		if config == nil {
			config = meta[extension]
		}
		if config != nil {
			text := string(config)
			found.Config = &text
		}
		delete(members, configKey)
		delete(meta, extension)
	}
	meta[requestKey] = mustJSON(string(mustJSON(found)))
	members["_meta"] = mustJSON(meta)
	return mustJSON(members), true
}

// givenIn reads, and takes away, what was handed over in a request's _meta; nil if it is not there.
func givenIn(meta map[string]any) *given {
	text, is := meta[requestKey].(string)
	delete(meta, requestKey)
	found := &given{}
	if !is || json.Unmarshal([]byte(text), found) != nil {
		return nil
	}
	return found
}
