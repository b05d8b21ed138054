package tidingsmcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	tidings "github.com/tidings-mcp/tidings/bindings/go"
	"github.com/tidings-mcp/tidings/bindings/go/tidingsmcp"
)

// serveResources makes a server with resources that can be subscribed to.
func serveResources(t *testing.T, hub *tidings.Hub, options tidingsmcp.Options) *served {
	t.Helper()
	accept := &mcp.ServerOptions{
		SubscribeHandler:   func(context.Context, *mcp.SubscribeRequest) error { return nil },
		UnsubscribeHandler: func(context.Context, *mcp.UnsubscribeRequest) error { return nil },
	}
	server := mcp.NewServer(&mcp.Implementation{Name: "t", Version: "1"}, accept)
	server.AddResource(&mcp.Resource{Name: "a", URI: "file:///a"}, func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		return nil, mcp.ResourceNotFoundError("file:///a")
	})
	if err := tidingsmcp.Attach(server, hub, options); err != nil {
		t.Fatal(err)
	}
	return &served{hub: hub, store: tidingsmcp.NewEventStore(hub), mcp: server}
}

func notify(t *testing.T, hub *tidings.Hub, change tidings.Change) tidings.Fanout {
	t.Helper()
	told, err := hub.Notify(change)
	if err != nil {
		t.Fatal(err)
	}
	return told
}

var resources, updated = tidings.Change{Kinds: []string{"resources"}}, tidings.Change{Kinds: []string{"resource"}, URI: "file:///a"}

func TestEverySessionIsTold(t *testing.T) {
	ctx := background(t)
	hub := open(t, file(t))
	server := serveResources(t, hub, tidingsmcp.Options{})
	url := listen(t, server.handler())
	client, _ := connect(t, ctx, url)
	listening := client.send(http.MethodGet, "", nil)
	client.post(`{"jsonrpc":"2.0","id":1,"method":"ping"}`).rest() // its handshake was seen when this is answered
	// One that listens later is told then, once for however many changes there were.
	late, _ := connect(t, ctx, url)
	other := newPipe(t, ctx, server.mcp)
	other.begin()
	if answer := late.post(`{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"file:///a"}}`).reply(); answer.Error != nil {
		t.Fatalf("%+v", answer.Error)
	}
	other.send(`{"jsonrpc":"2.0","id":1,"method":"ping"}`) // its handshake was seen when this is answered
	other.next()
	if told := notify(t, hub, resources); told.Told != 3 || told.Failed != 0 {
		t.Errorf("%+v", told)
	}
	if told := notify(t, hub, updated); told.Told != 1 {
		t.Errorf("%+v", told)
	}
	// Field case B42: no id, and no params that are no object.
	const changed = `{"jsonrpc":"2.0","method":"notifications/resources/list_changed"}`
	if found := listening.take(1)[0].data; found != changed {
		t.Error(found)
	}
	if found := other.next(); found != changed {
		t.Error(found)
	}
	found := map[string]bool{}
	for _, event := range late.send(http.MethodGet, "", nil).take(2) {
		found[event.method()] = true
	}
	if !found["notifications/resources/list_changed"] || !found["notifications/resources/updated"] {
		t.Errorf("%v", found)
	}
	if answer := late.post(`{"jsonrpc":"2.0","id":2,"method":"resources/unsubscribe","params":{"uri":"file:///a"}}`).reply(); answer.Error != nil {
		t.Fatalf("%+v", answer.Error)
	}
	if told := notify(t, hub, updated); told.Told != 0 {
		t.Errorf("%+v", told)
	}
	// What the server did not announce nobody is told.
	if told := notify(t, hub, tidings.Change{Kinds: []string{"prompts"}}); told.Told != 0 {
		t.Errorf("%+v", told)
	}
	// A session that is over is no peer any more.
	if status := late.send(http.MethodDelete, "", nil).status; status != http.StatusNoContent {
		t.Error(status)
	}
	for notify(t, hub, resources).Told != 2 {
	}
}

func TestListenersAreToldWithinTheirFilter(t *testing.T) {
	ctx := background(t)
	hub := open(t, file(t))
	server := serveResources(t, hub, tidingsmcp.Options{Tasks: &tidingsmcp.Tasks{}})
	client := newModern(t, ctx, listen(t, server.stateless()))
	listening := client.ask("subscriptions/listen", "",
		`"notifications":{"resourceSubscriptions":["file:///a"],"resourcesListChanged":true,"promptsListChanged":true}`)
	first := listening.take(1)[0]
	if first.method() != "notifications/subscriptions/acknowledged" || strings.Contains(first.data, "prompts") || !strings.Contains(first.data, "file:///a") {
		t.Fatal(first.data)
	}
	if told := notify(t, hub, updated); told.Told != 1 {
		t.Errorf("%+v", told)
	}
	got := listening.take(1)[0]
	if got.method() != "notifications/resources/updated" || !strings.Contains(got.data, `"io.modelcontextprotocol/subscriptionId":1`) {
		t.Error(got.data)
	}
	// What the server's own features do comes on the same stream, from the SDK.
	server.mcp.AddResource(&mcp.Resource{Name: "b", URI: "file:///b"}, nil)
	if got := listening.take(1)[0]; got.method() != "notifications/resources/list_changed" {
		t.Error(got.data)
	}
	listening.cut()
	for notify(t, hub, updated).Told != 0 {
	}
	// Field case B43: who asks for nothing hears nothing, and the answer comes at once.
	nothing := client.ask("subscriptions/listen", "", `"notifications":{}`).rest()
	if len(nothing) != 2 || nothing[0].method() != "notifications/subscriptions/acknowledged" || !strings.Contains(nothing[1].data, `"result"`) {
		t.Errorf("%+v", nothing)
	}
}

// Field case B43: what is published while a stream is being opened comes behind its acknowledgement.
func TestNothingComesBeforeTheAcknowledgement(t *testing.T) {
	ctx := background(t)
	hub := open(t, "memory:")
	server := serveResources(t, hub, tidingsmcp.Options{})
	client := newModern(t, ctx, listen(t, server.stateless()))
	done, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-done:
				return
			default:
				if _, err := hub.Notify(updated); err != nil {
					t.Error(err)
					return
				}
			}
		}
	}()
	for range 30 {
		listening := client.ask("subscriptions/listen", "", `"notifications":{"resourceSubscriptions":["file:///a"]}`)
		first := listening.take(2)
		if first[0].method() != "notifications/subscriptions/acknowledged" || first[1].method() != "notifications/resources/updated" {
			t.Errorf("%+v", first)
		}
		listening.cut()
	}
	close(done)
	<-stopped
}

func TestListenersAreToldOfTasks(t *testing.T) {
	ctx := background(t)
	server := serve(t, open(t, file(t)), atOnce)
	client := newModern(t, ctx, listen(t, withToken(server.stateless())))
	client.header = http.Header{"Authorization": {"Bearer ann"}}
	task := created(t, client.call(`{"count":1,"hold":1}`))
	<-server.reached
	listening := client.ask("subscriptions/listen", "", fmt.Sprintf(`"notifications":{"taskIds":[%q,"another"]}`, task))
	if first := listening.take(1)[0]; first.method() != "notifications/subscriptions/acknowledged" || !strings.Contains(first.data, task) ||
		strings.Contains(first.data, "another") {
		t.Fatal(first.data)
	}
	server.goOn <- struct{}{}
	told := listening.take(1)[0]
	var frame struct {
		Method string
		Params struct{ TaskID, Status string }
	}
	if err := json.Unmarshal([]byte(told.data), &frame); err != nil || frame.Method != "notifications/tasks" || frame.Params.TaskID != task ||
		frame.Params.Status != "completed" {
		t.Error(told.data, err)
	}
	plain := newModern(t, ctx, client.url)
	plain.declared = `{}`
	if got := taskOf(t, plain.ask("subscriptions/listen", "", `"notifications":{"taskIds":["x"]}`)); got.Error == nil || got.Error.Code != -32021 {
		t.Errorf("%+v", got)
	}
}

// What one process publishes the sessions of another one are told; a burst comes to as little as has to be said.
func TestAnotherProcessTellsItsSessions(t *testing.T) {
	ctx := background(t)
	where := file(t)
	hub := open(t, where)
	elsewhere := start(t, where)
	client, _ := connect(t, ctx, elsewhere.url+"/mcp")
	listening := client.send(http.MethodGet, "", nil)
	for range 1000 {
		notify(t, hub, tidings.Change{Kinds: []string{"tools"}})
	}
	if method := listening.take(1)[0].method(); method != "notifications/tools/list_changed" {
		t.Error(method)
	}
	// Everything that the session was sent is in the store that both have: once it is committed, which a message does not wait for.
	sent, err := hub.Stream("session:"+client.session, "sdk:")
	if err != nil {
		t.Fatal(err)
	}
	for {
		page, err := sent.Read(ctx, tidings.Earliest, 10_000)
		if err != nil {
			t.Fatal(err)
		}
		if len(page.Events) >= 1000 {
			t.Errorf("%d notifications", len(page.Events))
		}
		if len(page.Events) > 0 {
			return
		}
	}
}

func TestAnAudienceIsOfOnePrincipal(t *testing.T) {
	ctx := background(t)
	hub := open(t, "memory:")
	server := serveResources(t, hub, tidingsmcp.Options{})
	url := listen(t, withToken(server.handler()))
	for _, name := range []string{"ann", "bob"} {
		client := &wire{t: t, ctx: ctx, url: url, header: http.Header{"Authorization": {"Bearer " + name}}}
		begun := client.post(initialize)
		client.session = begun.response.Header.Get("Mcp-Session-Id")
		begun.rest()
		client.post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		client.post(`{"jsonrpc":"2.0","id":1,"method":"ping"}`).rest()
	}
	for audience, count := range map[string]int{"": 2, `auth:[null,"ann",""]`: 1, "another": 0} {
		change := resources
		change.Audience = audience
		if told := notify(t, hub, change); told.Told != count {
			t.Errorf("%q: %+v", audience, told)
		}
	}
}
