// Package models knows which route a model name means: the format of the API
// that was asked for decides, else the name, else the credential that is set
// (S044, S079, S080). Names, aliases, variables and what a client is shown are
// data in its config.
package models

import (
	"go.uber.org/fx"

	"dsh/kernel"
	"dsh/kernel/credential"
	"dsh/kernel/llm"
)

// Plugin is the row type "models".
var Plugin = kernel.Define("models", "Knows which provider a model name means.", defaults,
	func(kernel.Instance, Config) fx.Option {
		return fx.Options(fx.Provide(New, fx.Private), fx.Provide(catalogue))
	}, kernel.Wants[credential.Source](), kernel.Provides[llm.Models]())

// Params is what New takes from the composition.
type Params struct {
	fx.In

	Self   kernel.Instance
	Config Config
	// Credentials find the keys; without them they are looked for in the
	// environment.
	Credentials credential.Source `optional:"true"`
}

func catalogue(m *Models) llm.Models { return m }
