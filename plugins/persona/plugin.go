// Package persona tells the model, in one sentence, what it is and where it
// works. In the profile sdk nothing else writes into the system prompt (S130,
// S133).
package persona

import (
	"go.uber.org/fx"

	"dsh/kernel"
	"dsh/kernel/prompt"
)

// Plugin is the row type "persona".
var Plugin = kernel.Define("persona", "Tells the model what it is and where it works.", defaults,
	func(kernel.Instance, Config) fx.Option {
		return fx.Options(fx.Provide(New, fx.Private), fx.Invoke((*Persona).register))
	}, kernel.Needs[*prompt.Sections]())

// Params is what New takes from the composition.
type Params struct {
	fx.In

	Self     kernel.Instance
	Config   Config
	Sections *prompt.Sections
}
