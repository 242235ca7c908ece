package budget

import (
	"context"
	"fmt"
	"hash/maphash"
	"sync"
	"time"

	"dsh/kernel/agent"
	"dsh/kernel/session"
	"dsh/sdkproto"
)

// Budget keeps the accounts; it is an llm.Guard.
type Budget struct {
	Options
	seed maphash.Seed

	mu      sync.Mutex
	process *account
	// changed is closed and replaced when something that was set aside is free again.
	changed  chan struct{}
	sessions map[string]*entry
}

// entry is a live session. Budget.mu guards what changes.
type entry struct {
	agent agent.Agent
	// parent is the session that delegated to this one, root the one at the top;
	// parent is nil, and root the entry itself, for one that nobody delegated.
	parent, root *entry
	// own is the budget of the session of a root, and of a subagent else.
	own *account
	// turn is the budget of a root's last turn, by its number; state, read inside the
	// log's View, says whether it goes on.
	turn   *account
	number int
	state  *session.State
	known  []known

	// recalling is held while what the session has used before is read.
	recalling chan struct{}
	recalled  bool
}

// New makes accounts on which nothing is.
func New(o Options) *Budget {
	b := &Budget{Options: o, seed: maphash.MakeSeed(), changed: make(chan struct{}), sessions: map[string]*entry{}}
	b.process = &account{scope: sdkproto.BudgetProcess, limits: &b.Config.Process, began: time.Now()}
	return b
}

// orderTools puts calls of tools on the account before anybody is asked about them.
const orderTools = 150

// orderTurn is in front of every other hook, which may make requests of the turn.
const orderTurn = -1 << 20

func (b *Budget) register() error {
	if err := b.Agents.Watch(b.Owner, b.opened); err != nil {
		return err
	}
	if err := b.Pipeline.Use(b.Owner, orderTools, "budget", b.call); err != nil {
		return err
	}
	if b.Config.Turn != (Limits{}) {
		if err := b.Hooks.OnStep(b.Owner, orderTurn, "budget", b.step); err != nil {
			return err
		}
	}
	return b.Router.Guard(b.Owner, b)
}

// opened takes up a session for as long as it is live.
func (b *Budget) opened(a agent.Agent, spec agent.Spec) {
	e := &entry{agent: a, recalling: make(chan struct{}, 1)}
	e.root, e.own = e, &account{scope: sdkproto.BudgetSession, limits: &b.Config.Session, began: time.Now()}
	b.mu.Lock()
	if spec.Parent != "" {
		e.own.scope, e.own.limits = sdkproto.BudgetSubagent, &b.Config.Subagent
		if e.parent = b.sessions[spec.Parent]; e.parent != nil {
			e.root = e.parent.root
		}
	}
	b.sessions[spec.ID] = e
	b.mu.Unlock()
	context.AfterFunc(a.Life(), func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.sessions[spec.ID] == e {
			delete(b.sessions, spec.ID)
		}
	})
}

// step begins the account of a turn, before its first request.
func (b *Budget) step(_ context.Context, s agent.Step) (bool, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.sessions[s.Agent.ID()]
	if e == nil || e.root != e || e.own.scope != sdkproto.BudgetSession || e.turn != nil && e.number == s.Turn {
		return false, nil
	}
	e.turn, e.number, e.state = &account{scope: sdkproto.BudgetTurn, limits: &b.Config.Turn, began: time.Now()}, s.Turn, s.State
	return false, nil
}

// entry finds a live session; nil without.
func (b *Budget) entry(id string) *entry {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.sessions[id]
}

// accounts are the budgets that something a session does now falls under.
func (b *Budget) accounts(e *entry) []*account {
	var list []*account
	take := func(a *account) {
		if *a.limits != (Limits{}) {
			list = append(list, a)
		}
	}
	take(b.process)
	if e == nil {
		return list
	}
	for at := e; at != nil; at = at.parent {
		take(at.own)
	}
	b.mu.Lock()
	turn, number, state := e.root.turn, e.root.number, e.root.state
	b.mu.Unlock()
	if turn == nil {
		return list
	}
	// What is asked for between turns is part of none.
	e.root.agent.Log().View(func() {
		if state.Brackets.TurnOpen && state.Brackets.Turn == number {
			take(turn)
		}
	})
	return list
}

// tell puts a fact into the log of a session. It can do without.
func (b *Budget) tell(ctx context.Context, e *entry, kind string, fact any) {
	if e == nil {
		return
	}
	log := e.agent.Log()
	err := log.Room(ctx)
	if err == nil {
		_, err = log.Append(session.Draft{Type: kind, Data: fact, Ignorable: true})
	}
	if err != nil {
		b.Log.Debug("what a budget did is not in the log", "event", kind, "session", e.agent.ID(), "error", err)
	}
}

// unpriced says what to do about a price that is not known.
func unpriced(provider, model string) string {
	return fmt.Sprintf("the price of model %s of provider %q in US dollars is not known, so no budget of money can hold; "+
		"configure the price in the models of the provider's row, or set budget.unpriced to allow", model, provider)
}
