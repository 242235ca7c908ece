package agentfiles

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"sync"

	"dsh/kernel"
	"dsh/kernel/agent"
	"dsh/kernel/content"
	"dsh/kernel/settings"
	"dsh/plugins/internal/contextfile"
	"dsh/sdkproto"
)

// folderName is the folder of agents in a folder of settings.
const folderName = "agents"

// Agents registers the kinds of agents of files.
type Agents struct {
	with    Params
	log     *slog.Logger
	notices *contextfile.Notices
	files   contextfile.Cache[parsed]
	user    []string

	// loading is held while files are read and registered.
	loading sync.Mutex
	// held are the kinds that are registered, under owner.
	held  []agent.Definition
	owner *kernel.Owner
}

// New makes it; start looks for files.
func New(p Params) (*Agents, error) {
	a := &Agents{with: p, log: p.Self.Log, notices: contextfile.NewNotices(p.Self.Log)}
	for _, name := range p.Config.UserFolders {
		dir, err := contextfile.Folder(p.Self.Home, name)
		if err != nil {
			return nil, kernel.Invalid("userFolders", "%v", err)
		}
		a.user = append(a.user, dir)
	}
	return a, nil
}

// start lets a load task search, so that a slow disk delays nobody but the first
// prompt.
func (a *Agents) start() error {
	a.with.Self.Ready.Go("agents of files", false, a.load)
	var errs []error
	if a.with.Content != nil {
		errs = append(errs, a.with.Content.OnReload(a.with.Self.Owner, "agents", a.load))
	}
	if a.with.Hooks != nil {
		errs = append(errs, a.with.Hooks.OnContext(a.with.Self.Owner, 0, "agents of files", func(ctx context.Context, at agent.Opening) ([]sdkproto.Message, error) {
			if at.Depth > 0 || at.First {
				return nil, nil
			}
			return nil, a.load(ctx)
		}))
	}
	return errors.Join(errs...)
}

// place is a folder, or a file, with agents.
type place struct {
	path, root, source string
	// trusted: it may widen rights.
	trusted bool
	plugin  *content.Plugin
}

// places lists where agents may be, low to high.
func (a *Agents) places(cwd string) (list []place) {
	if a.with.Content != nil {
		plugins := a.with.Content.Plugins()
		for _, p := range slices.Backward(plugins) {
			for _, path := range p.Agents {
				list = append(list, place{path: path, root: p.Path, source: agent.SourcePlugin, plugin: p})
			}
		}
	}
	var layers []settings.Layer
	if a.with.Settings != nil {
		layers = a.with.Settings.For(cwd)
	}
	if settings.Reads(layers, settings.ScopeUser) {
		for _, dir := range a.user {
			list = append(list, place{path: dir, source: agent.SourceUser, trusted: true})
		}
	}
	for _, f := range settings.Folders(layers) {
		one := place{path: filepath.Join(f.Dir, folderName), source: agent.SourceUser, trusted: true}
		if f.Scope == settings.ScopeProject {
			one.source, one.trusted, one.root = agent.SourceProject, f.Trusted, contextfile.Root(cwd)
		}
		if !slices.ContainsFunc(list, func(p place) bool { return p.path == one.path }) {
			list = append(list, one) // a home that is the workspace, too, is the user's
		}
	}
	return list
}

// load makes the kinds of agents those of the files.
func (a *Agents) load(ctx context.Context) error {
	cwd, err := os.Getwd()
	if err != nil {
		return fmt.Errorf("find agents: %w", err)
	}
	a.loading.Lock()
	defer a.loading.Unlock()
	var kinds []agent.Definition
	for _, p := range a.places(cwd) {
		for _, file := range contextfile.Markdown(p.path, p.root, a.with.Config.MaxAgents, a.leave) {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			read := a.files.Get(file.Real, file.Info, func() parsed { return a.read(file) })
			if read.err != nil {
				a.leave(file.Path, read.err)
				continue
			}
			kinds = append(kinds, a.fit(p, file, read.kind))
		}
	}
	if reflect.DeepEqual(kinds, a.held) {
		return nil
	}
	owner := a.with.Self.Owner.Child("agents of files")
	for _, k := range kinds {
		if err := a.with.Definitions.Register(owner, k); err != nil {
			return errors.Join(err, owner.Close(ctx))
		}
	}
	old := a.owner
	a.held, a.owner = kinds, owner
	if old == nil {
		return nil
	}
	return old.Close(ctx)
}

func (a *Agents) leave(file string, err error) {
	a.notices.Warn("an agent is left out", file, err)
}

// fit makes the kind of a file that of its place.
func (a *Agents) fit(p place, file contextfile.File, kind agent.Definition) agent.Definition {
	kind.Source = p.source
	if p.plugin != nil {
		kind.Name, kind.Prompt = p.plugin.Qualified(kind.Name), p.plugin.Expand(kind.Prompt)
	}
	if !p.trusted && widens(kind.PermissionMode) {
		a.notices.Warn("the permissionMode of an agent does not count", file.Path,
			fmt.Errorf("%s asks less than the session does; only the user's own agents and those of a trusted folder may", kind.PermissionMode))
		kind.PermissionMode = ""
	}
	return kind
}
