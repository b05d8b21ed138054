package tidingsmcp_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidings-mcp/tidings/bindings/go/tidingsmcp"
)

// A client that is back before anybody has noticed that its connection is gone gets its stream: the older connection is ended.
func TestAClientThatIsBackAtOnceTakesItsStream(t *testing.T) {
	ctx := background(t)
	server := serve(t, open(t, file(t)), tidingsmcp.Options{})
	sdk := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server.mcp }, &mcp.StreamableHTTPOptions{EventStore: server.store})
	resumes := make(chan struct{}, 100)
	inner := http.HandlerFunc(func(response http.ResponseWriter, request *http.Request) {
		if request.Method == http.MethodGet {
			resumes <- struct{}{}
		}
		sdk.ServeHTTP(response, request)
	})
	client, _ := connect(t, ctx, listen(t, tidingsmcp.Handler(inner, server.store)))
	call := client.post(callSteps("1", `{"count":5,"hold":4}`))
	seen := call.take(3)
	<-server.reached
	// Nothing is cut: the server can notice nothing. From the call's own connection, and from those of resumes.
	for range 10 {
		again := client.resume(seen[1].id)
		if again.status != http.StatusOK {
			t.Fatalf("%d %s", again.status, again.text())
		}
		if replayed := again.take(1); replayed[0] != seen[2] {
			t.Errorf("%+v", replayed)
		}
		if rest := call.rest(); len(rest) != 0 {
			t.Errorf("the older connection was sent %+v", rest)
		}
		call = again
		<-resumes
	}
	// From those that were sent nothing yet, too, whose answers have not begun.
	for range 10 {
		go func() {
			request, _ := http.NewRequestWithContext(ctx, http.MethodGet, client.url, nil)
			request.Header = http.Header{"Accept": {"text/event-stream"}, "Mcp-Session-Id": {client.session}, "Last-Event-Id": {seen[2].id}}
			if response, err := http.DefaultClient.Do(request); err == nil {
				response.Body.Close()
			}
		}()
		<-resumes
	}
	last := client.resume(seen[1].id)
	if last.status != http.StatusOK {
		t.Fatalf("%d %s", last.status, last.text())
	}
	server.goOn <- struct{}{}
	rest := last.rest()
	if len(rest) != 4 || rest[0] != seen[2] || rest[3].method() != "" {
		t.Errorf("%+v", rest)
	}
	stream, _, _ := strings.Cut(seen[0].id, "_")
	for at, id := range ids(rest) {
		if id != fmt.Sprint(stream, "_", 3+at) {
			t.Errorf("%+v", rest)
		}
	}
}

// Nobody ends the connections of a session that is somebody else's.
func TestOnlyTheSessionsUserTakesAStream(t *testing.T) {
	ctx := background(t)
	server := serve(t, open(t, file(t)), tidingsmcp.Options{})
	url := listen(t, withToken(server.handler()))
	ann := &wire{t: t, ctx: ctx, url: url, header: http.Header{"Authorization": {"Bearer ann"}}}
	initialized := ann.post(initialize)
	ann.session = initialized.response.Header.Get("Mcp-Session-Id")
	initialized.rest()
	call := ann.post(callSteps("1", `{"count":3,"hold":2}`))
	seen := call.take(1)
	<-server.reached
	bob := &wire{t: t, ctx: ctx, url: url, session: ann.session, header: http.Header{"Authorization": {"Bearer bob"}}}
	if answer := bob.resume(seen[0].id); answer.status != http.StatusForbidden {
		t.Errorf("%d", answer.status)
	}
	server.goOn <- struct{}{}
	if rest := call.rest(); len(rest) != 3 {
		t.Errorf("%+v", rest)
	}
}
