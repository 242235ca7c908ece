// Package spill keeps the output of tools that is too long for the model in
// files, where the model can read it (decision D19). Whatever a tool gives, and
// whatever hooks make of it, no result has more text than the row allows.
package spill

import (
	"go.uber.org/fx"

	"dsh/kernel"
	"dsh/kernel/tool"
)

// Plugin is the row type "spill".
var Plugin = kernel.Define("spill", "Keeps long output of tools in files.", defaults,
	func(in kernel.Instance, c Config) fx.Option {
		return fx.Options(
			fx.Provide(func() *Spill { return New(in.Home) }, fx.Private),
			fx.Provide(func(s *Spill) tool.Spiller { return s }),
			fx.Invoke(func(s *Spill, p *tool.Pipeline) error { return s.limit(in.Owner, p, c.MaxText) }))
	}, kernel.Needs[*tool.Pipeline](), kernel.Provides[tool.Spiller]())

// Config says how much text a result may have; the place of the files is part of
// the product (decision D19).
type Config struct {
	// MaxText bounds the text of a result, in characters; 0 bounds nothing. All of a
	// longer one goes into a file, and the model gets the beginning and the file's
	// name. It is a safety net: most tools bound their results to far less, and one
	// that is set to more goes ahead of it (tool.Spec.MaxText).
	MaxText int `json:"maxText"`
}

func defaults() Config { return Config{MaxText: 200_000} }

// Validate reports a limit that leaves no room for what a model needs.
func (c *Config) Validate() error {
	if c.MaxText == 0 {
		return nil
	}
	return kernel.AtLeast("maxText", c.MaxText, 1000)
}
