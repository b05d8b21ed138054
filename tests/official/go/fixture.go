package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// A fixture is what ../fixture.json says; ../README.md explains it.
type fixture struct {
	Tools      map[string]tool
	Prompts    map[string]prompt
	Resources  map[string]json.RawMessage
	Templates  map[string]json.RawMessage
	Completion mcp.CompletionResultDetails
}

type tool struct {
	InputSchema json.RawMessage
	// Needs is a capability that the client must have declared.
	Needs string
	questions
	Elicits, Samples json.RawMessage
	Logs             []string
	Progress         []float64
	Cuts             bool
	// Changes is the list that the tool changes.
	Changes string
	// Takes is a number of seconds, or the argument that says it.
	Takes any
	Error *jsonrpc.Error
	// Result, as those of prompts, has ${NAME} where a text is to be put in.
	Result json.RawMessage
	// Task says whether calls become tasks: "always", "required", or not.
	Task string
}

type prompt struct {
	Arguments []string
	questions
	Result json.RawMessage
}

// questions are asked of the client by InputRequiredResult.
type questions struct {
	// Asks are the rounds, by the name of each question.
	Asks []json.RawMessage
	// Sealed: the place among the rounds goes through the client.
	Sealed bool
	// IfDeclared: only what the client has declared is asked.
	IfDeclared bool
}

func readFixture(path string) (*fixture, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	read := &fixture{}
	decoder := json.NewDecoder(bytes.NewReader(text))
	// What this server does not know it would not do.
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(read); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return read, nil
}

// texts are put in for ${NAME}.
type texts map[string]string

// ofArguments are the arguments of a tool that have a text.
func ofArguments(arguments json.RawMessage) (texts, map[string]any) {
	var given map[string]any
	if json.Unmarshal(arguments, &given) != nil {
		return texts{}, nil
	}
	found := texts{}
	for name, value := range given {
		found[name] = fmt.Sprint(value)
	}
	return found, given
}

// fill reads a part of the fixture, with the texts put in.
func fill[T any](part json.RawMessage, given texts) (*T, error) {
	whole := string(part)
	for name, text := range given {
		written, err := json.Marshal(text)
		if err != nil {
			return nil, err
		}
		// Within a text of the fixture, so without the quotes.
		whole = strings.ReplaceAll(whole, "${"+name+"}", string(written[1:len(written)-1]))
	}
	result := new(T)
	return result, json.Unmarshal([]byte(whole), result)
}
