package outputstyles

import (
	"errors"
	"slices"

	"dsh/kernel"
)

// Config says what a deployment may choose; an empty one is valid.
type Config struct {
	// UserFolders hold the user's styles beside those next to the settings files:
	// relative to the data folder, absolute, or ~/x.
	UserFolders []string `json:"userFolders"`
	// MaxStyles bounds the files of one folder, MaxBytes the size of one.
	MaxStyles int `json:"maxStyles"`
	MaxBytes  int `json:"maxBytes"`
}

func defaults() Config {
	return Config{UserFolders: []string{folderName}, MaxStyles: 200, MaxBytes: 64 << 10}
}

// Validate reports everything that is wrong at once.
func (c *Config) Validate() error {
	var err error
	if slices.Contains(c.UserFolders, "") {
		err = kernel.Invalid("userFolders", "a folder must not be empty; the data folder is %q", ".")
	}
	return errors.Join(err, kernel.AtLeast("maxStyles", c.MaxStyles, 1), kernel.AtLeast("maxBytes", c.MaxBytes, 1))
}
