package tidingsmcp

import (
	"encoding/json"
	"slices"
)

// routeTypes are the types of routes that a session may use; nil is a request that no connection outlives.
func (a *attachment) routeTypes(link *link) []string {
	byName := len(a.options.Open) > 0 || a.options.Policy != nil
	types := []string{}
	for _, kind := range a.options.Routes {
		switch kind {
		case messageRoute:
			if !byName && link == nil {
				continue
			}
		case callbackRoute:
			if !byName {
				continue
			}
		case signalRoute:
			if !link.rings() {
				continue
			}
		}
		types = append(types, kind)
	}
	return types
}

// ownRoutes is the server's own config for a call without one, as far as its routes lead anywhere from this session; nil is none.
func (a *attachment) ownRoutes(tool string, link *link) []byte {
	routes, named := a.options.DefaultRoutes[tool]
	if !named {
		routes = a.options.DefaultRoutes[""]
	}
	var list []json.RawMessage
	if len(routes) == 0 || json.Unmarshal(routes, &list) != nil {
		return nil
	}
	list = slices.DeleteFunc(list, func(text json.RawMessage) bool {
		route := routeIn(text)
		return route.Type == messageRoute && route.Endpoint == nil && link == nil || route.Type == signalRoute && !link.rings()
	})
	if len(list) == 0 {
		return nil
	}
	return ownConfig(listJSON(list))
}

// ownConfig is a config of the server's own routes.
func ownConfig(routes json.RawMessage) []byte {
	return slices.Concat([]byte(`{"routes":`), routes, []byte(`}`))
}

type route struct {
	Type     string  `json:"type"`
	Endpoint *string `json:"endpoint"`
}

func routeIn(text json.RawMessage) (found route) {
	_ = json.Unmarshal(text, &found) // what is no route the library refuses
	return found
}

// routesIn are the routes of a config, as far as it has any.
func routesIn(config []byte) (found []route) {
	var given struct {
		Routes []json.RawMessage `json:"routes"`
	}
	_ = json.Unmarshal(config, &given)
	for _, text := range given.Routes {
		found = append(found, routeIn(text))
	}
	return found
}

// typesIn and namesIn are what a config of the server's own, which nobody has to allow, leads to.
func typesIn(config []byte) (types []string) {
	for _, route := range routesIn(config) {
		if !slices.Contains(types, route.Type) {
			types = append(types, route.Type)
		}
	}
	return types
}

func namesIn(config []byte) (names []string) {
	for _, route := range routesIn(config) {
		if route.Type != webhookRoute && route.Endpoint != nil {
			names = append(names, *route.Endpoint)
		}
	}
	return names
}

// toSession tells whether a config has routes that lead into the calling session.
func toSession(config []byte) bool {
	return slices.ContainsFunc(routesIn(config), func(route route) bool {
		return route.Type == signalRoute || route.Type == messageRoute && route.Endpoint == nil
	})
}
