// Package toolsearch gives the model the tools glob and grep; under the dialect
// claude they are Glob and Grep, and Grep takes more.
package toolsearch

import (
	"go.uber.org/fx"

	"dsh/kernel"
	"dsh/kernel/tool"
)

// Plugin is the row type "tool-search".
var Plugin = kernel.Define("tool-search", "Finds files by name and by content.", defaults,
	func(kernel.Instance, Config) fx.Option {
		return fx.Options(fx.Provide(New, fx.Private), fx.Invoke((*Search).register))
	}, kernel.Needs[*tool.Registry]())

// Params is what New takes from the composition.
type Params struct {
	fx.In

	Self   kernel.Instance
	Config Config
	Tools  *tool.Registry
}
