// Package llmopenai is the model adapter for endpoints that speak the
// chat-completions protocol of OpenAI. How they differ is data: a preset, and
// quirks on top of it. The README lists both.
package llmopenai

import (
	"go.uber.org/fx"

	"dsh/kernel"
	"dsh/kernel/credential"
	"dsh/kernel/llm"
)

// Plugin is the row type "llm-openai". A profile may have several rows of it,
// each with a provider id of its own.
var Plugin = kernel.Define("llm-openai", "Speaks to an OpenAI-compatible API.", defaults,
	func(kernel.Instance, Config) fx.Option {
		return fx.Options(fx.Provide(New, fx.Private), fx.Invoke((*OpenAI).register))
	}, kernel.Needs[*llm.Router](), kernel.Wants[credential.Source]())

// Params is what New takes from the composition.
type Params struct {
	fx.In

	Self   kernel.Instance
	Config Config
	Router *llm.Router
	// Credentials find the key; without them it is looked for in the environment.
	Credentials credential.Source `optional:"true"`
}
