// Package approval holds the contract of questions: a call that policy neither
// allows nor refuses, or an MCP server that wants something from the user, is
// put to whoever can answer for the session. With nobody there the answer is
// Unavailable at once: a question never blocks for want of somebody to ask
// (case B20).
package approval

import (
	"context"
	"encoding/json"
	"slices"
	"sync"

	"dsh/kernel"
)

// Outcome is how a question was settled; the words are those of the event
// approval/decided (spec jsonrpc 5.6).
type Outcome string

// Outcomes of a question.
const (
	AllowedOnce Outcome = "allowed-once"
	Rejected    Outcome = "rejected"
	Cancelled   Outcome = "cancelled"
	// Unavailable: nobody could be asked, or nobody answered in time.
	Unavailable Outcome = "unavailable"
)

// Request asks whether a tool call may run.
type Request struct {
	// ID names the question, a UUID.
	ID        string
	SessionID string
	// ToolName and CallID are those of the call; Arguments is a JSON object.
	ToolName  string
	CallID    string
	Arguments json.RawMessage
	// Reason says why policy asks, in a sentence; ReasonType is one of the Reason
	// constants.
	Reason, ReasonType string
	// BlockedPath is the path that led to the question, "" for none. Rule and Scope
	// name the rule that did.
	BlockedPath string
	Rule, Scope string
	// Suggestions are changes of policy that would spare the next such question.
	Suggestions []Update
}

// Answer settles a Request. Everything but AllowedOnce refuses the call.
type Answer struct {
	Outcome Outcome
	// Message is shown to the model when the call is refused; it may be empty.
	Message string
	// Arguments, when not nil, replace those of the call. They are checked again.
	Arguments json.RawMessage
	// Updates change the policy before the call goes on, whatever the outcome.
	// Those that make no sense are left out and logged; the outcome stands.
	Updates []Update
	// Interrupt ends the turn of a refused call, as if the user had.
	Interrupt bool
}

// Elicitation is a question of an MCP server to the user (S069).
type Elicitation struct {
	// SessionID is the session whose call led to it, "" when none did.
	SessionID string
	Server    string
	Message   string
	// ID names the question of a server that asks to visit a page, "" else.
	ID string
	// Schema is the JSON Schema of the answer, nil for none; URL is set when the
	// user is asked to visit a page instead.
	Schema json.RawMessage
	URL    string
}

// Actions of an ElicitationAnswer.
const (
	ActionAccept  = "accept"
	ActionDecline = "decline"
	ActionCancel  = "cancel"
)

// ElicitationAnswer settles an Elicitation.
type ElicitationAnswer struct {
	// Action is one of the Action constants; Content, a JSON object, goes with
	// accept.
	Action  string
	Content json.RawMessage
}

// Approver answers questions. Its methods return soon after ctx has ended and
// may be called from any goroutine.
type Approver interface {
	// Serves says whether it can answer for a session now.
	Serves(sessionID string) bool
	// Approve settles a question; an error counts as Unavailable and is told to
	// the model.
	Approve(ctx context.Context, r Request) (Answer, error)
}

// Elicitor is an Approver that can also put the questions of MCP servers.
type Elicitor interface {
	Approver
	Elicit(ctx context.Context, e Elicitation) (ElicitationAnswer, error)
}

// Reviewer is an arbiter that hears how elicitations were answered, and may answer
// otherwise.
type Reviewer interface {
	Approver
	Review(ctx context.Context, e Elicitation, answer ElicitationAnswer) ElicitationAnswer
}

// Desk is where questions go; whoever can answer registers there.
type Desk struct {
	mu        sync.Mutex
	approvers []*approver
	arbiters  []*approver
}

type approver struct {
	owner *kernel.Owner
	Approver
}

// NewDesk makes a desk with nobody behind it.
func NewDesk() *Desk { return &Desk{} }

// Register puts a behind the desk until o is closed. The one registered last
// is asked, of those that serve a session.
func (d *Desk) Register(o *kernel.Owner, name string, a Approver) error {
	return d.put(o, "approver "+name, a, &d.approvers)
}

// Arbitrate puts a beside the desk until o is closed: it hears every question
// for a session that it serves at the same time as the approver, and settles it
// if it is the first. An Answer without an Outcome is no opinion (spec
// stream-json 6.5 rule 3).
func (d *Desk) Arbitrate(o *kernel.Owner, name string, a Approver) error {
	return d.put(o, "arbiter "+name, a, &d.arbiters)
}

func (d *Desk) put(o *kernel.Owner, name string, a Approver, list *[]*approver) error {
	one := &approver{o, a}
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := o.OnClose(name, func(context.Context) error {
		d.mu.Lock()
		defer d.mu.Unlock()
		*list = slices.DeleteFunc(slices.Clone(*list), func(x *approver) bool { return x == one })
		return nil
	}); err != nil {
		return err
	}
	*list = append(slices.Clone(*list), one)
	return nil
}

// For gives whoever answers for a session now; nil when nobody does.
func (d *Desk) For(sessionID string) Approver {
	d.mu.Lock()
	list := slices.Clone(d.approvers)
	d.mu.Unlock()
	for _, a := range slices.Backward(list) {
		if a.owner.LiveAt(kernel.Now) && a.Serves(sessionID) {
			return a.Approver
		}
	}
	return nil
}

// Elicit settles the question of an MCP server. Arbiters that are Elicitors are
// asked first; an answer of theirs without an action is no opinion. Without one it
// is put to whoever serves the session (spec stream-json 5.4): cancel when nobody
// can be asked or the answer is none of the three. Reviewers have the last word.
func (d *Desk) Elicit(ctx context.Context, e Elicitation) ElicitationAnswer {
	arbiters := d.beside(e.SessionID)
	answer := d.elicit(ctx, arbiters, e)
	for _, a := range arbiters {
		if r, ok := a.(Reviewer); ok {
			if other := r.Review(ctx, e, answer); other.valid() {
				answer = other
			}
		}
	}
	return answer
}

func (d *Desk) elicit(ctx context.Context, arbiters []Approver, e Elicitation) ElicitationAnswer {
	for _, a := range append(arbiters, d.For(e.SessionID)) {
		asked, ok := a.(Elicitor)
		if !ok {
			continue
		}
		if answer, err := asked.Elicit(ctx, e); err == nil && answer.valid() {
			return answer
		}
	}
	return ElicitationAnswer{Action: ActionCancel}
}

func (a ElicitationAnswer) valid() bool {
	return slices.Contains([]string{ActionAccept, ActionDecline, ActionCancel}, a.Action)
}
