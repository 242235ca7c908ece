package tool

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"dsh/kernel"
)

// Registry knows the global tools, in order of registration, which is that of
// the profile.
type Registry struct {
	mu    sync.RWMutex
	tools []Tool
	names map[string]bool
}

// NewRegistry makes an empty registry.
func NewRegistry() *Registry { return &Registry{names: map[string]bool{}} }

var validName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// Register adds a tool until o is closed. A name that is taken or that a
// provider would refuse is an error.
func (r *Registry) Register(o *kernel.Owner, t Tool) error {
	name := t.Spec().Name
	if !validName.MatchString(name) {
		return fmt.Errorf("register tool %q: the name must be 1 to 64 letters, digits, _ or -", name)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.names[name] {
		return fmt.Errorf("register tool %q: the name is taken", name)
	}
	if err := o.OnClose("tool "+name, func(context.Context) error {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.names, name)
		r.tools = slices.DeleteFunc(slices.Clone(r.tools), func(x Tool) bool { return x == t })
		return nil
	}); err != nil {
		return fmt.Errorf("register tool %q: %w", name, err)
	}
	r.names[name] = true
	r.tools = append(slices.Clone(r.tools), t)
	return nil
}

// Filter restricts which global tools an agent has (spec jsonrpc 4). A tool
// must be in Allow, if that is set, and not in Deny.
type Filter struct {
	Allow []string `json:"allow,omitzero"`
	Deny  []string `json:"deny,omitzero"`
	// AllowNone leaves no global tool at all; it goes with neither list.
	AllowNone bool `json:"allowNone,omitzero"`
}

func (f *Filter) admits(name string) bool {
	switch {
	case f == nil:
		return true
	case f.AllowNone:
		return false
	case len(f.Allow) > 0 && !slices.Contains(f.Allow, name):
		return false
	}
	return !slices.Contains(f.Deny, name)
}

// reservedRunCode is a transport of other harnesses, never a tool (spec jsonrpc
// 4.2).
const reservedRunCode = "run_code"

// Check refuses a filter that is empty or names what is not registered, in the
// words of spec jsonrpc 4.2. nil is no filter and passes.
func (r *Registry) Check(f *Filter) error {
	if f == nil {
		return nil
	}
	if f.AllowNone {
		if len(f.Allow)+len(f.Deny) > 0 {
			return fmt.Errorf("tools.restrict() takes allowNone alone, without allow and deny")
		}
		return nil
	}
	if len(f.Allow)+len(f.Deny) == 0 {
		return fmt.Errorf("tools.restrict({}) is a no-op: pass allow or deny with at least one tool name, or allowNone: true for no global tool at all")
	}
	r.mu.RLock()
	known := make([]string, 0, len(r.names))
	for name := range r.names {
		known = append(known, name)
	}
	r.mu.RUnlock()
	slices.Sort(known)
	var unknown []string
	for _, name := range slices.Concat(f.Allow, f.Deny) {
		if name == reservedRunCode {
			return fmt.Errorf("tools.restrict() cannot name %q: it is reserved", name)
		}
		if quoted := fmt.Sprintf("%q", name); !slices.Contains(known, name) && !slices.Contains(unknown, quoted) {
			unknown = append(unknown, quoted)
		}
	}
	if len(unknown) == 0 {
		return nil
	}
	plural := ""
	if len(unknown) > 1 {
		plural = "s"
	}
	return fmt.Errorf("tools.restrict() names unknown global tool%s %s; known global tools: %s",
		plural, strings.Join(unknown, ", "), strings.Join(known, ", "))
}

// View is what one agent has: its own tools and the global ones that every
// filter admits. It is one projection for the prompt and for execution, and is
// evaluated at each read, so that tools may come and go (S112, S134).
type View struct {
	registry *Registry
	filters  []*Filter
	own      []Tool
}

// View makes the projection for an agent: the filters are its own and its
// ancestors'; the agent's own tools are exempt from them.
func (r *Registry) View(filters []*Filter, own ...Tool) *View {
	return &View{r, filters, own}
}

// List gives the tools in the order of the request: global ones first.
func (v *View) List() []Tool {
	v.registry.mu.RLock()
	global := v.registry.tools
	v.registry.mu.RUnlock()
	list := make([]Tool, 0, len(global)+len(v.own))
	for _, t := range global {
		if v.admits(t.Spec().Name) {
			list = append(list, t)
		}
	}
	return append(list, v.own...)
}

// Lookup finds a tool by name; one that is hidden is not found.
func (v *View) Lookup(name string) (Tool, bool) {
	for _, t := range v.List() {
		if t.Spec().Name == name {
			return t, true
		}
	}
	return nil, false
}

func (v *View) admits(name string) bool {
	for _, f := range v.filters {
		if !f.admits(name) {
			return false
		}
	}
	return true
}
