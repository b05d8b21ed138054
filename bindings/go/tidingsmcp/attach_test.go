package tidingsmcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	tidings "github.com/tidings-mcp/tidings/bindings/go"
	"github.com/tidings-mcp/tidings/bindings/go/tidingsmcp"
)

const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// told is the body of a webhook about a call.
type told struct {
	Name string
	Data struct {
		CallID    string
		RequestID json.RawMessage
		Outcome   struct {
			Status, Reason string
			Result, Error  json.RawMessage
		}
	}
}

// receiver verifies what it is sent; the options are those of a hub that may send there.
func receiver(t *testing.T) (endpoint string, options []tidings.Option, next func() told) {
	t.Helper()
	webhook, err := tidings.NewWebhook(secret)
	if err != nil {
		t.Fatal(err)
	}
	came := make(chan []byte, 16)
	server := httptest.NewServer(webhook.Handler(func(_ context.Context, received *tidings.Received) error {
		came <- received.Body
		return nil
	}))
	t.Cleanup(server.Close)
	where, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.ParseUint(where.Port(), 10, 16)
	if err != nil {
		t.Fatal(err)
	}
	options = []tidings.Option{tidings.WithHTTP(), tidings.WithAllowedPort(uint16(port)), tidings.WithAllowedNetwork("127.0.0.0/8")}
	return server.URL + "/hook", options, func() told {
		t.Helper()
		var body told
		select {
		case text := <-came:
			if err := json.Unmarshal(text, &body); err != nil {
				t.Fatal(err)
			}
		case <-time.After(hangs):
			t.Fatal("no webhook came")
		}
		return body
	}
}

func config(endpoint string, triggers ...string) string {
	return fmt.Sprintf(`{"routes": [{"id":"r", "type":"webhook", "endpoint":%q, "secret":%q, "triggers":["%s"]}]}`,
		endpoint, secret, strings.Join(triggers, `","`))
}

var webhooks = tidingsmcp.Options{Routes: []string{"webhook"}}

func configured(id, arguments, config string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":"steps","arguments":%s,"notificationConfig":%s}}`,
		id, arguments, config)
}

// reply is the answer to a request.
type reply struct {
	Result *struct {
		Meta    map[string]json.RawMessage `json:"_meta"`
		IsError bool
		Content []struct{ Text string }
	}
	Error *struct {
		Code    int
		Message string
		Data    struct {
			Reason, CallID string
			Faults         []tidings.Fault
			Total          int
		}
	}
}

func read(t *testing.T, text string) (found reply) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &found); err != nil {
		t.Fatal(text, err)
	}
	return found
}

func (a *answer) reply() reply {
	a.t.Helper()
	all := a.rest()
	return read(a.t, all[len(all)-1].data)
}

func TestACallIsAcknowledgedAndItsOutcomeTold(t *testing.T) {
	ctx := background(t)
	endpoint, options, next := receiver(t)
	server := serve(t, open(t, file(t), options...), webhooks)
	client, initialized := connect(t, ctx, listen(t, server.handler()))
	for _, capability := range []string{
		`"io.tidings/notification-config":{"supportedRouteTypes":["webhook"]}`, `"notificationConfig":{"supportedRouteTypes":["webhook"]}`,
	} {
		if !strings.Contains(initialized, capability) {
			t.Errorf("%s is not in %s", capability, initialized)
		}
	}
	// An id that no float holds stays what it is.
	answered := client.post(configured("9007199254740993", `{"count":1,"fire":"com.example/half"}`,
		config(endpoint, "completed", "com.example/half"))).reply()
	if answered.Error != nil {
		t.Fatalf("%+v", answered.Error)
	}
	var acknowledged struct {
		RequestID      json.RawMessage
		AcceptedRoutes []string
		CallID         string
	}
	if err := json.Unmarshal(answered.Result.Meta["io.tidings/acknowledged"], &acknowledged); err != nil {
		t.Fatal(err)
	}
	if string(acknowledged.RequestID) != "9007199254740993" || fmt.Sprint(acknowledged.AcceptedRoutes) != "[r]" {
		t.Errorf("%s", answered.Result.Meta["io.tidings/acknowledged"])
	}
	if answered.Result.Content[0].Text != "0" {
		t.Errorf("the tool saw %s members of _meta", answered.Result.Content[0].Text)
	}
	found := map[string]told{}
	for range 2 {
		body := next()
		found[body.Name] = body
	}
	completed, is := found["tool_call.completed"]
	if !is || completed.Data.CallID != acknowledged.CallID || completed.Data.Outcome.Status != "completed" ||
		!strings.Contains(string(completed.Data.Outcome.Result), `"text":"0"`) || len(found) != 2 {
		t.Errorf("%+v", found)
	}
}

func TestEachWayACallEndsIsTold(t *testing.T) {
	ctx := background(t)
	endpoint, options, next := receiver(t)
	limited := webhooks
	limited.Timeout = func(string) time.Duration { return time.Hour }
	server := serve(t, open(t, file(t), options...), limited)
	client, _ := connect(t, ctx, listen(t, server.handler()))
	every := config(endpoint, "completed", "failed", "timeout", "cancelled")

	if answered := client.post(configured("1", `{"count":0,"fail":true}`, every)).reply(); !answered.Result.IsError {
		t.Errorf("%+v", answered)
	}
	if body := next(); body.Name != "tool_call.failed" {
		t.Errorf("%+v", body)
	}

	// The client may lower the limit.
	short := strings.Replace(every, "{", `{"timeoutMs":1000,`, 1)
	answered := client.post(configured("2", `{"count":1,"hold":1}`, short)).reply()
	if answered.Error == nil || answered.Error.Data.Reason != "timeout" || answered.Error.Data.CallID == "" {
		t.Errorf("%+v", answered.Error)
	}
	if body := next(); body.Name != "tool_call.timeout" {
		t.Errorf("%+v", body)
	}
	<-server.reached

	call := client.post(configured(`"3"`, `{"count":1,"hold":1}`, every))
	<-server.reached
	client.post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"3"}}`)
	call.rest()
	if body := next(); body.Name != "tool_call.cancelled" || body.Data.Outcome.Reason != "" || string(body.Data.RequestID) != `"3"` {
		t.Errorf("%+v", body)
	}

	// A connection that is lost is no cancel: the call goes on, and may be ended by its id.
	call = client.post(configured("4", `{"count":1,"hold":1}`, every))
	<-server.reached
	call.cut()
	server.goOn <- struct{}{}
	if body := next(); body.Name != "tool_call.completed" || string(body.Data.RequestID) != "4" {
		t.Errorf("%+v", body)
	}
}

func TestACallIsCancelledByItsID(t *testing.T) {
	ctx := background(t)
	endpoint, options, next := receiver(t)
	server := serve(t, open(t, file(t), options...), webhooks)
	where := listen(t, server.handler())
	client, _ := connect(t, ctx, where)
	call := client.post(configured("1", `{"count":1,"hold":1,"begin":true}`, config(endpoint, "cancelled", "com.example/begun")))
	<-server.reached
	// What a tool fires tells the id, while it runs.
	id := next().Data.CallID
	other, _ := connect(t, ctx, where)
	ask := fmt.Sprintf(`{"jsonrpc":"2.0","id":5,"method":"io.tidings/calls/cancel","params":{"callId":%q}}`, id)
	if answered := other.post(ask).reply(); answered.Error == nil || answered.Error.Code != jsonrpc.CodeInvalidParams {
		t.Errorf("by somebody else: %+v", answered)
	}
	if answered := client.post(ask).reply(); answered.Error != nil {
		t.Errorf("%+v", answered.Error)
	}
	if answered := call.reply(); answered.Error == nil || answered.Error.Data.Reason != "cancelled" || answered.Error.Data.CallID != id {
		t.Errorf("%+v", answered)
	}
	if body := next(); body.Name != "tool_call.cancelled" || body.Data.CallID != id {
		t.Errorf("%+v", body)
	}
}

func TestAConfigThatIsRefusedRunsNothing(t *testing.T) {
	ctx := background(t)
	server := serve(t, open(t, file(t)), webhooks)
	client, _ := connect(t, ctx, listen(t, server.handler()))
	answered := client.post(configured("1", `{"count":1,"hold":1}`, `{"routes":[{"id":"r","type":"pigeon","triggers":["completed"]}]}`)).reply()
	if answered.Error == nil || answered.Error.Code != jsonrpc.CodeInvalidParams || answered.Error.Data.Total != 1 ||
		answered.Error.Data.Faults[0].Path != "/routes/0/type" {
		t.Errorf("%+v", answered.Error)
	}
	if len(server.reached) != 0 {
		t.Error("the tool ran")
	}
	answered = client.post(configured("2", `{"count":1}`, `null`)).reply()
	if answered.Error == nil || answered.Error.Code != jsonrpc.CodeInvalidParams {
		t.Errorf("null: %+v", answered)
	}
}

// A client of the SDK has no other place for a config than _meta; the server has no HTTP.
func TestAConfigInMetaOverAnotherTransport(t *testing.T) {
	ctx := background(t)
	endpoint, options, next := receiver(t)
	server := serve(t, open(t, file(t), options...), webhooks)
	serverSide, clientSide := mcp.NewInMemoryTransports()
	if _, err := server.mcp.Connect(ctx, tidingsmcp.Transport(serverSide), nil); err != nil {
		t.Fatal(err)
	}
	session, err := mcp.NewClient(&mcp.Implementation{Name: "c", Version: "1"}, nil).Connect(ctx, clientSide, nil)
	if err != nil {
		t.Fatal(err)
	}
	result, err := session.CallTool(ctx, &mcp.CallToolParams{
		Name: "steps", Arguments: map[string]any{"count": 0},
		Meta: mcp.Meta{"io.tidings/notification-config": json.RawMessage(config(endpoint, "completed"))},
	})
	if err != nil || result.Meta["io.tidings/acknowledged"] == nil || strings.Contains(fmt.Sprint(result.Meta), "io.tidings/request") {
		t.Fatalf("%+v, %v", result, err)
	}
	if body := next(); body.Name != "tool_call.completed" {
		t.Errorf("%+v", body)
	}
	if err := session.Close(); err != nil {
		t.Error(err)
	}
}

// A connection that ends takes no call along whose config asked to be told of it.
func TestALostConnectionEndsNoCall(t *testing.T) {
	ctx := background(t)
	endpoint, options, next := receiver(t)
	server := serve(t, open(t, file(t), options...), webhooks)
	serverSide, clientSide := mcp.NewInMemoryTransports()
	if _, err := server.mcp.Connect(ctx, tidingsmcp.Transport(serverSide), nil); err != nil {
		t.Fatal(err)
	}
	connection, err := clientSide.Connect(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{
		initialize, `{"jsonrpc":"2.0","method":"notifications/initialized"}`,
		configured("7", `{"count":1,"hold":1}`, config(endpoint, "completed", "cancelled", "io.tidings/disconnected")),
	} {
		message, err := jsonrpc.DecodeMessage([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if err := connection.Write(ctx, message); err != nil {
			t.Fatal(err)
		}
	}
	// The answer to initialize, without which the server does not get rid of it.
	if _, err := connection.Read(ctx); err != nil {
		t.Fatal(err)
	}
	<-server.reached
	if err := connection.Close(); err != nil {
		t.Fatal(err)
	}
	if body := next(); body.Name != "tool_call.disconnected" {
		t.Errorf("%+v", body)
	}
	server.goOn <- struct{}{}
	if body := next(); body.Name != "tool_call.completed" || string(body.Data.RequestID) != "7" {
		t.Errorf("%+v", body)
	}
}

func TestAServerThatIsNotSetUpSaysSo(t *testing.T) {
	ctx := background(t)
	server := serve(t, open(t, "memory:"), webhooks)
	serverSide, clientSide := mcp.NewInMemoryTransports()
	if _, err := server.mcp.Connect(ctx, serverSide, nil); err != nil {
		t.Fatal(err)
	}
	session, err := mcp.NewClient(&mcp.Implementation{Name: "c", Version: "1"}, nil).Connect(ctx, clientSide, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	_, err = session.CallTool(ctx, &mcp.CallToolParams{
		Name: "steps", Arguments: map[string]any{"count": 0}, Meta: mcp.Meta{"io.tidings/notification-config": map[string]any{}},
	})
	var wire *jsonrpc.Error
	if !errors.As(err, &wire) || !strings.Contains(wire.Message, "tidingsmcp.Handler") {
		t.Error(err)
	}
}

// The store is down: the client is told that nothing ran, and may try again.
func TestAConfigThatCannotBeStoredIsRefused(t *testing.T) {
	ctx := background(t)
	hub := open(t, "memory:")
	server := serve(t, hub, webhooks)
	client, _ := connect(t, ctx, listen(t, server.handler()))
	if err := hub.Close(); err != nil {
		t.Fatal(err)
	}
	answered := client.post(configured("1", `{"count":1,"hold":1}`, config("https://example.com/hook", "completed"))).reply()
	if answered.Error == nil || answered.Error.Code != jsonrpc.CodeInternalError || answered.Error.Data.Reason != "unavailable" {
		t.Errorf("%+v", answered)
	}
	if len(server.reached) != 0 {
		t.Error("the tool ran")
	}
}
