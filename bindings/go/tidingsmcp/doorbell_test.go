package tidingsmcp_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	tidings "github.com/tidings-mcp/tidings/bindings/go"
	"github.com/tidings-mcp/tidings/bindings/go/tidingsmcp"
)

const stdioVariable = "TIDINGS_TEST_STDIO"

// runStdio serves over stdin and stdout, until stdin ends.
func runStdio(mode string) error {
	hub, err := tidings.Open(context.Background(), "memory:")
	if err != nil {
		return err
	}
	defer hub.Close()
	options := tidingsmcp.Options{Routes: []string{"signal", "message"}, SignalAsRoot: mode != "not as root"}
	if mode == "its own" {
		options = tidingsmcp.Options{SignalAsRoot: true, DefaultRoutes: map[string]json.RawMessage{
			"steps": json.RawMessage(`[{"id":"own","type":"signal","signal":"SIGUSR1","triggers":["completed"]}]`),
		}}
	}
	return serve(nil, hub, options).mcp.Run(context.Background(), tidingsmcp.Transport(&mcp.StdioTransport{}))
}

// rung is a shell that has started a server as an MCP client does, waits for SIGUSR1, and says on its stderr when that comes.
type rung struct {
	t            *testing.T
	command      *exec.Cmd
	in           io.WriteCloser
	lines, heard *bufio.Reader
}

const rungScript = `trap 'echo rung >&2' USR1
exec 3<&0
"$1" <&3 &
while kill -0 $! 2>/dev/null; do wait $!; done
exit 0`

func startRung(t *testing.T, mode string) *rung {
	t.Helper()
	command := exec.CommandContext(background(t), "sh", "-c", rungScript, "sh", os.Args[0])
	command.Env = append(os.Environ(), stdioVariable+"="+mode)
	r := &rung{t: t, command: command}
	var err error
	if r.in, err = command.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	said, err := command.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	r.lines, r.heard = bufio.NewReader(out), bufio.NewReader(said)
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		r.in.Close() // upon which the server ends, and the shell after it
		_ = command.Wait()
	})
	return r
}

// ask sends a message and is told of everything up to its answer.
func (r *rung) ask(text string) (before []string, answer reply) {
	r.t.Helper()
	r.send(text)
	for {
		line := r.next()
		if !strings.Contains(line, `"method"`) {
			return before, read(r.t, line)
		}
		before = append(before, line)
	}
}

func (r *rung) send(text string) {
	r.t.Helper()
	if _, err := io.WriteString(r.in, text+"\n"); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rung) next() string {
	r.t.Helper()
	line, err := r.lines.ReadString('\n')
	if err != nil {
		said, _ := io.ReadAll(r.heard)
		r.t.Fatalf("%v; %s", err, said)
	}
	return line
}

// wait waits until it is rung.
func (r *rung) wait() {
	r.t.Helper()
	for line := ""; line != "rung\n"; {
		var err error
		if line, err = r.heard.ReadString('\n'); err != nil {
			r.t.Fatal("it was not rung", err)
		}
	}
}

// end has the server end, and whoever started it, which has not been rung any more.
func (r *rung) end() {
	r.t.Helper()
	if err := r.in.Close(); err != nil {
		r.t.Fatal(err)
	}
	said, err := io.ReadAll(r.heard)
	if err != nil || strings.Contains(string(said), "rung\n") {
		r.t.Errorf("%v: %s", err, said)
	}
	if err := r.command.Wait(); err != nil {
		r.t.Errorf("the client did not survive: %v; %s", err, said)
	}
}

func (r *rung) begin() (offered string) {
	r.t.Helper()
	r.send(initialize)
	line := r.next()
	r.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	var said struct {
		Result struct {
			Capabilities struct{ NotificationConfig json.RawMessage }
		}
	}
	if err := json.Unmarshal([]byte(line), &said); err != nil {
		r.t.Fatal(err)
	}
	return string(said.Result.Capabilities.NotificationConfig)
}

// Field case B28: the process at the other end is rung with the signal that it named and waits for, and survives the others.
func TestTheClientOfAStdioServerIsRung(t *testing.T) {
	client := startRung(t, "as root too")
	if offered := client.begin(); offered != `{"supportedRouteTypes":["signal","message"]}` {
		t.Fatal(offered)
	}
	// The next route has its turn where the signal would end the client: which is told after the ring has been tried.
	both := `{"routes":[{"id":"bell","type":"signal","signal":%q,"triggers":["completed"]},{"id":"word","type":"message","triggers":["completed"]}]}`
	before, answer := client.ask(configured("1", `{"count":0}`, fmt.Sprintf(both, "SIGUSR2")))
	if answer.Result == nil || !strings.Contains(string(answer.Result.Meta["io.tidings/acknowledged"]), `"acceptedRoutes":["bell","word"]`) {
		t.Fatalf("%+v", answer)
	}
	told := before[len(before)-1] // it may come before the answer
	for !strings.Contains(told, "io.tidings/triggered") {
		told = client.next()
	}
	if !strings.Contains(told, `"route":"word"`) {
		t.Error(told)
	}
	for _, bad := range []string{`{}`, `{"signal":"SIGTERM"}`, `{"signal":10}`, `{"signal":"SIGUSR1","target":"1"}`} {
		var members map[string]any
		if err := json.Unmarshal([]byte(bad), &members); err != nil {
			t.Fatal(err)
		}
		members["id"], members["type"], members["triggers"] = "bell", "signal", []string{"completed"}
		config, err := json.Marshal(map[string]any{"routes": []any{members}})
		if err != nil {
			t.Fatal(err)
		}
		if _, answer := client.ask(configured("2", `{"count":0}`, string(config))); answer.Error == nil || answer.Error.Code != -32602 {
			t.Errorf("%s: %+v", bad, answer)
		}
	}
	client.ask(configured("3", `{"count":0}`, fmt.Sprintf(both, "SIGUSR1")))
	client.wait()
	client.end()
}

func TestTheServersOwnRoutesRing(t *testing.T) {
	client := startRung(t, "its own")
	if offered := client.begin(); offered != "" {
		t.Error("clients may bring nothing", offered)
	}
	client.ask(callSteps("1", `{"count":0}`))
	client.wait()
	client.end()
}

func TestRootRingsNobodyUnlessItMay(t *testing.T) {
	client := startRung(t, "not as root")
	want := `{"supportedRouteTypes":["message"]}`
	if os.Geteuid() != 0 {
		want = `{"supportedRouteTypes":["signal","message"]}`
	}
	if offered := client.begin(); offered != want {
		t.Error(offered)
	}
	if os.Geteuid() != 0 {
		return // nobody is root here
	}
	_, answer := client.ask(configured("1", `{"count":0}`, `{"routes":[{"id":"r","type":"signal","signal":"SIGUSR1","triggers":["completed"]}]}`))
	if answer.Error == nil || answer.Error.Code != -32602 {
		t.Errorf("%+v", answer)
	}
	client.end()
}

// Whose client is not at the other end of stdin is not rung, whoever is there.
func TestOnlyTheClientAtStdinIsRung(t *testing.T) {
	ctx := background(t)
	server := serve(t, open(t, "memory:"), tidingsmcp.Options{Routes: []string{"signal", "message"}, SignalAsRoot: true})
	want := `"notificationConfig":{"supportedRouteTypes":["message"]}`
	if initialized := newPipe(t, ctx, server.mcp).begin(); !strings.Contains(initialized, want) {
		t.Error(initialized)
	}
	if _, initialized := connect(t, ctx, listen(t, server.handler())); !strings.Contains(initialized, want) {
		t.Error(initialized)
	}
}
