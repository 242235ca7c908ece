package checkpoint

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"

	"dsh/kernel"
	"dsh/kernel/agent"
	"dsh/kernel/checkpoint"
	"dsh/kernel/process"
	kernelsession "dsh/kernel/session"
	"dsh/kernel/tool"
	"dsh/sdkproto"
)

// Places of the stages in the pipeline: the one is around the hooks on calls, which
// may change files as well, the other around the call alone, when nobody can refuse
// it any more.
const (
	orderAround = tool.OrderLimit + 50
	orderInside = tool.OrderGuard + 100
)

// chain is the place in the chains of agents: behind the hooks of clients.
const chain = 1000

// folder is that of all checkpoints, below $DSH_HOME.
const folder = "checkpoints"

// Keeper keeps the checkpoints of all sessions. It implements checkpoint.Keeper.
type Keeper struct {
	self   kernel.Instance
	config Config
	log    *slog.Logger
	params Params
	runner process.Runner
	dir    string

	// git is looked for once.
	once   sync.Once
	noGit  error
	pruned sync.Once

	mu       sync.Mutex
	sessions map[string]*session
}

var _ checkpoint.Keeper = (*Keeper)(nil)

// New makes the keeper; register lets it see what agents do.
func New(p Params) *Keeper {
	return &Keeper{
		self: p.Self, config: p.Config, log: p.Self.Log, params: p, runner: p.Runner,
		dir: filepath.Join(p.Self.Home, folder), sessions: map[string]*session{},
	}
}

func (k *Keeper) register() error {
	o := k.self.Owner
	if err := k.params.Pipeline.Use(o, orderAround, "checkpoint", k.around); err != nil {
		return err
	}
	if err := k.params.Pipeline.Use(o, orderInside, "checkpoint before", k.inside); err != nil {
		return err
	}
	if err := k.params.Hooks.OnPrompt(o, chain, "checkpoint", k.prompt); err != nil {
		return err
	}
	if err := k.params.Hooks.OnStop(o, chain, "checkpoint", k.stop); err != nil {
		return err
	}
	k.self.Root.OnQuiesce(o, "checkpoints", kernel.QuiesceLimit, k.quiesce)
	return nil
}

// find finds the work tree of a folder. The error is for people.
func (k *Keeper) find(cwd string) (*tree, error) {
	k.once.Do(func() { _, k.noGit = exec.LookPath("git") })
	if k.noGit != nil {
		return nil, fmt.Errorf("checkpoints need the program git, which is not there: %w", k.noGit)
	}
	return findTree(cwd)
}

// session gives what is remembered of a session at the root.
func (k *Keeper) session(id string) *session {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := k.sessions[id]
	if s != nil {
		return s
	}
	s = &session{k: k, id: id, dir: k.folder(id), gate: make(chan struct{}, 1), files: map[string]*entry{}}
	k.sessions[id] = s
	if a, ok := k.params.Agents.Get(id); ok {
		context.AfterFunc(a.Life(), func() { k.release(s) })
	}
	return s
}

func (k *Keeper) folder(id string) string { return filepath.Join(k.dir, kernelsession.EncodeID(id)) }

// release forgets what a session that has been closed has on the disk as well.
func (k *Keeper) release(s *session) {
	k.mu.Lock()
	defer k.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.calls == 0 && !s.dirty && k.sessions[s.id] == s {
		delete(k.sessions, s.id)
	}
}

// root finds the agent at the root of a delegation.
func (k *Keeper) root(id string) (agent.Agent, bool) {
	// A session cannot be its own ancestor; the bound is for broken records.
	for range 64 {
		a, ok := k.params.Agents.Get(id)
		if !ok {
			return nil, false
		}
		parent := a.Spec().Parent
		if parent == "" {
			return a, true
		}
		id = parent
	}
	return nil, false
}

// prompt implements agent.Admit: the turn of a message begins.
func (k *Keeper) prompt(_ context.Context, p agent.Prompt) (agent.Verdict, error) {
	if p.Depth > 0 {
		return agent.Verdict{}, nil
	}
	if _, err := k.find(p.CWD); err == nil {
		k.session(p.SessionID).turn(p.Message.ID)
	}
	return agent.Verdict{}, nil
}

// stop implements agent.Stop. The turn ends behind its last snapshot: who changes a
// file once the client has read the result is somebody else (S058).
func (k *Keeper) stop(ctx context.Context, at agent.Stopping) (agent.Onward, error) {
	if spec := at.Agent.Spec(); spec.Parent == "" {
		k.mu.Lock()
		s := k.sessions[spec.ID]
		k.mu.Unlock()
		if s != nil {
			s.mark()
			if err := s.catchUp(ctx); err != nil { // the turn is interrupted
				s.follow("checkpoint at the end of a turn")
			}
		}
	}
	return agent.Onward{}, nil
}

// visit is a call on its way through the pipeline; entered is set when it has been
// let through.
type visit struct{ entered *session }

type visitKey struct{}

// around takes the snapshot behind a call that may have changed something.
func (k *Keeper) around(ctx context.Context, t tool.Tool, in tool.Invocation, next tool.Next) (tool.Result, error) {
	if tool.IsUnknown(t) || t.Spec().ReadOnly {
		return next(ctx, t, in)
	}
	v := &visit{}
	defer func() {
		if v.entered != nil {
			v.entered.leave()
		}
	}()
	return next(context.WithValue(ctx, visitKey{}, v), t, in)
}

// inside takes the snapshot before a call, if it is the first of its turn.
func (k *Keeper) inside(ctx context.Context, t tool.Tool, in tool.Invocation, next tool.Next) (tool.Result, error) {
	v, _ := ctx.Value(visitKey{}).(*visit)
	if v == nil || v.entered != nil {
		return next(ctx, t, in)
	}
	a, ok := k.root(in.SessionID)
	if !ok {
		return next(ctx, t, in)
	}
	at, err := k.find(a.Spec().CWD)
	if err != nil {
		return next(ctx, t, in)
	}
	s := k.session(a.ID())
	// A subagent may go on behind the turn that started it.
	if err := s.enter(ctx, at, a.Status() == sdkproto.StatusIdle); err != nil {
		return tool.Result{}, err
	}
	v.entered = s
	return next(ctx, t, in)
}

// quiesce waits for the snapshots that are under way, as long as it may. Without
// them what the last calls have changed counts as somebody else's.
func (k *Keeper) quiesce(ctx context.Context) error {
	k.mu.Lock()
	all := make([]*session, 0, len(k.sessions))
	for _, s := range k.sessions {
		all = append(all, s)
	}
	k.mu.Unlock()
	for _, s := range all {
		if err := s.catchUp(ctx); err != nil {
			k.log.Info("the last checkpoint of a session is not finished", "session", s.id, "error", err)
		}
	}
	return nil
}

// Settle implements checkpoint.Keeper.
func (k *Keeper) Settle(ctx context.Context, sessionID string) error {
	k.mu.Lock()
	s := k.sessions[sessionID]
	k.mu.Unlock()
	if s == nil {
		return nil
	}
	if err := s.catchUp(ctx); err != nil {
		return fmt.Errorf("take the last checkpoint of session %s: %w", sessionID, err)
	}
	return nil
}

// Forget implements checkpoint.Keeper.
func (k *Keeper) Forget(ctx context.Context, sessionID string) error {
	if err := kernelsession.CheckID(sessionID); err != nil {
		return fmt.Errorf("forget checkpoints: %w", err)
	}
	s := k.session(sessionID)
	if err := s.lock(ctx); err != nil {
		return fmt.Errorf("forget the checkpoints of session %s: %w", sessionID, err)
	}
	defer s.unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.history, s.files, s.loaded, s.off = history{}, map[string]*entry{}, false, ""
	if err := os.RemoveAll(s.dir); err != nil {
		return fmt.Errorf("forget the checkpoints of session %s: %w", sessionID, err)
	}
	return nil
}

// prune removes the checkpoints of the sessions that were not used for longest, once
// in a process.
func (k *Keeper) prune(current string) {
	k.pruned.Do(func() {
		entries, err := os.ReadDir(k.dir)
		if err != nil || len(entries) <= k.config.KeepSessions {
			return
		}
		type old struct {
			path string
			used int64
		}
		var list []old
		for _, e := range entries {
			path := filepath.Join(k.dir, e.Name())
			if path == k.folder(current) {
				continue
			}
			o := old{path: path}
			if info, err := os.Stat(filepath.Join(path, journalName)); err == nil {
				o.used = info.ModTime().UnixNano()
			}
			list = append(list, o)
		}
		slices.SortFunc(list, func(a, b old) int { return cmp.Compare(b.used, a.used) })
		for _, o := range list[min(k.config.KeepSessions-1, len(list)):] {
			if err := os.RemoveAll(o.path); err != nil {
				k.log.Warn("old checkpoints cannot be removed", "path", o.path, "error", err)
			}
		}
	})
}
