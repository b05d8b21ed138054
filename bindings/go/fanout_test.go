package tidings_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	tidings "github.com/tidings-mcp/tidings/bindings/go"
)

const lists = `{"tools":{"listChanged":true},"resources":{"subscribe":true,"listChanged":true}}`

func profile(t *testing.T, version string) *tidings.Profile {
	t.Helper()
	profile, err := tidings.NewProfile(version, []byte(lists), []byte("{}"))
	if err != nil {
		t.Fatal(err)
	}
	return profile
}

// taken waits until so many notices were handed out.
func taken(t *testing.T, ctx context.Context, outbox *tidings.Outbox, count int) (found []tidings.Notice) {
	t.Helper()
	for len(found) < count {
		if err := outbox.Ready(ctx); err != nil {
			t.Fatal(err)
		}
		notices, err := outbox.Take(100)
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, notices...)
	}
	return found
}

func TestPeersOfBothErasAreToldOnce(t *testing.T) {
	ctx := background(t)
	hub := open(t, "memory:")
	outbox, err := hub.Outbox()
	if err != nil {
		t.Fatal(err)
	}
	legacy, err := outbox.Join("ann", 0)
	if err != nil {
		t.Fatal(err)
	}
	attending, err := legacy.Attend(profile(t, "2025-11-25"))
	if err != nil {
		t.Fatal(err)
	}
	if err := attending.Open(); err != nil {
		t.Fatal(err)
	}
	if err := attending.Subscribe("file:///a"); err != nil {
		t.Fatal(err)
	}
	modern, err := outbox.Join("bob", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	listening, err := modern.Listen(profile(t, "2026-07-28"), `"sub"`, []byte(`{"toolsListChanged":true}`))
	if err != nil {
		t.Fatal(err)
	}
	acknowledged := taken(t, ctx, outbox, 1)[0]
	if acknowledged.Method != "notifications/subscriptions/acknowledged" || acknowledged.Peer != modern.Number() ||
		acknowledged.Listener != listening.Number() {
		t.Fatalf("%+v", acknowledged)
	}
	if inTime, err := modern.Written(1); err != nil || !inTime {
		t.Fatal(inTime, err)
	}
	if count, err := outbox.Listeners(); err != nil || count != 2 {
		t.Error(count, err)
	}

	if told, err := hub.Notify(tidings.Change{Kinds: []string{"tools"}}); err != nil || told != (tidings.Fanout{Told: 2}) {
		t.Errorf("%+v, %v", told, err)
	}
	for _, notice := range taken(t, ctx, outbox, 2) {
		if notice.Method != "notifications/tools/list_changed" {
			t.Errorf("%+v", notice)
		}
		if notice.Peer == modern.Number() && !strings.Contains(string(notice.Params), `"sub"`) {
			t.Errorf("%s", notice.Params)
		}
	}
	for _, peer := range []*tidings.Peer{legacy, modern} {
		if inTime, err := peer.Written(1); err != nil || !inTime {
			t.Error(inTime, err)
		}
	}

	told, err := hub.Notify(tidings.Change{Kinds: []string{"resource"}, URI: "file:///a", Audience: "ann"})
	if err != nil || told != (tidings.Fanout{Told: 1}) && told != (tidings.Fanout{Told: 1, Skipped: 1}) {
		t.Errorf("%+v, %v", told, err)
	}
	if notice := taken(t, ctx, outbox, 1)[0]; notice.Peer != legacy.Number() || !strings.Contains(string(notice.Params), "file:///a") {
		t.Errorf("%+v", notice)
	}
	if listeners, err := legacy.Broke(); err != nil || listeners != 1 {
		t.Error(listeners, err)
	}
	failed, err := hub.FailedPeers()
	if err != nil || len(failed) != 1 || failed[0] != (tidings.FailedPeer{Outbox: outbox.Number(), Peer: legacy.Number()}) {
		t.Errorf("%+v, %v", failed, err)
	}
	if ended, err := listening.Cancel(); err != nil || !ended {
		t.Error(ended, err)
	}
	if _, err := hub.Notify(tidings.Change{Kinds: []string{"weather"}}); !errors.Is(err, tidings.ErrInvalidArgument) {
		t.Errorf("a kind that there is not: %v", err)
	}
}
