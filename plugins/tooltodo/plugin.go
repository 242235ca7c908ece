// Package tooltodo lets the model keep a to-do list, which clients can show.
//
// It is the smallest whole plugin: copy it to start one of your own.
package tooltodo

import (
	"go.uber.org/fx"

	"dsh/kernel"
	"dsh/kernel/agent"
	"dsh/kernel/tool"
)

// Plugin is the row type "tool-todo".
var Plugin = kernel.Define("tool-todo", "Keeps the agent's to-do list.", defaults,
	func(kernel.Instance, Config) fx.Option {
		return fx.Options(fx.Provide(New, fx.Private), fx.Invoke((*Todo).register))
	}, kernel.Needs[*tool.Registry](), kernel.Wants[agent.Registry]())

// Params is what New takes from the composition.
type Params struct {
	fx.In

	Self   kernel.Instance
	Config Config
	Tools  *tool.Registry
	// Agents know the list that a session left behind; without them it is told only
	// once it has changed.
	Agents agent.Registry `optional:"true"`
}
