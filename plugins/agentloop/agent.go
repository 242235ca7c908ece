package agentloop

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/google/uuid"

	"dsh/kernel"
	"dsh/kernel/agent"
	"dsh/kernel/llm"
	"dsh/kernel/session"
	"dsh/kernel/tool"
	"dsh/sdkproto"
)

// actor is one live session with its loop; it implements agent.Agent.
//
// mu guards status together with every append that changes the inbox: "is the
// queue empty?" and the signal of idle are one step, and so are a receipt and
// the signal of running (spec jsonrpc 7.2). It is taken before the log's lock.
type actor struct {
	r       *Registry
	spec    agent.Spec // CWD is the session's
	filters []*tool.Filter
	owner   *kernel.Owner
	session *session.Log
	state   *session.State // read inside session.View
	view    *tool.View
	// life ends when the agent is closed or its owner is; turns hang on it.
	life context.Context
	end  context.CancelCauseFunc

	// Of the loop's goroutine, of which there is at most one at a time.
	resumed bool // the log was loaded, and no request made since
	system  *string
	key     headerKey
	header  *sdkproto.Header // built from key; in the log once a turn has used it
	// rewrites is what Surface.Rewrites counted at the last request.
	rewrites int

	mu      sync.Mutex
	status  sdkproto.Status
	idle    chan struct{} // closed at the end of the present run; nil before the first
	claimed chan struct{} // closed when the present run has claimed its first message
	looping bool          // the present run's goroutine has begun
	turn    *turn         // the turn that runs
	opening func()        // cuts the hooks on the turn that opens short; nil without
	route   llm.Route     // of the turns to come
	stopped bool
}

// ID is the session's id.
func (a *actor) ID() string { return a.spec.ID }

// Spec is what the agent was opened with; Route is the one in force.
func (a *actor) Spec() agent.Spec {
	a.mu.Lock()
	defer a.mu.Unlock()
	spec := a.spec
	spec.Route = a.route
	if a.turn != nil {
		spec.Route = a.turn.wanted
	}
	return spec
}

// Life ends when the agent is closed.
func (a *actor) Life() context.Context { return a.life }

// Reroute has later turns answered by another model.
func (a *actor) Reroute(to llm.Route) error {
	if _, err := a.r.CheckRoute(to); err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.route = to
	return nil
}

// Log is the session's log.
func (a *actor) Log() *session.Log { return a.session }

// Status says whether a turn runs or waits to run.
func (a *actor) Status() sdkproto.Status {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.status
}

// targets are the lists of an inbox in the order in which a turn claims them.
var targets = [...]string{sdkproto.TargetNextStep, sdkproto.TargetNextTurn}

// Send puts a message into the inbox, wakes the agent and waits for the disk.
func (a *actor) Send(ctx context.Context, content []sdkproto.Block, source sdkproto.Source, target string) (string, error) {
	receipt := a.Post(agent.Message{Content: content, Source: source, Target: target})[0]
	if err := receipt.Wait(ctx); err != nil {
		return "", err
	}
	return receipt.ID, nil
}

// Post puts messages into the inbox and wakes the agent.
func (a *actor) Post(messages ...agent.Message) []agent.Receipt {
	receipts := make([]agent.Receipt, len(messages))
	var woken chan struct{} // closed once the first message of a woken agent is claimed
	durable := func(ctx context.Context) error {
		if woken != nil {
			// One sync then covers the receipts and the first events of their turn
			// (performance rule 6).
			select {
			case <-woken:
			case <-a.life.Done():
			case <-ctx.Done():
			}
		}
		if err := a.session.Sync(ctx); err != nil {
			return fmt.Errorf("send to session %s: %w", a.spec.ID, err)
		}
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for i, m := range messages {
		id := m.ID
		if id == "" {
			id = uuid.NewString()
		}
		seq, woke, err := a.accept(sdkproto.Message{Content: slices.Clone(m.Content), Source: m.Source, Role: sdkproto.RoleUser, ID: id}, m.Target)
		switch {
		case err != nil:
			receipts[i].Err = err
			continue
		case woke:
			woken = a.claimed
		}
		receipts[i] = agent.NewReceipt(id, seq, durable)
	}
	return receipts
}

// accept appends the receipt, gives its seq, and says whether that woke the
// agent. The caller holds mu.
func (a *actor) accept(msg sdkproto.Message, target string) (seq int64, woke bool, err error) {
	if !slices.Contains(targets[:], target) {
		return 0, false, fmt.Errorf("send to session %s: no inbox list %q; use %q or %q", a.spec.ID, target, sdkproto.TargetNextTurn, sdkproto.TargetNextStep)
	}
	if a.life.Err() != nil {
		return 0, false, agent.ErrClosing
	}
	at := len(a.pending(target))
	if at >= a.r.config.MaxQueued {
		return 0, false, fmt.Errorf("session %s: %w: %d wait already; wait until some have run", a.spec.ID, agent.ErrInboxFull, at)
	}
	seq, err = a.session.Append(session.Draft{Type: sdkproto.TypeAgentInboxSpliced, Data: &sdkproto.AgentInboxSpliced{
		Target: target, Start: at, Inserted: []sdkproto.Message{msg},
	}})
	if err != nil {
		return 0, false, fmt.Errorf("send to session %s: %w", a.spec.ID, err)
	}
	if a.status == sdkproto.StatusRunning {
		return seq, false, nil
	}
	a.wake(a.loop)
	return seq, true, nil
}

// wake begins a run. The caller holds mu and has seen that there is none.
func (a *actor) wake(run func(context.Context)) {
	a.status = sdkproto.StatusRunning
	a.r.quiet.begin()
	a.idle, a.claimed = make(chan struct{}), make(chan struct{})
	a.session.Signal(sdkproto.StatusRunning)
	a.owner.Go("turns", run)
}

// pending gives the messages that wait in one list. The caller holds mu.
func (a *actor) pending(target string) (msgs []sdkproto.Message) {
	a.session.View(func() { msgs = a.state.Inbox.Pending(target) })
	return msgs
}

// rest signals idle. The caller holds mu and has seen that nothing is pending,
// or that the log takes no more.
func (a *actor) rest() {
	if a.status == sdkproto.StatusIdle {
		return
	}
	a.status, a.looping = sdkproto.StatusIdle, false
	a.session.Signal(sdkproto.StatusIdle)
	close(a.idle)
	a.r.quiet.end()
}

// WhenIdle returns when the agent is idle.
func (a *actor) WhenIdle(ctx context.Context) error {
	a.mu.Lock()
	status, idle := a.status, a.idle
	a.mu.Unlock()
	if status == sdkproto.StatusIdle {
		return nil
	}
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for session %s to be idle: %w", a.spec.ID, context.Cause(ctx))
	}
}

// Cancel ends the running turn and drops the queue, or does it for one message.
// A turn runs for the prompt it claimed, or, without one, for the messages that
// opened it.
func (a *actor) Cancel(cause agent.Cause, messageID string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if messageID == "" {
		dropped := a.drop()
		if a.opening != nil {
			a.opening()
		}
		if a.turn == nil {
			return dropped
		}
		a.turn.cancel(&cancelled{cause})
		return true
	}
	for _, target := range targets {
		at := slices.IndexFunc(a.pending(target), func(m sdkproto.Message) bool { return m.ID == messageID })
		if at >= 0 {
			return a.splice(splice(target, at, 1, sdkproto.OutcomeCanceled))
		}
	}
	if a.turn == nil || !slices.Contains(a.turn.runsFor, messageID) {
		return false
	}
	a.turn.cancel(&cancelled{cause})
	return true
}

// drop empties the inbox and reports whether there was anything in it. The
// caller holds mu.
func (a *actor) drop() bool {
	var drafts []session.Draft
	for _, target := range targets {
		if n := len(a.pending(target)); n > 0 {
			drafts = append(drafts, splice(target, 0, n, sdkproto.OutcomeCanceled))
		}
	}
	return len(drafts) > 0 && a.splice(drafts...)
}

func (a *actor) splice(drafts ...session.Draft) bool {
	if _, err := a.session.Append(drafts...); err != nil {
		a.r.log.Error("queued prompts could not be dropped", "session", a.spec.ID, "error", err)
		return false
	}
	return true
}

func splice(target string, start, removed int, outcome string) session.Draft {
	return session.Draft{Type: sdkproto.TypeAgentInboxSpliced, Data: &sdkproto.AgentInboxSpliced{
		Target: target, Start: start, RemovedCount: removed, Outcome: outcome,
	}}
}

// cancelled is the cause of a context that somebody ended.
type cancelled struct{ cause agent.Cause }

func (c *cancelled) Error() string { return "cancelled by " + c.cause.Kind }

// abortReason says who ended ctx. A context that ended by itself was that of
// an owner, which was closed.
func abortReason(ctx context.Context) *sdkproto.AbortReason {
	var c *cancelled
	switch {
	case !errors.As(context.Cause(ctx), &c):
		return &sdkproto.AbortReason{Kind: sdkproto.AbortDisposed}
	case c.cause.Kind == "":
		return &sdkproto.AbortReason{Kind: sdkproto.AbortUser, Reason: c.cause.Reason}
	}
	return &sdkproto.AbortReason{Kind: c.cause.Kind, Reason: c.cause.Reason}
}

// refuse takes no more messages, drops those that wait and cancels the turn. It
// does not wait.
func (a *actor) refuse(cause agent.Cause) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.stopped {
		return
	}
	a.stopped = true
	a.drop()
	a.end(&cancelled{cause})
}

// stop brings the agent to rest: nothing runs, nothing waits, all is on the
// disk.
func (a *actor) stop(ctx context.Context, cause agent.Cause) error {
	a.refuse(cause)
	err := a.WhenIdle(ctx)
	if a.r.runner != nil {
		if left := a.r.runner.EndSession(ctx, a.spec.ID); left != nil {
			err = errors.Join(err, fmt.Errorf("end the programs of session %s: %w", a.spec.ID, left))
		}
	}
	if sync := a.session.Sync(ctx); sync != nil && !errors.Is(sync, session.ErrClosed) {
		err = errors.Join(err, sync)
	}
	return err
}

// dispose is the agent's end when its owner is closed.
func (a *actor) dispose(ctx context.Context) error {
	a.mu.Lock()
	if !a.looping {
		// The owner may have been closed between a receipt and the start of the
		// loop.
		a.rest()
	}
	a.mu.Unlock()
	return errors.Join(a.stop(ctx, agent.Cause{Kind: sdkproto.AbortDisposed}), a.closeLog())
}

func (a *actor) closeLog() error {
	a.r.forget(a)
	if err := a.session.Close(); err != nil {
		return fmt.Errorf("close session %s: %w", a.spec.ID, err)
	}
	return nil
}
