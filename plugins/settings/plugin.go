// Package settings reads the JSON files in which users say what they want of a
// session: permissions, MCP servers and more (spec stream-json 7.4).
//
// The files, from low to high, are settings.json of the data folder (user),
// .mcp.json and .dsh/settings.json of the working directory (project), and
// .dsh/settings.local.json there (local). They may hold comments and trailing
// commas; a file that cannot be used is a layer with an error, never one without
// rules (case B82).
//
// What comes with a checkout must not widen rights by itself: project and local
// layers are trusted when the working directory is in, or below, a folder of the
// list that `dsh trust` keeps in $DSH_HOME/trust.json. A deployment may count it as
// consent, too, that somebody names the files that are to be read (trustSources).
package settings

import (
	"go.uber.org/fx"

	"dsh/kernel"
	"dsh/kernel/settings"
)

// Plugin is the row type "settings".
var Plugin = kernel.Define("settings", "Reads the settings files of a user and of a workspace.", defaults,
	func(kernel.Instance, Config) fx.Option {
		return fx.Options(fx.Provide(New, fx.Private), fx.Provide(source))
	}, kernel.Provides[settings.Source]())

// Params is what New takes from the composition.
type Params struct {
	fx.In

	Self   kernel.Instance
	Config Config
}

func source(s *Settings) settings.Source { return s }
