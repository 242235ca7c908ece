package tooljob

import (
	"errors"

	"dsh/kernel"
	"dsh/plugins/internal/dialect"
)

// Config says what a deployment may choose; an empty one is valid.
type Config struct {
	// Dialect is dsh or claude: whether the tools are job_list, job_output and
	// job_kill, or TaskOutput and TaskStop.
	Dialect dialect.Dialect `json:"dialect" enum:"dsh,claude"`
	// MaxOutput bounds what a call shows of a task's output, in characters: its end.
	MaxOutput int `json:"maxOutput"`
	// MaxTold bounds what the message of a command's end shows of it, likewise.
	MaxTold int `json:"maxTold"`
}

func defaults() Config { return Config{Dialect: dialect.DSH, MaxOutput: 30_000, MaxTold: 2000} }

// Validate reports everything that is wrong at once.
func (c *Config) Validate() error {
	return errors.Join(
		c.Dialect.Check(),
		kernel.AtLeast("maxOutput", c.MaxOutput, 1000),
		kernel.AtLeast("maxTold", c.MaxTold, 100),
	)
}
