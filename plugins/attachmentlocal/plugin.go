// Package attachmentlocal keeps images in files named after the digest of what
// they hold (spec jsonrpc 9.7). An image is checked by decoding it and, where it
// is too large for models, turned upright, scaled down and encoded anew.
package attachmentlocal

import (
	"path/filepath"

	"go.uber.org/fx"

	"dsh/kernel"
	"dsh/kernel/attachment"
)

// Plugin is the row type "attachment-local".
var Plugin = kernel.Define("attachment-local", "Checks images and keeps them in files named by their content.", defaults,
	func(kernel.Instance, Config) fx.Option {
		return fx.Provide(New)
	}, kernel.Provides[attachment.Store]())

// Params is what New takes from the composition.
type Params struct {
	fx.In

	Self   kernel.Instance
	Config Config
}

// New makes the store of a row. Nothing is touched before the first image.
func New(p Params) attachment.Store {
	dir := p.Config.Dir
	switch {
	case dir == "":
		dir = filepath.Join(p.Self.Home, "attachments")
	case !filepath.IsAbs(dir):
		dir = filepath.Join(p.Self.Home, dir)
	}
	return NewStore(dir)
}
