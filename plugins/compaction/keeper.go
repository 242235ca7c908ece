package compaction

import (
	"context"
	"fmt"
	"log/slog"
	"sync"

	"dsh/kernel"
	"dsh/kernel/agent"
	"dsh/kernel/attachment"
	"dsh/kernel/hook"
	"dsh/kernel/llm"
)

// name signs what the plugin puts into the history.
const name = "compaction"

// Keeper makes room in histories. Its hook may run for many sessions at once.
type Keeper struct {
	config Config
	owner  *kernel.Owner
	hooks  *agent.Hooks
	router *llm.Router
	images attachment.Store // nil without
	engine hook.Engine      // nil without
	log    *slog.Logger

	mu       sync.Mutex
	accounts map[string]*account
	// sweepAt is how many accounts there may be before those of closed agents go.
	sweepAt int
}

// New makes the keeper; register hangs it before every model request.
func New(p Params) *Keeper {
	return &Keeper{
		config: p.Config, owner: p.Self.Owner, hooks: p.Hooks, router: p.Router, images: p.Images, engine: p.Engine, log: p.Self.Log,
		accounts: map[string]*account{},
	}
}

func (k *Keeper) register() error { return k.hooks.OnStep(k.owner, 0, name, k.keep) }

// keep is agent.Keep.
func (k *Keeper) keep(ctx context.Context, s agent.Step) (changed bool, err error) {
	var tokens int64
	s.Agent.Log().View(func() { tokens, _ = s.State.Usage.Context() })
	limit := k.limit(&s)
	if s.Refused == nil && (limit == 0 || tokens <= limit) {
		return false, nil
	}
	a := k.account(s.Agent)
	a.begin(&s)
	goal := limit * 3 / 4
	switch {
	case s.Refused == nil && a.hopeless(tokens, limit):
		return false, nil
	case s.Refused != nil && (limit == 0 || tokens/2 < goal):
		// The provider knows better what is too long.
		goal = tokens / 2
	}
	r := &room{Keeper: k, step: s, account: a, goal: goal, keep: min(k.config.KeepTokens, goal/3)}
	changed, err = r.make(ctx)
	if ctx.Err() != nil {
		return changed, context.Cause(ctx)
	}
	s.Agent.Log().View(func() { tokens, _ = s.State.Usage.Context() })
	a.end(tokens, limit)
	if err == nil && !changed && s.Refused != nil {
		err = fmt.Errorf("a request of about %d tokens is too long and nothing older is left to shorten; "+
			"send less at once, for example the name of a file in place of its text", tokens)
	}
	return changed, err
}

// limit is how much a request may hold before room is made; 0 when it is not
// known. Most providers count the answer's longest length into the window.
func (k *Keeper) limit(s *agent.Step) int64 {
	window := s.Info.ContextWindow
	answer := min(s.Header.Config.MaxTokens, window/2)
	return min(int64(float64(window)*k.config.Share), window-answer)
}

// account is what is remembered of a session: only its loop reads and writes it.
type account struct {
	// life ends when the agent is closed.
	life context.Context
	// turn and step say for which request calls counts the requests for summaries.
	turn, step, calls int
	// strikes counts what did not help, one after the other; reached is how much
	// the history held after the last.
	strikes int
	reached int64
}

// leastSweep is how many accounts are kept whatever their agents do.
const leastSweep = 64

func (k *Keeper) account(of agent.Agent) *account {
	k.mu.Lock()
	defer k.mu.Unlock()
	life := of.Life()
	if a := k.accounts[of.ID()]; a != nil && a.life == life {
		return a
	}
	if len(k.accounts) >= max(k.sweepAt, leastSweep) {
		for id, a := range k.accounts {
			if a.life.Err() != nil {
				delete(k.accounts, id)
			}
		}
		k.sweepAt = 2 * len(k.accounts)
	}
	a := &account{life: life}
	k.accounts[of.ID()] = a
	return a
}

func (a *account) begin(s *agent.Step) {
	if a.turn != s.Turn || a.step != s.Step {
		a.turn, a.step, a.calls = s.Turn, s.Step, 0
	}
}

func (a *account) end(tokens, limit int64) {
	if tokens <= limit {
		a.strikes = 0
		return
	}
	a.strikes++
	a.reached = tokens
}

// hopeless says that making room has failed twice, and that the history is hardly
// another since.
func (a *account) hopeless(tokens, limit int64) bool {
	return a.strikes > 1 && tokens > a.reached-limit/10 && tokens < a.reached+limit/10
}
