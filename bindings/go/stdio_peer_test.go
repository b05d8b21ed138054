package tidings_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"testing"

	tidings "github.com/tidings-mcp/tidings/bindings/go"
)

const ringsVariable = "TIDINGS_TEST_RINGS"

func TestMain(m *testing.M) {
	if os.Getenv(ringsVariable) != "" {
		ring()
		return
	}
	os.Exit(m.Run())
}

// ring is the process that the test below starts: it rings whoever did, and says what that came to.
func ring() {
	peer, err := tidings.NewStdioPeer(true)
	if err != nil {
		fmt.Println("none:", errors.Is(err, tidings.ErrUnsupported))
		return
	}
	_, err = tidings.NewStdioPeer(false)
	asRoot := errors.Is(err, tidings.ErrUnsupported) == (os.Geteuid() == 0)
	_, err = peer.Ring("SIGTERM")
	fatal := errors.Is(err, tidings.ErrInvalidArgument)
	refusal, err := peer.Ring("SIGUSR1")
	fmt.Println("rung:", asRoot, fatal, refusal, err)
	_, _ = io.ReadAll(os.Stdin) // its parent goes on
}

func TestStdioPeer(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("Linux only")
	}
	rung := make(chan os.Signal, 1)
	signal.Notify(rung, syscall.SIGUSR1)
	defer signal.Stop(rung)
	start := func(withPipe bool) (first string, end func()) {
		t.Helper()
		command := exec.Command(os.Args[0])
		command.Env = append(os.Environ(), ringsVariable+"=1")
		var in io.Closer = io.NopCloser(nil)
		var err error
		if withPipe {
			if in, err = command.StdinPipe(); err != nil {
				t.Fatal(err)
			}
		}
		out, err := command.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := command.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewReader(out)
		if first, err = lines.ReadString('\n'); err != nil {
			t.Fatal(first, err)
		}
		return strings.TrimSpace(first), func() {
			in.Close()
			said, _ := io.ReadAll(lines)
			if err := command.Wait(); err != nil {
				t.Errorf("%v: %s", err, said)
			}
		}
	}
	first, end := start(true)
	if first != "rung: true true 0 <nil>" {
		t.Error(first)
	} else {
		<-rung
	}
	end()
	// Nobody is at the other end of /dev/null.
	if first, end = start(false); first != "none: true" {
		t.Error(first)
	}
	end()
}
