package agentloop

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"dsh/kernel"
	"dsh/kernel/agent"
	"dsh/kernel/llm"
	"dsh/kernel/session"
	"dsh/kernel/tool"
	"dsh/sdkproto"
)

// turn is one turn: the steps between a turn/start and its turn/end.
type turn struct {
	a *actor
	// number counts the turns of the session, step the steps of the turn, both
	// from 1.
	number, step int
	// runsFor are the messages whose cancellation ends the turn.
	runsFor []string
	// generation and view are those in which the turn opened.
	generation kernel.Generation
	view       *tool.View
	wanted     llm.Route
	ctx        context.Context
	cancel     context.CancelCauseFunc
	// failed counts the failed calls since the last good one.
	failed int
	// ended is the reason that a call gave to end the turn; nil without.
	ended *sdkproto.TurnEndReason
	// continued counts how often hooks have made the turn go on, fallbacks the
	// routes that were given up.
	continued, fallbacks int
	// refused says that the provider will not have what the last request said.
	refused bool
}

// loop runs turns until the inbox is empty.
func (a *actor) loop(context.Context) {
	a.mu.Lock()
	mine := a.claimed // a run that follows has one of its own
	claimed := sync.OnceFunc(func() { close(mine) })
	a.looping = true
	a.mu.Unlock()
	defer claimed()
	err := guard("the agent loop", func() error { return a.turns(claimed) })
	if err == nil {
		// The barrier at the turn's end does not delay idle (decision D3).
		if err = a.session.Sync(a.life); err == nil || a.life.Err() != nil {
			return
		}
	}
	a.fail(err)
}

// turns runs one turn after the other. An error means that the log takes no
// more. claimed is called once the first message has been claimed.
func (a *actor) turns(claimed func()) error {
	for a.more() {
		if goesOn, err := a.oneTurn(claimed); err != nil || !goesOn {
			return err
		}
	}
	return nil
}

func (a *actor) oneTurn(claimed func()) (goesOn bool, err error) {
	o := a.open(claimed)
	defer o.leave()
	t, err := a.claim(o)
	claimed()
	switch {
	case errors.Is(err, errChanged):
		return true, nil
	case err != nil || t == nil:
		return false, err
	case o.blocked != nil:
		return true, nil
	}
	return true, t.finish(t.run(o.prepared))
}

// errChanged: the prompt that the hooks have seen is not the next one any more.
var errChanged = errors.New("the next prompt is another one")

// more reports whether there is a message to run; without one it signals idle.
func (a *actor) more() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.life.Err() != nil {
		a.drop()
	}
	if len(a.pending(sdkproto.TargetNextStep))+len(a.pending(sdkproto.TargetNextTurn)) == 0 || a.life.Err() != nil {
		a.rest()
		return false
	}
	return true
}

// fail ends a run whose log takes no more.
func (a *actor) fail(err error) {
	var broken *panicError
	switch {
	case errors.As(err, &broken):
		// What was left half done cannot be known here; the next load repairs it.
		a.r.log.Error("a session cannot go on", "session", a.spec.ID, "error", err, "stack", string(broken.stack))
		if err := a.session.Close(); err != nil {
			a.r.log.Error("a session was not closed well", "session", a.spec.ID, "error", err)
		}
	case !errors.Is(err, session.ErrClosed):
		a.r.log.Error("a session cannot go on, because its log cannot be written", "session", a.spec.ID, "error", err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.turn != nil {
		a.turn.cancel(nil)
		a.turn = nil
	}
	a.rest()
}

// claim opens a turn: it takes all that waits for the next step and one prompt
// from the inbox. What is claimed becomes a user/message in the same batch, so
// that no crash can lose it between the two. It gives no turn when everything
// has been cancelled meanwhile, after signalling idle.
func (a *actor) claim(o *opening) (*turn, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	steering, prompts := a.pending(sdkproto.TargetNextStep), a.pending(sdkproto.TargetNextTurn)
	if len(steering)+len(prompts) == 0 {
		a.rest()
		return nil, nil
	}
	prompts = prompts[:min(len(prompts), 1)]
	if o.hooked && (len(prompts) > 0) != (o.prompt != "") || o.prompt != "" && prompts[0].ID != o.prompt {
		return nil, errChanged
	}
	var last session.Brackets
	a.session.View(func() { last = a.state.Brackets })
	t := &turn{a: a, number: last.Turn + 1, step: 1, generation: o.generation, view: o.view, wanted: o.wanted}
	if o.blocked != nil {
		_, err := a.session.Append(
			session.Draft{Type: sdkproto.TypeTurnStart, Data: &sdkproto.TurnStart{Turn: t.number}},
			splice(sdkproto.TargetNextTurn, 0, 1, ""),
			session.Draft{Type: sdkproto.TypeTurnEnd, Data: &sdkproto.TurnEnd{Turn: t.number, Reason: blockedReason(o.blocked)}},
		)
		return t, err
	}
	drafts := []session.Draft{{Type: sdkproto.TypeTurnStart, Data: &sdkproto.TurnStart{Turn: t.number}}}
	if len(steering) > 0 {
		drafts = append(drafts, splice(sdkproto.TargetNextStep, 0, len(steering), ""))
	}
	if len(prompts) > 0 {
		drafts = append(drafts, splice(sdkproto.TargetNextTurn, 0, 1, ""))
	}
	drafts = append(drafts, session.Draft{Type: sdkproto.TypeStepStart, Data: &sdkproto.StepStart{Turn: t.number, Step: 1}})
	drafts = append(drafts, o.before...)
	promptAt := len(drafts)
	drafts = append(drafts, userMessages(prompts)...)
	drafts = append(drafts, o.behind...)
	drafts = append(drafts, userMessages(steering)...)
	request := append(o.drafts, prefixDraft(t.number, 1, append(o.changes, t.rewritten()...))...)
	title := ""
	if len(prompts) > 0 && !last.Titled {
		title = sdkproto.Brief(prompts[0].Content, titleRunes)
	}
	if title == "" {
		drafts = append(drafts, request...)
	}
	first, err := a.session.Append(drafts...)
	if err != nil {
		return nil, err
	}
	if title != "" {
		// A batch of its own: it cites the prompt's place in the log.
		drafts = append([]session.Draft{titleDraft(title, first+int64(promptAt))}, request...)
		if _, err := a.session.Append(drafts...); err != nil {
			return nil, err
		}
	}
	a.resumed = a.resumed && o.err != nil
	for _, m := range prompts {
		t.runsFor = append(t.runsFor, m.ID)
	}
	if len(prompts) == 0 {
		for _, m := range steering {
			t.runsFor = append(t.runsFor, m.ID)
		}
	}
	t.ctx, t.cancel = context.WithCancelCause(a.life)
	a.turn = t
	return t, nil
}

func userMessages(msgs []sdkproto.Message) []session.Draft {
	drafts := make([]session.Draft, len(msgs))
	for i := range msgs {
		drafts[i] = session.Draft{Type: sdkproto.TypeUserMessage, Data: msgs[i]}
	}
	return drafts
}

// nextStep closes the step and opens the next one with what a hook adds and what
// waits for it.
func (t *turn) nextStep(p prepared, behind ...session.Draft) error {
	t.a.mu.Lock()
	defer t.a.mu.Unlock()
	steering := t.a.pending(sdkproto.TargetNextStep)
	drafts := []session.Draft{{Type: sdkproto.TypeStepEnd, Data: &sdkproto.StepEnd{Turn: t.number, Step: t.step}}}
	if len(steering) > 0 {
		drafts = append(drafts, splice(sdkproto.TargetNextStep, 0, len(steering), ""))
	}
	drafts = append(drafts, session.Draft{Type: sdkproto.TypeStepStart, Data: &sdkproto.StepStart{Turn: t.number, Step: t.step + 1}})
	drafts = append(drafts, behind...)
	drafts = append(drafts, userMessages(steering)...)
	drafts = append(drafts, p.drafts...)
	drafts = append(drafts, prefixDraft(t.number, t.step+1, append(p.changes, t.rewritten()...))...)
	if _, err := t.a.session.Append(drafts...); err != nil {
		return err
	}
	t.step++
	return nil
}

// CodeTooManyFailedCalls is the code of a turn that ended because of too many
// failed calls in a row.
const CodeTooManyFailedCalls = "TOO_MANY_FAILED_CALLS"

// run is the turn between its opening and its closing events. It gives the
// reason to close it with; a panic is one too.
func (t *turn) run(p prepared) (end sdkproto.TurnEndReason) {
	err := guard("the agent loop", func() (err error) {
		end, err = t.steps(p)
		return err
	})
	if err == nil {
		return end
	}
	var broken *panicError
	if errors.As(err, &broken) {
		t.a.r.log.Error("a turn failed", "session", t.a.spec.ID, "error", err, "stack", string(broken.stack))
	}
	return endError(llm.Failure(err))
}

// blockedReason is that of a turn whose prompt a hook refused.
func blockedReason(v *agent.Verdict) sdkproto.TurnEndReason {
	end := sdkproto.TurnEndReason{Kind: sdkproto.EndBlocked}
	if v.Reason != "" {
		end.Reason = &sdkproto.AbortReason{Kind: sdkproto.AbortHook, Reason: v.Reason}
	}
	return end
}

func endError(f sdkproto.Failure) sdkproto.TurnEndReason {
	return sdkproto.TurnEndReason{Kind: sdkproto.EndError, Error: &f}
}

func (t *turn) steps(p prepared) (sdkproto.TurnEndReason, error) {
	config := &t.a.r.config
	maxSteps := config.MaxSteps
	if own := t.a.spec.MaxSteps; own > 0 {
		maxSteps = min(maxSteps, own)
	}
	for {
		if p.err != nil {
			return sdkproto.TurnEndReason{}, p.err
		}
		if _, err := t.keep(p, nil); err != nil {
			return sdkproto.TurnEndReason{}, err
		}
		answer, err := t.requestOr(&p)
		if err != nil {
			return sdkproto.TurnEndReason{}, err
		}
		calls := answer.calls()
		var behind []session.Draft
		switch {
		case answer.finish == sdkproto.FinishMaxTokens:
			return sdkproto.TurnEndReason{Kind: sdkproto.EndMaxTokens}, nil
		case len(calls) == 0:
			onward := t.stopping(answer)
			if onward.End != nil {
				return *onward.End, nil
			}
			if onward.Prompt == "" {
				return sdkproto.TurnEndReason{Kind: sdkproto.EndCompleted}, nil
			}
			t.continued++
			behind = []session.Draft{hookDraft(stopHooksPlugin, "a hook wants more to be done", onward.Prompt)}
		default:
			ran, err := t.runCalls(calls)
			if err != nil {
				return sdkproto.TurnEndReason{}, err
			}
			onward := t.called(ran)
			if onward.End != nil && t.ctx.Err() == nil {
				return *onward.End, nil
			}
			if onward.Prompt != "" {
				behind = []session.Draft{hookDraft(callHooksPlugin, "context from a hook", onward.Prompt)}
			}
		}
		switch {
		case t.ctx.Err() != nil:
			return sdkproto.TurnEndReason{}, context.Cause(t.ctx)
		case t.ended != nil:
			return *t.ended, nil
		case t.failed >= config.MaxFailedCalls:
			return endError(sdkproto.Failure{
				Code:    CodeTooManyFailedCalls,
				Message: fmt.Sprintf("%d tool calls in a row failed; the turn was ended (limit maxFailedCalls)", t.failed),
			}), nil
		case t.step >= maxSteps:
			return sdkproto.TurnEndReason{Kind: sdkproto.EndMaxSteps}, nil
		}
		if p = t.a.prepare(t.generation, t.view, t.wanted); p.err != nil {
			return sdkproto.TurnEndReason{}, p.err
		}
		if err := t.nextStep(p, behind...); err != nil {
			return sdkproto.TurnEndReason{}, err
		}
	}
}

// finish closes what the turn left open. A turn that was cancelled before this
// moment ends as aborted, whatever else happened.
func (t *turn) finish(end sdkproto.TurnEndReason) error {
	a := t.a
	a.mu.Lock()
	defer a.mu.Unlock()
	if t.ctx.Err() != nil {
		end = sdkproto.TurnEndReason{Kind: sdkproto.EndAborted, Reason: abortReason(t.ctx)}
	}
	var drafts []session.Draft
	last := a.session.LastTime()
	a.session.View(func() {
		if len(a.state.Brackets.Calls) > 0 {
			// Only after a failure of the loop itself.
			for _, d := range a.state.Repairs(last) {
				if d.Type == sdkproto.TypeToolResult {
					drafts = append(drafts, d)
				}
			}
		}
		if t.refused && end.Kind == sdkproto.EndError {
			drafts = append(drafts, t.setAside(a.state.Surface.Tail())...)
		}
		if a.state.Brackets.StepOpen {
			drafts = append(drafts, session.Draft{Type: sdkproto.TypeStepEnd, Data: &sdkproto.StepEnd{Turn: t.number, Step: t.step}})
		}
	})
	drafts = append(drafts, session.Draft{Type: sdkproto.TypeTurnEnd, Data: &sdkproto.TurnEnd{Turn: t.number, Reason: end}})
	if _, err := a.session.Append(drafts...); err != nil {
		return err
	}
	a.turn = nil
	t.cancel(nil)
	return nil
}
