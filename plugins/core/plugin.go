// Package core is the plugin that provides the registries where all others
// meet (decision R1). It is the first row of profile base.
package core

import (
	"go.uber.org/fx"

	"dsh/kernel"
	"dsh/kernel/agent"
	"dsh/kernel/approval"
	"dsh/kernel/command"
	"dsh/kernel/job"
	"dsh/kernel/llm"
	"dsh/kernel/prompt"
	"dsh/kernel/tool"
)

// Config says what the registries do where wires differ; an empty one is valid.
type Config struct {
	// UnknownTool is what a model is told that calls a tool it does not have, with
	// {name} for the name; "" is the text of spec jsonrpc 4.2.
	UnknownTool string `json:"unknownTool"`
}

// Plugin is the row type "core".
var Plugin = kernel.Define("core", "Provides the registries of models, tools, prompt sections, hooks, slash commands, approvers and background tasks.",
	func() Config { return Config{} },
	func(_ kernel.Instance, c Config) fx.Option {
		pipeline := func() *tool.Pipeline {
			p := tool.NewPipeline()
			p.Unknown = c.UnknownTool
			return p
		}
		return fx.Provide(llm.NewRouter, tool.NewRegistry, pipeline, prompt.NewSections,
			agent.NewHooks, agent.NewDefinitions, command.NewRegistry, approval.NewDesk, job.NewBoard)
	},
	kernel.Provides[*llm.Router](), kernel.Provides[*tool.Registry](),
	kernel.Provides[*tool.Pipeline](), kernel.Provides[*prompt.Sections](),
	kernel.Provides[*agent.Hooks](), kernel.Provides[*agent.Definitions](), kernel.Provides[*command.Registry](), kernel.Provides[*approval.Desk](), kernel.Provides[*job.Board](),
)
