// Package callbacks runs what a server asks of its client: each question in a
// goroutine of its own, in bounded number, until it is answered, taken back, or
// the server is gone.
package callbacks

import (
	"context"
	"errors"
	"sync"
	"time"

	"dsh/sdkproto/client/internal/program"
)

// Most is how many questions are answered at one time.
const Most = 256

// errWithdrawn is the cause when the server does not wait any longer.
var errWithdrawn = errors.New("the server has taken the question back")

// Group is the questions of one server. Its methods may be called from many
// goroutines.
type Group struct {
	life context.Context
	end  context.CancelCauseFunc

	mu      sync.Mutex
	running map[*question]bool
	ended   bool
	// done is closed when ended is set and nothing runs.
	done chan struct{}
}

// question is one that somebody is busy with.
type question struct {
	// id is what the server takes it back by.
	id     string
	cancel context.CancelCauseFunc
}

// New makes a Group that runs until Stop.
func New() *Group {
	g := &Group{running: map[*question]bool{}, done: make(chan struct{})}
	g.life, g.end = context.WithCancelCause(context.Background())
	return g
}

// Go runs answer, whose context ends when nobody waits for it any more. false
// means that it does not run: too many do, or the group has ended.
func (g *Group) Go(id string, answer func(ctx context.Context)) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ended || len(g.running) >= Most {
		return false
	}
	ctx, cancel := context.WithCancelCause(g.life)
	q := &question{id, cancel}
	g.running[q] = true
	go func() {
		defer g.over(q)
		answer(ctx)
	}()
	return true
}

func (g *Group) over(q *question) {
	q.cancel(nil)
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.running, q)
	if g.ended && len(g.running) == 0 {
		close(g.done)
	}
}

// Withdraw ends what is busy with a question.
func (g *Group) Withdraw(id string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for q := range g.running {
		if q.id == id {
			q.cancel(errWithdrawn)
		}
	}
}

// Stop ends all questions with a cause; no more are taken.
func (g *Group) Stop(cause error) {
	g.end(cause)
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ended {
		return
	}
	g.ended = true
	if len(g.running) == 0 {
		close(g.done)
	}
}

// Wait reports whether nothing runs any more, soon enough after Stop.
func (g *Group) Wait(limit time.Duration) bool {
	return program.Wait(context.Background(), g.done, limit)
}
