// Package credentials finds secrets by name, in this order: the environment of
// the process, $DSH_HOME/.credentials.yaml, $DSH_HOME/.env (decision R19).
// Nothing in the workspace is read: a checkout must not be able to choose the
// account that pays.
//
// Files are read anew for every look-up, so that a changed key needs no
// restart, and a value is neither kept nor logged.
package credentials

import (
	"context"

	"go.uber.org/fx"

	"dsh/kernel"
	"dsh/kernel/credential"
)

// Plugin is the row type "credentials".
var Plugin = kernel.Define("credentials", "Finds secrets in the environment and in the data folder.", defaults,
	func(_ kernel.Instance, _ Config) fx.Option {
		return fx.Options(fx.Provide(New, fx.Private), fx.Provide(source), fx.Invoke(start))
	}, kernel.Provides[credential.Source]())

// Params is what New takes from the composition.
type Params struct {
	fx.In

	Self kernel.Instance
}

func source(c *Credentials) credential.Source { return c }

// start checks the files before anything else begins to work: one that exists
// and cannot be used stops the start (spec jsonrpc 11.2, case B82).
func start(lc fx.Lifecycle, c *Credentials) {
	lc.Append(fx.StartHook(func(context.Context) error { return c.check() }))
}
