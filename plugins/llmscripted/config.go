package llmscripted

import (
	"errors"

	"dsh/kernel"
)

// Config says what a deployment may choose; an empty one is valid.
type Config struct {
	// Provider is the id the model answers for; it may be any that no other row
	// claims.
	Provider string `json:"provider"`
	// Script is the path of a YAML file, taken from the working directory of the
	// process; "" is the built-in script.
	Script string `json:"script"`
	// ContextWindow is what the model says of itself, in tokens; 0 says nothing.
	ContextWindow int64 `json:"contextWindow"`
}

func defaults() Config { return Config{Provider: "scripted", ContextWindow: 128_000} }

// Validate reports everything that is wrong at once. The script is read when
// the row starts.
func (c *Config) Validate() error {
	var provider error
	if c.Provider == "" {
		provider = kernel.Invalid("provider", "must name the provider id to answer for, such as scripted")
	}
	return errors.Join(provider, kernel.AtLeast("contextWindow", c.ContextWindow, 0))
}
