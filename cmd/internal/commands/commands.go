// Package commands holds the commands that the programs of this module share.
package commands

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"dsh/cmd/internal/launch"
)

// Set makes the commands of a program. Their texts call it dsh; a program of
// another name has its own put in.
type Set struct{ *launch.Program }

// named puts the program's name into the texts of a command and of those below
// it.
func (p Set) named(c *cobra.Command) *cobra.Command {
	if p.Name != "dsh" {
		for _, text := range []*string{&c.Short, &c.Long, &c.Example} {
			*text = strings.ReplaceAll(*text, "dsh ", p.Name+" ")
		}
		for _, sub := range c.Commands() {
			p.named(sub)
		}
	}
	return c
}

// PersistentFlags gives a root command the flags that every command takes.
func (p Set) PersistentFlags(root *cobra.Command) {
	f := root.PersistentFlags()
	f.StringVar(&p.Flags.Profile, "profile", "", "profile to run: a `name`, or the path of a YAML file")
	f.StringArrayVar(&p.Flags.Patches, "patch", nil, "profile `file` on top of the profile; may be repeated")
	f.StringArrayVar(&p.Flags.Sets, "set", nil, "one value on top of everything: `id.key=value`; may be repeated")
	f.StringVar(&p.Flags.LogLevel, "log-level", "", "debug, info, warn or error (on standard error)")
	f.StringVar(&p.Flags.Home, "home", "", "data `folder` (default $DSH_HOME, else ~/.dsh)")
}

// Named reports whether arguments call one of the commands: behind nothing but
// flags that every command takes.
func Named(args, names []string) bool {
	for len(args) > 0 {
		if slices.Contains(names, args[0]) {
			return true
		}
		name, _, given := strings.Cut(args[0], "=")
		if !slices.Contains([]string{"--profile", "--patch", "--set", "--log-level", "--home", "--data-dir"}, name) {
			return false
		}
		args = args[1:]
		if !given && len(args) > 0 {
			args = args[1:]
		}
	}
	return false
}

// JSONFlag gives a command the flag that makes its output one JSON value.
func JSONFlag(c *cobra.Command, asJSON *bool) {
	c.Flags().BoolVar(asJSON, "json", false, "print one JSON value instead of text")
}

// Help is a command help that fails on a topic there is not.
func Help() *cobra.Command {
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
				return launch.Usage(fmt.Errorf("there is no help about %q", strings.Join(args, " ")))
			}
			found.InitDefaultHelpFlag()
			found.InitDefaultVersionFlag()
			return found.Help()
		},
	}
}

// Arguments demands a number of arguments, of which what says what they are;
// most 0 is any number.
func Arguments(least, most int, what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) < least || most > 0 && len(args) > most {
			return fmt.Errorf("%s takes %s", c.CommandPath(), what)
		}
		return nil
	}
}

// Strict makes usage errors of what cobra lets pass or calls an error of another
// kind: wrong arguments, and a command that only has subcommands without one.
func Strict(c *cobra.Command) {
	if check := c.Args; check != nil {
		c.Args = func(c *cobra.Command, args []string) error {
			err := check(c, args)
			if err == nil {
				return nil
			}
			return launch.Usage(err)
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
				return launch.Usage(fmt.Errorf("%s has no command %q; it has %s", c.CommandPath(), args[0], strings.Join(names, ", ")))
			}
			return launch.Usage(fmt.Errorf("say what %s is to do: %s", c.CommandPath(), strings.Join(names, ", ")))
		}
	}
	for _, sub := range c.Commands() {
		Strict(sub)
	}
}
