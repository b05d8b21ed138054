package tidingsmcp

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	tidings "github.com/tidings-mcp/tidings/bindings/go"
)

// The requests about tasks: `tasks/get`, `tasks/update`, `tasks/cancel` (SEP-2663), and `tasks/stream` (SEP-2694).
const (
	tasksGet    = "tasks/get"
	tasksUpdate = "tasks/update"
	tasksCancel = "tasks/cancel"
	tasksStream = "tasks/stream"
)

// noTask is what a failed look-up is answered with.
const noTask = "The task could not be looked up"

// taskRequest is a request about one task.
type taskRequest struct {
	custom
	id    string
	asker asker
}

func (a *attachment) serveTasks(server *mcp.Server) error {
	if a.options.Tasks == nil {
		return nil
	}
	methods := map[string]func(context.Context, taskRequest) (*textResult, error){
		tasksGet: a.getTask, tasksUpdate: a.updateTask, tasksCancel: a.cancelTask,
	}
	if a.options.TasksStream {
		methods[tasksStream] = a.streamTask
	}
	for method, serve := range methods {
		err := serveCustom(server, method, func(ctx context.Context, asked custom) (*textResult, error) {
			request, err := a.taskRequest(method, asked)
			if err != nil {
				return nil, err
			}
			return serve(ctx, request)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// taskRequest checks what is the same for all of them.
func (a *attachment) taskRequest(method string, asked custom) (taskRequest, error) {
	modern := asked.modern()
	switch {
	case !modern && method != tasksStream:
		// To older clients the extension does not exist.
		return taskRequest{}, wireError(jsonrpc.CodeMethodNotFound, "Method not found", nil)
	case modern && !declaresTasks(asked.params.Meta):
		return taskRequest{}, undeclared()
	}
	id, is := textOf(asked.params.TaskID)
	if !is {
		return taskRequest{}, invalidParams("taskId must be a string", nil)
	}
	if modern && asked.extra != nil {
		if header := asked.extra.Header.Values("Mcp-Name"); len(header) > 0 && decoded(header[0]) != id {
			return taskRequest{}, wireError(mcp.CodeHeaderMismatch, "The Mcp-Name header does not match the request body's taskId", nil)
		}
	}
	return taskRequest{asked, id, a.asker(asked.session, asked.extra)}, nil
}

// decoded is a header's value, which may be in Base64 (SEP-2243).
func decoded(value string) string {
	value = strings.TrimSpace(value)
	inside, found := strings.CutPrefix(value, "=?base64?")
	inside, ended := strings.CutSuffix(inside, "?=")
	if !found || !ended {
		return value
	}
	text, err := base64.StdEncoding.DecodeString(inside)
	if err != nil {
		return value
	}
	return string(text)
}

// find is the task, if there is one that the asker may ask for.
func (a *attachment) find(ctx context.Context, asked taskRequest) (*tidings.Task, error) {
	task, err := a.hub.Task(ctx, asked.id, asked.asker.name)
	if err != nil {
		return nil, failed(noTask, err)
	}
	if task == nil {
		return nil, unknownTask()
	}
	return task, nil
}

func (a *attachment) getTask(ctx context.Context, asked taskRequest) (*textResult, error) {
	task, err := a.find(ctx, asked)
	if err != nil {
		return nil, err
	}
	shown, err := a.options.Tasks.shown(task)
	if err != nil {
		return nil, internal(noTask, nil)
	}
	shown["resultType"] = json.RawMessage(`"complete"`)
	return &textResult{members: shown}, nil
}

func (a *attachment) updateTask(ctx context.Context, asked taskRequest) (*textResult, error) {
	responses := bytes.TrimSpace(asked.params.InputResponses)
	if len(responses) == 0 || responses[0] != '{' {
		return nil, invalidParams("inputResponses must be an object", nil)
	}
	found, err := a.hub.AnswerTask(ctx, asked.id, asked.asker.name, responses)
	switch {
	case errors.Is(err, tidings.ErrClosed), errors.Is(err, tidings.ErrEnded):
		// It has ended meanwhile.
	case err != nil:
		return nil, failed(noTask, err)
	case !found:
		return nil, unknownTask()
	}
	return emptyResult(true), nil
}

func (a *attachment) cancelTask(ctx context.Context, asked taskRequest) (*textResult, error) {
	found, err := a.hub.CancelTask(ctx, asked.id, asked.asker.name)
	if err != nil {
		return nil, failed(noTask, err)
	}
	if !found {
		return nil, unknownTask()
	}
	return emptyResult(true), nil
}
