package settings

import (
	"encoding/json"
	"errors"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"

	"dsh/kernel"
	"dsh/kernel/settings"
)

// Values of Config.Trust.
const (
	trustAlways = "always"
	trustListed = "listed"
	trustNever  = "never"
)

// Config says what a deployment may choose; an empty one is valid.
type Config struct {
	// Sources are the files that are read, of user, project and local: without the
	// key all of them, with an empty list none. The layers of the others are there
	// and empty.
	Sources []string `json:"sources,omitzero"`
	// TrustSources trusts a project and a local layer that Sources names, in every
	// working directory: whoever names the files of a folder that they choose has
	// agreed to what these say. Without Sources, Trust holds as it stands.
	TrustSources bool `json:"trustSources"`
	// Flags is a layer above all files, an object like that of a settings file. It
	// is always trusted; rules of the form /path in it are relative to the working
	// directory.
	Flags json.RawMessage `json:"flags,omitzero"`
	// UserFolders hold the user's settings.json, from low to high: relative to the
	// data folder, absolute, or ~/x.
	UserFolders []string `json:"userFolders"`
	// UserFolder, unless it is "", takes the place of UserFolders: one folder, as a
	// variable of the environment can name it.
	UserFolder string `json:"userFolder"`
	// ProjectFolders are the folders in a session's working directory that hold
	// settings.json (project) and settings.local.json (local), from low to high.
	ProjectFolders []string `json:"projectFolders"`
	// MCPFile is the name of the file with a project's MCP servers in the working
	// directory; "" reads none.
	MCPFile string `json:"mcpFile"`
	// Trust says which working directories may widen rights by their project and
	// local settings: always, listed (dsh trust) or never.
	Trust string `json:"trust" enum:"always,listed,never"`
}

func defaults() Config {
	return Config{
		UserFolders: []string{"."}, ProjectFolders: []string{".dsh"}, MCPFile: ".mcp.json",
		Trust: trustListed,
	}
}

func scopes() []string {
	return []string{settings.ScopeUser, settings.ScopeProject, settings.ScopeLocal}
}

// reads reports whether the files of a scope are read.
func (c *Config) reads(scope string) bool {
	return c.Sources == nil || slices.Contains(c.Sources, scope)
}

// consents reports whether the config itself trusts the files of a scope.
func (c *Config) consents(scope string) bool {
	return scope == settings.ScopeUser || c.TrustSources && slices.Contains(c.Sources, scope)
}

// Validate reports everything that is wrong at once.
func (c *Config) Validate() error {
	var errs []error
	for _, s := range c.Sources {
		if !slices.Contains(scopes(), s) {
			errs = append(errs, kernel.Invalid("sources", "%q is no source of settings; use %s", s, strings.Join(scopes(), ", ")))
		}
	}
	if slices.Contains(c.UserFolders, "") {
		errs = append(errs, kernel.Invalid("userFolders", "a folder must not be empty; the data folder is %q", "."))
	}
	for _, f := range c.ProjectFolders {
		if !filepath.IsLocal(f) {
			errs = append(errs, kernel.Invalid("projectFolders", "%q is no folder inside a working directory", f))
		}
	}
	if c.MCPFile != "" && (!filepath.IsLocal(c.MCPFile) || c.MCPFile == ".") {
		errs = append(errs, kernel.Invalid("mcpFile", "%q is no file inside a working directory", c.MCPFile))
	}
	if trusts := []string{trustAlways, trustListed, trustNever}; !slices.Contains(trusts, c.Trust) {
		errs = append(errs, kernel.Invalid("trust", "%q is no rule of trust; use %s", c.Trust, strings.Join(trusts, ", ")))
	}
	if _, err := readFlags(c.Flags, slog.New(slog.DiscardHandler)); err != nil {
		errs = append(errs, kernel.Invalid("flags", "%v", err))
	}
	return errors.Join(errs...)
}
