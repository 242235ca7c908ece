package permissions

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"dsh/kernel/approval"
	"dsh/kernel/session"
	"dsh/sdkproto"
)

// reply is what came of a question.
type reply struct {
	allowed   bool
	arguments json.RawMessage
	// message is for the model when the call is refused.
	message string
	// interrupt: the turn of a refused call ends.
	interrupt bool
	// updates are changes of policy that came with the answer.
	updates []approval.Update
	// ruling is what decided the call while it waited; nil when an answer did.
	ruling *ruling
}

// question is a call that waits for an answer.
type question struct {
	root string
	// again judges the call under the policy as it is now.
	again func() ruling
	// end ends the wait.
	end context.CancelCauseFunc
}

// settled is the cause that ends the wait of a question which a change of policy
// has answered.
type settled struct{ ruling }

func (*settled) Error() string { return "a change of the policy decides the call" }

// changed is called after each change of the policy of a root session. Calls that
// wait for an answer and need none any more are not asked about any longer (spec
// stream-json 5.1).
func (g *Gate) changed(root string) {
	g.changes.Add(1)
	g.mu.Lock()
	var waiting []*question
	for q := range g.open {
		if q.root == root {
			waiting = append(waiting, q)
		}
	}
	g.mu.Unlock()
	for _, q := range waiting {
		q.look()
	}
}

// look ends the wait when the policy allows the call by now, or a rule refuses it.
// What a stricter mode refuses stays asked about: it came before (spec
// stream-json 4.4).
func (q *question) look() {
	if r := q.again(); r.Behavior == approval.Allow || r.Behavior == approval.Deny && r.Rule != "" {
		q.end(&settled{r})
	}
}

// wait puts a call among those that wait. end takes it out again.
func (g *Gate) wait(ctx context.Context, c *call) (waiting context.Context, end func()) {
	waiting, cancel := context.WithCancelCause(ctx)
	q := &question{root: c.root, end: cancel, again: func() ruling {
		j := g.judgeOf(c.e, g.peek(c.root), c.in.SessionID, c.in.CWD)
		return j.rule(c.spec, c.in.Arguments, c.in.Advice)
	}}
	g.mu.Lock()
	g.open[q] = struct{}{}
	g.mu.Unlock()
	if g.changes.Load() != c.seen {
		q.look() // something has changed since the call was judged
	}
	return waiting, func() {
		g.mu.Lock()
		delete(g.open, q)
		g.mu.Unlock()
		cancel(nil)
	}
}

// ask puts a call to whoever can answer; with nobody there it is refused at once
// (case B20). What an answer says about the policy is in force when ask returns.
func (g *Gate) ask(ctx context.Context, c *call, r ruling) (reply, error) {
	c.never = c.e.policy(c.j.Word, c.child) == policyNever
	if c.never && !g.params.Desk.Arbitrates(c.in.SessionID) {
		return reply{message: r.Message}, nil
	}
	id, in := uuid.NewString(), c.in
	emit := func(eventType string, data any) error {
		if in.Emit == nil {
			return nil
		}
		if err := in.Emit(session.Draft{Type: eventType, Data: data}); err != nil {
			return fmt.Errorf("record %s: %w", eventType, err)
		}
		return nil
	}
	if err := emit(sdkproto.TypeApprovalAsked, sdkproto.ApprovalAsked{ID: id, ToolName: c.spec.Name, CallID: in.CallID, Reason: r.Reason}); err != nil {
		return reply{}, err
	}
	outcome, answer := g.answer(ctx, c, approval.Request{
		ID: id, SessionID: in.SessionID, ToolName: c.spec.Name, CallID: in.CallID, Arguments: in.Arguments,
		Reason: r.Reason, ReasonType: r.ReasonType, BlockedPath: r.BlockedPath, Rule: r.Rule, Scope: r.Scope,
		Suggestions: c.j.suggestions(c.spec, in.Arguments, r),
	}, r)
	err := emit(sdkproto.TypeApprovalDecided, sdkproto.ApprovalDecided{ID: id, Outcome: string(outcome)})
	if ctx.Err() != nil {
		// The turn was cut off; nobody has rejected the call (case B22).
		return reply{}, errors.Join(context.Cause(ctx), err)
	}
	if len(answer.updates) > 0 {
		if bad := g.update(ctx, c.root, in.CWD, answer.updates); bad != nil {
			g.params.Self.Log.Debug("changes of the policy that came with an answer are left out", "session", in.SessionID, "call", in.CallID, "error", bad)
		}
	}
	return answer, err
}

// answer waits for the answer and makes sure that nothing but a plain consent
// counts as one (case B21).
func (g *Gate) answer(ctx context.Context, c *call, q approval.Request, r ruling) (approval.Outcome, reply) {
	waiting, end := g.wait(ctx, c)
	defer end()
	limit := time.Duration(c.e.AnswerLimitMs) * time.Millisecond
	if limit > 0 {
		var cancel context.CancelFunc
		waiting, cancel = context.WithTimeout(waiting, limit)
		defer cancel()
	}
	var a approval.Answer
	err := context.Cause(waiting)
	if err == nil {
		switch tool := c.e.PromptTool; {
		case c.never:
			a, err = g.params.Desk.ApproveBy(waiting, nil, q) // hooks may know
		case tool != "" && tool != promptStdio:
			a, err = g.params.Desk.ApproveBy(waiting, &promptTool{g: g, name: tool, call: c}, q)
		default:
			a, err = g.params.Desk.Approve(waiting, q)
		}
	}
	log := g.params.Self.Log.With("session", q.SessionID, "tool", q.ToolName, "call", q.CallID)
	changed := (*settled)(nil)
	switch answered := err == nil && (a.Outcome == approval.AllowedOnce || a.Outcome == approval.Rejected); {
	case ctx.Err() != nil:
		return approval.Cancelled, reply{}
	case !answered && errors.As(context.Cause(waiting), &changed):
		if changed.Behavior == approval.Allow {
			return approval.AllowedOnce, reply{allowed: true, ruling: &changed.ruling}
		}
		return approval.Rejected, reply{message: changed.Message}
	case err != nil && waiting.Err() != nil:
		return approval.Unavailable, reply{message: fmt.Sprintf("Permission denied: %s, and nobody has answered within %v.", r.Reason, limit)}
	case err != nil:
		log.Warn("a question about a call failed", "error", err)
		return approval.Unavailable, reply{message: fmt.Sprintf("Permission denied: %s, and the question about it failed: %v", r.Reason, err)}
	}
	stock := denialText(q.ToolName)
	switch a.Outcome {
	case approval.AllowedOnce:
		return a.Outcome, reply{allowed: true, arguments: a.Arguments, updates: a.Updates}
	case approval.Rejected, approval.Cancelled:
		return a.Outcome, reply{message: cmp.Or(a.Message, stock), updates: a.Updates, interrupt: a.Interrupt}
	case approval.Unavailable:
		return a.Outcome, reply{message: cmp.Or(a.Message, r.Message)}
	}
	log.Warn("the answer to a question about a call is none", "outcome", a.Outcome)
	return approval.Rejected, reply{message: fmt.Sprintf("%s The answer was not understood: outcome %q.", stock, a.Outcome)}
}
