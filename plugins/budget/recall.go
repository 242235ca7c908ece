package budget

import (
	"context"
	"fmt"

	"dsh/kernel/llm"
	"dsh/kernel/session"
	"dsh/sdkproto"
)

// recall puts what a stored session has used before on its account, before anything
// is added in this process.
func (b *Budget) recall(ctx context.Context, e *entry) error {
	for at := e; at != nil; at = at.parent {
		if l := *at.own.limits; l.USD == 0 && l.Tokens == 0 && l.ToolCalls == 0 {
			continue
		}
		if err := b.recallOne(ctx, at); err != nil {
			return fmt.Errorf("what session %s has used before is not known, so its budget cannot hold: %w", at.agent.ID(), err)
		}
	}
	return nil
}

func (b *Budget) recallOne(ctx context.Context, e *entry) error {
	select {
	case e.recalling <- struct{}{}:
		defer func() { <-e.recalling }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if e.recalled {
		return nil
	}
	p := past{b: b, prices: map[[2]string]*llm.Price{}}
	if err := p.read(ctx, e.agent.ID()); err != nil {
		return err
	}
	if p.delegates {
		if err := p.readBelow(ctx, e.agent.ID(), e.agent.Log().Header().CWD); err != nil {
			return err
		}
	}
	b.mu.Lock()
	e.own.spent.add(p.spent)
	e.own.calls += p.calls
	b.mu.Unlock()
	e.recalled = true
	return nil
}

// past adds up what stored sessions have used.
type past struct {
	b         *Budget
	prices    map[[2]string]*llm.Price
	spent     amount
	calls     int64
	delegates bool
}

func (p *past) read(ctx context.Context, id string) error {
	return p.b.Agents.Events(ctx, id, 0, p.record)
}

// readBelow reads the sessions that one has delegated to, and those below them.
func (p *past) readBelow(ctx context.Context, id, cwd string) error {
	headers, err := p.b.Agents.List(ctx, cwd)
	if err != nil {
		return err
	}
	for family := []string{id}; len(family) > 0; family = family[1:] {
		for i := range headers {
			if headers[i].ParentSession != family[0] {
				continue
			}
			family = append(family, headers[i].ID)
			if err := p.read(ctx, headers[i].ID); err != nil {
				return err
			}
		}
	}
	return nil
}

func (p *past) record(r *session.Record) error {
	switch r.Event.Type {
	case sdkproto.TypeToolCall:
		p.calls++
		p.delegates = true
	case sdkproto.TypeAssistantMessage:
		m, err := session.Decode[sdkproto.AssistantMessage](r)
		if err != nil {
			return err
		}
		p.used(m.Message.Source.Provider, m.Message.Source.Model, m.Usage)
	case sdkproto.TypeCompactionSummary:
		s, err := session.Decode[sdkproto.CompactionSummary](r)
		if err != nil {
			return err
		}
		if len(s.Requests) == 0 {
			p.used(s.Provider, s.Model, s.Usage)
		}
		for i := range s.Requests {
			p.used(s.Provider, s.Model, &s.Requests[i])
		}
	case sdkproto.TypePromptSuggestion:
		s, err := session.Decode[sdkproto.PromptSuggestion](r)
		if err != nil {
			return err
		}
		p.used(s.Provider, s.Model, s.Usage)
	case sdkproto.TypeSideRequest:
		s, err := session.Decode[sdkproto.SideRequest](r)
		if err != nil {
			return err
		}
		p.used(s.Provider, s.Model, s.Usage)
	}
	return nil
}

func (p *past) used(provider, model string, u *sdkproto.Usage) {
	if u == nil {
		return
	}
	p.spent.add(amount{whole(p.price(provider, model).Cost(u) * perUSD), u.InputTokens + u.CacheReadTokens + u.CacheWriteTokens + u.OutputTokens})
}

// price is that of a model, nil where it is not known: it counts nothing then, since
// nobody may guess it.
func (p *past) price(provider, model string) *llm.Price {
	key := [2]string{provider, model}
	if known, ok := p.prices[key]; ok {
		return known
	}
	var price *llm.Price
	if adapter, err := p.b.Router.Lookup(provider); err == nil {
		if _, _, info, err := adapter.Resolve(llm.Route{Provider: provider, Model: model}); err == nil && info.Price != nil && info.Price.Currency == currency {
			price = info.Price
		}
	}
	p.prices[key] = price
	return price
}
