// Package budget keeps what agents use within limits that a profile sets: money,
// tokens, tool calls and time, for the process, a session, a turn and a subagent
// (spec stream-json 11.3, case B87).
//
// It reserves before it spends. Before a model request is sent, whoever makes it,
// its worst case is set aside in every budget that it falls under: all of its input
// at the dearest price of input, and the longest answer that it allows. What other
// requests have set aside counts as used, so those that run side by side cannot pass
// a cap together; one that does not fit only because of them waits for them. Where
// the input fits and the answer does not, the limit of the answer is lowered, and
// the log says so (budget/limited); where that would leave too little, the request is
// not sent: its turn ends with the error BUDGET_EXCEEDED, and the log says which
// budget was in the way (budget/exceeded). When a request has ended, what it used
// takes the place of what was set aside. Where the provider has not said what that
// is, all of it counts as used, unless the request cannot have been answered.
//
// The input is counted without asking anybody. No tokenizer makes more tokens than
// bytes of a text, so the bytes are an upper bound; what the provider has counted
// before, for the same beginning of a history, takes their place. An image counts by
// a bound of its own.
//
// A model without a known price cannot be kept within money, and nobody may guess
// one: such a request is refused with what to configure, unless Config.Unpriced
// allows it.
//
// Without any limit the row does nothing.
package budget

import (
	"log/slog"

	"go.uber.org/fx"

	"dsh/kernel"
	"dsh/kernel/agent"
	"dsh/kernel/llm"
	"dsh/kernel/tool"
)

// Plugin is the row type "budget".
var Plugin = kernel.Define("budget", "Limits money, tokens, tool calls and time, and reserves them before they are used.", defaults,
	func(kernel.Instance, Config) fx.Option { return fx.Invoke(start) },
	kernel.Needs[*llm.Router](), kernel.Needs[agent.Registry](), kernel.Needs[*tool.Pipeline](), kernel.Needs[*agent.Hooks]())

// Params is what the row takes from the composition.
type Params struct {
	fx.In

	Self     kernel.Instance
	Config   Config
	Router   *llm.Router
	Agents   agent.Registry
	Pipeline *tool.Pipeline
	Hooks    *agent.Hooks
}

// Options is what New needs.
type Options struct {
	Config   Config
	Owner    *kernel.Owner
	Log      *slog.Logger
	Router   *llm.Router
	Agents   agent.Registry
	Pipeline *tool.Pipeline
	Hooks    *agent.Hooks
}

// start is all that a row does; without a limit it is nothing.
func start(p Params) error {
	if p.Config.none() {
		return nil
	}
	return New(Options{
		Config: p.Config, Owner: p.Self.Owner, Log: p.Self.Log,
		Router: p.Router, Agents: p.Agents, Pipeline: p.Pipeline, Hooks: p.Hooks,
	}).register()
}
