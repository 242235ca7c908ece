package toolsearch

import (
	"errors"

	"dsh/kernel"
	"dsh/plugins/internal/dialect"
)

// Config says what a deployment may choose; an empty one is valid.
type Config struct {
	// Dialect is dsh or claude: whether the tools are glob and grep, or Glob and Grep,
	// and what they take and give.
	Dialect dialect.Dialect `json:"dialect" enum:"dsh,claude"`
	// MaxFiles is how many files glob gives.
	MaxFiles int `json:"maxFiles"`
	// MaxMatches is how many lines grep gives. Grep has head_limit for that.
	MaxMatches int `json:"maxMatches"`
	// LineRunes bounds one line that grep gives, in characters.
	LineRunes int `json:"lineRunes"`
	// TimeoutMs bounds one search; what was found by then is given.
	TimeoutMs int `json:"timeoutMs"`
	// Ripgrep says whether searches of many files use the program rg: auto does if
	// there is one in PATH when the first such search comes, never does not, and an
	// absolute path names one. The results are the same.
	Ripgrep string `json:"ripgrep"`
}

func defaults() Config {
	return Config{Dialect: dialect.DSH, MaxFiles: 100, MaxMatches: 100, LineRunes: 250, TimeoutMs: 20_000, Ripgrep: ripgrepAuto}
}

// Validate reports everything that is wrong at once.
func (c *Config) Validate() error {
	return errors.Join(
		c.Dialect.Check(),
		kernel.AtLeast("maxFiles", c.MaxFiles, 1),
		kernel.AtLeast("maxMatches", c.MaxMatches, 1),
		kernel.AtLeast("lineRunes", c.LineRunes, 80),
		kernel.AtLeast("timeoutMs", c.TimeoutMs, 1),
		checkRipgrep(c.Ripgrep),
	)
}
