package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"dsh/cmd/internal/commands"
	"dsh/cmd/internal/launch"
	"dsh/cmd/internal/streamcmd"
	"dsh/kernel"
)

// program is one run of the command.
type program struct {
	commands.Set
	dumpConfig bool
}

// run executes the command line and gives the exit code.
func (p *program) run() int {
	root := p.command()
	args := openPrompt(p.Args)
	if cwd, _ := p.Env("DSH_CWD"); len(args) == 0 && cwd != "" && !p.Pair.Terminal() {
		// A client that knows only the path of the runtime starts it like this
		// (spec jsonrpc 12.3).
		args = []string{"--profile", "sdk"}
	}
	if name := profileIn(args); name != "" && !commands.Named(args, commandNames(root)) && p.servesStream(name, args) {
		surface := streamcmd.Surface{Program: p.Program, Args: args, Serve: true}
		return surface.Run(context.Background())
	}
	root.SetArgs(args)
	command, err := root.ExecuteContextC(context.Background())
	if err == nil {
		return p.Code
	}
	p.Fail(err)
	if launch.IsUsage(err) {
		fmt.Fprintf(p.Stderr, "Run '%s --help' for usage.\n", command.CommandPath())
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
		Version:       launch.Version(),
		SilenceUsage:  true,
		SilenceErrors: true,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return launch.Usage(fmt.Errorf("unknown command or extra argument %q; a profile takes no arguments, and a prompt of several words needs quotes", args[0]))
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
	root.SetOut(p.Pair.Out)
	root.SetErr(p.Stderr)
	root.SetVersionTemplate("dsh {{.Version}}\n")
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return launch.Usage(err) })

	p.PersistentFlags(root)
	root.Flags().BoolVar(&p.dumpConfig, "dump-config", false, "print the composed profile, each value with its origin, and exit")
	root.Flags().BoolP("version", "V", false, "print the version and exit")
	addPromptFlags(root)
	root.AddCommand(p.demoCommand(), p.Doctor(), p.MCP(), p.Permissions(), p.pluginCommand(), p.pluginsCommand(), p.Profiles(), p.schemaCommand(),
		p.Sessions(), p.Trust(), p.Version())
	root.AddCommand(topics()...)
	root.SetHelpCommand(commands.Help())
	root.InitDefaultCompletionCmd()
	p.completions(root)
	commands.Strict(root)
	return root
}

// serve runs the profile the flags name.
func (p *program) serve(ctx context.Context, o oneShot) error {
	switch {
	case p.Flags.Profile == "" && o.asked:
		p.Flags.Profile = "headless"
	case p.Flags.Profile == "":
		return launch.Usage(fmt.Errorf("say what to run: --profile NAME, -p PROMPT, or a command such as demo (profiles: %s)", strings.Join(p.ProfileNames(), ", ")))
	}
	loaded, row, err := p.loadOneShot(o)
	if err != nil {
		return err
	}
	if p.dumpConfig {
		return errors.Join(launch.CheckRows(loaded), loaded.Dump(p.Pair.Out))
	}
	opts := p.KernelOptions(loaded)
	if v, _ := p.Env("DSH_CORDIS_CONFIG"); v != "" {
		opts.Log.Warn("DSH_CORDIS_CONFIG is ignored: this runtime is configured by profiles; use --patch or $DSH_HOME/profile.yaml")
	}
	if row != "" {
		p.runOneShot(ctx, o, opts)
		return nil
	}
	end := p.Reloadable(ctx, loaded, &opts)
	defer end()
	p.Code = kernel.Run(ctx, "dsh", p.Stderr, opts)
	return nil
}
