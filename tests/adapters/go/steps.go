package main

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
	"unicode/utf8"

	tidings "github.com/tidings-mcp/tidings/bindings/go"
)

func fromHex(text string) ([]byte, error) { return hex.DecodeString(text) }

type step func(given json.RawMessage) (object, error)

// taking makes a step of a function that takes what it is given apart.
func taking[In any](do func(given In) (object, error)) step {
	return func(text json.RawMessage) (object, error) {
		var given In
		if err := json.Unmarshal(text, &given); err != nil {
			return nil, err
		}
		return do(given)
	}
}

// stage is what lives between the steps of a scenario.
type stage struct {
	ctx     context.Context
	hub     *tidings.Hub
	writers map[string]*tidings.Writer
	tails   map[string]*tail
	calls   map[string]*tidings.Call
	outlets map[string]*tidings.Outlet
	asking  map[string]chan asked
	boxes   *boxes
}

// tail is one with what was read of it and not asked for yet.
type tail struct {
	tail  *tidings.Tail
	ahead []any
}

func newStage() *stage {
	s := &stage{ctx: context.Background()}
	s.forget()
	return s
}

func (s *stage) forget() {
	s.hub = nil
	s.writers, s.tails = map[string]*tidings.Writer{}, map[string]*tail{}
	s.calls, s.outlets = map[string]*tidings.Call{}, map[string]*tidings.Outlet{}
	s.asking, s.boxes = map[string]chan asked{}, newBoxes()
}

func (s *stage) steps() map[string]step {
	steps := map[string]step{
		"webhook.sign": taking(webhookSign), "webhook.verify": taking(webhookVerify), "jwe.decrypt": taking(jweDecrypt),
		"config.check": taking(s.configCheck),
		"error.code":   taking(errorCode), "stage.reset": taking(s.reset), "hub.open": taking(s.hubOpen), "hub.close": taking(s.hubClose),
		"hub.stats": taking(s.hubStats), "hub.new_writer": taking(s.newWriter), "hub.resume": taking(s.resume),
		"hub.deliveries": taking(s.deliveries), "hub.outlet": taking(s.outlet), "outlet.next": taking(s.outletNext),
		"stream.append": taking(s.append), "stream.close": taking(s.closeStream), "stream.claim": taking(s.claim),
		"stream.read": taking(s.read), "stream.tail": taking(s.follow), "tail.next": taking(s.tailNext),
		"writer.append": taking(s.writerAppend), "writer.cursor": taking(s.writerCursor), "writer.flush": taking(s.writerFlush),
		"writer.close": taking(s.writerClose), "call.begin": taking(s.begin), "call.fire": taking(s.fire), "call.emit": taking(s.emit),
		"call.disconnected": taking(s.disconnected), "call.complete": taking(s.complete), "call.fail": taking(s.fail),
		"call.cancel": taking(s.cancel), "call.ended": taking(s.ended), "call.ask": taking(s.ask), "ask.answers": taking(s.answers),
		"hub.task": taking(s.task), "hub.answer_task": taking(s.answerTask), "hub.cancel_task": taking(s.cancelTask),
	}
	for name, step := range s.fanOutSteps() {
		steps[name] = step
	}
	return steps
}

// nullable is null for a text that is empty.
func nullable(text string) any {
	if text == "" {
		return nil
	}
	return text
}

// Rules

type hubOptions struct {
	Allow struct {
		Networks, Hosts []string
		HTTP            bool
		Ports           []uint16
	}
	HeaderNames, Redact                  []string
	RequireSecret                        bool
	DefaultSecret, Undeliverable, Verify string
	MaxBodyBytes                         int
	Retention                            *struct {
		MaxEvents, MaxBytes, MaxAgeMs, AfterCloseMs, MaxTotalEvents, MaxTotalBytes *int
	}
}

func (o hubOptions) all() (all []tidings.Option) {
	add := func(given []string, option func(string) tidings.Option) {
		for _, one := range given {
			if one != "" {
				all = append(all, option(one))
			}
		}
	}
	add(o.Allow.Networks, tidings.WithAllowedNetwork)
	add(o.Allow.Hosts, tidings.WithAllowedHost)
	add(o.HeaderNames, tidings.WithHeaderName)
	add(o.Redact, tidings.WithRedaction)
	add([]string{o.DefaultSecret}, tidings.WithDefaultSecret)
	add([]string{o.Undeliverable}, tidings.WithUndeliverable)
	add([]string{o.Verify}, tidings.WithVerify)
	for _, port := range o.Allow.Ports {
		all = append(all, tidings.WithAllowedPort(port))
	}
	if o.Allow.HTTP {
		all = append(all, tidings.WithHTTP())
	}
	if o.RequireSecret {
		all = append(all, tidings.WithRequiredSecret())
	}
	if o.MaxBodyBytes != 0 {
		all = append(all, tidings.WithMaxBody(o.MaxBodyBytes))
	}
	if keep := o.Retention; keep != nil {
		kept(&all, keep.MaxEvents, tidings.WithKeptEvents)
		kept(&all, keep.MaxBytes, tidings.WithKeptBytes)
		kept(&all, keep.MaxAgeMs, func(number int) tidings.Option { return tidings.WithKeptAge(ms(number)) })
		kept(&all, keep.AfterCloseMs, func(number int) tidings.Option { return tidings.WithKeptAfterClose(ms(number)) })
		kept(&all, keep.MaxTotalEvents, tidings.WithKeptInTotal)
		kept(&all, keep.MaxTotalBytes, tidings.WithKeptBytesInTotal)
	}
	return all
}

// kept sets a limit, where there is one.
func kept(all *[]tidings.Option, limit *int, option func(int) tidings.Option) {
	if limit != nil {
		*all = append(*all, option(*limit))
	}
}

func ms(number int) time.Duration { return time.Duration(number) * time.Millisecond }

func webhookSign(given struct {
	Secrets   []string
	ID        string
	Timestamp int64
	Body      raw
}) (object, error) {
	webhook, err := tidings.NewWebhook(given.Secrets...)
	if err != nil {
		return nil, err
	}
	signature, err := webhook.Sign(given.ID, time.Unix(given.Timestamp, 0), given.Body)
	return object{"signature": signature}, err
}

func jweDecrypt(given struct {
	Keys []string
	Body raw
}) (object, error) {
	keys, err := tidings.NewDecryptionKeys(given.Keys...)
	if err != nil {
		return nil, err
	}
	plain, err := keys.Decrypt(given.Body)
	return object{"text": string(plain)}, err
}

func webhookVerify(given struct {
	Secrets   []string
	Headers   [][2]string
	Body      raw
	Now       int64
	Tolerance *int64
}) (object, error) {
	webhook, err := tidings.NewWebhook(given.Secrets...)
	if err != nil {
		return nil, err
	}
	header := http.Header{}
	for _, pair := range given.Headers {
		header[pair[0]] = append(header[pair[0]], pair[1])
	}
	tolerance := tidings.DefaultTolerance
	if given.Tolerance != nil {
		tolerance = time.Duration(*given.Tolerance) * time.Second
	}
	return object{"ok": true}, webhook.VerifyAt(header, given.Body, time.Unix(given.Now, 0), tolerance)
}

func (s *stage) configCheck(given struct {
	hubOptions
	Config     raw
	RouteTypes []string
	Open       []string
}) (object, error) {
	hub, err := tidings.Open(s.ctx, "memory:", given.all()...)
	if err != nil {
		return nil, err
	}
	defer hub.Close()
	call, err := hub.BeginCall(s.ctx, tidings.CallRequest{
		Config: given.Config, RouteTypes: given.RouteTypes, Open: given.Open, Peer: "calling", Principal: "anyone", RequestID: "1",
		Tool: "tool",
	})
	var refused *tidings.ConfigError
	if errors.As(err, &refused) {
		return object{"faults": faultsTold(refused), "total": refused.Total}, nil
	}
	if err != nil {
		return nil, err
	}
	return object{"accepted": list(call.AcceptedRoutes()), "ignored": list(call.IgnoredTriggers())}, nil
}

// list is never null.
func list(given []string) []string { return append([]string{}, given...) }

func errorCode(given struct{ Code tidings.Code }) (object, error) {
	for _, code := range tidings.Codes() {
		if code == given.Code {
			return object{"retryable": code.Retryable()}, nil
		}
	}
	return nil, fmt.Errorf("no error has the code %s", given.Code)
}

// Hubs

func (s *stage) reset(struct{}) (object, error) {
	hub := s.hub
	s.forget()
	if hub != nil {
		if _, err := hub.Shutdown(s.ctx, 10*time.Second); err != nil && !errors.Is(err, tidings.ErrClosed) {
			return nil, err
		}
	}
	return object{}, nil
}

func (s *stage) hubOpen(given struct {
	URL     string
	Options hubOptions
}) (object, error) {
	hub, err := tidings.Open(s.ctx, given.URL, given.Options.all()...)
	s.hub = hub
	return object{}, err
}

func (s *stage) hubClose(struct{}) (object, error) {
	complete, err := s.hub.Shutdown(s.ctx, 10*time.Second)
	return object{"complete": complete}, err
}

func (s *stage) hubStats(struct{}) (object, error) {
	stats, err := s.hub.Stats()
	return object{"events": stats.Events, "lost": stats.Lost, "refused": stats.Refused, "failing": stats.Failing}, err
}

func (s *stage) deliveries(given struct{ Call, State, Principal string }) (object, error) {
	filter := tidings.DeliveryFilter{State: given.State, Principal: given.Principal}
	if given.Call != "" {
		filter.CallID = s.calls[given.Call].ID()
	}
	found, err := s.hub.Deliveries(s.ctx, filter)
	told := []object{}
	for _, one := range found {
		told = append(told, object{
			"route": one.Route, "trigger": one.Trigger, "state": one.State, "attempts": one.Attempts,
			"lastError": nullable(one.LastError), "eventId": one.EventID,
		})
	}
	return object{"deliveries": told}, err
}

func (s *stage) outlet(given struct{ As, Type, Name string }) (object, error) {
	outlet, err := s.hub.Outlet(tidings.Offer{RouteType: given.Type, Name: given.Name})
	s.outlets[given.As] = outlet
	return object{}, err
}

func (s *stage) outletNext(given struct{ Outlet, Answer string }) (object, error) {
	delivery, err := s.outlets[given.Outlet].Next(s.ctx)
	if err != nil {
		return nil, err
	}
	switch given.Answer {
	case "confirm":
		_, err = delivery.Confirm()
	case "refuse":
		_, err = delivery.Refuse(tidings.RefuseUnwanted)
	default:
		_, err = delivery.Refuse(tidings.RefuseFailed)
	}
	return object{
		"route": delivery.Route, "type": delivery.RouteType, "endpoint": nullable(delivery.Endpoint), "trigger": delivery.Trigger,
		"attempt": delivery.Attempt, "eventId": delivery.EventID, "body": string(delivery.Body),
	}, err
}

// Streams

type key struct{ Scope, Name string }

func (s *stage) stream(of key) (*tidings.Stream, error) { return s.hub.Stream(of.Scope, of.Name) }

type place struct {
	Cursor *string
	After  *uint64
}

func (p place) place() tidings.Place {
	switch {
	case p.Cursor != nil:
		return tidings.AfterCursor(*p.Cursor)
	case p.After != nil:
		return tidings.AfterSeq(*p.After)
	default:
		return tidings.Earliest
	}
}

func (s *stage) append(given struct {
	key
	Payloads []string
	Type     *string
	Close    bool
	Key      *string
}) (object, error) {
	stream, err := s.stream(given.key)
	if err != nil {
		return nil, err
	}
	var options []tidings.AppendOption
	if given.Close {
		options = append(options, tidings.AndClose())
	}
	if given.Key != nil {
		options = append(options, tidings.WithKey(*given.Key))
	}
	payloads := make([][]byte, len(given.Payloads))
	for at, payload := range given.Payloads {
		payloads[at] = []byte(payload)
	}
	first, err := stream.AppendAll(s.ctx, kind(given.Type), payloads, options...)
	return object{"first": first}, err
}

func kind(given *string) string {
	if given == nil {
		return "message"
	}
	return *given
}

func (s *stage) closeStream(given key) (object, error) {
	stream, err := s.stream(given)
	if err != nil {
		return nil, err
	}
	return object{}, stream.Close(s.ctx)
}

func (s *stage) claim(given struct {
	key
	As string
}) (object, error) {
	stream, err := s.stream(given.key)
	if err != nil {
		return nil, err
	}
	s.writers[given.As], err = stream.Claim(s.ctx)
	return object{}, err
}

func (s *stage) read(given struct {
	key
	place
}) (object, error) {
	stream, err := s.stream(given.key)
	if err != nil {
		return nil, err
	}
	page, err := stream.Read(s.ctx, given.place.place(), 256)
	if err != nil {
		return nil, err
	}
	events := []any{}
	for _, event := range page.Events {
		events = append(events, eventTold(event))
	}
	return object{"events": events, "gap": gapTold(page.Gap), "cursor": page.Cursor, "headSeq": page.Head, "ended": page.Ended}, nil
}

func eventTold(event tidings.Event) []any {
	var payload any = string(event.Payload)
	if !utf8.Valid(event.Payload) {
		payload = object{"hex": hex.EncodeToString(event.Payload)}
	}
	return []any{event.Seq, event.Type, payload}
}

func gapTold(gap *tidings.Gap) any {
	if gap == nil {
		return nil
	}
	return object{"reason": gap.Reason, "earliestSeq": gap.Earliest, "headSeq": gap.Head}
}

func (s *stage) follow(given struct {
	key
	place
	As string
}) (object, error) {
	stream, err := s.stream(given.key)
	if err != nil {
		return nil, err
	}
	found, err := stream.Follow(s.ctx, given.place.place())
	s.tails[given.As] = &tail{tail: found}
	return object{}, err
}

func (s *stage) resume(given struct{ Scope, Cursor, As string }) (object, error) {
	found, err := s.hub.Resume(s.ctx, given.Scope, given.Cursor)
	s.tails[given.As] = &tail{tail: found}
	return object{}, err
}

func (s *stage) tailNext(given struct {
	Tail  string
	Count int
}) (object, error) {
	tail, ended := s.tails[given.Tail], false
	for len(tail.ahead) < given.Count && !ended {
		page, err := tail.tail.Next(s.ctx)
		if errors.Is(err, io.EOF) {
			ended = true
			break
		}
		if err != nil {
			return nil, err
		}
		if page.Gap != nil {
			tail.ahead = append(tail.ahead, object{"gap": gapTold(page.Gap)})
		}
		for _, event := range page.Events {
			tail.ahead = append(tail.ahead, eventTold(event))
		}
	}
	items := tail.ahead[:min(given.Count, len(tail.ahead))]
	tail.ahead = tail.ahead[len(items):]
	return object{"items": append([]any{}, items...), "ended": ended}, nil
}

// Writers

func (s *stage) newWriter(given struct{ Scope, Name, As string }) (object, error) {
	writer, err := s.hub.NewWriter(given.Scope, given.Name)
	s.writers[given.As] = writer
	return object{}, err
}

func (s *stage) writerAppend(given struct {
	Writer  string
	Payload string
	Type    *string
}) (object, error) {
	writer := s.writers[given.Writer]
	seq, err := writer.Append(kind(given.Type), []byte(given.Payload))
	if err != nil {
		return nil, err
	}
	cursor, err := writer.Cursor(seq)
	return object{"cursor": cursor}, err
}

func (s *stage) writerCursor(given struct{ Writer string }) (object, error) {
	cursor, err := s.writers[given.Writer].LastCursor()
	return object{"cursor": cursor}, err
}

func (s *stage) writerFlush(given struct{ Writer, Durability string }) (object, error) {
	durability := tidings.Process
	if given.Durability == "disk" {
		durability = tidings.Disk
	}
	return object{}, s.writers[given.Writer].Flush(s.ctx, durability)
}

func (s *stage) writerClose(given struct{ Writer string }) (object, error) {
	return object{}, s.writers[given.Writer].Close()
}
