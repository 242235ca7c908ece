// Package toolfilter hides tools from every agent of a profile, whichever front
// end makes it: the restriction of the rpc row's toolFilter (spec jsonrpc 4) for
// profiles that serve another wire.
//
// It puts a filter before all views of the tool registry, so that prompt and
// execution see one projection (S134), and combines with the filters of agents:
// a tool must pass them all. Like those it is looked at when an agent is made
// (S113): a filter that names nothing, or a tool that nobody has, fails the
// agent and not the start. A row without configuration restricts nothing.
package toolfilter

import (
	"go.uber.org/fx"

	"dsh/kernel"
	"dsh/kernel/tool"
)

// Plugin is the row type "toolfilter".
var Plugin = kernel.Define("toolfilter", "Hides tools from every agent of the profile.", defaults,
	func(kernel.Instance, Config) fx.Option {
		return fx.Invoke(restrict)
	}, kernel.Needs[*tool.Registry]())

// Params is what the row takes from the composition.
type Params struct {
	fx.In

	Self   kernel.Instance
	Config Config
	Tools  *tool.Registry
}
