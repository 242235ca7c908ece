// Package llmanthropic is the model adapter for Anthropic's Messages API and
// endpoints that speak it. What it knows of models is data in its config.
package llmanthropic

import (
	"go.uber.org/fx"

	"dsh/kernel"
	"dsh/kernel/credential"
	"dsh/kernel/llm"
)

// Plugin is the row type "llm-anthropic".
var Plugin = kernel.Define("llm-anthropic", "Speaks to Anthropic's API.", defaults,
	func(kernel.Instance, Config) fx.Option {
		return fx.Options(fx.Provide(New, fx.Private), fx.Invoke((*Anthropic).register))
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
