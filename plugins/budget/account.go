package budget

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"dsh/kernel/llm"
	"dsh/sdkproto"
)

// perUSD is how many of the units that money is counted in make up a US dollar:
// prices per million tokens are whole numbers of them, so nothing is lost in sums.
const perUSD = 1e12

// currency is the one that money is counted in.
const currency = "USD"

// whole makes whole units of an amount. Amounts beyond all limits are all the same.
func whole(v float64) int64 { return int64(math.Ceil(min(v, 4*maxUSD*perUSD) - 1e-3)) }

// amount is what requests come to.
type amount struct{ money, tokens int64 }

func (a *amount) add(b amount) { a.money, a.tokens = a.money+b.money, a.tokens+b.tokens }
func (a *amount) sub(b amount) { a.money, a.tokens = a.money-b.money, a.tokens-b.tokens }

// account is one budget. Budget.mu guards it.
type account struct {
	scope  string
	limits *Limits
	began  time.Time
	// spent was used, held is set aside for requests under way.
	spent, held amount
	calls       int64
}

// counts reports whether what requests come to is limited.
func (a *account) counts() bool { return a.limits.USD > 0 || a.limits.Tokens > 0 }

// deadline is when the time is up, the zero time without a limit.
func (a *account) deadline() time.Time {
	if a.limits.Time == 0 {
		return time.Time{}
	}
	return a.began.Add(time.Duration(a.limits.Time))
}

// rate is the dearest price of tokens, in units for each.
type rate struct{ in, out float64 }

// rateOf is the worst that a request with at most so many tokens of input can cost.
func rateOf(p *llm.Price, input int64) rate {
	const million = 1e6
	r := rate{max(p.Input, p.CacheRead, p.CacheWrite), p.Output}
	if l := p.Long; l != nil && input > l.Above {
		r = rate{max(r.in, l.Input, l.CacheRead, l.CacheWrite), max(r.out, l.Output)}
	}
	return rate{r.in * perUSD / million, r.out * perUSD / million}
}

// cost is what tokens come to at most.
func (r rate) cost(input, output int64) int64 {
	return whole(float64(input)*r.in + float64(output)*r.out)
}

// unlimited is the length of an answer that nothing bounds.
const unlimited = math.MaxInt64

// room is the longest answer, in tokens, that a request may have, and what of the
// budget bounds it; less than 0 where its input alone is too much. used is what
// counts as used.
func (a *account) room(r rate, input int64, used amount) (output int64, limit string) {
	output = unlimited
	if most := a.limits.USD; most > 0 {
		left := float64(floor(most)-used.money) - float64(r.cost(input, 0))
		switch {
		case left < 0:
			output, limit = -1, sdkproto.BudgetUSD
		case r.out > 0:
			output, limit = int64(left/r.out), sdkproto.BudgetUSD
			for output > 0 && used.money+r.cost(input, output) > floor(most) {
				output-- // what was rounded
			}
		}
	}
	if most := a.limits.Tokens; most > 0 {
		if left := most - used.tokens - input; left < output {
			output, limit = left, sdkproto.BudgetTokens
		}
	}
	return output, limit
}

// floor is a limit in units, and not more than it.
func floor(usd float64) int64 { return int64(math.Round(usd * perUSD)) }

// exhausted names the limit that leaves nothing for any request, "" for none.
func (a *account) exhausted() string {
	switch l := a.limits; {
	case l.USD > 0 && a.spent.money >= floor(l.USD):
		return sdkproto.BudgetUSD
	case l.Tokens > 0 && a.spent.tokens >= l.Tokens:
		return sdkproto.BudgetTokens
	}
	return ""
}

// exceeded says what is in the way of something that needs so much of a budget; 0 is
// nothing in particular.
func (a *account) exceeded(limit string, needed float64, now time.Time) *sdkproto.BudgetExceeded {
	e := &sdkproto.BudgetExceeded{Scope: a.scope, Limit: limit, Needed: needed}
	switch limit {
	case sdkproto.BudgetUSD:
		e.Max, e.Spent, e.Reserved = a.limits.USD, float64(a.spent.money)/perUSD, float64(a.held.money)/perUSD
	case sdkproto.BudgetTokens:
		e.Max, e.Spent, e.Reserved = float64(a.limits.Tokens), float64(a.spent.tokens), float64(a.held.tokens)
	case sdkproto.BudgetToolCalls:
		e.Max, e.Spent = float64(a.limits.ToolCalls), float64(a.calls)
	case sdkproto.BudgetTime:
		e.Max, e.Spent = time.Duration(a.limits.Time).Seconds(), now.Sub(a.began).Seconds()
	}
	return e
}

// explain says it in words.
func explain(e *sdkproto.BudgetExceeded) string {
	number := func(v float64) string {
		switch e.Limit {
		case sdkproto.BudgetUSD:
			return "$" + strconv.FormatFloat(math.Ceil(max(v*1e8-1e-4, 0))/1e8, 'f', -1, 64)
		case sdkproto.BudgetTime:
			return time.Duration(v * float64(time.Second)).Round(time.Millisecond).String()
		}
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	text := fmt.Sprintf("the budget %s.%s is used up: the limit is %s, spent are %s", e.Scope, e.Limit, number(e.Max), number(e.Spent))
	if e.Limit != sdkproto.BudgetUSD && e.Limit != sdkproto.BudgetTokens {
		return text
	}
	text += fmt.Sprintf(", reserved %s, left %s", number(e.Reserved), number(max(e.Max-e.Spent-e.Reserved, 0)))
	if e.Needed > 0 {
		text += fmt.Sprintf("; the request may need %s", number(e.Needed))
	}
	return text
}
