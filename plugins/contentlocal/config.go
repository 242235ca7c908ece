package contentlocal

import (
	"errors"
	"path/filepath"
	"slices"

	"dsh/kernel"
)

// Config says what a deployment may choose; an empty one is valid.
type Config struct {
	// Folders are plugins that every session has, each a folder: absolute, ~/x, or
	// relative to the working directory of the process.
	Folders []string `json:"folders"`
	// FoldersWithoutServers are the same, without the MCP servers they name.
	FoldersWithoutServers []string `json:"foldersWithoutServers"`
	// Installed is the folder of installed plugins, relative to the data folder; ""
	// uses none. They are the user's: where the user's settings files are not read,
	// they are not, either.
	Installed string `json:"installed"`
	// MaxPlugins bounds the plugins of a process.
	MaxPlugins int `json:"maxPlugins"`
}

func defaults() Config { return Config{Installed: installedName, MaxPlugins: 200} }

// Validate reports everything that is wrong at once.
func (c *Config) Validate() error {
	var errs []error
	if slices.Contains(c.Folders, "") {
		errs = append(errs, kernel.Invalid("folders", "a folder must not be empty"))
	}
	if slices.Contains(c.FoldersWithoutServers, "") {
		errs = append(errs, kernel.Invalid("foldersWithoutServers", "a folder must not be empty"))
	}
	if c.Installed != "" && !filepath.IsLocal(c.Installed) {
		errs = append(errs, kernel.Invalid("installed", "%q is no folder inside the data folder", c.Installed))
	}
	return errors.Join(append(errs, kernel.AtLeast("maxPlugins", c.MaxPlugins, 1))...)
}
