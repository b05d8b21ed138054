package tidingsmcp

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
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

// idHeader is how the middleware finds the id of a tools/call that has nothing else for us: in a server with routes of its own every call
// is watched. A random text comes before it, so that nobody from outside can say it.
const idHeader = "Tidings-Request"

var idMark = rand.Text() + ":"

func setID(header http.Header, id json.RawMessage) { header.Set(idHeader, idMark+string(id)) }

// plainCall is what there is to know of a tools/call from which nothing was moved; nil if it did not come through Handler or Transport.
func plainCall(extra *mcp.RequestExtra) *given {
	if extra == nil {
		return nil
	}
	id, ours := strings.CutPrefix(extra.Header.Get(idHeader), idMark)
	if !ours {
		return nil
	}
	return &given{ID: id}
}

// idOf is the id of a message that may be a tools/call; nil of any other.
func idOf(message []byte) json.RawMessage {
	if !bytes.Contains(message, []byte(toolsCall)) {
		return nil
	}
	var found struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
	}
	if json.Unmarshal(message, &found) != nil || found.Method != toolsCall {
		return nil
	}
	return found.ID
}

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
	return false
}

// moved is a request with what the middleware needs where the SDK keeps it. What is no such request, or cannot be read, stays as it is.
func moved(message json.RawMessage) json.RawMessage {
	var parts members
	var method string
	if json.Unmarshal(message, &parts) != nil || json.Unmarshal(parts["method"], &method) != nil {
		return message
	}
	params, changed := movedParams(method, parts["params"], parts["id"])
	if !changed {
		return message
	}
	parts["params"] = params
	return parts.text()
}

// movedParams puts what was given under requestKey of the _meta, and takes it away from where it was; false: nothing was changed.
func movedParams(method string, params, id json.RawMessage) (json.RawMessage, bool) {
	if method != toolsCall && method != listen {
		return nil, false
	}
	var asked, meta members
	if json.Unmarshal(params, &asked) != nil || asked == nil {
		return nil, false
	}
	if given := asked["_meta"]; given != nil && json.Unmarshal(given, &meta) != nil {
		return nil, false
	}
	if meta == nil {
		meta = members{}
	}
	found := members{"id": textJSON(string(id))}
	if method == listen {
		found["filter"] = textJSON(string(asked["notifications"]))
	} else {
		config := asked[configKey]
		if config == nil {
			config = meta[extension]
		}
		if config != nil {
			found["config"] = textJSON(string(config))
		}
		delete(asked, configKey)
		delete(meta, extension)
	}
	meta[requestKey] = textJSON(string(found.text()))
	asked["_meta"] = meta.text()
	return asked.text(), true
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
