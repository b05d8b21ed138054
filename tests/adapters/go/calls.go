package main

import (
	tidings "github.com/tidings-mcp/tidings/bindings/go"
)

func (s *stage) begin(given struct {
	As         string
	Config     *raw
	RouteTypes []string
	Open       []string
	Principal  *string
	RequestID  *string
	Tool       *string
	TimeoutMs  int
	TaskTTLMs  int
}) (object, error) {
	or := func(text *string, otherwise string) string {
		if text == nil {
			return otherwise
		}
		return *text
	}
	request := tidings.CallRequest{
		RouteTypes: given.RouteTypes, Open: given.Open, Peer: "calling", Principal: or(given.Principal, "anyone"),
		RequestID: or(given.RequestID, "1"), Tool: or(given.Tool, "tool"), Timeout: ms(given.TimeoutMs),
		TaskTTL: ms(given.TaskTTLMs), TaskBound: true,
	}
	if given.Config != nil {
		request.Config = *given.Config
	}
	call, err := s.hub.BeginCall(s.ctx, request)
	if err != nil {
		return nil, err
	}
	s.calls[given.As] = call
	return object{
		"callId": call.ID(), "acknowledgement": string(call.Acknowledgement()), "accepted": list(call.AcceptedRoutes()),
		"ignored": list(call.IgnoredTriggers()),
	}, nil
}

func (s *stage) fire(given struct{ Call, Name, Payload string }) (object, error) {
	seq, err := s.calls[given.Call].Fire(given.Name, []byte(given.Payload))
	return object{"seq": seq}, err
}

func (s *stage) emit(given struct{ Call, Type, Payload string }) (object, error) {
	seq, err := s.calls[given.Call].Emit(given.Type, []byte(given.Payload))
	return object{"seq": seq}, err
}

func (s *stage) disconnected(given struct{ Call string }) (object, error) {
	return object{}, s.calls[given.Call].Disconnected()
}

func (s *stage) complete(given struct {
	Call   string
	Result raw
}) (object, error) {
	return endedTold(s.calls[given.Call].Complete(s.ctx, given.Result))
}

func (s *stage) fail(given struct {
	Call   string
	Error  *string
	Reason string
}) (object, error) {
	var failure []byte
	if given.Error != nil {
		failure = []byte(*given.Error)
	}
	return endedTold(s.calls[given.Call].Fail(s.ctx, failure, given.Reason))
}

func (s *stage) cancel(given struct{ Call, Reason string }) (object, error) {
	return endedTold(s.calls[given.Call].Cancel(s.ctx, given.Reason))
}

func (s *stage) ended(given struct{ Call string }) (object, error) {
	return endedTold(s.calls[given.Call].Ended(s.ctx))
}

func endedTold(ended *tidings.Ended, err error) (object, error) {
	if err != nil {
		return nil, err
	}
	return object{
		"outcome": ended.Outcome, "reason": nullable(ended.Reason), "ours": ended.Ours, "committed": ended.Committed,
		"undelivered": nullable(string(ended.Undelivered)),
	}, nil
}
