package budget

import (
	"errors"
	"math"
	"time"

	"dsh/kernel"
	"dsh/sdkproto"
)

// Limits bound one scope; a member that is 0 or left out bounds nothing.
type Limits struct {
	// USD is what model requests may cost, in US dollars.
	USD float64 `json:"usd,omitzero"`
	// Tokens is what model requests may come to: input, cached or not, and output.
	Tokens int64 `json:"tokens,omitzero"`
	// ToolCalls is how many calls of tools the model may make, those that are denied
	// included.
	ToolCalls int64 `json:"toolCalls,omitzero"`
	// Time is how long the scope may last by the clock, waits for people included:
	// a process from its start, a session and a subagent from when this process opened
	// them, a turn from its first model request. Requests and calls that are under way
	// then are cut short; a wait between two attempts of a request is not.
	Time kernel.Duration `json:"time,omitzero"`
}

// What to do about a request whose price is not known.
const (
	UnpricedRefuse = "refuse"
	UnpricedAllow  = "allow"
)

// Config says what may be used; an empty one limits nothing.
type Config struct {
	// Process bounds all that the process does.
	Process Limits `json:"process"`
	// Session bounds each session with its subagents. What a stored session has used
	// before counts, but for the time.
	Session Limits `json:"session"`
	// Turn bounds each turn of a session, with what its subagents do meanwhile.
	Turn Limits `json:"turn"`
	// Subagent bounds each subagent, with those that it delegates to.
	Subagent Limits `json:"subagent"`
	// LeastOutput is the shortest limit of an answer, in tokens, that is worth a
	// request: one that a budget leaves less for is refused.
	LeastOutput int64 `json:"leastOutput"`
	// Unpriced says what becomes of a request to a model whose price in US dollars is
	// not known while money is limited: refuse, or allow, which counts it as free.
	Unpriced string `json:"unpriced"`
}

func defaults() Config { return Config{LeastOutput: 256, Unpriced: UnpricedRefuse} }

// maxUSD bounds a limit of money, so that it can be counted exactly.
const maxUSD = 1e6

// scopes gives the limits by the names of their keys.
func (c *Config) scopes() map[string]*Limits {
	return map[string]*Limits{
		sdkproto.BudgetProcess: &c.Process, sdkproto.BudgetSession: &c.Session,
		sdkproto.BudgetTurn: &c.Turn, sdkproto.BudgetSubagent: &c.Subagent,
	}
}

// none reports whether nothing is limited.
func (c *Config) none() bool {
	return c.Process == Limits{} && c.Session == Limits{} && c.Turn == Limits{} && c.Subagent == Limits{}
}

// Validate reports everything that is wrong at once.
func (c *Config) Validate() error {
	var errs []error
	for scope, l := range c.scopes() {
		switch {
		case math.IsNaN(l.USD) || l.USD < 0:
			errs = append(errs, kernel.Invalid(scope+"/usd", "%v is too small; use 0 or more", l.USD))
		case l.USD > maxUSD:
			errs = append(errs, kernel.Invalid(scope+"/usd", "%v is too large; use %v or less, or leave it out", l.USD, maxUSD))
		}
		errs = append(errs, kernel.AtLeast(scope+"/tokens", l.Tokens, 0), kernel.AtLeast(scope+"/toolCalls", l.ToolCalls, 0))
		if time.Duration(l.Time) < 0 {
			errs = append(errs, kernel.Invalid(scope+"/time", "%v is too short; use 0s or more", l.Time))
		}
	}
	errs = append(errs, kernel.AtLeast("leastOutput", c.LeastOutput, 1))
	if c.Unpriced != UnpricedRefuse && c.Unpriced != UnpricedAllow {
		errs = append(errs, kernel.Invalid("unpriced", "%q is not one of %s, %s", c.Unpriced, UnpricedRefuse, UnpricedAllow))
	}
	return errors.Join(errs...)
}
