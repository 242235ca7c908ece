package session

import (
	"context"
	"errors"
	"fmt"

	"dsh/sdkproto"

	"github.com/google/uuid"
)

// State is every fold that a loop needs, fed from a store or a live log. The
// zero value is the state of an empty session.
type State struct {
	Surface  Surface
	Inbox    Inbox
	Header   HeaderFold
	Brackets Brackets
	Usage    Usage

	stream  stream
	claimed claims
}

// Apply takes up one record in every fold.
func (s *State) Apply(r *Record) error {
	if r.Event.Type == sdkproto.TypeAssistantMessage && r.Data == nil {
		// Three folds want it decoded.
		v, err := Decode[sdkproto.AssistantMessage](r)
		if err != nil {
			return err
		}
		decoded := *r
		decoded.Data = &v
		r = &decoded
	}
	// Claims come first: they look at the inbox as it was before the splice.
	if err := s.claimed.apply(r, &s.Inbox); err != nil {
		return err
	}
	for _, f := range [...]Fold{&s.Surface, &s.Inbox, &s.Header, &s.Brackets, &s.stream} {
		if err := f.Apply(r); err != nil {
			return err
		}
	}
	return s.Usage.apply(r, s)
}

// Load opens a stored session and folds it into state, which must be empty. The
// log continues the sequence and feeds state; nothing has been appended yet.
// Errors are those of Store.Open; a log that cannot be folded is ErrCorrupt.
func Load(ctx context.Context, st Store, id, cwd string, state *State) (*Log, error) {
	var h Header
	var next, last int64
	w, err := st.Open(ctx, id, cwd, func(hdr Header, r *Record) error {
		h, next, last = hdr, r.Event.Seq+1, max(last, r.Event.Time)
		if err := state.Apply(r); err != nil {
			return fmt.Errorf("%w: %w", ErrCorrupt, err)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if next == 0 {
		if h, err = st.Header(ctx, id); err != nil {
			return nil, errors.Join(err, w.Close())
		}
	}
	return NewLog(h, w, next, last, state), nil
}

// Texts of the results that a repair gives to open calls.
const (
	textNotStarted = "Error: this call was not run. The harness was stopped before the call started. " +
		"Call the tool again if the work is still needed."
	textOutcomeUnknown = "Error: the harness was stopped while this call was running, so its outcome is unknown: " +
		"it may have taken effect in full, in part or not at all. Check the present state before you repeat it."
)

// textCompactionStopped is the error of a compaction that a crash ended.
const textCompactionStopped = "the harness was stopped before the history was shortened"

// errorInterrupted is the error name of those results.
const errorInterrupted = "InterruptedError"

// Repairs gives the events that close what a crash left open, to be appended in
// one batch before anything else (spec jsonrpc 9.6 rule 4, case B42). In order:
// what had been streamed of an answer as an interrupted assistant/message, a
// result for every open call, compaction/end, step/end, turn/end with reason interrupted, and
// splices that put messages back which a turn had claimed but not yet shown to
// the model: each at the head of the list it came from. lastTime, the time of
// the log's last event, becomes theirs. It is empty for a session that was left
// in order, and after its events were applied.
func (s *State) Repairs(lastTime int64) []Draft {
	var out []Draft
	add := func(typ string, data any, sources ...int64) {
		out = append(out, Draft{Type: typ, Data: data, Sources: sources, Time: lastTime})
	}
	b := &s.Brackets
	if m := s.stream.message(b.Turn, b.Step, s.Header.Header); m != nil && b.StepOpen {
		add(sdkproto.TypeAssistantMessage, m, s.stream.seqs...)
	}
	for _, c := range b.Calls {
		if c.Started {
			add(sdkproto.TypeToolResult, s.repairResult(c, textOutcomeUnknown, sdkproto.CodeToolOutcomeUnknown), c.Seq)
		} else {
			add(sdkproto.TypeToolResult, s.repairResult(c, textNotStarted, sdkproto.CodeToolNotStarted))
		}
	}
	if c := b.Compaction; c != nil {
		add(sdkproto.TypeCompactionEnd, &sdkproto.CompactionEnd{CompactionID: c.CompactionID, Turn: c.Turn, Error: textCompactionStopped})
	}
	if b.StepOpen {
		add(sdkproto.TypeStepEnd, &sdkproto.StepEnd{Turn: b.Turn, Step: b.Step})
	}
	if b.TurnOpen {
		add(sdkproto.TypeTurnEnd, &sdkproto.TurnEnd{Turn: b.Turn, Reason: sdkproto.TurnEndReason{Kind: sdkproto.EndInterrupted}})
	}
	for _, target := range [...]string{sdkproto.TargetNextTurn, sdkproto.TargetNextStep} {
		if back := s.claimed.of(target); len(back) > 0 {
			add(sdkproto.TypeAgentInboxSpliced, &sdkproto.AgentInboxSpliced{Target: target, Inserted: back})
		}
	}
	return out
}

func (s *State) repairResult(c OpenCall, text, code string) *sdkproto.ToolResult {
	return &sdkproto.ToolResult{
		Turn: s.Brackets.Turn, Step: s.Brackets.Step,
		Message: sdkproto.Message{
			Source: sdkproto.Source{Kind: sdkproto.SourceTool, CallID: c.ID},
			Content: []sdkproto.Block{{
				Type: sdkproto.BlockToolResult, ToolCallID: c.ID, IsError: true, Content: []sdkproto.Block{sdkproto.Text(text)},
			}},
			Role: sdkproto.RoleUser, ID: uuid.NewString(),
		},
		Error: &sdkproto.ToolError{Name: errorInterrupted, Code: code},
	}
}
