package toolbash

import (
	"errors"
	"path/filepath"
	"strings"

	"dsh/kernel"
	"dsh/plugins/internal/dialect"
)

// Config says what a deployment may choose; an empty one is valid. The defaults
// are those of decision D18.
type Config struct {
	// Dialect is dsh or claude: whether the tool is bash or Bash, and what its
	// results look like.
	Dialect dialect.Dialect `json:"dialect" enum:"dsh,claude"`
	// Shell is a name that is looked up in PATH, or an absolute path; it must take
	// `-c COMMAND`. "" is bash, or sh where there is no bash.
	Shell string `json:"shell"`
	// TimeoutMs is how long a command may run when the model does not say, and
	// MaxTimeoutMs how long it may say at most, in milliseconds. Under the dialect
	// claude the first may be the larger one and is then the most, too: both come
	// from variables that are set apart from each other.
	TimeoutMs    int `json:"timeoutMs"`
	MaxTimeoutMs int `json:"maxTimeoutMs"`
	// MaxOutput bounds the output that the model gets, in characters.
	MaxOutput int `json:"maxOutput"`
	// MaxSpillBytes bounds what is kept in a file of longer output.
	MaxSpillBytes int64 `json:"maxSpillBytes"`
}

func defaults() Config {
	return Config{Dialect: dialect.DSH, TimeoutMs: 120_000, MaxTimeoutMs: 600_000, MaxOutput: 30_000, MaxSpillBytes: 64 << 20}
}

// Validate reports everything that is wrong at once.
func (c *Config) Validate() error {
	var shell error
	if strings.ContainsRune(c.Shell, filepath.Separator) && !filepath.IsAbs(c.Shell) {
		shell = kernel.Invalid("shell", "%q is a relative path; use an absolute one or a name in PATH", c.Shell)
	}
	leastMax := c.TimeoutMs
	if c.Dialect == dialect.Claude {
		leastMax = 1
	}
	return errors.Join(
		c.Dialect.Check(),
		shell,
		kernel.AtLeast("timeoutMs", c.TimeoutMs, 1),
		kernel.AtLeast("maxTimeoutMs", c.MaxTimeoutMs, leastMax),
		kernel.AtLeast("maxOutput", c.MaxOutput, 1000),
		kernel.AtLeast("maxSpillBytes", c.MaxSpillBytes, 0),
	)
}
