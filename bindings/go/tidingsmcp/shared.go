package tidingsmcp

import (
	"runtime"
	"sync"
	"weak"

	tidings "github.com/tidings-mcp/tidings/bindings/go"
)

// shared is what all servers on one hub have in common in this process: a program may make a server for each session.
type shared struct {
	running places
	streams streamLimits
	desk    desk
}

// hubs are by weak pointer, for as long as a program holds them.
var hubs sync.Map

func sharedOf(hub *tidings.Hub) *shared {
	key := weak.Make(hub)
	found, known := hubs.LoadOrStore(key, &shared{})
	if !known {
		runtime.AddCleanup(hub, func(key weak.Pointer[tidings.Hub]) { hubs.Delete(key) }, key)
	}
	return found.(*shared)
}
