// Package tidings makes an MCP server keep its word to a client that has gone away: durable, resumable streams, watched tool
// calls, and signed webhooks, by the same core as the Python, Node.js and C packages.
//
// It is a thin layer over the C library (tidings.h, libtidings), which has to be installed: `make install PREFIX=/usr/local`
// from a clone. Where it is not in the compiler's own folders, pkg-config knows:
//
//	export CGO_CFLAGS="$(pkg-config --cflags tidings)" CGO_LDFLAGS="$(pkg-config --libs tidings)"
//
// # Waiting
//
// Functions that take a context and wait for the store do so in Go's own poller: however many goroutines wait, one of them
// watches a descriptor, and no thread is held. Reads and the opening of a hub run in the calling thread, as any system call
// does. A context that ends stops the waiting; what others rely on (a commit, an outcome) goes on to its end.
//
// # Lifetime
//
// Objects let go of what they hold when they are collected, so that nothing has to be closed for the memory's sake. Close a
// hub, or what it was given last may not be kept. Every object may be used by several goroutines at once; one at a time
// waits for a [Tail].
//
// # Processes
//
// os/exec is safe: a child that Go starts runs no line of this library before it is another program, and no descriptor of ours
// is open in it. Go knows no fork without exec.
package tidings

/*
#cgo LDFLAGS: -ltidings
#include <tidings.h>
*/
import "C"

// Everything here was written for this version of the ABI; later ones of the same thousand only add.
const abiMajor = C.TIDINGS_ABI_VERSION / 1000
