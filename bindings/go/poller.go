package tidings

/*
#include <tidings.h>

#cgo noescape tidings_port_drain
#cgo nocallback tidings_port_drain
*/
import "C"

import (
	"context"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"
)

// One port and one goroutine for the whole process: the goroutine is parked in Go's poller, on the port's descriptor, and
// tells whoever waits.
var waiting = sync.OnceValues(newPoller)

type poller struct {
	port *C.tidings_port

	mu sync.Mutex
	// Guarded by mu, under which ports are also drained and operations cancelled: what was cancelled is never told.
	waiters map[C.uint64_t]chan outcome
	// Operations that were done before their waiter was here.
	early map[C.uint64_t]outcome
}

// outcome is what an operation came to.
type outcome struct {
	answer *answer
	err    error
}

func newPoller() (*poller, error) {
	if major := C.tidings_abi_version() / 1000; major != abiMajor {
		return nil, fmt.Errorf("tidings: the library that was loaded has version %d of the ABI, this package needs %d", major, abiMajor)
	}
	p := &poller{waiters: map[C.uint64_t]chan outcome{}, early: map[C.uint64_t]outcome{}}
	var descriptor C.int32_t
	err := attempt(func() C.tidings_result {
		if result := C.tidings_port_new(&p.port); result != C.TIDINGS_OK {
			return result
		}
		return C.tidings_port_descriptor(p.port, &descriptor)
	})
	if err != nil {
		return nil, err
	}
	// A copy, for the descriptor is the port's and a file of Go's closes what it has.
	syscall.ForkLock.RLock()
	copied, err := syscall.Dup(int(descriptor))
	if err == nil {
		syscall.CloseOnExec(copied)
		err = syscall.SetNonblock(copied, true)
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, fmt.Errorf("tidings: the descriptor of a port: %w", err)
	}
	go p.run(os.NewFile(uintptr(copied), "tidings-port"))
	return p, nil
}

func (p *poller) run(file *os.File) {
	if connection, err := file.SyscallConn(); err == nil {
		// Drains, and waits for the descriptor as long as there is nothing more: returns only where it cannot be waited for.
		_ = connection.Read(func(uintptr) bool {
			p.drain()
			return false
		})
	}
	// A system whose poller does not take such descriptors: then one thread waits.
	for {
		var ready C.int32_t
		if C.tidings_port_wait(p.port, 60_000, &ready) != C.TIDINGS_OK {
			time.Sleep(time.Second)
		}
		p.drain()
	}
}

func (p *poller) drain() {
	var tokens [64]C.uint64_t
	for {
		p.mu.Lock()
		var count C.size_t
		if C.tidings_port_drain(p.port, &tokens[0], C.size_t(len(tokens)), &count) != C.TIDINGS_OK {
			count = 0
		}
		for _, token := range tokens[:count] {
			p.tell(token)
		}
		p.mu.Unlock()
		if count == 0 {
			return
		}
	}
}

// tell gives an operation's outcome to who waits for it. With mu.
func (p *poller) tell(token C.uint64_t) {
	var came outcome
	var taken *C.tidings_answer
	if came.err = attempt(func() C.tidings_result { return C.tidings_port_take(p.port, token, &taken) }); came.err == nil {
		came.answer = &answer{taken}
	}
	if waiter, found := p.waiters[token]; found {
		delete(p.waiters, token)
		waiter <- came
	} else {
		p.early[token] = came
	}
}

// operation begins something that may have to wait.
type operation func(port *C.tidings_port, token *C.uint64_t, answer **C.tidings_answer) C.tidings_result

// perform runs an operation to its end, or until the context's. The answer has to be freed.
func perform(ctx context.Context, begin operation) (*answer, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	p, err := waiting()
	if err != nil {
		return nil, err
	}
	var token C.uint64_t
	var done *C.tidings_answer
	if err := attempt(func() C.tidings_result { return begin(p.port, &token, &done) }); err != nil {
		return nil, err
	}
	if done != nil {
		return &answer{done}, nil
	}
	came := p.await(ctx, token)
	return came.answer, came.err
}

func (p *poller) await(ctx context.Context, token C.uint64_t) outcome {
	p.mu.Lock()
	if came, found := p.early[token]; found {
		delete(p.early, token)
		p.mu.Unlock()
		return came
	}
	told := make(chan outcome, 1)
	p.waiters[token] = told
	p.mu.Unlock()

	select {
	case came := <-told:
		return came
	case <-ctx.Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, waits := p.waiters[token]; !waits {
		return <-told // what was told is not thrown away
	}
	delete(p.waiters, token)
	C.tidings_port_cancel(p.port, token)
	return outcome{err: ctx.Err()}
}

// answer is what an operation came to; to be freed.
type answer struct{ answer *C.tidings_answer }

func (a *answer) free() { C.tidings_answer_free(a.answer) }

func (a *answer) number() (uint64, error) {
	var number C.uint64_t
	err := attempt(func() C.tidings_result { return C.tidings_answer_number(a.answer, &number) })
	return uint64(number), err
}

// numbered performs an operation whose answer is a number.
func numbered(ctx context.Context, begin operation) (uint64, error) {
	answer, err := perform(ctx, begin)
	if err != nil {
		return 0, err
	}
	defer answer.free()
	return answer.number()
}

// done performs an operation that has nothing to tell.
func done(ctx context.Context, begin operation) error {
	answer, err := perform(ctx, begin)
	if err == nil {
		answer.free()
	}
	return err
}
