// The adapter of Go answers the conformance runner over the public API: a question a line on stdin, an answer a line on stdout. It
// only converts; what it says is what the library says.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	tidings "github.com/tidings-mcp/tidings/bindings/go"
)

var features = []string{"webhook", "encryption", "config", "errors", "streams", "calls", "tasks", "processes", "crash", "fanout", "outlets"}

type question struct {
	ID json.RawMessage `json:"id"`
	Op string          `json:"op"`
	In json.RawMessage `json:"in"`
}

// object is the JSON of an answer.
type object map[string]any

func main() {
	lines := bufio.NewReader(os.Stdin)
	out := json.NewEncoder(os.Stdout)
	stage := newStage()
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			if !errors.Is(err, io.EOF) {
				fmt.Fprintln(os.Stderr, err)
			}
			return
		}
		if err := out.Encode(answer(stage, line)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return
		}
	}
}

func answer(stage *stage, line []byte) object {
	var asked question
	if err := json.Unmarshal(line, &asked); err != nil {
		return object{"error": err.Error()}
	}
	if asked.Op == "hello" {
		return object{"id": asked.ID, "out": object{"surface": "go", "features": features}}
	}
	step, known := stage.steps()[asked.Op]
	if !known {
		return object{"id": asked.ID, "unsupported": true}
	}
	told, err := step(asked.In)
	if err != nil {
		if told = errorTold(err); told == nil {
			return object{"id": asked.ID, "error": err.Error()}
		}
	}
	return object{"id": asked.ID, "out": told}
}

// errorTold is an error of the library as an outcome; nil for one of the adapter's own.
func errorTold(err error) object {
	var refused *tidings.ConfigError
	if errors.As(err, &refused) {
		return object{"error": tidings.ErrInvalidConfig, "faults": faultsTold(refused)}
	}
	var webhook *tidings.WebhookError
	if errors.As(err, &webhook) {
		return object{"error": webhook.Code}
	}
	var found *tidings.Error
	if errors.As(err, &found) {
		return object{"error": found.Code}
	}
	return nil
}

func faultsTold(refused *tidings.ConfigError) []object {
	found := []object{}
	for _, fault := range refused.Faults {
		found = append(found, object{"path": fault.Path, "rule": fault.Rule})
	}
	return found
}

// raw are bytes: a text, or {"hex": …} where they are no UTF-8.
type raw []byte

func (r *raw) UnmarshalJSON(text []byte) error {
	if bytes.HasPrefix(text, []byte(`"`)) {
		var found string
		err := json.Unmarshal(text, &found)
		*r = raw(found)
		return err
	}
	var hexed struct{ Hex string }
	if err := json.Unmarshal(text, &hexed); err != nil {
		return err
	}
	found, err := fromHex(hexed.Hex)
	*r = found
	return err
}
