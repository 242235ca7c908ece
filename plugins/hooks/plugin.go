// Package hooks runs hooks: callbacks that a client registers, and the commands
// that settings files name under "hooks" (spec stream-json 6).
//
// All hooks on one occurrence run side by side, each within its own limit. A hook
// that fails, panics or does not return is told of and has said nothing, unless it
// is one that blocks on failure, or its limit is one that blocks (5.2). Of
// settings files, those of a working directory that is not trusted are left out.
// What a hook writes never reaches the harness's own output (case B04).
//
// Where several hooks speak, the order is: the settings from user to flags, the
// plugins, then the callbacks as they were registered. Hooks of a plugin find its
// folder in CLAUDE_PLUGIN_ROOT, and disableAllHooks holds for them, too.
//
// Calls of tools are told of behind the plugins of the profile and in front of the
// rules: a hook judges what a plugin has made of a call, and the rules judge what
// the hooks have made of it. Subagents' calls are told of like any other (case
// B29).
package hooks

import (
	"go.uber.org/fx"

	"dsh/kernel"
	"dsh/kernel/agent"
	"dsh/kernel/approval"
	"dsh/kernel/content"
	"dsh/kernel/hook"
	"dsh/kernel/process"
	"dsh/kernel/settings"
	"dsh/kernel/tool"
)

// Plugin is the row type "hooks".
var Plugin = kernel.Define("hooks", "Runs the hooks of clients and of settings files.", defaults,
	func(kernel.Instance, Config) fx.Option {
		return fx.Options(fx.Provide(New, fx.Private),
			fx.Provide(func(e *Engine) hook.Engine { return e }), fx.Invoke((*Engine).register))
	},
	kernel.Needs[*tool.Pipeline](), kernel.Needs[*agent.Hooks](), kernel.Needs[*approval.Desk](),
	kernel.Wants[agent.Registry](), kernel.Wants[approval.Policy](), kernel.Wants[settings.Source](), kernel.Wants[content.Source](),
	kernel.Wants[process.Runner](), kernel.Wants[tool.Spiller](),
	kernel.Provides[hook.Engine]())

// Params is what New takes from the composition.
type Params struct {
	fx.In

	Self     kernel.Instance
	Config   Config
	Pipeline *tool.Pipeline
	Hooks    *agent.Hooks
	Desk     *approval.Desk
	// Agents says which session a subagent belongs to.
	Agents   agent.Registry  `optional:"true"`
	Policy   approval.Policy `optional:"true"`
	Settings settings.Source `optional:"true"`
	// Content has the hooks of plugins.
	Content content.Source `optional:"true"`
	// Runner runs commands; without it those of settings files fail.
	Runner process.Runner `optional:"true"`
	// Spiller keeps what is too long for the model.
	Spiller tool.Spiller `optional:"true"`
}
