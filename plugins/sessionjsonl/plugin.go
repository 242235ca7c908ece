// Package sessionjsonl keeps sessions as JSON lines, one flat file per session
// (decision R20, spec jsonrpc 9.1, 9.2). The file is the lock, too: whoever
// writes a session holds an advisory lock on its descriptor.
package sessionjsonl

import (
	"path/filepath"

	"go.uber.org/fx"

	"dsh/kernel"
	"dsh/kernel/session"
)

// Plugin is the row type "session-jsonl".
var Plugin = kernel.Define("session-jsonl", "Keeps sessions in files of JSON lines.", defaults,
	func(kernel.Instance, Config) fx.Option {
		return fx.Provide(New)
	}, kernel.Provides[session.Store]())

// Params is what New takes from the composition.
type Params struct {
	fx.In

	Self   kernel.Instance
	Config Config
}

// New makes the store of a row. Nothing is touched before the first session.
func New(p Params) session.Store {
	dir := p.Config.Dir
	switch {
	case dir == "":
		dir = filepath.Join(p.Self.Home, "sessions.d")
	case !filepath.IsAbs(dir):
		dir = filepath.Join(p.Self.Home, dir)
	}
	return NewStore(dir, filepath.Join(p.Self.Home, "spill"), p.Self.Log)
}
