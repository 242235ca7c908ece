// Package toolbash lets the model run shell commands.
package toolbash

import (
	"go.uber.org/fx"

	"dsh/kernel"
	"dsh/kernel/process"
	"dsh/kernel/tool"
)

// Plugin is the row type "tool-bash".
var Plugin = kernel.Define("tool-bash", "Runs shell commands.", defaults,
	func(kernel.Instance, Config) fx.Option {
		return fx.Options(fx.Provide(New, fx.Private), fx.Invoke((*Bash).register))
	}, kernel.Needs[*tool.Registry](), kernel.Needs[process.Runner](), kernel.Wants[tool.Spiller]())

// Params is what New takes from the composition.
type Params struct {
	fx.In

	Self    kernel.Instance
	Config  Config
	Tools   *tool.Registry
	Runner  process.Runner
	Spiller tool.Spiller `optional:"true"`
}
