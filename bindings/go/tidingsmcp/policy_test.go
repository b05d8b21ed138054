package tidingsmcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	tidings "github.com/tidings-mcp/tidings/bindings/go"
	"github.com/tidings-mcp/tidings/bindings/go/tidingsmcp"
)

// A policy says who may have what told where, before anything runs.
func TestThePolicyJudgesEachConfig(t *testing.T) {
	ctx := background(t)
	hub := open(t, file(t))
	var said tidingsmcp.Decision
	var failed error
	asked := make(chan tidingsmcp.PolicyRequest, 1)
	// A client waits for each answer, so that nobody is asked while these are changed.
	policy := func(_ context.Context, request tidingsmcp.PolicyRequest) (tidingsmcp.Decision, error) {
		seen := request
		seen.Config = slices.Clone(request.Config)
		asked <- seen
		clear(request.Config) // it is its own
		return said, failed
	}
	own := json.RawMessage(`[{"id":"own","type":"callback","endpoint":"others","triggers":["completed"]}]`)
	server := serve(t, hub, tidingsmcp.Options{
		Routes: []string{"callback"}, Open: []string{"known"}, Policy: policy, DefaultRoutes: map[string]json.RawMessage{"steps": own},
	})
	desks := map[string]*tidings.Outlet{}
	for _, name := range []string{"known", "opened", "others"} {
		outlet, err := hub.Outlet(tidings.Offer{RouteType: "callback", Name: name})
		if err != nil {
			t.Fatal(err)
		}
		desks[name] = outlet
	}
	client, _ := connect(t, ctx, listen(t, server.handler()))
	to := func(name string) string { return route(`"type":"callback","endpoint":"`+name+`"`, "completed") }
	call := func(config string) reply {
		t.Helper()
		answer := client.post(configured("1", `{"count":0}`, config)).reply()
		if request := <-asked; request.Tool != "steps" || request.Session != client.session || request.Principal != "session:"+client.session ||
			string(request.Config) != config {
			t.Errorf("%+v", request)
		}
		return answer
	}
	fault := func(answer reply) tidings.Fault {
		t.Helper()
		if answer.Error == nil || answer.Error.Code != -32602 || len(answer.Error.Data.Faults) != 1 || answer.Error.Data.Total != 1 {
			t.Fatalf("%+v", answer)
		}
		return answer.Error.Data.Faults[0]
	}

	said = tidingsmcp.Deny("nothing of this leaves the house")
	if got := fault(call(to("known"))); got != (tidings.Fault{Path: "", Rule: "denied", Message: "nothing of this leaves the house"}) {
		t.Errorf("%+v", got)
	}
	said = tidingsmcp.Allow("opened")
	for _, name := range []string{"opened", "known"} {
		if answer := call(to(name)); answer.Error != nil {
			t.Errorf("%+v", answer.Error)
		}
		answered(t, ctx, desks[name])
	}
	if got := fault(call(to("others"))); got.Rule == "denied" {
		t.Errorf("the rules hold as well: %+v", got)
	}
	said = tidingsmcp.Rewrite(json.RawMessage(to("opened")), "opened")
	if answer := call(to("others")); answer.Error != nil {
		t.Errorf("%+v", answer.Error)
	}
	answered(t, ctx, desks["opened"])
	for _, bad := range []tidingsmcp.Decision{tidingsmcp.Rewrite(nil), tidingsmcp.Rewrite(json.RawMessage(`{"routes":`))} {
		said = bad
		if answer := call(to("known")); answer.Error == nil || answer.Error.Code != -32602 {
			t.Errorf("%+v", answer)
		}
	}
	// No decision, or none in time: nothing is sent anywhere on a guess, and the client is not told why.
	for _, failure := range []error{nil, errors.New("the database of secrets is down")} {
		said, failed = tidingsmcp.Decision{}, failure
		answer := call(to("known"))
		if answer.Error == nil || answer.Error.Code != -32603 || answer.Error.Data.Reason != "policy_failed" || strings.Contains(answer.Error.Message, "secrets") {
			t.Errorf("%+v", answer)
		}
	}
	// The server's own routes are nobody's to judge, and what is no object is the rules' alone.
	client.post(callSteps("2", `{"count":0}`)).reply()
	answered(t, ctx, desks["others"])
	if answer := client.post(configured("3", `{"count":0}`, `7`)).reply(); answer.Error == nil || answer.Error.Code != -32602 {
		t.Errorf("%+v", answer)
	}
	if len(asked) != 0 {
		t.Errorf("%+v", <-asked)
	}
}

// With a policy names may be opened, so that types which need one are offered.
func TestAPolicyOpensTypes(t *testing.T) {
	ctx := background(t)
	allow := func(context.Context, tidingsmcp.PolicyRequest) (tidingsmcp.Decision, error) {
		return tidingsmcp.Allow(), nil
	}
	for want, policy := range map[string]tidingsmcp.Policy{`["webhook"]`: nil, `["webhook","callback"]`: allow} {
		server := serve(t, open(t, "memory:"), tidingsmcp.Options{Routes: []string{"webhook", "callback"}, Policy: policy})
		if _, initialized := connect(t, ctx, listen(t, server.handler())); !strings.Contains(initialized, `"notificationConfig":{"supportedRouteTypes":`+want+`}`) {
			t.Error(want, initialized)
		}
	}
}
