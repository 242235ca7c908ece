// Package toolfs gives the model the tools read, write, edit and read_image; under the
// dialect claude they are Read, Write and Edit, with NotebookEdit beside them, and Read
// shows images, PDF files and notebooks as what they are.
//
// No tool asks that a file was read before it is changed (S060): an edit says what
// it replaces, and a file is never replaced halfway. What somebody else has changed
// since a session last read or wrote it is noticed all the same:
//
//   - write refuses, once, to replace a whole file that the session knows in another
//     state, because what is new in it would be lost unseen. The same call again is
//     taken: by then the model has been told.
//   - edit and NotebookEdit work on the file as it is, which the text to replace or
//     the cell proves right, and say that it had changed.
//   - a change in the very moment of the call makes the call fail.
//
// A session that never saw a file, or was resumed, is refused nothing.
package toolfs

import (
	"go.uber.org/fx"

	"dsh/kernel"
	"dsh/kernel/attachment"
	"dsh/kernel/tool"
)

// Plugin is the row type "tool-fs".
var Plugin = kernel.Define("tool-fs", "Reads, writes and edits files.", defaults,
	func(kernel.Instance, Config) fx.Option {
		return fx.Options(fx.Provide(New, fx.Private), fx.Invoke((*Files).register))
	}, kernel.Needs[*tool.Registry](), kernel.Wants[attachment.Store]())

// Params is what New takes from the composition.
type Params struct {
	fx.In

	Self   kernel.Instance
	Config Config
	Tools  *tool.Registry
	// Images keeps what Read and read_image show; without it there is no read_image,
	// and an image is refused as binary.
	Images attachment.Store `optional:"true"`
}
