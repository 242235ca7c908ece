// Package toolfs gives the model the tools read, write and edit; under the dialect
// claude they are Read, Write and Edit, with NotebookEdit beside them, and Read
// shows images.
package toolfs

import (
	"go.uber.org/fx"

	"dsh/kernel"
	"dsh/kernel/attachment"
	"dsh/kernel/tool"
)

// Plugin is the row type "tool-fs".
var Plugin = kernel.Define("tool-fs", "Reads, writes and edits text files.", defaults,
	func(kernel.Instance, Config) fx.Option {
		return fx.Options(fx.Provide(New, fx.Private), fx.Invoke((*Files).register))
	}, kernel.Needs[*tool.Registry](), kernel.Wants[attachment.Store]())

// Params is what New takes from the composition.
type Params struct {
	fx.In

	Self   kernel.Instance
	Config Config
	Tools  *tool.Registry
	// Images keeps what Read shows; without it an image is refused as binary.
	Images attachment.Store `optional:"true"`
}
