package tidingsmcp

import (
	"bytes"
	"net/http"
	"strconv"
	"strings"
	"sync"
)

// frameWriter is the response that the SDK writes to: what it writes of a stream is one event at a time.
type frameWriter struct {
	http.ResponseWriter

	mu sync.Mutex
	// over: the request is, so that nothing more may be written.
	over  bool
	begun bool
	// shifts say by how much the store's index of a message is more than the one that the SDK gives it: from the SDK's index on. A gap
	// is one message to the SDK, and as many to the store as are missing.
	shifts []shift
	// named is told once which stream it is, with the first event that says so; nil where nobody wants to know.
	named func(streamID string)
}

type shift struct{ from, by int }

func newFrameWriter(response http.ResponseWriter) *frameWriter {
	return &frameWriter{ResponseWriter: response}
}

// Unwrap is for [http.ResponseController].
func (w *frameWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *frameWriter) WriteHeader(status int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.begun {
		w.begun = true
		w.ResponseWriter.WriteHeader(status)
	}
}

// opens begins a stream that has nothing to send yet: its client is not to wait for the answer's beginning until it has.
func (w *frameWriter) opens() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over || w.begun {
		return
	}
	// As the SDK would set it with the first event.
	header := w.Header()
	header.Set("Cache-Control", "no-cache, no-transform")
	header.Set("Content-Type", "text/event-stream")
	header.Set("Connection", "keep-alive")
	w.begun = true
	w.ResponseWriter.WriteHeader(http.StatusOK)
	if _, err := w.ResponseWriter.Write([]byte(": ok\n\n")); err == nil {
		_ = http.NewResponseController(w.ResponseWriter).Flush() // a client that has left is noticed elsewhere
	}
}

func (w *frameWriter) Write(text []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over {
		return 0, http.ErrHandlerTimeout
	}
	w.begun = true
	if _, err := w.ResponseWriter.Write(w.event(text)); err != nil {
		return 0, err
	}
	return len(text), nil
}

// FlushError is for [http.ResponseController].
func (w *frameWriter) FlushError() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over {
		return http.ErrHandlerTimeout
	}
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// Flush is for whoever knows [http.Flusher] only.
func (w *frameWriter) Flush() { _ = w.FlushError() }

func (w *frameWriter) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = true
}

// streams tells whether the response is a stream of events: known once its request is being handled.
func (w *frameWriter) streams() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.HasPrefix(w.Header().Get("Content-Type"), "text/event-stream")
}

// comment has proxies hand on what there is, and keep what is silent. It moves no cursor and is no event.
func (w *frameWriter) comment() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over {
		return http.ErrHandlerTimeout
	}
	w.begun = true
	if _, err := w.ResponseWriter.Write([]byte(": ok\n\n")); err != nil {
		return err
	}
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// shiftFrom has the ids of the events from the SDK's index on be more by so many.
func (w *frameWriter) shiftFrom(index, by int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.shifts = append(w.shifts, shift{index, by})
}

// event is one as it goes out: with a notification of ours in place of what is around it, and the store's index.
func (w *frameWriter) event(text []byte) []byte {
	if !bytes.HasPrefix(text, []byte("event: ")) {
		return text
	}
	if w.named != nil {
		if stream, _, _, _, named := idIn(text); named {
			w.named(stream)
			w.named = nil
		}
	}
	if len(w.shifts) > 0 {
		text = w.shifted(text)
	}
	head, data, found := bytes.Cut(text, []byte("\ndata: "))
	if !found {
		return text
	}
	frame, hidden := unwrapped(data)
	if !hidden {
		return text
	}
	out := make([]byte, 0, len(head)+len(frame)+len("\ndata: \n\n"))
	out = append(append(append(out, head...), "\ndata: "...), frame...)
	return append(out, "\n\n"...)
}

func (w *frameWriter) shifted(text []byte) []byte {
	stream, index, head, after, named := idIn(text)
	if !named {
		return text
	}
	by := 0
	for _, shift := range w.shifts {
		if index >= shift.from {
			by = shift.by
		}
	}
	out := append([]byte(nil), head...)
	out = append(append(out, "\nid: "...), stream...)
	out = append(strconv.AppendInt(append(out, '_'), int64(index+by), 10), '\n')
	return append(out, after...)
}

// idIn is the id of an event in the SDK's form, with what is before its line and after it; false: it has none.
func idIn(text []byte) (stream string, index int, head, after []byte, named bool) {
	head, rest, found := bytes.Cut(text, []byte("\nid: "))
	line, after, ended := bytes.Cut(rest, []byte("\n"))
	stream, number, parted := strings.Cut(string(line), "_")
	index, err := strconv.Atoi(number)
	return stream, index, head, after, found && ended && parted && err == nil
}
