package agentloop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"

	"dsh/kernel/agent"
	"dsh/kernel/session"
	"dsh/kernel/tool"
	"dsh/sdkproto"
	"dsh/sdkproto/wirejson"
)

// How long calls that were cancelled may take to end before the turn goes on
// without them: after a cancellation, and when the agent is closed (decision
// R13 leaves the whole end of a process 800 ms).
const (
	cancelGrace  = 5 * time.Second
	disposeGrace = 500 * time.Millisecond
)

// call is one tool call of an answer.
type call struct {
	block sdkproto.Block
	spec  tool.Spec
	seq   int64 // of its tool/call event
	facts *facts
	// done is set with the result; until then the call runs or has not started.
	done   bool
	result tool.Result
}

// runCalls runs the calls of an answer: neighbours that may run in parallel
// share a pool, every other call runs alone. Each gets exactly one result,
// whatever happens; an error means that the log takes no more or that a barrier
// failed.
func (t *turn) runCalls(blocks []sdkproto.Block) (all []*call, err error) {
	all = make([]*call, len(blocks))
	for i, b := range blocks {
		all[i] = &call{block: b, spec: t.specOf(b.Name)}
	}
	calls := all
	for len(calls) > 0 && t.ctx.Err() == nil && t.ended == nil {
		n := 1
		for calls[0].spec.Parallel && n < len(calls) && calls[n].spec.Parallel {
			n++
		}
		left, err := t.runGroup(calls[:n])
		calls = calls[n-len(left):]
		if err != nil {
			return all, errors.Join(err, t.skip(calls))
		}
	}
	return all, t.skip(calls)
}

// called asks the hooks on the calls of an answer what to do behind them.
func (t *turn) called(calls []*call) agent.Onward {
	hooks := t.a.r.hooks
	if t.ctx.Err() != nil || t.ended != nil || !hooks.HearsCalls(t.generation) {
		return agent.Onward{}
	}
	b := agent.Batch{Agent: t.a, Turn: t.number, Step: t.step, Calls: make([]agent.Called, len(calls))}
	for i, c := range calls {
		b.Calls[i] = agent.Called{ID: c.block.ID, Name: c.block.Name, Arguments: c.block.Arguments, Result: c.result}
	}
	onward, err := hooks.Calls(t.ctx, t.generation, b)
	if err != nil && t.ctx.Err() == nil {
		t.a.r.log.Error("a hook on calls failed", "session", t.a.spec.ID, "error", err)
	}
	return onward
}

// specOf gives the class of a tool. One that is unknown runs alone; the
// pipeline tells the model.
func (t *turn) specOf(name string) (spec tool.Spec) {
	err := guard("tool "+name, func() error {
		if found, ok := t.view.Lookup(name); ok {
			spec = found.Spec()
		}
		return nil
	})
	if err != nil {
		t.a.r.log.Error("a tool does not say what it is", "tool", name, "error", err)
	}
	return spec
}

// group is a run of calls that may be under way at the same time.
type group struct {
	t      *turn
	ctx    context.Context
	cancel context.CancelFunc
	calls  []*call
	// The first committed calls have their results in the log, the first started
	// ones have their tool/call there.
	started, committed, running int
	outcomes                    chan outcome
}

type outcome struct {
	index  int
	result tool.Result
}

// runGroup runs calls and commits their results in the order of the model. It
// gives those that were not started, because the turn was cancelled.
func (t *turn) runGroup(calls []*call) (left []*call, err error) {
	g := &group{t: t, calls: calls, outcomes: make(chan outcome, len(calls))}
	g.ctx, g.cancel = context.WithCancel(t.ctx)
	defer g.cancel()
	cancelled, disposed := t.ctx.Done(), t.a.life.Done()
	var grace <-chan time.Time
	for {
		if t.ctx.Err() == nil && t.ended == nil {
			if err := g.start(); err != nil {
				return g.abandon(err)
			}
		}
		if g.running == 0 {
			break
		}
		select {
		case o := <-g.outcomes:
			g.finish(o.index, o.result)
		case <-cancelled:
			cancelled, grace = nil, time.After(cancelGrace)
		case <-disposed:
			// The turn hangs on the agent, so it is cancelled, too.
			cancelled, disposed, grace = nil, nil, time.After(disposeGrace)
		case <-grace:
			g.leave()
		}
		if err := g.commit(); err != nil {
			return g.abandon(err)
		}
	}
	return calls[g.started:], g.commit()
}

// start takes up as many calls as the pool has room for. Their tool/call events
// are one batch, and one barrier stands between them and the tools that change
// something.
func (g *group) start() error {
	n := min(g.t.a.r.config.Pool-g.running, len(g.calls)-g.started)
	if n <= 0 {
		return nil
	}
	batch := g.calls[g.started : g.started+n]
	drafts := make([]session.Draft, n)
	readOnly := true
	for i, c := range batch {
		drafts[i] = g.t.callDraft(c)
		readOnly = readOnly && c.spec.ReadOnly
	}
	first, err := g.t.a.session.Append(drafts...)
	if err != nil {
		return err
	}
	for i, c := range batch {
		c.seq = first + int64(i)
	}
	at := g.started
	g.started += n
	if !readOnly {
		if err := g.t.a.session.Sync(g.t.ctx); err != nil {
			for _, c := range batch {
				c.done, c.result = true, abortedResult()
			}
			if g.t.ctx.Err() != nil {
				return nil
			}
			return err
		}
	}
	for i, c := range batch {
		g.running++
		g.launch(c, at+i)
	}
	return nil
}

// launch runs one call in a goroutine of the agent.
func (g *group) launch(c *call, index int) {
	t, outcomes := g.t, g.outcomes
	ctx, cancel := context.WithCancel(g.ctx)
	c.facts = &facts{log: t.a.session}
	in := tool.Invocation{
		SessionID: t.a.spec.ID, CWD: t.a.spec.CWD, CallID: c.block.ID, Turn: t.number, Step: t.step,
		Generation: t.generation,
		Emit:       func(drafts ...session.Draft) error { return c.facts.emit(ctx, drafts) },
	}
	t.a.owner.Go("tool "+c.block.Name, func(context.Context) {
		defer cancel()
		var result tool.Result
		err := guard("the call of "+c.block.Name, func() error {
			result = t.a.r.pipeline.Call(ctx, t.view, c.block.Name, c.block.Arguments, in)
			return nil
		})
		if err != nil {
			result = tool.ErrorResult("ToolError", "TOOL_FAILED", fmt.Sprintf("Error: %v", err))
		}
		outcomes <- outcome{index, result}
	})
}

func (g *group) finish(index int, result tool.Result) {
	c := g.calls[index]
	if c.done {
		return
	}
	g.running--
	c.facts.close()
	c.done, c.result = true, result
	if end := result.EndTurn; end != nil && g.t.ended == nil {
		g.t.ended = end
		if end.Kind == sdkproto.EndAborted {
			cause := agent.Cause{Kind: sdkproto.AbortUser}
			if end.Reason != nil {
				cause = agent.Cause{Kind: end.Reason.Kind, Reason: end.Reason.Reason}
			}
			g.t.cancel(&cancelled{cause})
		}
	}
}

// leave gives up waiting for calls that do not end with their context. They are
// left to the agent's owner.
func (g *group) leave() {
	for i, c := range g.calls[:g.started] {
		if !c.done {
			g.t.a.r.log.Warn("a cancelled tool call does not end", "session", g.t.a.spec.ID, "tool", c.block.Name, "call", c.block.ID)
			g.finish(i, tool.ErrorResult("AbortError", sdkproto.CodeToolOutcomeUnknown, fmt.Sprintf(
				"Error: %s was cancelled and did not stop in time, so its outcome is unknown. Check the present state before you repeat the call.", c.block.Name)))
		}
	}
}

// commit appends the results that are next in the order of the model.
func (g *group) commit() error {
	for g.committed < g.started && g.calls[g.committed].done {
		c := g.calls[g.committed]
		if err := g.t.appendResult(c); err != nil {
			return err
		}
		g.committed++
	}
	return nil
}

// abandon ends the group because of a failure of the log: what runs is
// cancelled, and what has no result yet is closed as far as the log takes it.
func (g *group) abandon(failure error) ([]*call, error) {
	g.cancel()
	g.leave()
	return g.calls[g.started:], errors.Join(failure, g.commit())
}

// skip closes calls that were not started.
func (t *turn) skip(calls []*call) error {
	for _, c := range calls {
		first, err := t.a.session.Append(t.callDraft(c))
		if err != nil {
			return err
		}
		c.seq, c.result = first, abortedResult()
		if err := t.appendResult(c); err != nil {
			return err
		}
	}
	return nil
}

func (t *turn) callDraft(c *call) session.Draft {
	return session.Draft{Type: sdkproto.TypeToolCall, Data: &sdkproto.ToolCall{
		Turn: t.number, Step: t.step, CallID: c.block.ID, Name: c.block.Name, Arguments: c.block.Arguments,
	}}
}

// abortedResult is that of a call that was never handed to its tool (spec
// jsonrpc 5.3).
func abortedResult() tool.Result {
	return tool.ErrorResult("AbortError", sdkproto.CodeAbortedBeforeDispatch, "Error: tool call aborted before dispatch")
}

func (t *turn) appendResult(c *call) error {
	_, err := t.a.session.Append(t.resultDraft(c))
	if err != nil {
		// Unless the log takes no more, what the tool gave cannot be encoded.
		c.result = tool.ErrorResult("ToolError", "TOOL_FAILED", fmt.Sprintf("Error: the result of %s cannot be recorded: %v", c.block.Name, err))
		_, err = t.a.session.Append(t.resultDraft(c))
	}
	switch {
	case c.result.Error != nil && c.result.Error.Code == tool.CodePermissionDenied:
		// A refusal alone does not end a turn (spec stream-json 7.7).
	case c.result.IsError:
		t.failed++
	default:
		t.failed = 0
	}
	return err
}

func (t *turn) resultDraft(c *call) session.Draft {
	meta := c.result.Meta
	if len(meta) > 0 && !wirejson.Valid(meta) {
		t.a.r.log.Warn("a tool gave presentation data that is not JSON", "tool", c.block.Name)
		meta = json.RawMessage(nil)
	}
	return session.Draft{
		Type: sdkproto.TypeToolResult,
		Data: &sdkproto.ToolResult{
			Turn: t.number, Step: t.step, Error: c.result.Error, Meta: meta,
			Message: sdkproto.Message{
				Content: []sdkproto.Block{{
					Type: sdkproto.BlockToolResult, ToolCallID: c.block.ID, Content: c.result.Content, IsError: c.result.IsError,
				}},
				Source: sdkproto.Source{Kind: sdkproto.SourceTool, CallID: c.block.ID},
				Role:   sdkproto.RoleUser, ID: uuid.NewString(),
			},
		},
		Sources: []int64{c.seq},
	}
}

// facts lets a tool record events while its call runs.
type facts struct {
	log *session.Log

	mu     sync.Mutex
	closed bool
}

func (f *facts) emit(ctx context.Context, drafts []session.Draft) error {
	for _, d := range drafts {
		switch d.Type {
		case sdkproto.TypeAgentInboxSpliced, sdkproto.TypeTurnStart, sdkproto.TypeTurnEnd, sdkproto.TypeStepStart, sdkproto.TypeStepEnd,
			sdkproto.TypeUserMessage, sdkproto.TypeAssistantChunk, sdkproto.TypeAssistantMessage, sdkproto.TypeToolCall, sdkproto.TypeToolResult,
			sdkproto.TypeRequestHeader, sdkproto.TypeRequestContext, sdkproto.TypeSessionEndSeed, sdkproto.TypeLLMRetry, sdkproto.TypeLLMRetryStarted:
			return fmt.Errorf("a tool cannot record %s: only the agent loop does", d.Type)
		}
	}
	if err := f.log.Room(ctx); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return errors.New("the call has its result; nothing can be recorded between them any more")
	}
	_, err := f.log.Append(drafts...)
	return err
}

func (f *facts) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
}
