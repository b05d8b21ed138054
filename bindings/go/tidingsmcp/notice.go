package tidingsmcp

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// The SDK sends no notifications but its own. So ours go through it inside of one of those, which Handler, Transport and EventStore
// unwrap: that way they are on the stream of their request, in order with everything else on it, and kept like everything else.

// noticeKey is the member of the _meta of the notification around. It is random, so that nobody from outside can make one.
var (
	noticeKey  = "io.tidings/notice:" + rand.Text()
	noticeMark = []byte(noticeKey)
)

// errNoFront: there is nobody who would unwrap it.
var errNoFront = errors.New("tidingsmcp: Handler or Transport is missing, or the client has gone")

// notify sends a notification of ours: on the stream of the request whose context it is given, or else on the session's own. params is
// JSON text, or nil.
func (f *front) notify(ctx context.Context, session *mcp.ServerSession, method string, params json.RawMessage) error {
	if f == nil {
		return errNoFront
	}
	if params != nil {
		// On one line, and a text that is none is told here. The tokens stay as they are.
		var compact bytes.Buffer
		if err := json.Compact(&compact, params); err != nil {
			return fmt.Errorf("tidingsmcp: the params of %s are no JSON text: %w", method, err)
		}
		params = compact.Bytes()
	}
	return session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{Meta: mcp.Meta{noticeKey: string(frameOf(method, params))}})
}

// frameOf is a notification. The params are JSON text on one line, which stays as it is, or nil.
func frameOf(method string, params json.RawMessage) []byte {
	frame := append([]byte(`{"jsonrpc":"2.0","method":`), textJSON(method)...)
	if params != nil {
		frame = append(append(frame, `,"params":`...), params...)
	}
	return append(frame, '}')
}

// unwrapped is the notification of ours that is inside of one of the SDK's, as a message or the params of one; false: there is none.
func unwrapped(data []byte) ([]byte, bool) {
	if !bytes.Contains(data, noticeMark) {
		return nil, false
	}
	type params struct {
		Meta map[string]json.RawMessage `json:"_meta"`
	}
	var message struct {
		params
		Params params `json:"params"`
	}
	var frame string
	if json.Unmarshal(data, &message) != nil {
		return nil, false
	}
	inside := message.Params.Meta[noticeKey]
	if inside == nil {
		inside = message.Meta[noticeKey]
	}
	if json.Unmarshal(inside, &frame) != nil {
		return nil, false
	}
	return []byte(frame), true
}

// isNotice tells whether the params of a notification have one of ours inside.
func isNotice(request mcp.Request) bool {
	progress, is := request.GetParams().(*mcp.ProgressNotificationParams)
	return is && progress != nil && progress.Meta[noticeKey] != nil
}
