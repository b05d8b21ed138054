package tidingsmcp_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	tidings "github.com/tidings-mcp/tidings/bindings/go"
	"github.com/tidings-mcp/tidings/bindings/go/tidingsmcp"
)

// atOnce has every call be a task from its beginning.
var atOnce = tidingsmcp.Options{Tasks: &tidingsmcp.Tasks{Tools: map[string]tidingsmcp.TaskMode{"steps": tidingsmcp.Always}}, TasksStream: true}

func TestACallBecomesATaskAndItsEventsAreStreamed(t *testing.T) {
	ctx := background(t)
	server := serve(t, open(t, file(t)), atOnce)
	client := newModern(t, ctx, listen(t, server.stateless()))
	task := created(t, client.call(`{"count":3,"hold":3,"emit":"{\n  \"b\": 1.50, \"a\": [ ] }"}`))
	<-server.reached
	if got := client.about("tasks/get", task); got.Result == nil || got.Result.Status != "working" || got.Result.ResultType != "complete" {
		t.Errorf("%+v", got)
	}
	streaming := client.stream(task, "")
	first := saidIn(t, streaming.take(3))
	for at, one := range first {
		if one.Method != "notifications/tasks/event" || one.Params.Seq != at || one.Params.TaskID != task ||
			!strings.Contains(string(one.Params.Meta["io.modelcontextprotocol/related-task"]), task) {
			t.Errorf("%+v", one)
		}
	}
	// The numbers and their order are the tool's, on one line as a stream wants them.
	if string(first[0].Params.Payload) != `{"b":1.50,"a":[]}` || first[0].Params.Type != "com.example.note" ||
		first[1].Params.Type != "io.tidings.progress" {
		t.Errorf("%+v", first)
	}
	server.goOn <- struct{}{}
	all := streaming.rest()
	last := saidIn(t, all[:len(all)-1])
	if end := last[len(last)-1].Params; end.Type != "io.tidings.outcome" || end.Seq != 4 {
		t.Errorf("%+v", last)
	}
	if !strings.Contains(all[len(all)-1].data, `"resultType":"complete"`) {
		t.Errorf("%s", all[len(all)-1].data)
	}
	if got := client.about("tasks/get", task); got.Result.Status != "completed" || len(got.Result.Result.Content) != 1 {
		t.Errorf("%+v", got.Result)
	}
	// Again from any number on, also from the last one.
	for after := range 5 {
		found := client.stream(task, fmt.Sprintf(`,"after":%d`, after)).rest()
		if rest := saidIn(t, found[:len(found)-1]); len(rest) != 4-after || after < 4 && rest[0].Params.Seq != after+1 {
			t.Errorf("after %d: %+v", after, rest)
		}
	}
}

func TestAShortCallIsNoTask(t *testing.T) {
	ctx := background(t)
	server := serve(t, open(t, "memory:"), tidingsmcp.Options{Tasks: &tidingsmcp.Tasks{Inline: hangs}})
	client := newModern(t, ctx, listen(t, server.stateless()))
	if answered := client.call(`{"count":0}`).reply(); answered.Result == nil || answered.Result.Content[0].Text != "2" {
		t.Errorf("%+v", answered) // of its _meta the tool sees the two members that the client sent
	}
}

func TestALongCallBecomesATask(t *testing.T) {
	ctx := background(t)
	server := serve(t, open(t, "memory:"), tidingsmcp.Options{Tasks: &tidingsmcp.Tasks{Inline: time.Millisecond}, TasksStream: true})
	client := newModern(t, ctx, listen(t, server.stateless()))
	task := created(t, client.call(`{"count":1,"hold":1,"emit":"{}"}`))
	// What the tool said before that is there too.
	if first := saidIn(t, client.stream(task, "").take(1))[0]; first.Params.Type != "com.example.note" || first.Params.Seq != 0 {
		t.Errorf("%+v", first)
	}
	server.goOn <- struct{}{}
}

func TestATaskIsCancelled(t *testing.T) {
	ctx := background(t)
	server := serve(t, open(t, file(t)), atOnce)
	client := newModern(t, ctx, listen(t, server.stateless()))
	task := created(t, client.call(`{"count":1,"hold":1}`))
	<-server.reached
	if got := client.about("tasks/cancel", task); got.Result == nil || got.Result.ResultType != "complete" {
		t.Errorf("%+v", got)
	}
	<-server.stopped
	if got := client.about("tasks/get", task); got.Result == nil || got.Result.Status != "cancelled" {
		t.Errorf("%+v", got)
	}
}

func TestATaskAsksItsClient(t *testing.T) {
	ctx := background(t)
	server := serve(t, open(t, file(t)), tidingsmcp.Options{Tasks: &tidingsmcp.Tasks{Tools: map[string]tidingsmcp.TaskMode{"ask": tidingsmcp.Always}}})
	client := newModern(t, ctx, listen(t, server.stateless()))
	task := created(t, client.ask("tools/call", "ask", `"name":"ask","arguments":{}`))
	var got taskAnswer
	for got = client.about("tasks/get", task); got.Result.Status == "working"; got = client.about("tasks/get", task) {
	}
	if got.Result.Status != "input_required" || !strings.Contains(string(got.Result.InputRequests["name"]), "Who?") {
		t.Fatalf("%+v", got.Result)
	}
	if refused := taskOf(t, client.ask("tasks/update", task, fmt.Sprintf(`"taskId":%q,"inputResponses":[]`, task))); refused.Error == nil {
		t.Errorf("%+v", refused)
	}
	updated := taskOf(t, client.ask("tasks/update", task, fmt.Sprintf(
		`"taskId":%q,"inputResponses":{"name":{"action":"accept","content":{"name":"Ann"}}}`, task)))
	if updated.Result == nil {
		t.Fatalf("%+v", updated.Error)
	}
	for got = client.about("tasks/get", task); got.Result.Status != "completed"; got = client.about("tasks/get", task) {
		if got.Result.Status == "failed" {
			t.Fatalf("%s", got.Result.Error)
		}
	}
	if text := got.Result.Result.Content[0].Text; text != "Ann, state 1" {
		t.Errorf("%q", text)
	}
}

func TestRequestsAboutTasksAreChecked(t *testing.T) {
	ctx := background(t)
	server := serve(t, open(t, file(t)), tidingsmcp.Options{
		Tasks: &tidingsmcp.Tasks{Tools: map[string]tidingsmcp.TaskMode{"steps": tidingsmcp.Required}}, TasksStream: true,
	})
	url := listen(t, server.stateless())
	client, plain := newModern(t, ctx, url), newModern(t, ctx, url)
	plain.declared = `{}`
	refused := func(given taskAnswer, code, status int) {
		t.Helper()
		if given.Error == nil || given.Error.Code != code || given.status != status {
			t.Errorf("%d %+v", given.status, given.Error)
		}
	}
	refused(taskOf(t, plain.call(`{"count":0}`)), -32021, http.StatusBadRequest)
	refused(plain.about("tasks/get", "x"), -32021, http.StatusBadRequest)
	refused(client.about("tasks/get", "x"), -32602, http.StatusBadRequest)
	refused(client.about("tasks/cancel", "x"), -32602, http.StatusBadRequest)
	refused(taskOf(t, client.stream("x", "")), -32602, http.StatusBadRequest)
	refused(taskOf(t, client.ask("tasks/get", "", `"taskId":7`)), -32602, http.StatusBadRequest)
	refused(taskOf(t, client.ask("tasks/get", "other", `"taskId":"x"`)), -32020, http.StatusOK)
	refused(taskOf(t, client.ask("tasks/list", "", ``)), -32601, http.StatusNotFound)
	discovered := client.ask("server/discover", "", "").rest()
	if text := discovered[0].data; !strings.Contains(text, `"io.modelcontextprotocol/tasks":{"eventStreams":{}}`) {
		t.Error(text)
	}
	// To older clients there are no tasks.
	legacy, initialized := connect(t, ctx, listen(t, server.handler()))
	if strings.Contains(initialized, "io.modelcontextprotocol/tasks") {
		t.Error(initialized)
	}
	refused(taskOf(t, legacy.post(`{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"taskId":"x"}}`)), -32601, http.StatusOK)
	if answered := legacy.post(callSteps("2", `{"count":0}`)).reply(); answered.Result == nil {
		t.Errorf("%+v", answered)
	}
}

func TestATaskIsItsPrincipals(t *testing.T) {
	ctx := background(t)
	server := serve(t, open(t, file(t)), atOnce)
	client := newModern(t, ctx, listen(t, withToken(server.stateless())))
	client.header = http.Header{"Authorization": {"Bearer ann"}}
	task := created(t, client.call(`{"count":0}`))
	if got := client.about("tasks/get", task); got.Result == nil {
		t.Errorf("%+v", got.Error)
	}
	for _, other := range []http.Header{{"Authorization": {"Bearer bob"}}, {}} {
		client.header = other
		for _, method := range []string{"tasks/get", "tasks/cancel", "tasks/stream"} {
			if got := client.about(method, task); got.Error == nil || got.Error.Message != "Unknown task" {
				t.Errorf("%s for %v: %+v", method, other, got.Result)
			}
		}
	}
}

func TestAfterIsChecked(t *testing.T) {
	ctx := background(t)
	server := serve(t, open(t, file(t)), atOnce)
	client := newModern(t, ctx, listen(t, server.stateless()))
	task := created(t, client.call(`{"count":2}`))
	all := client.stream(task, "").rest() // to its end
	if len(all) != 4 {
		t.Fatalf("%+v", all)
	}
	for _, bad := range []string{`-1`, `1.5`, `"1"`, `null`, `9007199254740992`} {
		if got := taskOf(t, client.stream(task, `,"after":`+bad)); got.Error == nil || got.Error.Code != -32602 {
			t.Errorf("%s: %+v", bad, got.Result)
		}
	}
	ahead := taskOf(t, client.stream(task, `,"after":3`))
	if ahead.Error == nil || ahead.Error.Code != -32602 || ahead.Error.Data.Reason != "ahead" || *ahead.Error.Data.HeadSeq != 2 {
		t.Errorf("%+v", ahead.Error)
	}
}

func TestEventsThatAreGoneAreTold(t *testing.T) {
	ctx := background(t)
	hub := open(t, file(t), tidings.WithKeptEvents(2))
	options := atOnce
	options.Tasks = &tidingsmcp.Tasks{Tools: options.Tasks.Tools, Resumes: 1 << 30} // it is asked until retention has done its work
	server := serve(t, hub, options)
	client := newModern(t, ctx, listen(t, server.stateless()))
	task := created(t, client.call(`{"count":40}`))
	client.stream(task, "").rest()
	// Retention works beside the appends: asked until it has.
	for {
		gone := taskOf(t, client.stream(task, `,"after":1`))
		if gone.Error == nil {
			continue
		}
		if gone.Error.Code != -32010 || gone.Error.Data.Reason != "events_gone" || gone.Error.Data.TaskID != task || gone.Error.Data.EarliestSeq == nil {
			t.Fatalf("%+v", gone.Error)
		}
		from := *gone.Error.Data.EarliestSeq
		rest := client.stream(task, fmt.Sprintf(`,"after":%d`, from-1)).rest()
		if first := saidIn(t, rest[:1])[0]; first.Params.Seq != from {
			t.Errorf("%+v", first)
		}
		return
	}
}

// A client that leaves its stream takes neither the task along nor the place that the stream took.
func TestALostStreamLeavesItsTask(t *testing.T) {
	ctx := background(t)
	options := atOnce
	options.Tasks = &tidingsmcp.Tasks{Tools: options.Tasks.Tools, Streams: 1}
	server := serve(t, open(t, file(t)), options)
	client := newModern(t, ctx, listen(t, server.stateless()))
	task := created(t, client.call(`{"count":2,"hold":2}`))
	<-server.reached
	reading := client.stream(task, "")
	reading.take(1)
	if second := taskOf(t, client.stream(task, "")); second.Error == nil || second.Error.Data.Limit != "streams" {
		t.Errorf("%+v", second)
	}
	reading.cut()
	for {
		again := client.stream(task, `,"after":0`)
		if again.status != http.StatusOK {
			continue // the server has yet to notice
		}
		server.goOn <- struct{}{}
		if rest := again.rest(); len(rest) != 3 {
			t.Errorf("%+v", rest)
		}
		break
	}
	if got := client.about("tasks/get", task); got.Result.Status != "completed" {
		t.Errorf("%+v", got.Result)
	}
}

// A session up to 2025-11-25 reads a task's events on a stream that it resumes by Last-Event-ID.
func TestASessionResumesItsStreamOfATask(t *testing.T) {
	ctx := background(t)
	server := serve(t, open(t, file(t)), atOnce)
	modern := newModern(t, ctx, listen(t, server.stateless()))
	task := created(t, modern.call(`{"count":3,"hold":2}`))
	<-server.reached
	client, _ := connect(t, ctx, listen(t, server.handler()))
	ask := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tasks/stream","params":{"taskId":%q}}`, task)
	streaming := client.post(ask)
	first := streaming.take(1)
	if busy := taskOf(t, client.post(strings.Replace(ask, `"id":1`, `"id":2`, 1))); busy.Error == nil || busy.Error.Data.Reason != "busy" {
		t.Errorf("%+v", busy)
	}
	streaming.cut()
	server.goOn <- struct{}{}
	again := client.resume(first[0].id)
	rest := again.rest()
	found := saidIn(t, rest[:len(rest)-1])
	if len(found) != 3 || found[0].Params.Seq != 1 || found[2].Params.Type != "io.tidings.outcome" ||
		strings.Contains(rest[len(rest)-1].data, "resultType") {
		t.Errorf("%+v", rest)
	}
}

// The process of a task is killed, and another one tells of it: what was said, and that it is lost.
func TestATaskOfAKilledProcess(t *testing.T) {
	ctx := background(t)
	where := file(t)
	first, second := start(t, where), start(t, where)
	client := newModern(t, ctx, first.url+"/modern")
	task := created(t, client.call(`{"count":3,"hold":3}`))
	first.ask(t, "/reached")
	client.url = second.url + "/modern"
	elsewhere := client.stream(task, "")
	before := saidIn(t, elsewhere.take(2))
	if before[1].Params.Seq != 1 {
		t.Errorf("%+v", before)
	}
	first.kill()
	rest := elsewhere.rest()
	end := saidIn(t, rest[:1])[0]
	if len(rest) != 2 || end.Params.Type != "io.tidings.outcome" || !strings.Contains(string(end.Params.Payload), "server_lost") {
		t.Errorf("%+v", rest)
	}
	if got := client.about("tasks/get", task); got.Result.Status != "failed" {
		t.Errorf("%+v", got.Result)
	}
}

// Over a transport without HTTP it is the same, and one that is cancelled leaves its task.
func TestTasksOverAnotherTransport(t *testing.T) {
	ctx := background(t)
	server := serve(t, open(t, file(t)), atOnce)
	client := newPipe(t, ctx, server.mcp)
	const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":` + tasksDeclared + `}`
	client.send(`{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{` + meta + `}}`)
	if discovered := client.next(); !strings.Contains(discovered, `"io.modelcontextprotocol/tasks":{"eventStreams":{}}`) {
		t.Error(discovered)
	}
	client.send(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"steps","arguments":{"count":2,"hold":2},` + meta + `}}`)
	// The tool's own progress, and what the SDK may answer to a request that was cancelled, come in between.
	next := func(having string) string {
		for {
			if text := client.next(); strings.Contains(text, having) {
				return text
			}
		}
	}
	var answer taskAnswer
	if err := json.Unmarshal([]byte(next(`"id":2`)), &answer); err != nil || answer.Result == nil {
		t.Fatal(answer, err)
	}
	<-server.reached
	stream := fmt.Sprintf(`"method":"tasks/stream","params":{"taskId":%q,`, answer.Result.TaskID) + meta + `}}`
	client.send(`{"jsonrpc":"2.0","id":3,` + stream)
	first := next("tasks/event")
	if one := saidIn(t, wrap(first))[0]; one.Method != "notifications/tasks/event" || one.Params.Seq != 0 {
		t.Error(first)
	}
	client.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":3}}`)
	client.send(`{"jsonrpc":"2.0","id":4,` + stream)
	if again := next("tasks/event"); again != first {
		t.Error(again)
	}
	server.goOn <- struct{}{}
	if text := next(`"id":4`); !strings.Contains(text, `"result"`) {
		t.Error(text)
	}
}

// A server that answers in JSON has no stream to send events on, and says so.
func TestAServerWithoutStreams(t *testing.T) {
	ctx := background(t)
	server := serve(t, open(t, "memory:"), atOnce)
	sdk := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server.mcp }, &mcp.StreamableHTTPOptions{
		Stateless: true, JSONResponse: true,
	})
	client := newModern(t, ctx, listen(t, tidingsmcp.Handler(sdk, nil)))
	task := created(t, client.call(`{"count":0}`))
	if got := taskOf(t, client.stream(task, "")); got.Error == nil || got.Error.Code != -32601 {
		t.Errorf("%+v", got)
	}
	if got := client.about("tasks/get", task); got.Result == nil {
		t.Errorf("%+v", got.Error)
	}
}

// A task's calls are counted: beyond the limit a call goes on as the call it is.
func TestTasksAreLimited(t *testing.T) {
	ctx := background(t)
	options := atOnce
	options.DetachedCalls = 1
	server := serve(t, open(t, "memory:"), options)
	client := newModern(t, ctx, listen(t, server.stateless()))
	first := created(t, client.call(`{"count":1,"hold":1}`))
	<-server.reached
	if answered := client.call(`{"count":0}`).reply(); answered.Result == nil || len(answered.Result.Content) == 0 {
		t.Errorf("%+v", answered)
	}
	server.goOn <- struct{}{}
	client.stream(first, "").rest() // until it has ended
	for {
		if got := taskOf(t, client.call(`{"count":0}`)); got.Result != nil && got.Result.ResultType == "task" {
			return
		}
	}
}
