package jsonrpc

import (
	"context"
	"time"

	"go.uber.org/fx"

	"dsh/kernel"
	"dsh/kernel/agent"
	"dsh/kernel/approval"
	"dsh/kernel/attachment"
	"dsh/kernel/mcp"
	"dsh/kernel/process"
)

// Plugin is the row type "jsonrpc".
var Plugin = kernel.Define("jsonrpc", "Serves the dsh SDK protocol, JSON-RPC lines on standard input and output.", defaults,
	func(kernel.Instance, Config) fx.Option {
		return fx.Options(fx.Provide(fromRow, fx.Private), fx.Invoke(start))
	}, kernel.Needs[agent.Registry](), kernel.Claims("stdio"),
	kernel.Wants[attachment.Store](), kernel.Wants[*approval.Desk](), kernel.Wants[mcp.Servers](), kernel.Wants[process.Confiner]())

// Params is what the server takes from the composition: the one seam it needs
// (S104), and those that it uses when they are there.
type Params struct {
	fx.In

	Self   kernel.Instance
	Config Config
	Agents agent.Registry

	Attachments attachment.Store `optional:"true"`
	Approvals   *approval.Desk   `optional:"true"`
	MCP         mcp.Servers      `optional:"true"`
	Confiner    process.Confiner `optional:"true"`
}

func fromRow(p Params) *Server {
	return New(Options{
		Agents: p.Agents,
		Owner:  p.Self.Owner,
		Root:   p.Self.Root,
		Ready:  p.Self.Ready,
		In:     p.Self.Stdio.In,
		Out:    p.Self.Stdio.Out,
		Exit:   p.Self.Root.Exit,
		Log:    p.Self.Log,
		Limits: Limits{MaxLine: p.Config.MaxLine, MaxQueued: p.Config.MaxQueued},

		Tools:              p.Config.ToolFilter,
		MaxTokensAsSuccess: p.Config.MaxTokensAsSuccess,
		Mounter:            p.Self.Mounter,
		Attachments:        p.Attachments,
		Approvals:          p.Approvals,
		ApprovalTimeout:    time.Duration(p.Config.ApprovalTimeout),
		MCP:                p.MCP,
		Confiner:           p.Confiner,
	})
}

// start lets the server read once the rows it was composed with are made.
func start(lc fx.Lifecycle, s *Server) {
	lc.Append(fx.StartHook(func(context.Context) error { return s.Serve() }))
}
