package approval

import (
	"context"
	"fmt"
	"sync"

	"dsh/kernel"
)

// Approve puts a question to the approver that serves the session and, at the
// same time, to every arbiter that does (spec stream-json 6.5 rule 3). The first
// that settles it wins; the contexts of the others end, and Approve returns when
// they have. With nobody who serves, and without an opinion of those who do, the
// outcome is Unavailable.
//
// An approver that fails or cannot answer has settled nothing yet: arbiters that
// are still at it may. Only when none of them does is its error, or its answer,
// the outcome. What goes wrong with an arbiter is no opinion.
func (d *Desk) Approve(ctx context.Context, r Request) (Answer, error) {
	return d.ApproveBy(ctx, d.For(r.SessionID), r)
}

// ApproveBy is Approve with another approver in the place of the one that serves
// the session; nil is none.
func (d *Desk) ApproveBy(ctx context.Context, approver Approver, r Request) (Answer, error) {
	arbiters := d.beside(r.SessionID)
	switch {
	case approver == nil && len(arbiters) == 0:
		return Answer{Outcome: Unavailable}, nil
	case len(arbiters) == 0:
		return guarded(ctx, approver, r)
	}
	ctx, cancel := context.WithCancel(ctx)
	var asked sync.WaitGroup
	defer asked.Wait()
	defer cancel()
	type reply struct {
		answer  Answer
		err     error
		arbiter bool
	}
	replies := make(chan reply, len(arbiters)+1)
	ask := func(a Approver, arbiter bool) {
		asked.Go(func() {
			answer, err := guarded(ctx, a, r)
			replies <- reply{answer, err, arbiter}
		})
	}
	open := len(arbiters)
	if approver != nil {
		open++
		ask(approver, false)
	}
	for _, a := range arbiters {
		ask(a, true)
	}
	last := reply{answer: Answer{Outcome: Unavailable}}
	for range open {
		one := <-replies
		switch {
		case one.err == nil && one.answer.Outcome != "" && one.answer.Outcome != Unavailable:
			return one.answer, nil
		case !one.arbiter:
			last = one
		}
	}
	if last.err == nil && ctx.Err() != nil {
		return Answer{}, context.Cause(ctx)
	}
	return last.answer, last.err
}

// Arbitrates reports whether an arbiter hears of the questions for a session.
func (d *Desk) Arbitrates(sessionID string) bool { return len(d.beside(sessionID)) > 0 }

// beside gives the arbiters that serve a session now, in the order in which they
// came.
func (d *Desk) beside(sessionID string) []Approver {
	d.mu.Lock()
	list := d.arbiters
	d.mu.Unlock()
	var found []Approver
	for _, a := range list {
		if a.owner.LiveAt(kernel.Now) && a.Serves(sessionID) {
			found = append(found, a.Approver)
		}
	}
	return found
}

// guarded keeps a panic of an approver from being taken for anything.
func guarded(ctx context.Context, a Approver, r Request) (answer Answer, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return a.Approve(ctx, r)
}
