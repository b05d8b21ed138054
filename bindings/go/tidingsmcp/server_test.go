package tidingsmcp_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	tidings "github.com/tidings-mcp/tidings/bindings/go"
	"github.com/tidings-mcp/tidings/bindings/go/tidingsmcp"
)

// served is one server, and the hands that hold its tools.
type served struct {
	hub   *tidings.Hub
	store *tidingsmcp.EventStore
	mcp   *mcp.Server
	// reached is told when a tool comes to its hold, goOn lets one go on; stopped is told when one was stopped there.
	reached, goOn, stopped chan struct{}
}

type stepsInput struct {
	Count int `json:"count"`
	// Hold is the step before which the tool waits to be let go on; 0 is none.
	Hold int    `json:"hold,omitempty"`
	Fire string `json:"fire,omitempty"`
	Fail bool   `json:"fail,omitempty"`
	// Begin fires com.example/begun first.
	Begin bool `json:"begin,omitempty"`
	// Emit is the payload of an event of the tool's own, before the first step.
	Emit string `json:"emit,omitempty"`
}

// serve makes a server with one tool, which tells its steps.
func serve(t testing.TB, hub *tidings.Hub, options tidingsmcp.Options) *served {
	s := &served{hub: hub, store: tidingsmcp.NewEventStore(hub), reached: make(chan struct{}, 8), goOn: make(chan struct{}, 8), stopped: make(chan struct{}, 8)}
	s.mcp = mcp.NewServer(&mcp.Implementation{Name: "t", Version: "1"}, nil)
	mcp.AddTool(s.mcp, &mcp.Tool{Name: "steps"}, func(ctx context.Context, request *mcp.CallToolRequest, in stepsInput) (*mcp.CallToolResult, any, error) {
		if in.Begin {
			if err := tidingsmcp.CurrentCall(ctx).Fire("com.example/begun", []byte(`{}`)); err != nil {
				return nil, nil, err
			}
		}
		if in.Emit != "" {
			if err := tidingsmcp.CurrentCall(ctx).Emit("com.example.note", []byte(in.Emit)); err != nil {
				return nil, nil, err
			}
		}
		for step := 1; step <= in.Count; step++ {
			if step == in.Hold {
				s.reached <- struct{}{}
				select {
				case <-s.goOn:
				case <-ctx.Done():
					s.stopped <- struct{}{}
					return nil, nil, ctx.Err()
				}
			}
			// What JSON can be written in more ways than one has to stay as it was.
			progress := &mcp.ProgressNotificationParams{ProgressToken: request.Params.GetProgressToken(), Progress: float64(step), Message: "é <&> \u2028"}
			if err := request.Session.NotifyProgress(ctx, progress); err != nil && ctx.Err() == nil && in.Hold == 0 && request.Params.GetProgressToken() != nil {
				return nil, nil, err
			}
		}
		if in.Fire != "" {
			if err := tidingsmcp.CurrentCall(ctx).Fire(in.Fire, []byte(`{"n":1}`)); err != nil {
				return nil, nil, err
			}
		}
		if in.Fail {
			return nil, nil, errors.New("no")
		}
		// What the tool sees of its request's _meta is what it returns.
		seen := fmt.Sprint(len(request.Params.Meta))
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: seen}}}, nil, nil
	})
	mcp.AddTool(s.mcp, &mcp.Tool{Name: "ask"}, func(_ context.Context, request *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
		answer, answered := request.Params.InputResponses["name"].(*mcp.ElicitResult)
		if !answered {
			return &mcp.CallToolResult{RequestState: "state 1", InputRequests: mcp.InputRequestMap{"name": &mcp.ElicitParams{
				Message: "Who?", RequestedSchema: map[string]any{"type": "object", "properties": map[string]any{"name": map[string]any{"type": "string"}}},
			}}}, nil, nil
		}
		text := fmt.Sprintf("%v, %s", answer.Content["name"], request.Params.RequestState)
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil, nil
	})
	if err := tidingsmcp.Attach(s.mcp, hub, options); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *served) handler() http.Handler {
	sdk := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s.mcp }, &mcp.StreamableHTTPOptions{EventStore: s.store})
	return tidingsmcp.Handler(sdk, s.store)
}

func open(t *testing.T, url string, options ...tidings.Option) *tidings.Hub {
	t.Helper()
	hub, err := tidings.Open(background(t), url, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := hub.Shutdown(context.Background(), hangs); err != nil && !errors.Is(err, tidings.ErrClosed) {
			t.Error(err)
		}
	})
	return hub
}

func file(t *testing.T) string { return "sqlite:" + t.TempDir() + "/tidings.db" }

// listen serves over HTTP, on a port of the system's choice.
func listen(t *testing.T, handler http.Handler) string {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections)
	return server.URL
}

// withToken authenticates whoever brings a bearer token, under its own name.
func withToken(handler http.Handler) http.Handler {
	verify := func(_ context.Context, token string, _ *http.Request) (*auth.TokenInfo, error) {
		return &auth.TokenInfo{UserID: token, Expiration: time.Now().Add(time.Hour)}, nil
	}
	checked := auth.RequireBearerToken(verify, nil)(handler)
	return http.HandlerFunc(func(response http.ResponseWriter, request *http.Request) {
		if request.Header.Get("Authorization") == "" {
			handler.ServeHTTP(response, request)
		} else {
			checked.ServeHTTP(response, request)
		}
	})
}

// A process is a server of its own, on a file that others may have too.
type process struct {
	url     string
	command *exec.Cmd
	ended   sync.Once
}

const processVariable = "TIDINGS_TEST_SERVER"

func TestMain(m *testing.M) {
	for variable, run := range map[string]func(string) error{processVariable: runProcess, stdioVariable: runStdio} {
		if given := os.Getenv(variable); given != "" {
			if err := run(given); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			return
		}
	}
	os.Exit(m.Run())
}

// runProcess serves until its input ends: with the test, however that ends.
func runProcess(url string) error {
	hub, err := tidings.Open(context.Background(), url)
	if err != nil {
		return err
	}
	server := serve(nil, hub, atOnce)
	mux := http.NewServeMux()
	mux.Handle("/mcp", server.handler())
	mux.Handle("/modern", server.stateless())
	mux.HandleFunc("/reached", func(http.ResponseWriter, *http.Request) { <-server.reached })
	mux.HandleFunc("/go", func(http.ResponseWriter, *http.Request) { server.goOn <- struct{}{} })
	listening := httptest.NewServer(mux)
	fmt.Println(listening.URL)
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
	return nil
}

func start(t *testing.T, url string) *process {
	t.Helper()
	command := exec.Command(os.Args[0])
	command.Env = append(os.Environ(), processVariable+"="+url)
	command.Stderr = os.Stderr
	if _, err := command.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	p := &process{command: command}
	t.Cleanup(p.kill)
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	p.url = strings.TrimSpace(line)
	return p
}

// kill ends it by SIGKILL.
func (p *process) kill() {
	p.ended.Do(func() {
		_ = p.command.Process.Kill()
		_ = p.command.Wait()
	})
}

func (p *process) ask(t *testing.T, path string) {
	t.Helper()
	response, err := http.Get(p.url + path)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
}
