package main

import (
	"context"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// register gives the SDK all that the fixture has.
func (f *fixture) register(server *mcp.Server, changed change) {
	tell := func(list string) error { return changed(server, list) }
	for name, tool := range f.Tools {
		described := &mcp.Tool{Name: name, Description: describe(name), InputSchema: tool.InputSchema}
		server.AddTool(described, func(ctx context.Context, request *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return tool.run(ctx, tell, request)
		})
	}
	for name, prompt := range f.Prompts {
		described := &mcp.Prompt{Name: name, Description: describe(name)}
		for _, argument := range prompt.Arguments {
			described.Arguments = append(described.Arguments, &mcp.PromptArgument{Name: argument, Required: true})
		}
		server.AddPrompt(described, func(_ context.Context, request *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			return prompt.get(request)
		})
	}
	for uri, part := range f.Resources {
		described := &mcp.Resource{URI: uri, Name: uri, Description: describe(uri)}
		server.AddResource(described, func(_ context.Context, request *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
			return read(part, request.Params.URI, nil)
		})
	}
	for template, part := range f.Templates {
		described := &mcp.ResourceTemplate{URITemplate: template, Name: "template", Description: describe(template)}
		server.AddResourceTemplate(described, func(_ context.Context, request *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
			uri := request.Params.URI
			return read(part, uri, texts{"id": idIn(template, uri)})
		})
	}
}

func describe(name string) string { return "The suite's " + name + "." }
