package tidingsmcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidings-mcp/tidings/bindings/go/tidingsmcp"
)

// stateless serves 2026-07-28, for which the SDK keeps no sessions.
func (s *served) stateless() http.Handler {
	sdk := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s.mcp }, &mcp.StreamableHTTPOptions{
		EventStore: s.store, Stateless: true,
	})
	return tidingsmcp.Handler(sdk, s.store)
}

const tasksDeclared = `{"extensions":{"io.modelcontextprotocol/tasks":{}}}`

// modern is a client of 2026-07-28.
type modern struct {
	*wire
	// declared are its capabilities.
	declared string
	id       int
}

func newModern(t *testing.T, ctx context.Context, url string) *modern {
	return &modern{wire: &wire{t: t, ctx: ctx, url: url}, declared: tasksDeclared}
}

// ask sends a request; members are those of its params, without braces.
func (m *modern) ask(method, name, members string) *answer {
	m.t.Helper()
	m.id++
	if members != "" {
		members += ","
	}
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":{%s"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",`+
		`"io.modelcontextprotocol/clientCapabilities":%s}}}`, m.id, method, members, m.declared)
	headers := map[string]string{"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": method}
	if name != "" {
		headers["Mcp-Name"] = name
	}
	return m.send(http.MethodPost, body, headers)
}

func (m *modern) call(arguments string) *answer {
	m.t.Helper()
	return m.ask("tools/call", "steps", `"name":"steps","arguments":`+arguments)
}

// about asks about a task.
func (m *modern) about(method, task string) taskAnswer {
	m.t.Helper()
	return taskOf(m.t, m.ask(method, task, fmt.Sprintf(`"taskId":%q`, task)))
}

func (m *modern) stream(task, more string) *answer {
	m.t.Helper()
	return m.ask("tasks/stream", task, fmt.Sprintf(`"taskId":%q%s`, task, more))
}

// taskAnswer is what a request about a task is answered with.
type taskAnswer struct {
	status int
	Result *struct {
		ResultType, TaskID, Status string
		PollIntervalMs             int
		Result                     struct{ Content []struct{ Text string } }
		Error                      json.RawMessage
		InputRequests              map[string]json.RawMessage
		Meta                       map[string]json.RawMessage `json:"_meta"`
	}
	Error *struct {
		Code    int
		Message string
		Data    struct {
			Reason, Limit, TaskID string
			EarliestSeq, HeadSeq  *int
			RequiredCapabilities  json.RawMessage
		}
	}
}

func taskOf(t *testing.T, given *answer) (found taskAnswer) {
	t.Helper()
	text := ""
	if strings.HasPrefix(given.response.Header.Get("Content-Type"), "text/event-stream") {
		all := given.rest()
		text = all[len(all)-1].data
	} else {
		text = given.text()
	}
	if err := json.Unmarshal([]byte(text), &found); err != nil {
		t.Fatal(text, err)
	}
	found.status = given.status
	return found
}

func created(t *testing.T, given *answer) string {
	t.Helper()
	found := taskOf(t, given)
	if found.Result == nil || found.Result.ResultType != "task" || found.Result.TaskID == "" || found.Result.PollIntervalMs == 0 {
		t.Fatalf("%+v", found)
	}
	return found.Result.TaskID
}

// said is one event of a task, as its client gets it.
type said struct {
	Method string
	Params struct {
		Seq     int
		TaskID  string
		Type    string
		Payload json.RawMessage
		Meta    map[string]json.RawMessage `json:"_meta"`
	}
}

func saidIn(t *testing.T, events []event) (found []said) {
	t.Helper()
	for _, event := range events {
		var one said
		if err := json.Unmarshal([]byte(event.data), &one); err != nil {
			t.Fatal(event.data, err)
		}
		found = append(found, one)
	}
	return found
}

func wrap(text string) []event { return []event{{data: text}} }
