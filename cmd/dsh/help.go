package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"dsh/kernel"
)

// topics are help texts that belong to no command.
func topics() []*cobra.Command {
	return []*cobra.Command{{
		Use:   "environment",
		Short: "The environment variables that dsh reads",
		Long: `The environment variables that dsh reads. A blank value counts as unset.

  DSH_HOME          data folder: sessions, profiles, credentials (default ~/.dsh; --home)
  DSH_LOG_LEVEL     debug, info, warn or error (--log-level)
  DSH_CWD           set, with no arguments and no terminal: run profile sdk, for old clients
  DSH_CORDIS_CONFIG is ignored, with a line on standard error

Further variables are declared by profiles, under env; each overrides one key of one
row. Those of the built-in profiles:

  DSH_SESSION_ROOT           folder of the session logs (default sessions.d in the data folder)
  DSH_SCRIPT                 script of the provider scripted
  DSH_PERMISSION_MODE        read-only, workspace-write or danger-full-access (profile sdk)
  DSH_MAX_TOKENS_AS_SUCCESS  true: an answer that reached its limit counts as success (profile sdk)

"dsh --profile NAME --dump-config" shows them all. Keys of model providers are named by
rows, as apiKeyEnv, and never written into a profile; "dsh doctor" tells which are set.
No program that a tool starts inherits those variables.`,
	}, {
		Use:   "exit-codes",
		Short: "What the exit codes mean",
		Long: fmt.Sprintf(`What the exit codes mean.

  %d    all is well. A server: shutdown was asked, input ended, or SIGTERM came.
       -p: the turn was completed.
  %d    something failed; standard error says what. -p: the turn failed, was cut short,
       or reached a limit. doctor, profiles check: something needs fixing.
  %d    the command line makes no sense, or the prompt is empty
  %d  SIGINT
  %d  a second signal cut the shutdown short`,
			kernel.ExitOK, kernel.ExitFailure, kernel.ExitUsage, kernel.ExitInterrupted, kernel.ExitTerminated),
	}}
}

// helpCommand is help that fails on a topic there is not.
func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Help about any command",
		ValidArgsFunction: func(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			var names []string
			if found, rest, err := c.Root().Find(args); err == nil && len(rest) == 0 {
				for _, sub := range found.Commands() {
					if sub.IsAvailableCommand() || sub.IsAdditionalHelpTopicCommand() {
						names = append(names, cobra.CompletionWithDesc(sub.Name(), sub.Short))
					}
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(c *cobra.Command, args []string) error {
			found, rest, err := c.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return usageError{fmt.Errorf("there is no help about %q", strings.Join(args, " "))}
			}
			found.InitDefaultHelpFlag()
			found.InitDefaultVersionFlag()
			return found.Help()
		},
	}
}

// arguments demands a number of arguments, of which what says what they are;
// most 0 is any number.
func arguments(least, most int, what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) < least || most > 0 && len(args) > most {
			return fmt.Errorf("%s takes %s", c.CommandPath(), what)
		}
		return nil
	}
}

// strict makes usage errors of what cobra lets pass or calls an error of another
// kind: wrong arguments, and a command that only has subcommands without one.
func strict(c *cobra.Command) {
	if check := c.Args; check != nil {
		c.Args = func(c *cobra.Command, args []string) error {
			err := check(c, args)
			if err == nil {
				return nil
			}
			return usageError{err}
		}
	}
	if c.HasSubCommands() && !c.Runnable() {
		c.Args = cobra.ArbitraryArgs
		c.RunE = func(c *cobra.Command, args []string) error {
			var names []string
			for _, sub := range c.Commands() {
				names = append(names, sub.Name())
			}
			if len(args) > 0 {
				return usageError{fmt.Errorf("%s has no command %q; it has %s", c.CommandPath(), args[0], strings.Join(names, ", "))}
			}
			return usageError{fmt.Errorf("say what %s is to do: %s", c.CommandPath(), strings.Join(names, ", "))}
		}
	}
	for _, sub := range c.Commands() {
		strict(sub)
	}
}
