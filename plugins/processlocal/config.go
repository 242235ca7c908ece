package processlocal

import (
	"errors"

	"dsh/kernel"
)

// Config says what a deployment may choose; an empty one is valid.
type Config struct {
	// GraceMs is how long a program has between TERM and KILL, in milliseconds.
	// While the harness itself is ending it is never more than 300 (decision R13).
	GraceMs int `json:"graceMs"`
	// MaxOpen bounds how many programs that outlived their call may keep their
	// output open. The output of any further one is closed, which ends it at its
	// next write.
	MaxOpen int `json:"maxOpen"`
}

func defaults() Config { return Config{GraceMs: 2000, MaxOpen: 256} }

// Validate reports everything that is wrong at once.
func (c *Config) Validate() error {
	return errors.Join(
		kernel.AtLeast("graceMs", c.GraceMs, 0),
		kernel.AtLeast("maxOpen", c.MaxOpen, 0),
	)
}
