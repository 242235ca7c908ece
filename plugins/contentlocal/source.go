package contentlocal

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"dsh/kernel"
	"dsh/kernel/content"
	"dsh/kernel/settings"
	"dsh/plugins/internal/contextfile"
)

// Source implements content.Source over folders.
type Source struct {
	config   Config
	home     string
	log      *slog.Logger
	settings settings.Source
	notices  *contextfile.Notices

	// changing is held while the set is read and handed on.
	changing sync.Mutex

	mu sync.Mutex
	// added are the folders of clients, newest last.
	added []added
	// read says that plugins and problems hold something.
	read     bool
	plugins  []*content.Plugin
	problems []content.Problem
	watchers []watcher
	skills   []skills
}

// skills is somebody who knows the skills of a folder.
type skills struct {
	owner *kernel.Owner
	list  func(cwd string) []content.Skill
}

var _ content.Source = (*Source)(nil)

type added struct {
	owner *kernel.Owner
	content.Folder
}

type watcher struct {
	owner *kernel.Owner
	name  string
	f     func(context.Context) error
}

// New makes the source; no file is touched before somebody asks.
func New(p Params) *Source {
	return &Source{config: p.Config, home: p.Self.Home, log: p.Self.Log, settings: p.Settings, notices: contextfile.NewNotices(p.Self.Log)}
}

// Plugins implements content.Source.
func (s *Source) Plugins() []*content.Plugin {
	s.first()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.plugins
}

// Problems implements content.Source.
func (s *Source) Problems() []content.Problem {
	s.first()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.problems
}

// first reads the plugins unless that was done.
func (s *Source) first() {
	s.mu.Lock()
	read := s.read
	s.mu.Unlock()
	if read {
		return
	}
	s.changing.Lock()
	defer s.changing.Unlock()
	s.mu.Lock()
	read = s.read
	s.mu.Unlock()
	if !read {
		s.set(s.load())
	}
}

// set makes a set the one that holds; the caller holds changing.
func (s *Source) set(plugins []*content.Plugin, problems []content.Problem) {
	for _, p := range problems {
		s.notices.Warn("a plugin cannot be used as it is", p.Path, p.Err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.plugins, s.problems, s.read = plugins, problems, true
}

// load reads all plugins. One name is used once, by the folder that was named
// first.
func (s *Source) load() (plugins []*content.Plugin, problems []content.Problem) {
	take := func(folder content.Folder, source string) {
		p, err := Load(folder.Path, source)
		if err == nil && len(plugins) >= s.config.MaxPlugins {
			err = fmt.Errorf("plugin %s: there are %d already; maxPlugins bounds them", folder.Path, s.config.MaxPlugins)
		}
		if err == nil && folder.NoServers {
			p.Servers = nil
		}
		if err != nil {
			problems = append(problems, content.Problem{Plugin: filepath.Base(folder.Path), Path: folder.Path, Err: err})
			return
		}
		at := slices.IndexFunc(plugins, func(q *content.Plugin) bool { return q.Name == p.Name })
		switch {
		case at < 0:
			plugins = append(plugins, p)
		case plugins[at].Path != p.Path:
			s.log.Info("a plugin is hidden by another one of its name", "plugin", p.Name, "folder", p.Path, "by", plugins[at].Path)
		}
	}
	s.mu.Lock()
	added := slices.Clone(s.added)
	s.mu.Unlock()
	for _, a := range slices.Backward(added) {
		take(a.Folder, content.FromClient)
	}
	for _, list := range []struct {
		names     []string
		noServers bool
	}{{s.config.Folders, false}, {s.config.FoldersWithoutServers, true}} {
		for _, name := range list.names {
			take(content.Folder{Path: absolute(name), NoServers: list.noServers}, content.FromFlags)
		}
	}
	for _, path := range s.installed(&problems) {
		take(content.Folder{Path: path}, content.FromInstalled)
	}
	return plugins, problems
}

// absolute gives the path of a folder that is relative to the working directory.
func absolute(name string) string {
	cwd, err := os.Getwd()
	if err != nil {
		return name // opening it says what is wrong
	}
	path, err := contextfile.Folder(cwd, name)
	if err != nil {
		return name
	}
	return path
}

// installed lists the folders of installed plugins that are enabled.
func (s *Source) installed(problems *[]content.Problem) (list []string) {
	if s.config.Installed == "" {
		return nil
	}
	if s.settings != nil {
		cwd, err := os.Getwd()
		if err == nil && !settings.Reads(s.settings.For(cwd), settings.ScopeUser) {
			return nil
		}
	}
	dir := filepath.Join(s.home, s.config.Installed)
	found, err := Installed(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		*problems = append(*problems, content.Problem{Plugin: s.config.Installed, Path: dir, Err: err})
	}
	for _, one := range found {
		if !one.Disabled {
			list = append(list, one.Path)
		}
	}
	return list
}

// Add implements content.Source.
func (s *Source) Add(ctx context.Context, o *kernel.Owner, folders []content.Folder) ([]content.Problem, error) {
	s.first()
	s.changing.Lock()
	defer s.changing.Unlock()
	fresh := make([]added, len(folders))
	for i, f := range folders {
		f.Path = absolute(f.Path)
		fresh[i] = added{o, f}
	}
	slices.Reverse(fresh) // of one name the first counts
	s.mu.Lock()
	s.added = append(slices.Clone(s.added), fresh...)
	s.mu.Unlock()
	if err := o.OnClose("plugins of a client", func(ctx context.Context) error {
		s.changing.Lock()
		defer s.changing.Unlock()
		s.drop(o)
		return s.handOn(ctx)
	}); err != nil {
		s.drop(o)
		return nil, fmt.Errorf("add plugins: %w", err)
	}
	plugins, problems := s.load()
	s.set(plugins, problems)
	var own []content.Problem
	for _, p := range problems {
		if slices.ContainsFunc(fresh, func(a added) bool { return a.Path == p.Path }) {
			own = append(own, p)
		}
	}
	return own, s.handOn(ctx)
}

// drop forgets what was added under an owner; the caller holds changing.
func (s *Source) drop(o *kernel.Owner) {
	s.mu.Lock()
	s.added = slices.DeleteFunc(slices.Clone(s.added), func(a added) bool { return a.owner == o })
	s.mu.Unlock()
	s.set(s.load())
}

// Reload implements content.Source.
func (s *Source) Reload(ctx context.Context) []content.Problem {
	s.first()
	s.changing.Lock()
	defer s.changing.Unlock()
	plugins, problems := s.load()
	s.mu.Lock()
	worse := slices.ContainsFunc(s.plugins, func(old *content.Plugin) bool {
		return slices.ContainsFunc(problems, func(p content.Problem) bool { return samePlace(p.Path, old.Path) })
	})
	s.mu.Unlock()
	if worse {
		for _, p := range problems {
			s.notices.Warn("the plugins were not reloaded; those that there are go on", p.Path, p.Err)
		}
		s.mu.Lock()
		s.problems = problems
		s.mu.Unlock()
		return problems
	}
	s.set(plugins, problems)
	if err := s.handOn(ctx); err != nil {
		problems = append(slices.Clip(problems), content.Problem{Plugin: "plugins", Err: err})
	}
	return problems
}

// samePlace reports whether a folder as it was named is that of a plugin.
func samePlace(named, path string) bool {
	if real, err := filepath.EvalSymlinks(named); err == nil {
		named = real
	}
	return filepath.Clean(named) == path
}

// handOn has everybody take theirs; the caller holds changing.
func (s *Source) handOn(ctx context.Context) error {
	s.mu.Lock()
	watchers := s.watchers
	s.mu.Unlock()
	var errs []error
	for _, w := range watchers {
		if w.owner.Context().Err() != nil {
			continue
		}
		if err := contain(func() error { return w.f(ctx) }); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", w.name, err))
		}
	}
	return errors.Join(errs...)
}

// contain keeps a panic of somebody else's function from going further.
func contain(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return f()
}

// OnReload implements content.Source.
func (s *Source) OnReload(o *kernel.Owner, name string, f func(context.Context) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := o.OnClose("reload of "+name, func(context.Context) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.watchers = slices.DeleteFunc(slices.Clone(s.watchers), func(w watcher) bool { return w.owner == o && w.name == name })
		return nil
	}); err != nil {
		return fmt.Errorf("reload %s: %w", name, err)
	}
	s.watchers = append(slices.Clone(s.watchers), watcher{o, name, f})
	slices.SortStableFunc(s.watchers, func(a, b watcher) int { return kernel.Compare(a.owner, b.owner) })
	return nil
}

// OfferSkills implements content.Source.
func (s *Source) OfferSkills(o *kernel.Owner, f func(cwd string) []content.Skill) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := o.OnClose("list of skills", func(context.Context) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.skills = slices.DeleteFunc(slices.Clone(s.skills), func(x skills) bool { return x.owner == o })
		return nil
	}); err != nil {
		return fmt.Errorf("list skills: %w", err)
	}
	s.skills = append(slices.Clone(s.skills), skills{o, f})
	return nil
}

// Skills implements content.Source.
func (s *Source) Skills(cwd string) (list []content.Skill) {
	s.mu.Lock()
	offers := s.skills
	s.mu.Unlock()
	for _, o := range offers {
		if o.owner.LiveAt(kernel.Now) {
			list = append(list, o.list(cwd)...)
		}
	}
	return list
}
