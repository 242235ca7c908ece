// Package content holds the contract of content plugins: folders that hold
// commands, agents, skills, output styles, hooks and MCP servers, which whoever
// runs the process has named or installed (spec stream-json 1.3, 4.13). It says
// what there is; the rows of commands, skills and so on take it from there.
//
// They are data and have nothing to do with plugins that are programs (package
// external), and nothing in a working directory is one by itself.
package content

import (
	"context"
	"encoding/json"
	"strings"

	"dsh/kernel"
	"dsh/kernel/settings"
)

// RootVariable names the folder of a plugin: to its hooks and servers as a
// variable of the environment, and in its texts as ${CLAUDE_PLUGIN_ROOT}.
const RootVariable = "CLAUDE_PLUGIN_ROOT"

// Where plugins come from.
const (
	// FromFlags are those of the row, such as --plugin-dir names.
	FromFlags = "inline"
	// FromClient are those that a client has added.
	FromClient = "client"
	// FromInstalled are those of the data folder.
	FromInstalled = "installed"
)

// Plugin is one plugin as it was read last. It is shared and not changed.
type Plugin struct {
	// Name is what the names of its parts begin with.
	Name, Version, Description string
	// Path is the folder, absolute and with links followed; Source is one of the
	// constants.
	Path, Source string
	// Commands, Agents and Styles are Markdown files or folders of such, Skills
	// folders whose folders are skills. All are absolute and inside of Path.
	Commands, Agents, Skills, Styles []string
	// Hooks are objects of events like those of settings files, each with its file.
	Hooks []Hooks
	// Servers are MCP servers by the name that the plugin gives them, with
	// RootVariable filled in.
	Servers map[string]settings.MCPServer
}

// Hooks are the hooks of one file of a plugin.
type Hooks struct {
	File string
	// Raw is an object of events and lists.
	Raw json.RawMessage
}

// Qualified is the name under which a part of the plugin is known: plugin:name.
func (p *Plugin) Qualified(name string) string { return p.Name + ":" + name }

// Expand puts the folder in for ${CLAUDE_PLUGIN_ROOT}; nil leaves text as it is.
func (p *Plugin) Expand(text string) string {
	if p == nil {
		return text
	}
	return strings.ReplaceAll(text, "${"+RootVariable+"}", p.Path)
}

// Folder names a plugin that is to be used.
type Folder struct {
	Path string
	// NoServers leaves out its MCP servers.
	NoServers bool
}

// Problem says why a plugin is left out, or stays as it was.
type Problem struct {
	// Plugin is its name, or that of its folder; Path is the folder as it was named.
	Plugin, Path string
	Err          error
}

// Source gives the plugins of a process. All methods may be called from any
// goroutine, but not from a function that OnReload was given.
type Source interface {
	// Plugins gives those that can be used, each name once; what a client adds goes
	// ahead of the row's, and those ahead of what is installed. They are read when
	// somebody asks first.
	Plugins() []*Plugin
	// Problems are those of the last time that plugins were read.
	Problems() []Problem
	// Add adds plugins until o is closed, and has everybody take theirs. One that
	// cannot be used is a problem; the others are added. Relative paths begin at the
	// working directory of the process.
	Add(ctx context.Context, o *kernel.Owner, folders []Folder) ([]Problem, error)
	// Reload reads all plugins again and has everybody take theirs. Where one that
	// could be used before cannot be now, the plugins stay what they were (S054). It
	// gives what went wrong.
	Reload(ctx context.Context) []Problem
	// OnReload has f called whenever the plugins were read again, until o is closed:
	// it reads what it takes from files anew, its other files included. Functions
	// are called one by one, in the order of their rows. What f cannot use is a
	// problem and not its error; an error says that f kept what it had.
	OnReload(o *kernel.Owner, name string, f func(context.Context) error) error
	// OfferSkills makes f what Skills asks, until o is closed.
	OfferSkills(o *kernel.Owner, f func(cwd string) []Skill) error
	// Skills lists the skills of a working directory, wherever they are from.
	Skills(cwd string) []Skill
}

// Skill is a skill for people.
type Skill struct{ Name, Description string }

// Style is an output style: words about how to answer, for the system prompt.
type Style struct{ Name, Description string }

// Styles lists the output styles of a working directory.
type Styles interface{ List(cwd string) []Style }
