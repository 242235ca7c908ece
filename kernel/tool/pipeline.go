package tool

import (
	"cmp"
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"sync"

	"dsh/kernel"
)

// Next runs the rest of the pipeline.
type Next func(ctx context.Context, t Tool, in Invocation) (Result, error)

// Stage wraps a call. It may refuse by returning without calling next, change
// the invocation, or change the result. A panic in a stage refuses the call.
type Stage func(ctx context.Context, t Tool, in Invocation, next Next) (Result, error)

// Orders of the stages that are known; a lower one wraps a higher one.
const (
	// OrderLimit bounds the result, so it sees what every other stage made of it.
	OrderLimit = 100
	// OrderGate is for hooks, rules and modes: allow, deny, ask, replace input.
	OrderGate = 200
	// OrderApproval asks whoever must be asked.
	OrderApproval = 300
	// OrderGuard can only refuse.
	OrderGuard = 400
)

// Pipeline is what every call passes on its way to the tool.
type Pipeline struct {
	// Unknown is the text that answers a call of a tool that there is not, with
	// {name} for its name; "" is that of spec jsonrpc 4.2. It is set before the
	// first call.
	Unknown string

	mu     sync.RWMutex
	stages []*stage
}

type stage struct {
	owner *kernel.Owner
	order int
	name  string
	run   Stage
}

// NewPipeline makes a pipeline without stages.
func NewPipeline() *Pipeline { return &Pipeline{} }

// Use adds a stage until o is closed. Stages of equal order wrap in the order of
// their rows (kernel.Compare).
func (p *Pipeline) Use(o *kernel.Owner, order int, name string, run Stage) error {
	s := &stage{o, order, name, run}
	if err := o.OnClose("tool stage "+name, func(context.Context) error {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.stages = slices.DeleteFunc(slices.Clone(p.stages), func(x *stage) bool { return x == s })
		return nil
	}); err != nil {
		return fmt.Errorf("add tool stage %s: %w", name, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stages = append(slices.Clone(p.stages), s)
	slices.SortStableFunc(p.stages, func(a, b *stage) int { return cmp.Or(a.order-b.order, kernel.Compare(a.owner, b.owner)) })
	return nil
}

// Call looks the tool up, checks the arguments and runs the call through the
// stages. A name that the view does not have goes through the stages as well
// (IsUnknown). It always gives a result: whatever goes wrong, panics included, is
// one that tells the model. arguments is the model's text.
func (p *Pipeline) Call(ctx context.Context, v *View, name, arguments string, in Invocation) (res Result) {
	defer func() {
		if r := recover(); r != nil {
			res = ErrorResult("ToolError", "TOOL_FAILED", clip(fmt.Sprintf("Error: %s failed: panic: %v", name, r), 4000))
		}
	}()
	if strings.TrimSpace(arguments) == "" {
		arguments = "{}"
	}
	in.Arguments = []byte(arguments)
	t, ok := v.Lookup(name)
	if !ok {
		t = &unknown{name, p.Unknown}
	}
	if err := CheckArguments(t, in.Arguments); err != nil && !ok {
		in.Arguments = []byte("{}") // nothing will read them but who refuses the call
	} else if err != nil {
		if r, ok := t.(Refuser); ok {
			return r.Refuse(in, err)
		}
		return ErrorResult("ToolArgumentsError", "INVALID_ARGUMENTS", clip(fmt.Sprintf("Error: the arguments of %s are not valid: %v", name, err), 4000))
	}
	in.Requested = in.Arguments
	var stages []*stage
	p.mu.RLock()
	for _, s := range p.stages {
		if s.owner.LiveAt(in.Generation) {
			stages = append(stages, s)
		}
	}
	p.mu.RUnlock()
	res, err := through(ctx, stages, t, in)
	if err != nil {
		if ctx.Err() != nil {
			return ErrorResult("AbortError", "ABORTED", fmt.Sprintf("Error: %s was cancelled", name))
		}
		return ErrorResult("ToolError", "TOOL_FAILED", clip(fmt.Sprintf("Error: %s failed: %v", name, err), maxError))
	}
	return res
}

// maxError bounds what a failed tool says of its failure, in bytes.
const maxError = 30_000

// clip bounds text that may repeat what a model sent.
func clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

func through(ctx context.Context, stages []*stage, t Tool, in Invocation) (res Result, err error) {
	at := "tool " + nameOf(t)
	if len(stages) > 0 {
		at = "stage " + stages[0].name
	}
	defer func() {
		if r := recover(); r != nil {
			err = &PanicError{At: at, Value: r, Stack: debug.Stack()}
		}
	}()
	if len(stages) == 0 {
		return t.Call(ctx, in)
	}
	return stages[0].run(ctx, t, in, func(ctx context.Context, t Tool, in Invocation) (Result, error) {
		return through(ctx, stages[1:], t, in)
	})
}

// PanicError is a contained panic of a tool or stage.
type PanicError struct {
	// At names the tool or stage.
	At    string
	Value any
	Stack []byte
}

func (e *PanicError) Error() string { return fmt.Sprintf("%s panicked: %v", e.At, e.Value) }
