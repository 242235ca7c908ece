// Package core is the plugin that provides the registries where all others
// meet (decision R1). It is the first row of profile base.
package core

import (
	"go.uber.org/fx"

	"dsh/kernel"
	"dsh/kernel/agent"
	"dsh/kernel/approval"
	"dsh/kernel/command"
	"dsh/kernel/llm"
	"dsh/kernel/prompt"
	"dsh/kernel/tool"
)

// Config has nothing to say.
type Config struct{}

// Plugin is the row type "core".
var Plugin = kernel.Define("core", "Provides the registries of models, tools, prompt sections, hooks, slash commands and approvers.",
	func() Config { return Config{} },
	func(kernel.Instance, Config) fx.Option {
		return fx.Provide(llm.NewRouter, tool.NewRegistry, tool.NewPipeline, prompt.NewSections,
			agent.NewHooks, agent.NewDefinitions, command.NewRegistry, approval.NewDesk)
	},
	kernel.Provides[*llm.Router](), kernel.Provides[*tool.Registry](),
	kernel.Provides[*tool.Pipeline](), kernel.Provides[*prompt.Sections](),
	kernel.Provides[*agent.Hooks](), kernel.Provides[*agent.Definitions](), kernel.Provides[*command.Registry](), kernel.Provides[*approval.Desk](),
)
