package tidings

/*
#include <tidings.h>
*/
import "C"

import (
	"context"
	"encoding/json"
	"runtime"
	"time"
)

// A Task is a call that can be asked for by its id (SEP-2663), as it was when it was asked for.
type Task struct {
	// Status is `working`, `input_required`, `completed`, `failed` or `cancelled`.
	Status string
	// JSON is SEP-2663's DetailedTask.
	JSON json.RawMessage
	// Scope and Name are the key of the stream of its events, for `tasks/stream`.
	Scope, Name string
}

// Task is the task of that id, if it is one that the asker, a principal, may ask for; nil if there is none.
func (h *Hub) Task(ctx context.Context, id, asker string) (*Task, error) {
	defer runtime.KeepAlive(h)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	var task *C.tidings_task
	var facts C.tidings_task_facts
	err := attempt(func() C.tidings_result {
		id, idLen := chars(id)
		asker, askerLen := chars(asker)
		result := C.tidings_hub_task(h.hub, id, idLen, asker, askerLen, &task)
		if result == C.TIDINGS_OK && task != nil {
			result = C.tidings_task_get(task, &facts, C.sizeof_tidings_task_facts)
		}
		return result
	})
	defer C.tidings_task_free(task)
	if err != nil || task == nil {
		return nil, err
	}
	return &Task{
		Status: view(facts.status), JSON: json.RawMessage(view(facts.json)), Scope: view(facts.scope), Name: view(facts.name),
	}, nil
}

// CancelTask cancels the task of that id, unless it has ended. False: there is none that the asker may ask for.
func (h *Hub) CancelTask(ctx context.Context, id, asker string) (bool, error) {
	defer runtime.KeepAlive(h)
	number, err := numbered(ctx, func(port *C.tidings_port, token *C.uint64_t, answer **C.tidings_answer) C.tidings_result {
		id, idLen := chars(id)
		asker, askerLen := chars(asker)
		return C.tidings_hub_cancel_task(h.hub, id, idLen, asker, askerLen, port, token, answer)
	})
	return number != 0, err
}

// AnswerTask gives a running task its client's answers (`tasks/update`): the JSON text of an object. False: there is none that the
// asker may ask for.
func (h *Hub) AnswerTask(ctx context.Context, id, asker string, responses []byte) (bool, error) {
	defer runtime.KeepAlive(h)
	number, err := numbered(ctx, func(port *C.tidings_port, token *C.uint64_t, answer **C.tidings_answer) C.tidings_result {
		id, idLen := chars(id)
		asker, askerLen := chars(asker)
		bytes, bytesLen := raw(responses)
		return C.tidings_hub_answer_task(h.hub, id, idLen, asker, askerLen, bytes, bytesLen, port, token, answer)
	})
	return number != 0, err
}

// BecomeTask makes the call a task, for so long after its end. Bound: only its principal may ask for it; else whoever has its
// id. False: the call had ended.
func (c *Call) BecomeTask(ctx context.Context, ttl time.Duration, bound bool) (bool, error) {
	defer runtime.KeepAlive(c)
	number, err := numbered(ctx, func(port *C.tidings_port, token *C.uint64_t, answer **C.tidings_answer) C.tidings_result {
		return C.tidings_call_become_task(c.call, milliseconds(ttl), flag(bound), port, token, answer)
	})
	return number != 0, err
}

// Ask asks the task's client for input, the JSON text of an object by names, and waits for all of it ([Hub.AnswerTask], in any
// process). It returns the JSON text of the responses by the same names.
func (c *Call) Ask(ctx context.Context, requests []byte) ([]byte, error) {
	defer runtime.KeepAlive(c)
	answer, err := perform(ctx, func(port *C.tidings_port, token *C.uint64_t, answer **C.tidings_answer) C.tidings_result {
		bytes, bytesLen := raw(requests)
		return C.tidings_call_ask(c.call, bytes, bytesLen, port, token, answer)
	})
	if err != nil {
		return nil, err
	}
	defer answer.free()
	var text *C.tidings_text
	if err := attempt(func() C.tidings_result { return C.tidings_answer_text(answer.answer, &text) }); err != nil {
		return nil, err
	}
	return []byte(takeText(text)), nil
}

// Detach: the client is gone and the call goes on, for so long at most, if no more than so many calls of those that are counted
// as a principal go on like that. False: there is no room, and the call ends as cancelled, reason `detach_limit`; one whose time is
// over ends with reason `detach_expired`.
func (c *Call) Detach(countedAs string, calls int, most time.Duration) (bool, error) {
	defer runtime.KeepAlive(c)
	var goesOn C.int32_t
	err := attempt(func() C.tidings_result {
		counted, countedLen := chars(countedAs)
		return C.tidings_call_detach(c.call, counted, countedLen, count32(calls), milliseconds(most), &goesOn)
	})
	return goesOn != 0, err
}
