// Package commands makes slash commands of Markdown files: git/commit.md in a
// folder of commands is the command /git:commit. The head of the file may say
// description and argument-hint; the rest is what the model gets, with
// $ARGUMENTS, and $1 to $9, replaced by what stands behind the command. Nothing
// in it is run.
//
// The commands of a process are one list, whatever the folders of its sessions:
// those of content plugins, which are called plugin:name, of the data folder and of
// the folder the process was started in, as they were then (a reload looks again).
// The text of a command is read when it is
// used.
package commands

import (
	"go.uber.org/fx"

	"dsh/kernel"
	"dsh/kernel/command"
	"dsh/kernel/content"
	"dsh/kernel/settings"
)

// Plugin is the row type "commands".
var Plugin = kernel.Define("commands", "Makes slash commands of Markdown files.", defaults,
	func(kernel.Instance, Config) fx.Option {
		return fx.Options(fx.Provide(New, fx.Private), fx.Invoke((*Commands).start))
	}, kernel.Needs[*command.Registry](), kernel.Wants[settings.Source](), kernel.Wants[content.Source]())

// Params is what New takes from the composition.
type Params struct {
	fx.In

	Self     kernel.Instance
	Config   Config
	Registry *command.Registry
	Settings settings.Source `optional:"true"`
	Content  content.Source  `optional:"true"`
}
