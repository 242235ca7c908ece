package agent

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"dsh/kernel"
)

// Definition is a kind of agent that a session may delegate to, or be (spec
// stream-json 11.7).
type Definition struct {
	// Name is what a call says for it; Description tells the model when to use it.
	Name, Description string
	// Prompt takes the place of the system prompt; "" keeps the usual one.
	Prompt string
	// Tools are the names or rules of the only tools it has, nil for all of its
	// parent's; DisallowedTools are taken out of those.
	Tools, DisallowedTools []string
	// Model is a model id or alias; "" and inherit are the parent's. Effort is a
	// word for effort, "" for the parent's.
	Model, Effort string
	// MaxTurns bounds its model requests; 0 is no bound of its own.
	MaxTurns int
	// PermissionMode is a word of spec stream-json 7.1, "" for the parent's.
	PermissionMode string
	// Background starts it in the background unless the call says otherwise.
	Background bool
	// InitialPrompt is put in front of the first message of a main thread.
	InitialPrompt string
	// Skills are the names of skills whose text it has from the start.
	Skills []string
	// Source is one of the constants, "" for whoever does not say.
	Source string
}

// Sources of a Definition, from low to high: of two of one name that of the higher
// one counts.
const (
	SourceBuiltIn = "built-in"
	SourcePlugin  = "plugin"
	SourceUser    = "user"
	SourceProject = "project"
	SourceClient  = "client"
)

// rank orders sources; one that is not known counts like a built-in one.
func rank(source string) int {
	return max(slices.Index([]string{SourceBuiltIn, SourcePlugin, SourceUser, SourceProject, SourceClient}, source), 0)
}

// Definitions knows the kinds of agents. Its methods may be called from any
// goroutine.
type Definitions struct {
	mu   sync.Mutex
	list []defined
}

type defined struct {
	owner *kernel.Owner
	Definition
}

// NewDefinitions makes an empty registry.
func NewDefinitions() *Definitions { return &Definitions{} }

// Register adds a kind of agent until o is closed. Of one name the kind of the
// highest Source counts, and of several of one source the one registered last.
func (r *Definitions) Register(o *kernel.Owner, d Definition) error {
	if d.Name == "" {
		return fmt.Errorf("register a kind of agent: it has no name")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := o.OnClose("agent "+d.Name, func(context.Context) error {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.list = slices.DeleteFunc(slices.Clone(r.list), func(x defined) bool { return x.owner == o && x.Name == d.Name })
		return nil
	}); err != nil {
		return fmt.Errorf("register agent %s: %w", d.Name, err)
	}
	r.list = append(slices.Clone(r.list), defined{o, d})
	return nil
}

// List gives the kinds in the order in which their names were first registered.
func (r *Definitions) List() []Definition {
	r.mu.Lock()
	list := r.list
	r.mu.Unlock()
	var out []Definition
	for _, x := range list {
		if !x.owner.LiveAt(kernel.Now) {
			continue
		}
		if i := slices.IndexFunc(out, func(d Definition) bool { return d.Name == x.Name }); i >= 0 {
			if rank(x.Source) >= rank(out[i].Source) {
				out[i] = x.Definition
			}
			continue
		}
		out = append(out, x.Definition)
	}
	return out
}

// Lookup finds a kind by its name.
func (r *Definitions) Lookup(name string) (Definition, bool) {
	for _, d := range r.List() {
		if d.Name == name {
			return d, true
		}
	}
	return Definition{}, false
}
