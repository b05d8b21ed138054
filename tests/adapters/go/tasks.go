package main

// asked is what a tool's question came to.
type asked struct {
	answers []byte
	err     error
}

// ask begins to wait for a client's answers, while the scenario goes on.
func (s *stage) ask(given struct {
	As, Call string
	Requests raw
}) (object, error) {
	call, told := s.calls[given.Call], make(chan asked, 1)
	s.asking[given.As] = told
	go func() {
		answers, err := call.Ask(s.ctx, given.Requests)
		told <- asked{answers, err}
	}()
	return object{}, nil
}

func (s *stage) answers(given struct{ Ask string }) (object, error) {
	told := <-s.asking[given.Ask]
	return object{"answers": string(told.answers)}, told.err
}

// by is whose task it is, and who asks for it.
type by struct {
	ID        string
	Principal *string
}

func (b by) principal() string {
	if b.Principal == nil {
		return "anyone"
	}
	return *b.Principal
}

func (s *stage) task(given by) (object, error) {
	task, err := s.hub.Task(s.ctx, given.ID, given.principal())
	if err != nil || task == nil {
		return object{"task": nil}, err
	}
	return object{"task": string(task.JSON)}, nil
}

func (s *stage) answerTask(given struct {
	by
	Responses string
}) (object, error) {
	found, err := s.hub.AnswerTask(s.ctx, given.ID, given.principal(), []byte(given.Responses))
	return object{"found": found}, err
}

func (s *stage) cancelTask(given by) (object, error) {
	found, err := s.hub.CancelTask(s.ctx, given.ID, given.principal())
	return object{"found": found}, err
}
