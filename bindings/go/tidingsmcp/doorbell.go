package tidingsmcp

import (
	"log/slog"
	"slices"
	"sync"

	tidings "github.com/tidings-mcp/tidings/bindings/go"
)

// doorbell finds the process at the other end of stdin when it is asked for first; nil where no route may ring it, or it cannot be
// rung, upon which a line in the log says why.
func (o Options) doorbell() func() *tidings.StdioPeer {
	return sync.OnceValue(func() *tidings.StdioPeer {
		if !o.mayRing() {
			return nil
		}
		found, err := tidings.NewStdioPeer(o.SignalAsRoot)
		if err != nil {
			slog.Warn("tidingsmcp: routes of type signal are not offered", "error", err)
			return nil
		}
		return found
	})
}

func (o Options) mayRing() bool {
	if slices.Contains(o.Routes, signalRoute) {
		return true
	}
	for _, routes := range o.DefaultRoutes {
		if slices.Contains(typesIn(ownConfig(routes)), signalRoute) {
			return true
		}
	}
	return false
}
