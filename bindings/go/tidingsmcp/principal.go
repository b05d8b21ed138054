package tidingsmcp

import (
	"crypto/rand"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"weak"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// A Principal is somebody whom a server has authenticated.
type Principal struct {
	// Issuer is who issued the token, and Subject whom it speaks of; "" where that is not known.
	Issuer, Subject string
	// ClientID is the client that brought it.
	ClientID string
}

// name is the text that stands for it in a store; byte for byte the same in every language, so that servers can share one.
func (p Principal) name() string {
	orNull := func(text string) string {
		if text == "" {
			return "null"
		}
		return unescaped(text)
	}
	var name strings.Builder
	name.WriteString("auth:")
	for _, character := range "[" + orNull(p.Issuer) + "," + orNull(p.Subject) + "," + unescaped(p.ClientID) + "]" {
		switch {
		case character < 0x80:
			name.WriteRune(character)
		case character < 0x10000:
			fmt.Fprintf(&name, `\u%04x`, character)
		default: // a pair of UTF-16
			character -= 0x10000
			fmt.Fprintf(&name, `\u%04x\u%04x`, 0xd800+character>>10, 0xdc00+character&0x3ff)
		}
	}
	return name.String()
}

// PrincipalOf tells who has sent a request, from what the server's own authentication found; nil is nobody in particular: then the
// session stands for its client.
type PrincipalOf func(token *auth.TokenInfo) *Principal

// authenticated is the PrincipalOf that is used where none is given: the token's user, and, where the verifier has put them into Extra
// under the names of RFC 7662, "iss" and "client_id".
func authenticated(token *auth.TokenInfo) *Principal {
	text := func(key string) string {
		text, _ := token.Extra[key].(string)
		return text
	}
	found := &Principal{Issuer: text("iss"), Subject: token.UserID, ClientID: text("client_id")}
	if found.Subject == "" && found.ClientID == "" {
		return nil // whoever it is, it is not the same as the next one
	}
	return found
}

// of is the name of who is authenticated; nil is nobody.
func (of PrincipalOf) of(token *auth.TokenInfo) *string {
	if token == nil {
		return nil
	}
	if of == nil {
		of = authenticated
	}
	found := of(token)
	if found == nil {
		return nil
	}
	name := found.name()
	return &name
}

// anonymous is where detached calls are counted whose principal lives no longer than one request.
const anonymous = "anonymous"

// asker is who has sent a request.
type asker struct {
	// name is that of its principal in the store.
	name string
	// countedAs is what calls that go on without their request are counted under.
	countedAs string
	// bound: it was authenticated, and is not only whoever holds a session or a connection.
	bound bool
	// stands: a session or an authenticated principal tells it from others.
	stands bool
}

func (a *attachment) asker(session *mcp.ServerSession, extra *mcp.RequestExtra) asker {
	if extra != nil {
		if name := a.options.Principal.of(extra.TokenInfo); name != nil {
			return asker{name: *name, countedAs: *name, bound: true, stands: true}
		}
	}
	if id := session.ID(); id != "" {
		return asker{name: scopeOf(id), countedAs: scopeOf(id), stands: true}
	}
	return asker{name: connectionOf(session), countedAs: anonymous}
}

// connections are the names of connections without a session, for as long as the SDK holds them.
var connections sync.Map

func connectionOf(session *mcp.ServerSession) string {
	key := weak.Make(session)
	name, known := connections.LoadOrStore(key, "connection:"+rand.Text())
	if !known {
		runtime.AddCleanup(session, func(key weak.Pointer[mcp.ServerSession]) { connections.Delete(key) }, key)
	}
	return name.(string)
}
