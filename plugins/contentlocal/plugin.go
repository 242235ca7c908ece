// Package contentlocal reads content plugins from folders (spec stream-json 1.3,
// 4.1, 4.13): those that the row names, such as --plugin-dir does, those that a
// client names, and those that were installed into the data folder. Nothing is
// fetched from anywhere, and nothing in a working directory counts by itself.
//
// A plugin is a folder with any of
//
//	.claude-plugin/plugin.json   name, version, description; where else its parts are
//	commands/**/*.md             slash commands
//	agents/*.md                  kinds of agents
//	skills/*/SKILL.md            skills
//	output-styles/*.md           output styles
//	hooks/hooks.json             hooks, as in settings files
//	.mcp.json                    MCP servers, as in settings files
//
// What a part is called begins with the plugin's name: plugin:name. Parts lie
// inside of the folder; a link that leads out of it is not followed. Whoever names
// a plugin trusts it: its hooks and servers run with the rights of those of the
// user's own settings.
package contentlocal

import (
	"go.uber.org/fx"

	"dsh/kernel"
	"dsh/kernel/content"
	"dsh/kernel/settings"
)

// Plugin is the row type "content-local".
var Plugin = kernel.Define("content-local", "Reads plugins that are folders: commands, agents, skills, hooks, MCP servers.", defaults,
	func(kernel.Instance, Config) fx.Option {
		return fx.Options(fx.Provide(New, fx.Private), fx.Provide(func(s *Source) content.Source { return s }))
	}, kernel.Wants[settings.Source](), kernel.Provides[content.Source]())

// Params is what New takes from the composition.
type Params struct {
	fx.In

	Self   kernel.Instance
	Config Config
	// Settings say whether what is the user's is wanted.
	Settings settings.Source `optional:"true"`
}
