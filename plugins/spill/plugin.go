// Package spill keeps the output of tools that is too long for the model in
// files, where the model can read it (decision D19).
package spill

import (
	"go.uber.org/fx"

	"dsh/kernel"
	"dsh/kernel/tool"
)

// Plugin is the row type "spill".
var Plugin = kernel.Define("spill", "Keeps long output of tools in files.", func() Config { return Config{} },
	func(in kernel.Instance, c Config) fx.Option {
		return fx.Provide(func() tool.Spiller { return New(in.Home) })
	}, kernel.Provides[tool.Spiller]())

// Config is empty: the place is part of the product (decision D19).
type Config struct{}
