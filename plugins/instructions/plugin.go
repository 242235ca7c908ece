// Package instructions gives every session, those of subagents included, the
// files in which people tell agents how to work: AGENTS.md and CLAUDE.md of the
// data folder, and of every folder from the root of the repository down to the
// working directory, from general to specific.
//
// Each file is one message in front of the first prompt, and again in front of
// a later one when it has changed (spec jsonrpc 10.7): the history holds it, so
// that the system prompt stays as it is. A file may import others by @path, as
// long as they are below the same root; what is imported stands behind the text.
// A link that leads out of the root is not followed: a checkout must not put a
// file of the user's before a model.
package instructions

import (
	"go.uber.org/fx"

	"dsh/kernel"
	"dsh/kernel/agent"
	"dsh/kernel/settings"
)

// Plugin is the row type "instructions".
var Plugin = kernel.Define("instructions", "Gives sessions the AGENTS.md and CLAUDE.md files of their folder.", defaults,
	func(kernel.Instance, Config) fx.Option {
		return fx.Options(fx.Provide(New, fx.Private), fx.Invoke((*Instructions).register))
	}, kernel.Needs[*agent.Hooks](), kernel.Wants[settings.Source]())

// Params is what New takes from the composition.
type Params struct {
	fx.In

	Self   kernel.Instance
	Config Config
	Hooks  *agent.Hooks
	// Settings say where the user's files are; nil leaves it to the config.
	Settings settings.Source `optional:"true"`
}
