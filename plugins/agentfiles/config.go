package agentfiles

import (
	"errors"
	"slices"

	"dsh/kernel"
)

// Config says what a deployment may choose; an empty one is valid.
type Config struct {
	// UserFolders hold the user's agents beside those next to the settings files:
	// relative to the data folder, absolute, or ~/x.
	UserFolders []string `json:"userFolders"`
	// MaxAgents bounds the files of one folder, MaxBytes the size of one.
	MaxAgents int `json:"maxAgents"`
	MaxBytes  int `json:"maxBytes"`
}

func defaults() Config {
	return Config{UserFolders: []string{folderName}, MaxAgents: 200, MaxBytes: 128 << 10}
}

// Validate reports everything that is wrong at once.
func (c *Config) Validate() error {
	var err error
	if slices.Contains(c.UserFolders, "") {
		err = kernel.Invalid("userFolders", "a folder must not be empty; the data folder is %q", ".")
	}
	return errors.Join(err, kernel.AtLeast("maxAgents", c.MaxAgents, 1), kernel.AtLeast("maxBytes", c.MaxBytes, 1))
}
