package tidings_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"testing"
	"time"

	tidings "github.com/tidings-mcp/tidings/bindings/go"
)

const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// receiver verifies and keeps what it is sent.
func receiver(t *testing.T) (endpoint string, port uint16, came <-chan *tidings.Received) {
	t.Helper()
	webhook, err := tidings.NewWebhook(secret)
	if err != nil {
		t.Fatal(err)
	}
	all := make(chan *tidings.Received, 16)
	server := httptest.NewServer(webhook.Handler(func(_ context.Context, received *tidings.Received) error {
		all <- received
		return nil
	}))
	t.Cleanup(server.Close)
	where, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	number, err := strconv.ParseUint(where.Port(), 10, 16)
	if err != nil {
		t.Fatal(err)
	}
	return server.URL + "/hook", uint16(number), all
}

func config(endpoint string, triggers ...string) []byte {
	text, _ := json.Marshal(map[string]any{"routes": []any{map[string]any{
		"id": "r", "type": "webhook", "endpoint": endpoint, "secret": secret, "triggers": triggers,
	}}})
	return text
}

func local(port uint16, more ...tidings.Option) []tidings.Option {
	return append(more, tidings.WithHTTP(), tidings.WithAllowedPort(port), tidings.WithAllowedNetwork("127.0.0.0/8"),
		tidings.WithVerify("always"))
}

func request(config []byte) tidings.CallRequest {
	return tidings.CallRequest{Config: config, Principal: "me", RequestID: "7", Tool: "report"}
}

func TestACompletedCallIsToldAndVerified(t *testing.T) {
	ctx := background(t)
	endpoint, port, came := receiver(t)
	hub := open(t, file(t), local(port)...)
	call, err := hub.BeginCall(ctx, request(config(endpoint, "completed", "com.example/half")))
	if err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(call.AcceptedRoutes()) != "[r]" || call.IgnoredTriggers() != nil || call.ID() == "" {
		t.Errorf("%s", call.Acknowledgement())
	}
	if _, err := call.Progress(tidings.Progress{Progress: 1, Total: 2}); err != nil {
		t.Error(err)
	}
	if _, err := call.Fire("com.example/half", []byte(`{"half":1}`)); err != nil {
		t.Error(err)
	}
	ended, err := call.Complete(ctx, []byte(`{"content":[]}`))
	if err != nil || ended.Outcome != tidings.Completed || !ended.Ours || !ended.Committed || ended.Undelivered != nil {
		t.Fatalf("%+v, %v", ended, err)
	}
	names := map[string]json.RawMessage{}
	for range 2 {
		tiding, err := (<-came).Tiding()
		if err != nil {
			t.Fatal(err)
		}
		names[tiding.Name] = tiding.Data
	}
	if names["tool_call.completed"] == nil || !bytes.Contains(names["tool_call.completed"], []byte(call.ID())) {
		t.Errorf("%s", names)
	}
	again, err := call.Cancel(ctx, "")
	if err != nil || again.Outcome != tidings.Completed || again.Ours {
		t.Errorf("%+v, %v", again, err)
	}
	if _, err := call.Emit("com.example.x", []byte("{}")); !errors.Is(err, tidings.ErrEnded) && !errors.Is(err, tidings.ErrClosed) {
		t.Errorf("an event of a call that has ended: %v", err)
	}
}

func TestAConfigThatIsRefusedSaysWhy(t *testing.T) {
	hub := open(t, "memory:")
	_, err := hub.BeginCall(background(t), request([]byte(`{"routes":[{"id":"r","type":"pigeon","triggers":["completed"]}]}`)))
	var refused *tidings.ConfigError
	if !errors.Is(err, tidings.ErrInvalidConfig) || !errors.As(err, &refused) {
		t.Fatal(err)
	}
	if refused.Total != len(refused.Faults) || refused.Faults[0].Path != "/routes/0/type" || !json.Valid(refused.Data) {
		t.Errorf("%+v", refused)
	}
}

func TestACallIsCancelledByItsPrincipalOnly(t *testing.T) {
	ctx := background(t)
	hub := open(t, file(t))
	call, err := hub.BeginCall(ctx, request(nil))
	if err != nil {
		t.Fatal(err)
	}
	if found, err := hub.CancelCall(ctx, call.ID(), "somebody else"); err != nil || found {
		t.Error(found, err)
	}
	if found, err := hub.CancelCall(ctx, call.ID(), "me"); err != nil || !found {
		t.Error(found, err)
	}
	ended, err := call.Ended(ctx)
	if err != nil || ended.Outcome != tidings.Cancelled || ended.Ours {
		t.Errorf("%+v, %v", ended, err)
	}
	if err := call.Close(); err != nil {
		t.Error(err)
	}
	if err := call.Close(); !errors.Is(err, tidings.ErrClosed) {
		t.Errorf("closed twice: %v", err)
	}
}

func TestADeadLetterIsListedAndSentAgain(t *testing.T) {
	ctx := background(t)
	// 413 is final: nothing is tried again. The network is vouched for, so that no challenge comes first.
	refuses := httptest.NewServer(http.HandlerFunc(func(response http.ResponseWriter, _ *http.Request) {
		response.WriteHeader(http.StatusRequestEntityTooLarge)
	}))
	t.Cleanup(refuses.Close)
	port := uint16(refuses.Listener.Addr().(*net.TCPAddr).Port)
	hub := open(t, file(t), tidings.WithHTTP(), tidings.WithAllowedPort(port), tidings.WithAllowedNetwork("127.0.0.0/8"))
	call, err := hub.BeginCall(ctx, request(config(refuses.URL, "failed")))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := call.Fail(ctx, []byte(`{"code":-32000,"message":"no"}`), ""); err != nil {
		t.Fatal(err)
	}
	dead := waitForDead(t, ctx, hub, 1)[0]
	if dead.CallID != call.ID() || dead.Route != "r" || dead.Trigger != "failed" || dead.Principal != "me" || dead.Attempts != 1 {
		t.Errorf("%+v", dead)
	}
	body, err := hub.DeliveryBody(ctx, dead.ID)
	if err != nil || !bytes.Contains(body, []byte(`"tool_call.failed"`)) {
		t.Errorf("%s, %v", body, err)
	}
	if _, err := hub.DeliveryBody(ctx, "nonsense"); !errors.Is(err, tidings.ErrInvalidArgument) {
		t.Error(err)
	}
	again, err := hub.SendAgain(ctx, dead.ID)
	if err != nil || again == dead.ID {
		t.Fatal(again, err)
	}
	both := waitForDead(t, ctx, hub, 2)
	if both[0].EventID != both[1].EventID {
		t.Errorf("%+v", both)
	}
	if count, err := hub.Purge(ctx, "", tidings.DeliveryFilter{State: "dead"}); err != nil || count != 2 {
		t.Error(count, err)
	}
	if body, err := hub.DeliveryBody(ctx, dead.ID); body != nil || err != nil {
		t.Errorf("forgotten: %s, %v", body, err)
	}
	if err := hub.SetPaused(true); err != nil {
		t.Error(err)
	}
	if done, err := hub.Drain(ctx, time.Minute); err != nil || !done {
		t.Error(done, err)
	}
}

// waitForDead asks until so many are dead: there is nothing to be woken by.
func waitForDead(t *testing.T, ctx context.Context, hub *tidings.Hub, count int) []tidings.Delivery {
	t.Helper()
	for {
		dead, err := hub.Deliveries(ctx, tidings.DeliveryFilter{State: "dead", Principal: "me"})
		if err != nil {
			t.Fatal(err)
		}
		if len(dead) == count {
			return dead
		}
		select {
		case <-ctx.Done():
			t.Fatal(ctx.Err())
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func TestWebhooksAreVerified(t *testing.T) {
	// The example of the Standard Webhooks specification.
	webhook, err := tidings.NewWebhook(secret)
	if err != nil {
		t.Fatal(err)
	}
	body := []byte(`{"test": 2432232314}`)
	at := time.Unix(1614265330, 0)
	signature, err := webhook.Sign("msg_p5jXN8AQM9LWM0D4loKWxJek", at, body)
	if err != nil || signature != "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=" {
		t.Fatal(signature, err)
	}
	header := http.Header{}
	header.Set("Webhook-Id", "msg_p5jXN8AQM9LWM0D4loKWxJek")
	header.Set("Webhook-Timestamp", "1614265330")
	header.Set("Webhook-Signature", signature)
	if err := webhook.VerifyAt(header, body, at, time.Minute); err != nil {
		t.Error(err)
	}
	var refused *tidings.WebhookError
	if err := webhook.VerifyAt(header, append(body, ' '), at, time.Minute); !errors.As(err, &refused) || refused.Code != "mismatch" {
		t.Errorf("another body: %v", err)
	}
	if err := webhook.Verify(header, body); !errors.Is(err, tidings.ErrUnverified) || !errors.As(err, &refused) || refused.Code != "too_old" {
		t.Errorf("years later: %v", err)
	}
}

func TestTheHandlerTakesWhatIsVerifiedOnly(t *testing.T) {
	webhook, err := tidings.NewWebhook(secret)
	if err != nil {
		t.Fatal(err)
	}
	var result error
	handler := webhook.Handler(func(context.Context, *tidings.Received) error { return result })
	post := func(body []byte, sign bool) *httptest.ResponseRecorder {
		request := httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(body))
		if sign {
			now := time.Now()
			signature, err := webhook.Sign("msg_1", now, body)
			if err != nil {
				t.Fatal(err)
			}
			request.Header.Set("Webhook-Id", "msg_1")
			request.Header.Set("Webhook-Timestamp", fmt.Sprint(now.Unix()))
			request.Header.Set("Webhook-Signature", signature)
		}
		response := httptest.NewRecorder()
		handler.ServeHTTP(response, request)
		return response
	}
	if code := post([]byte("{}"), true).Code; code != http.StatusNoContent {
		t.Errorf("taken: %d", code)
	}
	if code := post([]byte("{}"), false).Code; code != http.StatusUnauthorized {
		t.Errorf("unsigned: %d", code)
	}
	if code := post(bytes.Repeat([]byte("x"), tidings.MaxReceived+1), true).Code; code != http.StatusRequestEntityTooLarge {
		t.Errorf("too large: %d", code)
	}
	result = errors.New("full")
	if code := post([]byte("{}"), true).Code; code != http.StatusInternalServerError {
		t.Errorf("not taken: %d", code)
	}
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, "/", nil))
	if recorder.Code != http.StatusMethodNotAllowed {
		t.Errorf("GET: %d", recorder.Code)
	}
}
