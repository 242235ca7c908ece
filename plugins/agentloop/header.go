package agentloop

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"sync"

	"dsh/kernel"
	"dsh/kernel/agent"
	"dsh/kernel/llm"
	"dsh/kernel/prompt"
	"dsh/kernel/session"
	"dsh/kernel/tool"
	"dsh/sdkproto"
	"dsh/sdkproto/wirejson"
)

// prepared is what a request needs beside the history, found before the events
// that belong to it are appended.
type prepared struct {
	adapter llm.Adapter
	route   llm.Route
	info    llm.Info
	// tools are the names the model sees.
	tools []string
	// drafts are request/header and request/context where they changed.
	drafts []session.Draft
	// changes are what the header has against the one before it.
	changes []sdkproto.PrefixChange
	err     error
}

// headerKey is what a header is built from: equal keys build equal headers.
type headerKey struct {
	route    llm.Route
	defaults sdkproto.AdapterDefaults
	tools    *toolset
}

type resolved struct {
	route    llm.Route
	defaults sdkproto.AdapterDefaults
	info     llm.Info
}

// CodeNoAdapter is the code of a turn whose provider nobody answers for.
const CodeNoAdapter = "NO_ADAPTER"

func (r *Registry) resolve(g kernel.Generation, route llm.Route) (adapter llm.Adapter, to resolved, err error) {
	if adapter, err = r.router.LookupAt(g, route.Provider); err != nil {
		return nil, to, err
	}
	err = guard("the adapter of provider "+route.Provider, func() (err error) {
		to.route, to.defaults, to.info, err = adapter.Resolve(route)
		return err
	})
	return adapter, to, err
}

// prepare finds the adapter and builds the header of the next request. Tools
// and route are looked at anew each time; the system prompt is fixed for as
// long as the session is live (spec jsonrpc 10.7).
func (a *actor) prepare(g kernel.Generation, view *tool.View, route llm.Route) (p prepared) {
	adapter, to, err := a.r.resolve(g, route)
	if err != nil {
		var unknown *llm.NoAdapterError
		if errors.As(err, &unknown) {
			err = &llm.Error{Code: CodeNoAdapter, Message: err.Error()}
		}
		return prepared{err: err}
	}
	p.adapter, p.route, p.info = adapter, to.route, to.info
	key := headerKey{route: to.route, defaults: to.defaults}
	if err := guard("a tool's description", func() (err error) {
		key.tools, err = a.r.toolsets.of(view)
		return err
	}); err != nil {
		return prepared{err: err}
	}
	p.tools = key.tools.names
	if a.system == nil {
		facts := prompt.Facts{SessionID: a.spec.ID, CWD: a.spec.CWD, Provider: to.route.Provider, Model: to.route.Model, Tools: key.tools.names}
		var system string
		if err := guard("a section of the system prompt", func() error { system = a.r.sections.System(facts); return nil }); err != nil {
			return prepared{err: err}
		}
		system = withSystem(a.spec.System, system)
		a.system = &system
	}
	var last session.HeaderFold
	a.session.View(func() { last = a.state.Header })
	if key != a.key || a.header == nil {
		a.key, a.header = key, a.r.headerOf(key, to, *a.system)
	}
	// Interned headers are equal exactly when they are the same.
	if a.header != last.Header {
		reason := sdkproto.HeaderChange
		switch {
		case last.Header == nil:
			reason = sdkproto.HeaderInitial
		case a.resumed:
			reason = sdkproto.HeaderResume
		}
		p.drafts = append(p.drafts, session.Draft{Type: sdkproto.TypeRequestHeader, Data: &sdkproto.RequestHeader{Header: *a.header, Reason: reason}})
		if last.Header != nil {
			p.changes = headerChanges(last.Header, a.header, view)
		}
	}
	context := sdkproto.RequestContext{Provider: to.route.Provider, Model: to.route.Model, ContextWindow: to.info.ContextWindow}
	if context != last.Context {
		p.drafts = append(p.drafts, session.Draft{Type: sdkproto.TypeRequestContext, Data: context})
	}
	return p
}

// withSystem lays what a client says about the system prompt over the sections
// (S036).
func withSystem(s *agent.System, sections string) string {
	if s == nil {
		return sections
	}
	if s.Replace != nil {
		sections = *s.Replace
	}
	switch {
	case s.Append == "":
		return sections
	case sections == "":
		return s.Append
	}
	return sections + "\n\n" + s.Append
}

// headerOf gives the header built from key and system. Sessions that begin one
// after the other mostly have the same.
func (r *Registry) headerOf(key headerKey, to resolved, system string) *sdkproto.Header {
	r.mu.Lock()
	last := r.lastHeader
	r.mu.Unlock()
	if last.header != nil && last.key == key && last.header.System == system {
		return last.header
	}
	header := r.headers.Intern(newHeader(to, system, key.tools))
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lastHeader = keyedHeader{key, header}
	return header
}

type keyedHeader struct {
	key    headerKey
	header *sdkproto.Header
}

func newHeader(to resolved, system string, tools *toolset) *sdkproto.Header {
	h := &sdkproto.Header{
		Config: sdkproto.RequestConfig{
			Provider: to.route.Provider, Model: to.route.Model,
			ReasoningEffort: to.route.ReasoningEffort, MaxTokens: to.route.MaxTokens,
		},
		System: system, Tools: tools.schemas,
	}
	if to.defaults != (sdkproto.AdapterDefaults{}) {
		h.AdapterDefaults = &to.defaults
	}
	return h
}

// toolset is a list of tools as the model sees it, shared by all sessions that
// have the same.
type toolset struct {
	specs   []tool.Spec
	schemas []sdkproto.ToolSchema
	names   []string
}

// toolsets remembers the lists used last.
type toolsets struct {
	mu   sync.Mutex
	list []*toolset
}

// keepToolsets bounds the lists remembered: filters give a process a handful of
// them, and a forgotten one is only built again.
const keepToolsets = 16

// of gives the list of a view; equal lists are the same pointer while they are
// remembered.
func (s *toolsets) of(v *tool.View) (*toolset, error) {
	tools := v.List()
	specs := make([]tool.Spec, len(tools))
	for i, t := range tools {
		specs[i] = t.Spec()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, known := range s.list {
		if slices.EqualFunc(known.specs, specs, sameSchema) {
			return known, nil
		}
	}
	set := &toolset{specs: specs}
	for _, spec := range specs {
		parameters, err := wirejson.Compact(spec.Parameters)
		if err != nil {
			return nil, fmt.Errorf("tool %s: its parameters are not a JSON Schema: %w", spec.Name, err)
		}
		set.schemas = append(set.schemas, sdkproto.ToolSchema{Name: spec.Name, Description: spec.Description, Parameters: parameters})
		set.names = append(set.names, spec.Name)
	}
	if len(s.list) == keepToolsets {
		s.list = slices.Delete(s.list, 0, 1)
	}
	s.list = append(s.list, set)
	return set, nil
}

func sameSchema(a, b tool.Spec) bool {
	return a.Name == b.Name && a.Description == b.Description && bytes.Equal(a.Parameters, b.Parameters)
}
