package headless

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"dsh/kernel"
	"dsh/kernel/agent"
	"dsh/kernel/llm"
	"dsh/kernel/session"
	"dsh/sdkproto"
	"dsh/sdkproto/wirejson"
)

// Outcome is what a run came to, the one line of output json.
type Outcome struct {
	// Result is the text of the last answer, without reasoning and calls.
	Result string `json:"result"`
	// FinishReason is the kind with which the turn ended, one of the sdkproto.End
	// constants or a newer one; error, too, when there was no turn.
	FinishReason string `json:"finishReason"`
	// Usage is the sum over the model requests of this run.
	Usage     sdkproto.Usage `json:"usage"`
	SessionID string         `json:"sessionId"`
	// DurationMs is the time from the whole prompt to the end, in milliseconds.
	DurationMs int64 `json:"durationMs"`
	// Error says what went wrong when FinishReason is error.
	Error *sdkproto.Failure `json:"error,omitzero"`
}

// view shows a session to whoever started the run, and keeps its outcome.
type view struct {
	form     string
	out, err io.Writer
	stop     context.CancelCauseFunc

	// mu is held while something is shown: for as long as a reader takes.
	mu      sync.Mutex
	outcome Outcome
	// began is set by the start of a turn, over by finish.
	began, over bool
	// fresh says that a block of text begins; printed that there was text before,
	// and open that its last line has no end.
	fresh, printed, open bool
	// names are those of the tools by call id.
	names map[string]string
	// failed is the error of the output.
	failed error
}

func newView(form, id string, out, err io.Writer, stop context.CancelCauseFunc) *view {
	return &view{form: form, out: out, err: err, stop: stop, outcome: Outcome{SessionID: id}, names: map[string]string{}}
}

func (v *view) write(b []byte) {
	if v.failed != nil {
		return
	}
	if _, err := v.out.Write(b); err != nil {
		v.failed = fmt.Errorf("write the outcome: %w", err)
		v.stop(v.failed) // there is nobody to run for
	}
}

// entry shows what a subscription hands on.
func (v *view) entry(e session.Entry) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if e.Record == nil || v.over {
		return nil
	}
	if v.form == OutputEvents {
		v.write(append(append(make([]byte, 0, len(e.Record.Raw)+1), e.Record.Raw...), '\n'))
	}
	if err := v.event(e.Record); err != nil {
		err = fmt.Errorf("show the turn: %w", err)
		v.stop(err)
		return err
	}
	return nil
}

func (v *view) event(r *session.Record) error {
	switch r.Event.Type {
	case sdkproto.TypeAssistantChunk:
		return with(r, func(c sdkproto.AssistantChunk) { v.chunk(c.Chunk) })
	case sdkproto.TypeAssistantMessage:
		return with(r, func(m sdkproto.AssistantMessage) {
			v.outcome.Result = sdkproto.TextOf(m.Message.Content)
			if m.Usage != nil {
				v.outcome.Usage.Add(m.Usage)
			}
		})
	case sdkproto.TypeToolCall:
		return with(r, func(c sdkproto.ToolCall) {
			v.names[c.CallID] = c.Name
			v.note("* %s %s", c.Name, oneLine(c.Arguments))
		})
	case sdkproto.TypeToolResult:
		if r.Event.Replaces() {
			return nil
		}
		return with(r, func(t sdkproto.ToolResult) {
			for _, b := range t.Message.Content {
				if b.IsError {
					v.note("! %s: %s", v.names[b.ToolCallID], oneLine(sdkproto.TextOf(b.Content)))
				}
				delete(v.names, b.ToolCallID)
			}
		})
	case sdkproto.TypeLLMRetry:
		return with(r, func(l sdkproto.LLMRetry) {
			v.note("! %s; retry %d of %d in %d ms", oneLine(l.Failure.Message), l.Retry, l.MaxRetries, l.DelayMs)
		})
	case sdkproto.TypeAgentInboxSpliced:
		return with(r, func(s sdkproto.AgentInboxSpliced) {
			if len(s.Inserted) > 0 {
				// What a resumed log has to say about earlier turns is not the outcome.
				v.outcome.FinishReason, v.outcome.Error = "", nil
			}
		})
	case sdkproto.TypeTurnStart:
		v.began = true
	case sdkproto.TypeTurnEnd:
		return with(r, func(t sdkproto.TurnEnd) {
			v.outcome.FinishReason, v.outcome.Error = t.Reason.Kind, t.Reason.Error
		})
	}
	return nil
}

func with[T any](r *session.Record, f func(T)) error {
	payload, err := session.Decode[T](r)
	if err == nil {
		f(payload)
	}
	return err
}

func (v *view) chunk(c sdkproto.Chunk) {
	if v.form != OutputText {
		return
	}
	switch {
	case c.Type == sdkproto.ChunkBlockStart && c.BlockType == sdkproto.BlockText:
		v.fresh = true
	case c.Type == sdkproto.ChunkTextDelta && c.Text != "":
		if v.fresh && v.printed {
			v.endLine()
			v.write([]byte("\n"))
		}
		v.write([]byte(c.Text))
		v.fresh, v.printed, v.open = false, true, !strings.HasSuffix(c.Text, "\n")
	}
}

func (v *view) endLine() {
	if v.open {
		v.write([]byte("\n"))
		v.open = false
	}
}

// note tells people what happens beside the answer.
func (v *view) note(format string, args ...any) {
	if v.form != OutputText {
		return
	}
	v.endLine()
	fmt.Fprintf(v.err, format+"\n", args...)
}

// say is note for those who do not show an event.
func (v *view) say(format string, args ...any) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.note(format, args...)
}

// finish writes what is left to write and gives the exit code: 0 for a
// completed turn, 1 for any other end. err is what kept the turn from its end.
func (v *view) finish(err error, took time.Duration) int {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.over = true
	v.endLine()
	o := &v.outcome
	o.DurationMs = took.Milliseconds()
	switch {
	case errors.Is(err, errEnding) || errors.Is(err, agent.ErrClosing):
		o.FinishReason = sdkproto.EndAborted
		fmt.Fprintln(v.err, "dsh: stopped before the turn began")
	case err != nil:
		failure := llm.Failure(err)
		o.FinishReason, o.Error = sdkproto.EndError, &failure
		fmt.Fprintf(v.err, "dsh: %v\n", err)
	case o.FinishReason == sdkproto.EndCompleted:
	case o.Error != nil:
		fmt.Fprintf(v.err, "dsh: the turn failed: %s (%s)\n", o.Error.Message, o.Error.Code)
	case o.FinishReason == "" && !v.began:
		o.FinishReason = sdkproto.EndAborted
		fmt.Fprintln(v.err, "dsh: the prompt was dropped before its turn began")
	case o.FinishReason == "":
		o.FinishReason = sdkproto.EndError
		o.Error = &sdkproto.Failure{Code: llm.CodeInternal, Message: "the end of the turn could not be recorded"}
		fmt.Fprintf(v.err, "dsh: %s\n", o.Error.Message)
	default:
		fmt.Fprintf(v.err, "dsh: the turn ended early: %s\n", o.FinishReason)
	}
	if v.form == OutputJSON {
		line, err := wirejson.Marshal(o)
		if err != nil {
			fmt.Fprintf(v.err, "dsh: encode the outcome: %v\n", err)
			return kernel.ExitFailure
		}
		v.write(append(line, '\n'))
	}
	if o.FinishReason != sdkproto.EndCompleted || v.failed != nil {
		return kernel.ExitFailure
	}
	return kernel.ExitOK
}

// shownRunes is how much of a call or an error people are shown.
const shownRunes = 200

// oneLine makes text safe and short for a terminal.
func oneLine(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if utf8.RuneCountInString(s) > shownRunes {
		s = string([]rune(s)[:shownRunes]) + "…"
	}
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, s)
}
