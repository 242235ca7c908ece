package jsonrpc

import (
	"errors"

	"dsh/kernel"
	"dsh/sdkproto/ndjson"
)

// Config is the row's config.
type Config struct {
	// MaxLine is the longest request line, in bytes.
	MaxLine int `json:"maxLine"`
	// MaxQueued is how many prompts of one session may wait for their answer.
	MaxQueued int `json:"maxQueued"`
}

func defaults() Config { return Config{MaxLine: ndjson.MaxLine, MaxQueued: defaultQueued} }

// Validate checks the numbers.
func (c *Config) Validate() error {
	return errors.Join(kernel.AtLeast("maxLine", c.MaxLine, 1024), kernel.AtLeast("maxQueued", c.MaxQueued, 1))
}
