// Package agent holds the contract between front ends and the agent loop: an
// agent takes messages into its inbox and reports through its log; the registry
// makes, finds and closes agents. A front end needs nothing else (S104).
package agent

import (
	"context"
	"errors"

	"dsh/kernel"
	"dsh/kernel/llm"
	"dsh/kernel/session"
	"dsh/kernel/tool"
	"dsh/sdkproto"
)

// Spec says what agent is wanted.
type Spec struct {
	// ID is the session's id: not empty, at most 200 bytes encoded (decision R17).
	ID string
	// CWD is the session's working directory; it is made absolute and cleaned.
	CWD   string
	Route llm.Route
	// Tools restricts the agent and its descendants; nil restricts nothing.
	Tools *tool.Filter
	// Parent is the delegating session's id, "" for a root; Depth is 0 for a root.
	Parent string
	Depth  int
	// ParentCall is the id of the call that delegated, "" for a root.
	ParentCall string
	// Seed are facts that a new session begins with, before any message: they are
	// appended when the watchers know the agent.
	Seed []session.Draft
	// Cut takes the end of the history out of a stored session that is opened, before
	// anything else happens in it; nil takes nothing. A session that is live is left
	// as it is.
	Cut *Cut
	// System changes the system prompt; nil leaves it as the sections make it.
	System *System
	// MaxSteps bounds the model requests of one turn; 0 leaves it to the loop.
	MaxSteps int
	// Type is the name of the Definition that the agent was made from, "" without.
	Type string
	// Label says in a few words what a delegated agent is for, "" for a root.
	Label string
	// Format is the format of model APIs that the client named, one of llm.Formats:
	// names of models that agents ask for are resolved under it. "" is none.
	Format string
	// Fallbacks answer in turn, for the rest of a turn, where the model of Route is
	// overloaded or not there.
	Fallbacks []llm.Route
}

// Cut names the message of a history that becomes its last one (spec stream-json
// 10.4): Seq is that of its event, Blocks how many of its blocks stay, 0 for all.
// Behind are facts that are appended in the place of what goes.
type Cut struct {
	Seq    int64
	Blocks int
	Behind []session.Draft
}

// System is what a client says about the system prompt (S036).
type System struct {
	// Replace takes the place of all sections; "" is a session without a system
	// prompt. nil keeps them.
	Replace *string
	// Append comes behind either, after a blank line.
	Append string
}

// Mode says what Open may do.
type Mode int

const (
	// OpenAny takes the live agent, else resumes the stored session, else makes a
	// new one.
	OpenAny Mode = iota
	// OpenResume fails with session.ErrNotFound instead of making a new one.
	OpenResume
	// OpenNew fails with session.ErrExists when there is one.
	OpenNew
)

// Errors of agents and registries.
var (
	// ErrClosing: the process or the agent is coming to rest; no new work.
	ErrClosing = errors.New("agent is closing")
	// ErrInboxFull: the inbox holds as many messages as it may.
	ErrInboxFull = errors.New("too many queued prompts")
)

// Registry makes, finds and closes agents. All methods may be called from any
// goroutine; those that touch one id are transactions: two racing Opens give
// one agent.
type Registry interface {
	// Open gives the agent of spec.ID as mode says (decision D9). A live agent is
	// returned as it is, whatever else spec says. Errors: those of CheckRoute and
	// CheckTools, session.ErrOtherCWD and the store's, ErrClosing. A failed Open
	// leaves nothing on the disk and may be tried again.
	Open(ctx context.Context, spec Spec, mode Mode) (Agent, error)
	// Get gives a live agent.
	Get(id string) (Agent, bool)
	// Close ends an agent: cancels its turn with cause, drops its queue, syncs and
	// releases the session. An unknown id is no error.
	Close(ctx context.Context, id string, cause Cause) error
	// CheckRoute resolves a route, or says why it cannot be used.
	CheckRoute(llm.Route) (llm.Route, error)
	// CheckTools refuses an empty filter and names no tool has (spec jsonrpc 4.2).
	CheckTools(*tool.Filter) error
	// Watch calls fn for every agent that is live and every one to come, before
	// the agent's first new event, until o is closed. fn must not block.
	Watch(o *kernel.Owner, fn func(Agent, Spec)) error
	// Events hands the events of a stored session, live or not, from seq `from` on
	// to fn, in order; it opens nothing. What is appended meanwhile may be missing.
	// Errors: session.ErrNotFound and the store's, those of fn.
	Events(ctx context.Context, id string, from int64, fn func(*session.Record) error) error
	// List gives the stored sessions of cwd ("" for all), newest first.
	List(ctx context.Context, cwd string) ([]session.Header, error)
	// Delete closes the agent, if live, and removes the session.
	Delete(ctx context.Context, id string) error
}

// Cause says why something is cancelled.
type Cause struct {
	// Kind is one of sdkproto's Abort kinds.
	Kind string
	// Reason is a hook's text.
	Reason string
}

// Message is one message for an inbox.
type Message struct {
	// ID is the message's: a UUID that is new in the session, or "" to have one made.
	ID string
	// Content is kept verbatim.
	Content []sdkproto.Block
	Source  sdkproto.Source
	// Target is a sdkproto Target.
	Target string
}

// Receipt says what became of a posted message.
type Receipt struct {
	// ID is the message's; "" when it was refused.
	ID string
	// Seq is that of the event that put it into the inbox.
	Seq int64
	// Err says why it was refused: ErrInboxFull, ErrClosing, the log's.
	Err error

	durable func(context.Context) error
}

// NewReceipt makes the receipt of a message that was accepted. durable returns
// when it is on the disk, each time it is called.
func NewReceipt(id string, seq int64, durable func(context.Context) error) Receipt {
	return Receipt{ID: id, Seq: seq, durable: durable}
}

// Wait returns when the message is on the disk, with Err when it was refused. It
// may be called again.
func (r Receipt) Wait(ctx context.Context) error {
	if r.Err != nil || r.durable == nil {
		return r.Err
	}
	return r.durable(ctx)
}

// Agent is one live session with its loop. All methods may be called from any
// goroutine.
type Agent interface {
	ID() string
	// Spec is what the agent was opened with; ID and CWD are the session's, and
	// Route is the one of the turn that runs, or else of the next.
	Spec() Spec
	// Life ends when the agent is closed.
	Life() context.Context
	Log() *session.Log
	Status() sdkproto.Status
	// Send puts a message into the inbox, wakes the agent, and returns the id of
	// the message once it is on the disk. target is a sdkproto Target; content is
	// kept verbatim. Errors: ErrInboxFull, ErrClosing, the log's.
	Send(ctx context.Context, content []sdkproto.Block, source sdkproto.Source, target string) (messageID string, err error)
	// Post is Send without the wait, for any number of messages at one moment: no
	// turn begins or ends between their receipts, so the agent cannot come to rest
	// there (spec jsonrpc 7.2). It gives one Receipt for each message, in order.
	Post(messages ...Message) []Receipt
	// Cancel ends the running turn and drops the queue; with a messageID it drops
	// that message from the queue, or ends the turn that runs for it. It reports
	// whether there was anything to cancel, and does not wait for the turn's end.
	Cancel(cause Cause, messageID string) bool
	// Reroute has the turns that open from now on answered by another model; one
	// that runs keeps its own (S061). Errors: those of Registry.CheckRoute.
	Reroute(llm.Route) error
	// WhenIdle returns when the agent is idle.
	WhenIdle(ctx context.Context) error
}
