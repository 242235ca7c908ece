// Package toolbash lets the model run shell commands.
//
// Every command is a task of its session on the job.Board. Its call waits for it,
// for as long as the command may run, unless the call asks for the background or
// somebody moves the command there (job.Board.Detach): then the call returns at
// once, all output goes to a file (tool.Spiller), and the command lives until it
// ends, is stopped, or its session ends. Under the dialect claude a command whose
// time is up goes on in the background, too (spec stream-json 9). A call that is
// cancelled ends its command in any case.
//
// No call changes the directory or the variables of the next.
package toolbash

import (
	"go.uber.org/fx"

	"dsh/kernel"
	"dsh/kernel/job"
	"dsh/kernel/process"
	"dsh/kernel/tool"
)

// Plugin is the row type "tool-bash".
var Plugin = kernel.Define("tool-bash", "Runs shell commands.", defaults,
	func(kernel.Instance, Config) fx.Option {
		return fx.Options(fx.Provide(New, fx.Private), fx.Invoke((*Bash).register))
	}, kernel.Needs[*tool.Registry](), kernel.Needs[process.Runner](), kernel.Needs[*job.Board](), kernel.Wants[tool.Spiller]())

// Params is what New takes from the composition.
type Params struct {
	fx.In

	Self    kernel.Instance
	Config  Config
	Tools   *tool.Registry
	Runner  process.Runner
	Board   *job.Board
	Spiller tool.Spiller `optional:"true"`
}
