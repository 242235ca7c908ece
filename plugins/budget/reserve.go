package budget

import (
	"context"
	"slices"
	"time"

	"dsh/kernel/llm"
	"dsh/sdkproto"
)

// reservation is what one attempt has set aside.
type reservation struct {
	b        *Budget
	e        *entry
	accounts []*account
	held     amount
	price    *llm.Price
	counted  counted
	request  llm.Request // without its messages
	ctx      context.Context
	// late is the first account whose time will be up, nil without.
	late *account
}

var (
	_ llm.Guard   = (*Budget)(nil)
	_ llm.Bounded = (*reservation)(nil)
)

// Reserve implements llm.Guard.
func (b *Budget) Reserve(ctx context.Context, r *llm.Request, info llm.Info) (llm.Reservation, error) {
	e := b.entry(r.SessionID)
	if err := b.recall(ctx, e); err != nil {
		return nil, err
	}
	held := &reservation{b: b, e: e, ctx: ctx, price: info.Price, accounts: b.accounts(e)}
	held.late = first(held.accounts)
	if held.price != nil && held.price.Currency != currency {
		held.price = nil
	}
	if !slices.ContainsFunc(held.accounts, (*account).counts) {
		if _, _, err := b.hold(ctx, held, want{output: 1, least: 1}); err != nil {
			return nil, err
		}
		return held, nil
	}
	config := &r.Header.Config
	var before []known
	if e != nil {
		b.mu.Lock()
		before = slices.Clone(e.known)
		b.mu.Unlock()
	}
	held.counted = count(b.seed, r, before)
	var worst rate
	switch {
	case held.price != nil:
		worst = rateOf(held.price, held.counted.tokens)
	case b.Config.Unpriced == UnpricedRefuse && slices.ContainsFunc(held.accounts, func(a *account) bool { return a.limits.USD > 0 }):
		return nil, &llm.Error{Code: llm.CodeBudget, Message: unpriced(config.Provider, config.Model)}
	}
	asked := want{held.counted.tokens, longest(config.MaxTokens, info), b.Config.LeastOutput, worst}
	output, by, err := b.hold(ctx, held, asked)
	if err != nil {
		return nil, err
	}
	if by != nil {
		by.Asked, by.MaxTokens = config.MaxTokens, output
		// A header that is frozen would be written as it was.
		r.Header = sdkproto.Header{Config: *config, AdapterDefaults: r.Header.AdapterDefaults, System: r.Header.System, Tools: r.Header.Tools}
		r.Header.Config.MaxTokens = output
		b.tell(ctx, e, sdkproto.TypeBudgetLimited, by)
	}
	held.request = llm.Request{Header: sdkproto.Header{Config: *config}}
	return held, nil
}

// longest is the longest answer that a request allows, in tokens; 0 is not known.
func longest(asked int64, info llm.Info) int64 {
	switch {
	case asked > 0:
		return asked
	case info.MaxOutput > 0:
		return info.MaxOutput
	}
	return info.ContextWindow
}

// want is what a request asks for.
type want struct {
	// input bounds the tokens of the input, output those of the answer, 0 without a
	// bound; least is the shortest answer that is worth it.
	input, output, least int64
	rate                 rate
}

// hold sets aside what a request needs, as soon as there is room for it. It gives
// the longest answer that there is room for, and what bounds it, nil where that is
// what was asked for.
func (b *Budget) hold(ctx context.Context, held *reservation, w want) (output int64, by *sdkproto.BudgetLimited, err error) {
	for {
		b.mu.Lock()
		output, by, over, waits := b.fit(held.accounts, w, time.Now())
		if over == nil {
			if output != unlimited {
				held.held = amount{w.rate.cost(w.input, output), w.input + output}
			}
			for _, a := range held.accounts {
				a.held.add(held.held)
			}
			b.mu.Unlock()
			return output, by, nil
		}
		changed := b.changed
		b.mu.Unlock()
		if !waits {
			return 0, nil, b.refused(ctx, held.e, over)
		}
		if err := held.wait(ctx, changed); err != nil {
			return 0, nil, err
		}
	}
}

// fit finds what there is room for, or what is in the way; waits says that only
// requests under way are. The caller holds mu.
func (b *Budget) fit(accounts []*account, w want, now time.Time) (output int64, by *sdkproto.BudgetLimited, over *sdkproto.BudgetExceeded, waits bool) {
	output = unlimited
	least := w.least
	if w.output > 0 {
		output, least = w.output, min(w.least, w.output)
	}
	for _, a := range accounts {
		if d := a.deadline(); !d.IsZero() && !now.Before(d) {
			return 0, nil, a.exceeded(sdkproto.BudgetTime, 0, now), false
		}
		used := a.spent
		used.add(a.held)
		room, limit := a.room(w.rate, w.input, used)
		if room < least {
			free, limit := a.room(w.rate, w.input, a.spent)
			if free >= least {
				waits = true
				over = a.exceeded(limit, 0, now)
				continue
			}
			needed := float64(w.input + least)
			if limit == sdkproto.BudgetUSD {
				needed = float64(w.rate.cost(w.input, least)) / perUSD
			}
			return 0, nil, a.exceeded(limit, needed, now), false
		}
		if room < output {
			output, by = room, &sdkproto.BudgetLimited{Scope: a.scope, Limit: limit, Max: a.exceeded(limit, 0, now).Max}
		}
	}
	return output, by, over, waits
}

// first is the account whose time is up first, nil where none has a limit of time.
func first(accounts []*account) (late *account) {
	for _, a := range accounts {
		if d := a.deadline(); !d.IsZero() && (late == nil || d.Before(late.deadline())) {
			late = a
		}
	}
	return late
}

// wait returns when something may have become free, or when no time is left.
func (h *reservation) wait(ctx context.Context, changed <-chan struct{}) error {
	var up <-chan time.Time
	if h.late != nil {
		timer := time.NewTimer(time.Until(h.late.deadline()))
		defer timer.Stop()
		up = timer.C
	}
	select {
	case <-changed:
		return nil
	case <-up:
		return nil // the next look finds that the time is up
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// refused says in the log and in an error which budget is in the way.
func (b *Budget) refused(ctx context.Context, e *entry, over *sdkproto.BudgetExceeded) *llm.Error {
	b.tell(ctx, e, sdkproto.TypeBudgetExceeded, over)
	return &llm.Error{Code: llm.CodeBudget, Message: explain(over)}
}

// Deadline implements llm.Bounded.
func (h *reservation) Deadline() (at time.Time, late func() error) {
	if h.late == nil {
		return time.Time{}, nil
	}
	return h.late.deadline(), func() error { return h.b.isLate(h.ctx, h.e, h.late) }
}

// isLate says that the time of an account is up.
func (b *Budget) isLate(ctx context.Context, e *entry, a *account) *llm.Error {
	b.mu.Lock()
	over := a.exceeded(sdkproto.BudgetTime, 0, time.Now())
	b.mu.Unlock()
	return b.refused(ctx, e, over)
}

// Settle implements llm.Reservation.
func (h *reservation) Settle(u *sdkproto.Usage, sent bool) {
	var used amount
	switch {
	case u != nil:
		used = amount{whole(h.price.Cost(u) * perUSD), u.InputTokens + u.CacheReadTokens + u.CacheWriteTokens + u.OutputTokens}
	case sent:
		used = h.held
	}
	b := h.b
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, a := range h.accounts {
		a.held.sub(h.held)
		a.spent.add(used)
	}
	if u != nil && h.e != nil && len(h.counted.at) > 0 && used.tokens > u.OutputTokens {
		h.e.known = remember(h.e.known, h.counted.learn(&h.request, u))
	}
	close(b.changed)
	b.changed = make(chan struct{})
}
