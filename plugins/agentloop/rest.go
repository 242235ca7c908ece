package agentloop

import (
	"context"
	"fmt"
	"sync/atomic"

	"dsh/kernel/agent"
	"dsh/kernel/session"
	"dsh/sdkproto"
)

var _ agent.Resting = (*actor)(nil)

// AtRest implements agent.Resting: what f does is a run of the agent like its turns,
// of which there is one at a time. Messages that come meanwhile are run behind it.
func (a *actor) AtRest(ctx context.Context, f func(context.Context, agent.Step) error) error {
	done := make(chan error, 1)
	var begun atomic.Bool
	a.mu.Lock()
	switch {
	case a.life.Err() != nil:
		a.mu.Unlock()
		return agent.ErrClosing
	case a.status == sdkproto.StatusRunning:
		a.mu.Unlock()
		return fmt.Errorf("session %s: %w", a.spec.ID, agent.ErrBusy)
	}
	a.wake(func(owner context.Context) {
		a.mu.Lock()
		a.looping = true
		a.mu.Unlock()
		if begun.CompareAndSwap(false, true) {
			done <- guard("work on a session at rest", func() error { return a.atRest(ctx, f) })
		}
		a.loop(owner)
	})
	a.mu.Unlock()
	select {
	case err := <-done:
		return err
	case <-a.life.Done():
	}
	if begun.CompareAndSwap(false, true) {
		return agent.ErrClosing // an owner that was closed runs nothing
	}
	return <-done
}

func (a *actor) atRest(ctx context.Context, f func(context.Context, agent.Step) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(a.life, func() { cancel(context.Cause(a.life)) })()
	g, leave := a.r.root.Enter()
	defer leave()
	a.mu.Lock()
	route := a.route
	a.mu.Unlock()
	p := a.prepare(g, a.view.At(g), route)
	if p.err != nil {
		return p.err
	}
	var last session.Brackets
	a.session.View(func() { last = a.state.Brackets })
	return f(ctx, agent.Step{
		Agent: a, State: a.state, Turn: last.Turn, Route: p.route, Info: p.info, Adapter: p.adapter, Header: a.header,
	})
}
