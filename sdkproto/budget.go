package sdkproto

// Events of budgets. Both are ours, and ignorable.
const (
	// TypeBudgetLimited: the next model request was sent with a smaller limit of its
	// output than its header says, so that its worst case fits into a budget.
	TypeBudgetLimited = "budget/limited"
	// TypeBudgetExceeded: a budget has refused a model request or a tool call, or has
	// cut one short.
	TypeBudgetExceeded = "budget/exceeded"
)

// What a budget limits.
const (
	// BudgetUSD is money, in US dollars.
	BudgetUSD = "usd"
	// BudgetTokens counts the tokens of model requests, in and out.
	BudgetTokens = "tokens"
	// BudgetToolCalls counts calls of tools.
	BudgetToolCalls = "toolCalls"
	// BudgetTime is wall time, in seconds.
	BudgetTime = "time"
)

// Scopes of budgets.
const (
	BudgetProcess  = "process"
	BudgetSession  = "session"
	BudgetTurn     = "turn"
	BudgetSubagent = "subagent"
)

// BudgetLimited records how long the answer to a request may be, in tokens, and
// which budget says so; Max is what that has, in the unit of Limit. Asked is what
// the answer might have been; 0 is no limit.
type BudgetLimited struct {
	Scope     string  `json:"scope"`
	Limit     string  `json:"limit"`
	Max       float64 `json:"max"`
	MaxTokens int64   `json:"maxTokens"`
	Asked     int64   `json:"asked,omitzero"`
}

// BudgetExceeded records which budget was in the way. Max, Spent, Reserved and
// Needed are in the unit of Limit: what the budget has, what was used of it, what is
// set aside for requests under way, and what was asked for, at least.
type BudgetExceeded struct {
	Scope    string  `json:"scope"`
	Limit    string  `json:"limit"`
	Max      float64 `json:"max"`
	Spent    float64 `json:"spent"`
	Reserved float64 `json:"reserved,omitzero"`
	Needed   float64 `json:"needed,omitzero"`
}
