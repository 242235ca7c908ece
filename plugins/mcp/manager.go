package mcp

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"dsh/kernel"
	"dsh/kernel/agent"
	"dsh/kernel/approval"
	"dsh/kernel/attachment"
	"dsh/kernel/command"
	plugins "dsh/kernel/content"
	contract "dsh/kernel/mcp"
	"dsh/kernel/process"
	"dsh/kernel/process/group"
	"dsh/kernel/profile"
	"dsh/kernel/prompt"
	"dsh/kernel/settings"
	"dsh/kernel/tool"
	programs "dsh/plugins/internal/child"
)

const (
	// afterLimit is how long a load task may take beyond its server's limit, so
	// that the failure has the server's reason and not the barrier's.
	afterLimit = 250 * time.Millisecond
	// settingsPlace is the place of the first server of the settings, behind those
	// of the profile.
	settingsPlace = 1 << 20
)

// Manager runs the servers of a row. It implements mcp.Servers.
type Manager struct {
	self     kernel.Instance
	log      *slog.Logger
	config   atomic.Pointer[Config]
	tools    *tool.Registry
	commands *command.Registry
	desk     *approval.Desk
	sections *prompt.Sections
	settings settings.Source
	confiner process.Confiner
	policy   process.Policy
	images   attachment.Store
	spiller  tool.Spiller
	hooks    *agent.Hooks
	content  plugins.Source

	// hostedLimit bounds calls of servers that a client hosts.
	hostedLimit atomic.Int64
	// followed is closed when the settings have been looked at once, or need not be.
	followed chan struct{}

	// ending ends when the process comes to rest.
	ending context.Context
	end    context.CancelFunc
	marker string
	starts atomic.Int64

	guardOnce sync.Once
	guard     *group.Guard

	// changing is held while servers of the settings come and go.
	changing sync.Mutex

	mu      sync.Mutex
	servers []*server
	next    int
	// lives are all servers whose life has not ended, those included that a
	// reload has taken out of servers.
	lives map[*server]bool
	// withResources are the servers that have resources.
	withResources []*server
	resourceTools *kernel.Owner
}

// New makes the manager; register starts the servers.
func New(p Params) *Manager {
	m := &Manager{
		self: p.Self, log: p.Self.Log, tools: p.Tools, commands: p.Commands, desk: p.Desk, sections: p.Sections,
		settings: p.Settings, confiner: p.Confiner, policy: p.Policy, images: p.Images, spiller: p.Spiller,
		hooks: p.Hooks, content: p.Content, marker: rand.Text(), lives: map[*server]bool{}, followed: make(chan struct{}),
	}
	if m.log == nil {
		m.log = slog.New(slog.DiscardHandler)
	}
	m.take(p.Config)
	m.ending, m.end = context.WithCancel(context.Background())
	return m
}

// take makes c the config in force.
func (m *Manager) take(c Config) {
	m.hostedLimit.Store(int64(c.adjust(os.Getenv, m.log)))
	m.config.Store(&c)
}

// guarded starts the guard before the first program.
func (m *Manager) guarded() *group.Guard {
	m.guardOnce.Do(func() {
		var err error
		if m.guard, err = group.StartGuard(m.marker, []string{"PATH=" + os.Getenv("PATH")}); err != nil {
			m.log.Warn("no guard: if the harness is killed, programs of mcp servers may be left running", "error", err)
		}
	})
	return m.guard
}

func (m *Manager) register() error {
	owner := m.self.Owner
	if err := owner.OnClose("guard of mcp servers", func(context.Context) error {
		m.guardOnce.Do(func() {}) // from here on none is started
		if len(m.living()) == 0 {
			m.guard.Dismiss()
		} // else it stays, and ends what is left when this process has ended
		return nil
	}); err != nil {
		return err
	}
	if err := owner.OnClose("mcp servers", m.close); err != nil {
		return err
	}
	m.self.Root.OnQuiesce(owner, "mcp servers", kernel.QuiesceLimit, m.close)
	kernel.OnReload(m.self, m.reload)

	specs := m.profileSpecs(m.config.Load())
	for _, sp := range specs {
		s := m.newServer(sp, owner.ChildAt("server "+sp.name, sp.place))
		m.servers = append(m.servers, s)
		m.await(s)
	}
	if m.settings == nil && m.content == nil || !m.config.Load().Settings {
		close(m.followed)
		return nil
	}
	first := func() error {
		defer close(m.followed)
		// The servers' own tasks begin before this one ends, so that the barrier
		// stays shut for them.
		if err := m.follow(m.await); err != nil {
			return err
		}
		if m.content != nil {
			if err := m.content.OnReload(owner, "mcp servers", func(context.Context) error { return m.follow(m.await) }); err != nil {
				return err
			}
		}
		if m.settings == nil {
			return nil
		}
		return m.settings.Watch(owner, func() {
			owner.Go("changed mcp servers of the settings", func(context.Context) {
				if err := m.follow(func(*server) {}); err != nil && !errors.Is(err, kernel.ErrClosed) {
					m.log.Warn("the changed settings of mcp servers cannot be read", "error", err)
				}
			})
		})
	}
	if m.config.Load().Wait {
		m.self.Ready.Go("mcp servers of the settings", false, func(context.Context) error { return first() })
		return nil
	}
	owner.Go("mcp servers of the settings", func(context.Context) {
		if err := first(); err != nil && !errors.Is(err, kernel.ErrClosed) {
			m.log.Warn("the settings of mcp servers cannot be read", "error", err)
		}
	})
	return nil
}

// await has somebody wait for a server's first attempt: the barrier, or with wait
// false, for servers that are not required, the log alone.
func (m *Manager) await(s *server) {
	if m.config.Load().Wait || s.Required {
		limit := or(s.ConnectTimeout, m.config.Load().ConnectTimeout) + afterLimit
		m.self.Ready.GoWithin("mcp server "+s.name, s.Required, limit, s.started)
		return
	}
	s.owner.Go("first attempt of mcp server "+s.name, func(ctx context.Context) {
		if err := s.started(ctx); err != nil && ctx.Err() == nil {
			m.log.Warn("an mcp server cannot be reached", "server", s.name, "error", err)
		}
	})
}

// profileSpecs gives the servers of a config, in the order of their names.
func (m *Manager) profileSpecs(c *Config) []*spec {
	names := slices.Sorted(maps.Keys(c.Servers))
	public := serverNames(names, nil)
	specs := make([]*spec, len(names))
	for i, name := range names {
		specs[i] = &spec{Server: c.Servers[name], name: name, scope: scopeProfile, public: public[name], place: i}
	}
	return specs
}

// follow makes the servers of the settings and of the plugins those that the files
// say now.
func (m *Manager) follow(started func(*server)) error {
	m.changing.Lock()
	defer m.changing.Unlock()
	cwd, err := os.Getwd()
	if err != nil {
		return fmt.Errorf("working directory: %w", err)
	}
	var layers []settings.Layer
	if m.settings != nil {
		layers = m.settings.For(cwd)
	}
	found := ofSettings(layers, m.config.Load().Servers)
	if m.content != nil {
		ofPlugins(m.content.Plugins(), m.config.Load().Servers, found)
	}
	m.mu.Lock()
	held := map[string]string{}
	for _, s := range m.servers {
		if s.ofSettings() {
			continue
		}
		held[s.name] = s.public
		delete(found, s.name) // one that a client hosts goes ahead
	}
	public := serverNames(slices.Sorted(maps.Keys(found)), held)
	var leave []*server
	kept := m.servers[:0:0]
	for _, s := range m.servers {
		if !s.ofSettings() {
			kept = append(kept, s)
			continue
		}
		sp := found[s.name]
		if sp != nil {
			sp.public = public[s.name]
		}
		if sp != nil && sp.same(s.spec) {
			kept = append(kept, s)
			delete(found, s.name)
		} else {
			leave = append(leave, s)
		}
	}
	m.servers = kept
	m.mu.Unlock()
	for _, s := range leave {
		m.leave(s)
	}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		sp := found[name]
		sp.public = public[name]
		m.mu.Lock()
		sp.place = settingsPlace + m.next
		m.next++
		m.mu.Unlock()
		s := m.newServer(sp, m.self.Owner.ChildAt("server "+name, sp.place))
		m.mu.Lock()
		m.servers = append(m.servers, s)
		m.mu.Unlock()
		started(s)
	}
	return nil
}

// leave ends a server that is not listed any more.
func (m *Manager) leave(s *server) {
	ctx, cancel := context.WithTimeout(context.Background(), kernel.ReleaseLimit)
	defer cancel()
	if err := s.owner.Close(ctx); err != nil {
		m.log.Warn("an mcp server that is not wanted any more did not end well", "server", s.name, "error", err)
	}
	s.offered.withdraw()
}

// reload takes another config: servers that changed are replaced, the others
// stay. A required server that cannot be reached keeps the old config running.
func (m *Manager) reload(ctx context.Context, c Config, next *kernel.Next) error {
	m.changing.Lock()
	defer m.changing.Unlock()
	old := map[string]*server{}
	var rest []*server
	hosted := map[string]bool{}
	for _, s := range m.all() {
		if s.host != nil {
			hosted[s.name] = true
		} else if s.scope == scopeProfile {
			old[s.name] = s
		} else if _, hidden := c.Servers[s.name]; hidden || !c.Settings {
			next.Retire(s.owner)
		} else {
			rest = append(rest, s)
		}
	}
	var started []*server
	for _, sp := range m.profileSpecs(&c) {
		if s := old[sp.name]; s != nil && sp.same(s.spec) {
			delete(old, sp.name)
			rest = append(rest, s)
			continue
		}
		if hosted[sp.name] {
			continue
		}
		if s := old[sp.name]; s != nil {
			next.Retire(s.owner)
			delete(old, sp.name)
		}
		started = append(started, m.newServer(sp, next.Owner(m.self.Owner, "server "+sp.name, sp.place)))
	}
	for _, s := range old {
		next.Retire(s.owner)
	}
	var errs []error
	for _, s := range started {
		limited, cancel := context.WithTimeout(ctx, or(s.ConnectTimeout, c.ConnectTimeout)+afterLimit)
		err := s.started(limited)
		cancel()
		switch {
		case err != nil && s.Required:
			errs = append(errs, fmt.Errorf("mcp server %s: %w", s.name, err))
		case err != nil:
			m.log.Warn("an mcp server cannot be reached", "server", s.name, "error", err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	next.Commit(func() {
		m.take(c)
		m.mu.Lock()
		defer m.mu.Unlock()
		for _, s := range m.servers {
			if s.host != nil {
				rest = append(rest, s)
			}
		}
		m.servers = append(rest, started...)
	})
	return nil
}

// close ends all servers side by side. It returns when nothing of them is left.
func (m *Manager) close(ctx context.Context) error {
	m.end()
	for _, s := range m.living() {
		select {
		case <-s.done:
		case <-ctx.Done():
			return fmt.Errorf("mcp server %s: %w", s.name, context.Cause(ctx))
		}
	}
	return nil
}

func (m *Manager) living() []*server {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Collect(maps.Keys(m.lives))
}

// grace is how much patience a program gets.
func (m *Manager) grace() programs.Grace {
	if m.ending.Err() != nil || m.self.Owner.Context().Err() != nil {
		return brisk()
	}
	return calm()
}

func byPlace(a, b *server) int { return cmp.Or(a.place-b.place, cmp.Compare(a.name, b.name)) }

func (m *Manager) all() []*server {
	m.mu.Lock()
	defer m.mu.Unlock()
	list := slices.Clone(m.servers)
	slices.SortStableFunc(list, byPlace)
	return list
}

func (m *Manager) find(name string) *server {
	for _, s := range m.all() {
		if s.name == name {
			return s
		}
	}
	return nil
}

func (m *Manager) named(name string) (*server, error) {
	if s := m.find(name); s != nil {
		return s, nil
	}
	var names []string
	for _, s := range m.all() {
		names = append(names, s.name)
	}
	return nil, fmt.Errorf("there is no mcp server %q%s", name, profile.DidYouMean(name, names))
}

// List implements mcp.Servers.
func (m *Manager) List() []contract.Server {
	servers := m.all()
	list := make([]contract.Server, len(servers))
	for i, s := range servers {
		list[i] = s.status()
	}
	return list
}

// Reconnect implements mcp.Servers. A disabled server is an error.
func (m *Manager) Reconnect(ctx context.Context, name string) error {
	s, err := m.named(name)
	if err != nil {
		return err
	}
	if st := s.status(); st.State == contract.Disabled {
		return fmt.Errorf("mcp server %s: it is disabled; enable it", name)
	}
	if err := s.wish(ctx, ask{}); err != nil {
		return fmt.Errorf("mcp server %s: %w", name, err)
	}
	return nil
}

// Enable implements mcp.Servers. To enable a server that runs does nothing.
func (m *Manager) Enable(ctx context.Context, name string, enabled bool) error {
	s, err := m.named(name)
	if err != nil {
		return err
	}
	if enabled && s.barred != "" {
		return fmt.Errorf("mcp server %s: %s", name, s.barred)
	}
	switch st := s.status(); {
	case enabled && st.State == contract.Connected, !enabled && st.State == contract.Disabled:
		return nil
	}
	if err := s.wish(ctx, ask{enable: enabled, disable: !enabled}); err != nil {
		return fmt.Errorf("mcp server %s: %w", name, err)
	}
	return nil
}

// Settled implements mcp.Servers.
func (m *Manager) Settled(ctx context.Context) error {
	select {
	case <-m.followed:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	for _, s := range m.all() {
		select {
		case <-s.first:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}
