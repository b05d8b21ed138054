package main

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// sealKey is this process's own: the SDK leaves sealing to the server.
var sealKey = func() []byte {
	key := make([]byte, 32)
	// It does not fail.
	_, _ = rand.Read(key)
	return key
}()

func seal(round int) string {
	text := strconv.Itoa(round)
	sum := hmac.New(sha256.New, sealKey)
	sum.Write([]byte(text))
	return text + "." + hex.EncodeToString(sum.Sum(nil))
}

// unseal is the round that a client was in; one that has no state is before the first.
func unseal(state string) (int, error) {
	if state == "" {
		return -1, nil
	}
	text, _, _ := strings.Cut(state, ".")
	round, err := strconv.Atoi(text)
	if err != nil || !hmac.Equal([]byte(seal(round)), []byte(state)) {
		return 0, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "requestState is not one of this server"}
	}
	return round, nil
}

// next is what the client has to be asked now, with the state to hand back; nil when it has answered everything. Its answers are added
// to the texts.
func (q questions) next(state string, answers mcp.InputResponseMap, can *mcp.ClientCapabilities, given texts) (mcp.InputRequestMap, string, error) {
	round := 0
	if q.Sealed {
		var err error
		if round, err = unseal(state); err != nil {
			return nil, "", err
		}
	}
	if round >= 0 && round < len(q.Asks) {
		asked, err := q.asked(round, can)
		if err != nil {
			return nil, "", err
		}
		if !answered(asked, answers, given) {
			return asked, q.state(round), nil
		}
	}
	if round+1 >= len(q.Asks) {
		return nil, "", nil
	}
	asked, err := q.asked(round+1, can)
	return asked, q.state(round + 1), err
}

func (q questions) state(round int) string {
	if q.Sealed {
		return seal(round)
	}
	return ""
}

func (q questions) asked(round int, can *mcp.ClientCapabilities) (mcp.InputRequestMap, error) {
	asked, err := fill[mcp.InputRequestMap](q.Asks[round], nil)
	if err != nil {
		return nil, err
	}
	for name, question := range *asked {
		if q.IfDeclared && !declared(question, can) {
			delete(*asked, name)
		}
	}
	return *asked, nil
}

func declared(question mcp.InputRequest, can *mcp.ClientCapabilities) bool {
	if can == nil {
		return false
	}
	switch question.(type) {
	case *mcp.ElicitParams:
		return can.Elicitation != nil
	case *mcp.ListRootsParams:
		return can.RootsV2 != nil
	default:
		return can.Sampling != nil
	}
}

// answered says whether all questions were; a form counts when it was filled in.
func answered(asked mcp.InputRequestMap, answers mcp.InputResponseMap, given texts) bool {
	all := true
	for name, question := range asked {
		answer := answers[name]
		form, isForm := answer.(*mcp.ElicitResult)
		if isForm {
			for field, value := range form.Content {
				given[name+"."+field] = fmt.Sprint(value)
			}
		}
		_, wantsForm := question.(*mcp.ElicitParams)
		all = all && answer != nil && wantsForm == isForm && (!isForm || form.Content != nil)
	}
	return all
}
