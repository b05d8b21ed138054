package tidings_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	tidings "github.com/tidings-mcp/tidings/bindings/go"
)

func TestATaskAsksItsClientAndIsCancelled(t *testing.T) {
	ctx := background(t)
	hub := open(t, file(t))
	call, err := hub.BeginCall(ctx, request(nil))
	if err != nil {
		t.Fatal(err)
	}
	if task, err := hub.Task(ctx, call.ID(), "me"); err != nil || task != nil {
		t.Fatalf("no task yet: %+v, %v", task, err)
	}
	if became, err := call.BecomeTask(ctx, time.Hour, true); err != nil || !became {
		t.Fatal(became, err)
	}
	answered := make(chan string, 1)
	go func() {
		responses, err := call.Ask(ctx, []byte(`{"name":{"method":"elicitation/create","params":{}}}`))
		if err != nil {
			t.Error(err)
		}
		answered <- string(responses)
	}()
	// Who asks is heard by its client's next look.
	task, err := hub.Task(ctx, call.ID(), "me")
	for err == nil && task.Status == "working" {
		time.Sleep(time.Millisecond)
		task, err = hub.Task(ctx, call.ID(), "me")
	}
	if err != nil || task.Status != "input_required" || !json.Valid(task.JSON) {
		t.Fatalf("%+v, %v", task, err)
	}
	if found, err := hub.AnswerTask(ctx, call.ID(), "somebody else", []byte(`{"name":{}}`)); err != nil || found {
		t.Error(found, err)
	}
	if found, err := hub.AnswerTask(ctx, call.ID(), "me", []byte(`{"name":{"action":"accept"}}`)); err != nil || !found {
		t.Error(found, err)
	}
	if responses := <-answered; responses != `{"name":{"action":"accept"}}` {
		t.Errorf("%s", responses)
	}
	if found, err := hub.CancelTask(ctx, call.ID(), "me"); err != nil || !found {
		t.Error(found, err)
	}
	if ended, err := call.Ended(ctx); err != nil || ended.Outcome != tidings.Cancelled {
		t.Errorf("%+v, %v", ended, err)
	}
}

func TestAnOutletTakesItsDeliveries(t *testing.T) {
	ctx := background(t)
	hub := open(t, "memory:")
	offer := tidings.Offer{RouteType: "message", Name: "board", Limit: 2, Timeout: time.Hour}
	outlet, err := hub.Outlet(offer)
	if err != nil {
		t.Fatal(err)
	}
	if offered, err := hub.Offers(offer); err != nil || !offered {
		t.Error(offered, err)
	}
	asks := request([]byte(`{"routes":[{"id":"b","type":"message","endpoint":"board","triggers":["completed"]}]}`))
	asks.RouteTypes, asks.Open = []string{"message"}, []string{"board"}
	if ignored, err := hub.CheckConfig(asks); err != nil || len(ignored) != 0 {
		t.Error(ignored, err)
	}
	call, err := hub.BeginCall(ctx, asks)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := call.Complete(ctx, []byte(`{"content":[]}`)); err != nil {
		t.Fatal(err)
	}
	delivery, err := outlet.Next(ctx)
	if err != nil {
		t.Fatal(err)
	}
	frame, err := delivery.Frame()
	if err != nil || !bytes.Contains(frame, []byte(`"notifications/io.tidings/triggered"`)) || !bytes.Contains(frame, delivery.Body) {
		t.Errorf("%s, %v", frame, err)
	}
	if delivery.CallID != call.ID() || delivery.RouteType != "message" || delivery.Endpoint != "board" || delivery.Attempt != 1 {
		t.Errorf("%+v", delivery)
	}
	if inTime, err := delivery.Confirm(); err != nil || !inTime {
		t.Error(inTime, err)
	}
	if inTime, err := delivery.Refuse(tidings.RefuseFailed); err != nil || inTime {
		t.Errorf("answered twice: %v, %v", inTime, err)
	}
	if err := outlet.Close(); err != nil {
		t.Error(err)
	}
	if _, err := outlet.Next(ctx); !errors.Is(err, io.EOF) {
		t.Errorf("closed: %v", err)
	}
}

func TestAStreamIsExportedAsLines(t *testing.T) {
	ctx := background(t)
	made := stream(t, open(t, "memory:"), "s", "n")
	if _, err := made.AppendAll(ctx, "com.example.x", [][]byte{[]byte(`{"n":1}`), []byte(`{"n":2}`)}); err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for lines, err := range made.Export(ctx, tidings.AfterSeq(0)) {
		if err != nil {
			t.Fatal(err)
		}
		all.Write(lines)
	}
	if text := all.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, `"payload":{"n":2}`) {
		t.Errorf("%q", text)
	}
	for _, err := range made.Export(ctx, tidings.AfterSeq(9)) {
		if !errors.Is(err, tidings.ErrAhead) {
			t.Error(err)
		}
	}
}

func TestEndpointsAttemptsAndNumbers(t *testing.T) {
	ctx := background(t)
	endpoint, port, came := receiver(t)
	hub := open(t, file(t), local(port)...)
	call, err := hub.BeginCall(ctx, request(config(endpoint, "completed")))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := call.Complete(ctx, []byte(`{"content":[]}`)); err != nil {
		t.Fatal(err)
	}
	<-came
	filter := tidings.DeliveryFilter{State: "delivered"}
	delivered, err := hub.Deliveries(ctx, filter)
	for err == nil && len(delivered) == 0 {
		time.Sleep(time.Millisecond)
		delivered, err = hub.Deliveries(ctx, filter)
	}
	if err != nil {
		t.Fatal(err)
	}
	if attempts, err := hub.Attempts(ctx, delivered[0].ID); err != nil || len(attempts) != 1 || attempts[0] != "" {
		t.Errorf("%q, %v", attempts, err)
	}
	endpoints, err := hub.Endpoints(ctx, "me", 10)
	if err != nil || len(endpoints) != 1 || endpoints[0].Proof != "challenge" || endpoints[0].Host == "" {
		t.Fatalf("%+v, %v", endpoints, err)
	}
	if err := hub.SetEndpoint(ctx, endpoints[0].Key, false); err != nil {
		t.Fatal(err)
	}
	if endpoints, err = hub.Endpoints(ctx, "", 10); err != nil || endpoints[0].Disabled != "operator" {
		t.Errorf("%+v, %v", endpoints, err)
	}
	stats, err := hub.Stats()
	for err == nil && stats.Delivered == 0 { // counted once it is on record, which was seen by then
		time.Sleep(time.Millisecond)
		stats, err = hub.Stats()
	}
	if err != nil || stats.Delivered != 1 || stats.Failing || stats.Lost != 0 {
		t.Errorf("%+v, %v", stats, err)
	}
	if text, err := hub.Prometheus(); err != nil || !strings.Contains(text, "tidings_") {
		t.Errorf("%q, %v", text, err)
	}
	document, err := tidings.ReceiverDocument("/hook")
	if err != nil || !json.Valid(document) || !bytes.Contains(document, []byte("/hook")) {
		t.Errorf("%s, %v", document, err)
	}
}
