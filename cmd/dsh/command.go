package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"dsh/kernel"
	"dsh/kernel/profile"
	"dsh/kernel/stdio"
	"dsh/profiles"
)

// program is one run of the command.
type program struct {
	pair   *stdio.Pair
	stderr io.Writer
	args   []string
	env    func(string) (string, bool)

	flags struct {
		profile    string
		patches    []string
		sets       []string
		logLevel   string
		home       string
		dumpConfig bool
	}
	// level is that of every logger of the program; a reload may change it.
	level slog.LevelVar
	code  int
}

// usageError is a command line that cannot be understood; it exits with
// kernel.ExitUsage.
type usageError struct{ error }

// run executes the command line and gives the exit code.
func (p *program) run() int {
	root := p.command()
	args := openPrompt(p.args)
	if cwd, _ := p.env("DSH_CWD"); len(args) == 0 && cwd != "" && !p.pair.Terminal() {
		// A client that knows only the path of the runtime starts it like this
		// (spec jsonrpc 12.3).
		args = []string{"--profile", "sdk"}
	}
	root.SetArgs(args)
	command, err := root.ExecuteContextC(context.Background())
	if err == nil {
		return p.code
	}
	fmt.Fprintf(p.stderr, "dsh: %s\n", indent(err.Error()))
	var usage usageError
	if errors.As(err, &usage) {
		fmt.Fprintf(p.stderr, "Run '%s --help' for usage.\n", command.CommandPath())
		return kernel.ExitUsage
	}
	return kernel.ExitFailure
}

func (p *program) command() *cobra.Command {
	root := &cobra.Command{
		Use:   "dsh --profile NAME",
		Short: "A coding-agent harness that other programs drive",
		Long: `dsh runs a harness profile: a named list of plugins that together make an agent.

  dsh --profile sdk     serve JSON-RPC on standard input and output, one object a line
  dsh -p PROMPT         run one prompt and print the outcome (profile headless)
  dsh demo              see a client drive the harness, without key or network

Profiles are built in or lie in $DSH_HOME/profiles (default ~/.dsh). On top of a
profile come $DSH_HOME/profile.yaml, --patch files, DSH_ variables and --set.
dsh doctor says what is missing on this machine.`,
		Example: `  dsh --profile sdk --dump-config
  dsh --profile sdk --set shell.enabled=false
  dsh --profile ./my-profile.yaml --patch local.yaml
  dsh -p "What is this folder about?" --provider scripted
  dsh -p - --output json < prompt.md`,
		Version:       version(),
		SilenceUsage:  true,
		SilenceErrors: true,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usageError{fmt.Errorf("unknown command or extra argument %q; a profile takes no arguments, and a prompt of several words needs quotes", args[0])}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			o, err := readOneShot(cmd)
			if err != nil {
				return err
			}
			return p.serve(cmd.Context(), o)
		},
	}
	root.SetOut(p.pair.Out)
	root.SetErr(p.stderr)
	root.SetVersionTemplate("dsh {{.Version}}\n")
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })

	f := root.PersistentFlags()
	f.StringVar(&p.flags.profile, "profile", "", "profile to run: a `name`, or the path of a YAML file")
	f.StringArrayVar(&p.flags.patches, "patch", nil, "profile `file` on top of the profile; may be repeated")
	f.StringArrayVar(&p.flags.sets, "set", nil, "one value on top of everything: `id.key=value`; may be repeated")
	f.StringVar(&p.flags.logLevel, "log-level", "", "debug, info, warn or error (on standard error)")
	f.StringVar(&p.flags.home, "home", "", "data `folder` (default $DSH_HOME, else ~/.dsh)")
	root.Flags().BoolVar(&p.flags.dumpConfig, "dump-config", false, "print the composed profile, each value with its origin, and exit")
	root.Flags().BoolP("version", "V", false, "print the version and exit")
	addPromptFlags(root)
	root.AddCommand(p.demoCommand(), p.doctorCommand(), p.mcpCommand(), p.permissionsCommand(), p.pluginCommand(), p.pluginsCommand(), p.profilesCommand(), p.schemaCommand(),
		p.sessionsCommand(), p.trustCommand(), p.versionCommand())
	root.AddCommand(topics()...)
	root.SetHelpCommand(helpCommand())
	root.InitDefaultCompletionCmd()
	p.completions(root)
	strict(root)
	return root
}

// serve runs the profile the flags name.
func (p *program) serve(ctx context.Context, o oneShot) error {
	switch {
	case p.flags.profile == "" && o.asked:
		p.flags.profile = "headless"
	case p.flags.profile == "":
		return usageError{fmt.Errorf("say what to run: --profile NAME, -p PROMPT, or a command such as demo (profiles: %s)", strings.Join(p.profileNames(), ", "))}
	}
	loaded, row, err := p.loadOneShot(o)
	if err != nil {
		return err
	}
	if p.flags.dumpConfig {
		return errors.Join(checkRows(loaded), loaded.Dump(p.pair.Out))
	}
	opts := p.kernelOptions(loaded)
	if v, _ := p.env("DSH_CORDIS_CONFIG"); v != "" {
		opts.Log.Warn("DSH_CORDIS_CONFIG is ignored: this runtime is configured by profiles; use --patch or $DSH_HOME/profile.yaml")
	}
	if row != "" {
		p.runOneShot(ctx, o, opts)
		return nil
	}
	end := p.reloadable(ctx, loaded, &opts)
	defer end()
	p.code = kernel.Run(ctx, "dsh", p.stderr, opts)
	return nil
}

// reloadable lets a running profile be read again: on SIGHUP, and where it says
// so whenever one of its files changes. end stops watching them.
func (p *program) reloadable(ctx context.Context, loaded *profile.Profile, opts *kernel.Options) (end func()) {
	opts.Reload = func(context.Context) (*profile.Profile, error) {
		again, err := p.loadProfile(p.flags.profile)
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

// loadProfile loads a profile with everything that the flags lay on top of it.
func (p *program) loadProfile(name string) (*profile.Profile, error) {
	home, err := p.home()
	if err != nil {
		return nil, err
	}
	options := p.profileOptions(home)
	options.Name = name
	loaded, err := profile.Load(options)
	if err != nil && loaded != nil {
		// What the plugins say of the rest belongs into the same report.
		err = errors.Join(err, checkRows(loaded))
	}
	return loaded, err
}

func (p *program) profileOptions(home string) profile.Options {
	return profile.Options{
		Name: p.flags.profile, Embedded: profiles.FS, Home: home,
		Patches: p.flags.patches, Sets: p.flags.sets, Env: p.env,
		Flags: map[string]string{"logLevel": p.flags.logLevel, "home": p.flags.home},
	}
}

func (p *program) profileNames() []string {
	home, err := p.home()
	if err != nil {
		home = ""
	}
	names, err := profile.Names(p.profileOptions(home))
	if err != nil {
		return nil
	}
	return names
}

// home is where profiles and data are looked up: the flag, else $DSH_HOME, else
// ~/.dsh. A blank value counts as unset.
func (p *program) home() (string, error) {
	home := p.flags.home
	if strings.TrimSpace(home) == "" {
		home, _ = p.env("DSH_HOME")
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

func (p *program) logger(level string) *slog.Logger {
	p.setLevel(level)
	return slog.New(slog.NewTextHandler(p.stderr, &slog.HandlerOptions{Level: &p.level}))
}

func (p *program) setLevel(level string) {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		l = slog.LevelInfo // profile.Load has checked it
	}
	p.level.Set(l)
}

func indent(text string) string { return strings.ReplaceAll(text, "\n", "\n  ") }
