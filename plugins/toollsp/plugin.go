// Package toollsp gives the model the tool LSP: what a language server knows about
// a program (definitions, references, types, symbols, mistakes).
//
// The tool is offered on every machine (S076). A call looks for the language
// server of the file's type, among those that the config names and those that are
// known and found in PATH, and says which one is missing. A server is started with
// the first call that needs it, one for each workspace and kind, and kept: it is
// ended when it has been idle for long and with the process. One that dies is
// started again with the next call, a few times. What a server does wrong (hang,
// flood, print noise, die) harms its own calls only.
//
// Files are read when a call comes and the server is told what has changed since
// the last one, so that answers are about what is on the disk.
//
// A language server reads all of its workspace, whatever the rules say about
// single files, and some run code of the workspace (build scripts, plugins of a
// package). They are confined like servers of MCP, by the deployment's policy; and
// those that are found in PATH are told not to run such code as far as they can be.
package toollsp

import (
	"go.uber.org/fx"

	"dsh/kernel"
	"dsh/kernel/process"
	"dsh/kernel/tool"
)

// Plugin is the row type "tool-lsp".
var Plugin = kernel.Define("tool-lsp", "Asks language servers about programs.", defaults,
	func(kernel.Instance, Config) fx.Option {
		return fx.Options(fx.Provide(New, fx.Private), fx.Invoke((*LSP).register))
	}, kernel.Needs[*tool.Registry](), kernel.Wants[process.Confiner](), kernel.Wants[process.Policy](), kernel.Wants[tool.Spiller]())

// Params is what New takes from the composition.
type Params struct {
	fx.In

	Self     kernel.Instance
	Config   Config
	Tools    *tool.Registry
	Confiner process.Confiner `optional:"true"`
	Policy   process.Policy   `optional:"true"`
	Spiller  tool.Spiller     `optional:"true"`
}
