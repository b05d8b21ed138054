package tidings

/*
#include <tidings.h>
*/
import "C"

import (
	"math"
	"runtime"
	"unsafe"
)

// What crosses is used during the call only, so that Go's memory is handed over as it is. Pointers within it are pinned.

func chars(text string) (*C.char, C.size_t) {
	return (*C.char)(unsafe.Pointer(unsafe.StringData(text))), C.size_t(len(text))
}

// optional is NULL for an empty text.
func optional(text string) (*C.char, C.size_t) {
	if text == "" {
		return nil, 0
	}
	return chars(text)
}

func raw(bytes []byte) (*C.uint8_t, C.size_t) {
	return (*C.uint8_t)(unsafe.Pointer(unsafe.SliceData(bytes))), C.size_t(len(bytes))
}

// given keeps what a call was handed where it is, until release.
type given struct{ pinner runtime.Pinner }

func (g *given) release() { g.pinner.Unpin() }

func (g *given) several(list [][]byte) (*C.tidings_bytes, C.size_t) {
	if len(list) == 0 {
		return nil, 0
	}
	found := make([]C.tidings_bytes, len(list))
	for at, bytes := range list {
		if len(bytes) > 0 {
			g.pinner.Pin(unsafe.SliceData(bytes))
			found[at].data, found[at].len = raw(bytes)
		}
	}
	return unsafe.SliceData(found), C.size_t(len(found))
}

func (g *given) pairs(list [][2]string) (*C.tidings_pair, C.size_t) {
	if len(list) == 0 {
		return nil, 0
	}
	found := make([]C.tidings_pair, len(list))
	for at, pair := range list {
		found[at].name, found[at].name_len = g.text(pair[0])
		found[at].value, found[at].value_len = g.text(pair[1])
	}
	return unsafe.SliceData(found), C.size_t(len(found))
}

func (g *given) text(text string) (*C.char, C.size_t) {
	if text == "" {
		return nil, 0
	}
	g.pinner.Pin(unsafe.StringData(text))
	return chars(text)
}

// count32 is as much of a number as crosses: a limit beyond it is none, and a negative one is 0, which the library judges.
func count32(number int) C.uint32_t {
	return C.uint32_t(min(max(number, 0), math.MaxUint32))
}

func flag(value bool) C.int32_t {
	if value {
		return 1
	}
	return 0
}

// takeText copies a text and frees it; "" for NULL.
func takeText(text *C.tidings_text) string {
	found, _ := takeOptional(text)
	return found
}

// takeOptional tells NULL from the empty text.
func takeOptional(text *C.tidings_text) (string, bool) {
	if text == nil {
		return "", false
	}
	defer C.tidings_text_free(text)
	var data *C.char
	var length C.size_t
	if C.tidings_text_get(text, &data, &length) != C.TIDINGS_OK {
		return "", false
	}
	return C.GoStringN(data, C.int(length)), true
}

// view copies a text that belongs to an object of the library.
func view(bytes C.tidings_bytes) string {
	return C.GoStringN((*C.char)(unsafe.Pointer(bytes.data)), C.int(bytes.len))
}

// present is a text that is there, even if it is empty.
func (g *given) present(text string) (*C.char, C.size_t) {
	if text == "" {
		nothing := new(C.char)
		g.pinner.Pin(nothing)
		return nothing, 0
	}
	return g.text(text)
}
