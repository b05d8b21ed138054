package tidingsmcp

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// maxBody is how much of a request is looked into: the SDK's own limit.
const maxBody = mcp.DefaultMaxRequestBodyBytes

// Handler stands in front of an [mcp.StreamableHTTPHandler], inside whatever authenticates. It hands the middleware of [Attach] what
// the SDK would drop: the notificationConfig of a tools/call, as it was sent, and the request's id. With a store it resumes streams of
// sessions that this process does not hold; store may be nil.
func Handler(next http.Handler, store *EventStore) http.Handler {
	return http.HandlerFunc(func(response http.ResponseWriter, request *http.Request) {
		if store != nil {
			if asked, resumes := store.resuming(request); resumes && store.serve(response, request, asked) {
				return
			}
		}
		if request.Method == http.MethodPost && request.Body != nil {
			request = withConfigs(request)
		}
		next.ServeHTTP(response, request)
	})
}

func withConfigs(request *http.Request) *http.Request {
	body := request.Body
	given, err := io.ReadAll(io.LimitReader(body, maxBody+1))
	restored := func(rest io.Reader) {
		request.Body = struct {
			io.Reader
			io.Closer
		}{rest, body}
	}
	if err != nil || len(given) > maxBody {
		// The SDK says what is wrong with it.
		restored(io.MultiReader(bytes.NewReader(given), &failing{body, err}))
		return request
	}
	text := bytes.TrimLeft(given, " \t\r\n")
	if len(text) > 0 && text[0] == '[' {
		request = request.WithContext(context.WithValue(request.Context(), batchKey{}, true))
		var messages []json.RawMessage
		if mayHaveConfig(given) && json.Unmarshal(given, &messages) == nil {
			for at, message := range messages {
				messages[at] = moved(message)
			}
			given = mustJSON(messages)
		}
	} else if mayHaveConfig(given) {
		given = moved(given)
	}
	restored(bytes.NewReader(given))
	request.ContentLength = int64(len(given))
	return request
}

// failing goes on with a body whose reading may have failed.
type failing struct {
	body io.Reader
	err  error
}

func (f *failing) Read(into []byte) (int, error) {
	if f.err != nil {
		return 0, f.err
	}
	return f.body.Read(into)
}

// batchKey marks the context of a POST with several messages.
type batchKey struct{}

func isBatch(ctx context.Context) bool { return ctx.Value(batchKey{}) != nil }

// mayHaveConfig is a quick look, so that other requests are not taken apart.
func mayHaveConfig(text []byte) bool {
	return bytes.Contains(text, []byte(configKey)) || bytes.Contains(text, []byte(extension)) || bytes.Contains(text, []byte(requestKey))
}

// moved is a request with its config where the SDK keeps it. What is no such request, or cannot be read, stays as it is.
func moved(message json.RawMessage) json.RawMessage {
	var parts map[string]json.RawMessage
	var method string
	if json.Unmarshal(message, &parts) != nil || json.Unmarshal(parts["method"], &method) != nil || method != toolsCall {
		return message
	}
	params, changed := movedParams(parts["params"], parts["id"])
	if !changed {
		return message
	}
	parts["params"] = params
	return mustJSON(parts)
}

// movedParams puts the config, and the id of its request, under a key of the _meta, both as text. JSON as it was sent goes through the
// SDK in no other way: what it takes apart it writes anew.
func movedParams(params, id json.RawMessage) (json.RawMessage, bool) {
	var members, meta map[string]json.RawMessage
	if json.Unmarshal(params, &members) != nil || members == nil {
		return nil, false
	}
	if given := members["_meta"]; given != nil && json.Unmarshal(given, &meta) != nil {
		return nil, false
	}
	config, changed := members[configKey]
	if config == nil {
		if config = meta[extension]; config != nil {
			changed = true
		}
	}
	if _, forged := meta[requestKey]; forged {
		delete(meta, requestKey)
		changed = true
	}
	if !changed {
		return nil, false
	}
	if config != nil {
		if meta == nil {
			meta = map[string]json.RawMessage{}
		}
		delete(members, configKey)
		delete(meta, extension)
		meta[requestKey] = mustJSON(map[string]string{"id": string(id), "config": string(config)})
	}
	members["_meta"] = mustJSON(meta)
	return mustJSON(members), true
}

// Transport stands around a transport other than Streamable HTTP, such as an [mcp.StdioTransport], and does what [Handler] does for
// configs.
func Transport(transport mcp.Transport) mcp.Transport { return wrapped{transport} }

type wrapped struct{ mcp.Transport }

func (w wrapped) Connect(ctx context.Context) (mcp.Connection, error) {
	connection, err := w.Transport.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return reading{connection}, nil
}

type reading struct{ mcp.Connection }

func (r reading) Read(ctx context.Context) (jsonrpc.Message, error) {
	message, err := r.Connection.Read(ctx)
	request, is := message.(*jsonrpc.Request)
	if err != nil || !is || request.Method != toolsCall || !mayHaveConfig(request.Params) {
		return message, err
	}
	id, err := json.Marshal(request.ID.Raw())
	if err != nil {
		return nil, err
	}
	if params, changed := movedParams(request.Params, id); changed {
		changedRequest := *request
		changedRequest.Params = params
		return &changedRequest, nil
	}
	return message, nil
}
