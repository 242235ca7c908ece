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

// Registry knows the global tools, in the order of their rows in the profile
// (kernel.Compare), whenever they were registered.
type Registry struct {
	mu    sync.RWMutex
	tools []registered
	// restrictions are the filters that hold for every view.
	restrictions []restriction
	// hidden are functions that take tools out of every view.
	hidden []hiding
}

type registered struct {
	owner *kernel.Owner
	name  string
	tool  Tool
}

type restriction struct {
	owner  *kernel.Owner
	filter *Filter
}

type hiding struct {
	owner *kernel.Owner
	pick  func(Viewer) func(Tool) bool
}

// Viewer is the session that a view is for; the zero value is none.
type Viewer struct {
	SessionID string
	// CWD is the session's absolute working directory.
	CWD string
}

// NewRegistry makes an empty registry.
func NewRegistry() *Registry { return &Registry{} }

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
	for _, other := range r.tools {
		if other.name == name && kernel.Clash(other.owner, o) {
			return fmt.Errorf("register tool %q: the name is taken", name)
		}
	}
	if err := o.OnClose("tool "+name, func(context.Context) error {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.tools = slices.DeleteFunc(slices.Clone(r.tools), func(x registered) bool { return x.owner == o && x.name == name })
		return nil
	}); err != nil {
		return fmt.Errorf("register tool %q: %w", name, err)
	}
	r.tools = append(slices.Clone(r.tools), registered{o, name, t})
	slices.SortStableFunc(r.tools, func(a, b registered) int { return kernel.Compare(a.owner, b.owner) })
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
		r.restrictions = slices.DeleteFunc(slices.Clone(r.restrictions), func(x restriction) bool { return x.filter == f })
		return nil
	}); err != nil {
		return fmt.Errorf("restrict tools: %w", err)
	}
	r.restrictions = append(slices.Clone(r.restrictions), restriction{o, f})
	return nil
}

// Hide takes the global tools that hides picks out of every view, those that come
// later included, until o is closed. Unlike Restrict it need not know their
// names, and nothing checks that there are any. hides is called at each read of a
// view and must be quick.
func (r *Registry) Hide(o *kernel.Owner, hides func(Tool) bool) error {
	return r.HideFor(o, func(Viewer) func(Tool) bool { return hides })
}

// HideFor is Hide where what is hidden depends on who looks. pick is called once
// for each read of a view and gives what hides its tools, nil when nothing does;
// it must be quick and must not read a view itself.
func (r *Registry) HideFor(o *kernel.Owner, pick func(Viewer) func(Tool) bool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := o.OnClose("hiding of tools", func(context.Context) error {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.hidden = slices.DeleteFunc(slices.Clone(r.hidden), func(x hiding) bool { return x.owner == o })
		return nil
	}); err != nil {
		return fmt.Errorf("hide tools: %w", err)
	}
	r.hidden = append(slices.Clone(r.hidden), hiding{o, pick})
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
	var known []string
	for _, x := range r.tools {
		if x.owner.LiveAt(kernel.Now) {
			known = append(known, x.name)
		}
	}
	var filters []*Filter
	for _, x := range r.restrictions {
		if x.owner.LiveAt(kernel.Now) {
			filters = append(filters, x.filter)
		}
	}
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
	at       kernel.Generation
	viewer   Viewer
}

// View makes the projection for an agent: the filters are its own and its
// ancestors'; the agent's own tools are exempt from them.
func (r *Registry) View(filters []*Filter, own ...Tool) *View {
	return &View{registry: r, filters: filters, own: own, at: kernel.Now}
}

// For is the view of one session: what is hidden from it alone is gone, too.
func (v *View) For(who Viewer) *View {
	its := *v
	its.viewer = who
	return &its
}

// At is the view of a turn that began under generation g: a reload since then
// changes nothing for it.
func (v *View) At(g kernel.Generation) *View {
	at := *v
	at.at = g
	return &at
}

// List gives the tools in the order of the request: global ones first.
func (v *View) List() []Tool {
	v.registry.mu.RLock()
	global, restrictions, hidden := v.registry.tools, v.registry.restrictions, v.registry.hidden
	v.registry.mu.RUnlock()
	var hides []func(Tool) bool
	for _, x := range hidden {
		if !x.owner.LiveAt(v.at) {
			continue
		}
		if h := x.pick(v.viewer); h != nil {
			hides = append(hides, h)
		}
	}
	isHidden := func(t Tool) bool {
		return slices.ContainsFunc(hides, func(h func(Tool) bool) bool { return h(t) })
	}
	list := make([]Tool, 0, len(global)+len(v.own))
	for _, x := range global {
		if x.owner.LiveAt(v.at) && v.admits(x.name, restrictions) && !isHidden(x.tool) {
			list = append(list, x.tool)
		}
	}
	return append(list, v.own...)
}

// Origin names the owner of a global tool that the view shows, such as "row
// github", for people; "" for any other.
func (v *View) Origin(name string) string {
	v.registry.mu.RLock()
	defer v.registry.mu.RUnlock()
	for _, x := range v.registry.tools {
		if x.name == name && x.owner.LiveAt(v.at) {
			return x.owner.Row()
		}
	}
	return ""
}

// Lookup finds a tool by name, or else by an alias; one that is hidden is not
// found.
func (v *View) Lookup(name string) (Tool, bool) {
	list := v.List()
	for _, t := range list {
		if nameOf(t) == name {
			return t, true
		}
	}
	for _, t := range list {
		if slices.Contains(aliasesOf(t), name) {
			return t, true
		}
	}
	return nil, false
}

func (v *View) admits(name string, restrictions []restriction) bool {
	for _, x := range restrictions {
		if x.owner.LiveAt(v.at) && !x.filter.admits(name) {
			return false
		}
	}
	for _, f := range v.filters {
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

// aliasesOf gives a tool's aliases without its schema, where it can.
func aliasesOf(t Tool) []string {
	if a, ok := t.(interface{ aliases() []string }); ok {
		return a.aliases()
	}
	return t.Spec().Aliases
}
