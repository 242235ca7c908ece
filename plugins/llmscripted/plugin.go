// Package llmscripted is a model that follows a script: a deterministic stand-in
// for a real one, for demonstrations and for the tests of people who build on
// this harness (S075, decision D11). The README explains the script format.
//
// What it answers is a function of the request and the script alone, but for one
// thing: a rule may be limited to the first attempts of a request, so that
// retries can be scripted.
package llmscripted

import (
	"go.uber.org/fx"

	"dsh/kernel"
	"dsh/kernel/llm"
)

// Plugin is the row type "llm-scripted".
var Plugin = kernel.Define("llm-scripted", "Answers from a YAML script in place of a real model.", defaults,
	func(kernel.Instance, Config) fx.Option {
		return fx.Options(fx.Provide(New, fx.Private), fx.Invoke((*Model).register))
	}, kernel.Needs[*llm.Router]())

// Params is what New takes from the composition.
type Params struct {
	fx.In

	Self   kernel.Instance
	Config Config
	Router *llm.Router
}
