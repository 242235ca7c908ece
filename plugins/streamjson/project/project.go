// Package project shows what happens in a session as lines of the stream-json
// wire (spec stream-json 3): a pure function of the session's log, of the logs of
// its subagents, and of what the front end knows of a turn. It writes nothing
// itself.
//
// An answer is shown when it is committed, one line for each block, so that what
// a failed attempt had said is in no line but stream_event (decision R7, case
// B56); a stream_event line comes with its piece. So the events of an answer, to
// its message_stop, stand in front of its assistant lines (case B98).
//
// A uuid of an assistant line follows from the message's id and the block's
// place in it, that of a tool's result is the message's; those of a boundary and of
// the line that tells how a turn failed follow from the compaction and the turn: a
// transcript made of the same log has the same ones. All others are random.
package project

import (
	"context"
	"encoding/json"
	"time"

	"dsh/kernel/approval"
	"dsh/kernel/job"
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
	// Job gives what this process knows of a task; it may be nil.
	Job func(taskID string) (job.Job, bool)
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
	// Overspent is the text of the result when the turn has ended because the money
	// of the whole process is used up, "" else (spec stream-json 11.3).
	Overspent string
}

// Projector follows one session. It is used by one goroutine.
type Projector struct {
	options  Options
	random   random
	account  account
	inbox    inbox
	main     thread
	children map[string]*child
	// tasks are those that have not ended, in the order in which they began; known
	// are the ids of all.
	tasks []*task
	known map[string]bool
	// handed is the message whose turn has not begun, turn the one that runs; nil
	// without.
	handed *Turn
	turn   *turn
	stream *bracket
	// model is that of the requests to come.
	model string
	// context is how many tokens the last request of the main thread held.
	context int64
	compact compaction
	// overspent is the text of results once the money is used up, "" before.
	overspent string
	out       [][]byte
}

// New makes a projector for a session that begins, or goes on, now.
func New(o Options) *Projector {
	if o.Now == nil {
		o.Now = time.Now
	}
	p := &Projector{
		options: o, main: thread{id: o.SessionID}, children: map[string]*child{}, known: map[string]bool{},
		account: account{info: o.Info, models: map[string]*modelAccount{}},
	}
	p.stream = &bracket{p: p}
	if o.Partial {
		p.stream.events = streamjson.NewStream(o.SessionID)
	}
	return p
}

// Begin says which message the next turn is for, before the message is posted. A
// turn that begins without is one that nobody asked for: its result has the
// origin task-notification.
func (p *Projector) Begin(t Turn) { p.handed = &t }

// Overspent says that the money of the process is used up, in the words of End: every
// end of Local that failed is one with error_max_budget_usd from now on.
func (p *Projector) Overspent(text string) { p.overspent = text }

// Past takes a record that a session which goes on, or a subagent of it, had
// before this process: the total cost begins with what it had come to.
func (p *Projector) Past(r *session.Record) {
	switch r.Event.Type {
	case sdkproto.TypeAssistantMessage:
		with(r, func(m *sdkproto.AssistantMessage) *End {
			p.account.before(m.Message.Source.Provider, m.Message.Source.Model, m.Usage)
			return nil
		})
	case sdkproto.TypeCompactionSummary:
		with(r, func(s *sdkproto.CompactionSummary) *End {
			summarised(s, p.account.before)
			return nil
		})
	case sdkproto.TypePromptSuggestion:
		with(r, func(s *sdkproto.PromptSuggestion) *End {
			p.account.before(s.Provider, s.Model, s.Usage)
			return nil
		})
	case sdkproto.TypeSideRequest:
		with(r, func(s *sdkproto.SideRequest) *End {
			p.account.before(s.Provider, s.Model, s.Usage)
			return nil
		})
	}
}

// Total is what the session has cost, in US dollars: in this process, and before.
func (p *Projector) Total() float64 { return p.account.total() }

// Entry takes the next entry of the session, or of a subagent, and gives the
// lines that it adds, in order; end is not nil when it ends a turn of the session.
func (p *Projector) Entry(ctx context.Context, e session.Entry) (lines [][]byte, end *End) {
	switch {
	case e.SessionID != p.options.SessionID:
		p.childEntry(ctx, e)
	case e.Record != nil:
		end = p.record(ctx, e.Record)
	}
	return p.flush(), end
}

// Stop ends what is under way without the log: the process ends, or the log takes
// no more. Every block, call and task that was begun gets its end in lines, and
// the turn that runs, or the message that waits for one, a result of
// error_during_execution with text as its reason; end is nil when there is
// neither.
func (p *Projector) Stop(text string) (lines [][]byte, end *End) {
	p.stream.cut()
	p.main.interrupt(p)
	p.endTasks(every)
	t := p.turn
	p.turn = nil
	switch {
	case p.handed != nil:
		// A turn that nobody asked for ends without a result, then.
		end = p.dropped(text)
	case t != nil:
		end = p.fail(t, streamjson.ResultExecution, t.aborted(), text)
	}
	return p.flush(), end
}

// Models is what each model has used in this process, by its id.
func (p *Projector) Models() map[string]streamjson.ModelUsage { return p.account.byModel() }

// Say shows a text that the harness made as an answer; the next End has its lines.
func (p *Projector) Say(text string) { p.synthetic(p.head(streamjson.TypeAssistant, ""), text, "") }

// Local makes the end of a turn that needed no model: a blank prompt, a refused
// message, a command that is answered here. It counts no model request. failed
// makes it an error_during_execution with text as its reason.
func (p *Projector) Local(t Turn, text string, failed bool) *End {
	if p.handed != nil && p.handed.UUID == t.UUID {
		p.handed = nil // it was refused by the agent
	}
	one := &turn{told: &t, began: t.Began, cost: p.account.cost}
	if failed {
		return p.fail(one, streamjson.ResultExecution, "", text)
	}
	return p.succeed(one, streamjson.ReasonCompleted, text)
}
