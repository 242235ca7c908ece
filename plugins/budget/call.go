package budget

import (
	"context"
	"errors"
	"time"

	"dsh/kernel/llm"
	"dsh/kernel/tool"
	"dsh/sdkproto"
)

// call puts a call of a tool on the accounts, or refuses it and ends the turn: when
// the calls or the time are used up, or when nothing is left that the model could be
// asked with.
func (b *Budget) call(ctx context.Context, t tool.Tool, in tool.Invocation, next tool.Next) (tool.Result, error) {
	e := b.entry(in.SessionID)
	if err := b.recall(ctx, e); err != nil {
		return ended(tool.Result{}, err), nil
	}
	accounts := b.accounts(e)
	if over := b.count(accounts, time.Now()); over != nil {
		return ended(tool.Result{}, b.refused(ctx, e, over)), nil
	}
	late := first(accounts)
	if late == nil {
		return next(ctx, t, in)
	}
	limited, cancel := context.WithDeadline(ctx, late.deadline())
	defer cancel()
	res, err := next(limited, t, in)
	if ctx.Err() != nil || limited.Err() == nil {
		return res, err
	}
	if err != nil {
		res = tool.Result{}
	}
	return ended(res, b.isLate(ctx, e, late)), nil
}

// count adds one call, or says what is in its way.
func (b *Budget) count(accounts []*account, now time.Time) *sdkproto.BudgetExceeded {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, a := range accounts {
		if limit := a.exhausted(); limit != "" {
			return a.exceeded(limit, 0, now)
		}
		if n := a.limits.ToolCalls; n > 0 && a.calls >= n {
			return a.exceeded(sdkproto.BudgetToolCalls, 0, now)
		}
		if d := a.deadline(); !d.IsZero() && !now.Before(d) {
			return a.exceeded(sdkproto.BudgetTime, 0, now)
		}
	}
	for _, a := range accounts {
		a.calls++
	}
	return nil
}

// ended makes a result that ends the turn. What the call has given stays.
func ended(res tool.Result, why error) tool.Result {
	f := llm.Failure(why)
	if len(res.Content) == 0 {
		res = tool.ErrorResult("BudgetError", f.Code, "Error: "+f.Message)
	}
	var over *llm.Error
	if errors.As(why, &over) {
		f = llm.Failure(over)
	}
	res.EndTurn = &sdkproto.TurnEndReason{Kind: sdkproto.EndError, Error: &f}
	return res
}
