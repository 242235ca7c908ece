package subagent

import (
	"errors"

	"dsh/kernel"
	"dsh/plugins/internal/dialect"
)

// Config says what a deployment may choose; an empty one is valid.
type Config struct {
	// Dialect is dsh or claude: whether the tools are subagent, list_agents and
	// interrupt_agent, or Agent alone, which knows kinds of agents.
	Dialect dialect.Dialect `json:"dialect" enum:"dsh,claude"`
	// MaxDepth is how far delegation may go: a child of a root session has depth 1,
	// and an agent of this depth cannot delegate any more (spec jsonrpc 8.4).
	MaxDepth int `json:"maxDepth"`
	// MaxChildren bounds the children of one session that run at the same time, in
	// the foreground and in the background.
	MaxChildren int `json:"maxChildren"`
	// MaxDescendants bounds those below one root session, at all depths.
	MaxDescendants int `json:"maxDescendants"`
	// Background is what a call means that does not say run_in_background.
	Background bool `json:"background"`
	// MaxAnswer bounds what of a child's answer its parent gets to see, in
	// characters. The rest is in a file.
	MaxAnswer int `json:"maxAnswer"`
}

func defaults() Config {
	return Config{Dialect: dialect.DSH, MaxDepth: 3, MaxChildren: 20, MaxDescendants: 100, MaxAnswer: 30_000}
}

// Validate reports everything that is wrong at once.
func (c *Config) Validate() error {
	return errors.Join(
		c.Dialect.Check(),
		kernel.AtLeast("maxDepth", c.MaxDepth, 1),
		kernel.AtLeast("maxChildren", c.MaxChildren, 1),
		kernel.AtLeast("maxDescendants", c.MaxDescendants, 1),
		kernel.AtLeast("maxAnswer", c.MaxAnswer, 1000),
	)
}
