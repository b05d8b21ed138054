package tidingsmcp

import (
	"context"
	"encoding/json"
	"net/http"
	"os"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Transport stands around a transport other than Streamable HTTP, such as an [mcp.StdioTransport], and does for it what [Handler] does
// for that: without resuming, which such a transport has not.
func Transport(transport mcp.Transport) mcp.Transport { return wrapped{transport} }

type wrapped struct{ mcp.Transport }

func (w wrapped) Connect(ctx context.Context) (mcp.Connection, error) {
	connection, err := w.Transport.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &fronted{Connection: connection, token: newFront(&front{stdin: readsStdin(w.Transport)})}, nil
}

// readsStdin tells whether a transport's client is at the other end of this process's stdin.
func readsStdin(transport mcp.Transport) bool {
	switch known := transport.(type) {
	case *mcp.StdioTransport:
		return true
	case *mcp.IOTransport:
		return known.Reader == os.Stdin
	case *mcp.LoggingTransport:
		return readsStdin(known.Transport)
	}
	return false
}

type fronted struct {
	mcp.Connection
	token string
}

func (f *fronted) Read(ctx context.Context) (jsonrpc.Message, error) {
	message, err := f.Connection.Read(ctx)
	request, is := message.(*jsonrpc.Request)
	if err != nil || !is {
		return message, err
	}
	own := *request
	extra := &mcp.RequestExtra{}
	if known, is := request.Extra.(*mcp.RequestExtra); is && known != nil {
		*extra = *known
	}
	extra.Header = extra.Header.Clone()
	if extra.Header == nil {
		extra.Header = http.Header{}
	}
	extra.Header.Set(frontHeader, f.token)
	own.Extra = extra
	if request.Method == listen || request.Method == toolsCall {
		id, err := json.Marshal(request.ID.Raw())
		if err != nil {
			return nil, err
		}
		if request.Method == toolsCall && !mayConcern(request.Params) {
			setID(extra.Header, id)
		} else if params, changed := movedParams(request.Method, request.Params, id); changed {
			own.Params = params
		}
	}
	return &own, nil
}

func (f *fronted) Write(ctx context.Context, message jsonrpc.Message) error {
	if request, is := message.(*jsonrpc.Request); is && !request.IsCall() {
		if frame, hidden := unwrapped(request.Params); hidden {
			notice, err := jsonrpc.DecodeMessage(frame)
			if err != nil {
				return err
			}
			message = notice
		}
	}
	return f.Connection.Write(ctx, message)
}

func (f *fronted) Close() error {
	fronts.Delete(f.token)
	return f.Connection.Close()
}
