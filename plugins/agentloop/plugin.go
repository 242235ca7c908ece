// Package agentloop is the plugin that drives sessions: it takes messages from
// an inbox, asks the model, runs the tools the model calls, and writes all of it
// into the session's log. It provides agent.Registry.
//
// A session that is idle has no goroutine. A message wakes it: a goroutine runs
// one turn per prompt until the inbox is empty.
package agentloop

import (
	"go.uber.org/fx"

	"dsh/kernel"
	"dsh/kernel/agent"
	"dsh/kernel/attachment"
	"dsh/kernel/llm"
	"dsh/kernel/process"
	"dsh/kernel/prompt"
	"dsh/kernel/session"
	"dsh/kernel/tool"
)

// Plugin is the row type "agentloop".
var Plugin = kernel.Define("agentloop", "Runs the agents: turns, model requests, retries and tool calls.", Defaults,
	func(kernel.Instance, Config) fx.Option {
		return fx.Options(
			fx.Provide(New, fx.Private),
			fx.Provide(func(r *Registry) agent.Registry { return r }),
			fx.Invoke((*Registry).Register),
		)
	},
	kernel.Needs[session.Store](), kernel.Needs[*llm.Router](), kernel.Needs[*tool.Registry](),
	kernel.Needs[*tool.Pipeline](), kernel.Needs[*prompt.Sections](),
	kernel.Wants[process.Runner](), kernel.Wants[*agent.Hooks](), kernel.Wants[attachment.Store](), kernel.Provides[agent.Registry](),
)

// Params are what New needs. A composition by hand fills them in itself: of the
// Instance it needs Owner, Log and Root.
type Params struct {
	fx.In

	Instance kernel.Instance
	Config   Config
	Store    session.Store
	Router   *llm.Router
	Tools    *tool.Registry
	Pipeline *tool.Pipeline
	Sections *prompt.Sections
	// Runner ends what a session's programs left running; it may be nil.
	Runner process.Runner `optional:"true"`
	// Hooks hang into the life of a turn, Images reads attachments; both may be nil.
	Hooks  *agent.Hooks     `optional:"true"`
	Images attachment.Store `optional:"true"`
}
