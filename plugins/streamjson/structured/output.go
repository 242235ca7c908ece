package structured

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	"dsh/kernel"
	"dsh/kernel/agent"
	"dsh/kernel/session"
	"dsh/kernel/tool"
	"dsh/sdkproto"
	"dsh/sdkproto/wirejson"
)

const (
	// Tool is the name of the tool that takes the output (spec stream-json 9).
	Tool = "StructuredOutput"
	// CodeRetries is the code of a turn that ended because no output matched.
	CodeRetries = "STRUCTURED_OUTPUT_RETRIES"
	// Attempts is how many outputs of a turn may fail unless the config says
	// otherwise (spec stream-json 11.6).
	Attempts = 5
)

// What the model is told.
const (
	textTool = "Gives the final result of this request in the form that the caller needs, which the parameters describe. " +
		"Call it exactly once, when all the work is done and nothing else is left to say: the call ends your turn. " +
		"A reply in plain text does not reach the caller in its place."
	textWrapped = " The result itself is the member `" + member + "`."
	textTaken   = "The output matches the schema and was handed over."
	textRemind  = "The request is not complete: its result has to be given with the tool " + Tool + ". Call it now, with the result."
	textNever   = "The model ended its turn without giving a structured output"
	// maxText bounds what is said about one output, in bytes.
	maxText = 4000
)

// Output is the structured output of one session. Its methods may be called from
// any goroutine.
type Output struct {
	attempts int
	// registering is held while the tool is registered.
	registering sync.Mutex
	registered  bool

	mu sync.Mutex
	// sessionID is the session that has to give it, schema what it has to match; nil
	// where nothing is asked for.
	sessionID string
	schema    *Schema
	turn      progress
}

// progress is how far one turn is.
type progress struct {
	number int
	// failed counts the outputs that did not match.
	failed int
	// given: there is one that matches. reminded: the model was told that one is
	// missing.
	given, reminded bool
}

// New makes the output of a session that nothing asks for yet. attempts is how
// many outputs of one turn may fail; the last one ends the turn.
func New(attempts int) *Output { return &Output{attempts: attempts} }

// order puts the hook on the end of a turn behind those of settings and clients:
// a turn that they make go on may still give its output.
const order = 200

// Register makes the tool known until owner is closed, once; no session has it
// before Require. Without hooks nobody reminds a model that forgets it.
func (o *Output) Register(owner *kernel.Owner, tools *tool.Registry, hooks *agent.Hooks) error {
	o.registering.Lock()
	defer o.registering.Unlock()
	if o.registered {
		return nil
	}
	if err := tools.Register(owner, output{o}); err != nil {
		return err
	}
	if err := tools.HideFor(owner, o.hides); err != nil {
		return err
	}
	if hooks != nil {
		if err := hooks.OnStop(owner, order, "structured output", o.stop); err != nil {
			return err
		}
	}
	o.registered = true
	return nil
}

// Require has every turn of a session give a value that matches s; nil asks for
// nothing any more.
func (o *Output) Require(sessionID string, s *Schema) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.sessionID, o.schema, o.turn = sessionID, s, progress{}
}

func (o *Output) required() *Schema {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.schema
}

// hides takes the tool from all sessions but the one that has to use it: what a
// subagent gives is no result of the turn.
func (o *Output) hides(who tool.Viewer) func(tool.Tool) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.schema != nil && who.SessionID == o.sessionID {
		return nil
	}
	return func(t tool.Tool) bool { it, ours := t.(output); return ours && it.o == o }
}

// at gives the progress of a turn; the caller holds mu.
func (o *Output) at(turn int) *progress {
	if o.turn.number != turn {
		o.turn = progress{number: turn}
	}
	return &o.turn
}

// stop implements agent.Stop: it reminds the model once, and then gives up.
func (o *Output) stop(_ context.Context, s agent.Stopping) (agent.Onward, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.schema == nil || s.Agent.ID() != o.sessionID {
		return agent.Onward{}, nil
	}
	switch t := o.at(s.Turn); {
	case t.given:
		return agent.Onward{}, nil
	case !t.reminded:
		t.reminded = true
		return agent.Onward{Prompt: textRemind}, nil
	case t.failed > 0:
		return agent.Onward{End: failure(fmt.Sprintf("%s; %d did not match the schema", textNever, t.failed))}, nil
	}
	return agent.Onward{End: failure(textNever)}, nil
}

func failure(text string) *sdkproto.TurnEndReason {
	return &sdkproto.TurnEndReason{Kind: sdkproto.EndError, Error: &sdkproto.Failure{Code: CodeRetries, Message: text}}
}

// output is the tool.
type output struct{ o *Output }

// Name spares those who only want to know it the rest.
func (t output) Name() string { return Tool }

// Spec implements tool.Tool. A call changes nothing outside the session, so that
// it needs no approval and mode plan has it.
func (t output) Spec() tool.Spec {
	spec := tool.Spec{Name: Tool, Description: textTool, Parameters: json.RawMessage(`{"type":"object"}`), ReadOnly: true}
	if s := t.o.required(); s != nil {
		spec.Parameters = s.parameters
		if s.wrapped {
			spec.Description += textWrapped
		}
	}
	return spec
}

// CheckArguments says what is wrong with an output.
func (t output) CheckArguments(arguments json.RawMessage) error {
	s := t.o.required()
	if s == nil {
		return fmt.Errorf("no structured output is asked for")
	}
	_, err := s.value(arguments)
	return err
}

// Refuse implements tool.Refuser: an output that does not match is an attempt, and
// the last one ends the turn.
func (t output) Refuse(in tool.Invocation, err error) tool.Result {
	t.o.mu.Lock()
	p := t.o.at(in.Turn)
	p.failed++
	failed := p.failed
	t.o.mu.Unlock()
	said := clip(err.Error())
	if failed < t.o.attempts {
		return tool.ErrorResult("ToolArgumentsError", "INVALID_ARGUMENTS", fmt.Sprintf(
			"The output does not match the schema: %s. Call %s again with a result in which all of this is mended.", said, Tool))
	}
	res := tool.ErrorResult("ToolArgumentsError", "INVALID_ARGUMENTS", "The output does not match the schema: "+said+".")
	res.EndTurn = failure(fmt.Sprintf("Failed to give a structured output that matches the schema after %d attempts; the last one: %s", failed, said))
	return res
}

func clip(s string) string {
	if len(s) <= maxText {
		return s
	}
	return strings.ToValidUTF8(s[:maxText], "") + "…"
}

// Call implements tool.Tool: it hands the output over, and the turn ends.
func (t output) Call(_ context.Context, in tool.Invocation) (tool.Result, error) {
	s := t.o.required()
	if s == nil {
		return tool.Result{}, fmt.Errorf("no structured output is asked for")
	}
	value, err := s.value(in.Arguments)
	if err == nil {
		value, err = wirejson.Compact(value)
	}
	if err != nil {
		return t.Refuse(in, err), nil
	}
	// It is a fact of its own: hooks may change what the model sees of the result.
	fact := sdkproto.StructuredOutput{Turn: in.Turn, CallID: in.CallID, Value: value}
	if err := in.Emit(session.Draft{Type: sdkproto.TypeStructuredOutput, Data: fact, Ignorable: true}); err != nil {
		return tool.Result{}, fmt.Errorf("record the output: %w", err)
	}
	t.o.mu.Lock()
	t.o.at(in.Turn).given = true
	t.o.mu.Unlock()
	res := tool.TextResult(textTaken)
	res.EndTurn = &sdkproto.TurnEndReason{Kind: sdkproto.EndCompleted}
	return res, nil
}
