package tidingsmcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	tidings "github.com/tidings-mcp/tidings/bindings/go"
	"github.com/tidings-mcp/tidings/bindings/go/tidingsmcp"
)

func callSteps(id, arguments string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":"steps","arguments":%s,"_meta":{"progressToken":"p"}}}`,
		id, arguments)
}

func TestEveryCutResumesExactly(t *testing.T) {
	ctx := background(t)
	server := serve(t, open(t, file(t)), tidingsmcp.Options{})
	client, _ := connect(t, ctx, listen(t, server.handler()))
	all := client.post(callSteps("7", `{"count":5}`)).rest()
	if len(all) != 6 || all[5].method() != "" || !strings.Contains(all[5].data, `"id":7`) {
		t.Fatalf("%+v", all)
	}
	// Also before the first event: the priming event has an id and no data.
	prime := strings.TrimSuffix(all[0].id, "_1") + "_0"
	for at, id := range append([]string{prime}, ids(all)...) {
		answer := client.resume(id)
		if rest := answer.rest(); answer.status != http.StatusOK || fmt.Sprint(rest) != fmt.Sprint(all[at:]) {
			t.Errorf("after %s: %d %+v", id, answer.status, rest)
		}
	}
	if failures := server.store.Failures(); failures != 0 {
		t.Errorf("%d messages were not kept", failures)
	}
}

func ids(events []event) (found []string) {
	for _, event := range events {
		found = append(found, event.id)
	}
	return found
}

// resuming is an HTTP client that remembers what was resumed.
type resuming struct {
	mu sync.Mutex
	// ids are the Last-Event-IDs of the requests.
	ids []string
}

func (r *resuming) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := http.DefaultTransport.RoundTrip(request)
	r.mu.Lock()
	defer r.mu.Unlock()
	if id := request.Header.Get("Last-Event-ID"); id != "" {
		r.ids = append(r.ids, id)
	}
	return response, err
}

// The SDK's own client, whose connection is cut while the tool runs, gets every message once and in order.
func TestTheSDKsClientIsCutAndResumes(t *testing.T) {
	ctx := background(t)
	server := serve(t, open(t, file(t)), tidingsmcp.Options{})
	transport := &resuming{}
	listening := httptest.NewServer(server.handler())
	t.Cleanup(listening.Close)
	t.Cleanup(listening.CloseClientConnections)
	steps := make(chan float64, 16)
	client := mcp.NewClient(&mcp.Implementation{Name: "c", Version: "1"}, &mcp.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, request *mcp.ProgressNotificationClientRequest) {
			steps <- request.Params.Progress
		},
	})
	session, err := client.Connect(ctx, &mcp.StreamableClientTransport{
		Endpoint: listening.URL, HTTPClient: &http.Client{Transport: transport},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	done := make(chan error, 1)
	go func() {
		params := &mcp.CallToolParams{Name: "steps", Arguments: map[string]any{"count": 6, "hold": 4}}
		params.SetProgressToken("p")
		result, err := session.CallTool(ctx, params)
		if err == nil && result.IsError {
			err = fmt.Errorf("%+v", result)
		}
		done <- err
	}()
	seen := []float64{<-steps, <-steps, <-steps}
	<-server.reached
	listening.CloseClientConnections()
	server.goOn <- struct{}{}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	seen = append(seen, <-steps, <-steps, <-steps)
	if !reflect.DeepEqual(seen, []float64{1, 2, 3, 4, 5, 6}) || len(steps) != 0 {
		t.Errorf("%v", seen)
	}
	transport.mu.Lock()
	defer transport.mu.Unlock()
	if len(transport.ids) == 0 {
		t.Error("the client did not resume")
	}
}

func collect(store mcp.EventStore, ctx context.Context, session, stream string, index int) (found []string, err error) {
	for data, err := range store.After(ctx, session, stream, index) {
		if err != nil {
			return found, err
		}
		found = append(found, string(data))
	}
	return found, nil
}

// The SDK's own store and ours say the same, wherever theirs has something to say.
func TestTheContractOfTheSDKsOwnStore(t *testing.T) {
	ctx := background(t)
	theirs, ours := mcp.NewMemoryEventStore(nil), tidingsmcp.NewEventStore(open(t, "memory:"))
	for _, store := range []mcp.EventStore{theirs, ours} {
		for _, stream := range []string{"", "A", "B"} {
			if err := store.Open(ctx, "s", stream); err != nil {
				t.Fatal(err)
			}
		}
		if err := store.Append(ctx, "s", "A", nil); err != nil {
			t.Fatal(err)
		}
		for at := range 600 {
			for _, stream := range []string{"", "A"} {
				if err := store.Append(ctx, "s", stream, fmt.Appendf(nil, `{"jsonrpc":"2.0","method":"n","params":{"at":%d}}`, at)); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	for _, stream := range []string{"", "A", "B"} {
		for _, index := range []int{-1, 0, 1, 255, 256, 257, 598} {
			if stream == "B" && index >= 0 {
				continue // beyond all: theirs has no opinion, ours says that it cannot know
			}
			want, err := collect(theirs, ctx, "s", stream, index)
			if err != nil {
				t.Fatal(err)
			}
			got, err := collect(ours, ctx, "s", stream, index)
			if err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%q after %d: %d of %d, %v", stream, index, len(got), len(want), err)
			}
		}
	}
	if _, err := collect(ours, ctx, "another", "A", 3); !errors.Is(err, mcp.ErrEventsPurged) {
		t.Errorf("of another session: %v", err)
	}
	if _, err := collect(ours, ctx, "s", "A", 601); !errors.Is(err, mcp.ErrEventsPurged) {
		t.Errorf("beyond all: %v", err)
	}
	if err := ours.SessionClosed(ctx, "s"); err != nil {
		t.Error(err)
	}
}

// gapOf is what a client is told of a gap.
type gapOf struct {
	Method string
	Params struct {
		Reason               string
		EarliestSeq, HeadSeq *int
	}
}

// evicted waits until retention has taken the message after an index. It works beside the appends, and nobody is told when it has.
func evicted(t *testing.T, ctx context.Context, store mcp.EventStore, session, stream string, index int) {
	t.Helper()
	for {
		_, err := collect(store, ctx, session, stream, index)
		if errors.Is(err, mcp.ErrEventsPurged) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestWhatRetentionTookIsToldAsAGap(t *testing.T) {
	ctx := background(t)
	server := serve(t, open(t, file(t), tidings.WithKeptEvents(2)), tidingsmcp.Options{})
	client, _ := connect(t, ctx, listen(t, server.handler()))
	call := client.post(callSteps("1", `{"count":20,"hold":16}`))
	before := call.take(15)
	<-server.reached
	call.cut()
	stream, _, _ := strings.Cut(before[0].id, "_")
	evicted(t, ctx, server.store, client.session, stream, 1)
	again := client.resume(before[0].id)
	if again.status != http.StatusOK {
		t.Fatalf("%d %s", again.status, again.text())
	}
	told := again.take(1)[0]
	var gap gapOf
	if err := json.Unmarshal([]byte(told.data), &gap); err != nil {
		t.Fatal(err)
	}
	if gap.Method != "notifications/io.tidings/gap" || gap.Params.Reason != "evicted" || gap.Params.EarliestSeq == nil || gap.Params.HeadSeq == nil ||
		*gap.Params.HeadSeq != 15 || told.id != fmt.Sprint(stream, "_", *gap.Params.EarliestSeq-1) {
		t.Fatalf("%+v", told)
	}
	// What is there follows, under the ids that it had, and what comes live goes on from there.
	server.goOn <- struct{}{}
	rest := again.rest()
	missed := 15 - (*gap.Params.EarliestSeq - 1)
	if len(rest) < missed || fmt.Sprint(rest[:missed]) != fmt.Sprint(before[len(before)-missed:]) {
		t.Errorf("%d of %+v", missed, rest)
	}
	for at, id := range ids(rest) {
		if want := fmt.Sprint(stream, "_", *gap.Params.EarliestSeq+at); id != want {
			t.Errorf("%s instead of %s", id, want)
		}
	}
	if last := rest[len(rest)-1]; last.id != stream+"_21" || last.method() != "" {
		t.Errorf("%+v", last)
	}
	// Whoever was told of the gap has nothing to miss: no gap is told twice.
	if more := client.resume(rest[len(rest)-2].id).rest(); fmt.Sprint(more) != fmt.Sprint(rest[len(rest)-1:]) {
		t.Errorf("%+v", more)
	}
}

// The SDK alone has one word for it.
func TestWithoutHandlerAGapIsPurged(t *testing.T) {
	ctx := background(t)
	server := serve(t, open(t, file(t), tidings.WithKeptEvents(2)), tidingsmcp.Options{})
	sdk := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server.mcp }, &mcp.StreamableHTTPOptions{EventStore: server.store})
	client, _ := connect(t, ctx, listen(t, sdk))
	all := client.post(callSteps("1", `{"count":20}`)).rest()
	stream, _, _ := strings.Cut(all[0].id, "_")
	evicted(t, ctx, server.store, client.session, stream, 1)
	if answer := client.resume(all[0].id); answer.status != http.StatusBadRequest || !strings.Contains(answer.text(), "replay") {
		t.Errorf("%d", answer.status)
	}
	if rest := client.resume(all[len(all)-2].id).rest(); fmt.Sprint(rest) != fmt.Sprint(all[len(all)-1:]) {
		t.Errorf("what is there is replayed: %+v", rest)
	}
}

// paced adds a tool that tells a step each time it is let go on, until it is let go on with nothing left to tell.
func (s *served) paced() (step, end func()) {
	steps := make(chan bool)
	mcp.AddTool(s.mcp, &mcp.Tool{Name: "paced"}, func(ctx context.Context, request *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
		for at := 1.0; <-steps; at++ {
			progress := &mcp.ProgressNotificationParams{ProgressToken: request.Params.GetProgressToken(), Progress: at}
			_ = request.Session.NotifyProgress(ctx, progress) // its connection may be cut
		}
		return &mcp.CallToolResult{}, nil, nil
	})
	return func() { steps <- true }, func() { steps <- false }
}

const callPaced = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"paced","arguments":{},"_meta":{"progressToken":"p"}}}`

// refuse has the store refuse whatever else is written to a stream here: somebody else has claimed it. When it returns the next message
// cannot be kept.
func refuse(t *testing.T, ctx context.Context, server *served, session, id string) (refused func()) {
	t.Helper()
	name, _, _ := strings.Cut(id, "_")
	stream, err := server.hub.Stream("session:"+session, "sdk:"+name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Claim(ctx); err != nil {
		t.Fatal(err)
	}
	return func() {
		t.Helper()
		if err := server.hub.Flush(ctx, tidings.Process); err != nil {
			t.Fatal(err)
		}
	}
}

// What went out and was not kept is told to who resumes, and the stream goes on.
func TestWhatTheStoreRefusesIsToldAsAGap(t *testing.T) {
	ctx := background(t)
	server := serve(t, open(t, file(t)), tidingsmcp.Options{})
	step, end := server.paced()
	client, _ := connect(t, ctx, listen(t, server.handler()))
	call := client.post(callPaced)
	step()
	step()
	before := call.take(2)
	flushed := refuse(t, ctx, server, client.session, before[0].id)
	step() // taken, and refused by the store
	call.take(1)
	flushed()
	step() // not even taken
	call.take(1)
	call.cut()
	again := client.resume(before[0].id)
	if again.status != http.StatusOK {
		t.Fatalf("%d %s", again.status, again.text())
	}
	stream, _, _ := strings.Cut(before[0].id, "_")
	got := again.take(2)
	want := `{"jsonrpc":"2.0","method":"notifications/io.tidings/gap","params":{"earliestSeq":5,"headSeq":4,"reason":"lost"}}`
	if got[0] != before[1] || got[1] != (event{stream + "_4", want}) {
		t.Errorf("%+v", got)
	}
	// Live again, under the ids that follow.
	step()
	if live := again.take(1)[0]; live.id != stream+"_5" || live.method() != "notifications/progress" {
		t.Errorf("%+v", live)
	}
	end()
	if rest := again.rest(); len(rest) != 1 || rest[0].id != stream+"_6" || rest[0].method() != "" {
		t.Errorf("%+v", rest)
	}
	// Its end is lost as well, which is told too.
	if rest := client.resume(stream + "_5").rest(); len(rest) != 1 || rest[0].id != stream+"_6" || rest[0].method() != "notifications/io.tidings/gap" {
		t.Errorf("%+v", rest)
	}
	if more := client.resume(stream + "_6"); more.status != http.StatusOK || len(more.rest()) != 0 {
		t.Errorf("who was told of everything is told nothing: %d", more.status)
	}
	if answer := client.resume(stream + "_7"); answer.status != http.StatusBadRequest {
		t.Errorf("beyond all that was said: %d", answer.status)
	}
}

func TestWithoutHandlerWhatTheStoreRefusesIsPurged(t *testing.T) {
	ctx := background(t)
	server := serve(t, open(t, file(t)), tidingsmcp.Options{})
	step, end := server.paced()
	sdk := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server.mcp }, &mcp.StreamableHTTPOptions{EventStore: server.store})
	client, _ := connect(t, ctx, listen(t, sdk))
	call := client.post(callPaced)
	step()
	before := call.take(1)
	flushed := refuse(t, ctx, server, client.session, before[0].id)
	step()
	call.take(1)
	flushed()
	end()
	call.rest()
	if answer := client.resume(before[0].id); answer.status != http.StatusBadRequest {
		t.Errorf("%d %s", answer.status, answer.text())
	}
}

// A store that is behind by more than may wait has the oldest given up: holes in what it keeps, each of which is told where it is.
func TestWhatWasGivenUpIsToldWhereItIsMissing(t *testing.T) {
	ctx := background(t)
	server := serve(t, open(t, file(t), tidings.WithBuffer(1_024)), tidingsmcp.Options{})
	client, _ := connect(t, ctx, listen(t, server.handler()))
	const last = 400
	for told := 0; told == 0; {
		call := client.post(callSteps("1", fmt.Sprintf(`{"count":%d,"hold":%d}`, last, last)))
		before := call.take(last - 1)
		<-server.reached
		call.cut()
		again := client.resume(before[0].id)
		if again.status != http.StatusOK {
			t.Fatalf("%d %s", again.status, again.text())
		}
		server.goOn <- struct{}{}
		stream, _, _ := strings.Cut(before[0].id, "_")
		var delivered []int
		at := 1
		for _, got := range again.rest() {
			if at++; got.method() == "notifications/io.tidings/gap" {
				var gap gapOf
				if err := json.Unmarshal([]byte(got.data), &gap); err != nil || gap.Params.Reason != "lost" || *gap.Params.EarliestSeq <= at {
					t.Fatalf("%v, %+v", err, got)
				}
				told++
				at = *gap.Params.EarliestSeq - 1
			} else {
				delivered = append(delivered, at)
				if at < last && got != before[at-1] {
					t.Fatalf("%+v instead of %+v", got, before[at-1])
				}
			}
			if got.id != fmt.Sprint(stream, "_", at) {
				t.Fatalf("%s instead of %d", got.id, at)
			}
		}
		if at != last+1 {
			t.Fatalf("it ended with %d", at)
		}
		// Nothing that is there is told as missing.
		if stored := storedAfter(t, ctx, server.hub, client.session, stream, 1); !reflect.DeepEqual(delivered, stored) {
			t.Fatalf("%v of %v", delivered, stored)
		}
	}
}

// storedAfter are the numbers of the messages of a stream that has ended, as far as the store has them.
func storedAfter(t *testing.T, ctx context.Context, hub *tidings.Hub, session, name string, seq uint64) (found []int) {
	t.Helper()
	stream, err := hub.Stream("session:"+session, "sdk:"+name)
	if err != nil {
		t.Fatal(err)
	}
	for event, err := range stream.Tail(ctx, tidings.AfterSeq(seq)) {
		var gap *tidings.Gap
		if err != nil && !errors.As(err, &gap) {
			t.Fatal(err)
		}
		if err == nil {
			found = append(found, int(event.Seq))
		}
	}
	return found
}

// A session's record is committed before its client knows of it: no look-up has to wait, and none is answered by 404.
func TestANewSessionCanBeResumedElsewhereAtOnce(t *testing.T) {
	ctx := background(t)
	where := file(t)
	here := serve(t, open(t, where), tidingsmcp.Options{})
	there := serve(t, open(t, where), tidingsmcp.Options{})
	address, elsewhere := listen(t, here.handler()), listen(t, there.handler())
	for range 20 {
		client := &wire{t: t, ctx: ctx, url: address}
		begun := client.post(initialize)
		client.session = begun.response.Header.Get("Mcp-Session-Id")
		first, _ := begun.next()
		client.url = elsewhere
		if answer := client.resume(first.id); answer.status != http.StatusOK {
			t.Fatalf("%d %s", answer.status, answer.text())
		}
	}
}

// What a killed process has left unfinished ends: nobody waits for what cannot come.
func TestAnAbandonedStreamEnds(t *testing.T) {
	ctx := background(t)
	where := file(t)
	first, second := start(t, where), start(t, where)
	client, _ := connect(t, ctx, first.url+"/mcp")
	call := client.post(callSteps("1", `{"count":5,"hold":4}`))
	seen := call.take(3)
	first.ask(t, "/reached")
	call.cut()
	// Resumed where it came from, so that all of it is committed.
	here := client.resume(seen[0].id)
	here.take(2)
	here.cut()
	client.url = second.url + "/mcp"
	elsewhere := client.resume(seen[0].id)
	if missed := elsewhere.take(2); fmt.Sprint(missed) != fmt.Sprint(seen[1:]) {
		t.Errorf("%+v", missed)
	}
	first.kill()
	if rest := elsewhere.rest(); len(rest) != 0 {
		t.Errorf("%+v", rest)
	}
	// There is nothing, and nobody left to say more: its client begins a new session.
	if answer := client.resume(seen[2].id); answer.status != http.StatusNotFound {
		t.Errorf("%d", answer.status)
	}
}

// A store that fails breaks no request; what it does not have is never replayed with a hole.
func TestAStoreThatFailsBreaksNothing(t *testing.T) {
	ctx := background(t)
	hub := open(t, "memory:")
	server := serve(t, hub, tidingsmcp.Options{})
	client, _ := connect(t, ctx, listen(t, server.handler()))
	call := client.post(callSteps("1", `{"count":4,"hold":3}`))
	before := call.take(2)
	<-server.reached
	if err := hub.Close(); err != nil {
		t.Fatal(err)
	}
	server.goOn <- struct{}{}
	if after := call.rest(); len(after) != 3 || after[2].method() != "" {
		t.Errorf("%+v", after)
	}
	if server.store.Failures() == 0 {
		t.Error("nothing was counted")
	}
	if answer := client.resume(before[0].id); answer.status != http.StatusBadRequest {
		t.Errorf("%d %s", answer.status, answer.text())
	}
	if rest := client.post(callSteps("2", `{"count":1}`)).rest(); len(rest) != 2 {
		t.Errorf("the next request: %+v", rest)
	}
}

func TestARestartIsSurvived(t *testing.T) {
	ctx := background(t)
	where := file(t)
	first := start(t, where)
	client, _ := connect(t, ctx, first.url+"/mcp")
	all := client.post(callSteps(`"x"`, `{"count":3}`)).rest()
	// It is committed once somebody could resume it.
	if rest := client.resume(all[0].id).rest(); len(rest) != 3 {
		t.Fatalf("%+v", rest)
	}
	first.kill()
	second := start(t, where)
	client.url = second.url + "/mcp"
	for at, id := range ids(all) {
		answer := client.resume(id)
		if rest := answer.rest(); answer.status != http.StatusOK || fmt.Sprint(rest) != fmt.Sprint(all[at+1:]) {
			t.Errorf("after %s: %d %+v", id, answer.status, rest)
		}
	}
	if answer := client.post(callSteps("2", `{"count":1}`)); answer.status != http.StatusNotFound {
		t.Errorf("a request of the session that is gone: %d", answer.status)
	}
	client.session = "another"
	if answer := client.resume(all[0].id); answer.status != http.StatusNotFound {
		t.Errorf("of a session that is not: %d", answer.status)
	}
}

func TestAnotherProcessFollowsLive(t *testing.T) {
	ctx := background(t)
	where := file(t)
	one, two := start(t, where), start(t, where)
	client, _ := connect(t, ctx, one.url+"/mcp")
	call := client.post(callSteps("1", `{"count":5,"hold":4}`))
	seen := call.take(1)
	one.ask(t, "/reached")
	call.cut()
	// A message goes out before it is committed; to be sure that it is, it is resumed where it came from.
	here := client.resume(seen[0].id)
	here.take(2)
	here.cut()
	client.url = two.url + "/mcp"
	elsewhere := client.resume(seen[0].id)
	if elsewhere.status != http.StatusOK {
		t.Fatalf("%d %s", elsewhere.status, elsewhere.text())
	}
	missed := elsewhere.take(2)
	one.ask(t, "/go")
	live := elsewhere.rest()
	client.url = one.url + "/mcp"
	if all := client.resume(seen[0].id).rest(); fmt.Sprint(all) != fmt.Sprint(append(missed, live...)) || len(all) != 5 {
		t.Errorf("%+v, %+v, %+v", missed, live, all)
	}
}

func TestASessionIsServedToItsOwnerOnly(t *testing.T) {
	ctx := background(t)
	where := file(t)
	here := serve(t, open(t, where), tidingsmcp.Options{})
	there := serve(t, open(t, where), tidingsmcp.Options{})
	client := &wire{t: t, ctx: ctx, url: listen(t, withToken(here.handler())), header: http.Header{"Authorization": {"Bearer ann"}}}
	initialized := client.post(initialize)
	client.session = initialized.response.Header.Get("Mcp-Session-Id")
	initialized.rest()
	all := client.post(callSteps("1", `{"count":2}`)).rest()
	if rest := client.resume(all[0].id).rest(); len(rest) != 2 {
		t.Fatalf("%+v", rest)
	}
	client.url = listen(t, withToken(there.handler()))
	for name, status := range map[string]int{"Bearer ann": http.StatusOK, "Bearer bob": http.StatusNotFound, "": http.StatusNotFound} {
		client.header = http.Header{}
		if name != "" {
			client.header.Set("Authorization", name)
		}
		if answer := client.resume(all[0].id); answer.status != status {
			t.Errorf("%q: %d", name, answer.status)
		}
	}
	// A session that its client has ended is nobody's.
	if err := here.store.SessionClosed(ctx, client.session); err != nil {
		t.Fatal(err)
	}
	if err := here.hub.Flush(ctx, tidings.Process); err != nil {
		t.Fatal(err)
	}
	client.header = http.Header{"Authorization": {"Bearer ann"}}
	if answer := client.resume(all[0].id); answer.status != http.StatusNotFound {
		t.Errorf("after its end: %d", answer.status)
	}
}
