package toolask

import (
	"bytes"
	"context"
	"encoding/json"

	"dsh/kernel"
	"dsh/kernel/agent"
	"dsh/kernel/approval"
	"dsh/kernel/tool"
)

// order is behind the hooks, which may answer in the place of the person, and in
// front of the rules, which send a call to the person.
const order = tool.OrderGate + 25

// Ask offers the tools.
type Ask struct {
	owner    *kernel.Owner
	tools    *tool.Registry
	pipeline *tool.Pipeline
	policy   approval.Policy
	agents   agent.Registry

	question, enter, exit tool.Tool
}

// New makes the tools; register puts them where the agents find them.
func New(p Params) *Ask {
	a := &Ask{owner: p.Self.Owner, tools: p.Tools, pipeline: p.Pipeline, policy: p.Policy, agents: p.Agents}
	a.question, a.enter, a.exit = newQuestion(), a.newEnter(), a.newExit()
	return a
}

func (a *Ask) register() error {
	for _, t := range []tool.Tool{a.question, a.enter, a.exit} {
		if err := a.tools.Register(a.owner, t); err != nil {
			return err
		}
	}
	return a.pipeline.Use(a.owner, order, "tool-ask", a.stage)
}

// stage looks at calls before the person is asked.
func (a *Ask) stage(ctx context.Context, t tool.Tool, in tool.Invocation, next tool.Next) (tool.Result, error) {
	switch t {
	case a.question:
		in = unanswered(in)
	case a.exit:
		if res, ends := a.cannotExit(in); ends {
			return res, nil
		}
		if bytes.Equal(in.Arguments, in.Requested) {
			in = unspared(in)
		}
	}
	return next(ctx, t, in)
}

// unspared has the person asked although a hook allows the call: a hook that lets
// everything pass has not given the person's answer.
func unspared(in tool.Invocation) tool.Invocation {
	if in.Advice.Behavior == approval.Allow {
		in.Advice = tool.Advice{}
	}
	return in
}

// isChild reports whether a session is a delegated one.
func (a *Ask) isChild(sessionID string) bool {
	if a.agents == nil {
		return false
	}
	x, ok := a.agents.Get(sessionID)
	return ok && x.Spec().Parent != ""
}

// checked is a tool that asks more of its arguments than a schema can say: what is
// wrong is found before anybody is asked, and again in what an answer puts in their
// place.
type checked struct {
	tool.Tool
	name  string
	check func(t tool.Tool, arguments json.RawMessage) error
}

// Name spares those who only want to know it the schema.
func (c *checked) Name() string { return c.name }

// CheckArguments is called by tool.CheckArguments.
func (c *checked) CheckArguments(arguments json.RawMessage) error {
	return c.check(c.Tool, arguments)
}
