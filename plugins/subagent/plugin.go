// Package subagent lets an agent delegate: its tools start child agents in this
// process, each with a session of its own, and give back what they answer (spec
// jsonrpc 8).
//
// A child gets one prompt, works until it is idle, and is closed. It can be taken
// up again by its id, by the session that started it and in a later process, too:
// then it has its history, its kind, its tools and its model, and a new prompt. It has
// its parent's working directory and route, so the same cap on its output
// (S123), and at most its parent's tools (spec jsonrpc 4.3); nobody can be asked
// on its behalf.
//
// In the foreground the call waits for the child, and ends it when the call is
// cancelled. In the background the call returns at once; the child lives as long
// as the parent's session, whatever becomes of the turn that started it, and its
// end is told to the parent as a message, which wakes it. A child that has started
// children of its own in the background is done when those are.
//
// Every run is on the board of jobs under the child's id. There it can be stopped,
// and a run in the foreground be let go of by its call: then it is one in the
// background. The end of a run that was stopped there is not told: that is for
// whoever watches the board.
//
// Under the dialect claude a call may name a kind of agent (agent.Definition), which
// decides the child's system prompt, tools, model, effort and number of steps, and
// whether it starts in the background (spec stream-json 11.7). Who is asked about its
// calls, and in which permission mode, is for the rules to say then; its skills are
// for the row skills. MCP servers and a memory of a kind's own are not offered, and
// what a definition says of them is not read.
package subagent

import (
	"go.uber.org/fx"

	"dsh/kernel"
	"dsh/kernel/agent"
	"dsh/kernel/approval"
	"dsh/kernel/job"
	"dsh/kernel/llm"
	"dsh/kernel/session"
	"dsh/kernel/tool"
)

// Plugin is the row type "subagent".
var Plugin = kernel.Define("subagent", "Lets an agent delegate work to child agents.", defaults,
	func(kernel.Instance, Config) fx.Option {
		return fx.Options(fx.Provide(New, fx.Private), fx.Invoke((*Subagents).register))
	}, kernel.Needs[*tool.Registry](), kernel.Needs[agent.Registry](), kernel.Wants[*agent.Hooks](), kernel.Wants[tool.Spiller](),
	kernel.Needs[session.Store](), kernel.Needs[*job.Board](), kernel.Wants[*agent.Definitions](), kernel.Wants[llm.Models](), kernel.Wants[approval.Policy]())

// Params is what New takes from the composition.
type Params struct {
	fx.In

	Self   kernel.Instance
	Config Config
	Tools  *tool.Registry
	Agents agent.Registry
	Store  session.Store
	Board  *job.Board
	// Hooks tell a child what it is; nil tells it nothing.
	Hooks *agent.Hooks `optional:"true"`
	// Spiller keeps answers that are too long for the parent's model; nil cuts
	// them.
	Spiller tool.Spiller `optional:"true"`
	// Kinds are those of agents and Models what their models mean; the dialect claude
	// asks them. Without Kinds there is one kind, without Models a child has its
	// parent's.
	Kinds  *agent.Definitions `optional:"true"`
	Models llm.Models         `optional:"true"`
	// Policy says whether a kind that a call does not name may be taken up again; nil
	// lets all be.
	Policy approval.Policy `optional:"true"`
}
