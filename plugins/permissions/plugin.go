// Package permissions decides which calls of tools run, asks where something is
// to be asked, and says how programs are confined.
//
// A call is judged by rules, by the preset or mode in force, by where its paths
// lead once links are followed, and, for shell commands, by what stands in their
// syntax tree (spec stream-json 7, spec jsonrpc 11.2). The judgement is a
// courtesy to people, who see what a call is about before it runs; what a command
// can really do is bounded by its confinement.
//
// The presets:
//
//	read-only          Calls read. Commands run confined so that nothing can be
//	                   written; where that does not hold, only those known to read.
//	workspace-write    Calls write in the working directories, the folder for
//	                   temporary files and the caches of programs. Commands run
//	                   confined to that; where it does not hold, only those known
//	                   to keep to it. Other tools run: the profile has chosen them.
//	danger-full-access Everything runs but what a deny or an ask rule is about.
//
// A rule that allows a command leaves its confinement as it is. Only somebody
// who is asked about a write that the confinement forbids, and allows it, lets
// that one command run without. Whatever nothing allows is asked; with nobody to
// ask it is refused at once (case B20).
//
// What hooks in front of the rules say of a call (tool.Invocation.Advice) is taken
// up here: a refusal is recorded like one by a rule, an ask has somebody asked, an
// allow spares the question but no rule.
//
// Each call leaves the event permission/decision; a question also leaves
// approval/asked and approval/decided. A root session under another preset than
// workspace-write leaves permission/preset with its first call.
package permissions

import (
	"go.uber.org/fx"

	"dsh/kernel"
	"dsh/kernel/agent"
	"dsh/kernel/approval"
	"dsh/kernel/process"
	"dsh/kernel/settings"
	"dsh/kernel/tool"
)

// Plugin is the row type "permissions".
var Plugin = kernel.Define("permissions", "Decides which calls of tools run, asks about others, and confines programs.", defaults,
	func(kernel.Instance, Config) fx.Option {
		return fx.Options(fx.Provide(New, fx.Private),
			fx.Provide(func(g *Gate) approval.Policy { return g }, func(g *Gate) process.Policy { return confiner{g} }),
			fx.Invoke((*Gate).register))
	},
	kernel.Needs[*tool.Pipeline](), kernel.Needs[*tool.Registry](), kernel.Needs[*approval.Desk](),
	kernel.Wants[settings.Source](), kernel.Wants[process.Confiner](), kernel.Wants[agent.Registry](), kernel.Wants[*agent.Definitions](),
	kernel.Provides[approval.Policy](), kernel.Provides[process.Policy]())

// Params is what New takes from the composition.
type Params struct {
	fx.In

	Self        kernel.Instance
	Config      Config
	Pipeline    *tool.Pipeline
	Tools       *tool.Registry
	Desk        *approval.Desk
	Settings    settings.Source    `optional:"true"`
	Confiner    process.Confiner   `optional:"true"`
	Agents      agent.Registry     `optional:"true"`
	Definitions *agent.Definitions `optional:"true"`
}
