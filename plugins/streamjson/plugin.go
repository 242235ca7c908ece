package streamjson

import (
	"context"
	"os"

	"go.uber.org/fx"

	"dsh/kernel"
	"dsh/kernel/agent"
	"dsh/kernel/approval"
	"dsh/kernel/attachment"
	"dsh/kernel/checkpoint"
	"dsh/kernel/command"
	"dsh/kernel/compaction"
	"dsh/kernel/content"
	"dsh/kernel/hook"
	"dsh/kernel/job"
	"dsh/kernel/llm"
	"dsh/kernel/mcp"
	"dsh/kernel/settings"
	"dsh/kernel/tool"
)

// Plugin is the row type "streamjson".
var Plugin = kernel.Define("streamjson", "Serves the stream-json protocol of the Claude Agent SDKs on standard input and output.", defaults,
	func(kernel.Instance, Config) fx.Option {
		return fx.Options(fx.Provide(fromRow, fx.Private), fx.Invoke(start))
	}, kernel.Needs[agent.Registry](), kernel.Needs[llm.Models](), kernel.Needs[*tool.Registry](), kernel.Needs[*llm.Router](),
	kernel.Claims("stdio"), kernel.Wants[*agent.Definitions](), kernel.Wants[*agent.Hooks](), kernel.Wants[*command.Registry](), kernel.Wants[*approval.Desk](),
	kernel.Wants[approval.Policy](), kernel.Wants[hook.Engine](), kernel.Wants[mcp.Servers](),
	kernel.Wants[attachment.Store](), kernel.Wants[settings.Source](), kernel.Wants[compaction.Compactor](), kernel.Wants[checkpoint.Keeper](), kernel.Wants[*job.Board](),
	kernel.Wants[content.Source](), kernel.Wants[content.Styles]())

// Params is what the server takes from the composition.
type Params struct {
	fx.In

	Self   kernel.Instance
	Config Config
	Agents agent.Registry
	Models llm.Models
	Tools  *tool.Registry
	Router *llm.Router

	Definitions *agent.Definitions `optional:"true"`
	Turns       *agent.Hooks       `optional:"true"`
	Commands    *command.Registry  `optional:"true"`
	Desk        *approval.Desk     `optional:"true"`
	Policy      approval.Policy    `optional:"true"`
	Hooks       hook.Engine        `optional:"true"`
	MCP         mcp.Servers        `optional:"true"`
	Images      attachment.Store   `optional:"true"`
	Settings    settings.Source    `optional:"true"`

	Compactor   compaction.Compactor `optional:"true"`
	Checkpoints checkpoint.Keeper    `optional:"true"`
	Jobs        *job.Board           `optional:"true"`
	Content     content.Source       `optional:"true"`
	Styles      content.Styles       `optional:"true"`
}

func fromRow(p Params) *Server {
	return New(Options{
		Config: p.Config, Agents: p.Agents, Models: p.Models, Tools: p.Tools, Router: p.Router,
		Owner: p.Self.Owner, Root: p.Self.Root, Ready: p.Self.Ready, Log: p.Self.Log,
		In: p.Self.Stdio.In, Out: p.Self.Stdio.Out, Unread: p.Self.Stdio.Unread, Err: os.Stderr,
		Definitions: p.Definitions, Turns: p.Turns, Commands: p.Commands, Desk: p.Desk, Policy: p.Policy,
		Hooks: p.Hooks, MCP: p.MCP, Images: p.Images, Settings: p.Settings, Compactor: p.Compactor, Checkpoints: p.Checkpoints, Jobs: p.Jobs,
		Content: p.Content, Styles: p.Styles, Reload: p.Self.Reload,
	})
}

// start lets the server read once the rows it was composed with are made.
func start(lc fx.Lifecycle, s *Server) {
	lc.Append(fx.StartHook(func(context.Context) error { return s.Serve() }))
}
