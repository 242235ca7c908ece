// Package mcp connects to MCP servers and gives their tools, resources and
// prompts to the model: servers of the profile and of the settings files, over
// stdio, streamable HTTP and SSE, and servers that live in the client of a front
// end, through its control channel (spec stream-json 8).
//
// Each server lives for itself: it connects in a load task of its own, so that
// the first prompt sees its tools (S120), reconnects with growing pauses, and
// whatever it does wrong (hang, flood, print noise, die) harms it alone. A call
// that was under way when a server went away is never made again by itself
// (case B37).
//
// Programs of stdio servers run in a session of their own and are ended with
// the connection, whole process group and, on Linux, whatever else carries
// their mark. If the harness is killed, a small guard ends them on Unix.
package mcp

import (
	"go.uber.org/fx"

	"dsh/kernel"
	"dsh/kernel/agent"
	"dsh/kernel/approval"
	"dsh/kernel/attachment"
	"dsh/kernel/command"
	plugins "dsh/kernel/content"
	contract "dsh/kernel/mcp"
	"dsh/kernel/process"
	"dsh/kernel/prompt"
	"dsh/kernel/settings"
	"dsh/kernel/tool"
)

// Plugin is the row type "mcp".
var Plugin = kernel.Define("mcp", "Connects to MCP servers and offers their tools, resources and prompts.", defaults,
	func(kernel.Instance, Config) fx.Option {
		return fx.Options(fx.Provide(New, fx.Private),
			fx.Provide(func(m *Manager) contract.Servers { return m }), fx.Invoke((*Manager).register))
	},
	kernel.Needs[*tool.Registry](), kernel.Wants[*command.Registry](), kernel.Wants[*approval.Desk](),
	kernel.Wants[*prompt.Sections](), kernel.Wants[settings.Source](), kernel.Wants[process.Confiner](),
	kernel.Wants[process.Policy](), kernel.Wants[attachment.Store](), kernel.Wants[tool.Spiller](),
	kernel.Wants[*agent.Hooks](), kernel.Wants[plugins.Source](),
	kernel.Provides[contract.Servers]())

// Params is what New takes from the composition.
type Params struct {
	fx.In

	Self     kernel.Instance
	Config   Config
	Tools    *tool.Registry
	Commands *command.Registry `optional:"true"`
	Desk     *approval.Desk    `optional:"true"`
	Sections *prompt.Sections  `optional:"true"`
	Settings settings.Source   `optional:"true"`
	Confiner process.Confiner  `optional:"true"`
	Policy   process.Policy    `optional:"true"`
	Images   attachment.Store  `optional:"true"`
	Spiller  tool.Spiller      `optional:"true"`
	Hooks    *agent.Hooks      `optional:"true"`
	Content  plugins.Source    `optional:"true"`
}
