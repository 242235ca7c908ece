// Package plugins is the one list of what is built into the binary.
package plugins

import (
	"dsh/kernel"
	"dsh/plugins/agentloop"
	"dsh/plugins/core"
	"dsh/plugins/jsonrpc"
	"dsh/plugins/llmscripted"
	"dsh/plugins/persona"
	"dsh/plugins/processlocal"
	"dsh/plugins/sessionjsonl"
	"dsh/plugins/spill"
	"dsh/plugins/toolbash"
	"dsh/plugins/toolfs"
	"dsh/plugins/toolsearch"
	"dsh/plugins/tooltodo"
)

// Builtin lists the plugins that a profile row can use by name.
func Builtin() []kernel.Plugin {
	return []kernel.Plugin{
		agentloop.Plugin,
		core.Plugin,
		jsonrpc.Plugin,
		llmscripted.Plugin,
		persona.Plugin,
		processlocal.Plugin,
		sessionjsonl.Plugin,
		spill.Plugin,
		toolbash.Plugin,
		toolfs.Plugin,
		toolsearch.Plugin,
		tooltodo.Plugin,
	}
}
