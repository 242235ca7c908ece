// Package compaction is the plugin that keeps a session's history within what
// its model can take (case B61).
//
// Before a model request, when the history fills more than a share of the
// model's window, and after a request that the provider refused as too long, it
// makes room in this order: old tool results that are large are cut; what is
// older than the last messages is summarised by a model; and where no summary is
// to be had and the request could not be made otherwise, it is left out with a
// note. Every step is a replacement in the session's log (spec jsonrpc 5.1, 5.6,
// 10.7): nothing is deleted, and the history still follows from the log alone.
//
// What stands at the head of the history as context (instructions, catalogues)
// stays, so that the provider's cache keeps what comes before the summary; so
// does the last prompt, and all that the model has not answered yet.
//
// Somebody may ask for a summary, too, long before there is need: then all that
// the model has answered becomes one (compaction.Compactor).
//
// Hooks hear of each round of summaries, before and after it, and may forbid it
// (spec stream-json 6.2, 11.9).
//
// A profile switches it off with `enabled: false` on its row.
package compaction

import (
	"go.uber.org/fx"

	"dsh/kernel"
	"dsh/kernel/agent"
	"dsh/kernel/attachment"
	"dsh/kernel/compaction"
	"dsh/kernel/hook"
	"dsh/kernel/llm"
)

// Plugin is the row type "compaction".
var Plugin = kernel.Define("compaction", "Shortens the history of a session before it outgrows its model.", defaults,
	func(kernel.Instance, Config) fx.Option {
		return fx.Options(fx.Provide(New, fx.Private), fx.Provide(compactor), fx.Invoke((*Keeper).register))
	},
	kernel.Provides[compaction.Compactor](), kernel.Needs[*agent.Hooks](), kernel.Needs[*llm.Router](), kernel.Wants[attachment.Store](), kernel.Wants[hook.Engine]())

// Params is what New takes from the composition.
type Params struct {
	fx.In

	Self   kernel.Instance
	Config Config
	Hooks  *agent.Hooks
	// Router finds the model of Config.Summary.
	Router *llm.Router
	// Images are those of the history, for the request of a summary; it may be nil.
	Images attachment.Store `optional:"true"`
	// Engine tells hooks of summaries; it may be nil.
	Engine hook.Engine `optional:"true"`
}

func compactor(k *Keeper) compaction.Compactor { return k }
