package compaction

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"dsh/kernel/agent"
	"dsh/kernel/compaction"
	"dsh/kernel/llm"
	"dsh/kernel/session"
	"dsh/sdkproto"
)

// room is the attempt to make room before one model request.
type room struct {
	*Keeper
	step    agent.Step
	account *account
	// goal is what the context should come down to, keep how much of its end stays.
	goal, keep int64
	// told says that hooks have let this round begin.
	told bool
	// order is what somebody asked for, nil when nobody did.
	order *compaction.Order
}

// leastSpan is the part of the goal that a span must have to be worth a summary.
const leastSpan = 5

// make takes the measures one after the other until there is room. It takes none
// where all of them would not be enough: the history would be lost for nothing.
func (r *room) make(ctx context.Context) (changed bool, err error) {
	h := look(&r.step)
	if window := r.step.Info.ContextWindow; window > 0 && h.least(r.config.PruneOver) > window {
		return false, nil
	}
	changed, err = r.prune(h)
	// Each round leaves one message of what it takes, so that the rounds end; there
	// are two spans, and more rounds would find little.
	for range 3 {
		if err != nil {
			return changed, err
		}
		h = look(&r.step)
		if h.tokens <= r.goal {
			break
		}
		s, ok := h.largest(r.keep, max(r.goal/leastSpan, 1))
		if !ok {
			break
		}
		switch err = r.replace(ctx, h, s); {
		case err == nil:
			changed = true
		case errors.Is(err, errNoAttempt), errors.Is(err, errForbidden) && r.step.Refused == nil:
			return changed, nil
		}
	}
	return changed, err
}

// What stands in for a span of the history.
const (
	textSummary = "A part of the conversation was taken out here to make room. This summary stands in its place:\n\n"
	textNote    = "A part of the conversation was left out here to make room, and there is no summary of it. " +
		"Look again at what you need to know, or ask."
	textCutOff = "\n\n[The summary ends here because it became too long.]"
)

// errNoAttempt says that no summary may be asked for any more.
var errNoAttempt = errors.New("no more summaries may be asked for before this model request")

// replace puts a summary in the place of a span, in one bracket of events. When
// there is no summary to be had, and the provider has refused the history as it
// is, a note takes its place.
func (r *room) replace(ctx context.Context, h *history, s span) error {
	if err := r.before(ctx); err != nil {
		return err
	}
	id := uuid.NewString()
	start, end := r.bracket(id)
	must := r.order == nil && (r.step.Refused != nil || r.config.Attempts == 0)
	w, err := r.writer()
	if err == nil && r.account.calls >= r.config.Attempts {
		err = errNoAttempt
	}
	if err != nil {
		if !must {
			return err
		}
		r.leftOut(s, err)
		if err := r.append(append([]session.Draft{start}, append(w.replacement(id, h, s, textNote), end(""))...)...); err != nil {
			return err
		}
		r.after(ctx, textNote)
		return nil
	}
	// The bracket is open while the model writes.
	if err := r.append(start); err != nil {
		return err
	}
	text, err := r.summarise(ctx, w, h, s)
	if err == nil {
		text = textSummary + text
		if r.order == nil {
			err = r.worthIt(text, s)
		}
	}
	switch {
	case err == nil:
	case must && ctx.Err() == nil:
		r.leftOut(s, err)
		text = textNote
	default:
		return errors.Join(err, r.append(append(w.wasted(), end(err.Error()))...))
	}
	if err := r.append(append(w.replacement(id, h, s, text), end(""))...); err != nil {
		return err
	}
	r.after(ctx, text)
	return nil
}

// bracket gives the event that opens a compaction, and the one that closes it.
func (r *room) bracket(id string) (start session.Draft, end func(why string) session.Draft) {
	turn, command := &r.step.Turn, ""
	if r.order != nil {
		turn, command = nil, r.order.CommandID
	}
	start = session.Draft{Type: sdkproto.TypeCompactionStart, Data: &sdkproto.CompactionStart{CompactionID: id, SourceCommandID: command, Turn: turn}}
	return start, func(why string) session.Draft {
		return session.Draft{Type: sdkproto.TypeCompactionEnd, Data: &sdkproto.CompactionEnd{CompactionID: id, Turn: turn, Error: why}}
	}
}

func (r *room) append(drafts ...session.Draft) error {
	if _, err := r.step.Agent.Log().Append(drafts...); err != nil {
		return fmt.Errorf("compact session %s: %w", r.step.Agent.ID(), err)
	}
	return nil
}

func (r *room) leftOut(s span, why error) {
	r.log.Warn("a part of a history is left out without a summary", "session", r.step.Agent.ID(), "messages", s.to-s.from, "reason", why)
}

// replacement puts a text in the place of a span; it costs what the writer has
// used for it.
func (w *writer) replacement(id string, h *history, s span, text string) []session.Draft {
	seqs := h.seqs(s)
	shadowed := sdkproto.ShadowedRange{Start: seqs[0], End: seqs[len(seqs)-1]}
	content := []sdkproto.Block{sdkproto.Text(text)}
	usage, requests := w.usage()
	return []session.Draft{
		{Type: sdkproto.TypeCompactionSummary, Data: &sdkproto.CompactionSummary{
			CompactionID: id, Summary: content, ShadowedRange: shadowed, ShadowedSeqs: seqs, ShadowedTokenCount: s.tokens,
			Provider: w.config.Provider, Model: w.config.Model, MaxTokens: w.config.MaxTokens, Usage: usage, Requests: requests,
		}},
		{Type: sdkproto.TypeUserMessage, Surface: session.Replace(shadowed.Start, shadowed.End), Data: sdkproto.Message{
			Content: content, Role: sdkproto.RoleUser, ID: uuid.NewString(),
			Source: sdkproto.Source{Kind: sdkproto.SourcePlugin, Plugin: name, Form: "recall"},
		}},
	}
}

// wasted gives what the writer has used for a summary that nobody gets.
func (w *writer) wasted() (drafts []session.Draft) {
	for i := range w.requests {
		drafts = append(drafts, session.Draft{Type: sdkproto.TypeSideRequest, Ignorable: true, Data: &sdkproto.SideRequest{
			Purpose: sdkproto.AsideCompaction, Provider: w.config.Provider, Model: w.config.Model, Usage: &w.requests[i],
		}})
	}
	return drafts
}

// worthIt refuses a text that is not shorter than what it stands for.
func (r *room) worthIt(text string, s span) error {
	var tokens int64
	r.step.Agent.Log().View(func() {
		tokens = r.step.State.Usage.Estimate(sdkproto.Message{Content: []sdkproto.Block{sdkproto.Text(text)}})
	})
	if tokens < s.tokens {
		return nil
	}
	return fmt.Errorf("the summary has %d tokens and would stand for %d", tokens, s.tokens)
}

func tooLong(err error) bool {
	var e *llm.Error
	return errors.As(err, &e) && e.Code == llm.CodeContextWindow
}

func retryable(err error) bool {
	var e *llm.Error
	return errors.As(err, &e) && e.Retryable() && e.Code != llm.CodeEmptyResponse
}
