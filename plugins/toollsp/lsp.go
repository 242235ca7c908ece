package toollsp

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"dsh/kernel"
	"dsh/kernel/process"
	"dsh/kernel/process/group"
	"dsh/kernel/tool"
)

const (
	// maxDeaths bounds how often a server may end badly within deathWindow and be
	// started again.
	maxDeaths   = 3
	deathWindow = 5 * time.Minute
)

// LSP offers the tool and runs the servers.
type LSP struct {
	self     kernel.Instance
	config   Config
	log      *slog.Logger
	tools    *tool.Registry
	confiner process.Confiner
	policy   process.Policy
	spiller  tool.Spiller
	tool     tool.Tool

	// ending ends when the process comes to rest.
	ending context.Context
	end    context.CancelFunc
	// marker marks all programs of this row. It is made when it is needed, because a
	// start of the harness has no time for it.
	marker func() string

	guardOnce sync.Once
	guard     *group.Guard

	mu     sync.Mutex
	starts int
	// servers are those that take calls, lives all that have not ended.
	servers map[key]*server
	lives   map[*server]bool
	deaths  map[key][]time.Time
	// worst is the reason of the latest of deaths.
	worst map[key]string
}

// key tells servers apart.
type key struct {
	root, kind string
	// confined is the confinement in words.
	confined string
}

// New makes the tool; register puts it where the agents find it. No program is
// started before the first call.
func New(p Params) *LSP {
	l := &LSP{
		self: p.Self, config: p.Config, log: p.Self.Log, tools: p.Tools, confiner: p.Confiner, policy: p.Policy, spiller: p.Spiller,
		marker: sync.OnceValue(rand.Text), servers: map[key]*server{}, lives: map[*server]bool{}, deaths: map[key][]time.Time{}, worst: map[key]string{},
	}
	if l.log == nil {
		l.log = slog.New(slog.DiscardHandler)
	}
	l.ending, l.end = context.WithCancel(context.Background())
	l.tool = l.newTool()
	return l
}

func (l *LSP) register() error {
	if err := l.self.Owner.OnClose("guard of language servers", func(context.Context) error {
		l.guardOnce.Do(func() {}) // from here on none is started
		if len(l.living()) == 0 {
			l.guard.Dismiss()
		} // else it stays, and ends what is left when this process has ended
		return nil
	}); err != nil {
		return err
	}
	if err := l.self.Owner.OnClose("language servers", l.close); err != nil {
		return err
	}
	if l.self.Root != nil {
		l.self.Root.OnQuiesce(l.self.Owner, "language servers", kernel.QuiesceLimit, l.close)
	}
	return l.tools.Register(l.self.Owner, l.tool)
}

// close ends all servers and waits for them.
func (l *LSP) close(ctx context.Context) error {
	l.end()
	for _, s := range l.living() {
		select {
		case <-s.done:
		case <-ctx.Done():
			return fmt.Errorf("language server %s: %w", s.how.program, context.Cause(ctx))
		}
	}
	return nil
}

func (l *LSP) living() []*server {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []*server
	for s := range l.lives {
		all = append(all, s)
	}
	return all
}

// guarded starts the guard with the first program.
func (l *LSP) guarded() *group.Guard {
	l.guardOnce.Do(func() {
		var err error
		if l.guard, err = group.StartGuard(l.marker(), []string{"PATH=" + os.Getenv("PATH")}); err != nil {
			l.log.Warn("no guard: if the harness is killed, language servers may be left running", "error", err)
		}
	})
	return l.guard
}

// confinement says how the program of a server in root is confined: as the call is,
// or else as the deployment says.
func (l *LSP) confinement(in tool.Invocation, how *launch, root string) (*process.Confinement, error) {
	c := in.Confinement
	if c == nil && l.policy != nil {
		c = l.policy.Confinement(root)
	}
	switch how.confine {
	case "":
		return c, nil
	case process.FullAccess:
		return nil, nil
	}
	if l.confiner == nil {
		return nil, fmt.Errorf("it is to be confined (%s) and no row of the profile can confine programs; add one, or remove confine", how.confine)
	}
	var own process.Confinement
	if c != nil {
		own = *c
	}
	switch {
	case how.confine == process.ReadOnly:
		own.Write = nil
	case own.Mode != process.WorkspaceWrite:
		own.Write = []string{root, os.TempDir()}
	}
	own.Mode = how.confine
	return &own, nil
}

func words(c *process.Confinement) string {
	if c == nil {
		return ""
	}
	return strings.Join(append(slices.Clone(c.Write), c.Mode, strconv.FormatBool(c.NoNetwork), strconv.FormatBool(c.Strict)), "\x00")
}

// errEnding is why calls fail while the process comes to rest.
var errEnding = errors.New("the harness is ending")

// take gives the server for a call, and starts it if there is none; release gives it
// back.
func (l *LSP) take(k key, how *launch, c *process.Confinement) (*server, error) {
	s, fresh, err := l.pick(k, how, c)
	if fresh {
		l.self.Owner.Go("language server "+how.program, s.run)
		if l.self.Owner.Context().Err() != nil {
			s.over() // its life may never have begun
		}
	}
	return s, err
}

// pick finds or makes the server for a call.
func (l *LSP) pick(k key, how *launch, c *process.Confinement) (s *server, fresh bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ending.Err() != nil {
		return nil, false, errEnding
	}
	if s := l.servers[k]; s != nil {
		s.users++
		return s, false, nil
	}
	recent := slices.DeleteFunc(l.deaths[k], func(at time.Time) bool { return time.Since(at) > deathWindow })
	l.deaths[k] = recent
	if len(recent) >= maxDeaths {
		return nil, false, fmt.Errorf("it has ended badly %d times within %v and is not started again before %v have passed; the last time: %s",
			len(recent), deathWindow, (deathWindow - time.Since(recent[0])).Round(time.Second), l.worst[k])
	}
	if n := len(l.servers); n >= l.config.MaxServers && !l.retire() {
		return nil, false, fmt.Errorf("%d language servers are running and all are at work; wait for other calls to end, or raise maxServers in the config of row %s", n, l.self.ID)
	}
	l.starts++
	s = newServer(l, k, how, c, l.starts)
	s.users = 1
	l.servers[k], l.lives[s] = s, true
	return s, true, nil
}

// retire ends the server that has been idle for longest; false says that there is
// none. It takes no calls from now on. l.mu is held.
func (l *LSP) retire() bool {
	var oldest *server
	for _, s := range l.servers {
		if s.users == 0 && (oldest == nil || s.used.Before(oldest.used)) {
			oldest = s
		}
	}
	if oldest == nil {
		return false
	}
	l.dismiss(oldest)
	return true
}

// dismiss ends a server that nobody uses. l.mu is held.
func (l *LSP) dismiss(s *server) {
	s.stopIdle()
	if l.servers[s.key] == s {
		delete(l.servers, s.key)
	}
	s.leave()
}

func (l *LSP) release(s *server) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s.users--
	s.used = time.Now()
	if s.users > 0 || l.servers[s.key] != s {
		return
	}
	s.stopIdle()
	s.idle = time.AfterFunc(time.Duration(l.config.IdleTimeout), func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if s.users == 0 && l.servers[s.key] == s {
			l.log.Info("a language server is ended: nobody needs it", "program", s.how.program, "root", s.key.root)
			l.dismiss(s)
		}
	})
}

// drop takes a server out of those that take calls, once; bad counts as a death.
func (l *LSP) drop(s *server, bad error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s.dropped {
		return
	}
	s.dropped = true
	s.stopIdle()
	if l.servers[s.key] == s {
		delete(l.servers, s.key)
	}
	if bad != nil {
		l.deaths[s.key] = append(l.deaths[s.key], time.Now())
		l.worst[s.key] = bad.Error()
	}
}
