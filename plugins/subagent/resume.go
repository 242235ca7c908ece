package subagent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"dsh/kernel/agent"
	"dsh/kernel/llm"
	"dsh/kernel/session"
	"dsh/kernel/tool"
	"dsh/sdkproto"
)

// describe is the head of a child's log. With the log it is all that a later run of
// the child needs: what the child has of its parent it has of it again then.
func describe(t task, parent llm.Route) sdkproto.SubagentDescriptor {
	d := sdkproto.SubagentDescriptor{
		Version: 2, Mode: "one-shot", Provider: provider, Label: t.label,
		AgentType: t.kind.Name, System: t.kind.Prompt, MaxSteps: t.kind.MaxTurns,
	}
	if r := t.route; r != nil {
		if r.Provider != parent.Provider || r.Model != parent.Model {
			d.AgentProvider, d.AgentModel = r.Provider, r.Model
		}
		d.AgentEffort = r.ReasoningEffort
	}
	if f := t.filter; f != nil {
		d.Tools = &sdkproto.ToolLimits{Allow: f.Allow, Deny: f.Deny, None: f.AllowNone}
	}
	return d
}

// errEnough ends the reading of a log.
var errEnough = errors.New("enough was read")

// earlier gives what a child of a session was made of that is to go on, or says why
// it cannot.
func (s *Subagents) earlier(ctx context.Context, parent, id string) (sdkproto.SubagentDescriptor, *tool.Result, error) {
	var none sdkproto.SubagentDescriptor
	unknown := func(format string, args ...any) (sdkproto.SubagentDescriptor, *tool.Result, error) {
		r := refuse(codeUnknown, format, args...)
		return none, &r, nil
	}
	if uuid.Validate(id) != nil {
		return unknown("there is no subagent %q; resume takes the id of one that this conversation has started", clip(id, 100))
	}
	h, err := s.store.Header(ctx, id)
	if errors.Is(err, session.ErrNotFound) {
		return unknown("there is no subagent %s, or nothing of it was kept", id)
	}
	if err != nil {
		return none, nil, fmt.Errorf("take up a subagent again: %w", err)
	}
	if h.ParentSession != parent {
		return unknown("subagent %s belongs to another conversation", id)
	}
	d, ok, err := s.descriptor(ctx, id)
	if err != nil {
		return none, nil, fmt.Errorf("take up a subagent again: %w", err)
	}
	if !ok {
		return unknown("session %s was not started by this tool", id)
	}
	return d, nil, nil
}

// descriptor reads the head of a child's log; ok is false for one that has none.
func (s *Subagents) descriptor(ctx context.Context, id string) (d sdkproto.SubagentDescriptor, ok bool, err error) {
	err = s.agents.Events(ctx, id, 0, func(r *session.Record) (err error) {
		if ok = r.Event.Type == sdkproto.TypeSubagentDescriptor; ok {
			d, err = session.Decode[sdkproto.SubagentDescriptor](r)
		}
		return cmp.Or(err, errEnough)
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return d, ok && d.Provider == provider, err
}

// again makes a task one of the child of a session that d describes.
func (s *Subagents) again(t *task, parent string, d sdkproto.SubagentDescriptor) {
	t.kind = agent.Definition{Name: d.AgentType, Prompt: d.System, MaxTurns: d.MaxSteps}
	if p, ok := s.agents.Get(parent); ok {
		if route := s.routeAgain(p.Spec().Route, d); route != p.Spec().Route {
			t.route = &route
		}
	}
	if d.Tools != nil {
		t.filter = s.toolsAgain(d.Tools)
	}
}

// toolsAgain is the filter of a child that was restricted; tools that are gone by
// now are left out.
func (s *Subagents) toolsAgain(limits *sdkproto.ToolLimits) *tool.Filter {
	var there []string
	for _, tl := range s.tools.View(nil).List() {
		there = append(there, nameOf(tl))
	}
	gone := func(name string) bool { return !slices.Contains(there, name) }
	restricted := len(limits.Allow) > 0
	f := tool.Filter{Allow: slices.DeleteFunc(limits.Allow, gone), Deny: slices.DeleteFunc(limits.Deny, gone)}
	switch {
	case limits.None, restricted && len(f.Allow) == 0:
		return &tool.Filter{AllowNone: true}
	case len(f.Allow)+len(f.Deny) == 0:
		return nil
	}
	return &f
}

// routeAgain is the route of a child that d describes, the parent's where that is
// not to be had any more.
func (s *Subagents) routeAgain(parent llm.Route, d sdkproto.SubagentDescriptor) llm.Route {
	route := parent
	if d.AgentModel != "" {
		route.Provider, route.Model, route.ReasoningEffort = d.AgentProvider, d.AgentModel, ""
		if _, err := s.agents.CheckRoute(route); err != nil || !s.keyed(parent, route) {
			s.log.Info("a subagent goes on with its parent's model, because its own cannot be had", "model", d.AgentModel, "provider", d.AgentProvider)
			route = parent
		}
	}
	if d.AgentEffort != "" {
		route.ReasoningEffort = d.AgentEffort
		route = agent.Fit(s.agents, route)
	}
	return route
}

// maxEnded bounds the children that have ended and are listed.
const maxEnded = 20

// ended lists the children of a session that have ended, the newest first.
func (s *Subagents) ended(ctx context.Context, in tool.Invocation, running map[string]bool) ([]string, error) {
	headers, err := s.agents.List(ctx, in.CWD)
	if err != nil {
		return nil, fmt.Errorf("list the subagents that have ended: %w", err)
	}
	var lines []string
	for _, h := range headers {
		if h.ParentSession != in.SessionID || running[h.ID] {
			continue
		}
		d, ok, err := s.descriptor(ctx, h.ID)
		if err != nil || !ok {
			continue // nothing that could go on
		}
		if len(lines) == maxEnded {
			return append(lines, "(there are more)"), nil
		}
		lines = append(lines, fmt.Sprintf("%s (%s), has ended", h.ID, d.Label))
	}
	return lines, nil
}
