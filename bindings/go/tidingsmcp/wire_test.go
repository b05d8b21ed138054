package tidingsmcp_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// Far above what anything here takes: it only ends what hangs.
const hangs = 2 * time.Minute

func background(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), hangs)
	t.Cleanup(cancel)
	return ctx
}

// event is one of a stream, as it came over the wire.
type event struct{ id, data string }

func (e event) method() string {
	var message struct{ Method string }
	_ = json.Unmarshal([]byte(e.data), &message)
	return message.Method
}

// answer is a response that is read event by event.
type answer struct {
	t        *testing.T
	status   int
	response *http.Response
	lines    *bufio.Reader
}

// next is the next event with data; false at the end.
func (a *answer) next() (event, bool) {
	a.t.Helper()
	var found event
	for {
		line, err := a.lines.ReadString('\n')
		if err != nil {
			if !errors.Is(err, io.EOF) {
				a.t.Fatal(err)
			}
			return found, false
		}
		line = strings.TrimSuffix(line, "\n")
		switch {
		case line == "" && found.data != "":
			return found, true
		case line == "":
			found = event{}
		case strings.HasPrefix(line, "id: "):
			found.id = line[len("id: "):]
		case strings.HasPrefix(line, "data: "):
			found.data += line[len("data: "):]
		}
	}
}

func (a *answer) take(count int) (found []event) {
	a.t.Helper()
	for range count {
		event, more := a.next()
		if !more {
			a.t.Fatalf("the stream ended after %d of %d events", len(found), count)
		}
		found = append(found, event)
	}
	return found
}

func (a *answer) rest() (found []event) {
	a.t.Helper()
	for {
		event, more := a.next()
		if !more {
			return found
		}
		found = append(found, event)
	}
}

func (a *answer) text() string {
	a.t.Helper()
	text, err := io.ReadAll(a.lines)
	if err != nil {
		a.t.Fatal(err)
	}
	return string(text)
}

func (a *answer) cut() { a.response.Body.Close() }

// wire speaks Streamable HTTP byte by byte.
type wire struct {
	t       *testing.T
	ctx     context.Context
	url     string
	session string
	header  http.Header
}

func (w *wire) send(method, body string, headers map[string]string) *answer {
	w.t.Helper()
	request, err := http.NewRequestWithContext(w.ctx, method, w.url, bytes.NewReader([]byte(body)))
	if err != nil {
		w.t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json, text/event-stream")
	request.Header.Set("Mcp-Protocol-Version", "2025-11-25")
	if w.session != "" {
		request.Header.Set("Mcp-Session-Id", w.session)
	}
	for name, value := range headers {
		request.Header.Set(name, value)
	}
	for name := range w.header {
		request.Header.Set(name, w.header.Get(name))
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { response.Body.Close() })
	return &answer{w.t, response.StatusCode, response, bufio.NewReader(response.Body)}
}

func (w *wire) post(body string) *answer { w.t.Helper(); return w.send(http.MethodPost, body, nil) }

func (w *wire) resume(id string) *answer {
	w.t.Helper()
	return w.send(http.MethodGet, "", map[string]string{"Last-Event-ID": id})
}

const initialize = `{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":"2025-11-25",` +
	`"capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`

// connect initializes a session, and tells the server's answer.
func connect(t *testing.T, ctx context.Context, url string) (*wire, string) {
	t.Helper()
	client := &wire{t: t, ctx: ctx, url: url}
	answer := client.post(initialize)
	if answer.status != http.StatusOK {
		t.Fatalf("initialize: %d %s", answer.status, answer.text())
	}
	client.session = answer.response.Header.Get("Mcp-Session-Id")
	result, _ := answer.next()
	if status := client.post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`).status; status != http.StatusAccepted {
		t.Fatalf("initialized: %d", status)
	}
	return client, result.data
}
