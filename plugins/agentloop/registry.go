package agentloop

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"dsh/kernel"
	"dsh/kernel/agent"
	"dsh/kernel/attachment"
	"dsh/kernel/llm"
	"dsh/kernel/process"
	"dsh/kernel/prompt"
	"dsh/kernel/session"
	"dsh/kernel/tool"
	"dsh/sdkproto"
)

// Registry makes, finds and closes agents; it implements agent.Registry.
type Registry struct {
	config   Config
	store    session.Store
	router   *llm.Router
	tools    *tool.Registry
	pipeline *tool.Pipeline
	sections *prompt.Sections
	runner   process.Runner // nil without one
	hooks    *agent.Hooks   // nil without
	images   attachment.Store
	owner    *kernel.Owner
	root     *kernel.Root
	log      *slog.Logger
	headers  session.HeaderPool
	toolsets toolsets
	quiet    quiet

	mu       sync.Mutex
	closing  bool
	agents   map[string]*entry
	busy     map[string]chan struct{} // ids with a transaction; closed at its end
	watchers []*watcher
	// lastHeader is the one that was built last.
	lastHeader keyedHeader
}

// entry is a live agent. It is published once every watcher knows it: before
// that only watchers may see it, since nobody else may wake it.
type entry struct {
	*actor
	published bool
}

type watcher struct {
	owner *kernel.Owner
	fn    func(agent.Agent, agent.Spec)
}

// New makes a registry without agents.
func New(p Params) (*Registry, error) {
	return &Registry{
		config: p.Config, store: p.Store, router: p.Router, tools: p.Tools, pipeline: p.Pipeline,
		sections: p.Sections, runner: p.Runner, hooks: p.Hooks, images: p.Images, owner: p.Instance.Owner, root: p.Instance.Root, log: p.Instance.Log,
		agents: map[string]*entry{}, busy: map[string]chan struct{}{},
	}, nil
}

// Register makes the agents come to rest with the process: before anything
// that drains what they say, if it is called before that registers.
func (r *Registry) Register() error {
	r.root.OnQuiesce(r.owner, "agents", kernel.QuiesceLimit, r.quiesce)
	return r.owner.OnClose("give back memory", func(context.Context) error { r.quiet.stop(); return nil })
}

// begin starts a transaction on one id, after those that run.
func (r *Registry) begin(ctx context.Context, id string) (end func(), err error) {
	for {
		r.mu.Lock()
		running, taken := r.busy[id]
		if !taken {
			done := make(chan struct{})
			r.busy[id] = done
			r.mu.Unlock()
			return func() {
				r.mu.Lock()
				defer r.mu.Unlock()
				delete(r.busy, id)
				close(done)
			}, nil
		}
		r.mu.Unlock()
		select {
		case <-running:
		case <-ctx.Done():
			return nil, fmt.Errorf("open session %s: %w", id, context.Cause(ctx))
		}
	}
}

// Get gives a live agent.
func (r *Registry) Get(id string) (agent.Agent, bool) {
	if a := r.find(id); a != nil {
		return a, true
	}
	return nil, false
}

func (r *Registry) find(id string) *actor {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e := r.agents[id]; e != nil && e.published {
		return e.actor
	}
	return nil
}

// Open gives the agent of spec.ID. A resumed agent with queued prompts stays
// idle until the next message wakes it; then they run first.
func (r *Registry) Open(ctx context.Context, spec agent.Spec, mode agent.Mode) (agent.Agent, error) {
	if err := session.CheckID(spec.ID); err != nil {
		return nil, err
	}
	end, err := r.begin(ctx, spec.ID)
	if err != nil {
		return nil, err
	}
	defer end()
	if r.refusing() {
		return nil, agent.ErrClosing
	}
	if a := r.find(spec.ID); a != nil {
		if mode == agent.OpenNew {
			return nil, fmt.Errorf("open session %s: %w", spec.ID, session.ErrExists)
		}
		return a, nil
	}
	if _, err := r.CheckRoute(spec.Route); err != nil {
		return nil, err
	}
	if err := r.tools.Check(spec.Tools); err != nil {
		return nil, err
	}
	a, err := r.load(ctx, spec, mode)
	if err != nil {
		return nil, err
	}
	if err := r.publish(a); err != nil {
		return nil, errors.Join(err, r.release(a))
	}
	return a, nil
}

func (r *Registry) refusing() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.closing || r.owner.Context().Err() != nil
}

// load makes an agent of the stored session or of a new one.
func (r *Registry) load(ctx context.Context, spec agent.Spec, mode agent.Mode) (*actor, error) {
	cwd := spec.CWD
	if cwd != "" {
		abs, err := filepath.Abs(cwd)
		if err != nil {
			return nil, fmt.Errorf("open session %s: working directory %q: %w", spec.ID, cwd, err)
		}
		cwd = abs
	}
	state := &session.State{}
	state.Header.Pool = &r.headers
	if mode != agent.OpenNew {
		log, err := session.Load(ctx, r.store, spec.ID, cwd, state)
		if err == nil {
			spec.CWD = log.Header().CWD
			return r.newActor(spec, log, state), nil
		}
		if mode == agent.OpenResume || !errors.Is(err, session.ErrNotFound) {
			return nil, err
		}
		state = &session.State{}
		state.Header.Pool = &r.headers
	}
	if cwd == "" {
		abs, err := filepath.Abs("")
		if err != nil {
			return nil, fmt.Errorf("open session %s: working directory: %w", spec.ID, err)
		}
		cwd = abs
	}
	spec.CWD = cwd
	h := session.Header{
		ID: spec.ID, CreatedAt: time.Now().UnixMilli(), CWD: cwd, ParentSession: spec.Parent, DelegationDepth: spec.Depth,
	}
	if spec.Parent != "" {
		h.Origin = originSubagent
	}
	w, err := r.store.Create(ctx, h)
	if err != nil {
		return nil, err
	}
	return r.newActor(spec, session.NewLog(h, w, 0, 0, state), state), nil
}

// originSubagent is Header.Origin of a delegated session (spec jsonrpc 8.4).
const originSubagent = "subagent"

func (r *Registry) newActor(spec agent.Spec, log *session.Log, state *session.State) *actor {
	var filters []*tool.Filter
	if spec.Tools != nil {
		filters = append(filters, spec.Tools)
	}
	if spec.Parent != "" {
		// What a parent may not use its descendants may not either (spec jsonrpc 4.3).
		if parent := r.find(spec.Parent); parent != nil {
			filters = append(filters, parent.filters...)
		}
	}
	a := &actor{
		r: r, spec: spec, route: spec.Route, filters: filters, owner: r.owner.Child("session " + spec.ID),
		session: log, state: state, view: r.tools.View(filters).For(tool.Viewer{SessionID: spec.ID, CWD: spec.CWD}),
		resumed: log.Next() > 0, status: sdkproto.StatusIdle,
	}
	a.life, a.end = context.WithCancelCause(a.owner.Context())
	return a
}

// publish tells the watchers, closes what a crash left open, and lets everybody
// else have the agent.
func (r *Registry) publish(a *actor) error {
	if err := a.owner.OnClose("session log", a.dispose); err != nil {
		return agent.ErrClosing
	}
	e := &entry{actor: a}
	r.mu.Lock()
	if r.closing {
		r.mu.Unlock()
		return agent.ErrClosing
	}
	r.agents[a.spec.ID] = e
	watchers := slices.Clone(r.watchers)
	r.mu.Unlock()
	for _, w := range watchers {
		r.tell(w, a)
	}
	drafts, err := a.beginning()
	if err == nil && len(drafts) > 0 {
		_, err = a.session.Append(drafts...)
	}
	if err == nil && a.resumed && a.spec.Cut != nil {
		err = a.cut(a.spec.Cut)
	}
	if err != nil {
		return fmt.Errorf("open session %s: %w", a.spec.ID, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closing {
		return agent.ErrClosing
	}
	e.published = true
	return nil
}

// beginning is what the log of an agent gets when it is opened: the seed of a new
// one; what closes that which a crash left open in a stored one.
func (a *actor) beginning() (drafts []session.Draft, err error) {
	if !a.resumed {
		return a.spec.Seed, nil
	}
	last := a.session.LastTime()
	a.session.View(func() {
		if a.spec.Cut != nil {
			// Before anything is written it must be sure that the cut can be made.
			_, err = a.state.Cut(a.spec.Cut.Seq, a.spec.Cut.Blocks)
		}
		drafts = a.state.Repairs(last)
	})
	return append(drafts, session.Draft{Type: sdkproto.TypeSessionEndSeed, Data: sdkproto.SessionEndSeed{}}), err
}

// cut takes the end of the history out.
func (a *actor) cut(at *agent.Cut) error {
	var drafts []session.Draft
	var err error
	a.session.View(func() { drafts, err = a.state.Cut(at.Seq, at.Blocks) })
	if drafts = append(drafts, at.Behind...); err == nil && len(drafts) > 0 {
		_, err = a.session.Append(drafts...)
	}
	return err
}

func (r *Registry) tell(w *watcher, a *actor) {
	if w.owner.Context().Err() != nil {
		return
	}
	if err := guard("a watcher of agents", func() error { w.fn(a, a.spec); return nil }); err != nil {
		r.log.Error("a watcher of agents failed", "session", a.spec.ID, "error", err)
	}
}

// Watch calls fn for every agent that is live and every one to come, until o is
// closed. It may be called from several goroutines at once.
func (r *Registry) Watch(o *kernel.Owner, fn func(agent.Agent, agent.Spec)) error {
	w := &watcher{o, fn}
	err := o.OnClose("watch agents", func(context.Context) error {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.watchers = slices.DeleteFunc(r.watchers, func(x *watcher) bool { return x == w })
		return nil
	})
	if err != nil {
		return fmt.Errorf("watch agents: %w", err)
	}
	r.mu.Lock()
	r.watchers = append(r.watchers, w)
	live := make([]*actor, 0, len(r.agents))
	for _, e := range r.agents {
		live = append(live, e.actor)
	}
	r.mu.Unlock()
	for _, a := range live {
		r.tell(w, a)
	}
	return nil
}

// Close ends an agent and releases its session.
func (r *Registry) Close(ctx context.Context, id string, cause agent.Cause) error {
	end, err := r.begin(ctx, id)
	if err != nil {
		return err
	}
	defer end()
	return r.close(ctx, id, cause)
}

func (r *Registry) close(ctx context.Context, id string, cause agent.Cause) error {
	a := r.find(id)
	if a == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, closeLimit)
	defer cancel()
	if err := a.stop(ctx, cause); err != nil {
		r.log.Warn("an agent did not come to rest", "session", id, "error", err)
	}
	return r.release(a)
}

// closeLimit bounds Close; releaseLimit what of it is left for things that hang
// on an agent, such as an adapter that does not end with its context.
const (
	closeLimit   = 5 * time.Second
	releaseLimit = time.Second
)

// release gives a session up, whatever still hangs on its agent.
func (r *Registry) release(a *actor) error {
	err := a.closeLog()
	ctx, cancel := context.WithTimeout(context.Background(), releaseLimit)
	defer cancel()
	if stuck := a.owner.Close(ctx); stuck != nil {
		r.log.Warn("a session was released while something of it still runs", "session", a.spec.ID, "error", stuck)
	}
	return err
}

func (r *Registry) forget(a *actor) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e := r.agents[a.spec.ID]; e != nil && e.actor == a {
		delete(r.agents, a.spec.ID)
	}
}

// quiesceWidth bounds the agents that sync at the same time.
const quiesceWidth = 256

// quiesce brings all agents to rest and refuses new ones.
func (r *Registry) quiesce(ctx context.Context) error {
	r.mu.Lock()
	r.closing = true
	all := make([]*actor, 0, len(r.agents))
	for _, e := range r.agents {
		all = append(all, e.actor)
	}
	r.mu.Unlock()
	cause := agent.Cause{Kind: sdkproto.AbortDisposed}
	for _, a := range all {
		a.refuse(cause)
	}
	var g errgroup.Group
	g.SetLimit(quiesceWidth)
	for _, a := range all {
		g.Go(func() error { return a.stop(ctx, cause) })
	}
	return g.Wait()
}

// CheckRoute resolves a route.
func (r *Registry) CheckRoute(route llm.Route) (llm.Route, error) {
	_, resolved, err := r.resolve(kernel.Now, route)
	return resolved.route, err
}

// CheckTools refuses filters that make no sense.
func (r *Registry) CheckTools(f *tool.Filter) error { return r.tools.Check(f) }

// Events hands the stored events of a session on.
func (r *Registry) Events(ctx context.Context, id string, from int64, fn func(*session.Record) error) error {
	err := r.store.Read(ctx, id, from, fn)
	if errors.Is(err, session.ErrNotFound) && r.find(id) != nil {
		return nil // live, and has said nothing yet
	}
	return err
}

// List gives the stored sessions of cwd, newest first.
func (r *Registry) List(ctx context.Context, cwd string) ([]session.Header, error) {
	if cwd != "" {
		abs, err := filepath.Abs(cwd)
		if err != nil {
			return nil, fmt.Errorf("list sessions of %q: %w", cwd, err)
		}
		cwd = abs
	}
	return r.store.List(ctx, cwd)
}

// Delete closes the agent, if live, and removes the session.
func (r *Registry) Delete(ctx context.Context, id string) error {
	end, err := r.begin(ctx, id)
	if err != nil {
		return err
	}
	defer end()
	if err := r.close(ctx, id, agent.Cause{Kind: sdkproto.AbortDisposed}); err != nil {
		r.log.Warn("a session that is deleted was not closed well", "session", id, "error", err)
	}
	return r.store.Delete(ctx, id)
}
