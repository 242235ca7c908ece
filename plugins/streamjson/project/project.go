// Package project shows what happens in a session as lines of the stream-json
// wire (spec stream-json 3): a pure function of the session's log, of the logs of
// its subagents, and of what the front end knows of a turn. It writes nothing
// itself.
package project

import (
	"context"
	"encoding/json"
	"time"

	"dsh/kernel/agent"
	"dsh/kernel/approval"
	"dsh/kernel/llm"
	"dsh/kernel/session"
	"dsh/sdkproto"
	"dsh/sdkproto/streamjson"
)

// Options say how a session is shown.
type Options struct {
	// SessionID is the session at the root, a UUID.
	SessionID string
	// Partial adds stream_event lines, Legacy the lines of spec 3.14;
	// ForwardSubagentText shows a subagent's text and thinking, too.
	Partial, Legacy, ForwardSubagentText bool
	// Info says what is known of a model, its prices above all; it may be nil.
	Info func(provider, model string) llm.Info
	// Denials lists the refused calls of a turn; it may be nil.
	Denials func(sessionID string, turn int) []approval.Denial
	// Image reads the bytes of an attachment; nil where none are kept.
	Image func(ctx context.Context, a *sdkproto.Attachment) ([]byte, error)
	// UUID makes a line's uuid, Now is the clock; nil are random ones and the real
	// one.
	UUID func() string
	Now  func() time.Time
}

// Turn is what the front end knows of the user message that it handed to the
// agent.
type Turn struct {
	// UUID is the message's, as the client knows it and the log has it.
	UUID string
	// Origin is copied into the result; nil for none.
	Origin json.RawMessage
	// Began is when the message was taken from the queue.
	Began time.Time
}

// End is the end of a turn.
type End struct {
	// Lines come before the result: a synthetic answer that tells of an error of
	// the API, the legacy usage line.
	Lines [][]byte
	// Result is complete but for what only the front end knows, such as the number
	// of messages in the queue.
	Result *streamjson.Result
}

// Projector follows one session. It is used by one goroutine.
type Projector struct {
	options Options
}

// New makes a projector for a session that begins, or goes on, now.
func New(o Options) *Projector { return &Projector{options: o} }

// Begin says which message the next turn is for. A turn that begins without is
// one that nobody asked for: its result has the origin task-notification.
func (p *Projector) Begin(t Turn) {}

// Child tells of a subagent, before its first entry.
func (p *Projector) Child(spec agent.Spec) {}

// Entry takes the next entry of the session, or of a subagent, and gives the
// lines that it adds, in order; end is not nil when it ends a turn of the session.
func (p *Projector) Entry(ctx context.Context, e session.Entry) (lines [][]byte, end *End) {
	return nil, nil
}

// Local makes the end of a turn that needed no model: a blank prompt, a refused
// message, a command that is answered here. It counts no model request. failed
// makes it an error_during_execution with text as its reason.
func (p *Projector) Local(t Turn, text string, failed bool) *End { return &End{} }

// Cost is what the session has cost so far, in US dollars.
func (p *Projector) Cost() float64 { return 0 }
