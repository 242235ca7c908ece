// Package llmdeepseek is the model adapter for DeepSeek's own API, provider id
// deepseek-official (spec jsonrpc 10). What it knows of models is data in its
// config.
package llmdeepseek

import (
	"go.uber.org/fx"

	"dsh/kernel"
	"dsh/kernel/credential"
	"dsh/kernel/llm"
)

// Plugin is the row type "llm-deepseek". It works with an empty config, also
// when it is mounted at run time as the fallback of spec jsonrpc 3.3.
var Plugin = kernel.Define("llm-deepseek", "Speaks to DeepSeek's API.", defaults,
	func(kernel.Instance, Config) fx.Option {
		return fx.Options(fx.Provide(New, fx.Private), fx.Invoke((*DeepSeek).register))
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
