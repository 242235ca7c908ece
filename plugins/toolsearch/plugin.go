// Package toolsearch gives the model the tools glob and grep; under the dialect
// claude they are Glob and Grep, and Grep takes more.
//
// The walk of the tree and the matching of lines are its own. Where a machine has
// ripgrep, a search of many files asks it which of them may match (Config.Ripgrep).
package toolsearch

import (
	"go.uber.org/fx"

	"dsh/kernel"
	"dsh/kernel/process"
	"dsh/kernel/tool"
)

// Plugin is the row type "tool-search".
var Plugin = kernel.Define("tool-search", "Finds files by name and by content.", defaults,
	func(kernel.Instance, Config) fx.Option {
		return fx.Options(fx.Provide(New, fx.Private), fx.Invoke((*Search).register))
	}, kernel.Needs[*tool.Registry](), kernel.Wants[process.Runner](), kernel.Wants[process.Confiner]())

// Params is what New takes from the composition.
type Params struct {
	fx.In

	Self   kernel.Instance
	Config Config
	Tools  *tool.Registry
	// Runner starts ripgrep, under Confiner; without a runner there is none.
	Runner   process.Runner   `optional:"true"`
	Confiner process.Confiner `optional:"true"`
}
