// Package outputstyles puts an output style into the system prompt: words about
// how to answer, from a Markdown file that the setting outputStyle names (spec
// stream-json 3.2, 7.4). The files are output-styles/*.md beside the settings files
// of the user and of the project, in the data folder, and in plugins, whose styles
// are called plugin:name. The head of a file may have name and description; the
// rest is the style. Of one name the project's counts before the user's.
//
// The style named default is no style. The rest of the system prompt stays, as it
// holds nothing that a style would have to take away. Like every section the style
// is fixed when a session starts (spec jsonrpc 10.7).
package outputstyles

import (
	"go.uber.org/fx"

	"dsh/kernel"
	"dsh/kernel/content"
	"dsh/kernel/prompt"
	"dsh/kernel/settings"
)

// Plugin is the row type "output-styles".
var Plugin = kernel.Define("output-styles", "Puts the output style that the settings name into the system prompt.", defaults,
	func(kernel.Instance, Config) fx.Option {
		return fx.Options(fx.Provide(New, fx.Private), fx.Provide(func(s *Styles) content.Styles { return s }), fx.Invoke((*Styles).register))
	}, kernel.Needs[*prompt.Sections](), kernel.Needs[settings.Source](), kernel.Wants[content.Source](), kernel.Provides[content.Styles]())

// Params is what New takes from the composition.
type Params struct {
	fx.In

	Self     kernel.Instance
	Config   Config
	Sections *prompt.Sections
	Settings settings.Source
	Content  content.Source `optional:"true"`
}
