package sandboxlandlock

import (
	"errors"
	"path/filepath"
	"strconv"

	"dsh/kernel"
)

// Config says what a deployment may choose; an empty one is valid.
type Config struct {
	// Writable are absolute files and folders that programs may write under every
	// confinement, such as /dev/dri, besides the null device and its kin. What a
	// link below one of them, or below the folders of a confinement, leads to is
	// not open by that; name it, as a cache that was moved to another disk.
	Writable []string `json:"writable"`
}

func defaults() Config { return Config{} }

// Validate reports everything that is wrong at once.
func (c *Config) Validate() error {
	var errs []error
	for i, path := range c.Writable {
		if !filepath.IsAbs(path) {
			errs = append(errs, kernel.Invalid("writable/"+strconv.Itoa(i), "%q is not an absolute path", path))
		}
	}
	return errors.Join(errs...)
}
