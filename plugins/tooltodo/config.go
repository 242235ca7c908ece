package tooltodo

import (
	"errors"

	"dsh/kernel"
	"dsh/plugins/internal/dialect"
)

// Config says what a deployment may choose; an empty one is valid.
type Config struct {
	// Dialect is dsh or claude: whether the tool is todo_write or TodoWrite.
	Dialect dialect.Dialect `json:"dialect" enum:"dsh,claude"`
	// MaxItems bounds the entries of the list.
	MaxItems int `json:"maxItems"`
	// MaxRunes bounds the text of one entry, in characters.
	MaxRunes int `json:"maxRunes"`
}

func defaults() Config { return Config{Dialect: dialect.DSH, MaxItems: 200, MaxRunes: 1000} }

// Validate reports everything that is wrong at once.
func (c *Config) Validate() error {
	return errors.Join(
		c.Dialect.Check(),
		kernel.AtLeast("maxItems", c.MaxItems, 1),
		kernel.AtLeast("maxRunes", c.MaxRunes, 1),
	)
}
