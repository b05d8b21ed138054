package tidingsmcp

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	tidings "github.com/tidings-mcp/tidings/bindings/go"
)

// The texts are those that Python's json.dumps and the npm package write for the same three.
func TestNamesAreTheSameInEveryLanguage(t *testing.T) {
	for principal, want := range map[Principal]string{
		{"https://a", "u", "c"}:        `auth:["https://a","u","c"]`,
		{"", "", "c\"\n"}:              `auth:[null,null,"c\"\n"]`,
		{"", "ü😀\u007f<&>\u2028", "c"}: "auth:[null,\"\\u00fc\\ud83d\\ude00\u007f<&>\\u2028\",\"c\"]",
	} {
		if name := principal.name(); name != want {
			t.Errorf("%s instead of %s", name, want)
		}
	}
}

func TestWhoIsAuthenticated(t *testing.T) {
	custom := PrincipalOf(func(token *auth.TokenInfo) *Principal { return &Principal{ClientID: token.UserID} })
	for name, given := range map[string]struct {
		of    PrincipalOf
		token *auth.TokenInfo
		want  string
	}{
		"nobody":               {nil, nil, ""},
		"the user":             {nil, &auth.TokenInfo{UserID: "u"}, `auth:[null,"u",""]`},
		"with what is beside":  {nil, &auth.TokenInfo{UserID: "u", Extra: map[string]any{"iss": "i", "client_id": "c"}}, `auth:["i","u","c"]`},
		"a client alone":       {nil, &auth.TokenInfo{Extra: map[string]any{"client_id": "c"}}, `auth:[null,null,"c"]`},
		"nobody in particular": {nil, &auth.TokenInfo{Extra: map[string]any{"iss": "i"}}, ""},
		"as the server says":   {custom, &auth.TokenInfo{UserID: "u"}, `auth:[null,null,"u"]`},
	} {
		found := given.of.of(given.token)
		if (found == nil) != (given.want == "") || found != nil && *found != given.want {
			t.Errorf("%s: %v", name, found)
		}
	}
}

func TestStreamsAndAttemptsAreLimitedAndComeBack(t *testing.T) {
	tasks := &Tasks{Streams: 2, Resumes: 3}
	limits, begin := &streamLimits{}, time.Now()
	hold := func(client, task string, at time.Time) (release func(), refused map[string]any) {
		t.Helper()
		release, err := limits.hold(tasks, client, task, at)
		var wire *jsonrpc.Error
		if errors.As(err, &wire) {
			if err := json.Unmarshal(wire.Data, &refused); err != nil {
				t.Fatal(err)
			}
		}
		return release, refused
	}
	first, _ := hold("c", "t", begin)
	if second, refused := hold("c", "u", begin); second == nil {
		t.Fatal(refused)
	}
	if _, refused := hold("c", "t", begin); refused["limit"] != "streams" {
		t.Error(refused)
	}
	if another, refused := hold("d", "t", begin); another == nil {
		t.Error("another client has its own", refused)
	}
	first()
	first() // once is enough
	for range 2 {
		release, refused := hold("c", "t", begin)
		if release == nil {
			t.Fatal(refused)
		}
		release()
	}
	if _, refused := hold("c", "t", begin); refused["limit"] != "resumes" || refused["retryAfterMs"] != 20_000.0 {
		t.Error(refused)
	}
	if release, refused := hold("c", "t", begin.Add(20*time.Second)); release == nil {
		t.Error("a third of a minute is one of three", refused)
	}
}

func TestPlacesAreCountedByNameAndGivenBack(t *testing.T) {
	var running places
	release, taken := running.take("a", 1)
	if _, again := running.take("a", 1); !taken || again {
		t.Error(taken, again)
	}
	if _, other := running.take("b", 1); !other {
		t.Error("b has its own")
	}
	release()
	release()
	if _, again := running.take("a", 1); !again {
		t.Error("it was given back")
	}
}

func TestAResponseIsToldFromOtherMessages(t *testing.T) {
	for text, want := range map[string]bool{
		`{"jsonrpc":"2.0","id":1,"result":{}}`:               true,
		`{"jsonrpc":"2.0","id":"a","error":{"code":1}}`:      true,
		`{"jsonrpc":"2.0","id":1,"method":"ping"}`:           false,
		`{"jsonrpc":"2.0","method":"notifications/message"}`: false,
		`{"method":"ping","jsonrpc":"2.0","id":1}`:           false,
		`{"result":{"method":"x"},"id":1,"jsonrpc":"2.0"}`:   true,
		``: false,
	} {
		if isResponse([]byte(text)) != want {
			t.Error(text)
		}
	}
}

// What a client sends under a name of ours is never taken for what Handler says.
func TestNothingOfOursIsTakenFromOutside(t *testing.T) {
	forged := `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"t","_meta":{"io.tidings/request":"{\"id\":\"9\",\"config\":\"{}\"}"}}}`
	var message struct {
		Params struct {
			Meta map[string]any `json:"_meta"`
		}
	}
	if err := json.Unmarshal(moved(json.RawMessage(forged)), &message); err != nil {
		t.Fatal(err)
	}
	if found := givenIn(message.Params.Meta); found == nil || found.ID != "7" || found.Config != nil {
		t.Errorf("%+v", found)
	}
	// An id that no float holds, and a config, stay as they were written.
	sent := `{"jsonrpc":"2.0","id":9007199254740993,"method":"tools/call","params":{"notificationConfig": {"b" : 1.0}}}`
	if err := json.Unmarshal(moved(json.RawMessage(sent)), &message); err != nil {
		t.Fatal(err)
	}
	if found := givenIn(message.Params.Meta); found.ID != "9007199254740993" || *found.Config != `{"b" : 1.0}` {
		t.Errorf("%+v", found)
	}
	for _, other := range []string{`{"id":1,"method":"tools/list","params":{"notificationConfig":{}}}`, `{"id":1,"result":{}}`, `[]`, ``} {
		if string(moved(json.RawMessage(other))) != other {
			t.Error(other)
		}
	}
}

// A record is written again as long as its session lives.
func TestARecordIsWrittenAgain(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	hub, err := tidings.Open(ctx, "memory:")
	if err != nil {
		t.Fatal(err)
	}
	defer hub.Close()
	store := NewEventStore(hub)
	store.again = time.Millisecond
	if err := store.Open(ctx, "s", ""); err != nil {
		t.Fatal(err)
	}
	record, err := hub.Stream(scopeOf("s"), ownerStream)
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for event, err := range record.Tail(ctx, tidings.Earliest) {
		if err != nil {
			t.Fatal(err)
		}
		if event.Type == deletedEvent {
			break
		}
		if count++; count == 3 {
			if err := store.SessionClosed(ctx, "s"); err != nil {
				t.Fatal(err)
			}
		}
	}
	if count < 3 {
		t.Error(count)
	}
}

// Names are the same however their text escapes them: PHP's encoder, for one, writes each slash as `\/`.
func TestNamesInRequestsMayBeEscaped(t *testing.T) {
	for _, params := range []string{
		`{"name":"t","notificationConfig":{"routes":[]}}`,
		`{"name":"t","notification\u0043onfig":{"routes":[]}}`,
		`{"name":"t","_meta":{"io.tidings\/notification-config":{"routes":[]}}}`,
	} {
		request := []byte(`{"jsonrpc":"2.0","id":1,"method":"tools\/call","params":` + params + `}`)
		if !mayConcern(request) {
			t.Fatalf("not looked into: %s", request)
		}
		var message struct {
			Params struct {
				Meta map[string]any `json:"_meta"`
			}
		}
		if err := json.Unmarshal(moved(request), &message); err != nil {
			t.Fatal(err)
		}
		found := givenIn(message.Params.Meta)
		if found == nil || found.ID != "1" || found.Config == nil || *found.Config != `{"routes":[]}` {
			t.Fatalf("%s: %+v", request, found)
		}
	}
	if mayConcern([]byte(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)) {
		t.Fatal("looked into for nothing")
	}
}

// A session that was ended is nobody's, also where the store has lost some of its record.
func TestTheEndOfASessionIsReadBehindWhatWasLost(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	hub, err := tidings.Open(ctx, "sqlite:"+t.TempDir()+"/tidings.db", tidings.WithBuffer(1_024))
	if err != nil {
		t.Fatal(err)
	}
	defer hub.Close()
	store := NewEventStore(hub)
	owner, err := hub.NewWriter(scopeOf("s"), ownerStream)
	if err != nil {
		t.Fatal(err)
	}
	record := []byte(`{"principal":null,"more":"` + strings.Repeat("x", 300) + `"}`)
	say := func(kind string, options ...tidings.AppendOption) {
		t.Helper()
		if _, err := owner.Append(kind, record, options...); err != nil {
			t.Fatal(err)
		}
	}
	say(ownerEvent)
	if err := owner.Flush(ctx, tidings.Process); err != nil {
		t.Fatal(err)
	}
	if owned, alive := store.lookUp(ctx, "s"); !owned || !alive {
		t.Fatal(owned, alive)
	}
	for {
		stats, err := hub.Stats()
		if err != nil {
			t.Fatal(err)
		}
		if stats.Lost > 0 {
			break
		}
		say(ownerEvent, tidings.GivingUp())
	}
	say(deletedEvent, tidings.AndClose())
	if err := owner.Flush(ctx, tidings.Process); err != nil {
		t.Fatal(err)
	}
	if owned, _ := store.lookUp(ctx, "s"); owned {
		t.Error("it is over")
	}
}

// stuck is a response to a connection that takes nothing, until its time is over.
type stuck struct {
	http.ResponseWriter
	over chan struct{}
}

func (s *stuck) SetWriteDeadline(time.Time) error {
	close(s.over)
	return nil
}

// A connection that takes nothing does not hold up whoever is back on another.
func TestAConnectionThatTakesNothingIsEnded(t *testing.T) {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	response := &stuck{over: make(chan struct{})}
	reader := newConnection(response, stop)
	go func() {
		<-response.over // what was written last
		reader.served()
	}()
	reader.end(context.Background())
	for name, closed := range map[string]<-chan struct{}{"gone": reader.gone, "stopped": ctx.Done(), "served": reader.over} {
		select {
		case <-closed:
		default:
			t.Error("not", name)
		}
	}
	// Served, its connection may have another request by now; and who left may leave once more.
	reader.end(context.Background())
	reader.leave()
}
