// Package launch is what the programs of this module share before a kernel runs
// and around it: where data lies, how a profile is loaded with everything that a
// command line lays on top, and how a kernel is run with it.
package launch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"dsh/kernel"
	"dsh/kernel/external"
	"dsh/kernel/profile"
	"dsh/kernel/stdio"
	"dsh/plugins"
	"dsh/profiles"
)

// Program is one run of a program.
type Program struct {
	// Name is what the program calls itself, and what its messages begin with.
	Name string
	// Default is the profile of commands that are given none.
	Default string
	Pair    *stdio.Pair
	Stderr  io.Writer
	// Args are the arguments behind the program's name.
	Args []string
	Env  func(string) (string, bool)
	// Flags are those that every command takes.
	Flags Flags
	// Code is the exit code of a run without an error.
	Code int

	// level is that of every logger of the program; a reload may change it.
	level slog.LevelVar
}

// Flags say which profile is meant and what lies on top of it.
type Flags struct {
	Profile string
	Patches []string
	// Sets are profile.Options.Sets, SetNames what messages call them.
	Sets     []string
	SetNames map[string]string
	LogLevel string
	Home     string
}

// usageError is a command line that cannot be understood.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// Usage marks err as a mistake of the command line.
func Usage(err error) error { return usageError{err} }

// IsUsage reports whether err is a mistake of the command line.
func IsUsage(err error) bool {
	var usage usageError
	return errors.As(err, &usage)
}

// Fail says on standard error what went wrong.
func (p *Program) Fail(err error) { p.Say("%s", Indent(err.Error())) }

// Say writes one line to standard error, under the program's name.
func (p *Program) Say(format string, args ...any) {
	fmt.Fprintf(p.Stderr, p.Name+": "+format+"\n", args...)
}

// ProfileName is the profile that the flags name, or the default one.
func (p *Program) ProfileName() string {
	if p.Flags.Profile == "" {
		return p.Default
	}
	return p.Flags.Profile
}

// LoadProfile loads a profile with everything that the flags lay on top of it.
func (p *Program) LoadProfile(name string) (*profile.Profile, error) {
	home, err := p.Home()
	if err != nil {
		return nil, err
	}
	options := p.ProfileOptions(home)
	options.Name = name
	loaded, err := profile.Load(options)
	if err != nil && loaded != nil {
		// What the plugins say of the rest belongs into the same report.
		err = errors.Join(err, CheckRows(loaded))
	}
	return loaded, err
}

// ProfileOptions are what the flags say about a profile.
func (p *Program) ProfileOptions(home string) profile.Options {
	return profile.Options{
		Name: p.Flags.Profile, Embedded: profiles.FS, Home: home,
		Patches: p.Flags.Patches, Sets: p.Flags.Sets, SetNames: p.Flags.SetNames, Env: p.Env,
		Flags: map[string]string{"logLevel": p.Flags.LogLevel, "home": p.Flags.Home},
	}
}

// ProfileNames are the profiles that can be named; nil when nobody knows.
func (p *Program) ProfileNames() []string {
	home, err := p.Home()
	if err != nil {
		home = ""
	}
	names, err := profile.Names(p.ProfileOptions(home))
	if err != nil {
		return nil
	}
	return names
}

// Home is where profiles and data are looked up: the flag, else $DSH_HOME, else
// ~/.dsh. A blank value counts as unset.
func (p *Program) Home() (string, error) {
	home := p.Flags.Home
	if strings.TrimSpace(home) == "" {
		home, _ = p.Env("DSH_HOME")
	}
	if strings.TrimSpace(home) == "" {
		user, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("find the data folder: %w; set DSH_HOME or --home", err)
		}
		home = filepath.Join(user, ".dsh")
	}
	abs, err := filepath.Abs(home)
	if err != nil {
		return "", fmt.Errorf("data folder %s: %w", home, err)
	}
	return abs, nil
}

// KernelOptions are what a kernel of a profile needs. The logger is that of the
// program.
func (p *Program) KernelOptions(loaded *profile.Profile) kernel.Options {
	return kernel.Options{
		Plugins: plugins.Builtin(), External: externalPlugins(loaded), Profile: loaded,
		Stdio: p.Pair, Log: p.Logger(p.Stderr, loaded.Settings.LogLevel),
	}
}

// externalPlugins finds the executables that rows name.
func externalPlugins(loaded *profile.Profile) func(profile.Entry) (kernel.Plugin, error) {
	return external.New(filepath.Join(loaded.Settings.Home, "plugins"))
}

// CheckRows reports all that is wrong with the rows of a profile, and builds
// nothing.
func CheckRows(loaded *profile.Profile) error {
	return kernel.Options{Plugins: plugins.Builtin(), External: externalPlugins(loaded), Profile: loaded}.Check()
}

// Logger writes to w what is at least of the program's level, which becomes
// level.
func (p *Program) Logger(w io.Writer, level string) *slog.Logger {
	p.setLevel(level)
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: &p.level}))
}

func (p *Program) setLevel(level string) {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		l = slog.LevelInfo // profile.Load has checked it
	}
	p.level.Set(l)
}

// Reloadable lets a running profile be read again: on SIGHUP, and where it says
// so whenever one of its files changes. end stops watching them.
func (p *Program) Reloadable(ctx context.Context, loaded *profile.Profile, opts *kernel.Options) (end func()) {
	opts.Reload = func(context.Context) (*profile.Profile, error) {
		again, err := p.LoadProfile(p.Flags.Profile)
		if err != nil {
			return nil, err
		}
		if again.Settings.Home != loaded.Settings.Home {
			return nil, fmt.Errorf("the data folder cannot change from %s to %s while the process runs; restart it", loaded.Settings.Home, again.Settings.Home)
		}
		p.setLevel(again.Settings.LogLevel)
		return again, nil
	}
	if loaded.Settings.Reload != profile.ReloadOnChange {
		return func() {}
	}
	changed := make(chan struct{}, 1)
	opts.Changed = changed
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		err := loaded.Watch(ctx, func() {
			select {
			case changed <- struct{}{}:
			default: // one is waiting already
			}
		})
		if err != nil {
			opts.Log.Error("changes of the profile are not seen; send SIGHUP to reload", "error", err)
		}
	}()
	return func() { cancel(); <-done }
}
