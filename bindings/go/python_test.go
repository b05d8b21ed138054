package tidings_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	tidings "github.com/tidings-mcp/tidings/bindings/go"
)

// A Python process appends what a tail here reads, live, on the file of both.
func TestAPythonProcessWritesWhatIsTailedHere(t *testing.T) {
	python, err := filepath.Abs("../../.cache/venv/bin/python")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(python); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip("tools/python-env was not run: there is no Python with the package")
	}
	ctx := background(t)
	where := file(t)
	hub := open(t, where)
	mine := stream(t, hub, "s", "n")
	if _, err := mine.Append(ctx, "message", []byte("0")); err != nil {
		t.Fatal(err)
	}
	tail, err := mine.Follow(ctx, tidings.Earliest)
	if err != nil {
		t.Fatal(err)
	}
	program := `
import asyncio, sys
from tidings import Hub
async def main():
    hub = Hub(sys.argv[1])
    stream = hub.stream("s", "n")
    await stream.append(["1", "2"])
    await stream.append(["3"], close=True)
    await hub.close()
asyncio.run(main())
`
	if out, err := exec.CommandContext(ctx, python, "-c", program, where).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var read []string
	for event, err := range tail.Events(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		read = append(read, string(event.Payload))
	}
	if fmt.Sprint(read) != "[0 1 2 3]" {
		t.Errorf("%v", read)
	}
}
