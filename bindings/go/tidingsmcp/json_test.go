package tidingsmcp

import (
	"context"
	"encoding/json"
	"math"
	"net/http"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	tidings "github.com/tidings-mcp/tidings/bindings/go"
)

// What is written here is what encoding/json writes, which takes the same apart.
func TestTextsOfOurOwn(t *testing.T) {
	odd := "<&>\"\\\n\u2028é😀\x00\x7f\xff"
	for _, check := range []struct {
		written json.RawMessage
		value   any
	}{
		{textJSON(odd), odd},
		{textJSON(""), ""},
		{optionalJSON(&odd), odd},
		{members{}.text(), map[string]any{}},
		{members(nil).text(), map[string]any{}},
		{members{"b": textJSON("x"), odd: nil, "a": members{"n": numberJSON(-3)}.text()}.text(),
			map[string]any{"b": "x", odd: nil, "a": map[string]any{"n": -3}}},
		{listJSON(nil), []any{}},
		{listJSON([]json.RawMessage{boolJSON(true), nil, numberJSON(uint64(math.MaxUint64))}), []any{true, nil, uint64(math.MaxUint64)}},
		{textsJSON([]string{"a", odd}), []string{"a", odd}},
		{numberJSON(int64(math.MinInt64)), int64(math.MinInt64)},
	} {
		want, err := json.Marshal(check.value)
		if err != nil || string(check.written) != string(want) {
			t.Errorf("%s instead of %s, %v", check.written, want, err)
		}
	}
	given := members{"a": json.RawMessage(`1.0e2`), "b": json.RawMessage(`"\u0041"`)}
	if text := given.text(); string(text) != `{"a":1.0e2,"b":"\u0041"}` {
		t.Errorf("what is given stays as it is: %s", text)
	}
	if optionalJSON(nil) != nil {
		t.Error("nil is null")
	}
}

// A text that is none, as a store may come to hold it, is an error, and no end of the server.
func TestWhatIsNoJSONIsAnError(t *testing.T) {
	for _, text := range []string{``, `{`, `{}{}`, `nul`, `{"a":1},"b":2`} {
		err := (&front{}).notify(context.Background(), nil, "notifications/x", json.RawMessage(text))
		if err == nil || !strings.Contains(err.Error(), "no JSON text") {
			t.Errorf("%q: %v", text, err)
		}
		if _, err := eventParams("task", tidings.Event{Type: "a.b", Payload: []byte(text)}); err == nil {
			t.Errorf("%q", text)
		}
	}
	params, err := eventParams("t", tidings.Event{Seq: 3, Type: "a.b", Payload: []byte(`{"n": 1.0}`)})
	want := `{"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t"}},"payload":{"n": 1.0},"seq":3,"taskId":"t","type":"a.b"}`
	if err != nil || string(params) != want {
		t.Errorf("%s, %v", params, err)
	}
}

// The id of a plain call is what Handler has read, and never what a header says that came with the request.
func TestTheIDOfAPlainCallIsOurs(t *testing.T) {
	header := http.Header{}
	header.Set(idHeader, "7")
	if found := plainCall(&mcp.RequestExtra{Header: header}); found != nil {
		t.Errorf("%+v", found)
	}
	setID(header, json.RawMessage(`9007199254740993`))
	if found := plainCall(&mcp.RequestExtra{Header: header}); found == nil || found.ID != "9007199254740993" || found.Config != nil {
		t.Errorf("%+v", found)
	}
	if plainCall(nil) != nil || plainCall(&mcp.RequestExtra{}) != nil {
		t.Error("nobody has handed anything over")
	}
	if seen := withoutFront(&mcp.RequestExtra{Header: http.Header{frontHeader: {"x"}, idHeader: {"y"}}}); seen != nil {
		t.Errorf("a tool sees %+v", seen)
	}
	for message, want := range map[string]string{
		`{"id":"x","method":"tools/call"}`:                       `"x"`,
		`{"id":"x","method":"prompts/get","name":"tools/call"}`:  ``,
		`{"id":1,"method":"tools/list"}`:                         ``,
		`{"id":1,"method":"tools/call"`:                          ``,
		`{"method":"tools/call","id":1.50,"params":{"id":"no"}}`: `1.50`,
	} {
		if id := idOf([]byte(message)); string(id) != want {
			t.Errorf("%s: %s", message, id)
		}
	}
}
