package subagent

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"dsh/kernel/agent"
	"dsh/kernel/process"
	"dsh/kernel/session"
	"dsh/plugins/internal/dialect"
	"dsh/sdkproto"
)

const (
	// callLimit is how long a cancelled call waits for its child: less than a loop
	// waits for a cancelled call.
	callLimit = 4 * time.Second
	// stopLimit bounds the end of a child and of its children.
	stopLimit = 10 * time.Second
	// settleLimit is what telling of the ends may take when the process ends.
	settleLimit = 200 * time.Millisecond
	// entries may wait for a watch before the child's model is held back.
	entries = 1024
)

// open makes the child, or takes it up again. On an error nothing of the attempt
// is left.
func (s *Subagents) open(ctx context.Context, r *run, depth int, t task, confined *process.Confinement) error {
	spec := r.parent.Spec()
	wanted := agent.Spec{
		ID: r.id, CWD: spec.CWD, Route: spec.Route, Tools: t.filter, Parent: spec.ID, ParentCall: r.call, Depth: depth,
		MaxSteps: t.kind.MaxTurns, Type: t.kind.Name, Label: r.label, Format: spec.Format,
	}
	if t.route != nil {
		wanted.Route = *t.route
	} else {
		wanted.Fallbacks = spec.Fallbacks
	}
	if t.kind.Prompt != "" {
		wanted.System = &agent.System{Replace: &t.kind.Prompt}
	}
	mode := agent.OpenNew
	var sandbox []session.Draft
	if confined != nil {
		sandbox = []session.Draft{{Type: sdkproto.TypeSandboxMode, Data: sdkproto.SandboxMode{Mode: confined.Mode, Source: sdkproto.SourceDelegation}}}
	}
	if t.resume != "" {
		mode = agent.OpenResume
	} else {
		wanted.Seed = append([]session.Draft{
			{Type: sdkproto.TypeSubagentDescriptor, Data: describe(t, spec.Route)},
			{Type: sdkproto.TypeSessionEndSeed, Data: sdkproto.SessionEndSeed{}},
		}, sandbox...)
		if s.config.Dialect != dialect.Claude {
			wanted.Seed = append(wanted.Seed, session.Draft{Type: sdkproto.TypeApprovalPolicy, Data: sdkproto.ApprovalPolicy{Policy: "never", Source: sdkproto.SourceDelegation}})
		}
	}
	child, err := s.agents.Open(ctx, wanted, mode)
	if err != nil {
		return fmt.Errorf("start a subagent: %w", err)
	}
	if got := child.Spec(); got.ParentCall != r.call || got.Parent != spec.ID {
		return errElsewhere // somebody has it open as a session of its own
	}
	if t.resume != "" {
		_, err = child.Log().Append(sandbox...)
	}
	if err == nil && r.parent.Life().Err() != nil {
		// The parent's filters bind the child only if it was still live.
		err = fmt.Errorf("session %s: %w", spec.ID, agent.ErrClosing)
	}
	if err != nil {
		err = errors.Join(fmt.Errorf("start a subagent: %w", err), s.close(child))
		r.tell(child, sdkproto.StopAborted, nil)
		return err
	}
	r.child = child
	r.watch = newWatch(s.log, child)
	return nil
}

// close ends a child, or lets go of one that has ended.
func (s *Subagents) close(child agent.Agent) error {
	if live, ok := s.agents.Get(child.ID()); !ok || live != child {
		return nil // somebody else has closed it
	}
	ctx, cancel := context.WithTimeout(context.Background(), stopLimit)
	defer cancel()
	return s.agents.Close(ctx, child.ID(), agent.Cause{Kind: sdkproto.AbortParent})
}

// drive takes a run from its prompt to its end, and tells of that.
func (s *Subagents) drive(r *run, prompt string) {
	defer close(r.done)
	defer func() { r.entry.End(r.outcome.end()) }() // as soon as it can be taken up again
	defer s.leave(r)
	r.outcome = outcome{run: r, stop: sdkproto.StopError, why: "the harness failed"}
	failed := contain(func() error { return s.work(r, prompt) })
	if err := contain(func() error { return s.settle(r, failed) }); err != nil {
		s.log.Error("a subagent failed", "session", r.id, "error", err)
	}
}

// settle closes the child and tells what became of it; failed is why its work
// ended early.
func (s *Subagents) settle(r *run, failed error) error {
	defer r.watch.close()
	background, halted := r.finish()
	stopped := failed != nil && r.ctx.Err() != nil
	// This ends the child's turn, and with it what its calls wait for; one that has
	// come to rest is only released.
	if err := s.close(r.child); err != nil {
		s.log.Warn("a subagent was not closed well", "session", r.id, "error", err)
	}
	s.seen(r)
	if failed != nil && !stopped {
		s.log.Error("a subagent failed", "session", r.id, "error", failed)
	}
	r.outcome = r.watch.outcome(r, stopped)
	if background {
		s.write(r)
		// Of a run that was stopped through the board the board tells: it wakes nobody.
		if !halted || r.outcome.stop != sdkproto.StopAborted {
			s.report(r)
		}
	}
	r.tell(r.child, r.outcome.stop, r.outcome.last)
	return nil
}

// tell tells the end of a child to whoever listens. It ran here: nobody else
// could say so (S106).
func (r *run) tell(child agent.Agent, stop string, last []sdkproto.Block) {
	child.Log().Settle(session.Settled{
		Provider: provider, Parent: r.parent.ID(), AgentID: r.id, Call: r.call, StopReason: stop, Last: last, Local: true,
	})
}

func contain(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return f()
}

// work gives the child its prompt and returns when it is done: idle, with no
// child of its own at work. It returns early when the run must end.
func (s *Subagents) work(r *run, prompt string) error {
	receipt := r.child.Post(agent.Message{
		Content: []sdkproto.Block{sdkproto.Text(prompt)}, Source: sdkproto.Source{Kind: sdkproto.SourceUser}, Target: sdkproto.TargetNextTurn,
	})[0]
	if receipt.Err != nil {
		return receipt.Err
	}
	for {
		if err := r.child.WhenIdle(r.ctx); err != nil {
			return err
		}
		waited, err := s.await(r.ctx, func(x *run) bool { return x.parent == r.child })
		if err != nil {
			return err
		}
		// A child of the child reports before it leaves, and that has woken it.
		if r.child.Status() != sdkproto.StatusIdle {
			continue
		}
		if waited {
			return context.Cause(r.ctx) // its children may have been stopped with it
		}
		return nil
	}
}

// seen waits until nothing of a closed child is left to come: its own children
// have ended, and its last events have been looked at.
func (s *Subagents) seen(r *run) {
	ctx, cancel := context.WithTimeout(context.Background(), stopLimit)
	defer cancel()
	if _, err := s.await(ctx, func(x *run) bool { return x.parent == r.child }); err != nil {
		s.log.Warn("subagents of a subagent do not end", "session", r.id, "error", err)
	}
	if err := r.watch.drain(ctx); err != nil {
		s.log.Warn("the last events of a subagent were not seen", "session", r.id, "error", err)
	}
}
