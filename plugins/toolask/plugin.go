// Package toolask has the tools by which a model turns to the person it works
// for: AskUserQuestion, EnterPlanMode and ExitPlanMode (spec stream-json 9). They
// have no names in the other dialect.
//
// A question, or a plan, is put to the person as the question whether its call may
// run: the gate of the permissions sends it to whoever answers, in every mode
// (decision D7 of spec stream-json 0.4). What the person says comes back as the
// arguments of the approved call, or as the words of the refusal; with nobody there
// the call is refused at once.
package toolask

import (
	"go.uber.org/fx"

	"dsh/kernel"
	"dsh/kernel/agent"
	"dsh/kernel/approval"
	"dsh/kernel/tool"
)

// Plugin is the row type "tool-ask".
var Plugin = kernel.Define("tool-ask", "Lets the model ask the user, and plan before it works.", func() Config { return Config{} },
	func(kernel.Instance, Config) fx.Option {
		return fx.Options(fx.Provide(New, fx.Private), fx.Invoke((*Ask).register))
	}, kernel.Needs[*tool.Registry](), kernel.Needs[*tool.Pipeline](), kernel.Needs[approval.Policy](), kernel.Wants[agent.Registry]())

// Config is empty: how many questions and options there may be is part of the
// tool.
type Config struct{}

// Params is what New takes from the composition.
type Params struct {
	fx.In

	Self     kernel.Instance
	Tools    *tool.Registry
	Pipeline *tool.Pipeline
	Policy   approval.Policy
	// Agents tell subagents; without them there are none.
	Agents agent.Registry `optional:"true"`
}
