// Package plugins is the one list of what is built into the binary.
package plugins

import (
	"dsh/kernel"
	"dsh/plugins/agentloop"
	"dsh/plugins/attachmentlocal"
	"dsh/plugins/checkpoint"
	"dsh/plugins/commands"
	"dsh/plugins/compaction"
	"dsh/plugins/core"
	"dsh/plugins/credentials"
	"dsh/plugins/headless"
	"dsh/plugins/hooks"
	"dsh/plugins/instructions"
	"dsh/plugins/jsonrpc"
	"dsh/plugins/llmanthropic"
	"dsh/plugins/llmdeepseek"
	"dsh/plugins/llmopenai"
	"dsh/plugins/llmscripted"
	"dsh/plugins/mcp"
	"dsh/plugins/models"
	"dsh/plugins/permissions"
	"dsh/plugins/persona"
	"dsh/plugins/processlocal"
	"dsh/plugins/sandboxlandlock"
	"dsh/plugins/sessionjsonl"
	"dsh/plugins/settings"
	"dsh/plugins/skills"
	"dsh/plugins/spill"
	"dsh/plugins/streamjson"
	"dsh/plugins/subagent"
	"dsh/plugins/toolask"
	"dsh/plugins/toolbash"
	"dsh/plugins/toolfilter"
	"dsh/plugins/toolfs"
	"dsh/plugins/tooljob"
	"dsh/plugins/toollsp"
	"dsh/plugins/toolsearch"
	"dsh/plugins/tooltodo"
	"dsh/plugins/toolweb"
)

// Builtin lists the plugins that a profile row can use by name.
func Builtin() []kernel.Plugin {
	return []kernel.Plugin{
		agentloop.Plugin,
		attachmentlocal.Plugin,
		checkpoint.Plugin,
		commands.Plugin,
		compaction.Plugin,
		core.Plugin,
		credentials.Plugin,
		headless.Plugin,
		hooks.Plugin,
		instructions.Plugin,
		jsonrpc.Plugin,
		llmanthropic.Plugin,
		llmdeepseek.Plugin,
		llmopenai.Plugin,
		llmscripted.Plugin,
		mcp.Plugin,
		models.Plugin,
		permissions.Plugin,
		persona.Plugin,
		processlocal.Plugin,
		sandboxlandlock.Plugin,
		sessionjsonl.Plugin,
		settings.Plugin,
		skills.Plugin,
		spill.Plugin,
		streamjson.Plugin,
		subagent.Plugin,
		toolask.Plugin,
		toolbash.Plugin,
		toolfilter.Plugin,
		toolfs.Plugin,
		tooljob.Plugin,
		toollsp.Plugin,
		toolsearch.Plugin,
		tooltodo.Plugin,
		toolweb.Plugin,
	}
}
