// Package processlocal starts the programs of tools on this machine, keeps them
// away from the harness's descriptors and secrets, and ends what they leave
// running.
package processlocal

import (
	"go.uber.org/fx"

	"dsh/kernel"
	"dsh/kernel/process"
)

// Plugin is the row type "process-local".
var Plugin = kernel.Define("process-local", "Starts the programs of tools on this machine.", defaults,
	func(kernel.Instance, Config) fx.Option {
		return fx.Options(fx.Provide(New, fx.Private),
			fx.Provide(func(r *Runner) process.Runner { return r }), fx.Invoke((*Runner).register))
	}, kernel.Provides[process.Runner](), kernel.Wants[process.Confiner]())

// Params is what New takes from the composition.
type Params struct {
	fx.In

	Self     kernel.Instance
	Config   Config
	Confiner process.Confiner `optional:"true"`
}
