package tidingsmcp

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// JSON texts of our own. What they are made of always has a text, so that nothing here fails.

// members are those of an object, by their names, each as JSON text.
type members map[string]json.RawMessage

// text is the object, with its members in the order of their names. What they say stays as it is.
func (m members) text() json.RawMessage {
	var text bytes.Buffer
	text.WriteByte('{')
	for at, name := range slices.Sorted(maps.Keys(m)) {
		if at > 0 {
			text.WriteByte(',')
		}
		text.Write(textJSON(name))
		text.WriteByte(':')
		text.Write(orNull(m[name]))
	}
	text.WriteByte('}')
	return text.Bytes()
}

// listJSON is a list of JSON texts, which stay as they are.
func listJSON(list []json.RawMessage) json.RawMessage {
	var text bytes.Buffer
	text.WriteByte('[')
	for at, one := range list {
		if at > 0 {
			text.WriteByte(',')
		}
		text.Write(orNull(one))
	}
	text.WriteByte(']')
	return text.Bytes()
}

func textsJSON(list []string) json.RawMessage {
	texts := make([]json.RawMessage, len(list))
	for at, one := range list {
		texts[at] = textJSON(one)
	}
	return listJSON(texts)
}

// orNull: a member without a text was never read, or is null.
func orNull(text json.RawMessage) json.RawMessage {
	if text == nil {
		return json.RawMessage("null")
	}
	return text
}

// textJSON is a text as JSON, with <, > and & escaped, as the SDK writes them.
func textJSON(text string) json.RawMessage {
	written, _ := json.Marshal(text) // of a string there is always one
	return written
}

// optionalJSON is null for nil.
func optionalJSON(text *string) json.RawMessage {
	if text == nil {
		return nil
	}
	return textJSON(*text)
}

// unescaped is the same with <, > and & as they are.
func unescaped(text string) string {
	var written strings.Builder
	encoder := json.NewEncoder(&written)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(text) // of a string there is always one, and a Builder takes it
	return strings.TrimSuffix(written.String(), "\n")
}

func numberJSON[Number int | int64 | uint64](number Number) json.RawMessage {
	if number < 0 {
		return strconv.AppendInt(nil, int64(number), 10)
	}
	return strconv.AppendUint(nil, uint64(number), 10)
}

func boolJSON(is bool) json.RawMessage { return strconv.AppendBool(nil, is) }
