package dcl

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"dsh/cmd/internal/commands"
	"dsh/cmd/internal/launch"
	"dsh/kernel"
)

// program runs the commands beside the wire.
type program struct{ commands.Set }

// listed are the commands with what each does: the help lists them without
// making them.
func listed() [][2]string {
	return [][2]string{
		{"doctor", "say what is missing on this machine, and which model would answer"},
		{"mcp", "add, list, show and remove MCP servers"},
		{"permissions", "say what would become of a call, and which rule decides"},
		{"plugin", "install, list, check and remove plugins"},
		{"profiles", "list the profiles, or check some"},
		{"sessions", "list, show, export and delete stored sessions"},
		{"trust", "say which folders may widen rights by their settings"},
	}
}

func names() []string {
	all := []string{"help", "completion", "version"}
	for _, c := range listed() {
		all = append(all, c[0])
	}
	return all
}

// run executes a command. A mistake of the command line is exit code 1, as
// everywhere on this surface (spec stream-json 1.7).
func (p *program) run(ctx context.Context) int {
	root := &cobra.Command{
		Use:           "dcl",
		Short:         "A coding agent that the Agent SDKs drive",
		Version:       launch.Version(),
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.NoArgs,
		RunE:          func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.SetOut(p.Pair.Out)
	root.SetErr(p.Stderr)
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return launch.Usage(err) })
	p.PersistentFlags(root)
	root.PersistentFlags().StringVar(&p.Flags.Home, "data-dir", "", "the same as --home")
	root.AddCommand(p.Doctor(), p.MCP(), p.Permissions(), p.ContentPlugin(), p.Profiles(), p.Sessions(), p.Trust(), p.Version())
	root.SetHelpCommand(commands.Help())
	root.InitDefaultCompletionCmd()
	commands.Strict(root)
	root.SetArgs(p.Args)
	command, err := root.ExecuteContextC(ctx)
	if err == nil {
		return p.Code
	}
	p.Fail(err)
	if launch.IsUsage(err) {
		fmt.Fprintf(p.Stderr, "Run '%s --help' for usage.\n", command.CommandPath())
	}
	return kernel.ExitFailure
}
