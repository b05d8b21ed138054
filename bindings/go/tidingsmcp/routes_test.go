package tidingsmcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	tidings "github.com/tidings-mcp/tidings/bindings/go"
	"github.com/tidings-mcp/tidings/bindings/go/tidingsmcp"
)

// route is a config with one route, whose members are those of a type.
func route(members string, triggers ...string) string {
	return fmt.Sprintf(`{"routes":[{"id":"r",%s,"triggers":["%s"]}]}`, members, strings.Join(triggers, `","`))
}

// pipe is a client over a transport without HTTP, message by message.
type pipe struct {
	t          *testing.T
	ctx        context.Context
	connection mcp.Connection
}

func newPipe(t *testing.T, ctx context.Context, server *mcp.Server) *pipe {
	t.Helper()
	serverSide, clientSide := mcp.NewInMemoryTransports()
	if _, err := server.Connect(ctx, tidingsmcp.Transport(serverSide), nil); err != nil {
		t.Fatal(err)
	}
	connection, err := clientSide.Connect(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { connection.Close() })
	return &pipe{t, ctx, connection}
}

func (p *pipe) send(text string) {
	p.t.Helper()
	message, err := jsonrpc.DecodeMessage([]byte(text))
	if err == nil {
		err = p.connection.Write(p.ctx, message)
	}
	if err != nil {
		p.t.Fatal(err)
	}
}

func (p *pipe) next() string {
	p.t.Helper()
	message, err := p.connection.Read(p.ctx)
	if err != nil {
		p.t.Fatal(err)
	}
	text, err := jsonrpc.EncodeMessage(message)
	if err != nil {
		p.t.Fatal(err)
	}
	return string(text)
}

// begin makes the handshake of a session.
func (p *pipe) begin() (initialized string) {
	p.t.Helper()
	p.send(initialize)
	initialized = p.next()
	p.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return initialized
}

func TestAConfigIsAcknowledgedBeforeItsToolRuns(t *testing.T) {
	ctx := background(t)
	endpoint, options, _ := receiver(t)
	server := serve(t, open(t, file(t), options...), webhooks)
	check := func(frame, last string) {
		t.Helper()
		var acknowledged struct {
			Method string
			Params json.RawMessage
		}
		if err := json.Unmarshal([]byte(frame), &acknowledged); err != nil || acknowledged.Method != "notifications/config/acknowledged" {
			t.Fatal(frame, err)
		}
		// Byte for byte what the result says.
		if found := read(t, last); string(found.Result.Meta["io.tidings/acknowledged"]) != string(acknowledged.Params) {
			t.Errorf("%s, %+v", frame, found)
		}
	}
	ask := configured(`"é"`, `{"count":1,"hold":1}`, config(endpoint, "completed"))

	client, _ := connect(t, ctx, listen(t, server.handler()))
	call := client.post(ask)
	acknowledged := call.take(1)[0]
	<-server.reached
	server.goOn <- struct{}{}
	rest := call.rest()
	check(acknowledged.data, rest[len(rest)-1].data)
	// It is kept like everything else of its stream.
	prime := strings.TrimSuffix(acknowledged.id, "_1") + "_0"
	if again := client.resume(prime).rest(); fmt.Sprint(again) != fmt.Sprint(append([]event{acknowledged}, rest...)) {
		t.Errorf("%+v", again)
	}

	other := newPipe(t, ctx, server.mcp)
	other.begin()
	other.send(ask)
	frame := other.next()
	<-server.reached
	server.goOn <- struct{}{}
	last := other.next()
	for strings.Contains(last, "notifications/progress") {
		last = other.next()
	}
	check(frame, last)
}

// The SDK's own client takes what it does not know, and goes on.
func TestTheSDKsClientIsNotDisturbed(t *testing.T) {
	ctx := background(t)
	endpoint, options, next := receiver(t)
	server := serve(t, open(t, file(t), options...), webhooks)
	session, err := mcp.NewClient(&mcp.Implementation{Name: "c", Version: "1"}, nil).Connect(ctx, &mcp.StreamableClientTransport{
		Endpoint: listen(t, server.handler()),
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	for range 3 {
		result, err := session.CallTool(ctx, &mcp.CallToolParams{
			Name: "steps", Arguments: map[string]any{"count": 2}, Meta: mcp.Meta{"io.tidings/notification-config": json.RawMessage(config(endpoint, "completed"))},
		})
		if err != nil || result.IsError {
			t.Fatalf("%+v, %v", result, err)
		}
		next()
	}
}

func TestAMessageComesIntoTheCallingSession(t *testing.T) {
	ctx := background(t)
	server := serve(t, open(t, file(t)), tidingsmcp.Options{Routes: []string{"message"}})
	check := func(frame string) {
		t.Helper()
		var triggered struct {
			Method string
			Params told
		}
		if err := json.Unmarshal([]byte(frame), &triggered); err != nil || triggered.Method != "notifications/io.tidings/triggered" ||
			triggered.Params.Name != "tool_call.completed" || string(triggered.Params.Data.RequestID) != "5" {
			t.Errorf("%s, %v", frame, err)
		}
	}
	ask := configured("5", `{"count":0}`, route(`"type":"message"`, "completed"))

	// Over HTTP, also while nobody listens: it is kept until the client does.
	client, initialized := connect(t, ctx, listen(t, server.handler()))
	if !strings.Contains(initialized, `"supportedRouteTypes":["message"]`) {
		t.Error(initialized)
	}
	if answered := client.post(ask).reply(); answered.Error != nil {
		t.Fatalf("%+v", answered.Error)
	}
	check(client.send(http.MethodGet, "", nil).take(1)[0].data)

	other := newPipe(t, ctx, server.mcp)
	other.begin()
	other.send(ask)
	for frame := ""; !strings.Contains(frame, "triggered"); {
		if frame = other.next(); strings.Contains(frame, "triggered") {
			check(frame)
		}
	}

	// A request that no connection outlives has no session to come into.
	modern := newModern(t, ctx, listen(t, server.stateless()))
	if discovered := modern.ask("server/discover", "", "").rest()[0].data; !strings.Contains(discovered, `"supportedRouteTypes":[]`) {
		t.Error(discovered)
	}
	refused := modern.ask("tools/call", "steps", `"name":"steps","arguments":{"count":1,"hold":1},"notificationConfig":`+
		route(`"type":"message"`, "completed"))
	if got := taskOf(t, refused); got.Error == nil || got.Error.Code != -32602 {
		t.Errorf("%+v", got)
	}
}

// answered takes one delivery of an outlet, and confirms it.
func answered(t *testing.T, ctx context.Context, outlet *tidings.Outlet) (body told) {
	t.Helper()
	delivery, err := outlet.Next(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(delivery.Body, &body); err != nil {
		t.Fatal(err)
	}
	if inTime, err := delivery.Confirm(); err != nil || !inTime {
		t.Error(inTime, err)
	}
	return body
}

func TestACallbackComesToItsOutlet(t *testing.T) {
	ctx := background(t)
	hub := open(t, file(t))
	server := serve(t, hub, tidingsmcp.Options{Routes: []string{"callback"}, Open: []string{"pager"}})
	outlet, err := hub.Outlet(tidings.Offer{RouteType: "callback", Name: "pager"})
	if err != nil {
		t.Fatal(err)
	}
	client, _ := connect(t, ctx, listen(t, server.handler()))
	if got := client.post(configured("1", `{"count":0}`, route(`"type":"callback","endpoint":"pager"`, "completed"))).reply(); got.Error != nil {
		t.Fatalf("%+v", got.Error)
	}
	if body := answered(t, ctx, outlet); body.Name != "tool_call.completed" {
		t.Errorf("%+v", body)
	}
	other := client.post(configured("2", `{"count":1,"hold":1}`, route(`"type":"callback","endpoint":"other"`, "completed"))).reply()
	if other.Error == nil || other.Error.Code != -32602 {
		t.Errorf("%+v", other)
	}
}

func TestTheServersOwnRoutes(t *testing.T) {
	ctx := background(t)
	hub := open(t, file(t))
	own := func(name string) json.RawMessage {
		return json.RawMessage(fmt.Sprintf(`[{"id":"own","type":"callback","endpoint":%q,"triggers":["completed","failed"]}]`, name))
	}
	options := tidingsmcp.Options{
		Routes: []string{"callback"}, Open: []string{"theirs"}, DefaultRoutes: map[string]json.RawMessage{"steps": own("ours"), "": own("others")},
	}
	server := serve(t, hub, options)
	outlets := map[string]*tidings.Outlet{}
	for _, name := range []string{"ours", "others", "theirs"} {
		outlet, err := hub.Outlet(tidings.Offer{RouteType: "callback", Name: name})
		if err != nil {
			t.Fatal(err)
		}
		outlets[name] = outlet
	}
	client, _ := connect(t, ctx, listen(t, server.handler()))
	plain := client.post(callSteps(`"own"`, `{"count":0,"fail":true}`)).reply()
	if plain.Result == nil || plain.Result.Meta["io.tidings/acknowledged"] != nil {
		t.Errorf("nobody is told of the server's own: %+v", plain)
	}
	if body := answered(t, ctx, outlets["ours"]); body.Name != "tool_call.failed" || string(body.Data.RequestID) != `"own"` {
		t.Errorf("%+v", body)
	}
	client.post(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"ask","arguments":{}}}`).rest()
	// A client with a config of its own is told by that only, and may not use the names of the server's.
	client.post(configured("3", `{"count":0}`, route(`"type":"callback","endpoint":"theirs"`, "completed"))).reply()
	if body := answered(t, ctx, outlets["theirs"]); string(body.Data.RequestID) != "3" {
		t.Errorf("%+v", body)
	}
	refused := client.post(configured("4", `{"count":1,"hold":1}`, route(`"type":"callback","endpoint":"ours"`, "completed"))).reply()
	if refused.Error == nil || refused.Error.Code != -32602 {
		t.Errorf("%+v", refused)
	}
	if body := answered(t, ctx, outlets["others"]); string(body.Data.RequestID) != "2" {
		t.Errorf("%+v", body)
	}
	// Several in one POST, which clients of old may send: each under its own id.
	client.header = http.Header{"Mcp-Protocol-Version": {"2025-03-26"}}
	both := client.post("[" + callSteps("5", `{"count":0}`) + "," + callSteps("6", `{"count":0}`) + "]").rest()
	told := []string{string(answered(t, ctx, outlets["ours"]).Data.RequestID), string(answered(t, ctx, outlets["ours"]).Data.RequestID)}
	if slices.Sort(told); len(both) != 2 || !slices.Equal(told, []string{"5", "6"}) {
		t.Errorf("%v, %+v", told, both)
	}
	wrong := tidingsmcp.Options{DefaultRoutes: map[string]json.RawMessage{"steps": json.RawMessage(`[{"id":"own","type":"webhook","triggers":["completed"]}]`)}}
	if err := tidingsmcp.Attach(mcp.NewServer(&mcp.Implementation{}, nil), hub, wrong); err == nil || !strings.Contains(err.Error(), `DefaultRoutes["steps"]`) {
		t.Error(err)
	}
}

// A session outlives the connection of a request: its client is told that it was lost, and gets the result when it is back.
func TestALostRequestOfASession(t *testing.T) {
	ctx := background(t)
	endpoint, options, next := receiver(t)
	server := serve(t, open(t, file(t), options...), webhooks)
	client, _ := connect(t, ctx, listen(t, server.handler()))
	call := client.post(configured("1", `{"count":1,"hold":1}`, config(endpoint, "completed", "io.tidings/disconnected")))
	acknowledged := call.take(1)[0]
	<-server.reached
	call.cut()
	if body := next(); body.Name != "tool_call.disconnected" {
		t.Errorf("%+v", body)
	}
	server.goOn <- struct{}{}
	if body := next(); body.Name != "tool_call.completed" {
		t.Errorf("%+v", body)
	}
	rest := client.resume(acknowledged.id).rest()
	if len(rest) == 0 || read(t, rest[len(rest)-1].data).Result == nil {
		t.Errorf("%+v", rest)
	}
}

// From 2026-07-28 on to leave is to cancel the request; the call goes on where its config asks for that.
func TestALostRequestWithoutASession(t *testing.T) {
	ctx := background(t)
	endpoint, options, next := receiver(t)
	server := serve(t, open(t, file(t), options...), webhooks)
	client := newModern(t, ctx, listen(t, server.stateless()))
	client.declared = `{}`
	call := client.ask("tools/call", "steps", `"name":"steps","arguments":{"count":1,"hold":1},"notificationConfig":`+
		config(endpoint, "completed", "io.tidings/disconnected"))
	call.take(1)
	<-server.reached
	call.cut()
	if body := next(); body.Name != "tool_call.disconnected" {
		t.Errorf("%+v", body)
	}
	server.goOn <- struct{}{}
	if body := next(); body.Name != "tool_call.completed" {
		t.Errorf("%+v", body)
	}
}

// With another event store than ours what the SDK does not know comes all the same, also in a replay.
func TestAnotherEventStore(t *testing.T) {
	ctx := background(t)
	endpoint, options, _ := receiver(t)
	server := serve(t, open(t, "memory:", options...), webhooks)
	sdk := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server.mcp }, &mcp.StreamableHTTPOptions{
		EventStore: mcp.NewMemoryEventStore(nil),
	})
	client, _ := connect(t, ctx, listen(t, tidingsmcp.Handler(sdk, nil)))
	all := client.post(configured("1", `{"count":1}`, config(endpoint, "completed"))).rest()
	if all[0].method() != "notifications/config/acknowledged" {
		t.Fatalf("%+v", all)
	}
	if again := client.resume(strings.TrimSuffix(all[0].id, "_1") + "_0").rest(); fmt.Sprint(again) != fmt.Sprint(all) {
		t.Errorf("%+v", again)
	}
}
