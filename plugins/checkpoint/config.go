package checkpoint

import (
	"errors"
	"time"

	"dsh/kernel"
)

// Config says what a deployment may choose; an empty one is valid.
type Config struct {
	// MaxFiles bounds the files of a work tree, MaxTime one snapshot. A tree that is
	// beyond them has no checkpoints for the rest of the session.
	MaxFiles int             `json:"maxFiles"`
	MaxTime  kernel.Duration `json:"maxTime"`
	// MaxFileBytes is the size from which on a file's content is not kept: a rewind
	// that would have to restore it is refused.
	MaxFileBytes int64 `json:"maxFileBytes"`
	// MaxBytes bounds what a session keeps on the disk; beyond it, it has no
	// checkpoints any more.
	MaxBytes int64 `json:"maxBytes"`
	// KeepSessions is how many sessions' checkpoints are kept, the latest ones.
	KeepSessions int `json:"keepSessions"`
}

func defaults() Config {
	return Config{
		MaxFiles: 200_000, MaxTime: kernel.Duration(10 * time.Second),
		MaxFileBytes: 16 << 20, MaxBytes: 1 << 30, KeepSessions: 200,
	}
}

// Validate reports everything that is wrong at once.
func (c *Config) Validate() error {
	var short error
	if time.Duration(c.MaxTime) < time.Millisecond {
		short = kernel.Invalid("maxTime", "%v is too short; use 1ms or more", c.MaxTime)
	}
	return errors.Join(
		kernel.AtLeast("maxFiles", c.MaxFiles, 1), short,
		kernel.AtLeast("maxFileBytes", c.MaxFileBytes, 1),
		kernel.AtLeast("maxBytes", c.MaxBytes, 1),
		kernel.AtLeast("keepSessions", c.KeepSessions, 1),
	)
}
