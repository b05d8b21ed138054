package tidingsmcp_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/tidings-mcp/tidings/bindings/go/tidingsmcp"
)

// A client that is back before anybody has noticed that its connection is gone gets its stream: the older connection is ended.
func TestAClientThatIsBackAtOnceTakesItsStream(t *testing.T) {
	ctx := background(t)
	server := serve(t, open(t, file(t)), tidingsmcp.Options{})
	client, _ := connect(t, ctx, listen(t, server.handler()))
	call := client.post(callSteps("1", `{"count":5,"hold":4}`))
	seen := call.take(3)
	<-server.reached
	// Nothing is cut: the server can notice nothing. Once from the call's own connection, and then from those of resumes, which have
	// something to replay, or nothing and begin all the same.
	for at := range 20 {
		again := client.resume(seen[1+at%2].id)
		if again.status != http.StatusOK {
			t.Fatalf("%d %s", again.status, again.text())
		}
		if at%2 == 0 {
			if replayed := again.take(1); replayed[0] != seen[2] {
				t.Errorf("%+v", replayed)
			}
		}
		if rest := call.rest(); len(rest) != 0 {
			t.Errorf("the older connection was sent %+v", rest)
		}
		call = again
	}
	server.goOn <- struct{}{}
	rest := call.rest()
	if len(rest) != 3 || rest[2].method() != "" {
		t.Errorf("%+v", rest)
	}
	stream, _, _ := strings.Cut(seen[0].id, "_")
	for at, id := range ids(rest) {
		if id != fmt.Sprint(stream, "_", 4+at) {
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
