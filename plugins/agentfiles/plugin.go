// Package agentfiles makes kinds of agents of Markdown files (spec stream-json
// 11.7): agents/*.md beside the settings files of the user and of the project, in
// the data folder, and in plugins. The head of a file has name, description,
// tools, disallowedTools, model, effort, maxTurns, permissionMode, background,
// initialPrompt and skills; the rest is the agent's system prompt. A file that is
// no good is left out and named in the log.
//
// Of one name, the client's kind counts before the project's, then the user's,
// the plugins' and the built-in ones; a plugin's agents are called plugin:name.
//
// A file is text for the model and needs no trust. What widens rights does: a
// permissionMode that asks less than the usual one counts only in files of the
// user and of a project that is trusted (spec stream-json 7.4).
//
// The files are looked at again at the beginning of a turn, so that a new one is
// there without a restart.
package agentfiles

import (
	"go.uber.org/fx"

	"dsh/kernel"
	"dsh/kernel/agent"
	"dsh/kernel/content"
	"dsh/kernel/settings"
)

// Plugin is the row type "agent-files".
var Plugin = kernel.Define("agent-files", "Makes kinds of agents of the Markdown files of users, projects and plugins.", defaults,
	func(kernel.Instance, Config) fx.Option {
		return fx.Options(fx.Provide(New, fx.Private), fx.Invoke((*Agents).start))
	}, kernel.Needs[*agent.Definitions](), kernel.Wants[*agent.Hooks](), kernel.Wants[settings.Source](), kernel.Wants[content.Source]())

// Params is what New takes from the composition.
type Params struct {
	fx.In

	Self        kernel.Instance
	Config      Config
	Definitions *agent.Definitions
	Hooks       *agent.Hooks    `optional:"true"`
	Settings    settings.Source `optional:"true"`
	Content     content.Source  `optional:"true"`
}
