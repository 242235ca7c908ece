// Package tooljob lets the model look after what goes on behind its calls: shell
// commands and subagents in the background, as the job.Board knows them.
//
// Its tools show a task and its output, wait for it and end it; a session sees its
// own tasks only. Commands that go on and how they end are in the session's log
// (sdkproto.JobStarted, sdkproto.JobEnded); subagents have logs of their own.
//
// A command that ends by itself is told to its session as a message, which wakes
// the agent (spec stream-json 11.8). What somebody else than the model has stopped
// wakes nobody: it is told with the next prompt. What a subagent answers, the
// subagents tell.
package tooljob

import (
	"go.uber.org/fx"

	"dsh/kernel"
	"dsh/kernel/agent"
	"dsh/kernel/job"
	"dsh/kernel/tool"
)

// Plugin is the row type "tool-job".
var Plugin = kernel.Define("tool-job", "Shows and ends background tasks, and tells of their ends.", defaults,
	func(kernel.Instance, Config) fx.Option {
		return fx.Options(fx.Provide(New, fx.Private), fx.Invoke((*Jobs).register))
	}, kernel.Needs[*tool.Registry](), kernel.Needs[*job.Board](), kernel.Wants[agent.Registry](), kernel.Wants[*agent.Hooks]())

// Params is what New takes from the composition.
type Params struct {
	fx.In

	Self   kernel.Instance
	Config Config
	Tools  *tool.Registry
	Board  *job.Board
	// Agents are those that are told; without them nothing is told or recorded.
	Agents agent.Registry `optional:"true"`
	// Hooks tell of tasks that were stopped; without them nobody does.
	Hooks *agent.Hooks `optional:"true"`
}
