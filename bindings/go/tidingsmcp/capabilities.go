package tidingsmcp

import (
	"encoding/json"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// initialized says in a session's capabilities which routes it may use, and takes the session among those that are told.
func (a *attachment) initialized(session *mcp.ServerSession, asked *mcp.ServerRequest[*mcp.InitializeParams], result *mcp.InitializeResult) mcp.Result {
	link := a.follow(session, asked, result)
	if len(a.options.Routes) == 0 {
		return result
	}
	types := a.routeTypes(link)
	result.Capabilities.AddExtension(extension, map[string]any{"supportedRouteTypes": types})
	return &initializeResult{result, types}
}

// discovered says it to clients of 2026-07-28 and later, and that there are tasks: to older ones the extension does not exist.
func (a *attachment) discovered(asked *mcp.ServerRequest[*mcp.DiscoverParams], result *mcp.DiscoverResult) {
	front := frontOf(asked.Extra)
	if len(a.options.Routes) > 0 {
		types := a.routeTypes(a.linkFor(asked.Session, front, true))
		result.Capabilities.AddExtension(extension, map[string]any{"supportedRouteTypes": types})
	}
	if a.options.Tasks != nil && front != nil {
		settings := map[string]any{}
		if a.options.TasksStream {
			settings[eventStreams] = map[string]any{}
		}
		result.Capabilities.AddExtension(tasksExtension, settings)
	}
}

// initializeResult adds the capability under the name that the draft has for it, which the SDK's type has no place for.
type initializeResult struct {
	*mcp.InitializeResult
	types []string
}

func (i *initializeResult) MarshalJSON() ([]byte, error) {
	text, err := json.Marshal(i.InitializeResult)
	if err != nil {
		return nil, err
	}
	var result, capabilities members
	if err := json.Unmarshal(text, &result); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(result["capabilities"], &capabilities); err != nil {
		return nil, err
	}
	capabilities[configKey] = members{"supportedRouteTypes": textsJSON(i.types)}.text()
	result["capabilities"] = capabilities.text()
	return result.text(), nil
}
