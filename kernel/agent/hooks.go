package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"dsh/kernel"
	"dsh/kernel/llm"
	"dsh/kernel/session"
	"dsh/kernel/tool"
	"dsh/sdkproto"
)

// Opening is the moment before a turn claims its prompt.
type Opening struct {
	SessionID string
	// CWD is the session's absolute working directory; Depth is 0 for a root.
	CWD   string
	Depth int
	// First says that the session has had no turn yet.
	First bool
	// Type is the name of the Definition that the agent was made from, "" without.
	Type  string
	Route llm.Route
	// Tools are the names the turn's model sees, in order.
	Tools []string
}

// Context gives what a session should know by now as messages from a plugin
// (spec jsonrpc 10.7): instructions of the folder, a catalogue, the date. Each
// message's Source tells one kind of context from the other; the loop appends
// a message, in front of the prompt, only when the history does not hold it
// already as the last of its Source.Kind and Source.Plugin. So what changes is
// told again, and what does not costs nothing.
type Context func(ctx context.Context, o Opening) ([]sdkproto.Message, error)

// Prompt is a message that asks to enter a turn.
type Prompt struct {
	Opening
	Message sdkproto.Message
}

// Verdict is what a prompt hook says.
type Verdict struct {
	// Block keeps the prompt from the model: the turn ends as blocked. Reason is
	// for people.
	Block  bool
	Reason string
	// Context are texts that are given to the model behind the prompt.
	Context []string
}

// Admit looks at a prompt before it enters its turn.
type Admit func(ctx context.Context, p Prompt) (Verdict, error)

// Step is the moment before a model request.
type Step struct {
	// Agent is the one that asks. Its state is read inside its log's View.
	Agent Agent
	State *session.State
	// Turn and Step place the request.
	Turn, Step int
	// Route and Info are resolved, Adapter is theirs.
	Route   llm.Route
	Info    llm.Info
	Adapter llm.Adapter
	// Header is that of the request.
	Header *sdkproto.Header
	// Refused is the error of a request that was too long for the model, nil
	// before the first attempt.
	Refused error
}

// Keep makes room in the history before a request: it appends what replaces
// parts of it, and says whether it did. It may make model requests of its own.
type Keep func(ctx context.Context, s Step) (changed bool, err error)

// Stopping is the moment when the model has answered without a call, so that the
// turn would end.
type Stopping struct {
	Agent Agent
	// Turn and Step place the answer; Last is its text.
	Turn, Step int
	Last       string
	// Continued counts how often hooks have made this turn go on.
	Continued int
}

// Batch is the moment when all calls of an answer have their results, before the
// model is asked again.
type Batch struct {
	Agent Agent
	// Turn and Step place the answer.
	Turn, Step int
	// Calls are in the order of the model.
	Calls []Called
}

// Called is a call with its result.
type Called struct {
	ID, Name string
	// Arguments are the model's text, which need not be JSON.
	Arguments string
	Result    tool.Result
}

// AfterCalls looks at the calls of an answer.
type AfterCalls func(ctx context.Context, b Batch) (Onward, error)

// Onward is what a hook on stopping or on calls says. The zero value lets things
// take their course: a turn that would end ends, one that goes on goes on.
type Onward struct {
	// Prompt, when not "", is given to the model as a message, and the turn goes on.
	Prompt string
	// End, when not nil, is the reason that the turn ends with, in place of
	// completed; nothing goes on then.
	End *sdkproto.TurnEndReason
}

// Stop looks at a turn that would end well.
type Stop func(ctx context.Context, s Stopping) (Onward, error)

// Hooks are the chains that others hang into the life of a turn. A hook that
// fails or panics is named in the log and does not stop the turn; what it would
// have said is not said.
type Hooks struct {
	mu       sync.Mutex
	contexts []hook[Context]
	prompts  []hook[Admit]
	keepers  []hook[Keep]
	stops    []hook[Stop]
	batches  []hook[AfterCalls]
}

type hook[F any] struct {
	owner *kernel.Owner
	order int
	name  string
	f     F
}

// NewHooks makes empty chains.
func NewHooks() *Hooks { return &Hooks{} }

// OnContext adds a source of context until o is closed. Those of lower order
// come first; equal ones in the order of their rows.
func (h *Hooks) OnContext(o *kernel.Owner, order int, name string, f Context) error {
	return add(h, &h.contexts, hook[Context]{o, order, name, f})
}

// OnPrompt adds a hook on prompts until o is closed.
func (h *Hooks) OnPrompt(o *kernel.Owner, order int, name string, f Admit) error {
	return add(h, &h.prompts, hook[Admit]{o, order, name, f})
}

// OnStep adds a keeper until o is closed.
func (h *Hooks) OnStep(o *kernel.Owner, order int, name string, f Keep) error {
	return add(h, &h.keepers, hook[Keep]{o, order, name, f})
}

// OnStop adds a hook on the end of turns until o is closed.
func (h *Hooks) OnStop(o *kernel.Owner, order int, name string, f Stop) error {
	return add(h, &h.stops, hook[Stop]{o, order, name, f})
}

// OnCalls adds a hook on the calls of an answer until o is closed.
func (h *Hooks) OnCalls(o *kernel.Owner, order int, name string, f AfterCalls) error {
	return add(h, &h.batches, hook[AfterCalls]{o, order, name, f})
}

func add[F any](h *Hooks, list *[]hook[F], one hook[F]) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := one.owner.OnClose("hook "+one.name, func(context.Context) error {
		h.mu.Lock()
		defer h.mu.Unlock()
		*list = slices.DeleteFunc(slices.Clone(*list), func(x hook[F]) bool { return x.owner == one.owner && x.name == one.name })
		return nil
	}); err != nil {
		return fmt.Errorf("add hook %s: %w", one.name, err)
	}
	*list = append(slices.Clone(*list), one)
	slices.SortStableFunc(*list, func(a, b hook[F]) int { return cmp.Or(a.order-b.order, kernel.Compare(a.owner, b.owner)) })
	return nil
}

// live gives the hooks of a chain that belong to a generation.
func live[F any](h *Hooks, g kernel.Generation, list *[]hook[F]) []hook[F] {
	if h == nil {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(*list) == 0 {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(*list), func(x hook[F]) bool { return !x.owner.LiveAt(g) })
}

// Any reports whether anything hangs on the opening of a turn. The methods of a
// nil Hooks find nothing.
func (h *Hooks) Any(g kernel.Generation) bool {
	return h != nil && len(live(h, g, &h.contexts))+len(live(h, g, &h.prompts)) > 0
}

// Keeps reports whether there are keepers.
func (h *Hooks) Keeps(g kernel.Generation) bool { return h != nil && len(live(h, g, &h.keepers)) > 0 }

// Context asks all sources of context. The error joins those of sources that
// failed; the messages of the others are good.
func (h *Hooks) Context(ctx context.Context, g kernel.Generation, o Opening) ([]sdkproto.Message, error) {
	if h == nil {
		return nil, nil
	}
	var messages []sdkproto.Message
	var errs []error
	for _, x := range live(h, g, &h.contexts) {
		err := contain(x.name, func() error {
			given, err := x.f(ctx, o)
			messages = append(messages, given...)
			return err
		})
		if err != nil {
			errs = append(errs, err)
		}
	}
	return messages, errors.Join(errs...)
}

// Admit asks the hooks on prompts, until one blocks. Their contexts add up.
func (h *Hooks) Admit(ctx context.Context, g kernel.Generation, p Prompt) (Verdict, error) {
	if h == nil {
		return Verdict{}, nil
	}
	var all Verdict
	var errs []error
	for _, x := range live(h, g, &h.prompts) {
		err := contain(x.name, func() error {
			v, err := x.f(ctx, p)
			if err != nil {
				return err
			}
			all.Context = append(all.Context, v.Context...)
			all.Block, all.Reason = v.Block, v.Reason
			return nil
		})
		if err != nil {
			errs = append(errs, err)
		}
		if all.Block {
			break
		}
	}
	return all, errors.Join(errs...)
}

// Keep runs the keepers one after the other and says whether any of them
// changed the history.
func (h *Hooks) Keep(ctx context.Context, g kernel.Generation, s Step) (changed bool, err error) {
	if h == nil {
		return false, nil
	}
	var errs []error
	for _, x := range live(h, g, &h.keepers) {
		err := contain(x.name, func() error {
			did, err := x.f(ctx, s)
			changed = changed || did
			return err
		})
		if err != nil {
			errs = append(errs, err)
		}
	}
	return changed, errors.Join(errs...)
}

// Stop asks the hooks on the end of a turn, one after the other, until one
// ends it for good. The prompts of those that go on are joined with blank lines.
func (h *Hooks) Stop(ctx context.Context, g kernel.Generation, s Stopping) (Onward, error) {
	if h == nil {
		return Onward{}, nil
	}
	return onward(live(h, g, &h.stops), func(f Stop) (Onward, error) { return f(ctx, s) })
}

// HearsCalls reports whether there are hooks on the calls of an answer.
func (h *Hooks) HearsCalls(g kernel.Generation) bool {
	return h != nil && len(live(h, g, &h.batches)) > 0
}

// Calls asks the hooks on the calls of an answer, like Stop.
func (h *Hooks) Calls(ctx context.Context, g kernel.Generation, b Batch) (Onward, error) {
	if h == nil {
		return Onward{}, nil
	}
	return onward(live(h, g, &h.batches), func(f AfterCalls) (Onward, error) { return f(ctx, b) })
}

func onward[F any](hooks []hook[F], ask func(F) (Onward, error)) (Onward, error) {
	var all Onward
	var errs []error
	for _, x := range hooks {
		err := contain(x.name, func() error {
			o, err := ask(x.f)
			if err != nil {
				return err
			}
			if o.Prompt != "" && all.Prompt != "" {
				all.Prompt += "\n\n"
			}
			all.Prompt += o.Prompt
			all.End = o.End
			return nil
		})
		if err != nil {
			errs = append(errs, err)
		}
		if all.End != nil {
			all.Prompt = ""
			break
		}
	}
	return all, errors.Join(errs...)
}

func contain(name string, f func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("hook %s: panic: %v", name, r)
		}
	}()
	if err := f(); err != nil {
		return fmt.Errorf("hook %s: %w", name, err)
	}
	return nil
}
