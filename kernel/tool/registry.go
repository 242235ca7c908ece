package tool

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"dsh/kernel"
	"dsh/kernel/profile"
)

// Registry knows the global tools, in order of registration, which is that of
// the profile.
type Registry struct {
	mu    sync.RWMutex
	tools []Tool
	names map[string]bool
	// restrictions are the filters that hold for every view.
	restrictions []*Filter
}

// NewRegistry makes an empty registry.
func NewRegistry() *Registry { return &Registry{names: map[string]bool{}} }

// isName reports whether every provider takes the name.
func isName(name string) bool {
	const may = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"
	return name != "" && len(name) <= 64 && strings.Trim(name, may) == ""
}

// Register adds a tool until o is closed. A name that is taken or that a
// provider would refuse is an error.
func (r *Registry) Register(o *kernel.Owner, t Tool) error {
	name := nameOf(t)
	if !isName(name) {
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

// Restrict puts f before every view of the registry, those that exist included,
// until o is closed. It checks nothing, because tools may be registered later:
// Check does, so that no agent is made under a filter that makes no sense.
func (r *Registry) Restrict(o *kernel.Owner, f *Filter) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := o.OnClose("restriction of tools", func(context.Context) error {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.restrictions = slices.DeleteFunc(slices.Clone(r.restrictions), func(x *Filter) bool { return x == f })
		return nil
	}); err != nil {
		return fmt.Errorf("restrict tools: %w", err)
	}
	r.restrictions = append(slices.Clone(r.restrictions), f)
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

// FilterError says that a filter makes no sense for the tools there are.
type FilterError struct{ msg string }

func (e *FilterError) Error() string { return e.msg }

func badFilter(format string, args ...any) error { return &FilterError{fmt.Sprintf(format, args...)} }

// Check refuses a filter that is empty or names what is not registered, with a
// *FilterError in the words of spec jsonrpc 4.2; nil is no filter. The filters
// given to Restrict are checked, too: they hold for whatever f is for.
func (r *Registry) Check(f *Filter) error {
	r.mu.RLock()
	known := make([]string, 0, len(r.names))
	for name := range r.names {
		known = append(known, name)
	}
	filters := slices.Clone(r.restrictions)
	r.mu.RUnlock()
	slices.Sort(known)
	if f != nil {
		filters = append(filters, f)
	}
	for _, f := range filters {
		if err := f.check(known); err != nil {
			return err
		}
	}
	return nil
}

func (f *Filter) check(known []string) error {
	if f.AllowNone {
		if len(f.Allow)+len(f.Deny) > 0 {
			return badFilter("tools.restrict() takes allowNone alone, without allow and deny")
		}
		return nil
	}
	if len(f.Allow)+len(f.Deny) == 0 {
		return badFilter("tools.restrict({}) is a no-op: pass allow or deny with at least one tool name, or allowNone: true for no global tool at all")
	}
	var unknown []string
	for _, name := range slices.Concat(f.Allow, f.Deny) {
		if name == reservedRunCode {
			return badFilter("tools.restrict() cannot name %q: it is reserved", name)
		}
		if !slices.Contains(known, name) && !slices.Contains(unknown, name) {
			unknown = append(unknown, name)
		}
	}
	if len(unknown) == 0 {
		return nil
	}
	plural, hints := "", ""
	if len(unknown) > 1 {
		plural = "s"
	}
	quoted := make([]string, len(unknown))
	for i, name := range unknown {
		quoted[i] = fmt.Sprintf("%q", name)
		hints += profile.DidYouMean(name, known)
	}
	return badFilter("tools.restrict() names unknown global tool%s %s; known global tools: %s%s",
		plural, strings.Join(quoted, ", "), strings.Join(known, ", "), hints)
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
	global, restrictions := v.registry.tools, v.registry.restrictions
	v.registry.mu.RUnlock()
	list := make([]Tool, 0, len(global)+len(v.own))
	for _, t := range global {
		if name := nameOf(t); admitted(name, restrictions) && admitted(name, v.filters) {
			list = append(list, t)
		}
	}
	return append(list, v.own...)
}

// Lookup finds a tool by name; one that is hidden is not found.
func (v *View) Lookup(name string) (Tool, bool) {
	for _, t := range v.List() {
		if nameOf(t) == name {
			return t, true
		}
	}
	return nil, false
}

func admitted(name string, filters []*Filter) bool {
	for _, f := range filters {
		if !f.admits(name) {
			return false
		}
	}
	return true
}

// nameOf gives a tool's name without its schema, where it can.
func nameOf(t Tool) string {
	if n, ok := t.(interface{ Name() string }); ok {
		return n.Name()
	}
	return t.Spec().Name
}
