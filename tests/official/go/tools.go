package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// step is between two messages of a tool that sends several.
const step = 50 * time.Millisecond

// run does what the fixture says of a tool, in its order.
func (t tool) run(ctx context.Context, changed func(list string) error, request *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	given, arguments := ofArguments(request.Params.Arguments)
	can := request.ClientCapabilities()
	if t.Needs != "" && !hasCapability(can, t.Needs) {
		return nil, &jsonrpc.Error{
			Code:    mcp.CodeMissingRequiredClientCapabilities,
			Message: "This tool needs " + t.Needs,
			Data:    json.RawMessage(`{"requiredCapabilities":{"` + t.Needs + `":{}}}`),
		}
	}
	asked, state, err := t.next(request.Params.RequestState, request.Params.InputResponses, can, given)
	if err != nil {
		return nil, err
	}
	if len(asked) > 0 {
		return &mcp.CallToolResult{InputRequests: asked, RequestState: state}, nil
	}
	if err := t.talk(ctx, request, given); err != nil {
		return nil, err
	}
	if t.Changes != "" {
		if err := changed(t.Changes); err != nil {
			return nil, err
		}
	}
	if t.Cuts && request.Extra.CloseSSEStream != nil {
		request.Extra.CloseSSEStream(mcp.CloseSSEStreamArgs{RetryAfter: step})
		pause(ctx, step)
	}
	seconds, _ := t.Takes.(float64)
	if argument, named := t.Takes.(string); named {
		seconds, _ = arguments[argument].(float64)
	}
	pause(ctx, time.Duration(seconds*float64(time.Second)))
	if t.Error != nil {
		return nil, t.Error
	}
	return fill[mcp.CallToolResult](t.Result, given)
}

func hasCapability(can *mcp.ClientCapabilities, name string) bool {
	var declared map[string]json.RawMessage
	text, err := json.Marshal(can)
	return err == nil && json.Unmarshal(text, &declared) == nil && declared[name] != nil
}

// talk is what the tool says to its client, and asks of it while it runs; the answer is added to the texts.
func (t tool) talk(ctx context.Context, request *mcp.CallToolRequest, given texts) error {
	for _, said := range t.Logs {
		if err := request.Session.Log(ctx, &mcp.LoggingMessageParams{Level: "info", Data: said}); err != nil {
			return err
		}
		pause(ctx, step)
	}
	if token := request.Params.GetProgressToken(); token != nil {
		for _, done := range t.Progress {
			progress := &mcp.ProgressNotificationParams{ProgressToken: token, Progress: done, Total: 100}
			if err := request.Session.NotifyProgress(ctx, progress); err != nil {
				return err
			}
			pause(ctx, step)
		}
	}
	switch {
	case t.Samples != nil:
		asked, err := fill[mcp.CreateMessageParams](t.Samples, given)
		if err != nil {
			return err
		}
		answer, err := request.Session.CreateMessage(ctx, asked)
		if err != nil {
			return err
		}
		if said, is := answer.Content.(*mcp.TextContent); is {
			given["answer"] = said.Text
		}
	case t.Elicits != nil:
		asked, err := fill[mcp.ElicitParams](t.Elicits, given)
		if err != nil {
			return err
		}
		answer, err := request.Session.Elicit(ctx, asked)
		if err != nil {
			return err
		}
		content, err := json.Marshal(answer.Content)
		if err != nil {
			return err
		}
		given["answer"] = fmt.Sprintf("action=%s, content=%s", answer.Action, content)
	}
	return nil
}

// change tells that a list of a server has changed.
type change func(server *mcp.Server, list string) error

// ownChange makes the SDK tell it, which does so by itself when a list has changed.
func ownChange(server *mcp.Server, list string) error {
	const passing = "passing"
	switch list {
	case "tools":
		nothing := func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{}, nil
		}
		server.AddTool(&mcp.Tool{Name: passing, InputSchema: json.RawMessage(`{"type":"object"}`)}, nothing)
		server.RemoveTools(passing)
	case "prompts":
		nothing := func(context.Context, *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			return &mcp.GetPromptResult{}, nil
		}
		server.AddPrompt(&mcp.Prompt{Name: passing}, nothing)
		server.RemovePrompts(passing)
	}
	return nil
}

func (p prompt) get(request *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
	given := texts{}
	for name, text := range request.Params.Arguments {
		given[name] = text
	}
	asked, state, err := p.next(request.Params.RequestState, request.Params.InputResponses, request.ClientCapabilities(), given)
	if err != nil {
		return nil, err
	}
	if len(asked) > 0 {
		return &mcp.GetPromptResult{InputRequests: asked, RequestState: state}, nil
	}
	return fill[mcp.GetPromptResult](p.Result, given)
}

// read is a resource's contents; given has what its template stands for.
func read(part json.RawMessage, uri string, given texts) (*mcp.ReadResourceResult, error) {
	contents, err := fill[mcp.ResourceContents](part, given)
	if err != nil {
		return nil, err
	}
	contents.URI = uri
	return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{contents}}, nil
}

// idIn is what stands for {id} of a template.
func idIn(template, uri string) string {
	before, after, _ := strings.Cut(template, "{id}")
	return strings.TrimSuffix(strings.TrimPrefix(uri, before), after)
}

func pause(ctx context.Context, length time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(length):
	}
}
