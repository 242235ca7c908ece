// Package plugins is the one list of what is built into the binary.
package plugins

import (
	"dsh/kernel"
	"dsh/plugins/agentloop"
	"dsh/plugins/core"
	"dsh/plugins/credentials"
	"dsh/plugins/headless"
	"dsh/plugins/jsonrpc"
	"dsh/plugins/llmdeepseek"
	"dsh/plugins/llmopenai"
	"dsh/plugins/llmscripted"
	"dsh/plugins/persona"
	"dsh/plugins/processlocal"
	"dsh/plugins/sessionjsonl"
	"dsh/plugins/spill"
	"dsh/plugins/toolbash"
	"dsh/plugins/toolfilter"
	"dsh/plugins/toolfs"
	"dsh/plugins/toolsearch"
	"dsh/plugins/tooltodo"
)

// Builtin lists the plugins that a profile row can use by name.
func Builtin() []kernel.Plugin {
	return []kernel.Plugin{
		agentloop.Plugin,
		core.Plugin,
		credentials.Plugin,
		headless.Plugin,
		jsonrpc.Plugin,
		llmdeepseek.Plugin,
		llmopenai.Plugin,
		llmscripted.Plugin,
		persona.Plugin,
		processlocal.Plugin,
		sessionjsonl.Plugin,
		spill.Plugin,
		toolbash.Plugin,
		toolfilter.Plugin,
		toolfs.Plugin,
		toolsearch.Plugin,
		tooltodo.Plugin,
	}
}
