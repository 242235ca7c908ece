// Package toolfs gives the model the tools read, write and edit.
package toolfs

import (
	"go.uber.org/fx"

	"dsh/kernel"
	"dsh/kernel/tool"
)

// Plugin is the row type "tool-fs".
var Plugin = kernel.Define("tool-fs", "Reads, writes and edits text files.", defaults,
	func(kernel.Instance, Config) fx.Option {
		return fx.Options(fx.Provide(New, fx.Private), fx.Invoke((*Files).register))
	}, kernel.Needs[*tool.Registry]())

// Params is what New takes from the composition.
type Params struct {
	fx.In

	Self   kernel.Instance
	Config Config
	Tools  *tool.Registry
}
