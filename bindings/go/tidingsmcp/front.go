package tidingsmcp

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"io"
	"net/http"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// maxBody is how much of a request is looked into: the SDK's own limit.
const maxBody = mcp.DefaultMaxRequestBodyBytes

// Handler stands in front of an [mcp.StreamableHTTPHandler], inside whatever authenticates. It hands the middleware of [Attach] what
// the SDK would drop: the notificationConfig of a tools/call, as it was sent, the request's id, and that its client has gone; and it
// puts on the wire what the SDK cannot send. With a store it resumes streams of sessions that this process does not hold, tells gaps,
// and ends a connection whose client is back on another; store may be nil.
func Handler(next http.Handler, store *EventStore) http.Handler {
	return http.HandlerFunc(func(response http.ResponseWriter, request *http.Request) {
		var takes *resumption
		if asked, resumes := resuming(request); resumes && store != nil {
			if store.lives(asked.sessionID) {
				if store.takeOver(request.Context(), asked) {
					takes = asked
				}
			} else if store.serve(response, request, asked) {
				return
			}
		}
		if store != nil && request.Method == http.MethodDelete {
			defer store.ends(request.Header.Get("Mcp-Session-Id"))()
		}
		// A copy, and nothing of ours that came from outside.
		request = request.Clone(request.Context())
		request.Header.Del(idHeader)
		if request.Method == http.MethodPost && request.Body != nil {
			request = withConfigs(request)
		}
		serveFronted(next, store, response, request, takes)
	})
}

// front is what stands between the wire and the SDK, for one HTTP request or one connection of another kind.
type front struct {
	// out is the response of an HTTP request; nil for other transports.
	out *frameWriter
	// stdin: the client is at the other end of this process's.
	stdin bool
	// gone is closed when the client of an HTTP request has left before it had its answer, or is back on another connection.
	gone <-chan struct{}
	// store is what Handler was given.
	store *EventStore
}

// lost is the front of a request whose client has gone already.
var lost = func() *front {
	gone := make(chan struct{})
	close(gone)
	return &front{gone: gone}
}()

// overHTTP tells whether each request has a response of its own.
func (f *front) overHTTP() bool { return f.out != nil }

// frontHeader is how the middleware finds the front of a request: the SDK hands it nothing else of an HTTP request whose session has
// others. Its value is random, and one that comes over the wire is replaced.
const frontHeader = "Tidings-Front"

// fronts are those of requests and connections that are being served, by the values of frontHeader.
var fronts sync.Map

// frontKey is where the front is in the context of an HTTP request, for the event store.
type frontKey struct{}

func frontIn(ctx context.Context) *front {
	found, _ := ctx.Value(frontKey{}).(*front)
	return found
}

func newFront(f *front) (token string) {
	token = rand.Text()
	fronts.Store(token, f)
	return token
}

// frontOf is the front of a request; nil if there is none, or its client has gone already.
func frontOf(extra *mcp.RequestExtra) *front {
	if extra == nil {
		return nil
	}
	found, _ := fronts.Load(extra.Header.Get(frontHeader))
	known, _ := found.(*front)
	return known
}

// withoutFront is what a tool may see of it.
func withoutFront(extra *mcp.RequestExtra) *mcp.RequestExtra {
	if extra == nil || extra.Header.Get(frontHeader) == "" {
		return extra
	}
	own := *extra
	own.Header = extra.Header.Clone()
	own.Header.Del(frontHeader)
	own.Header.Del(idHeader)
	if len(own.Header) == 0 && own.TokenInfo == nil {
		return nil // of a transport that has no headers
	}
	return &own
}

// serveFronted has the SDK serve a request. takes is the stream that it resumes, if it is one of a session that lives here.
func serveFronted(next http.Handler, store *EventStore, response http.ResponseWriter, request *http.Request, takes *resumption) {
	client := request.Context()
	ctx, stop := context.WithCancel(client)
	defer stop()
	reader := newConnection(response, stop)
	own := &front{out: newFrameWriter(response), gone: reader.gone, store: store}
	release := func() {}
	if takes != nil {
		release = store.reads(takes.sessionID, takes.streamID, reader)
	} else if store != nil {
		// It is known by its first event whose connection it is.
		own.out.named = func(streamID string) {
			sessionID := request.Header.Get("Mcp-Session-Id")
			if sessionID == "" {
				sessionID = response.Header().Get("Mcp-Session-Id") // which begins with this answer
			}
			release = store.reads(sessionID, streamID, reader)
		}
	}
	token := newFront(own)
	request = request.WithContext(context.WithValue(ctx, frontKey{}, own))
	request.Header.Set(frontHeader, token)
	watch := context.AfterFunc(client, reader.leave)
	defer func() {
		// A request that is over because it was answered has no client that left it. One whose client has left may be over before that was
		// noticed here.
		if watch() && client.Err() != nil {
			reader.leave()
		}
		own.out.end()
		release()
		reader.served()
		fronts.Delete(token)
	}()
	next.ServeHTTP(own.out, request)
}

// withConfigs hands over what the SDK would drop of a request, whose header is ours to change.
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
		// A header is there once for all of them, so that each brings its own id.
		var messages []json.RawMessage
		if (mayConcern(given) || bytes.Contains(given, []byte(toolsCall))) && json.Unmarshal(given, &messages) == nil {
			for at, message := range messages {
				messages[at] = moved(message)
			}
			given = listJSON(messages)
		}
	} else if mayConcern(given) {
		given = moved(given)
	} else if id := idOf(given); id != nil {
		setID(request.Header, id)
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
