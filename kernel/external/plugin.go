package external

import (
	"go.uber.org/fx"

	"dsh/kernel"
	"dsh/kernel/agent"
	"dsh/kernel/attachment"
	"dsh/kernel/command"
	"dsh/kernel/credential"
	"dsh/kernel/llm"
	"dsh/kernel/process"
	"dsh/kernel/profile"
	"dsh/kernel/prompt"
	"dsh/kernel/tool"
)

// New gives the function for kernel.Options.External. dir is where bare names
// are found, $DSH_HOME/plugins; "" finds none.
func New(dir string) func(profile.Entry) (kernel.Plugin, error) {
	return func(e profile.Entry) (kernel.Plugin, error) {
		path, err := find(dir, &e)
		if err != nil {
			return kernel.Plugin{}, err
		}
		if e.Checksum != "" {
			if _, err := parseChecksum(e.Checksum); err != nil {
				return kernel.Plugin{}, rowError(&e, "checksum", "%v", err)
			}
		}
		return define(e, path), nil
	}
}

func define(e profile.Entry, path string) kernel.Plugin {
	return kernel.Define(pluginName(path), "The plugin "+path+".", defaults,
		func(kernel.Instance, Config) fx.Option {
			return fx.Options(
				fx.Provide(func(p Params) *row { return newRow(p, &e, path) }, fx.Private),
				// A composition that is only checked starts no programs.
				fx.Invoke(func(lc fx.Lifecycle, r *row) { lc.Append(fx.StartHook(r.begin)) }),
			)
		},
		kernel.Optional(), kernel.Stamp(stamp(path)), kernel.Wants[*tool.Registry](), kernel.Wants[*tool.Pipeline](), kernel.Wants[*llm.Router](),
		kernel.Wants[*agent.Hooks](), kernel.Wants[*prompt.Sections](), kernel.Wants[*command.Registry](), kernel.Wants[agent.Registry](),
		kernel.Wants[tool.Spiller](), kernel.Wants[attachment.Store](), kernel.Wants[credential.Source](), kernel.Wants[process.Confiner](), kernel.Wants[process.Policy]())
}

// Params is what a row takes from the composition: what its plugin offers has
// to find its place there.
type Params struct {
	fx.In

	Self        kernel.Instance
	Config      Config
	Tools       *tool.Registry    `optional:"true"`
	Pipeline    *tool.Pipeline    `optional:"true"`
	Models      *llm.Router       `optional:"true"`
	Hooks       *agent.Hooks      `optional:"true"`
	Sections    *prompt.Sections  `optional:"true"`
	Commands    *command.Registry `optional:"true"`
	Agents      agent.Registry    `optional:"true"`
	Spiller     tool.Spiller      `optional:"true"`
	Images      attachment.Store  `optional:"true"`
	Credentials credential.Source `optional:"true"`
	Confiner    process.Confiner  `optional:"true"`
	Policy      process.Policy    `optional:"true"`
}
