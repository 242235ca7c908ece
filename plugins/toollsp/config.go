package toollsp

import (
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"dsh/kernel"
	"dsh/kernel/process"
)

// Config says what a deployment may choose; an empty one is valid and takes the
// language servers that are found.
type Config struct {
	// Servers are language servers by name. One with the name of a known kind, such
	// as go, typescript, python or rust, takes its place and its file types.
	Servers map[string]Server `json:"servers"`
	// Detect says whether known servers are looked for in PATH, too.
	Detect bool `json:"detect"`
	// StartTimeout bounds the time from the start of a server until it has answered
	// initialize.
	StartTimeout kernel.Duration `json:"startTimeout"`
	// LoadTimeout bounds how long a server that was just started is given to look at
	// the workspace before it is asked all the same. Only servers that say that they
	// are still busy are waited for.
	LoadTimeout kernel.Duration `json:"loadTimeout"`
	// Timeout bounds a call, from when the server is ready.
	Timeout kernel.Duration `json:"timeout"`
	// DiagnosticsTimeout bounds the wait for a server that reports diagnostics when
	// it sees fit.
	DiagnosticsTimeout kernel.Duration `json:"diagnosticsTimeout"`
	// IdleTimeout ends a server that long after its last call.
	IdleTimeout kernel.Duration `json:"idleTimeout"`
	// MaxServers bounds how many servers run at once.
	MaxServers int `json:"maxServers"`
	// MaxResults is how many results a call shows. What is more goes into a file.
	MaxResults int `json:"maxResults"`
	// MaxFile bounds the files that are shown to a server, in bytes.
	MaxFile int `json:"maxFile"`
}

// Server is one language server of a config.
type Server struct {
	// Command is the program: a path, or a name in PATH. Args are its arguments; it
	// must speak on standard input and output.
	Command string   `json:"command,omitzero"`
	Args    []string `json:"args,omitzero"`
	// Extensions are the ends of file names that it is for, such as ".go". A server
	// with the name of a known kind need not give them.
	Extensions []string `json:"extensions,omitzero"`
	// Language is what the protocol calls the language, for extensions that are not
	// known.
	Language string `json:"language,omitzero"`
	// Env is set for the program, on top of the harness's environment without its
	// credentials.
	Env map[string]string `json:"env,omitzero"`
	// Options are given to the server when it starts (initializationOptions of the
	// protocol).
	Options map[string]any `json:"options,omitzero"`
	// Settings answer the server's questions for its configuration.
	Settings map[string]any `json:"settings,omitzero"`
	// Confine is how the program is confined; "" is the deployment's policy.
	Confine string `json:"confine,omitzero" enum:"read-only,workspace-write,danger-full-access"`
	// Disabled leaves the files of this server without any.
	Disabled bool `json:"disabled,omitzero"`
}

func defaults() Config {
	return Config{
		Detect:             true,
		StartTimeout:       kernel.Duration(60 * time.Second),
		LoadTimeout:        kernel.Duration(60 * time.Second),
		Timeout:            kernel.Duration(60 * time.Second),
		DiagnosticsTimeout: kernel.Duration(10 * time.Second),
		IdleTimeout:        kernel.Duration(15 * time.Minute),
		MaxServers:         8,
		MaxResults:         100,
		MaxFile:            4 << 20,
	}
}

// Validate reports everything that is wrong at once.
func (c *Config) Validate() error {
	positive := func(key string, d kernel.Duration) error {
		if d > 0 {
			return nil
		}
		return kernel.Invalid(key, `%v is too short; use a duration such as "30s"`, time.Duration(d))
	}
	errs := []error{
		positive("startTimeout", c.StartTimeout),
		positive("loadTimeout", c.LoadTimeout),
		positive("timeout", c.Timeout),
		positive("diagnosticsTimeout", c.DiagnosticsTimeout),
		positive("idleTimeout", c.IdleTimeout),
		kernel.AtLeast("maxServers", c.MaxServers, 1),
		kernel.AtLeast("maxResults", c.MaxResults, 1),
		kernel.AtLeast("maxFile", c.MaxFile, 1),
	}
	for _, name := range slices.Sorted(maps.Keys(c.Servers)) {
		s := c.Servers[name]
		at := func(key, format string, args ...any) {
			errs = append(errs, kernel.Invalid("servers/"+strings.NewReplacer("~", "~0", "/", "~1").Replace(name)+"/"+key, format, args...))
		}
		if s.Command == "" && !s.Disabled {
			at("command", "a language server needs a command; set it, or disabled")
		}
		if s.Command != "" && s.Command != filepath.Base(s.Command) && !filepath.IsAbs(s.Command) {
			at("command", "%q is relative to a folder that changes; use an absolute path, or a name in PATH", s.Command)
		}
		if len(s.Extensions) == 0 && kindNamed(name) == nil {
			at("extensions", "%q is no known kind, so it must be said which files it is for; set extensions such as [\".go\"], or use one of the names %s", name, kindNames())
		}
		for _, ext := range s.Extensions {
			if len(ext) < 2 || ext[0] != '.' || strings.ContainsAny(ext, `/\`) {
				at("extensions", "%q is not the end of file names; write it like \".go\"", ext)
			}
		}
		switch s.Confine {
		case "", process.ReadOnly, process.WorkspaceWrite, process.FullAccess:
		default:
			at("confine", "%q is no mode; use %s, %s or %s", s.Confine, process.ReadOnly, process.WorkspaceWrite, process.FullAccess)
		}
	}
	return errors.Join(errs...)
}
