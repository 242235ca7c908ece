// Package checkpoint lets a session go back: it remembers how the files of a Git
// work tree were before the turn of each message of the user, and gives them that
// state again (spec stream-json 4.16, S056 to S059).
//
// What is remembered. A snapshot is a walk over the whole work tree, with git's
// rules of what is ignored: files that are tracked, or are not ignored, are covered,
// with content, mode and target of links. Whoever changed them does not matter:
// Edit, a shell command, an MCP server, a subagent. Ignored files, empty folders,
// submodules and nested repositories are left alone, and so is all that belongs to
// the repository itself: its index, refs, stash, reflog, objects and config are read
// at most. A file that was covered once stays so when a later rule ignores it.
//
// When. One snapshot is taken before the first call of a turn that may change
// something; a turn without one has the state of the next. Another is taken behind
// each such call and the hooks on it, while the model is asked: the next call that
// may change something waits for it, and so do a rewind and the end of a turn that
// ends well. Of calls that run side by side the last one counts.
//
// What a rewind touches are the files that changed while calls of the session were
// at work, and no others. What changed before the first call of a turn is somebody
// else's: when that, or a change since the last snapshot, is in a file that the
// rewind would touch, it is refused as a whole. What a shell in the background
// changes behind its call counts as the session's while a turn goes on in which
// calls follow, and as somebody else's otherwise: nobody could tell it from an edit
// by hand, which must not get lost.
//
// A rewind is one more change by the session. So one may go back further after it,
// or forward to the state before a later message.
//
// How. A snapshot compares size, times and inode with those of the one before, and
// reads only what differs. Contents have the ids that git would give them, so that
// what the repository has is not copied; only the rest is kept, in a folder of the
// session's own below $DSH_HOME, whole and unchanged by filters. The program git
// reads the user's ignore file from the configuration, old contents from the
// objects, and compares texts. It never looks into the work tree, and its
// configuration is a private one wherever it does more than print a setting: no
// filter, hook or monitor of a repository is run.
package checkpoint

import (
	"go.uber.org/fx"

	"dsh/kernel"
	"dsh/kernel/agent"
	"dsh/kernel/checkpoint"
	"dsh/kernel/process"
	"dsh/kernel/tool"
)

// Plugin is the row type "checkpoint".
var Plugin = kernel.Define("checkpoint", "Remembers how the files of a Git work tree were, and restores them.", defaults,
	func(kernel.Instance, Config) fx.Option {
		return fx.Options(fx.Provide(New, fx.Private),
			fx.Provide(func(k *Keeper) checkpoint.Keeper { return k }), fx.Invoke((*Keeper).register))
	},
	kernel.Needs[*tool.Pipeline](), kernel.Needs[*agent.Hooks](), kernel.Needs[agent.Registry](), kernel.Needs[process.Runner](),
	kernel.Provides[checkpoint.Keeper]())

// Params is what New takes from the composition.
type Params struct {
	fx.In

	Self     kernel.Instance
	Config   Config
	Pipeline *tool.Pipeline
	Hooks    *agent.Hooks
	// Agents says which session a subagent belongs to.
	Agents agent.Registry
	// Runner runs git.
	Runner process.Runner
}
