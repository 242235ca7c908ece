package project

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"dsh/kernel/llm"
	"dsh/kernel/session"
	"dsh/plugins/streamjson/structured"
	"dsh/sdkproto"
	"dsh/sdkproto/streamjson"
)

// phase is how far a step of the turn is.
type phase int

const (
	// opening: no model request was made yet.
	opening phase = iota
	// asking: a request was made and has no answer.
	asking
	// cut: the answer was cut off and is shown as far as it came.
	cut
	// calling: the answer has calls, which run.
	calling
	// answered: the answer has no calls.
	answered
)

// turn is what is known of the turn that runs.
type turn struct {
	number int
	// told is the message that it is for, nil for one that nobody asked for.
	told  *Turn
	began time.Time
	phase phase
	// answers counts the committed answers, usage sums them up.
	answers int
	usage   sdkproto.Usage
	// cost is that of the session when the turn began, in US dollars.
	cost float64
	// apiMs is how long requests took that have ended, asked when the present one
	// was made, in epoch milliseconds; 0 without one.
	apiMs, asked int64
	// text is the last that is not blank, reason why the last answer ended.
	text, reason string
	// failed says that an attempt of this step has failed.
	failed bool
	// deferred is the call that a hook has put off.
	deferred call
	// output is the structured output, nil without one.
	output json.RawMessage
	// limited is the budget that has made the present answer shorter, over the one
	// that was in the way of something last; nil without.
	limited *sdkproto.BudgetLimited
	over    *sdkproto.BudgetExceeded
}

// record takes a fact of the main thread.
func (p *Projector) record(ctx context.Context, r *session.Record) *End {
	if c, ok := r.Data.(*sdkproto.AssistantChunk); ok {
		p.chunk(r, &c.Chunk)
		return nil
	}
	t := p.turn
	switch r.Event.Type {
	case sdkproto.TypeAgentInboxSpliced:
		return with(r, p.spliced)
	case sdkproto.TypeTurnStart:
		with(r, func(s *sdkproto.TurnStart) *End {
			p.turn = &turn{number: s.Turn, began: time.UnixMilli(r.Event.Time), cost: p.account.cost}
			return nil
		})
	case sdkproto.TypeRequestHeader:
		with(r, func(h *sdkproto.RequestHeader) *End { return p.header(r.Event.Time, h) })
	case sdkproto.TypeCompactionStart:
		with(r, func(s *sdkproto.CompactionStart) *End { return p.compacting(r.Event.Time, s) })
	case sdkproto.TypePromptSuggestion:
		with(r, func(s *sdkproto.PromptSuggestion) *End {
			p.account.add(s.Provider, s.Model, s.Usage)
			return nil
		})
	case sdkproto.TypeSideRequest:
		with(r, p.asked)
	case sdkproto.TypeJobStarted, sdkproto.TypeJobEnded:
		p.jobRecord(p.main.id, r)
	case sdkproto.TypeCompactionSummary:
		with(r, p.summarised)
	case sdkproto.TypeCompactionEnd:
		with(r, func(s *sdkproto.CompactionEnd) *End { return p.compacted(r.Event.Time, s) })
	}
	if t == nil {
		// What a resumed log repairs belongs to no turn of this process.
		return nil
	}
	switch r.Event.Type {
	case sdkproto.TypeStepStart:
		t.phase, t.asked, t.failed, t.limited, t.over = asking, r.Event.Time, false, nil, nil
	case sdkproto.TypeAssistantChunk:
		with(r, func(c *sdkproto.AssistantChunk) *End { p.chunk(r, &c.Chunk); return nil })
	case sdkproto.TypeLLMRetry:
		with(r, func(l *sdkproto.LLMRetry) *End { return p.retry(r.Event.Time, l) })
	case sdkproto.TypeLLMRetryStarted:
		t.asked = r.Event.Time
	case sdkproto.TypeAssistantMessage:
		with(r, func(m *sdkproto.AssistantMessage) *End { p.answer(t, r, m); return nil })
	case sdkproto.TypeToolCall:
		with(r, p.called)
	case sdkproto.TypeToolResult:
		with(r, func(m *sdkproto.ToolResult) *End {
			c, shown := p.main.result(ctx, p, &r.Event, m)
			if shown && m.Error != nil && m.Error.Code == codeDeferred {
				t.deferred = c
			}
			p.moved(p.main.id, c.id)
			return nil
		})
	case sdkproto.TypeStructuredOutput:
		with(r, func(o *sdkproto.StructuredOutput) *End { t.output = normal(o.Value); return nil })
	case sdkproto.TypeApprovalAsked, sdkproto.TypePermissionDecision:
		p.main.decided(p, r)
	case sdkproto.TypeBudgetLimited:
		with(r, func(l *sdkproto.BudgetLimited) *End { t.limited = l; return nil })
	case sdkproto.TypeBudgetExceeded:
		with(r, func(e *sdkproto.BudgetExceeded) *End { t.over = e; return nil })
	case sdkproto.TypeTurnEnd:
		return with(r, func(e *sdkproto.TurnEnd) *End { return p.ended(t, r.Event.Time, &e.Reason) })
	}
	return nil
}

// with decodes the payload of a record for f. One that cannot be decoded is not
// shown.
func with[T any](r *session.Record, f func(*T) *End) *End {
	if v, ok := r.Data.(*T); ok {
		return f(v)
	}
	v, err := session.Decode[T](r)
	if err != nil {
		return nil
	}
	return f(&v)
}

func (p *Projector) chunk(r *session.Record, c *sdkproto.Chunk) {
	t := p.turn
	if t == nil {
		return
	}
	p.asks(r.Event.Time)
	p.stream.chunk(r.Event.Seq, c)
	if c.Type == sdkproto.ChunkFinish && p.stream.reason == "" {
		t.failed = true
		t.replied(r.Event.Time)
	}
}

// asks says that a request is under way, which nothing has announced when it
// follows a compaction or goes to another model.
func (p *Projector) asks(now int64) {
	if t := p.turn; t != nil && t.phase == asking && t.asked == 0 {
		t.asked = now
	}
}

// replied says that a request has ended.
func (t *turn) replied(now int64) {
	if t.asked != 0 {
		t.apiMs += max(now-t.asked, 0)
		t.asked = 0
	}
}

// spliced finds the message that a turn is for when it is claimed. One that is
// dropped before its turn has begun gets its result all the same.
func (p *Projector) spliced(s *sdkproto.AgentInboxSpliced) *End {
	removed := p.inbox.splice(s)
	if p.handed == nil || !slices.Contains(removed, p.handed.UUID) {
		return nil
	}
	if s.Outcome == sdkproto.OutcomeCanceled {
		return p.dropped(textAborted)
	}
	if p.turn != nil && p.turn.told == nil {
		p.turn.told, p.handed = p.handed, nil
		if !p.turn.told.Began.IsZero() {
			p.turn.began = p.turn.told.Began
		}
	}
	return nil
}

func (p *Projector) dropped(text string) *End {
	one := &turn{told: p.handed, began: p.handed.Began, cost: p.account.cost}
	p.handed = nil
	return p.fail(one, streamjson.ResultExecution, streamjson.ReasonAbortedStreaming, text)
}

// header takes the model of the requests to come. One that changes after a failed
// attempt stands in for the model that did not answer (spec stream-json 12.3).
func (p *Projector) header(now int64, h *sdkproto.RequestHeader) *End {
	p.asks(now)
	before := p.model
	p.model = h.Header.Config.Model
	if p.turn != nil && p.turn.phase == asking && p.turn.failed && before != p.model {
		p.emit(&streamjson.Informational{
			Head: p.system(streamjson.SystemInformational), Level: "notice",
			Content: fmt.Sprintf("The model %s cannot answer; %s answers in its place for the rest of this turn.", before, p.model),
		})
	}
	return nil
}

func (p *Projector) retry(now int64, l *sdkproto.LLMRetry) *End {
	p.stream.cut()
	p.turn.failed = true
	p.turn.replied(now)
	p.emit(&streamjson.APIRetry{
		Head: p.system(streamjson.SystemAPIRetry), Attempt: l.Retry, MaxRetries: l.MaxRetries, RetryDelayMs: l.DelayMs,
		ErrorStatus: status(&l.Failure), Error: category(&l.Failure),
	})
	return nil
}

// answer shows a committed answer of the main thread.
func (p *Projector) answer(t *turn, r *session.Record, m *sdkproto.AssistantMessage) {
	t.replied(r.Event.Time)
	id, reason := p.stream.commit(m, p.main.answerID(&r.Event, m))
	t.answers++
	p.spend(m)
	if u := m.Usage; u != nil {
		t.usage.Add(u)
		p.context = u.InputTokens + u.CacheReadTokens + u.CacheWriteTokens + u.OutputTokens
	}
	p.main.answer(p, m, id, func(string) bool { return true })
	t.phase = answered
	for i := range m.Message.Content {
		switch b := &m.Message.Content[i]; {
		case b.Type == sdkproto.BlockToolCall:
			t.phase = calling
		case b.Type == sdkproto.BlockText && strings.TrimSpace(b.Text) != "":
			t.text = b.Text
		}
	}
	if m.Interrupted {
		t.phase = cut
		return
	}
	t.reason = reason
}

// called tells older scripts that a call is taken up.
func (p *Projector) called(c *sdkproto.ToolCall) *End {
	if p.options.Legacy {
		p.emit(&streamjson.LegacyToolStart{
			Head: p.head(streamjson.TypeToolStart, ""), ToolUseID: c.CallID, Name: c.Name, Input: input(c.Arguments),
		})
	}
	return nil
}

// asked counts a request beside those of any thread.
func (p *Projector) asked(s *sdkproto.SideRequest) *End {
	p.account.add(s.Provider, s.Model, s.Usage)
	return nil
}

// spend counts a committed answer of any thread.
func (p *Projector) spend(m *sdkproto.AssistantMessage) {
	p.account.add(m.Message.Source.Provider, m.Message.Source.Model, m.Usage)
}

// aborted says where a turn was that is cut off now.
func (t *turn) aborted() string {
	if t.phase == calling {
		return streamjson.ReasonAbortedTools
	}
	return streamjson.ReasonAbortedStreaming
}

// Texts of results.
const (
	textAborted = "Request was aborted."
	textBlocked = "The prompt was blocked by a hook."
)

// ended makes the result of a turn from the reason for its end (S026).
func (p *Projector) ended(t *turn, now int64, why *sdkproto.TurnEndReason) *End {
	p.stream.cut()
	t.replied(now)
	p.main.interrupt(p)
	p.turn = nil
	if why.Error != nil && why.Error.Code == llm.CodeBudget {
		return p.overBudget(t, why.Error.Message)
	}
	switch why.Kind {
	case sdkproto.EndCompleted:
		text := t.text
		if len(t.output) > 0 && len(t.output) <= maxContent/2 { // the line has it twice
			text = string(t.output)
		}
		return p.succeed(t, streamjson.ReasonCompleted, text)
	case sdkproto.EndMaxTokens:
		if l := t.limited; l != nil {
			t.over = &sdkproto.BudgetExceeded{Scope: l.Scope, Limit: l.Limit, Max: l.Max}
			return p.overBudget(t, fmt.Sprintf("the answer was cut off after %d tokens by the budget %s.%s", l.MaxTokens, l.Scope, l.Limit))
		}
		t.reason = streamjson.StopMaxTokens
		return p.succeed(t, streamjson.ReasonCompleted, t.text)
	case sdkproto.EndMaxSteps:
		return p.fail(t, streamjson.ResultMaxTurns, streamjson.ReasonMaxTurns, fmt.Sprintf("Reached maximum number of turns (%d)", t.answers))
	case sdkproto.EndAborted, sdkproto.EndInterrupted:
		if t.phase != opening && !(why.Reason != nil && why.Reason.Kind == sdkproto.AbortDisposed) {
			head := p.head(streamjson.TypeUser, "")
			head.UUID = streamjson.TurnUUID(p.options.SessionID, t.number)
			p.emit(&streamjson.User{
				Head: head, Origin: p.main.origin,
				Message: streamjson.UserContent{Role: sdkproto.RoleUser, Content: []streamjson.Block{{Type: streamjson.BlockText, Text: textInterrupted}}},
			})
		}
		if t.phase == asking {
			t.answers++ // the request that was cut off counts, as in the example of spec stream-json 3.7
		}
		return p.fail(t, streamjson.ResultExecution, t.aborted(), textAborted)
	case sdkproto.EndBlocked:
		return p.blocked(t, why)
	case sdkproto.EndDeferred:
		return p.deferred(t)
	case sdkproto.EndError:
		if why.Error != nil && why.Error.Code == structured.CodeRetries {
			return p.fail(t, streamjson.ResultStructured, streamjson.ReasonStructured, why.Error.Message)
		}
		if why.Error != nil && ofAPI(why.Error) {
			return p.apiFailed(t, why.Error)
		}
	}
	text := "The turn ended as " + why.Kind + "."
	if why.Error != nil {
		text = cmp.Or(why.Error.Message, why.Error.Code, text)
	}
	return p.fail(t, streamjson.ResultExecution, "", text)
}

// blocked is the end that a hook made: of the prompt, in which case the reason is
// the answer, or of a turn under way, which keeps what it has said (spec
// stream-json 6.3).
func (p *Projector) blocked(t *turn, why *sdkproto.TurnEndReason) *End {
	switch t.phase {
	case opening:
		text := textBlocked
		if why.Reason != nil {
			text = cmp.Or(why.Reason.Reason, text)
		}
		return p.succeed(t, "", text)
	case answered:
		return p.succeed(t, streamjson.ReasonStopHook, t.text)
	}
	return p.succeed(t, streamjson.ReasonHookStopped, t.text)
}

// codeDeferred is the code of the result that stands for a call which a hook has
// put off.
const codeDeferred = "TOOL_DEFERRED"

// deferred is the end of a turn with a call that a hook has put off.
func (p *Projector) deferred(t *turn) *End {
	t.reason = streamjson.StopDeferred
	end := p.succeed(t, streamjson.ReasonDeferred, t.text)
	if c := t.deferred; c.id != "" {
		end.Result.DeferredToolUse = &streamjson.DeferredTool{ID: c.id, Name: c.name, Input: c.input}
	}
	return end
}

// apiFailed is the end of a turn whose model request failed for good: an answer
// that the harness makes says so, and the result is a success that is an error
// (spec stream-json 12.1).
func (p *Projector) apiFailed(t *turn, f *sdkproto.Failure) *End {
	text := apiErrorText(f)
	head := p.head(streamjson.TypeAssistant, "")
	head.UUID = streamjson.TurnUUID(p.options.SessionID, t.number)
	p.synthetic(head, text, category(f))
	if t.phase == asking {
		t.answers++
	}
	reason := streamjson.ReasonAPIError
	if f.Code == llm.CodeContextWindow {
		reason = streamjson.ReasonPromptTooLong
	}
	end := p.end(t, streamjson.ResultSuccess, reason, text)
	end.Result.IsError = true
	end.Result.APIErrorStatus = json.RawMessage(`null`)
	if f.Status != 0 {
		end.Result.APIErrorStatus = strconv.AppendInt(nil, int64(f.Status), 10)
	}
	return end
}

// synthetic shows a text of the harness's own; kind is its category when it tells of
// an error, "" else.
func (p *Projector) synthetic(head streamjson.Head, text, kind string) {
	p.emit(&streamjson.Assistant{
		Head: head, Origin: p.main.origin, Error: kind,
		Message: streamjson.Message{
			ID: streamjson.MessageID("", head.UUID, 0), Type: "message", Role: "assistant", Model: streamjson.ModelSynthetic,
			Content: []streamjson.Block{{Type: streamjson.BlockText, Text: text}},
		},
	})
	if p.options.Legacy {
		p.emit(&streamjson.LegacyText{Head: p.head(streamjson.TypeText, ""), Text: text})
	}
}

// overBudget is the end of a turn that a budget has ended. One of money is the error
// of its own that spec stream-json 3.7 has for it.
func (p *Projector) overBudget(t *turn, text string) *End {
	if t.over == nil || t.over.Limit != sdkproto.BudgetUSD {
		return p.end(t, streamjson.ResultExecution, streamjson.ReasonBudget, text)
	}
	text = "Reached maximum budget ($" + strconv.FormatFloat(t.over.Max, 'f', -1, 64) + ")"
	end := p.end(t, streamjson.ResultMaxBudget, streamjson.ReasonBudget, text)
	if t.over.Scope == sdkproto.BudgetProcess {
		end.Overspent = text
	}
	return end
}

func (p *Projector) succeed(t *turn, reason, text string) *End {
	return p.end(t, streamjson.ResultSuccess, reason, text)
}

func (p *Projector) fail(t *turn, subtype, reason, text string) *End {
	if p.overspent != "" && subtype == streamjson.ResultExecution {
		subtype, reason, text = streamjson.ResultMaxBudget, streamjson.ReasonBudget, p.overspent
	}
	return p.end(t, subtype, reason, text)
}

// notified is the origin of a turn that nobody asked for (spec stream-json 11.1).
const notified = `{"kind":"task-notification"}`

// end makes the result, and takes the lines that belong in front of it. Those
// for older scripts end with the turn's usage (S031); behind an error result
// there may be nothing (F15).
func (p *Projector) end(t *turn, subtype, reason, text string) *End {
	if p.options.Legacy {
		u := usage(&t.usage)
		p.emit(&streamjson.LegacyUsage{
			Head: p.head(streamjson.TypeUsage, ""), InputTokens: u.InputTokens, OutputTokens: u.OutputTokens,
			CacheReadInputTokens: u.CacheReadInputTokens, CacheCreationInputTokens: u.CacheCreationInputTokens, CostUSD: p.account.cost - t.cost,
		})
	}
	r := &streamjson.Result{
		Head:       p.head(streamjson.TypeResult, subtype),
		DurationMs: max(p.options.Now().Sub(t.began).Milliseconds(), 0), DurationAPIMs: t.apiMs, NumTurns: t.answers, Result: text,
		TotalCostUSD: p.account.total(), ModelUsage: p.account.byModel(), TerminalReason: reason,
		Usage:             streamjson.TurnUsage{Usage: usage(&t.usage), ServiceTier: "standard"},
		PermissionDenials: []streamjson.Denial{}, StructuredOutput: t.output,
	}
	if subtype != streamjson.ResultSuccess {
		r.IsError, r.Errors = true, []string{text}
	}
	if t.reason != "" {
		r.StopReason = &t.reason
	}
	switch {
	case t.told == nil:
		r.Origin = json.RawMessage(notified)
	default:
		r.UserMessageUUID = t.told.UUID
		r.Origin = normal(t.told.Origin)
	}
	if p.options.Denials != nil && t.number > 0 {
		for _, d := range p.options.Denials(p.options.SessionID, t.number) {
			r.PermissionDenials = append(r.PermissionDenials, streamjson.Denial{
				ToolName: d.ToolName, ToolUseID: d.ToolUseID, ToolInput: input(string(d.ToolInput)),
			})
		}
	}
	return &End{Lines: p.flush(), Result: r}
}
