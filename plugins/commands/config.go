package commands

import (
	"errors"
	"path/filepath"
	"slices"

	"dsh/kernel"
)

// Config says what a deployment may choose; an empty one is valid.
type Config struct {
	// UserFolders hold the user's commands: relative to the data folder, absolute,
	// or ~/x. ProjectFolders are those of the working directory. Of two commands
	// with one name the one of the later folder counts, and a project's before the
	// user's.
	UserFolders    []string `json:"userFolders"`
	ProjectFolders []string `json:"projectFolders"`
	// BesideSettings has the folder commands next to each settings file of the user
	// and of the project searched, too. Where the settings of one of them are not
	// read, its commands are not, either.
	BesideSettings bool `json:"besideSettings"`
	// MaxCommands bounds the files of one folder, MaxBytes the text of one.
	MaxCommands int `json:"maxCommands"`
	MaxBytes    int `json:"maxBytes"`
}

func defaults() Config {
	return Config{
		UserFolders: []string{"commands"}, ProjectFolders: []string{".claude/commands", ".dsh/commands"},
		MaxCommands: 500, MaxBytes: 256 << 10,
	}
}

// Validate reports everything that is wrong at once.
func (c *Config) Validate() error {
	var errs []error
	if slices.Contains(c.UserFolders, "") {
		errs = append(errs, kernel.Invalid("userFolders", "a folder must not be empty; the data folder is %q", "."))
	}
	for _, f := range c.ProjectFolders {
		if !filepath.IsLocal(f) {
			errs = append(errs, kernel.Invalid("projectFolders", "%q is no folder inside a working directory", f))
		}
	}
	errs = append(errs, kernel.AtLeast("maxCommands", c.MaxCommands, 1), kernel.AtLeast("maxBytes", c.MaxBytes, 1))
	return errors.Join(errs...)
}
