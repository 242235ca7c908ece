package jsonrpc

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"

	"dsh/kernel/agent"
	"dsh/kernel/session"
	"dsh/sdkproto"
)

// book holds what the server knows of the sessions whose events it streams. The
// subscription's goroutine writes it, in the order of the events; requests read
// it.
type book struct {
	agents agent.Registry
	// over is closed when no event will be handed on any more.
	over chan struct{}
	end  func()

	mu sync.Mutex
	// pages are the agents of a session id that still have something to say, the
	// newest last: an id that was closed may be live again before the last events
	// of the first agent are handed on.
	pages map[string][]*page
	// busy counts the running agents of a tree, by the id of its root.
	busy map[string]int
	// waiting are those that wait for a message to be settled.
	waiting map[target]map[*waiter]bool
	// swept is how many pages the last sweep has left.
	swept int
}

// page is one agent, from the moment it is made.
type page struct {
	agent  agent.Agent
	parent string
	// root is the id of the session at the top of the delegation.
	root string
	// first is the seq of the first event that is the agent's own.
	first int64
	// handed is the seq of the last event, but for chunks, that is in the hands of
	// the writer; below first if there is none.
	handed int64
	// moved is closed when an event has been handed on; nil while nobody waits.
	moved chan struct{}
	// announced says that subagent.started has been sent, or need not be.
	announced bool
	running   bool
	ledger    ledger
	// unreadable: what was logged before could not be read, and is not tried again.
	unreadable bool
}

// target names a message.
type target struct{ session, message string }

type waiter struct{ done chan sdkproto.PromptFinished }

func newBook(agents agent.Registry) *book {
	b := &book{agents: agents, over: make(chan struct{}), pages: map[string][]*page{}, busy: map[string]int{}, waiting: map[target]map[*waiter]bool{}}
	b.end = sync.OnceFunc(func() { close(b.over) })
	return b
}

// open starts a page. It is called before the agent's first event.
func (b *book) open(a agent.Agent, spec agent.Spec) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := &page{agent: a, parent: spec.Parent, root: a.ID(), first: a.Log().Next(), announced: spec.Parent == ""}
	p.handed, p.ledger.blind = p.first-1, p.first > 0
	if above := b.pages[spec.Parent]; spec.Parent != "" && len(above) > 0 {
		p.root = above[len(above)-1].root
	}
	b.pages[a.ID()] = append(b.pages[a.ID()], p)
}

// live records that an agent ran when the server came to it.
func (b *book) live(a agent.Agent) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if pages := b.pages[a.ID()]; len(pages) > 0 {
		b.change(pages[len(pages)-1], sdkproto.StatusRunning)
	}
}

// find gives the page an entry belongs to, nil for none.
func (b *book) find(e session.Entry) *page {
	b.mu.Lock()
	defer b.mu.Unlock()
	pages := b.pages[e.SessionID]
	for len(pages) > 1 && e.Record != nil && e.Record.Event.Seq >= pages[1].first {
		b.change(pages[0], sdkproto.StatusIdle) // it is closed
		pages = pages[1:]
		b.pages[e.SessionID] = pages
	}
	if len(pages) == 0 {
		return nil
	}
	return pages[0]
}

// change takes up a change of status, and reports whether the status of the whole
// tree has changed with it. The caller holds mu.
func (b *book) change(p *page, status sdkproto.Status) bool {
	running := status == sdkproto.StatusRunning
	if running == p.running {
		return false
	}
	p.running = running
	if running {
		b.busy[p.root]++
		return b.busy[p.root] == 1
	}
	b.busy[p.root]--
	if b.busy[p.root] > 0 {
		return false
	}
	delete(b.busy, p.root)
	return true
}

// status is change for the subscription.
func (b *book) status(p *page, status sdkproto.Status) (treeChanged bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.change(p, status)
}

// apply enters an event that has been handed on, and wakes those who waited for
// it or for what it settles. usage is set for an answer that has one.
func (b *book) apply(ctx context.Context, p *page, r *session.Record, want asked) (ends []settled, usage *sdkproto.UsageReport, err error) {
	b.advance(p, r.Event.Seq)
	if b.mustSee(p, r, want) {
		if err := b.read(ctx, p, r.Event.Seq); err != nil {
			return nil, nil, err
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	ends, err = p.ledger.apply(r)
	id := p.agent.ID()
	for i := range ends {
		ends[i].SessionID = id
		at := target{id, ends[i].MessageID}
		for w := range b.waiting[at] {
			w.done <- ends[i].PromptFinished // of one element, sent once
		}
		delete(b.waiting, at)
	}
	if err == nil && want.usage && r.Event.Type == sdkproto.TypeAssistantMessage {
		var m sdkproto.AssistantMessage
		if m, err = session.Decode[sdkproto.AssistantMessage](r); err == nil && m.Usage != nil {
			usage = &sdkproto.UsageReport{SessionID: id, Turn: m.Turn, Usage: *m.Usage, Totals: p.ledger.totals}
		}
	}
	return ends, usage, err
}

func (b *book) advance(p *page, seq int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p.handed = seq
	if p.moved != nil {
		close(p.moved)
		p.moved = nil
	}
}

// passed waits until the event at seq, which is no chunk, has been handed on, or
// until ctx ends: then nothing is handed on any more.
func (b *book) passed(ctx context.Context, id string, seq int64) {
	for {
		b.mu.Lock()
		pages := b.pages[id]
		if len(pages) == 0 || pages[len(pages)-1].handed >= seq {
			b.mu.Unlock()
			return
		}
		last := pages[len(pages)-1]
		if last.moved == nil {
			last.moved = make(chan struct{})
		}
		moved := last.moved
		b.mu.Unlock()
		select {
		case <-moved:
		case <-b.over:
			return
		case <-ctx.Done():
			return
		}
	}
}

// mustSee reports whether an event of a resumed session means something only to
// those who know what was logged before. Nobody who asks for nothing needs it.
func (b *book) mustSee(p *page, r *session.Record, want asked) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !p.ledger.blind || p.unreadable {
		return false
	}
	switch r.Event.Type {
	case sdkproto.TypeAssistantMessage:
		return want.usage
	case sdkproto.TypeAgentInboxSpliced:
		if !want.finished && len(b.waiting) == 0 {
			return false
		}
		s, err := session.Decode[sdkproto.AgentInboxSpliced](r)
		return err == nil && s.Outcome == sdkproto.OutcomeCanceled
	}
	return false
}

// read makes up for what was logged before the server heard of the session: up
// to, and without, the event at seq.
func (b *book) read(ctx context.Context, p *page, seq int64) error {
	var l ledger
	err := b.agents.Events(ctx, p.agent.ID(), 0, func(r *session.Record) error {
		if r.Event.Seq >= seq {
			return errEnough
		}
		_, err := l.apply(r)
		return err
	})
	b.mu.Lock()
	defer b.mu.Unlock()
	if err != nil && !errors.Is(err, errEnough) {
		p.unreadable = true
		return fmt.Errorf("read what the session held before: %w", err)
	}
	p.ledger = l
	return nil
}

// errEnough ends a reading of events.
var errEnough = errors.New("enough")

// await registers a waiter for a message. known says that the message is on its
// way and will be settled; otherwise it may have been already.
func (b *book) await(at target) (w *waiter, known bool) {
	w = &waiter{make(chan sdkproto.PromptFinished, 1)}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.waiting[at] == nil {
		b.waiting[at] = map[*waiter]bool{}
	}
	b.waiting[at][w] = true
	for _, p := range b.pages[at.session] {
		known = known || p.ledger.waits(at.message)
	}
	return w, known
}

func (b *book) forget(at target, w *waiter) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if delete(b.waiting[at], w); len(b.waiting[at]) == 0 {
		delete(b.waiting, at)
	}
}

// leastSweep is how many pages are kept without looking whether they are of
// use.
const leastSweep = 64

// sweep drops the pages of agents that were closed, once there are many.
func (b *book) sweep() {
	b.mu.Lock()
	if len(b.pages) < 2*max(b.swept, leastSweep) {
		b.mu.Unlock()
		return
	}
	pages := maps.Clone(b.pages)
	b.mu.Unlock()
	var gone []string
	for id, of := range pages {
		if live, ok := b.agents.Get(id); len(of) == 1 && (!ok || live != of[0].agent) {
			gone = append(gone, id)
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, id := range gone {
		if of := b.pages[id]; len(of) == 1 && of[0] == pages[id][0] && !of[0].running {
			delete(b.pages, id)
		}
	}
	b.swept = len(b.pages)
}
