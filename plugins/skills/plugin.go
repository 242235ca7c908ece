// Package skills offers the model instructions for special tasks, which it reads
// when it needs them. A skill is a folder with a file SKILL.md, whose head says
// name and description; they lie in the data folder, in the working directory
// of a session, and in content plugins, whose skills are called plugin:name.
//
// The catalogue, names and descriptions, is a message in front of the first
// prompt and again when it has changed (spec jsonrpc 10.7); the tool skill, or
// Skill under the dialect claude, gives the text of one. An agent of a kind that names
// skills has their text in front of its first prompt (spec stream-json 11.7). Like AGENTS.md a skill is
// only text for the model and widens no right, so a working directory need not be
// trusted; but a link that leads out of it is not followed.
package skills

import (
	"go.uber.org/fx"

	"dsh/kernel"
	"dsh/kernel/agent"
	"dsh/kernel/content"
	"dsh/kernel/settings"
	"dsh/kernel/tool"
)

// Plugin is the row type "skills".
var Plugin = kernel.Define("skills", "Offers the skills of the user and of a workspace to the model.", defaults,
	func(kernel.Instance, Config) fx.Option {
		return fx.Options(fx.Provide(New, fx.Private), fx.Invoke((*Skills).register))
	}, kernel.Needs[*agent.Hooks](), kernel.Needs[*tool.Registry](), kernel.Wants[*agent.Definitions](),
	kernel.Wants[settings.Source](), kernel.Wants[content.Source]())

// Params is what New takes from the composition.
type Params struct {
	fx.In

	Self   kernel.Instance
	Config Config
	Hooks  *agent.Hooks
	Tools  *tool.Registry
	// Kinds of agents may name skills that they have from the start.
	Kinds    *agent.Definitions `optional:"true"`
	Settings settings.Source    `optional:"true"`
	Content  content.Source     `optional:"true"`
}
