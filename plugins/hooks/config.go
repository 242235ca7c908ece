package hooks

import (
	"errors"
	"time"

	"dsh/kernel"
	"dsh/kernel/hook"
)

// Config says what a deployment may choose; an empty one is valid.
type Config struct {
	// Limit is how long a hook may take that says nothing of it (spec stream-json
	// 5.2); PromptLimit is that of UserPromptSubmit, EndLimit that of SessionEnd.
	Limit       kernel.Duration `json:"limit"`
	PromptLimit kernel.Duration `json:"promptLimit"`
	EndLimit    kernel.Duration `json:"endLimit"`
	// Settings has the hooks of settings files and of plugins run; without it only
	// those that a client registers do.
	Settings bool `json:"settings"`
	// Shell runs the commands of settings files, as a path or a name in PATH; "" is
	// bash, or sh where there is no bash.
	Shell string `json:"shell"`
	// MaxContext is how many characters of what one hook says to the model get
	// there. The rest is in a file.
	MaxContext int `json:"maxContext"`
	// MaxBackground bounds the hooks that go on in the background; further ones are
	// waited for.
	MaxBackground int `json:"maxBackground"`
}

func defaults() Config {
	return Config{
		Limit: kernel.Duration(10 * time.Minute), PromptLimit: kernel.Duration(30 * time.Second), EndLimit: kernel.Duration(1500 * time.Millisecond),
		Settings: true, MaxContext: 10_000, MaxBackground: 16,
	}
}

// Validate reports everything that is wrong at once.
func (c *Config) Validate() error {
	return errors.Join(
		kernel.AtLeast("limit", int64(c.Limit), 1),
		kernel.AtLeast("promptLimit", int64(c.PromptLimit), 1),
		kernel.AtLeast("endLimit", int64(c.EndLimit), 1),
		kernel.AtLeast("maxContext", c.MaxContext, 100),
		kernel.AtLeast("maxBackground", c.MaxBackground, 0),
	)
}

func (c *Config) limit(event string) time.Duration {
	switch event {
	case hook.UserPromptSubmit:
		return time.Duration(c.PromptLimit)
	case hook.SessionEnd:
		return time.Duration(c.EndLimit)
	}
	return time.Duration(c.Limit)
}
