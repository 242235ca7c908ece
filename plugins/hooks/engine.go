package hooks

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"dsh/kernel"
	"dsh/kernel/hook"
	"dsh/plugins/internal/contextfile"
	"dsh/plugins/internal/transcript"
)

// entry is one hook.
type entry struct {
	matcher
	event string
	// name is for people: a command itself, or what a callback is called.
	name string
	// limit is 0 for the usual one.
	limit time.Duration
	// refuse: a failure refuses what the hook was asked about.
	refuse bool
	// call is nil for a command.
	call    func(context.Context, hook.Call) (output []byte, err error)
	command string
	// root is the folder of the plugin that the command belongs to, "" for none.
	root string
	// away: the command goes on in the background from the start.
	away bool
}

// registered are callbacks with their owner.
type registered struct {
	owner *kernel.Owner
	*entry
}

// watcher hears of notices.
type watcher struct {
	owner *kernel.Owner
	fn    func(hook.Notice)
}

// Engine implements hook.Engine. It is safe for use from any goroutine.
type Engine struct {
	with    Params
	owner   *kernel.Owner
	log     *slog.Logger
	notices *contextfile.Notices
	// dir is where transcripts are, shell what runs commands; both are looked up
	// when the first hook needs them.
	dir   func() string
	shell func() (string, error)
	// slots are the places in the background.
	slots chan struct{}

	mu sync.Mutex
	// callbacks holds the lists by event; a list is never changed, but replaced.
	callbacks map[string][]registered
	watchers  []watcher
	parsed    map[string]*parsed
	said      []told
	failures  *failures
}

var _ hook.Engine = (*Engine)(nil)

// New makes the engine; register hangs it into the life of agents.
func New(p Params) *Engine {
	return &Engine{
		with: p, owner: p.Self.Owner, log: p.Self.Log, notices: contextfile.NewNotices(p.Self.Log),
		dir:       sync.OnceValue(transcript.Dir),
		shell:     sync.OnceValues(func() (string, error) { return lookShell(p.Config.Shell) }),
		slots:     make(chan struct{}, p.Config.MaxBackground),
		callbacks: map[string][]registered{}, parsed: map[string]*parsed{},
	}
}

// Register implements hook.Engine. A matcher that cannot be understood is an
// error, because a hook that hears of nothing would guard nothing.
func (e *Engine) Register(o *kernel.Owner, hooks []hook.Hook) error {
	entries := make([]*entry, len(hooks))
	for i, h := range hooks {
		m, err := newMatcher(h.Matcher)
		if err == nil && h.Call == nil {
			err = errors.New("there is nothing to call")
		}
		if err != nil {
			return fmt.Errorf("register hook %s on %s: %w", h.Name, h.Event, err)
		}
		entries[i] = &entry{matcher: m, event: h.Event, name: h.Name, limit: h.Limit, refuse: h.BlockOnFailure,
			call: func(ctx context.Context, in hook.Call) ([]byte, error) { return h.Call(ctx, in) }}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := o.OnClose("hooks", func(context.Context) error {
		e.mu.Lock()
		defer e.mu.Unlock()
		for event, list := range e.callbacks {
			e.callbacks[event] = slices.DeleteFunc(slices.Clone(list), func(r registered) bool { return slices.Contains(entries, r.entry) })
		}
		return nil
	}); err != nil {
		return fmt.Errorf("register hooks: %w", err)
	}
	for _, x := range entries {
		list := e.callbacks[x.event]
		e.callbacks[x.event] = append(slices.Clip(list), registered{o, x})
	}
	return nil
}

// Any implements hook.Engine.
func (e *Engine) Any(cwd, event string) bool {
	return len(e.settled(cwd).events[event]) > 0 || slices.ContainsFunc(e.registered(event), registered.live)
}

func (r registered) live() bool { return r.owner.LiveAt(kernel.Now) }

func (e *Engine) registered(event string) []registered {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.callbacks[event]
}

// matching gives the hooks that hear of an occurrence, in the order of their
// verdicts. Of commands that are the same only the first is kept.
func (e *Engine) matching(in *hook.Input) []*entry {
	var list []*entry
	names := namesOf(in)
	fits := func(x *entry) bool { return names == nil || x.hears(names) }
	for _, x := range e.settled(in.CWD).events[in.Event] {
		if fits(x) && !slices.ContainsFunc(list, func(y *entry) bool { return x.command == y.command && x.root == y.root }) {
			list = append(list, x)
		}
	}
	for _, r := range e.registered(in.Event) {
		if r.live() && fits(r.entry) {
			list = append(list, r.entry)
		}
	}
	return list
}

// Watch implements hook.Engine.
func (e *Engine) Watch(o *kernel.Owner, fn func(hook.Notice)) error {
	w := watcher{o, fn}
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := o.OnClose("watch of hooks", func(context.Context) error {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.watchers = slices.DeleteFunc(slices.Clone(e.watchers), func(x watcher) bool { return x.owner == o })
		return nil
	}); err != nil {
		return fmt.Errorf("watch hooks: %w", err)
	}
	e.watchers = append(slices.Clip(e.watchers), w)
	return nil
}

// tell gives a notice to all who watch.
func (e *Engine) tell(n hook.Notice) {
	e.mu.Lock()
	watchers := e.watchers
	e.mu.Unlock()
	for _, w := range watchers {
		if err := contain(func() error { w.fn(n); return nil }); err != nil {
			e.log.Error("a watcher of hooks failed", "error", err)
		}
	}
}

// Levels of an informational notice.
const (
	levelNotice  = "notice"
	levelWarning = "warning"
)

// inform tells people something about a session.
func (e *Engine) inform(in *hook.Input, level, format string, args ...any) {
	e.tell(hook.Notice{
		Kind: hook.NoticeInformational, SessionID: in.SessionID, Name: label(in), Event: in.Event,
		Level: level, Text: clip(fmt.Sprintf(format, args...), mostText),
	})
}

// label names an occurrence for people: PreToolUse:Bash.
func label(in *hook.Input) string {
	if in.Match == "" {
		return in.Event
	}
	return in.Event + ":" + in.Match
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
